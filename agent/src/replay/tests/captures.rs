//! Whole replays of small captures made here: from files to the answer.

use std::io::Write as _;
use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use super::craft::{CraftedFrame, Direction as Way, LinkLayer, Tcp, down, flag, up};
pub(in crate::replay) use super::pcap::pcap;
use crate::exit::{Classified as _, Exit};
use crate::replay::cli::{ReplayArgs, ReplayFailure, ReportFormat, answer};

pub(in crate::replay) const RAW_IP: u32 = 101;
pub(super) const ETHERNET: u32 = 1;

pub(in crate::replay) fn write(directory: &TempDir, name: &str, contents: &[u8]) -> std::path::PathBuf {
    let path = directory.path().join(name);
    std::fs::File::create(&path).and_then(|mut file| file.write_all(contents)).expect("temporary file");
    path
}

pub(in crate::replay) fn args(wan: &Path, lan: Option<&Path>, format: ReportFormat) -> ReplayArgs {
    ReplayArgs {
        wan: Some(wan.to_owned()),
        incident: None,
        lan: lan.map(Path::to_owned),
        uplink_rate: Some("800kbit".parse().expect("rate")),
        downlink_rate: Some("8mbit".parse().expect("rate")),
        home: Vec::new(),
        series: None,
        format,
    }
}

pub(in crate::replay) fn text_of(args: &ReplayArgs) -> Result<String, ReplayFailure> {
    let mut out = Vec::new();
    answer(args, &mut out)?;
    Ok(String::from_utf8(out).expect("text"))
}

pub(in crate::replay) fn json_of(args: &ReplayArgs) -> Value {
    let args = ReplayArgs { format: ReportFormat::Json, ..args.clone() };
    serde_json::from_str(&text_of(&args).expect("replays")).expect("one JSON object")
}

/// An upload over an uplink of 100,000 B/s: eight segments at once every 100 ms, each 10 ms on the link, acknowledged
/// one by one 20 ms after they left. Frames of the WAN capture and of the LAN capture, in the order of time.
pub(in crate::replay) fn upload(seconds: u32) -> [Vec<(u64, Tcp)>; 2] {
    const MS: u64 = 1_000_000;
    let syn = up().flags(flag::SYN).seq(0).ack(0);
    let syn_ack = down().flags(flag::SYN | flag::ACK).seq(0).ack(1);
    let (mut wan, mut lan) =
        (vec![(MS, syn.clone()), (21 * MS, syn_ack.clone())], vec![(MS, syn), (22 * MS, syn_ack)]);
    for round in 0..seconds * 10 {
        for i in 0..8 {
            let number = round * 8 + i;
            let sent = u64::from(round) * 100 * MS + 50 * MS;
            let left = sent + u64::from(i) * 10 * MS;
            let data = up().seq(1 + 960 * number).payload(960);
            let ack = down().ack(1 + 960 * (number + 1));
            lan.push((sent, data.clone()));
            wan.push((left, data));
            wan.push((left + 30 * MS, ack.clone()));
            lan.push((left + 31 * MS, ack));
        }
    }
    wan.sort_by_key(|(time, _)| *time);
    lan.sort_by_key(|(time, _)| *time);
    [wan, lan]
}

/// Frames of a capture and their times, nanoseconds.
pub(in crate::replay) type Frames = Vec<(u64, Vec<u8>)>;

pub(in crate::replay) fn built(packets: &[(u64, Tcp)], link_layer: LinkLayer) -> Frames {
    packets.iter().map(|(time, packet)| (*time, packet.build(link_layer).bytes)).collect()
}

