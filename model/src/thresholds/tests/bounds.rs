//! Every threshold at its bounds, and one beyond.

use super::super::*;
use crate::history::Totals;

type Set = fn(&mut Thresholds, f64);
type SetTime = fn(&mut Thresholds, Span);

/// Figures: the key, the least, the most, where it is.
const FIGURES: [(&str, f64, f64, Set); 18] = [
    ("segment-bytes", 64.0, 65_535.0, |t, v| t.segment_bytes = v),
    ("standing-enter-segments", 0.01, 1_000.0, |t, v| t.standing_enter_segments = v),
    ("standing-leave-segments", 0.0, 1_000.0, |t, v| t.standing_leave_segments = v),
    ("phase-dwell-round-trips", 0.0, 100.0, |t, v| t.phase_dwell_round_trips = v),
    ("window-margin", 0.0, 0.9, |t, v| t.window_margin = v),
    ("horizon-round-trips", 1.0, 10_000.0, |t, v| t.horizon_round_trips = v),
    ("evidence-round-trips", 1.0, 1_000.0, |t, v| t.evidence_round_trips = v),
    ("bulk-active-share", 0.0, 1.0, |t, v| t.bulk_active_share = v),
    ("bulk-in-flight-segments", 0.0, 1_000.0, |t, v| t.bulk_in_flight_segments = v),
    ("bulk-long-flow-share", 0.0, 1.0, |t, v| t.bulk_long_flow_share = v),
    ("application-limited-variation", 0.0, 10.0, |t, v| t.application_limited_variation = v),
    ("swing-share", 0.01, 0.5, |t, v| t.swing_share = v),
    ("swing-switches", 2.0, 1_000.0, |t, v| t.swing_switches = v as usize),
    ("locked-share", 0.5, 1.0, |t, v| t.locked_share = v),
    ("starved-utilization", 0.0, 1.0, |t, v| t.starved_utilization = v),
    ("in-phase-correlation", 0.0, 1.0, |t, v| t.in_phase_correlation = v),
    ("unfair-share-ratio", 1.0, 1_000.0, |t, v| t.unfair_share_ratio = v),
    ("far-round-trip-ratio", 1.01, 1_000.0, |t, v| t.far_round_trip_ratio = v),
];

/// Times: the key, the least and the most in milliseconds, where it is.
const TIMES: [(&str, u64, u64, SetTime); 9] = [
    ("shortest-round-trip", 1, 60_000, |t, v| t.shortest_round_trip = v),
    ("longest-round-trip", 1, 60_000, |t, v| t.longest_round_trip = v),
    ("assumed-round-trip", 1, 60_000, |t, v| t.assumed_round_trip = v),
    ("shortest-horizon", 1_000, 120_000, |t, v| t.shortest_horizon = v),
    ("longest-horizon", 1_000, 120_000, |t, v| t.longest_horizon = v),
    ("evidence", 1_000, 120_000, |t, v| t.evidence = v),
    ("activity", 1_000, 60_000, |t, v| t.activity = v),
    ("verdict-dwell", 0, 60_000, |t, v| t.verdict_dwell = v),
    ("bufferbloat-delay", 1, 60_000, |t, v| t.bufferbloat_delay = v),
];

/// The key that is refused for being out of its range.
fn out_of_range(thresholds: &Thresholds) -> Option<&'static str> {
    thresholds.out_of_range().map(|unusable| unusable.key)
}

#[test]
fn figures_may_be_at_their_bounds_and_not_beyond() {
    for (key, least, most, set) in FIGURES {
        let with = |value: f64| {
            let mut thresholds = Thresholds::default();
            set(&mut thresholds, value);
            thresholds
        };
        assert_eq!((out_of_range(&with(least)), out_of_range(&with(most))), (None, None), "{key}");
        let (below, above) = match key {
            "swing-switches" => (least - 1.0, most + 1.0),
            _ => (least.next_down(), most.next_up()),
        };
        assert_eq!((out_of_range(&with(below)), out_of_range(&with(above))), (Some(key), Some(key)));
        let unusable = with(above).unusable().expect(key);
        assert_eq!(unusable.remedy, format!("allowed are {least} to {most}"));
    }
}

