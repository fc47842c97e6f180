//! `shape` of a link in figures.

use serde_json::json;

use super::*;
use crate::bpf::abi::pendulum_shape_counts;
use crate::snapshot::{ShapeSnapshot, ShapeState};
use pendulum_model::link::Provenance;

fn shape(snapshot: ShapeSnapshot) -> Value {
    serde_json::to_value(crate::http::shape::shape(&snapshot)).unwrap()
}

/// Each fate a count of its own: the power of two of its place.
fn counts() -> pendulum_shape_counts {
    pendulum_shape_counts {
        acks: std::array::from_fn(|fate| if fate == 3 { 0 } else { 1 << fate }),
        held_bytes: 72,
    }
}

fn at_work(state: ShapeState) -> ShapeSnapshot {
    ShapeSnapshot {
        state,
        ack_filter: "delayed",
        delta: 6,
        rates_bps: [Some(9_800_000), Some(47_500_000)],
        rate_source: Some(Provenance::Learnt),
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
        // The downlink is shaped only by what the configuration says.
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
        (ShapeState::Ineffective("no ifb".into()), "ineffective", true),
        (ShapeState::Declined("no ifb".into()), "declined", true),
        (ShapeState::Refused("no ifb".into()), "refused", false),
    ] {
        let is_explained = ["ineffective", "declined", "refused"].contains(&name);
        let reason = if is_explained { json!("no ifb") } else { Value::Null };
        let found = shape(at_work(state));
        assert_eq!((&found["state"], &found["reason"]), (&json!(name), &reason));
        for figure in ["delta", "acks", "held_acks", "held_bytes"] {
            assert_eq!(!found[figure].is_null(), works, "{name} {figure}");
        }
    }
    let idle = shape(ShapeSnapshot::default());
    assert_eq!((&idle["uplink"], &idle["downlink"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_comparison_keeps_its_two_sides_apart() {
    let found = &shape(example::link("dsl").shape)["ab_test"];
    let expected = json!({
        "pairs": 6,
        "outcome": "no_difference",
        // 0.125 ± 0.25.
        "change": 0.125,
        "confidence_interval": [-0.125, 0.375],
        // Half as long, ± 0.125.
        "rtt_change": -0.5,
        "rtt_confidence_interval": [-0.625, -0.375],
        "with": { "download_bps": 2_000_000.0, "upload_bps": 160_000.0, "rtt_s": 0.125 },
        "without": { "download_bps": 1_920_000.0, "upload_bps": 168_000.0, "rtt_s": 0.25 },
        "statement": "no difference found: download 2000 kbit/s with and 1920 without, upload 160 kbit/s with and 168 \
                      without, round trip 125 ms with and 250 without; change of the score +0.12 ± 0.25 (95 % confidence, 6 pairs of turns)",
    });
    assert_eq!(found, &expected);
    let mut early = example::link("dsl").shape;
    early.comparison.as_mut().unwrap().change = None;
    let found = &shape(early)["ab_test"];
    assert_eq!((&found["change"], &found["confidence_interval"]), (&Value::Null, &Value::Null));
}
