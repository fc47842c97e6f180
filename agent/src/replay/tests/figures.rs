//! A small capture whose every figure can be worked out by hand.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::captures::{RAW_IP, args, built, json_of, pcap, write};
use super::craft::{LinkLayer, Tcp, down, flag, up};
use crate::replay::cli::ReportFormat;

const MS: u64 = 1_000_000;

/// A connection from home that sends 500 bytes and gets 2,000, the first half of them twice; and 600 bytes from outside to a
/// port at home, of which no beginning was seen. 40 bytes of headers each.
fn conversation() -> Vec<(u64, Tcp)> {
    let (syn_ack, fin) = (flag::SYN | flag::ACK, flag::FIN | flag::ACK);
    let mut packets = vec![
        (0, up().flags(flag::SYN).seq(0).ack(0)),
        (20 * MS, down().flags(syn_ack).seq(0).ack(1)),
        (21 * MS, up().seq(1).ack(1)),
        (25 * MS, up().seq(1).ack(1).window(900)),
        (30 * MS, up().seq(1).ack(1).window(900).payload(500)),
        (60 * MS, down().seq(1).ack(501)),
        (70 * MS, down().seq(1).ack(501).payload(1000)),
        (75 * MS, down().seq(1001).ack(501).payload(1000)),
        (95 * MS, down().seq(1).ack(501).payload(1000)),
        (100 * MS, up().seq(501).ack(2001).window(900)),
        (200 * MS, up().flags(fin).seq(501).ack(2001).window(900)),
        (230 * MS, down().flags(fin).seq(2001).ack(502)),
        (231 * MS, up().seq(502).ack(2002).window(900)),
    ];
    packets.extend([
        (110 * MS, down().home_port(22).seq(7_000).payload(600)),
        (112 * MS, up().home_port(22).seq(50).ack(7_600)),
    ]);
    packets.sort_by_key(|(time, _)| *time);
    packets
}

fn report(packets: &[(u64, Tcp)]) -> Value {
    let directory = TempDir::new().expect("temporary directory");
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &built(packets, LinkLayer::RawIp)));
    json_of(&args(&wan, None, ReportFormat::Json))
}

fn assert_near(found: &Value, expected: f64, what: &str) {
    assert_within(found, expected, 1e-9, what);
}

fn assert_within(found: &Value, expected: f64, part: f64, what: &str) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{what}: {found}"));
    assert!((found - expected).abs() <= part * expected.abs(), "{what} is {found}, not {expected}");
}

#[test]
fn both_directions_in_figures() {
    let report = report(&conversation());
    assert_near(&report["duration_s"], 0.231, "duration");
    assert_eq!(report["packets"], json!({ "wan": 15, "lan": 0, "used": 15, "left_out": {} }));
    let link =
        json!({ "uplink_rate_bps": 800_000.0, "downlink_rate_bps": 8_000_000.0, "rate_source": "config" });
    assert_eq!(report["link"], link);
    assert_eq!((&report["flows_total"], &report["home_by"]), (&json!(2), &json!("handshake")));
    assert_eq!(report["lost"], json!({}));

    let segments = |direction: &str| {
        let counts = report["directions"][direction]["segments"].as_object().expect("classes");
        assert_eq!(counts.len(), 12);
        counts
            .iter()
            .filter(|(_, count)| **count != 0)
            .map(|(class, count)| (class.clone(), count.clone()))
            .collect()
    };
    let up: Value = segments("up");
    assert_eq!(up, json!({ "syn": 1, "ack": 4, "window_update": 1, "data": 1, "fin": 1 }));
    let down: Value = segments("down");
    assert_eq!(down, json!({ "syn": 1, "ack": 1, "data": 4, "fin": 1 }));

    for (direction, bytes, goodput, rate, retransmitted) in [
        // Eight segments and 500 bytes; 500 bytes were acknowledged; 100,000 bytes per second.
        ("up", 820, 500.0, 100_000.0, 0),
        // Seven, 3,000 bytes and 600; of these the 600 were never acknowledged anew, but passed.
        ("down", 3_880, 2_600.0, 1_000_000.0, 1),
    ] {
        let found = &report["directions"][direction];
        assert_eq!(found["bytes"], bytes, "{direction}");
        assert_near(&found["goodput_bps"], goodput * 8.0 / 0.231, direction);
        assert_near(&found["utilization"], f64::from(bytes) / 0.231 / rate, direction);
        let repeated = (&found["retransmitted_segments"], &found["reordered_segments"]);
        assert_eq!(repeated, (&json!(retransmitted), &json!(0)), "{direction}");
        assert_eq!(found["queue"]["dropped_packets"], Value::Null, "{direction}");
    }
    // Two ACKs before home's data; one before the first data of the other end.
    let bursts = |direction: &str| &report["directions"][direction]["ack_burst"];
    assert_eq!(*bursts("up"), json!({ "mean": 2.0, "p95": 2, "histogram": { "2": 1 } }));
    assert_eq!(*bursts("down"), json!({ "mean": 1.0, "p95": 1, "histogram": { "1": 1 } }));
    assert_near(&report["throughput_ratio"]["measured"], 2_600.0 / 500.0, "download over upload");
    assert_eq!(report["throughput_ratio"]["predicted"], Value::Null, "no two-way bulk traffic");
}

