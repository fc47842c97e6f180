//! The testbed on the real kernel: does the link do what was asked, and is everything gone afterwards?
//!
//! Needs root; says so and checks nothing where it is not given.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pendulum_lab::agent::Agent;
use pendulum_lab::delay::Delays;
use pendulum_lab::experiment::{
    Case, CaseReport, RunOptions, Scenario, TimedTransfer, prediction, run_scenario,
};
use pendulum_lab::lab::{Lab, LinkSpec};
use pendulum_lab::record::{Registry, RunRecord};
use pendulum_lab::relay::Relay;
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::Role;
use pendulum_lab::traffic::TransferSpec;
use pendulum_lab::truth::{Capture, LinkCounters};
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

#[path = "lab/experiments.rs"]
mod experiments;
#[path = "lab/hidden.rs"]
mod hidden;
#[path = "lab/lines.rs"]
mod lines;
#[path = "lab/machines.rs"]
mod machines;
#[path = "lab/refusals.rs"]
mod refusals;
#[path = "lab/traced.rs"]
mod traced;

fn skip(reason: &str) {
    // Not eprintln!: the test harness would keep that to itself.
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "SKIPPED {}: {reason}", thread.name().unwrap_or("lab"));
}

/// Prints why if not.
fn can_run() -> bool {
    let root = pendulum_lab::is_root();
    if !root {
        skip("network namespaces need root");
    }
    root
}

fn seconds(value: u64) -> Duration {
    Duration::from_secs(value)
}

fn link(down: &str, down_buffer: BufferSize, up: &str, up_buffer: BufferSize) -> LinkSpec {
    LinkSpec {
        downlink: Shaper { rate: down.parse().unwrap(), buffer: down_buffer },
        uplink: Shaper { rate: up.parse().unwrap(), buffer: up_buffer },
        ..LinkSpec::default()
    }
}

fn case(name: &str, from: u64, to: u64) -> Case {
    Case::new(name, seconds(from), seconds(to), &LinkSpec::FIG1)
}

fn transfer(at: u64, length: u64, direction: Direction) -> TimedTransfer {
    TimedTransfer { at: seconds(at), spec: TransferSpec::new(direction, seconds(length)) }
}

fn run_alone(link: LinkSpec, direction: Direction) -> CaseReport {
    let scenario = Scenario {
        name: "alone".into(),
        link,
        length: seconds(6),
        transfers: vec![transfer(0, 6, direction)],
        cases: vec![case("alone", 2, 6)],
        ..Scenario::default()
    };
    run_scenario(&scenario, &RunOptions::default(), &|_, _| {}).unwrap().remove(0)
}

fn truth(case: &CaseReport, path: &str) -> f64 {
    let value = case.truth.pointer(path).and_then(serde_json::Value::as_f64);
    value.unwrap_or_else(|| panic!("no {path} in {}", case.truth))
}

/// Two labs with different links at the same time: each keeps to its own rate and its own buffer.
#[test]
fn two_labs_at_once_have_the_rates_and_buffers_asked_for() {
    if !can_run() {
        return;
    }
    let first = link("8mbit", BufferSize::Bytes(40_000), "2mbit", BufferSize::Bytes(20_000));
    let second = link("5mbit", BufferSize::Bytes(30_000), "1mbit", BufferSize::Packets(12));
    let (download, upload) = std::thread::scope(|scope| {
        let upload = scope.spawn(|| run_alone(second, Direction::Up));
        (run_alone(first, Direction::Down), upload.join().unwrap())
    });
    // What leaves a queue that has something leaves at the shaper's rate. How much of the time it has something is the senders' matter.
    let share = |case: &CaseReport, queue: &str, rate: f64| truth(case, &format!("/{queue}/busy_bps")) / rate;
    assert!((0.9..1.06).contains(&share(&download, "downlink_queue", 8e6)), "{download:?}");
    assert!((0.9..1.06).contains(&share(&upload, "uplink_queue", 1e6)), "{upload:?}");
    // Nor does more arrive than that.
    let payload = |measured: Option<f64>, rate: f64| measured.unwrap() / (rate * prediction::PAYLOAD_SHARE);
    let (down, up) = (download.measured.figures.download_bps, upload.measured.figures.upload_bps);
    assert!(
        (0.2..1.02).contains(&payload(down, 8e6)) && (0.2..1.02).contains(&payload(up, 1e6)),
        "{download:?} {upload:?}"
    );
    // Reno fills any drop-tail buffer, and nothing can go beyond its limit.
    let queue = truth(&download, "/downlink_queue/max_bytes");
    assert!((20_000.0..=40_000.0).contains(&queue), "{download:?}");
    let queue = truth(&upload, "/uplink_queue/max_bytes");
    assert!((6.0 * 1514.0..=12.0 * 1514.0).contains(&queue), "{upload:?}");
}

