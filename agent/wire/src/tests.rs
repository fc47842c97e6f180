use pendulum_model::findings::{Change, FindingKind, Phase, Verdict};
use pendulum_model::segment;
use serde_json::{Value, json};

use super::*;

fn json_of(value: impl Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

/// What the journal writes is read whole: nothing of it is lost on the way.
#[test]
fn every_event_is_read_as_it_was_written() {
    let direction = Some(segment::Direction::Up);
    let changes = [
        Change::Phase { from: None, to: Phase::Idle, dwell_s: 0.0 },
        Change::Phase { from: Some(Phase::Idle), to: Phase::UplinkBound, dwell_s: 2.5 },
        Change::Verdict { from: Verdict::Clear, to: Verdict::LockedUplink },
        Change::Finding { finding: FindingKind::Bufferbloat, direction },
        Change::FindingEnded { finding: FindingKind::RttUnfairness, direction: None },
        Change::ShapeRate {
            direction: segment::Direction::Down,
            from_bps: 2e6,
            to_bps: 1.5e6,
            decision: pendulum_model::autorate::Decision::Lower,
        },
    ];
    for change in changes {
        let evidence = Evidence::new("rule", "reason", Vec::new(), 1.0);
        let mut written = json_of(pendulum_model::event::Event { at_s: 7.25, change, evidence });
        let record = written.as_object_mut().expect("an object");
        record.extend([
            ("seq".to_owned(), json!(3)),
            ("link".to_owned(), json!("dsl")),
            ("time".to_owned(), json!("2026-01-01T00:00:00.000Z")),
        ]);
        record.entry("from").or_insert(Value::Null);
        let read: JournalEvent = serde_json::from_value(written.clone()).expect("an event");
        assert_eq!(json_of(read), written);
    }
}

/// Another version of the agent: what is missing is the default, what is new is left aside, names may be unknown.
#[test]
fn answers_of_other_versions_are_read() {
    let link: Link = serde_json::from_value(json!({
        "name": "dsl", "verdict": "wobbling", "newer": {"than": "this"}, "directions": {"up": {"queue": {"bytes": null}}},
    }))
    .expect("a link");
    assert_eq!((&*link.name, link.verdict.as_deref()), ("dsl", Some("wobbling")));
    assert_eq!(
        link.directions.up.queue.map(|queue| queue.bytes),
        Some(None),
        "a level that is not known is not 0"
    );
    assert!(link.directions.down.queue.is_none() && link.phase_share.is_none());
}

#[test]
fn phases_have_their_own_figures() {
    let shares = PerPhase::from([0.5, 0.25, 0.125, 0.0625]);
    for (phase, share) in Phase::ALL.into_iter().zip([0.5, 0.25, 0.125, 0.0625]) {
        assert_eq!((shares.of(phase), json_of(shares)[phase.name()].as_f64()), (share, Some(share)));
    }
}
