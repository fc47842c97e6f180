//! The paper's link with the agent on its gateway, and those who ask it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pendulum_lab::agent;
use pendulum_lab::netns::Host;
use pendulum_lab::process::Process;
use pendulum_lab::topology::{IpVersion, LAN_DEVICE, WAN_DEVICE};
use pendulum_lab::traffic::{Ends, Quic, Spin, Transfer, TransferSpec, UdpFlow, UdpSpec};
use pendulum_lab::truth::{Capture, QueueReading};
use pendulum_lab::{Lab, LinkSpec};
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::handshakes::Handshakes;

const LISTEN: &str = "127.0.0.1:9924";
/// How long anything is waited for. Generous: a loaded machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than the test; transfers end with it.
const TRAFFIC: Duration = Duration::from_secs(3600);
/// Captured of each packet: all headers.
const SNAP: u32 = 128;

/// The lab, the agent, and where their files are.
pub(crate) struct Rig {
    lab: Lab,
    gateway: Host,
    agent: Process,
    directory: tempfile::TempDir,
}

/// A client of the stream.
pub(crate) struct Follower {
    curl: Process,
}

/// Captures on both sides of the gateway.
pub(crate) struct Captures {
    wan: Capture,
    lan: Capture,
}

/// Their files.
pub(crate) struct Files {
    wan: PathBuf,
    lan: PathBuf,
}

/// Calls `action` with a running agent on the link of 000 Fig. 1; then everything is taken down. Says so and returns if
/// this user may not build one.
pub(crate) fn with_rig(test: &str, action: impl FnOnce(&mut Rig)) {
    with_rig_of(test, LinkSpec::FIG1, true, action);
}

/// The same on another link, whose rates are configured or not.
pub(crate) fn with_rig_of(test: &str, spec: LinkSpec, told: bool, action: impl FnOnce(&mut Rig)) {
    if !pendulum_lab::is_root() {
        eprintln!("SKIPPED {test}: network namespaces need root");
        return;
    }
    let mut rig = Rig::start(spec, told);
    action(&mut rig);
    let Rig { lab, mut agent, .. } = rig;
    let status = agent.stop(libc::SIGTERM, PATIENCE).unwrap();
    assert!(status.success(), "the agent ended with {status}: {}", agent.stderr().unwrap());
    lab.stop().unwrap();
}

impl Rig {
    fn start(spec: LinkSpec, told: bool) -> Self {
        let lab = Lab::start(spec).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let rates =
            format!("uplink-rate = \"{}\"\ndownlink-rate = \"{}\"\n", spec.uplink.rate, spec.downlink.rate);
        let config = format!(
            "listen = \"{LISTEN}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\n\
             {}[events]\nlog = \"{}\"\n",
            if told { rates.as_str() } else { "" },
            directory.path().join("events.jsonl").display()
        );
        let file = directory.path().join("pendulum.toml");
        std::fs::write(&file, config).unwrap();
        let gateway = lab.gateway();
        let mut command = gateway.command(env!("CARGO_BIN_EXE_pendulum")).unwrap();
        command.arg("run").arg("--config").arg(&file);
        let agent = gateway.spawn(command, "agent").unwrap();
        let rig = Self { lab, gateway, agent, directory };
        let deadline = Instant::now() + PATIENCE;
        while agent::ask(&rig.gateway, "/readyz").is_err() {
            assert!(Instant::now() < deadline, "the agent is not ready: {}", rig.agent.stderr().unwrap());
            std::thread::sleep(Duration::from_millis(100));
        }
        rig
    }

    /// The answer to a request.
    pub(crate) fn get(&self, path: &str) -> String {
        agent::ask(&self.gateway, &format!("/{path}")).unwrap()
    }

    /// The link as the agent sees it now.
    pub(crate) fn link(&self) -> Value {
        let state: Value = serde_json::from_str(&self.get("api/v1/state")).unwrap();
        state["links"][0].clone()
    }

