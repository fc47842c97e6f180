//! Short forms of the papers' experiments: what physics guarantees must hold on any machine, and the agent must read what the kernel
//! says.

use std::path::{Path, PathBuf};
use std::process::Command;

use pendulum_lab::experiment::{CaseReport, Preparation, RunOptions, Scenario, find, run, run_scenario};
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;
use serde_json::Value;

use super::{LinkSpec, can_run, case, seconds, skip, transfer, truth};

const LAB: &str = env!("CARGO_BIN_EXE_pendulum-lab");

/// `PENDULUM_AGENT`, or the agent beside the program under test; `None`, with the reason said, if there is none. What the kernel says is
/// checked all the same.
fn agent() -> Option<PathBuf> {
    let agent = match std::env::var_os("PENDULUM_AGENT") {
        Some(path) => PathBuf::from(path),
        None => Path::new(LAB).with_file_name("pendulum"),
    };
    if !agent.is_file() {
        skip(&format!(
            "no agent at {} to compare with; build it with `cargo build -p pendulum`",
            agent.display()
        ));
        return None;
    }
    Some(agent)
}

/// The first case of one of an experiment's scenarios, which share `total` seconds.
fn quick(experiment: &str, scenario: &str, total: u64, agent: Option<PathBuf>) -> CaseReport {
    let options = RunOptions {
        total: Some(seconds(total)),
        quick: true,
        only: vec![scenario.into()],
        agent,
        ..RunOptions::default()
    };
    run(find(experiment).unwrap(), &options, &|_| {}).unwrap().cases.remove(0)
}

fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// Queue, phases and ratio as the agent reads them, against the kernel's own counters. The kernel's phases have no hysteresis and come
/// from fifty readings a second, so the two differ by some per cent where the case changes often.
fn assert_agent_agrees(case: &CaseReport) {
    let agent = &case.agent;
    assert!(agent.answers > 3, "{agent:?}");
    let (by_kernel, by_agent) = (truth(case, "/uplink_queue/mean_bytes"), agent.queue_mean_bytes.up.unwrap());
    assert!((by_agent - by_kernel).abs() < 3_000.0 + 0.2 * by_kernel, "{by_agent} for {by_kernel}: {case:?}");
    for phase in ["/uplink_bound", "/downlink_bound"] {
        let by_kernel = truth(case, &format!("/phase_share{phase}"));
        let by_agent = number(&agent.phase_share, phase);
        assert!((by_agent - by_kernel).abs() < 0.35, "{phase} {by_agent} for {by_kernel}: {case:?}");
    }
    let by_kernel = case.measured.figures.ratio.unwrap();
    let by_agent = number(&agent.throughput_ratio, "/measured");
    // The agent looks back over its own horizon, which begins before the stretch.
    assert!((0.5..2.0).contains(&(by_agent / by_kernel)), "{by_agent} for {by_kernel}: {case:?}");
}

