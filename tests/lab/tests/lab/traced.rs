//! Links whose capacity changes: does the line carry what the trace gives, and hold what the buffer allows?

use std::process::Command;
use std::sync::Arc;

use pendulum_lab::capacity::{LinkReading, OPPORTUNITY_BYTES, Pattern};
use pendulum_lab::delay::Delays;
use pendulum_lab::lab::{Lab, LinkSpec, Traces};
use pendulum_lab::topology::Role;
use pendulum_lab::traffic::{Transfer, TransferSpec, UdpFlow, UdpSpec};
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

use super::{can_run, link, seconds};

fn traces(up: &str, down: &str) -> Traces {
    let trace = |text: &str| Some(Arc::new(text.parse::<Pattern>().unwrap().trace().unwrap()));
    Traces { up: trace(up), down: trace(down) }
}

fn reading(lab: &Lab, direction: Direction) -> LinkReading {
    lab.link_reading(direction).unwrap()
}

/// Bytes that left and bytes that could have, from one reading to another.
fn growth(before: LinkReading, after: LinkReading) -> (u64, u64) {
    let opportunities = after.opportunities - before.opportunities;
    (after.delivered_bytes - before.delivered_bytes, opportunities * OPPORTUNITY_BYTES)
}

/// Datagrams at more than the capacity: what leaves is what the trace gives, before and after its step. The buffer is large enough for a
/// machine that stands still for half a second.
#[test]
fn a_busy_traced_link_carries_what_its_trace_gives() {
    if !can_run() {
        return;
    }
    let buffer = BufferSize::Bytes(300_000);
    let spec = LinkSpec {
        delays: Delays { propagation: std::time::Duration::from_millis(5), ..Delays::NONE },
        ..link("4mbit", buffer, "2mbit", buffer)
    };
    let lab = Lab::start_with(spec, traces("step:2mbit,1mbit,4s", "step:2mbit,4mbit,4s")).unwrap();
    let flows = [Direction::Up, Direction::Down].map(|direction| {
        UdpFlow::start(&lab, UdpSpec::quic(direction, "8mbit".parse().unwrap(), seconds(60))).unwrap()
    });
    std::thread::sleep(seconds(2));
    lab.restart_traces();
    for _ in 0..2 {
        let before = [Direction::Up, Direction::Down].map(|direction| reading(&lab, direction));
        std::thread::sleep(seconds(4));
        for (direction, before) in [Direction::Up, Direction::Down].into_iter().zip(before) {
            let after = reading(&lab, direction);
            let (delivered, given) = growth(before, after);
            // A packet that is half on its way at either end, and opportunities whose thread has not woken yet.
            assert!(delivered <= given + OPPORTUNITY_BYTES, "{direction:?}: {delivered} of {given}");
            assert!(delivered as f64 >= 0.8 * given as f64, "{direction:?}: {delivered} of {given}");
            assert!(after.queued_bytes <= 300_000 && after.dropped_packets > 0, "{after:?}");
        }
    }
    drop(flows);
    lab.check().unwrap();
}

/// The gateway has no queue of the link's, real TCP runs through the user-space buffer, and an outage stops everything.
#[test]
fn tcp_runs_over_a_traced_link_that_the_gateway_cannot_see() {
    if !can_run() {
        return;
    }
    let buffer = BufferSize::Bytes(30_000);
    let lab = Lab::start_with(
        link("4mbit", buffer, "1mbit", buffer),
        traces("constant:1mbit", "outage:4mbit,3s,1s"),
    )
    .unwrap();
    assert!(lab.is_traced(Direction::Up) && lab.is_traced(Direction::Down));
    for (role, device) in [(Role::Gateway, "wan0"), (Role::R1, "link0")] {
        let shown = lab.host(role).run("tc", &["qdisc", "show", "dev", device]).unwrap();
        assert!(shown.contains("noqueue"), "{shown}");
    }
    let transfers = [Direction::Up, Direction::Down]
        .map(|direction| Transfer::start(&lab, TransferSpec::new(direction, seconds(20))).unwrap());
    std::thread::sleep(seconds(3));
    let start = lab.restart_traces();
    // The outage's packets cannot have left by its end, however late this thread is.
    let early = reading(&lab, Direction::Down);
    assert!(early.opportunities > 0 || early.delivered_bytes == 0, "{early:?}");
    std::thread::sleep((start + seconds(8)).saturating_duration_since(std::time::Instant::now()));
    for direction in [Direction::Up, Direction::Down] {
        let (delivered, given) = growth(LinkReading::default(), reading(&lab, direction));
        assert!(delivered <= given + OPPORTUNITY_BYTES, "{direction:?}: {delivered} of {given}");
        assert!(delivered as f64 > 0.3 * given as f64, "{direction:?}: {delivered} of {given}");
    }
    drop(transfers);
}

#[test]
fn what_is_no_trace_is_refused_before_anything_is_built() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.up");
    for (content, code, word) in [("", 65, "no line"), ("9\n3\n", 65, "line 2"), ("0\n", 65, "0 ms")] {
        std::fs::write(&file, content).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_pendulum-lab"))
            .args(["up", "--uplink-trace", file.to_str().unwrap()])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(words.contains(word) && words.contains("bad.up"), "{words}");
    }
    for (text, code, word) in
        [("nowhere.down", 66, "nowhere.down"), ("step:1mbit", 64, "step:4mbit,2mbit,10s")]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_pendulum-lab"))
            .args(["up", "--downlink-trace", text])
            .output()
            .unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}");
        assert!(words.contains(word), "{words}");
    }
}
