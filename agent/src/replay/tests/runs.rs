//! Whole replays of two captures: what counts as queued, as dropped and as the gateway's own, and what the user reads.

use pendulum_model::detector::Detector;
use pendulum_model::event::Event;
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::captures::{Frames, RAW_IP, args, built, json_of, pcap, upload, write};
use super::craft::{LinkLayer, Tcp, endpoint, up};
use crate::replay::cli::ReportFormat;
use crate::replay::flow::FlowKey;
use crate::replay::session::{Audience, Task, replay};
use crate::replay::tally::{InFlight, Tally};

const MS: u64 = 1_000_000;

/// Ten seconds of upload, 800 segments and a SYN, with these packets besides in the WAN and in the LAN capture.
fn replayed(wan: Frames, lan: Frames, home: &[&str]) -> Value {
    let directory = TempDir::new().expect("temporary directory");
    let [mut wan_frames, mut lan_frames] = upload(10).map(|packets| built(&packets, LinkLayer::RawIp));
    wan_frames.extend(wan);
    lan_frames.extend(lan);
    for frames in [&mut wan_frames, &mut lan_frames] {
        frames.sort_by_key(|(time, _)| *time);
    }
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &wan_frames));
    let lan = write(&directory, "lan.pcap", &pcap(RAW_IP, &lan_frames));
    let mut args = args(&wan, Some(&lan), ReportFormat::Json);
    args.home = home.iter().map(|text| text.parse().expect("prefix")).collect();
    json_of(&args)
}

/// So many packets, one every 100 ms from the first second on.
fn each(count: u64, packet: impl Fn(u64) -> Tcp) -> Frames {
    (0..count).map(|n| (1_000 * MS + 100 * MS * n, packet(n).build(LinkLayer::RawIp).bytes)).collect()
}

/// The same to another address.
fn to(destination: [u8; 4], frames: Frames) -> Frames {
    let readdressed = |(time, mut bytes): (u64, Vec<u8>)| {
        bytes[16..20].copy_from_slice(&destination);
        (time, bytes)
    };
    frames.into_iter().map(readdressed).collect()
}

fn datagram(number: u64) -> Tcp {
    up().protocol(17).payload(60).patch(30, number as u8)
}

fn dropped(report: &Value) -> &Value {
    &report["directions"]["up"]["queue"]["dropped_packets"]
}

/// One packet in twenty may be the gateway's own; of more the user reads. 801 packets are seen on both sides.
#[test]
fn packets_that_the_lan_has_not_seen_are_warned_of() {
    let own = |count| {
        let own = each(count, |n| up().home_port(9).seq(1 + 10 * n as u32).payload(10));
        replayed(own, Vec::new(), &[])["warnings"].clone()
    };
    assert_eq!(own(40), json!([]));
    assert_eq!(
        own(41),
        json!([
            "41 of 842 packets that left were not seen on the LAN side: the uplink queue is a lower bound"
        ])
    );
}

/// Packets between hosts at home never come to the uplink. Those that are to leave and do not were dropped.
#[test]
fn packets_that_stay_at_home_are_not_dropped() {
    let (home, neighbour) = (["192.0.2.0/24"], [192, 0, 2, 77]);
    let tcp = || each(8, |n| up().home_port(9).seq(1 + 10 * n as u32).payload(10));
    let udp = || each(6, datagram);
    // The last one of each leaves: those before it will not.
    let report = |lan: Frames| {
        let (time, last) = lan[lan.len() - 1].clone();
        replayed(vec![(time + MS, last)], lan, &home)
    };
    assert_eq!(dropped(&report(to(neighbour, tcp()))), 0);
    assert_eq!(dropped(&report(to(neighbour, udp()))), 0);
    assert_eq!(dropped(&report(tcp())), 7);
    assert_eq!(dropped(&report(udp())), 5);
    assert_eq!(report(udp())["home_by"], "option");
}

