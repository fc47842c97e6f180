//! The agent judging real traffic on the paper's link, while it passes: are its verdict and its phases those of a replay
//! of the same packets, and do all who ask get the same events?
//!
//! Needs root, iperf3, tcpdump and curl; says so where it may not run.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod handshakes;
mod home;
mod modem;
mod ordinary;
mod own;
mod quic;
mod rig;
mod steady;

use std::collections::BTreeMap;
use std::time::Duration;

use pendulum_model::segment::Direction;
use serde_json::Value;

use rig::{Rig, with_rig};

/// Verdicts on two-way bulk traffic.
const TWO_WAY: [&str; 5] = ["swinging", "locked_uplink", "locked_downlink", "ack_compression", "balanced"];

/// Shares of the time may differ by this much between the agent and the replay: the agent cannot look into the provider's
/// buffer, and the replay of two captures estimates it in another way.
const SHARE: f64 = 0.25;

#[test]
fn live_verdicts_are_those_of_a_replay_and_every_reader_gets_the_same_events() {
    with_rig("live_verdicts_are_those_of_a_replay_and_every_reader_gets_the_same_events", |rig| {
        let stream = rig.follow_stream();
        let captures = rig.capture();
        let before = rig.link();
        let upload = rig.transfer(Direction::Up);
        let one_way = rig.wait_for("bulk data in one direction", |link| link["verdict"] == "one_way");
        assert_eq!(one_way["evidence"]["rule"], "bulk_data_one_way", "{one_way:#}");
        assert_eq!(one_way["bulk"]["up"], true);

        let download = rig.transfer(Direction::Down);
        rig.wait_for("a verdict on two-way traffic", |link| {
            TWO_WAY.iter().any(|name| link["verdict"] == *name)
        });
        // Some seconds more, so that a hasty verdict would be taken back.
        std::thread::sleep(Duration::from_secs(8));
        let link = rig.link();
        let metrics = rig.get("metrics");
        let files = captures.stop();
        drop((upload, download));

        let verdict = link["verdict"].as_str().unwrap();
        check_state(&link);
        assert!(
            metrics.contains(&format!("pendulum_verdict{{link=\"wan0\",verdict=\"{verdict}\"}} 1\n")),
            "{metrics}"
        );

        let replayed = rig.replay(&files, "jsonl");
        let mut events = replayed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let last = events.rfind(|event| event["event"] == "verdict").unwrap();
        assert_eq!(last["to"], verdict, "replay: {last:#}\nlive: {link:#}");
        let report: Value = serde_json::from_str(&rig.replay(&files, "json")).unwrap();
        let live = shares(&before, &link);
        for (phase, share) in &live {
            let replayed = report["phase_share"][phase].as_f64().unwrap();
            assert!(
                (share - replayed).abs() <= SHARE,
                "{phase}: live {share:.2}, replay {replayed:.2}; live {live:?}, replay {}",
                report["phase_share"]
            );
        }
        check_events(rig, &stream.stop());
    });
}

/// What a state says beside the verdict belongs together.
fn check_state(link: &Value) {
    let number = |pointer: &str| link.pointer(pointer).and_then(Value::as_f64);
    let share: f64 = link["phase_share"].as_object().unwrap().values().filter_map(Value::as_f64).sum();
    assert!((share - 1.0).abs() < 1e-6, "shares add up to {share}");
    assert_eq!(link["phase_share"].as_object().unwrap().len(), 4);
    assert!(!link["evidence"]["figures"].as_array().unwrap().is_empty(), "{link:#}");
    assert!(!link["evidence"]["reason"].as_str().unwrap().is_empty());
    // No queue is in it: 30,000 bytes at 24,500 bytes per second would be 1.2 s. No delay is added to the link.
    let base = number("/base_round_trip_s").unwrap();
    assert!((1e-5..0.5).contains(&base), "base round trip {base} s");
    assert!(number("/throughput_ratio/measured").unwrap() > 0.0);
    assert!(number("/advice/uplink_buffer_bytes").unwrap() >= 1_514.0, "{link:#}");
    // Figures or the reason why not, never both and never neither.
    for figures in ["predicted", "predicted_as_advised", "recommended"] {
        let reason = &link["advice"][format!("{figures}_reason")];
        assert_eq!(link["advice"][figures].is_null(), reason.is_string(), "{figures}: {:#}", link["advice"]);
    }
    assert!(number("/directions/up/queue/standing_bytes").is_some());
    let sources = link["sources"].as_array().unwrap();
    let queue =
        sources.iter().find(|source| source["what"] == "queue" && source["direction"] == "up").unwrap();
    assert!(["tracepoint", "netlink"].iter().any(|source| queue["source"] == *source), "{queue}");
}