#[test]
fn both_flows_in_figures() {
    let report = report(&conversation());
    let [download, other] = report["flows"].as_array().expect("flows").as_slice() else { panic!("{report}") };
    assert_eq!(
        (&download["client"], &download["server"]),
        (&json!("192.0.2.10:40000"), &json!("198.51.100.20:80"))
    );
    assert_eq!((&download["direction"], &download["bytes"]), (&json!("down"), &json!(2_000)));
    assert_near(&download["duration_s"], 0.231, "duration");
    let goodput = 2_000.0 * 8.0 / 0.231;
    assert_near(&download["goodput_bps"], goodput, "goodput");
    // The server answered after 20, 30 and 30 ms, home after 1 ms each time.
    // Times are whole microseconds, and no packet is timed from 0.
    assert_within(&download["rtt_min_s"], 0.021, 1e-4, "smallest round trip");
    let mean = 0.08 / 3.0 + 0.001;
    assert_within(&download["rtt_mean_s"], mean, 1e-4, "mean round trip");
    assert_within(&download["window_mean_bytes"], goodput / 8.0 * mean, 1e-4, "window");
    // 1,000 bytes for 5 ms and 2,000 for 25 ms, of the 161 ms from the first of them.
    assert_near(&download["in_flight_mean_bytes"], 55_000.0 / 161.0, "in flight");
    assert_eq!(
        (&download["in_flight_max_bytes"], &download["retransmitted_segments"]),
        (&json!(2_000), &json!(1))
    );

    // Who opened it was not seen: home counts as the client.
    assert_eq!((&other["client"], &other["server"]), (&json!("192.0.2.10:22"), &json!("198.51.100.20:80")));
    assert_eq!((&other["direction"], &other["bytes"]), (&json!("down"), &json!(600)));
    assert_near(&other["goodput_bps"], 600.0 * 8.0 / 0.002, "goodput");
    // Only home has answered.
    assert_near(&other["rtt_min_s"], 0.002, "smallest round trip");
    assert_near(&other["rtt_mean_s"], 0.002, "mean round trip");
}

/// A capture that begins with the answer to a SYN: who gave it has not opened the connection.
#[test]
fn the_client_is_who_opened_the_connection() {
    let syn_ack = flag::SYN | flag::ACK;
    let inbound = report(&[
        (0, down().flags(flag::SYN).seq(0).ack(0)),
        (MS, up().flags(syn_ack).seq(0).ack(1)),
        // Home opens more connections than others do.
        (2 * MS, up().home_port(50_000).flags(flag::SYN).seq(0).ack(0)),
        (3 * MS, up().home_port(50_001).flags(flag::SYN).seq(0).ack(0)),
        (4 * MS, up().home_port(50_002).flags(flag::SYN).seq(0).ack(0)),
        (5 * MS, up().home_port(50_003).flags(flag::SYN).seq(0).ack(0)),
        (6 * MS, down().home_port(50_004).flags(syn_ack).seq(0).ack(1)),
    ]);
    let flows = inbound["flows"].as_array().expect("flows");
    let clients: Vec<_> = flows.iter().map(|flow| flow["client"].as_str().expect("a text")).collect();
    // No bytes: in the order of their ends.
    assert_eq!(
        clients,
        [
            "198.51.100.20:80",
            "192.0.2.10:50000",
            "192.0.2.10:50001",
            "192.0.2.10:50002",
            "192.0.2.10:50003",
            "192.0.2.10:50004"
        ]
    );
    assert_eq!(flows[0]["server"], "192.0.2.10:40000");
}
