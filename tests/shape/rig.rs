//! A lab whose gateway runs the agent with a `[shape]` table, and real traffic through it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use pendulum_lab::agent;
use pendulum_lab::process::Process;
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::{Lab, LinkSpec};
use pendulum_model::segment::Direction;
use serde_json::Value;

pub(crate) const LISTEN: &str = "127.0.0.1:9924";
const PATIENCE: Duration = Duration::from_secs(60);
/// Transfers end late on a full buffer: iperf3's last exchange waits in it.
const TRANSFER_PATIENCE: Duration = Duration::from_secs(60);

/// One lab at a time: two would share the processors.
static ALONE: Mutex<()> = Mutex::new(());

/// Why a test cannot run here; printed as the test groups expect it.
pub(crate) fn skipped(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
}

/// Call `action` with a lab. Says so and returns if this user may not build one.
pub(crate) fn with_rig(test: &str, spec: LinkSpec, action: impl FnOnce(&mut Rig)) {
    if !pendulum_lab::is_root() {
        return skipped(test, "needs root");
    }
    let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut rig = Rig {
        lab: Lab::start(spec).expect("the lab starts"),
        directory: tempfile::tempdir().expect("a scratch directory"),
        began: Instant::now(),
        tells_rates: true,
        told_uplink: None,
    };
    action(&mut rig);
    rig.lab.stop().expect("the lab goes away");
    drop(alone);
}

/// The same where the agent is to shape, which takes a kernel with sch_cake.
pub(crate) fn with_cake(test: &str, spec: LinkSpec, action: impl FnOnce(&mut Rig)) {
    with_rig(test, spec, |rig| {
        let probe = "ip link add probe type ifb && tc qdisc add dev probe root cake; found=$?; \
                     ip link del probe; exit $found";
        match rig.gateway(&["sh", "-c", probe]) {
            Ok(_) => action(rig),
            Err(reason) => skipped(test, &format!("no cake in this kernel: {}", reason.replace('\n', " "))),
        }
    });
}

/// The lab, and where configurations lie.
pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) directory: tempfile::TempDir,
    pub(crate) began: Instant,
    /// Whether configurations name the link's rates.
    pub(crate) tells_rates: bool,
    /// The uplink's rate that they name instead of the link's.
    pub(crate) told_uplink: Option<&'static str>,
}

/// What both transfers have delivered, bit/s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Goodput {
    pub(crate) up: f64,
    pub(crate) down: f64,
}

impl Rig {
    /// Start the agent on the gateway with this `[shape]` table, and wait until it measures.
    pub(crate) fn agent(&self, shape: &str) -> Process {
        let agent = self.start(shape);
        let end = Instant::now() + PATIENCE;
        while agent::ask(&self.lab.gateway(), "/readyz").is_err() {
            assert!(
                Instant::now() < end,
                "the agent does not get ready: {}",
                agent.stderr().unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        agent
    }

    fn start(&self, shape: &str) -> Process {
        let file = self.configuration(shape);
        let gateway = self.lab.gateway();
        let mut command = gateway.command(env!("CARGO_BIN_EXE_pendulum")).expect("a command");
        command.arg("run").arg("--config").arg(file);
        gateway.spawn(command, "agent").expect("the agent starts")
    }

    /// Write the configuration; where it lies.
    pub(crate) fn configuration(&self, shape: &str) -> PathBuf {
        let spec = self.lab.spec();
        let file = self.directory.path().join("pendulum.toml");
        let rates = match self.tells_rates {
            true => {
                let uplink = self.told_uplink.map_or_else(|| spec.uplink.rate.to_string(), str::to_owned);
                format!("uplink-rate = \"{uplink}\"\ndownlink-rate = \"{}\"\n", spec.downlink.rate)
            }
            false => String::new(),
        };
        let text =
            format!("listen = \"{LISTEN}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\n{rates}[shape]\n{shape}\n");
        std::fs::write(&file, text).expect("a configuration");
        file
    }

    /// The output of a program on the gateway.
    pub(crate) fn gateway(&self, command: &[&str]) -> Result<String, String> {
        self.lab.gateway().run(command[0], &command[1..]).map_err(|error| error.to_string())
    }

    /// Qdiscs, classes, filters and devices of the gateway, as tc and ip show them, without counters.
    pub(crate) fn inventory(&self) -> String {
        let mut all = String::new();
        for command in [
            ["tc", "qdisc", "show"].as_slice(),
            &["tc", "filter", "show", "dev", WAN_DEVICE, "egress"],
            &["tc", "filter", "show", "dev", WAN_DEVICE, "ingress"],
            &["ip", "-o", "link", "show"],
        ] {
            // Without clsact there is nothing to list.
            all += &self.gateway(command).unwrap_or_default();
        }
        all
    }

    pub(crate) fn state(&self) -> Value {
        let text = agent::ask(&self.lab.gateway(), "/api/v1/state").expect("the agent answers");
        serde_json::from_str(&text).expect("JSON")
    }

    /// The root qdisc of the shaping device for one direction (`pdl-up`, `pdl-dn`), as tc shows it, counters and all.
    pub(crate) fn root(&self, device: &str) -> Value {
        let command = format!("tc -s -j qdisc show dev $(ls /proc/sys/net/ipv4/conf | grep {device})");
        let shown = self.gateway(&["sh", "-c", &command]).expect("qdiscs");
        let all: Value = serde_json::from_str(&shown).expect("JSON");
        let root = all.as_array().and_then(|all| all.iter().find(|qdisc| qdisc["root"] == true));
        root.expect("a root qdisc").clone()
    }

    pub(crate) fn metrics(&self) -> String {
        agent::ask(&self.lab.gateway(), "/metrics").expect("the agent answers")
    }

    /// Reno both ways for whole seconds, to the end.
    pub(crate) fn two_way(&self, seconds: u64) -> Goodput {
        let start = |direction| {
            let spec = TransferSpec::new(direction, Duration::from_secs(seconds));
            Transfer::start(&self.lab, spec).expect("a transfer starts")
        };
        let mut transfers = [start(Direction::Up), start(Direction::Down)];
        let end = Instant::now() + TRANSFER_PATIENCE;
        while transfers.iter_mut().any(|transfer| !transfer.is_finished().expect("it can be asked")) {
            assert!(Instant::now() < end, "the transfers do not end");
            std::thread::sleep(Duration::from_millis(100));
        }
        let [up, down] = transfers.map(|mut transfer| {
            let report = transfer.report().expect("a report");
            // The start, with slow start and an empty queue, is not what is asked for.
            report.receiver.mean_bps(seconds as f64 / 4.0, seconds as f64).expect("intervals")
        });
        Goodput { up, down }
    }
}

/// Waits until `seen` says yes.
pub(crate) fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The one sample of a family with all these labels.
pub(crate) fn value(metrics: &str, name: &str, labels: &[&str]) -> f64 {
    let wanted = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'))
            && labels.iter().all(|label| line.contains(label))
    };
    let lines: Vec<&str> = metrics.lines().filter(wanted).collect();
    let [line] = lines.as_slice() else { panic!("{name} {labels:?}: {lines:?}") };
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

/// End the agent in order.
pub(crate) fn stop(mut agent: Process) {
    let status = agent.stop(libc::SIGTERM, Duration::from_secs(10)).expect("it stops");
    assert!(status.success(), "{status}: {}", agent.stderr().unwrap_or_default());
}
