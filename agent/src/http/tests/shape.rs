//! `shape` of a link in figures.

use serde_json::json;

use super::*;
use crate::bpf::abi::pendulum_shape_counts;
use crate::config::AckFilter;
use crate::snapshot::{ShapeSnapshot, ShapeState};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::Shaped;

fn shape(snapshot: ShapeSnapshot) -> Value {
    serde_json::to_value(snapshot.sent()).unwrap()
}

/// Each fate a count of its own: the power of two of its place.
fn counts() -> pendulum_shape_counts {
    pendulum_shape_counts {
        acks: std::array::from_fn(|fate| if fate == 3 { 0 } else { 1 << fate }),
        held_bytes: 72,
    }
}

fn shaped(rate_bps: u64, source: &'static str) -> Option<Shaped> {
    Some(Shaped { rate_bps, rate_source: Some(source.into()), auto: None })
}

fn at_work(state: ShapeState) -> ShapeSnapshot {
    ShapeSnapshot {
        state,
        ack_filter: Some(AckFilter::Delayed),
        delta: 6,
        shaped: PerDirection { up: shaped(9_800_000, "learnt"), down: shaped(47_500_000, "config") },
        counts: counts(),
        ..ShapeSnapshot::default()
    }
}

#[test]
fn a_shaper_at_work_tells_what_it_did() {
    let found = shape(at_work(ShapeState::Enforcing));
    let expected = json!({
        "state": "enforcing",
        "reason": null,
        "ack_filter": "delayed",
        "delta": 6,
        "uplink": { "rate_bps": 9_800_000, "rate_source": "learnt", "auto": null },
        "downlink": { "rate_bps": 47_500_000, "rate_source": "config", "auto": null },
        "acks": {
            // `stale_carrier`, the fourth, never happened.
            "passed": {
                "filter_off": 1, "first": 2, "no_carrier": 4, "unsafe_carrier": 16, "duplicate": 32,
                "timestamp": 64, "sack": 128, "flags": 256, "options": 512, "dscp": 1_024, "zero_window": 2_048,
                "local": 4_096, "slow_start": 8_192, "stretch": 16_384, "accecn": 32_768, "below_delta": 65_536,
                "under_used": 131_072, "fair_share": 262_144, "table_full": 524_288, "sequence": 1_048_576,
            },
            "held": { "redundant": 2_097_152, "overtaken": 4_194_304 },
            "would_hold": { "redundant": 8_388_608 },
            "rewritten": { "newest": 16_777_216 },
            "released": { "superseded": 33_554_432, "carrier_lost": 67_108_864 },
        },
        "held_acks": 2_097_152 + 4_194_304,
        "held_bytes": 72,
        "ab_test": null,
    });
    assert_eq!(found, expected);
}

#[test]
fn only_a_shaper_at_work_has_figures() {
    for (state, name, works) in [
        (ShapeState::Off, "off", false),
        (ShapeState::DryRun, "dry_run", true),
        (ShapeState::Enforcing, "enforcing", true),
        (ShapeState::Observing, "observing", true),
        (ShapeState::Ineffective, "ineffective", true),
        (ShapeState::Declined, "declined", true),
        (ShapeState::Refused, "refused", false),
    ] {
        let found = shape(ShapeSnapshot { reason: Some("no ifb".to_owned()), ..at_work(state) });
        assert_eq!((&found["state"], &found["reason"]), (&json!(name), &json!("no ifb")));
        for figure in ["delta", "acks", "held_acks", "held_bytes"] {
            assert_eq!(!found[figure].is_null(), works, "{name} {figure}");
        }
    }
    let idle = shape(ShapeSnapshot::default());
    assert_eq!((&idle["state"], &idle["ack_filter"]), (&json!("off"), &json!("off")));
    assert_eq!((&idle["uplink"], &idle["downlink"]), (&Value::Null, &Value::Null));
}

/// A rate that is found is in force while packets pass the shaper.
#[test]
fn a_found_rate_is_shown_while_the_shaper_shapes() {
    let mut snapshot = example::link("dsl").shape;
    let found = json!({ "rate_bps": 9_800_000, "waits_behind_s": 0.0175, "decision": "lower" });
    assert_eq!(serde_json::to_value(snapshot.found(Direction::Up)).unwrap(), found);
    assert!(snapshot.found(Direction::Down).is_none());
    // A turn of the comparison without shaping: what was decided is not in force.
    snapshot.state = ShapeState::Observing;
    assert!(snapshot.found(Direction::Up).is_none());
}
