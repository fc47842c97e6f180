use super::*;
use crate::run::estimate::tests::fill_a_modem;
use crate::run::estimate::{BUCKET_NS, LinkEstimate};
use crate::run::own_queue::tests::MS;
use crate::run::samples::tests::{bucket, counters};
use crate::shape::{TrialOutcome, TrialTurn};
use crate::snapshot::{QueueSnapshot, example};
use pendulum_model::autorate::Decision;
use pendulum_model::observer::Vantage;

const TICK: Duration = Duration::from_millis(100);

fn rate(text: &str, source: Provenance) -> Option<LinkRate> {
    Some(LinkRate { rate: text.parse().expect("a rate"), source })
}

fn queue(source: QueueSource, trust: Option<Trust>) -> Option<QueueSnapshot> {
    Some(QueueSnapshot { source, trust, ..QueueSnapshot::default() })
}

fn estimated(trust: Trust) -> Option<QueueSnapshot> {
    queue(QueueSource::Estimate, Some(trust))
}

/// Everything of it is measured as well as can be.
fn well_measured() -> LinkSnapshot {
    let mut link = example::link("dsl");
    for x in Direction::ALL {
        let direction = &mut link.directions[x];
        direction.queue = queue(QueueSource::Tracepoint, None);
        direction.rate = rate("100kbit", Provenance::Config);
        // Drivers count differently by as much.
        direction.unseen_ratio = Some(0.099);
    }
    link
}

#[test]
fn what_is_measured_less_well_is_said_and_nothing_else() {
    type Change = fn(&mut LinkSnapshot);
    let said = |link: &LinkSnapshot| degraded(link, &PerDirection::default());
    assert_eq!(said(&well_measured()), Vec::<String>::new());
    let cases: [(Change, &str); 9] = [
        (|link| link.directions.up.queue = estimated(Trust::Confirmed), ""),
        (
            |link| link.directions.up.queue = estimated(Trust::NeverEmpty),
            "the uplink's buffer was never seen empty",
        ),
        (
            |link| link.directions.down.queue = estimated(Trust::Stale),
            "the downlink's buffer was not seen empty for minutes",
        ),
        (
            |link| link.directions.up.queue = queue(QueueSource::Netlink, None),
            "the uplink's queue is read by netlink ten times a second",
        ),
        (|link| link.directions.down.queue = None, "the level of the downlink's buffer is unknown"),
        (
            |link| link.directions.down.unseen_ratio = Some(0.1),
            "10 % of the bytes that wan0 carried down in the last seconds bypassed the agent",
        ),
        (|link| link.directions.up.unseen_ratio = None, ""),
        (
            |link| link.directions.down.rate = None,
            "the downlink's rate is unknown; give downlink-rate in the configuration",
        ),
        (
            |link| link.directions.up.rate = rate("100kbit", Provenance::Learnt),
            "the uplink's rate is measured while its buffer holds a queue",
        ),
    ];
    for (change, begin) in cases {
        let mut link = well_measured();
        change(&mut link);
        let sentences = said(&link);
        assert_eq!(sentences.len(), usize::from(!begin.is_empty()), "{begin}: {sentences:?}");
        assert!(sentences.iter().all(|sentence| sentence.starts_with(begin)), "{begin}: {sentences:?}");
    }
    // A link that is not measured is not measured badly.
    let mut unmeasured = LinkSnapshot { findings: None, ..well_measured() };
    unmeasured.directions.up.queue = None;
    assert!(said(&unmeasured).is_empty());
}

#[test]
fn a_configured_rate_that_the_link_exceeds_is_named_with_what_it_carried() {
    let mut link = well_measured();
    let contradicted = PerDirection { up: Some(12_500.0), down: None };
    assert!(degraded(&link, &contradicted).is_empty(), "the configured rate counts still");
    link.directions.up.rate = rate("180kbit", Provenance::Learnt);
    let sentences = degraded(&link, &contradicted);
    let [sentence] = sentences.as_slice() else { panic!("{sentences:?}") };
    let begin = "uplink-rate is configured as 100kbit, but the link carried 180kbit";
    assert!(sentence.starts_with(begin), "{sentence}");
}

#[test]
fn a_tick_has_a_level_for_each_hundredth_of_a_second() {
    let at = Duration::from_secs(2);
    let level = Seen::Level(QueueSample::level(QueueSource::Netlink, 9_000.0));
    for (passed_ms, count) in [(0, 1), (100, 10), (104, 10), (106, 11), (1_000, 100), (60_000, 100)] {
        let half = steps(level, at, Duration::from_millis(passed_ms));
        assert_eq!(half.queue_bytes, Some(vec![9_000.0; count]), "{passed_ms} ms");
        assert_eq!(half.queue_uncertainty_bytes.map(|steps| steps.len()), Some(count));
        assert_eq!(half.source.as_deref(), Some("netlink"));
    }
    let unseen = steps(Seen::Nothing, at, TICK);
    assert!(unseen.queue_bytes.is_none() && unseen.source.is_none(), "{unseen:?}");
    let buckets = [bucket(190, 400, [0; 2]), bucket(191, 800, [0; 2])];
    let traced = steps(Seen::Buckets(&buckets), at, TICK);
    assert_eq!((traced.queue_bytes, traced.queue_ack_bytes), (Some(vec![300.0, 600.0]), Some(vec![0.0; 2])));
    assert_eq!(traced.source.as_deref(), Some("tracepoint"));
}

