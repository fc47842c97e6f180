//! The case by windows where a buffer is not seen, and each threshold at its edge.

use super::super::*;

/// 100,000 bytes per second up and 1,000,000 down; an RTT of 100 ms, of which 50 ms are without queues.
fn input(up: Option<f64>, down: Option<f64>) -> PhaseInput {
    PhaseInput {
        window: PerDirection { up, down },
        capacity: PerDirection { up: Some(100_000.0), down: Some(1_000_000.0) },
        round_trip: Duration::from_millis(100),
        base_round_trip: Some(0.05),
        ..PhaseInput::default()
    }
}

fn phase(up: f64, down: f64) -> Option<Phase> {
    phase_of_windows(&input(Some(up), Some(down)), &Thresholds::default())
}

/// 001 Eq. 5. What takes longer than 50 ms and a segment of 1,500 bytes: 65 ms of the uplink, 51.5 ms of the downlink.
#[test]
fn the_longer_window_holds_the_queue() {
    assert_eq!(phase(6_501.0, 0.0), Some(Phase::UplinkBound));
    assert_eq!(phase(6_499.0, 0.0), Some(Phase::Idle));
    assert_eq!(phase(0.0, 51_501.0), Some(Phase::DownlinkBound));
    assert_eq!(phase(0.0, 51_499.0), Some(Phase::Idle));
    assert_eq!(phase(0.0, 0.0), Some(Phase::Idle));
    // Within a tenth of each other both hold one.
    assert_eq!(phase(10_000.0, 89_900.0), Some(Phase::UplinkBound));
    assert_eq!(phase(10_000.0, 90_100.0), Some(Phase::Balanced));
    assert_eq!(phase(10_000.0, 100_000.0), Some(Phase::Balanced));
    assert_eq!(phase(9_010.0, 100_000.0), Some(Phase::Balanced));
    assert_eq!(phase(8_990.0, 100_000.0), Some(Phase::DownlinkBound));
}

#[test]
fn windows_say_nothing_without_rates_or_a_base() {
    let thresholds = Thresholds::default();
    let full = input(Some(50_000.0), Some(1_000.0));
    assert_eq!(phase_of_windows(&full, &thresholds), Some(Phase::UplinkBound));
    let without = [
        input(None, Some(1_000.0)),
        input(Some(50_000.0), None),
        PhaseInput { capacity: PerDirection { up: None, ..full.capacity }, ..full },
        PhaseInput { capacity: PerDirection { down: None, ..full.capacity }, ..full },
        PhaseInput { base_round_trip: None, ..full },
    ];
    for input in without {
        assert_eq!(phase_of_windows(&input, &thresholds), None, "{input:?}");
    }
    // Nothing under way needs no base to be idle.
    let nothing = PhaseInput { base_round_trip: None, ..input(Some(0.0), Some(0.0)) };
    assert_eq!(phase_of_windows(&nothing, &thresholds), Some(Phase::Idle));
}

/// The tracker after one second of this, and the case it found.
fn after(input: PhaseInput) -> (PhaseTracker, Option<Phase>, Option<PhaseSource>) {
    let mut tracker = PhaseTracker::default();
    for step in 1..=100 {
        let span = Duration::from_millis(10);
        tracker.push(&PhaseInput { at: span * step, span, ..input }, &Thresholds::default());
    }
    let (phase, source) = (tracker.current().map(|(phase, _)| phase), tracker.source());
    (tracker, phase, source)
}

/// A buffer that is seen counts; the windows tell of the other one.
#[test]
fn windows_stand_in_for_the_buffer_that_is_not_seen() {
    // By the windows the uplink holds the queue.
    let windows = input(Some(50_000.0), Some(1_000.0));
    let seen = |up, down| {
        let (_, phase, source) = after(PhaseInput { queue: PerDirection { up, down }, ..windows });
        (phase, source)
    };
    let (both, windows_only) = (Some(PhaseSource::QueueAndWindows), Some(PhaseSource::Windows));
    assert_eq!(seen(None, None), (Some(Phase::UplinkBound), windows_only));
    assert_eq!(seen(None, Some(9_000.0)), (Some(Phase::Balanced), both));
    assert_eq!(seen(None, Some(0.0)), (Some(Phase::UplinkBound), both));
    assert_eq!(seen(Some(0.0), None), (Some(Phase::Idle), both));
    assert_eq!(seen(Some(9_000.0), None), (Some(Phase::UplinkBound), both));
    let queues = Some(PhaseSource::Queues);
    assert_eq!(seen(Some(0.0), Some(9_000.0)), (Some(Phase::DownlinkBound), queues));
    // The other way round, and where both do, or neither.
    let by = |up, down, queue| {
        let (_, phase, _) = after(PhaseInput { queue, ..input(Some(up), Some(down)) });
        phase
    };
    let up_seen = |level| PerDirection { up: Some(level), down: None };
    assert_eq!(by(100.0, 900_000.0, up_seen(0.0)), Some(Phase::DownlinkBound));
    assert_eq!(by(100.0, 900_000.0, up_seen(9_000.0)), Some(Phase::Balanced));
    assert_eq!(by(50_000.0, 500_000.0, up_seen(0.0)), Some(Phase::DownlinkBound));
    assert_eq!(by(100.0, 100.0, up_seen(9_000.0)), Some(Phase::UplinkBound));
}

