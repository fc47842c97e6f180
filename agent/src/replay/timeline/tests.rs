//! Times that go back, stand alone or were set.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::cli::{ReplayArgs, ReportFormat};
use super::super::tests::captures::{Frames, RAW_IP, args, built, json_of, pcap, text_of, upload, write};
use super::super::tests::craft::{LinkLayer, Tcp, down, up};
use super::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// A download and its ACKs with both ends' clocks, which tick each millisecond: ten segments at once each 100 ms, which wait up to 9 ms.
fn download(seconds: u32) -> Frames {
    let mut packets: Vec<(u64, Tcp)> = Vec::new();
    for round in 0..seconds * 10 {
        for i in 0..10 {
            let number = round * 10 + i;
            let sent = round * 100 + 1_000;
            let arrives = sent + 20 + i;
            let (remote, home) = (sent + 7_000, arrives + 90_001);
            let data = down().seq(1 + 1_000 * number).payload(1_000).ts(remote, home - 100);
            packets.push((u64::from(arrives) * MS, data));
            let ack = up().ack(1 + 1_000 * (number + 1)).ts(home, remote);
            packets.push((u64::from(arrives) * MS + MS / 2, ack));
        }
    }
    built(&packets, LinkLayer::RawIp)
}

/// The frames, those from `from` on dated otherwise.
fn dated(frames: &[(u64, Vec<u8>)], from: usize, by_ns: i64) -> Frames {
    let date = |(index, (time, bytes)): (usize, &(u64, Vec<u8>))| {
        (if index >= from { time.saturating_add_signed(by_ns) } else { *time }, bytes.clone())
    };
    frames.iter().enumerate().map(date).collect()
}

fn with<T>(frames: &[(u64, Vec<u8>)], said: impl FnOnce(&ReplayArgs) -> T) -> T {
    let directory = TempDir::new().expect("temporary directory");
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, frames));
    said(&args(&wan, None, ReportFormat::Json))
}

/// What a report says without its warnings, and those.
fn parted(mut report: Value) -> (Value, Vec<String>) {
    let warnings = report["warnings"].take();
    report["packets"].take();
    (report, serde_json::from_value(warnings).expect("texts"))
}

fn steps(frames: &[(u64, Vec<u8>)]) -> Vec<ClockStep> {
    with(frames, |args| {
        Source::examine(args.wan.as_deref().expect("a capture")).expect("readable").timeline.steps.clone()
    })
}

/// A clock that is set moves the clocks of both ends alike, for good: it is corrected, and no queue.
#[test]
fn a_clock_that_is_set_is_no_queue() {
    let sound = download(20);
    let (expected, none) = parted(with(&sound, json_of));
    assert!(none.iter().all(|warning| !warning.contains("clock")), "{none:?}");
    for by_ms in [500, 200, 3_000, -300, -7_000] {
        // At the beginning of a round.
        let changed = dated(&sound, 2_000, by_ms * 1_000_000);
        let [ClockStep { frame: 2_000, by_ns }] = steps(&changed)[..] else {
            panic!("{by_ms}: {:?}", steps(&changed))
        };
        assert!((by_ns - by_ms * 1_000_000).abs() < 2_000_000, "{by_ms}: {by_ns}");
        let (found, warnings) = parted(with(&changed, json_of));
        let way = if by_ms < 0 { "was set back by" } else { "was set forward by" };
        let is_named = |warning: &String| warning.contains(way) && warning.contains("at packet 2001");
        assert!(warnings.iter().any(is_named), "{by_ms}: {warnings:?}");
        for pointer in ["/verdict", "/directions/down/bytes", "/directions/down/retransmitted_segments"] {
            assert_eq!(found.pointer(pointer), expected.pointer(pointer), "{by_ms} {pointer}");
        }
        for pointer in ["/duration_s", "/directions/down/queue/mean_bytes"] {
            let [found, expected] = [&found, &expected].map(|report| report.pointer(pointer)?.as_f64());
            let (found, expected) = (found.expect("a figure"), expected.expect("a figure"));
            assert!(
                (found - expected).abs() <= 0.05 * expected + 50.0,
                "{by_ms} {pointer}: {found}, {expected}"
            );
        }
    }
}

/// A locked uplink, simulated, before its buffer and behind it: what comes through a full buffer says less well by how much the clock was set.
#[test]
fn the_steadiest_clock_tells_by_how_much() {
    let data = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3/s5").join(name);
    let [lan, wan] = ["lan.pcap.zst", "wan.pcap.zst"].map(data);
    let cases = [(30, 3_000), (30, 200), (48, 500), (30, -3_000), (10, 200), (20, 500), (80, 200)];
    for ((after_s, by_ms), data) in cases.into_iter().zip([&wan, &lan].into_iter().cycle()) {
        let mut capture = Capture::open(data).expect("data");
        let (mut survey, mut first_ns) = (StretchSurvey::default(), None);
        while capture.advance().expect("sound") {
            let record = capture.record().expect("advanced to it");
            let first_ns = *first_ns.get_or_insert(record.time_ns);
            let by_ns = if record.time_ns >= first_ns + after_s * S { by_ms * 1_000_000 } else { 0 };
            survey.observe(&Record { time_ns: record.time_ns.saturating_add_signed(by_ns), ..record });
        }
        let steps = survey.finish().expect("in order").steps;
        let [ClockStep { by_ns, .. }] = steps[..] else { panic!("{by_ms}: {steps:?}") };
        assert!((by_ns - by_ms * 1_000_000).abs() < 4_000_000, "{by_ms}: {by_ns}");
    }
}