#[test]
fn both_captures_give_the_exact_uplink_queue() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, lan] = upload(10);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &built(&wan, LinkLayer::RawIp)));
    let lan = write(&directory, "lan.pcap", &pcap(ETHERNET, &built(&lan, LinkLayer::Ethernet)));
    let report = json_of(&args(&wan, Some(&lan), ReportFormat::Json));

    let queue = &report["directions"]["up"]["queue"];
    assert_eq!(queue["source"], "capture");
    // Eight segments of 1000 bytes on the WAN, of which the first one leaves at once.
    assert_eq!(queue["max_bytes"], 7000.0);
    // 7 + 6 + … + 1 segments for 10 ms each of every 100 ms: 2,800 bytes on average.
    let mean = queue["mean_bytes"].as_f64().expect("a figure");
    assert!((mean - 2800.0).abs() < 60.0, "{mean}");
    assert_eq!(queue["dropped_packets"], 0);
    assert_eq!(report["directions"]["up"]["segments"]["data"], 800);
    assert_eq!(report["directions"]["down"]["segments"]["ack"], 800);
    assert_eq!(report["home_by"], "transit");
    assert_eq!(report["warnings"], serde_json::json!([]));

    let flow = &report["flows"][0];
    assert_eq!((flow["client"].as_str(), flow["direction"].as_str()), (Some("192.0.2.10:40000"), Some("up")));
    assert_eq!(flow["server"], "198.51.100.20:80");
    assert_eq!(flow["bytes"], 960 * 800);
    // Before the buffer: eight segments, while the last ACK of the round before is still on its way.
    assert_eq!(flow["in_flight_max_bytes"], 960 * 9);
    // 30 ms from the WAN and back; the home end answers at once but for the first segment of each round.
    let rtt = flow["rtt_min_s"].as_f64().expect("a figure");
    assert!((0.02..0.05).contains(&rtt), "{rtt}");
}

#[test]
fn translated_addresses_change_nothing() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, lan] = upload(5);
    let lan = write(&directory, "lan.pcap", &pcap(RAW_IP, &built(&lan, LinkLayer::RawIp)));
    let plain = write(&directory, "plain.pcap", &pcap(RAW_IP, &built(&wan, LinkLayer::RawIp)));
    let translated: Vec<(u64, Vec<u8>)> = wan
        .iter()
        .map(|(time, packet)| {
            let CraftedFrame { mut bytes, direction, .. } = packet.build(LinkLayer::RawIp);
            let (address, port) = if direction == Way::Up { (12, 20) } else { (16, 22) };
            bytes[address..address + 4].copy_from_slice(&[203, 0, 113, 1]);
            bytes[port..port + 2].copy_from_slice(&[0xea, 0x60]);
            (*time, bytes)
        })
        .collect();
    let translated = write(&directory, "nat.pcap", &pcap(RAW_IP, &translated));
    let [expected, found] = [plain, translated]
        .map(|wan| json_of(&args(&wan, Some(&lan), ReportFormat::Json))["directions"].clone());
    assert_eq!(found, expected);
}

#[test]
fn one_capture_gives_an_estimate() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, _] = upload(10);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &built(&wan, LinkLayer::RawIp)));
    let report = json_of(&args(&wan, None, ReportFormat::Json));
    assert_eq!(report["directions"]["up"]["queue"]["source"], "estimate");
    assert_eq!(report["directions"]["up"]["queue"]["dropped_packets"], Value::Null);
    assert_eq!(report["link"]["rate_source"], "config");
    assert_eq!(report["link"]["uplink_rate_bps"], 800_000.0);
    let learnt = json_of(&ReplayArgs { uplink_rate: None, ..args(&wan, None, ReportFormat::Json) });
    assert_eq!(learnt["link"]["rate_source"], "config");
    // 8000 bytes every 100 ms, but nothing tells that a queue stood meanwhile: that is no rate of the link.
    assert_eq!(learnt["link"]["uplink_rate_bps"], Value::Null);
}

#[test]
fn the_same_capture_gives_the_same_answer_however_it_is_packed() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, _] = upload(3);
    let plain = pcap(RAW_IP, &built(&wan, LinkLayer::RawIp));
    let zstd = write(&directory, "wan.pcap.zst", &zstd::encode_all(&plain[..], 1).expect("memory"));
    let plain = write(&directory, "wan.pcap", &plain);
    for format in [ReportFormat::Text, ReportFormat::Json, ReportFormat::Jsonl] {
        let once = text_of(&args(&plain, None, format)).expect("replays");
        assert_eq!(text_of(&args(&plain, None, format)).expect("replays"), once);
        assert_eq!(text_of(&args(&zstd, None, format)).expect("replays"), once);
        assert!(!once.is_empty());
    }
}