#[test]
fn times_may_be_at_their_bounds_and_not_beyond() {
    for (key, least, most, set) in TIMES {
        let with = |nanoseconds: u64| {
            let mut thresholds = Thresholds::default();
            set(&mut thresholds, Span(Duration::from_nanos(nanoseconds)));
            thresholds
        };
        let (least, most) = (least * 1_000_000, most * 1_000_000);
        assert_eq!((out_of_range(&with(least)), out_of_range(&with(most))), (None, None), "{key}");
        assert_eq!(out_of_range(&with(most + 1)), Some(key));
        if least > 0 {
            assert_eq!(out_of_range(&with(least - 1)), Some(key));
        }
    }
}

/// What must not be above something else may be equal to it.
#[test]
fn pairs_may_be_equal() {
    let span = |ms| Span(Duration::from_millis(ms));
    let pairs: [(&str, SetTime); 2] = [
        ("shortest-round-trip", |t, v| {
            (t.shortest_round_trip, t.longest_round_trip) = (v, Span(Duration::from_secs(5)))
        }),
        ("shortest-horizon", |t, v| {
            (t.shortest_horizon, t.longest_horizon) = (v, Span(Duration::from_secs(5)))
        }),
    ];
    for (key, set) in pairs {
        for (ms, refused) in [(4_999, None), (5_000, None), (5_001, Some(key))] {
            let mut thresholds = Thresholds::default();
            set(&mut thresholds, span(ms));
            assert_eq!(thresholds.unusable().map(|unusable| unusable.key), refused, "{ms}");
        }
    }
    for (leave, refused) in [(2.0, None), (2.1, Some("standing-leave-segments"))] {
        let thresholds = Thresholds {
            standing_enter_segments: 2.0,
            standing_leave_segments: leave,
            ..Thresholds::default()
        };
        assert_eq!(thresholds.unusable().map(|unusable| unusable.key), refused);
    }
}

#[test]
fn times_follow_the_round_trip() {
    let thresholds = Thresholds::default();
    let seconds = Duration::from_secs_f64;
    // Six round trips, and at least 5 s of evidence, 4 s of activity.
    for (round_trip, evidence, activity) in [(0.1, 5.0, 4.0), (0.75, 5.0, 4.5), (1.0, 6.0, 6.0)] {
        assert_eq!(thresholds.evidence_time(seconds(round_trip)), seconds(evidence));
        assert_eq!(thresholds.activity_time(seconds(round_trip)), seconds(activity));
        let steady = constant(&[(10.0, round_trip)]);
        let near = |one: Duration, two: f64| (one.as_secs_f64() - two).abs() < 1e-6;
        assert!(near(thresholds.evidence_after(&steady, seconds(round_trip)), evidence));
        assert!(near(thresholds.activity_after(&steady, seconds(round_trip)), activity));
    }
    // 3 s of 1.2 s, and before that 0.5 s each: two and a half round trips and three and a half, 4.75 s in all.
    let grown = constant(&[(10.0, 0.5), (3.0, 1.2)]);
    assert_eq!(thresholds.evidence_after(&grown, seconds(1.2)), seconds(5.0));
    assert!((thresholds.activity_after(&grown, seconds(1.2)).as_secs_f64() - 4.75).abs() < 1e-6);
    // A queue that has drained: never longer than the present round trips would take.
    let drained = constant(&[(10.0, 1.2)]);
    assert_eq!(thresholds.evidence_after(&drained, seconds(0.1)), seconds(5.0));
    assert_eq!(times(seconds(2.0), 1.5), seconds(3.0));
    for useless in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(times(seconds(2.0), useless), Duration::ZERO);
    }
    // A longest time below the shortest is taken for it.
    let crossed = Thresholds {
        longest_round_trip: Span(Duration::from_millis(1)),
        longest_horizon: Span(seconds(1.0)),
        ..thresholds
    };
    assert_eq!(crossed.bounded_round_trip(3.0), Duration::from_millis(10));
    assert_eq!(crossed.horizon(seconds(1.0)), seconds(10.0));
}

/// So many seconds of each round-trip time.
fn constant(stretches: &[(f64, f64)]) -> History {
    let (mut history, mut slot) = (History::default(), 0);
    for &(length, round_trip) in stretches {
        for _ in 0..(length * 10.0).round() as u64 {
            slot += 1;
            let interval = Totals { seconds: 0.1, round_trip: (0.1 * round_trip, 0.1), ..Totals::default() };
            history.push(Duration::from_millis(100 * slot), &interval);
        }
    }
    history
}
