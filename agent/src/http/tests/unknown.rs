//! `/api/v1/state`: what is not known is absent, never 0; and figures that only some links have.

use pendulum_model::link::Provenance;
use pendulum_model::sample::QueueSource;
use serde_json::json;

use super::figures::{assert_same, link};
use super::*;
use crate::bpf::abi;
use crate::snapshot::{Entered, Findings, LinkRate, QueueSnapshot};

/// A link that carried nothing has no round trip, no bursts: absent, not 0.
#[tokio::test]
async fn what_was_not_measured_is_null() {
    let mut of = example::link("dsl");
    of.device = crate::snapshot::DeviceState::Missing;
    of.hooks = None;
    of.trouble = Some("it is gone".into());
    for direction in of.directions.both_mut() {
        direction.rtt = crate::snapshot::RecentRtt::default();
        direction.counters = abi::pendulum_counters::default();
        direction.unseen_ratio = None;
    }
    let found = link(of).await;
    assert_eq!((&found["device"], &found["attached"]), (&json!("missing"), &json!(false)));
    assert_eq!((&found["hooks"], &found["trouble"]), (&Value::Null, &json!("it is gone")));
    for direction in ["up", "down"] {
        for figure in ["rtt", "ack_burst", "unseen_ratio"] {
            assert_eq!(found["directions"][direction][figure], Value::Null, "{direction} {figure}");
        }
    }
    assert!(found["sources"].as_array().unwrap().iter().all(|source| source["what"] != "rtt"));
}

/// The smallest round trip of the flows that have one; none while samples come from flows that are gone.
#[tokio::test]
async fn the_smallest_round_trip_needs_a_sample() {
    let mut of = example::link("dsl");
    let mut flows = (*of.flows).clone();
    flows.rows[0].halves.up.rtt_samples = 0;
    of.flows = Arc::new(flows.clone());
    assert_eq!(link(of.clone()).await["directions"]["up"]["rtt"]["min_s"], 0.030_002);
    for row in &mut flows.rows {
        row.halves.up.rtt_samples = 0;
    }
    of.flows = Arc::new(flows);
    let found = link(of).await;
    assert_eq!(found["directions"]["up"]["rtt"]["min_s"], Value::Null);
    assert_eq!(found["directions"]["down"]["rtt"]["min_s"], 0.060_001);
}

/// Nothing of the detector is made up for a link that it does not see.
#[tokio::test]
async fn a_link_without_findings_has_none() {
    let mut silent = example::link("dsl");
    silent.findings = None;
    let found = link(silent).await;
    let expected = json!({
        "phase": null, "phase_for_s": null, "phase_source": null, "phase_share": null, "horizon_s": null,
        "phase_seconds": null, "phase_transitions": null, "verdict": null, "verdict_for_s": null, "lost_ratio": null, "severity": null, "evidence": null,
        "swing_period_s": null, "queue_correlation": null, "queue_lag_s": null,
        "throughput_ratio": { "measured": null, "predicted": null },
        "round_trip_s": null, "base_round_trip_s": null, "base_round_trip_proven": null, "bulk": null, "unfair": null,
        "standing_delay_s": { "up": null, "down": null }, "bufferbloat": { "up": null, "down": null },
        "round_trip_classes": { "up": null, "down": null }, "advice": null,
    });
    for (key, expected) in expected.as_object().unwrap() {
        assert_same(key, &found[key], expected);
    }
    // What is counted is counted all the same.
    assert_eq!(found["directions"]["up"]["segments"]["data"], 1_000);
    assert_eq!(found["degraded"].as_array().map(Vec::len), Some(1));
}

async fn with_findings(change: impl FnOnce(&mut Findings)) -> Value {
    let mut of = example::link("dsl");
    let mut findings = (*of.findings.take().unwrap()).clone();
    change(&mut findings);
    of.findings = Some(Arc::new(findings));
    link(of).await
}