#[test]
fn an_estimated_level_is_unknown_where_a_part_of_the_tick_is() {
    let start = 100_000 * MS;
    let mut link = LinkEstimate::new(start, Vantage::BeforeUplinkBuffer);
    fill_a_modem(&mut link, start);
    let up = link.of(Direction::Up).expect("hidden");
    let ending = |number: u64| steps(Seen::Estimate(up), Duration::from_nanos(number * BUCKET_NS), TICK);
    let known = ending(up.known_to());
    let levels = known.queue_bytes.expect("known");
    assert_eq!((levels.len(), known.source.as_deref()), (10, Some("estimate")));
    assert!(levels.iter().all(|bytes| (bytes - 60_000.0).abs() < 3_000.0), "{levels:?}");
    assert!(known.queue_uncertainty_bytes.is_some_and(|steps| steps.len() == 10 && steps[0] > 0.0));
    // Levels are kept for 2,048 buckets.
    let oldest = up.known_to() - 2_048;
    assert!(ending(oldest + 10).queue_bytes.is_some());
    assert!(ending(oldest + 9).queue_bytes.is_none());
}

#[test]
fn a_tick_is_shown_as_it_was_read() {
    let journal = Journal::new(None);
    let mut detection = Detection::new("dsl", "wan0", Thresholds::default(), journal);
    let mut shown = example::link("dsl");
    detection.show(&mut shown);
    assert_eq!(
        (shown.tick_number, shown.tick.verdict.as_deref(), shown.findings.is_some()),
        (0, None, false)
    );
    assert_eq!(shown.directions.up.queue.as_ref().and_then(|queue| queue.standing_bytes), Some(3_028.0));
    for tick in 1..=3 {
        let up = Seen::Level(QueueSample::level(QueueSource::Netlink, 700.0));
        detection.tick(&LinkReading {
            at: Duration::from_secs(5) + TICK * tick,
            counters: &counters(tick.into()),
            queues: PerDirection { up, down: Seen::Nothing },
            rates: PerDirection::default(),
            base_round_trip: None,
            answered_s: Some(0.03),
            flows: None,
        });
    }
    let before = shown.directions.up.rate;
    detection.show(&mut shown);
    assert_eq!((shown.tick_number, shown.tick.at_s, shown.tick.step_s), (3, 5.3, 0.01));
    assert_eq!(shown.tick.up.queue_bytes, Some(vec![700.0; 10]));
    assert_eq!((shown.tick.up.rtt_s, shown.tick.down.queue_bytes.as_ref()), (Some(0.03), None));
    assert_eq!(shown.tick.up.throughput_bps, 8.0 * shown.directions.up.throughput);
    assert_eq!(shown.tick.verdict.as_deref(), Some("unknown"));
    assert_eq!(shown.directions.up.rate, before, "none was learnt");
    assert_ne!(shown.directions.up.queue.as_ref().and_then(|queue| queue.standing_bytes), Some(3_028.0));
    let findings = shown.findings.as_ref().expect("judged");
    assert_eq!(findings.at, Duration::from_millis(5_300));
    detection.suspend();
    detection.show(&mut shown);
    assert!(shown.findings.is_none() && shown.degraded.is_empty());
}

/// Harm after no difference is news; help that was never doubted is none.
#[test]
fn what_others_find_is_an_event_that_begins_and_ends() {
    let journal = Journal::new(None);
    let mut detection = Detection::new("dsl", "wan0", Thresholds::default(), journal.clone());
    let compared = |outcome| Comparison {
        pairs: 5,
        with: TrialTurn::default(),
        without: TrialTurn::default(),
        change: None,
        delay: None,
        outcome,
    };
    for outcome in [TrialOutcome::Helps, TrialOutcome::NoDifference, TrialOutcome::Hurts, TrialOutcome::Helps]
    {
        detection.note_shaping(&compared(outcome));
    }
    detection.note_shaping(&compared(TrialOutcome::Helps));
    detection.note_ineffective(Some("packets wait behind the shaper"));
    detection.note_ineffective(None);
    let (direction, decision) = (Direction::Up, Decision::Raise);
    detection.note_rate(&RateChange {
        direction,
        from: 1_000.0,
        to: 2_000.0,
        decision,
        reason: String::new(),
    });
    let bloat = BloatNews {
        finding: FindingKind::HomeBloat,
        begins: true,
        evidence: Evidence::new("rule", "reason", Vec::new(), 0.0),
    };
    detection.note_delay(bloat, TICK);
    let begun = |finding| Change::Finding { finding, direction: None };
    let ended = |finding| Change::FindingEnded { finding, direction: None };
    let expected = [
        begun(FindingKind::ShapingNotHelping),
        begun(FindingKind::ShapingNotHelping),
        ended(FindingKind::ShapingNotHelping),
        begun(FindingKind::ShapingIneffective),
        ended(FindingKind::ShapingIneffective),
        Change::ShapeRate { direction, from_bps: 8_000.0, to_bps: 16_000.0, decision },
        begun(FindingKind::HomeBloat),
    ];
    let told: Vec<_> = journal.after(0).0.iter().map(|record| record.event.change).collect();
    assert_eq!(told, expected);
}
