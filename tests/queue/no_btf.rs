//! The agent on a kernel without BTF, as OpenWrt builds its kernels: packets are measured, queues are read by netlink, and
//! the answer says so.
//!
//! BTF is hidden, not absent: an empty directory stands over /sys/kernel/btf, for the agent alone.

use std::process::Command;
use std::time::{Duration, Instant};

use pendulum_lab::agent;
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::truth::{LinkCounters, QueueReading};
use pendulum_lab::{Lab, LinkSpec};
use pendulum_model::segment::Direction;
use serde_json::Value;

use crate::rig::with_lab;

const LISTEN: &str = "127.0.0.1:9924";
const CAPTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/two-way.pcap.zst");
const TWO_WAY: [&str; 5] = ["swinging", "locked_uplink", "locked_downlink", "ack_compression", "balanced"];
/// How long anything is waited for. Generous: a loaded machine must not fail a test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Twice what a verdict takes: five seconds of evidence, two until it counts, and the start of both transfers.
const TRAFFIC: Duration = Duration::from_secs(18);

#[test]
fn without_btf_packets_are_counted_queues_read_and_verdicts_given() {
    with_lab("without_btf_packets_are_counted_queues_read_and_verdicts_given", LinkSpec::FIG1, |lab| {
        doctor_tells(lab);
        replay_judges(lab);
        let mut command =
            pendulum(lab, &format!("run --wan {WAN_DEVICE} --listen {LISTEN} --downlink-rate 2400kbit"));
        command.stdin(std::process::Stdio::null());
        let mut process = lab.gateway().spawn(command, "agent").expect("the agent starts");
        wait_until("the agent is ready", || agent::ask(&lab.gateway(), "/readyz").is_ok());
        let before = Reading::when_quiet(lab);
        assert!(before.link["hooks"]["ingress"].is_string(), "{:#}", before.link);
        let mut transfers = [Direction::Up, Direction::Down].map(|direction| {
            Transfer::start(lab, TransferSpec::new(direction, TRAFFIC)).expect("a transfer starts")
        });
        let (mut highest, mut verdict) = (0.0f64, None);
        wait_until("the transfers end", || {
            let link = link(lab);
            let up = &link["directions"]["up"];
            assert_eq!(up["queue"]["source"], "netlink", "{up}");
            assert_eq!(up["cwnd_source"], "sock_diag", "{up}");
            highest = highest.max(up["queue"]["bytes"].as_f64().unwrap_or(0.0));
            let name = link["verdict"].as_str().unwrap_or_default();
            verdict = verdict.take().or(TWO_WAY.iter().find(|two_way| **two_way == name).copied());
            std::thread::sleep(Duration::from_millis(100));
            transfers.iter_mut().all(|transfer| transfer.is_finished().expect("it can be asked"))
        });
        assert!(highest > 10_000.0, "the highest level seen is {highest}");
        println!("verdict {verdict:?}, highest level {highest} bytes");
        assert!(verdict.is_some(), "no verdict on two-way traffic: {:#}", link(lab));
        counters_are_the_devices(&before, &Reading::when_quiet(lab));
        let status = process.stop(libc::SIGTERM, PATIENCE).expect("it ends");
        let said = process.stderr().expect("its log");
        assert!(status.success(), "{said}");
        assert_eq!(said.matches("queues are read by netlink").count(), 1, "{said}");
    });
}

/// `pendulum ARGUMENTS` on the gateway, for which there is no BTF.
fn pendulum(lab: &Lab, arguments: &str) -> Command {
    let script =
        format!("mount -t tmpfs none /sys/kernel/btf && exec {} {arguments}", env!("CARGO_BIN_EXE_pendulum"));
    let mut command = lab.gateway().command("unshare").expect("a command");
    command.args(["--mount", "sh", "-c", &script]);
    command
}