#[test]
fn nothing_but_the_bottleneck_queues() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    let mut queues = Vec::new();
    for role in Role::ALL {
        let json = lab.host(role).run("tc", &["-j", "qdisc", "show"]).unwrap();
        let qdiscs: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
        for qdisc in qdiscs.iter().filter(|qdisc| qdisc["kind"] != "noqueue") {
            queues.push(format!(
                "{role} {} {}",
                qdisc["dev"].as_str().unwrap(),
                qdisc["kind"].as_str().unwrap()
            ));
        }
        let features = if role == Role::Gateway {
            lab.host(role).run("ethtool", &["-k", "wan0"]).unwrap()
        } else {
            continue;
        };
        for feature in
            ["tcp-segmentation-offload: off", "generic-receive-offload: off", "tx-checksumming: off"]
        {
            assert!(features.contains(feature), "{feature} in {features}");
        }
    }
    assert_eq!(queues, ["r1 link0 tbf", "r1 link0 bfifo", "r2 wan0 tbf", "r2 wan0 bfifo"]);
}

#[test]
fn a_capture_holds_what_the_device_counts() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    let gateway = lab.gateway();
    let file = std::env::temp_dir().join(format!("pendulum-lab-{}.pcap", lab.id()));
    let packets = || {
        let counters = LinkCounters::take(&gateway, "wan0").unwrap();
        counters.sent_packets + counters.received_packets
    };
    // IPv6 group reports come at any time in a young namespace, so the counters are read on both sides of each edge.
    let before_start = packets();
    let capture = Capture::start(&gateway, "wan0", &file, 160).unwrap();
    let after_start = packets();
    lab.host(Role::D2).run("ping", &["-c", "20", "-i", "0.01", "198.18.1.2"]).unwrap();
    let before_stop = packets();
    let counts = capture.stop().unwrap();
    let after_stop = packets();
    std::fs::remove_file(&file).unwrap();
    assert!(before_stop - after_start >= 40);
    assert!((before_stop - after_start..=after_stop - before_start).contains(&counts.captured), "{counts:?}");
    assert_eq!(counts.dropped_by_kernel, 0);
}

/// A ping takes both delays of its path, both ways; without them the same path takes less.
#[test]
fn delays_are_made_and_go_with_the_lab() {
    if !can_run() {
        return;
    }
    let (propagation, d1_access) = (Duration::from_millis(20), Duration::from_millis(15));
    let delays = Delays { propagation, d1_access, ..Delays::NONE };
    let fastest = |lab: &Lab, to| {
        let said = lab.host(Role::D2).run("ping", &["-q", "-c", "5", "-i", "0.05", to]).unwrap();
        let times = said.rsplit_once("= ").unwrap().1;
        times.split('/').next().unwrap().parse::<f64>().unwrap()
    };
    let lab = Lab::start(LinkSpec { delays, ..LinkSpec::default() }).unwrap();
    assert!(fastest(&lab, "198.18.1.2") >= 70.0);
    let u1 = fastest(&lab, "198.18.2.2");
    assert!((40.0..70.0).contains(&u1), "{u1}");
    let known = || Command::new("ip").args(["netns", "list"]).output().unwrap().stdout;
    let name = format!("pdl-{}-", lab.id());
    assert!(String::from_utf8_lossy(&known()).contains(&name));
    lab.stop().unwrap();
    assert!(!String::from_utf8_lossy(&known()).contains(&name));
    let refused = Lab::start(LinkSpec { delays, offloads: true, ..LinkSpec::default() });
    assert!(refused.unwrap_err().to_string().contains("--offloads"));
}

#[test]
fn a_relay_reaches_into_a_machine() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    let gateway = lab.gateway();
    let listener = gateway.inside(|| TcpListener::bind("127.0.0.1:0")).unwrap().unwrap();
    let target = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut question = [0; 4];
        stream.read_exact(&mut question).unwrap();
        stream.write_all(&question.map(|byte| byte.to_ascii_uppercase())).unwrap();
    });
    let relay = Relay::start("127.0.0.1:0".parse().unwrap(), gateway, target).unwrap();
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.write_all(b"ping").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "PING");
    server.join().unwrap();
}

