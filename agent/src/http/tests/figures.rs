//! `/api/v1/state` in figures: each worked out by hand from what [`example`] puts into a link.

mod directions;

use pendulum_model::link::Provenance;
use serde_json::json;

use super::*;
use crate::snapshot::LinkRate;

/// Both are the same; numbers to nine digits.
pub(super) fn assert_same(path: &str, found: &Value, expected: &Value) {
    match (found, expected) {
        (Value::Object(a), Value::Object(b)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
            assert_eq!(keys(a), keys(b), "{path}");
            for (key, expected) in b {
                assert_same(&format!("{path}/{key}"), &a[key], expected);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            assert_eq!(a.len(), b.len(), "{path}: {found}");
            for (index, (found, expected)) in a.iter().zip(b).enumerate() {
                assert_same(&format!("{path}/{index}"), found, expected);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 * b.abs().max(1.0), "{path} is {a}, not {b}");
        }
        _ => assert_eq!(found, expected, "{path}"),
    }
}

/// What an agent on these links tells of each.
pub(super) async fn links(links: Vec<LinkSnapshot>) -> Vec<Value> {
    let request = Request::get("/api/v1/state").body(Body::empty()).unwrap();
    let (status, _, body) = ask(app(links), request).await;
    assert_eq!(status, StatusCode::OK);
    let mut state: Value = serde_json::from_str(&body).unwrap();
    let Value::Array(links) = state["links"].take() else { panic!("{state}") };
    links
}

pub(super) async fn link(link: LinkSnapshot) -> Value {
    links(vec![link]).await.remove(0)
}

/// The object without these keys, which another test looks at.
fn without(mut object: Value, keys: &[&str]) -> Value {
    for key in keys {
        assert!(object.as_object_mut().unwrap().remove(*key).is_some(), "{key}");
    }
    object
}

#[tokio::test]
async fn a_link_says_where_it_is_attached_and_what_was_lost() {
    let found = without(
        link(example::link("dsl")).await,
        &[
            "directions",
            "shape",
            "phase",
            "phase_for_s",
            "phase_source",
            "phase_share",
            "horizon_s",
            "phase_seconds",
        ],
    );
    let found = without(
        found,
        &[
            "phase_transitions",
            "verdict",
            "verdict_for_s",
            "lost_ratio",
            "severity",
            "evidence",
            "swing_period_s",
            "queue_correlation",
        ],
    );
    let found = without(
        found,
        &[
            "queue_lag_s",
            "throughput_ratio",
            "round_trip_s",
            "base_round_trip_s",
            "bulk",
            "unfair",
            "advice",
            "base_round_trip_proven",
            "bufferbloat",
            "standing_delay_s",
        ],
    );
    let expected = json!({
        "name": "dsl",
        "wan": "wan0",
        "device": "up",
        "attached": true,
        "hooks": { "ifindex": 3, "link_layer": "ethernet", "egress": "tcx", "ingress": "clsact" },
        "trouble": null,
        "vantage": "own_queue",
        "delay": {
            "place": "home",
            "queue_s": 0.2890625,
            "segments": {
                "home": { "base_s": 0.001, "queue_s": 0.25, "uncertainty_s": 0.0625, "host": "192.0.2.7" },
                "gateway": { "base_s": 0.0, "queue_s": 0.03125, "uncertainty_s": 0.015625 },
                "uplink": { "base_s": null, "queue_s": null, "uncertainty_s": null, "unknown": "undivided" },
                "downlink": { "base_s": null, "queue_s": null, "uncertainty_s": null, "unknown": "undivided" },
                "beyond": { "base_s": 0.02, "queue_s": 0.0078125, "uncertainty_s": 0.005 },
            },
            "home_bloat": { "since_s": 64.0, "delay_s": 0.25 },
            "beyond_bloat": null,
            "sender_limited": null,
            "receiver_limited": { "since_s": 32.0, "goodput_bps": 1_000_000.0 },
        },
        "link": { "uplink_rate_bps": 200_000, "downlink_rate_bps": null, "rate_source": "config" },
        "flow_table": { "flows": 3, "nursed": 112, "promoted": 113, "restarted": 114, "evicted": 7, "expired": 9 },
        "losses": {
            "link_header": 100, "vlan_depth": 101, "ip_header": 102, "ipv6_extensions": 103, "fragment": 104,
            "tcp_header": 105, "tcp_options": 106, "pull": 107, "flow_insert": 108, "ack_of_unseen": 109,
            "sequence_jump": 110, "request_displaced": 111, "history_overwritten": 6, "sample_rejected": 3, "event_log": 1,
            "stream_client_slow": 4, "slots_overwritten": 2, "torn_answers": 1, "program_recursion": 5,
        },
        "programs": [{ "name": "pendulum_up", "attached": true, "runs": 41, "run_seconds": 1.5 }],
        "maps": [{ "name": "flows", "entries": 3, "capacity": 256 }],
        "sources": [
            { "what": "queue", "direction": "up", "source": "tracepoint" },
            { "what": "cwnd", "direction": "up", "source": "tcp_probe" },
            { "what": "rate", "direction": "up", "source": "config" },
            { "what": "rtt", "direction": "up", "source": "packets" },
            { "what": "rtt", "direction": "down", "source": "packets" },
        ],
        "degraded": ["the uplink's queue is read by netlink; load BTF"],
        "round_trip_classes": {
            "up": null,
            "down": {
                "near_flows": 1, "far_flows": 2, "near_round_trip_s": 0.03, "far_round_trip_s": 0.1, "near_share": 0.8,
                "near_far_ratio": 4.0,
            },
        },
    });
    assert_same("", &found, &expected);
}

#[tokio::test]
async fn findings_are_reported_with_their_evidence_and_age() {
    let found = link(example::link("dsl")).await;
    let expected = json!({
        "phase": "uplink_bound",
        // Since second 88 of 100; the verdict since second 70.
        "phase_for_s": 12.0,
        "verdict": "locked_uplink",
        "verdict_for_s": 30.0,
        "lost_ratio": null,
        "severity": "warning",
        "phase_source": "queue_and_windows",
        "phase_share": { "uplink_bound": 0.85, "downlink_bound": 0.1, "balanced": 0.03, "idle": 0.02 },
        "phase_seconds": { "uplink_bound": 60.5, "downlink_bound": 20.25, "balanced": 3.0, "idle": 9.0 },
        // Five one way and one another way.
        "phase_transitions": 6,
        "horizon_s": 12.5,
        "evidence": {
            "rule": "one_buffer_never_empties",
            "reason": "the uplink buffer never empties and downloads starve",
            "figures": [
                { "name": "uplink_bound_share", "value": 0.85, "threshold": 0.8 },
                { "name": "lost_bytes_per_second", "value": 256_000.0 },
            ],
            "missing": ["base_round_trip"],
            "since_s": 70.0,
        },
        "swing_period_s": 2.5,
        "queue_correlation": -0.75,
        "queue_lag_s": 0.3,
        "throughput_ratio": { "measured": 1.25, "predicted": 1.5 },
        "round_trip_s": 0.0625,
        "base_round_trip_s": 0.04,
        "bulk": { "up": true, "down": false },
        "unfair": { "up": false, "down": true },
        "advice": example::link("dsl").findings.unwrap().sent.advice,
    });
    for (key, expected) in expected.as_object().unwrap() {
        assert_same(key, &found[key], expected);
    }
}

#[tokio::test]
async fn rates_belong_to_their_directions() {
    let rate = |text: &str, source| Some(LinkRate { rate: text.parse().unwrap(), source });
    let mut of = example::link("dsl");
    of.directions.up.rate = None;
    of.directions.down.rate = rate("4mbit", Provenance::ShapingQdisc);
    let found = link(of.clone()).await;
    let expected = json!({ "uplink_rate_bps": null, "downlink_rate_bps": 4_000_000, "rate_source": "qdisc" });
    assert_same("link", &found["link"], &expected);
    // 250,000 of 500,000 bytes per second.
    assert_eq!(found["directions"]["down"]["utilization"], 0.5);
    assert_eq!(found["directions"]["up"]["utilization"], Value::Null);
    of.directions.down.rate = None;
    let expected = json!({ "uplink_rate_bps": null, "downlink_rate_bps": null, "rate_source": null });
    assert_same("link", &link(of).await["link"], &expected);
}

#[tokio::test]
async fn every_link_tells_its_own_figures() {
    let mut other = example::link("lte");
    other.wan = "wwan0".into();
    std::mem::swap(&mut other.directions.up, &mut other.directions.down);
    let found = links(vec![example::link("dsl"), other]).await;
    assert_eq!(found.len(), 2);
    for (index, name, wan, up, down) in [(0, "dsl", "wan0", 1_000, 2_000), (1, "lte", "wwan0", 2_000, 1_000)]
    {
        let link = &found[index];
        assert_eq!((&link["name"], &link["wan"]), (&json!(name), &json!(wan)));
        assert_eq!(link["directions"]["up"]["segments"]["data"], up);
        assert_eq!(link["directions"]["down"]["segments"]["data"], down);
    }
}

#[tokio::test]
async fn the_head_of_the_state_tells_how_reloading_went() {
    let (send, active) = Active::start(Config::default());
    send.send_modify(|active| {
        active.refuse("one".to_owned());
        active.refuse("a mistake".to_owned());
        active.reloads.reloads_applied = 5;
        active.reloads.waiting_for_restart = vec!["listen".to_owned()];
    });
    let board = example::board(vec![]);
    let app = App::new(board, Journal::new(None), active, true, watch::channel(false).1);
    let request = Request::get("/api/v1/state").body(Body::empty()).unwrap();
    let (_, _, body) = ask(router(Arc::new(app), Access::local()), request).await;
    let state: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
    assert!(state["uptime_s"].as_f64().unwrap() >= 0.0);
    let expected = json!({
        "reloads_applied": 5, "reloads_refused": 2, "error": "a mistake", "waiting_for_restart": ["listen"],
    });
    assert_same("config", &state["config"], &expected);
    assert_eq!(state["links"], json!([]));
}

#[tokio::test]
async fn readiness_names_each_link() {
    let mut other = example::link("lte");
    other.hooks = None;
    other.trouble = Some("not there".into());
    other.device = crate::snapshot::DeviceState::Down;
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let (status, _, body) = ask(app(vec![other, example::link("dsl")]), request).await;
    let mut found = serde_json::from_str::<Value>(&body).unwrap();
    let age = found["links"]["dsl"]["reading_age_s"].take();
    assert!(age.as_f64().is_some_and(|age| (0.0..10.0).contains(&age)), "{age}");
    let expected = json!({
        "ready": true,
        "idle": false,
        "links": {
            "dsl": { "ready": true, "device": "up", "trouble": null, "reading_age_s": null },
            "lte": { "ready": false, "device": "down", "trouble": "not there", "reading_age_s": null },
        },
    });
    assert_eq!((status, found), (StatusCode::OK, expected));
}