/// Half a second in which nothing passes, and a queue of half a second in one direction, are no clock that was set.
#[test]
fn a_silence_and_a_queue_are_no_set_clock() {
    let sound = download(20);
    let is_in_gap = |time: u64| (10 * S..10 * S + 500 * MS).contains(&time);
    let gap: Frames = sound.iter().filter(|(time, _)| !is_in_gap(*time)).cloned().collect();
    assert_eq!(steps(&gap), []);
    // All that is sent meanwhile comes behind it, at once.
    let held = sound.iter().map(|(time, bytes)| {
        let after = 10 * S + 500 * MS + (time % S) / 1_000;
        (if is_in_gap(*time) { after } else { *time }, bytes.clone())
    });
    assert_eq!(steps(&held.collect::<Frames>()), []);
    // What comes from outside is late by half a second from then on; home's clock goes on as before.
    let mut late = sound;
    for (time, bytes) in late.iter_mut().skip(2_000) {
        *time += if bytes.len() > 1_000 { 500 * MS } else { 0 };
    }
    late.sort_by_key(|(time, _)| *time);
    assert_eq!(steps(&late), []);
}

/// Without senders' clocks a capture that goes back goes on at the newest time, and the figures of both parts stay what they are.
#[test]
fn a_clock_that_goes_back_is_corrected() {
    let [wan, _] = upload(20);
    let sound = built(&wan, LinkLayer::RawIp);
    let (expected, _) = parted(with(&sound, json_of));
    let (found, warnings) = parted(with(&dated(&sound, 1_000, -5_000_000_000), json_of));
    assert!(warnings.iter().any(|warning| warning.contains("was set back by")), "{warnings:?}");
    assert_eq!(found["directions"]["up"]["segments"], expected["directions"]["up"]["segments"]);
    assert_eq!(found["directions"]["up"]["retransmitted_segments"], 0);
    let seconds = |report: &Value| report["duration_s"].as_f64().expect("a figure");
    assert!((seconds(&found) - seconds(&expected)).abs() < 0.1, "{}", seconds(&found));
    let rtt = found["flows"][0]["rtt_min_s"].as_f64().expect("a figure");
    assert!(rtt > 0.01, "{rtt}");
}

/// A time of zero, one in the future and one of minutes ago are left out and counted, wherever they stand.
#[test]
fn times_that_stand_alone_are_left_out() {
    let [wan, _] = upload(10);
    let sound = built(&wan, LinkLayer::RawIp);
    let seconds = |report: &Value| report["duration_s"].as_f64().expect("a figure");
    let expected = seconds(&with(&sound, json_of));
    for (at, date) in [(0, 0), (500, 0), (500, u32::MAX), (700, 1_699_999_900), (sound.len() - 1, 0)] {
        let mut bytes = pcap(RAW_IP, &sound);
        // 24 bytes of file, and each record with 16 of its own.
        let offset = 24 + sound[..at].iter().map(|(_, frame)| frame.len() + 16).sum::<usize>();
        bytes[offset..offset + 4].copy_from_slice(&u32::to_le_bytes(date));
        let directory = TempDir::new().expect("temporary directory");
        let wan = write(&directory, "wan.pcap", &bytes);
        let found = json_of(&args(&wan, None, ReportFormat::Json));
        assert_eq!(found["packets"]["left_out"], json!({"out_of_order": 1}), "{at} {date}");
        assert!((seconds(&found) - expected).abs() < 0.1, "{at} {date}: {}", seconds(&found));
    }
}

/// Milliseconds are no disorder; a capture in no order is refused with the remedy.
#[test]
fn a_capture_in_no_order_is_refused() {
    let [wan, _] = upload(10);
    let sound = built(&wan, LinkLayer::RawIp);
    let mut near = sound.clone();
    near.iter_mut().skip(1).step_by(3).for_each(|(time, _)| *time -= 9 * MS);
    assert_eq!(with(&near, json_of)["packets"]["left_out"], json!({}));
    let mut far = sound;
    far.iter_mut().skip(100).step_by(5).for_each(|(time, _)| *time += 300 * S);
    let message = with(&far, |args| text_of(args).expect_err("in no order").to_string());
    assert!(message.contains("not in the order of time") && message.contains("`reordercap "), "{message}");
}

/// Each packet twice, as on the device any: each counts once.
#[test]
fn copies_are_counted_once() {
    let [wan, _] = upload(10);
    let sound = built(&wan, LinkLayer::RawIp);
    let (expected, _) = parted(with(&sound, json_of));
    let twice = |(time, bytes): &(u64, Vec<u8>)| [(*time, bytes.clone()), (*time + 3_000, bytes.clone())];
    let found = with(&sound.iter().flat_map(twice).collect::<Frames>(), json_of);
    assert_eq!(found["packets"]["left_out"], json!({"copy": sound.len()}));
    let (found, warnings) = parted(found);
    assert!(warnings.iter().any(|warning| warning.contains("in the capture twice")), "{warnings:?}");
    for direction in ["up", "down"] {
        let of = |report: &Value, name: &str| report["directions"][direction][name].clone();
        assert_eq!(of(&found, "bytes"), of(&expected, "bytes"));
        assert_eq!(of(&found, "retransmitted_segments"), 0);
    }
}