#[test]
fn an_agent_that_does_not_run_is_named_with_its_last_words() {
    if !can_run() {
        return;
    }
    let lab = Lab::start(LinkSpec::default()).unwrap();
    let script = std::env::temp_dir().join(format!("pendulum-lab-agent-{}", lab.id()));
    std::fs::write(&script, "#!/bin/sh\necho \"wants $*\" >&2\nexit 1\n").unwrap();
    Command::new("chmod").arg("+x").arg(&script).status().unwrap();
    let error = Agent::start(&lab, &script).unwrap_err().to_string();
    std::fs::remove_file(&script).unwrap();
    assert!(error.contains("pendulum-lab-agent-"), "{error}");
    assert!(
        error.contains("wants run --wan wan0 --lan lan0 --uplink-rate 196kbit --downlink-rate 2400kbit"),
        "{error}"
    );
}

/// A `pendulum-lab` process of this test's own.
struct Program(Child);

impl Program {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pendulum-lab"));
        Self(command.args(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Its record, once it has `processes` children.
    fn record(&self, processes: usize) -> RunRecord {
        let deadline = Instant::now() + seconds(30);
        loop {
            let mut runs = Registry::system().runs().unwrap().into_iter();
            let mine = runs.find(|run| run.owner().is_some_and(|owner| owner.pid == self.0.id()));
            if let Some(run) =
                mine.filter(|run| run.namespaces().len() == 7 && run.processes().len() >= processes)
            {
                return run;
            }
            assert!(Instant::now() < deadline, "the lab does not come up");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn left_of(run: &RunRecord, namespaces: &[String]) -> Vec<String> {
    let shown = |args: &[&str]| {
        let output = Command::new("ip").args(args).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (known, links) = (shown(&["netns", "list"]), shown(&["link"]));
    let mut left: Vec<String> =
        namespaces.iter().filter(|name| known.contains(*name) || links.contains(*name)).cloned().collect();
    if run.dir().exists() {
        left.push(run.dir().display().to_string());
    }
    left
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    if !can_run() {
        return;
    }
    let mut program = Program::start(&["run", "fig1", "--quick"]);
    // The servers of three transfers and at least one client.
    let run = program.record(4);
    let (namespaces, processes) = (run.namespaces(), run.processes());
    assert!(processes.iter().any(|process| process.is_alive()));
    program.signal("-INT");
    assert_eq!(program.0.wait().unwrap().code(), Some(130));
    assert_eq!(left_of(&run, &namespaces), Vec::<String>::new());
    assert!(!processes.iter().any(|process| process.is_alive()), "{processes:?}");
}

#[test]
fn up_tells_its_machines_and_ends_with_sigterm() {
    if !can_run() {
        return;
    }
    let mut program =
        Program::start(&["up", "--format", "json", "--uplink-rate", "1mbit", "--uplink-buffer", "9p"]);
    let mut line = String::new();
    BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let told: serde_json::Value = serde_json::from_str(&line).unwrap();
    let gateway = PathBuf::from("/run/netns").join(told["machines"]["r2"]["namespace"].as_str().unwrap());
    let shown = Command::new("nsenter")
        .arg(format!("--net={}", gateway.display()))
        .args(["tc", "qdisc", "show", "dev", "wan0"])
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("rate 1Mbit") && shown.contains("pfifo") && shown.contains("limit 9p"), "{shown}");
    let (run, namespaces) = (program.record(0), program.record(0).namespaces());
    program.signal("-TERM");
    assert!(program.0.wait().unwrap().success());
    assert_eq!(left_of(&run, &namespaces), Vec::<String>::new());
}

#[test]
fn what_a_killed_lab_leaves_goes_with_the_next_start() {
    if !can_run() {
        return;
    }
    let mut program = Program::start(&["run", "fig1", "--quick"]);
    let run = program.record(4);
    let (namespaces, processes) = (run.namespaces(), run.processes());
    let living = Lab::start(LinkSpec::default()).unwrap();
    program.0.kill().unwrap();
    program.0.wait().unwrap();
    let next = Lab::start(LinkSpec::default()).unwrap();
    assert_eq!(left_of(&run, &namespaces), Vec::<String>::new());
    assert!(!processes.iter().any(|process| process.is_alive()), "{processes:?}");
    // The lab that lived through it is whole.
    living.host(Role::D2).run("ping", &["-c", "1", "-W", "5", "198.18.1.2"]).unwrap();
    next.stop().unwrap();
}