/// How often windows and queues named the same side, where both named one side alone.
#[test]
fn agreement_is_counted_where_it_can_be() {
    let agreement = |queue: (f64, f64), up, down| {
        let queue = PerDirection { up: Some(queue.0), down: Some(queue.1) };
        after(PhaseInput { queue, ..input(Some(up), Some(down)) }).0.agreement()
    };
    assert_eq!(agreement((9_000.0, 0.0), 50_000.0, 1_000.0), Some(1.0));
    assert_eq!(agreement((0.0, 9_000.0), 50_000.0, 1_000.0), Some(0.0));
    assert_eq!(agreement((9_000.0, 9_000.0), 50_000.0, 1_000.0), None, "both buffers");
    assert_eq!(agreement((9_000.0, 0.0), 50_000.0, 500_000.0), None, "both windows");
    assert_eq!(agreement((0.0, 0.0), 50_000.0, 1_000.0), None, "no buffer");
    // Three of four.
    let mut tracker = PhaseTracker::default();
    for step in 1..=4 {
        let span = Duration::from_millis(10);
        let up = if step < 4 { 50_000.0 } else { 100.0 };
        let queue = PerDirection { up: Some(9_000.0), down: Some(0.0) };
        let input = PhaseInput { at: span * step, span, queue, ..input(Some(up), Some(90_000.0)) };
        tracker.push(&input, &Thresholds::default());
    }
    assert_eq!(tracker.agreement(), Some(0.75));
    let figures = tracker.figures(&Thresholds::default());
    let told: Vec<_> = figures.iter().map(|f| (&*f.name, f.value, f.threshold)).collect();
    assert_eq!(
        told,
        [
            ("uplink_standing_bytes", 9_000.0, Some(1_500.0)),
            ("downlink_standing_bytes", 0.0, Some(1_500.0)),
            ("window_agreement", 0.75, None),
        ]
    );
    // It outlives a gap; what stood in the buffers does not.
    tracker.interrupt();
    assert_eq!((tracker.agreement(), tracker.current()), (Some(0.75), None));
    assert_eq!(tracker.standing(), PerDirection::default());
}

/// A queue stands from one segment on, and until it is below half of one.
#[test]
fn a_queue_stands_from_one_segment_to_half_of_one() {
    let mut tracker = PhaseTracker::default();
    let mut step = 0;
    let mut stands = |level: f64| {
        // Longer than the round trip: the lowest level of the newest one.
        for _ in 0..11 {
            step += 1;
            let span = Duration::from_millis(10);
            let input = PhaseInput {
                at: span * step,
                span,
                queue: PerDirection { up: Some(level), down: None },
                round_trip: Duration::from_millis(100),
                ..PhaseInput::default()
            };
            tracker.push(&input, &Thresholds::default());
        }
        assert_eq!(tracker.stands(Direction::Down), None, "it is not seen");
        tracker.stands(Direction::Up)
    };
    for (level, expected) in
        [(1_499.0, false), (1_500.0, true), (750.0, true), (749.0, false), (1_499.0, false), (0.0, false)]
    {
        assert_eq!(stands(level), Some(expected), "{level}");
    }
}

/// Half a round trip: a case holds from its first interval once it has lasted for that long.
#[test]
fn a_case_is_confirmed_after_half_a_round_trip() {
    let mut tracker = PhaseTracker::default();
    let span = Duration::from_millis(10);
    for step in 1..=5_u32 {
        let queue = PerDirection { up: Some(9_000.0), down: Some(0.0) };
        let input = PhaseInput {
            at: Duration::from_secs(7) + span * step,
            span,
            queue,
            round_trip: Duration::from_millis(100),
            ..PhaseInput::default()
        };
        let change = tracker.push(&input, &Thresholds::default());
        let expected = (step == 5).then_some(PhaseChange {
            from: None,
            to: Phase::UplinkBound,
            since: Duration::from_secs(7),
            dwell: Duration::ZERO,
        });
        assert_eq!(change, expected, "{step}");
    }
    assert_eq!(tracker.take_credit(), [span * 5, Duration::ZERO, Duration::ZERO, Duration::ZERO]);
    assert_eq!(tracker.take_credit(), [Duration::ZERO; 4]);
}