/// 000 Fig. 5, by the command line, with everything it writes.
#[test]
fn the_pendulum_swings_on_a_symmetric_link() {
    if !can_run() {
        return;
    }
    let agent = agent();
    let out = std::env::temp_dir().join(format!("pendulum-lab-swing-{}", std::process::id()));
    let mut command = Command::new(LAB);
    command.args(["run", "swing", "--quick", "--duration", "18", "--format", "json", "--out"]).arg(&out);
    if let Some(agent) = &agent {
        command.arg("--agent").arg(agent);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Not a terminal, so no progress bar.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let case = &told["cases"][0];
    assert_eq!((&told["experiment"], &case["params"]["cc"]), (&"swing".into(), &"reno".into()));
    // Each side alone holds the traffic for a part of the time, and they alternate.
    for side in ["uplink_bound", "downlink_bound"] {
        assert!(number(case, &format!("/truth/phase_share/{side}")) > 0.03, "{case}");
    }
    assert!(
        number(case, "/truth/queue_correlation") < -0.2 && number(case, "/truth/switches") >= 2.0,
        "{case}"
    );
    if agent.is_some() {
        for side in ["uplink_bound", "downlink_bound"] {
            let by_agent = number(case, &format!("/agent/phase_share/{side}"));
            let by_kernel = number(case, &format!("/truth/phase_share/{side}"));
            assert!((by_agent - by_kernel).abs() < 0.35, "{side} {by_agent} for {by_kernel}: {case}");
        }
    }
    for file in ["report.json", "report.txt", "cases.csv", "zoom-swing-reno-0.svg", "zoom-swing-reno-0.png"] {
        assert!(out.join(file).metadata().unwrap().len() > 100, "{file}");
    }
    for file in
        ["wan.pcap", "lan.pcap", "queues.csv", "transfers.csv", "iperf3.json", "queues.png", "ack-bursts.svg"]
    {
        assert!(out.join("swing").join(file).metadata().unwrap().len() > 100, "{file}");
    }
    std::fs::remove_dir_all(&out).unwrap();
}

/// 000 Fig. 6 and 8 at the same time: with 30,000 B at both ends the uplink buffer never empties and the download starves; with 9,000 B
/// upstream it gets more.
#[test]
fn a_smaller_uplink_buffer_frees_the_download() {
    if !can_run() {
        return;
    }
    let agent = agent();
    let (equal, small) = std::thread::scope(|scope| {
        let small = scope.spawn(|| quick("asymmetric-small", "asymmetric", 24, None));
        (quick("asymmetric-equal", "asymmetric", 24, agent.clone()), small.join().unwrap())
    });
    let (equal, small) = (&equal, &small);
    let download = |case: &CaseReport| case.measured.figures.download_bps.unwrap();
    assert!(truth(equal, "/uplink_queue/empty_share") < 0.05, "{equal:?}");
    assert!(truth(equal, "/phase_share/uplink_bound") > 0.7, "{equal:?}");
    assert!(download(equal) < 0.45 * 2_400_000.0, "{equal:?}");
    assert!(download(small) > 1.3 * download(equal), "{small:?} {equal:?}");
    // Both fill their buffer, and nothing holds more.
    for (case, buffer) in [(equal, 30_000.0), (small, 9_000.0)] {
        let most = truth(case, "/uplink_queue/max_bytes");
        assert!((0.8 * buffer..=buffer).contains(&most), "{case:?}");
    }
    // Case 1 of the paper: the uplink buffer holds the traffic.
    assert!(
        truth(equal, "/uplink_queue/mean_bytes") > truth(equal, "/downlink_queue/mean_bytes"),
        "{equal:?}"
    );
    if agent.is_some() {
        assert_agent_agrees(equal);
        assert_eq!(equal.agent.verdict, "locked_uplink", "{equal:?}");
    }
}

/// 003 Fig. 5: of two flows through one buffer the one with the shorter round trip gets more.
#[test]
fn the_near_flow_gets_more_than_the_far_one() {
    if !can_run() {
        return;
    }
    let case = quick("rtt-competition", "near-far", 6 * 10, None);
    let total = case.measured.figures.download_bps.unwrap();
    assert!((2_000_000.0..10_000_000.0).contains(&total), "{case:?}");
    let share = case.measured.more["near_share"].as_f64().unwrap();
    assert!((0.5..1.0).contains(&share), "{case:?}");
    // The far flow's round trips: those of the wires and at most a full queue's 25 ms, each way, and some lateness.
    let rtt = truth(&case, "/download_rtt_s");
    assert!((0.1..0.25).contains(&rtt), "{case:?}");
}

/// One ACK for each segment, or for two: counted in a capture.
#[test]
fn acks_are_delayed_or_not_as_asked_for() {
    if !can_run() {
        return;
    }
    let acks_per_segment = |prepare: Preparation| {
        let scenario = Scenario {
            name: "acks".into(),
            link: LinkSpec::FIG1,
            length: seconds(6),
            transfers: vec![transfer(0, 6, Direction::Down)],
            cases: vec![case("download", 2, 6)],
            prepare,
            ..Scenario::default()
        };
        let case = run_scenario(&scenario, &RunOptions::default(), &|_, _| {}).unwrap().remove(0);
        // Two independent readings of the same thing.
        let (by_kernel, by_iperf) =
            (case.measured.figures.download_bps.unwrap(), truth(&case, "/iperf3/download_bps"));
        assert!((by_iperf / by_kernel - 1.0).abs() < 0.1, "{case:?}");
        let packets = |queue: &str| truth(&case, &format!("/{queue}/sent_packets"));
        packets("uplink_queue") / packets("downlink_queue")
    };
    let (delayed, every) = std::thread::scope(|scope| {
        let every = scope.spawn(|| acks_per_segment(Preparation::immediate_acks()));
        (acks_per_segment(Preparation::default()), every.join().unwrap())
    });
    assert!(every > 0.9 && delayed < 0.75, "{every} {delayed}");
}

/// `B_TCP` bounds what is under way where the buffer would hold more.
#[test]
fn no_more_is_under_way_than_the_tcp_buffer_holds() {
    if !can_run() {
        return;
    }
    let outstanding = |bytes: u64| {
        let mut link = LinkSpec::FIG1;
        link.downlink.buffer = BufferSize::Bytes(150_000);
        let scenario = Scenario {
            name: "window".into(),
            link,
            length: seconds(6),
            transfers: vec![transfer(0, 6, Direction::Down)],
            cases: vec![case("download", 3, 6)],
            prepare: Preparation::largest_window(bytes),
            ..Scenario::default()
        };
        let case = run_scenario(&scenario, &RunOptions::default(), &|_, _| {}).unwrap().remove(0);
        truth(&case, "/outstanding_median_bytes/down") / bytes as f64
    };
    let (small, large) = std::thread::scope(|scope| {
        let small = scope.spawn(|| outstanding(16_384));
        (outstanding(65_536), small.join().unwrap())
    });
    assert!((0.85..1.15).contains(&small) && (0.85..1.15).contains(&large), "{small} {large}");
}
