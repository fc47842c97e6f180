//! What the state tells of each direction, and what it leaves open.

use pendulum_model::observer::Trust;
use pendulum_model::sample::QueueSource;
use serde_json::json;

use super::{assert_same, link};
use crate::snapshot::{QueueSnapshot, example};

#[tokio::test]
async fn the_uplink_s_figures_are_the_uplink_s() {
    let found = &link(example::link("dsl")).await["directions"]["up"];
    let expected = json!({
        "segments": {
            "data": 1_000, "ack": 1_001, "dup_ack": 1_002, "sack": 1_003, "window_update": 1_004, "keep_alive": 1_005,
            "zero_window_probe": 1_006, "syn": 1_007, "fin": 1_008, "rst": 1_009, "other": 1_010, "non_tcp": 1_011,
        },
        // 100 bytes each: 12 · 1,000 + 66 segments.
        "bytes": 1_206_600,
        "payload_bytes": 90_000,
        "retransmitted_segments": 1_005,
        "reordered_segments": 1_006,
        "marked_segments": { "ce": 1_001, "ece": 1_002, "cwr": 1_003, "sack": 1_004 },
        // 12,500 bytes per second, half of 200 kbit/s.
        "throughput_bps": 100_000.0,
        "throughput_1s_bps": 100_000.0,
        "utilization": 0.5,
        "goodput_bps": 96_000.0,
        "in_flight_bytes": 4_321,
        "flows": 2,
        // Ten samples between 20 and 50 ms, 400 ms together: half of the way, and 95 % of it.
        "rtt": { "samples": 10, "min_s": 0.030_001, "mean_s": 0.04, "p50_s": 0.037_722, "p95_s": 0.043_546_8 },
        // 1,000 bursts of one ACK, and one of twenty.
        "ack_burst": { "mean": 1_020.0 / 1_001.0, "p95": 1, "histogram": { "1": 1_000, "20": 1 } },
        "queue": {
            "source": "tracepoint", "trust": null, "qdisc": "tbf", "bytes": 4_542, "packets": 4, "ack_bytes": 66,
            "ack_packets": 1, "peak_bytes": 6_056, "uncertainty_bytes": 0.0, "standing_bytes": 3_028.0,
            "limit_bytes": 30_000,
            "drops": { "overlimit": 7, "aqm": 3, "ack_filter": 2, "other": 1 },
            // 1,000 bytes of TCP data and 7,000 of UDP, 6,000 of them to one port.
            "composition": { "tcp_data": 0.125, "ack": 0.0, "udp": 0.875, "other": 0.0 },
            "top_port": { "name": "UDP port 443", "protocol": 17, "port": 443, "share": 0.75 },
        },
        "cwnd_bytes": 14_480,
        "cwnd_source": "tcp_probe",
        "unseen_ratio": 0.25,
    });
    assert_same("", found, &expected);
}

#[tokio::test]
async fn the_downlink_s_figures_are_the_downlink_s() {
    let found = &link(example::link("dsl")).await["directions"]["down"];
    let expected = json!({
        "segments": {
            "data": 2_000, "ack": 2_001, "dup_ack": 2_002, "sack": 2_003, "window_update": 2_004, "keep_alive": 2_005,
            "zero_window_probe": 2_006, "syn": 2_007, "fin": 2_008, "rst": 2_009, "other": 2_010, "non_tcp": 2_011,
        },
        // 12 · 2,000 + 66 segments.
        "bytes": 2_406_600,
        "payload_bytes": 180_000,
        "retransmitted_segments": 2_005,
        "reordered_segments": 2_006,
        "marked_segments": { "ce": 2_001, "ece": 2_002, "cwr": 2_003, "sack": 2_004 },
        "throughput_bps": 2_000_000.0,
        "throughput_1s_bps": 2_000_000.0,
        // Nobody knows the downlink's rate, and nobody sees its queue.
        "utilization": null,
        "queue": null,
        "cwnd_bytes": null,
        "cwnd_source": null,
        "goodput_bps": 1_920_000.0,
        "in_flight_bytes": 5_432,
        "flows": 3,
        // Eight samples between 50 and 100 ms, two between 100 and 200 ms. The fifth is 5/8 of the way through the first eight,
        // rank 9.5 is three quarters through the other two.
        "rtt": { "samples": 10, "min_s": 0.060_001, "mean_s": 0.08, "p50_s": 0.078_68, "p95_s": 0.118_75 },
        "ack_burst": { "mean": 4_040.0 / 2_002.0, "p95": 2, "histogram": { "2": 2_000, "20": 2 } },
        "unseen_ratio": 0.5,
    });
    assert_same("", found, &expected);
}

/// Of a buffer elsewhere only the level is known: nothing of it is made up.
#[tokio::test]
async fn an_estimated_queue_has_a_level_and_no_more() {
    let mut of = example::link("dsl");
    of.directions.down.queue = Some(QueueSnapshot {
        source: QueueSource::Estimate,
        bytes: 9_000,
        peak_bytes: 12_000,
        uncertainty_bytes: Some(1_500.0),
        standing_bytes: Some(8_000.0),
        trust: Some(Trust::Confirmed),
        drops: [1, 2, 3, 4],
        ..QueueSnapshot::default()
    });
    let found = link(of).await;
    let expected = json!({
        "source": "estimate", "trust": "confirmed", "qdisc": null, "bytes": 9_000, "packets": null, "ack_bytes": null,
        "ack_packets": null, "peak_bytes": 12_000, "uncertainty_bytes": 1_500.0, "standing_bytes": 8_000.0,
        "limit_bytes": null, "drops": {},
        "composition": null, "top_port": null,
    });
    assert_same("queue", &found["directions"]["down"]["queue"], &expected);
    assert_eq!(found["sources"][4], json!({ "what": "queue", "direction": "down", "source": "estimate" }));
}