/// Datagrams that pass both captures stand in the buffer like anything else.
#[test]
fn datagrams_are_seen_on_both_sides() {
    let late = |frames: Frames| frames.into_iter().map(|(time, bytes)| (time + 40 * MS, bytes)).collect();
    let report = replayed(late(each(30, datagram)), each(30, datagram), &[]);
    assert_eq!(dropped(&report), 0);
    assert_eq!(report["warnings"], json!([]));
    let plain = replayed(Vec::new(), Vec::new(), &[]);
    let mean = |report: &Value| {
        let mean = report["directions"]["up"]["queue"]["mean_bytes"].as_f64().expect("a level");
        mean * report["duration_s"].as_f64().expect("a time")
    };
    // 30 of 100 bytes, for 40 ms each.
    let more = mean(&report) - mean(&plain);
    assert!((more - 30.0 * 100.0 * 0.04).abs() < 1.0, "{more}");
    assert_eq!((&report["packets"]["wan"], &report["packets"]["lan"]), (&json!(1_632), &json!(1_632)));
}

/// Where the user names the homes, packets between others belong to no direction.
#[test]
fn packets_between_strangers_are_left_out_and_warned_of() {
    let strange = to([8, 8, 8, 8], each(3, |n| up().home_port(9).seq(n as u32)));
    let strangers = strange
        .into_iter()
        .map(|(time, mut bytes)| {
            bytes[12..16].copy_from_slice(&[9, 9, 9, 9]);
            (time, bytes)
        })
        .collect();
    let report = replayed(strangers, Vec::new(), &["192.0.2.0/24"]);
    assert_eq!(
        report["warnings"],
        json!(["3 packets were left out, between addresses of which none is given with --home PREFIX"])
    );
    assert_eq!(report["packets"]["wan"], 1_605);
    assert_eq!(report["flows_total"], 1);
}

/// A flow that is seen on both sides has its outstanding data reported where it is largest: before the uplink's buffer.
#[test]
fn the_largest_flow_comes_first() {
    let other = |time: u64| {
        let frame =
            |n: u64| (1_000 * MS + 100 * MS * n + time, up().home_port(9).seq(1 + 10 * n as u32).payload(10));
        (0..5).map(frame).map(|(time, packet)| (time, packet.build(LinkLayer::RawIp).bytes)).collect()
    };
    let report = replayed(other(3 * MS), other(0), &[]);
    let flows: Vec<&str> =
        report["flows"].as_array().expect("rows").iter().filter_map(|row| row["client"].as_str()).collect();
    assert_eq!(flows, ["192.0.2.10:40000", "192.0.2.10:9"]);
    assert_eq!(endpoint::HOME_V4, [192, 0, 2, 10]);
    assert_eq!((&report["flows_total"], &report["flows"][1]["bytes"]), (&json!(2), &json!(50)));
    assert_eq!(report["flows"][1]["in_flight_max_bytes"], 0, "nothing of it was acknowledged");
}

/// What the detector receives of flows.
#[derive(Default)]
struct FlowSamples(Vec<FlowSample>);

impl Audience for FlowSamples {
    fn sample(&mut self, sample: &Sample, _: &Detector) {
        self.0.extend(&sample.flows);
    }

    fn event(&mut self, _: &Event) {}

    fn flow(&mut self, _: &FlowKey, _: &Tally, _: Option<&InFlight>) {}
}

/// Once a second, each flow by direction: its data, and the round trip of which either end takes a part.
#[test]
fn flows_are_reported_with_both_ends_round_trip() {
    let directory = TempDir::new().expect("temporary directory");
    let [wan, _] = upload(5).map(|packets| built(&packets, LinkLayer::RawIp));
    let task = Task {
        wan: write(&directory, "wan.pcap", &pcap(RAW_IP, &wan)),
        lan: None,
        rates: PerDirection::default(),
        home: Vec::new(),
    };
    let mut flows = FlowSamples::default();
    replay(&task, &|_, _, _| {}, &mut flows).expect("replays");
    // The last segment leaves at 5.02 s.
    assert_eq!(flows.0.len(), 6, "once a second, and at the end");
    let sum: u64 = flows.0.iter().map(|flow| flow.data_bytes).sum();
    assert_eq!(sum, 400 * 1_000);
    for flow in &flows.0 {
        assert_eq!((flow.id, flow.direction), (1, Direction::Up));
        // Home sends 29 ms after the answer to its SYN, which took 20 ms; its data is answered after 30 ms, to a microsecond each.
        let near = |found: Option<f64>, expected: f64| (found.expect("measured") - expected).abs() < 2e-6;
        assert!(near(flow.round_trip, 0.059) && near(flow.base_round_trip, 0.049), "{flow:?}");
    }
}