#[test]
fn lines_are_events_and_the_text_begins_with_the_verdict() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, lan] = upload(20);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &built(&wan, LinkLayer::RawIp)));
    let lan = write(&directory, "lan.pcap", &pcap(RAW_IP, &built(&lan, LinkLayer::RawIp)));
    let lines = text_of(&args(&wan, Some(&lan), ReportFormat::Jsonl)).expect("replays");
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).expect("a JSON line");
        assert!(event["event"].is_string() && event["at_s"].is_number(), "{line}");
        assert!(event["evidence"]["reason"].is_string(), "{line}");
    }
    let text = text_of(&args(&wan, Some(&lan), ReportFormat::Text)).expect("replays");
    assert!(text.starts_with("verdict"), "{text}");
    assert!(text.contains("192.0.2.10:40000 > 198.51.100.20:80"), "{text}");
    assert!(text.contains("on both sides of the uplink's buffer (two captures)"), "{text}");
    let text = text_of(&args(&wan, None, ReportFormat::Text)).expect("replays");
    assert!(text.contains("before the uplink's buffer (assumed: no evidence in the capture)"), "{text}");
}

#[test]
fn a_year_of_silence_is_no_year_of_work() {
    let directory = TempDir::new().expect("temporary directory");
    let [first, _] = upload(1);
    let year = 365 * 86_400 * 1_000_000_000_u64;
    let mut wan = built(&first, LinkLayer::RawIp);
    let second: Vec<_> = wan.iter().map(|(time, bytes)| (time + year, bytes.clone())).collect();
    wan.extend(second);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &wan));
    let report = json_of(&args(&wan, None, ReportFormat::Json));
    let duration = report["duration_s"].as_f64().expect("a figure");
    assert!((duration - 365.0 * 86_400.0).abs() < 2.0, "{duration}");
    assert_eq!(report["directions"]["up"]["segments"]["data"], 160);
}

#[test]
fn captures_with_next_to_nothing_are_answered() {
    let directory = TempDir::new().expect("temporary directory");
    let empty = write(&directory, "empty.pcap", &pcap(RAW_IP, &[]));
    let message = text_of(&args(&empty, None, ReportFormat::Text)).expect_err("nothing to say").to_string();
    assert!(message.contains("empty.pcap") && message.contains("no packet"), "{message}");

    let one = write(&directory, "one.pcap", &pcap(RAW_IP, &built(&[(0, up().payload(5))], LinkLayer::RawIp)));
    let report = json_of(&args(&one, None, ReportFormat::Json));
    assert_eq!((report["duration_s"].as_f64(), report["verdict"].as_str()), (Some(0.0), Some("unknown")));
    assert_eq!(report["verdict_reason"], "0.0 s with 1 usable packets are too short for a verdict");
    assert_eq!(report["flows_total"], 1);

    let noise = write(
        &directory,
        "noise.pcap",
        &pcap(ETHERNET, &[(0, vec![0xff; 60]), (1, vec![]), (2, vec![0; 14])]),
    );
    let refused = text_of(&args(&noise, None, ReportFormat::Text)).expect_err("nothing to say");
    assert_eq!(refused.exit(), Exit::Data);
    let message = refused.to_string();
    assert!(message.contains("noise.pcap could be used: "), "{message}");
    for part in [
        "1 packet with unreadable headers (link_header)",
        "1 packet without an IP header",
        "1 packet of EtherType 0xffff",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_cut_capture_is_used_as_far_as_it_goes_and_said_so() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, _] = upload(1);
    let whole = pcap(RAW_IP, &built(&wan, LinkLayer::RawIp));
    let wan = write(&directory, "wan.pcap", &whole[..whole.len() - 7]);
    let report = json_of(&args(&wan, None, ReportFormat::Json));
    let warning = report["warnings"][0].as_str().expect("a warning");
    assert!(warning.contains("wan.pcap is cut off at byte"), "{warning}");
}

#[test]
fn a_lan_capture_of_something_else_is_noticed() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, lan] = upload(5);
    let shifted: Vec<_> =
        lan.into_iter().map(|(time, packet)| (time, packet.seq(0x7000_0000).ack(0x7000_0000))).collect();
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &built(&wan, LinkLayer::RawIp)));
    let lan = write(&directory, "lan.pcap", &pcap(RAW_IP, &built(&shifted, LinkLayer::RawIp)));
    let report = json_of(&args(&wan, Some(&lan), ReportFormat::Json));
    let warnings = report["warnings"].to_string();
    assert!(warnings.contains("hardly any packet in common"), "{warnings}");
    assert!(warnings.contains("lower bound"), "{warnings}");
}