    /// The link as soon as something holds for it.
    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let link = self.link();
            if holds(&link) {
                return link;
            }
            assert!(Instant::now() < deadline, "waited in vain for {what}: {link:#}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// A transfer that goes on until it is dropped.
    pub(crate) fn transfer(&self, direction: Direction) -> Transfer {
        Transfer::start(&self.lab, TransferSpec::new(direction, TRAFFIC)).unwrap()
    }

    /// The same by this version of IP.
    pub(crate) fn transfer_over(&self, direction: Direction, ip: IpVersion) -> Transfer {
        let spec = TransferSpec { ip, ..TransferSpec::new(direction, TRAFFIC) };
        Transfer::start(&self.lab, spec).unwrap()
    }

    /// The same with another congestion control than reno.
    pub(crate) fn transfer_by(&self, direction: Direction, congestion_control: &str) -> Transfer {
        let spec = TransferSpec::new(direction, TRAFFIC);
        let spec = TransferSpec { congestion_control: congestion_control.into(), ..spec };
        Transfer::start(&self.lab, spec).unwrap()
    }

    /// Fetches so much payload, as a page of the web does, and waits for its end.
    pub(crate) fn fetch(&self, bytes: u64) {
        let spec = TransferSpec { bytes: Some(bytes), ..TransferSpec::new(Direction::Down, PATIENCE) };
        Transfer::start(&self.lab, spec).unwrap().finish(PATIENCE).unwrap();
    }

    /// Datagrams as of QUIC at the uplink's rate, until they are dropped.
    pub(crate) fn datagrams_up(&self) -> UdpFlow {
        self.datagrams(UdpSpec::quic(Direction::Up, self.lab.spec().uplink.rate, TRAFFIC))
    }

    /// A flow of datagrams, until it is dropped or over.
    pub(crate) fn datagrams(&self, spec: UdpSpec) -> UdpFlow {
        UdpFlow::start(&self.lab, spec).unwrap()
    }

    /// Real QUIC, nothing of it under way yet.
    pub(crate) fn quic(&self, congestion_control: &str, spin: Spin) -> Quic {
        Quic::start(&self.lab, congestion_control, spin).unwrap()
    }

    /// A transfer of QUIC over a new connection that goes on until `quic` is dropped.
    pub(crate) fn quic_transfer(&self, quic: &Quic, direction: Direction) {
        quic.transfer(&self.lab, direction, Ends::of(direction)).unwrap();
    }

    /// Connections of QUIC, one each `interval`, until they are dropped.
    pub(crate) fn handshakes(&self, interval: Duration) -> Handshakes {
        Handshakes::start(&self.lab, interval)
    }

    /// What the agent has reported, oldest first.
    pub(crate) fn events(&self) -> Vec<Value> {
        let mut report: Value = serde_json::from_str(&self.get("api/v1/events?limit=1000")).unwrap();
        serde_json::from_value(report["events"].take()).unwrap()
    }

    /// What the kernel says of the buffer of a direction, wherever it stands.
    pub(crate) fn kernel_queue(&self, direction: Direction) -> QueueReading {
        let (host, device) = self.lab.queue(direction);
        QueueReading::take(&host, device).unwrap()
    }

    pub(crate) fn follow_stream(&self) -> Follower {
        let mut command = self.gateway.command("curl").unwrap();
        command.args(["-sfN", &format!("http://{LISTEN}/api/v1/stream?link={WAN_DEVICE}")]);
        Follower { curl: self.gateway.spawn(command, "stream").unwrap() }
    }

    pub(crate) fn capture(&self) -> Captures {
        let start = |device| {
            let file = self.directory.path().join(format!("{device}.pcap"));
            Capture::start(&self.gateway, device, &file, SNAP).unwrap()
        };
        Captures { wan: start(WAN_DEVICE), lan: start(LAN_DEVICE) }
    }

    /// What `pendulum replay` makes of the captures.
    pub(crate) fn replay(&self, files: &Files, format: &str) -> String {
        let spec = self.lab.spec();
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_pendulum"))
            .args(["replay", "--format", format, "--wan"])
            .arg(&files.wan)
            .arg("--lan")
            .arg(&files.lan)
            .args(["--uplink-rate", &spec.uplink.rate.to_string()])
            .args(["--downlink-rate", &spec.downlink.rate.to_string()])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The event log once it has everything up to now.
    pub(crate) fn event_log(&self) -> String {
        std::thread::sleep(Duration::from_millis(500));
        std::fs::read_to_string(self.directory.path().join("events.jsonl")).unwrap()
    }
}

impl Captures {
    pub(crate) fn stop(self) -> Files {
        let files = Files { wan: self.wan.file().to_owned(), lan: self.lan.file().to_owned() };
        for capture in [self.wan, self.lan] {
            assert_eq!(capture.stop().unwrap().dropped_by_kernel, 0, "tcpdump was too slow");
        }
        files
    }
}

impl Follower {
    /// Names and data of all events so far, in order.
    pub(crate) fn stop(mut self) -> Vec<(String, Value)> {
        self.curl.stop(libc::SIGTERM, PATIENCE).unwrap();
        let text = self.curl.stdout().unwrap();
        // The last one may be cut off.
        let whole = text.rfind("\n\n").map_or("", |end| &text[..end]);
        whole.split("\n\n").filter(|event| !event.starts_with(':')).map(event).collect()
    }
}

fn event(text: &str) -> (String, Value) {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
    let data = field("data:");
    let data = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error} in {data:?}"));
    (field("event:").to_owned(), data)
}