/// Share of the time in each phase between two states.
fn shares(before: &Value, after: &Value) -> BTreeMap<String, f64> {
    let seconds = |state: &Value, phase: &str| state["phase_seconds"][phase].as_f64().unwrap_or(0.0);
    let phases = after["phase_seconds"].as_object().unwrap().keys();
    let spent: BTreeMap<String, f64> =
        phases.map(|phase| (phase.clone(), seconds(after, phase) - seconds(before, phase))).collect();
    let all: f64 = spent.values().sum();
    assert!(all > 10.0, "{all} s in all phases together");
    spent.into_iter().map(|(phase, seconds)| (phase, seconds / all)).collect()
}

/// `/api/v1/events`, the event log and the stream tell the same.
fn check_events(rig: &Rig, streamed: &[(String, Value)]) {
    let report: Value = serde_json::from_str(&rig.get("api/v1/events?limit=1000")).unwrap();
    let listed = report["events"].as_array().unwrap();
    assert_eq!(report["dropped"], 0);
    let numbers: Vec<u64> = listed.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    let verdicts: Vec<&str> = listed
        .iter()
        .filter(|event| event["event"] == "verdict")
        .map(|event| event["to"].as_str().unwrap())
        .collect();
    assert!(verdicts.contains(&"one_way") && verdicts.len() >= 2, "{verdicts:?}");
    for event in listed {
        assert_eq!(event["link"], "wan0");
        assert!(event["time"].as_str().unwrap().ends_with('Z'), "{event}");
        assert!(event["at_s"].as_f64().unwrap() >= event["evidence"]["since_s"].as_f64().unwrap(), "{event}");
    }
    let logged: Vec<Value> =
        rig.event_log().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(logged.len() >= listed.len(), "{} of {} events in the log", logged.len(), listed.len());
    assert_eq!(logged[..listed.len()], listed[..]);

    let findings: Vec<&Value> =
        streamed.iter().filter(|(name, _)| name == "finding").map(|(_, data)| data).collect();
    assert!(!findings.is_empty());
    for finding in findings {
        assert!(listed.contains(finding) || logged.contains(finding), "only the stream has {finding}");
    }
    check_ticks(streamed);
}

/// Ticks follow each other without gap, and their steps cover the time.
fn check_ticks(streamed: &[(String, Value)]) {
    let ticks: Vec<&Value> =
        streamed.iter().filter(|(name, _)| name == "tick").map(|(_, data)| data).collect();
    let states = streamed.iter().filter(|(name, _)| name == "state").count();
    assert!(ticks.len() > 100 && states > 10, "{} ticks, {states} states", ticks.len());
    let at = |tick: &Value| tick["at_s"].as_f64().unwrap();
    assert!(ticks.is_sorted_by(|one, two| at(one) < at(two)));
    let highest = ticks
        .iter()
        .filter_map(|tick| tick["up"]["queue_bytes"].as_array())
        .flatten()
        .filter_map(Value::as_f64)
        .fold(0.0, f64::max);
    assert!((15_000.0..=30_000.0).contains(&highest), "the stream's highest queue is {highest}");
    if ticks.iter().all(|tick| tick["skipped"] == 0 && tick["up"]["source"] == "tracepoint") {
        let steps = |tick: &&Value| tick["up"]["queue_bytes"].as_array().map_or(0, Vec::len);
        let covered = ticks[1..].iter().map(steps).sum::<usize>() as f64 * 0.01;
        let passed = at(ticks[ticks.len() - 1]) - at(ticks[0]);
        assert!((covered - passed).abs() < 0.1, "{covered} s of buckets in {passed} s");
    }
}