/// It can run, and what BTF would add has its remedy.
fn doctor_tells(lab: &Lab) {
    let arguments = format!("doctor --wan {WAN_DEVICE} --format json");
    let output = pendulum(lab, &arguments).output().expect("the doctor runs");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(1), "{report:#}");
    let checks = report["checks"].as_array().expect("checks");
    let check = |name: &str| checks.iter().find(|check| check["name"] == name).expect("a check");
    assert_eq!(check("tc_programs")["status"], "ok", "{report:#}");
    for name in ["btf", "queue_tracepoints", "cwnd"] {
        let check = check(name);
        assert_eq!(check["status"], "degraded", "{check}");
        assert!(
            check["remedy"].as_str().is_some_and(|text| text.contains("CONFIG_DEBUG_INFO_BTF")),
            "{check}"
        );
        assert!(check["cost"].as_str().is_some_and(|text| !text.is_empty()), "{check}");
    }
}

fn replay_judges(lab: &Lab) {
    let arguments =
        format!("replay --wan {CAPTURE} --uplink-rate 196kbit --downlink-rate 2400kbit --format json");
    let output = pendulum(lab, &arguments).output().expect("the replay runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(TWO_WAY.iter().any(|name| report["verdict"] == *name), "{}", report["verdict"]);
}

fn link(lab: &Lab) -> Value {
    let text = agent::ask(&lab.gateway(), "/api/v1/state").expect("the agent answers");
    let state: Value = serde_json::from_str(&text).expect("JSON");
    state["links"][0].clone()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What device, queue and agent say at one moment.
struct Reading {
    device: LinkCounters,
    queue: QueueReading,
    link: Value,
}

impl Reading {
    /// As soon as nothing passes any more.
    fn when_quiet(lab: &Lab) -> Self {
        let take = || Self {
            link: link(lab),
            device: LinkCounters::take(&lab.gateway(), WAN_DEVICE).expect("device counters"),
            queue: QueueReading::take(&lab.gateway(), WAN_DEVICE).expect("queue counters"),
        };
        let mut earlier = take();
        let mut quiet = None;
        wait_until("the link is quiet", || {
            // Longer than the agent takes to read its counters again.
            std::thread::sleep(Duration::from_millis(400));
            let now = take();
            let rests = now.device == earlier.device
                && now.queue.backlog_packets == 0
                && Direction::ALL.iter().all(|x| now.counted(*x) == earlier.counted(*x));
            if rests {
                quiet = Some(now)
            } else {
                earlier = now
            }
            rests
        });
        quiet.expect("it is quiet")
    }

    /// Packets and bytes of all classes, as the agent has them.
    fn counted(&self, direction: Direction) -> (u64, u64) {
        let direction = &self.link["directions"][direction.name()];
        let classes = direction["segments"].as_object().expect("segments");
        let packets = classes.values().filter_map(Value::as_u64).sum();
        (packets, direction["bytes"].as_u64().expect("bytes"))
    }
}

/// TC ingress sees what the device receives, TC egress what it sends and what its queue drops after that.
fn counters_are_the_devices(before: &Reading, after: &Reading) {
    let grown = |figure: fn(&Reading) -> u64| figure(after) - figure(before);
    let received = (grown(|r| r.device.received_packets), grown(|r| r.device.received_bytes));
    let down = (grown(|r| r.counted(Direction::Down).0), grown(|r| r.counted(Direction::Down).1));
    let (sent, dropped) = (grown(|r| r.device.sent_packets), grown(|r| r.queue.dropped_packets));
    println!("received: device {received:?}, agent {down:?}; sent {sent}, dropped {dropped}");
    assert!(received.0 > 100, "there was traffic");
    assert_eq!(down, received);
    assert_eq!(grown(|r| r.counted(Direction::Up).0), sent + dropped);
    let sent_bytes = grown(|r| r.device.sent_bytes);
    let up_bytes = grown(|r| r.counted(Direction::Up).1);
    assert!((sent_bytes..=sent_bytes + dropped * 1514).contains(&up_bytes), "{up_bytes}, sent {sent_bytes}");
}
