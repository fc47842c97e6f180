//! Where a capture was taken, from how much delays vary.

use super::*;

/// Answers of 1 ms each, but the smallest ones of the windows that are named, in seconds.
fn variation(windows: &[f64]) -> Variation {
    let mut variation = Variation::default();
    for (number, seconds) in (0_u64..).zip(windows) {
        // The smallest of each window counts; what was held back does not.
        for longer in [0.5, 0.0, 0.2] {
            variation.add(number * WINDOW_NS + WINDOW_NS / 2, seconds + longer);
        }
    }
    // The next one closes the last of them.
    variation.add(windows.len() as u64 * WINDOW_NS, 9.0);
    variation
}

#[track_caller]
fn assert_spread(windows: &[f64], expected: f64) {
    let found = variation(windows).spread();
    assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
}

/// All but the longest tenth of the smallest delays, less the shortest.
#[test]
fn a_spread_leaves_the_longest_tenth_out() {
    assert_spread(&[], 0.0);
    assert_spread(&[0.02], 0.0);
    assert_spread(&[0.05, 0.02], 0.03);
    // The tenth of ten, and the nineteenth of twenty.
    let ten: Vec<f64> = (1..=10).map(|number| f64::from(number) * 0.01).collect();
    assert_spread(&ten, 0.09);
    let twenty: Vec<f64> = (1..=20).rev().map(|number| f64::from(number) * 0.01).collect();
    assert_spread(&twenty, 0.18);
}

#[test]
fn windows_are_bounded() {
    let mut variation = Variation::default();
    for number in 0..=WINDOWS_MAX as u64 + 1 {
        variation.add(number * WINDOW_NS, 0.01);
    }
    assert_eq!(variation.minima.len(), WINDOWS_MAX);
}

#[test]
fn a_wait_is_a_part_of_its_delay() {
    assert_eq!(rest_of(0.75, Some(0.5)), Some(0.25));
    assert_eq!(rest_of(0.5, Some(0.5)), Some(0.0));
    assert_eq!(rest_of(0.5, Some(0.5625)), None, "a clock that is not known yet");
    assert_eq!(rest_of(0.5, None), None);
}

/// The place by the spread of answers from home and from outside, seconds.
fn place(home_s: f64, outside_s: f64) -> (Vantage, VantageBy) {
    decide(&PlaceEvidence { home_s, outside_s, pace: None, uplink_rates: [None; 2] }, false)
}

/// Packets pass at the rate that waits at home tell: behind the buffer, though answers from outside vary as well.
#[test]
fn packets_at_the_rate_that_home_tells_have_been_let_out() {
    let seen = |pace: f64, learnt: Option<f64>| PlaceEvidence {
        home_s: 0.0,
        outside_s: 0.02,
        pace: Some(Pace { rate: pace / 1e9, share: 0.9 }),
        uplink_rates: [Some(1e5), learnt],
    };
    let behind = (Vantage::BehindUplinkBuffer, VantageBy::AnswersFromHome);
    let before = (Vantage::BeforeUplinkBuffer, VantageBy::AnswersFromOutside);
    for (pace, learnt, expected) in [
        (1.0e5, Some(1e5), behind),
        (0.8e5, Some(1e5), behind),
        (1.1e5, Some(1e5), behind),
        (0.7e5, Some(1e5), before),
        (1.2e5, Some(1e5), before),
        (50e5, Some(1e5), before),
        (1.0e5, None, before),
    ] {
        assert_eq!(decide(&seen(pace, learnt), false), expected, "{pace} {learnt:?}");
    }
}

/// Nobody at home waited, answers from outside vary, but packets pass like those of a link that is busy: either is possible.
#[test]
fn packets_as_of_a_busy_link_without_a_rate_leave_the_place_open() {
    let by = |share: f64, learnt: Option<f64>| {
        let pace = Some(Pace { rate: 1e-4, share });
        decide(&PlaceEvidence { home_s: 0.0, outside_s: 0.04, pace, uplink_rates: [learnt, None] }, false).1
    };
    assert_eq!(by(0.6, None), VantageBy::Assumed);
    assert_eq!(by(0.4, None), VantageBy::AnswersFromOutside);
    assert_eq!(by(0.6, Some(1e5)), VantageBy::AnswersFromOutside);
}

/// One side's answers have to vary by more than 10 ms, and by more than twice as much as the other's.
#[test]
fn the_side_whose_answers_vary_has_the_queue() {
    let before = (Vantage::BeforeUplinkBuffer, VantageBy::AnswersFromOutside);
    let behind = (Vantage::BehindUplinkBuffer, VantageBy::AnswersFromHome);
    let assumed = (Vantage::BeforeUplinkBuffer, VantageBy::Assumed);
    for (home, outside, expected) in [
        (0.0, 0.011, before),
        (0.0, 0.009, assumed),
        (0.02, 0.041, before),
        (0.02, 0.039, assumed),
        (0.011, 0.0, behind),
        (0.009, 0.0, assumed),
        (0.041, 0.02, behind),
        (0.039, 0.02, assumed),
        (0.05, 0.05, assumed),
        (0.0, 0.0, assumed),
    ] {
        assert_eq!(place(home, outside), expected, "{home} {outside}");
    }
    let both =
        decide(&PlaceEvidence { home_s: 0.5, outside_s: 0.0, pace: None, uplink_rates: [None; 2] }, true);
    assert_eq!(both, (Vantage::Both, VantageBy::Captures));
}

/// Two ends, one 80 ms farther away, answer in turns, a window each: no queue. The end that answered in most windows counts.
#[test]
fn an_end_that_is_farther_away_is_no_queue() {
    let mut outside = Variations::default();
    for number in 0..40 {
        let (end, seconds) = if number % 2 == 0 { ([1; 16], 0.01) } else { ([2; 16], 0.09) };
        outside.add(end, number * WINDOW_NS, seconds);
    }
    assert_eq!(outside.spread(), 0.0);
    for number in 40..60 {
        outside.add([1; 16], number * WINDOW_NS, 0.05);
    }
    assert!((outside.spread() - 0.04).abs() < 1e-9, "{}", outside.spread());
    for end in 3..=u8::MAX {
        outside.add([end; 16], 0, 0.0);
    }
    assert_eq!(outside.0.len(), ENDS_MAX);
}