/// A detector that has just begun knows no phase, no advice, no round trip; its verdict is of this moment.
#[tokio::test]
async fn what_the_detector_does_not_know_yet_is_null() {
    let found = with_findings(|findings| {
        findings.phase = None;
        // The kernel's clock and ours may differ by a little.
        findings.verdict_since = findings.at + std::time::Duration::from_millis(1);
        findings.sent = Arc::default();
    })
    .await;
    for key in [
        "phase",
        "phase_for_s",
        "advice",
        "base_round_trip_s",
        "base_round_trip_proven",
        "evidence",
        "phase_share",
    ] {
        assert_eq!(found[key], Value::Null, "{key}");
    }
    assert_eq!((&found["verdict"], &found["verdict_for_s"]), (&json!("locked_uplink"), &json!(0.0)));
    assert_eq!(found["phase_transitions"], 6);
}

/// With two rates the source is that of the uplink, whose queue decides.
#[tokio::test]
async fn each_rate_has_its_source() {
    let rate = |text: &str, source| Some(LinkRate { rate: text.parse().unwrap(), source });
    let mut of = example::link("dsl");
    of.directions.up.rate = rate("1mbit", Provenance::Learnt);
    of.directions.down.rate = rate("16mbit", Provenance::ShapingQdisc);
    let found = link(of).await;
    let expected =
        json!({ "uplink_rate_bps": 1_000_000, "downlink_rate_bps": 16_000_000, "rate_source": "learnt" });
    assert_same("link", &found["link"], &expected);
    let rates: Vec<_> =
        found["sources"].as_array().unwrap().iter().filter(|source| source["what"] == "rate").collect();
    let expected = [
        json!({ "what": "rate", "direction": "up", "source": "learnt" }),
        json!({ "what": "rate", "direction": "down", "source": "qdisc" }),
    ];
    assert_eq!(rates, expected.iter().collect::<Vec<_>>());
    // 12,500 bytes per second of 1 Mbit/s, and 250,000 of 16.
    assert_eq!(found["directions"]["up"]["utilization"], 0.1);
    assert_eq!(found["directions"]["down"]["utilization"], 0.125);
}

/// A downlink whose queue is here tells its own level, drops and content.
#[tokio::test]
async fn both_queues_have_their_own_figures() {
    let mut of = example::link("dsl");
    of.directions.down.queue = Some(QueueSnapshot {
        source: QueueSource::Netlink,
        qdisc: "cake".into(),
        bytes: 1_001,
        packets: 12,
        ack_bytes: None,
        ack_packets: None,
        peak_bytes: 3_003,
        uncertainty_bytes: None,
        standing_bytes: None,
        limit_bytes: Some(4_004),
        drops: [11, 12, 13, 14],
        ..QueueSnapshot::default()
    });
    of.directions.down.cwnd_bytes = Some(2_896);
    of.directions.down.entered = Entered { top_port: None, ..of.directions.up.entered.clone() };
    let found = link(of).await;
    let expected = json!({
        "source": "netlink", "trust": null, "qdisc": "cake", "bytes": 1_001, "packets": 12, "ack_bytes": null,
        "ack_packets": null, "peak_bytes": 3_003, "uncertainty_bytes": null, "standing_bytes": null,
        "limit_bytes": 4_004, "drops": { "overlimit": 11, "aqm": 12, "ack_filter": 13, "other": 14 },
        "composition": { "tcp_data": 0.125, "ack": 0.0, "udp": 0.875, "other": 0.0 }, "top_port": null,
    });
    assert_same("queue", &found["directions"]["down"]["queue"], &expected);
    let down = &found["directions"]["down"];
    assert_eq!((&down["cwnd_bytes"], &down["cwnd_source"]), (&json!(2_896), &json!("tcp_probe")));
    assert_eq!(found["directions"]["up"]["cwnd_bytes"], 14_480);
    assert_eq!(found["directions"]["up"]["queue"]["bytes"], 4_542);
}

/// How long the agent has run, not the machine or the request.
#[tokio::test]
async fn the_uptime_counts_from_the_start() {
    let (journal, stopping) = (Journal::new(None), watch::channel(false).1);
    let active = Active::start(Config::default()).1;
    let mut app = App::new(example::board(vec![]), journal, active, true, stopping);
    app.started -= std::time::Duration::from_secs(100);
    let request = Request::get("/api/v1/state").body(Body::empty()).unwrap();
    let (_, _, body) = ask(router(Arc::new(app), Access::local()), request).await;
    let uptime = serde_json::from_str::<Value>(&body).unwrap()["uptime_s"].as_f64().unwrap();
    assert!((100.0..200.0).contains(&uptime), "{uptime}");
}
