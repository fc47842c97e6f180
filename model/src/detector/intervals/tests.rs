//! What is kept of samples made up by hand, each direction with figures of its own.

use super::*;
use crate::detector::Config;
use crate::link::Link;
use crate::sample::{AckBursts, BaseRoundTrip, Composition, MeasuredRate, QueueSample, Traffic};

/// Bytes per second.
const UP: f64 = 250_000.0;
const DOWN: f64 = 2_000_000.0;

const STEP_S: f64 = 0.01;

fn detector() -> Detector {
    Detector::new(Config { link: Link::with_capacity(UP, DOWN), ..Config::default() })
}

/// Sample number `step` of 10 ms, with this round trip.
fn sample(step: u32, round_trip: Option<f64>) -> Sample {
    let span = Duration::from_millis(10);
    Sample { at: span * step, span, round_trip, ..Sample::default() }
}

fn level(bytes: f64) -> Option<QueueSample> {
    Some(QueueSample::level(QueueSource::Tracepoint, bytes))
}

#[track_caller]
fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{found}, not {expected}");
}

#[test]
fn every_figure_of_a_sample_is_added_once_and_to_its_direction() {
    let mut one = sample(1, Some(0.2));
    one.link.up = DirectionSample {
        traffic: Traffic {
            wire_bytes: 1_500,
            data_bytes: 1_000,
            data_segments: 2,
            ack_segments: 5,
            retransmitted_segments: 1,
        },
        composition: Composition { tcp_data: 1_000, ack: 300, udp: 120, other: 80 },
        ack_bursts: AckBursts { bursts: 1, segments: 12, segments_in_long_bursts: 11 },
        ..DirectionSample::default()
    };
    one.link.down = DirectionSample {
        traffic: Traffic {
            wire_bytes: 9_000,
            data_bytes: 8_000,
            data_segments: 6,
            ack_segments: 0,
            retransmitted_segments: 3,
        },
        ack_bursts: AckBursts { bursts: 3, segments: 5, segments_in_long_bursts: 0 },
        ..DirectionSample::default()
    };
    let mut detector = detector();
    detector.push(&one);
    detector.push(&Sample { at: one.at * 2, ..one.clone() });
    let run = detector.run();
    assert_near(run.seconds, 2.0 * STEP_S);
    assert_near(run.round_trip.0, 2.0 * 0.2 * STEP_S);
    assert_near(run.round_trip.1, 2.0 * STEP_S);
    assert_eq!(run.wire_bytes, PerDirection { up: 3_000, down: 18_000 });
    assert_eq!(run.data_bytes, PerDirection { up: 2_000, down: 16_000 });
    assert_eq!(run.data_segments, PerDirection { up: 4, down: 12 });
    assert_eq!(run.retransmitted_segments, PerDirection { up: 2, down: 6 });
    // All but the ACKs; where kinds are not distinguished, the data.
    assert_eq!(run.load_bytes, PerDirection { up: 2_400, down: 16_000 });
    assert_eq!(run.composition.up, Composition { tcp_data: 2_000, ack: 600, udp: 240, other: 160 });
    assert_eq!(run.composition.down, Composition::default());
    assert_eq!(run.ack_bursts.up, AckBursts { bursts: 2, segments: 24, segments_in_long_bursts: 22 });
    assert_eq!(run.ack_bursts.down, AckBursts { bursts: 6, segments: 10, segments_in_long_bursts: 0 });
    // What passed in a round trip.
    assert_near(run.window_byte_seconds.up, (1_200.0 + 2_400.0) * STEP_S);
    assert_near(run.window_byte_seconds.down, (8_000.0 + 16_000.0) * STEP_S);
    assert_eq!((run.queues.mean(), run.delay.up.mean()), (None, None), "no buffer is seen");
}

#[test]
fn an_unknown_round_trip_is_not_counted() {
    let mut detector = detector();
    detector.push(&sample(1, None));
    assert_eq!(detector.run().round_trip, (0.0, 0.0));
    detector.push(&sample(2, Some(0.4)));
    // It is carried on.
    detector.push(&sample(3, None));
    assert_near(detector.run().round_trip.0, 2.0 * 0.4 * STEP_S);
    assert_near(detector.run().round_trip.1, 2.0 * STEP_S);
}

/// Samples in which a direction counts as active after so many bytes of data in the first.
fn active_steps(round_trip: Option<f64>, load: u64) -> PerDirection<f64> {
    let mut detector = detector();
    for step in 1..=100 {
        let mut sample = sample(step, round_trip);
        if step == 1 {
            sample.link.up.traffic.data_bytes = load;
        }
        detector.push(&sample);
    }
    PerDirection::from_fn(|x| (detector.run().active_seconds[x] / STEP_S).round())
}

/// For one and a half round trips, and at least 200 ms.
#[test]
fn data_keeps_a_direction_active_for_a_while() {
    assert_eq!(active_steps(Some(0.2), 1), PerDirection { up: 31.0, down: 0.0 });
    assert_eq!(active_steps(Some(0.4), 1), PerDirection { up: 61.0, down: 0.0 });
    assert_eq!(active_steps(Some(0.1), 1), PerDirection { up: 21.0, down: 0.0 });
    assert_eq!(active_steps(None, 1), PerDirection { up: 21.0, down: 0.0 });
    // While half a segment is under way, for a round trip, that is as good as data; less is nothing.
    assert_eq!(active_steps(Some(0.2), 749), PerDirection { up: 31.0, down: 0.0 });
    assert_eq!(active_steps(Some(0.2), 750), PerDirection { up: 50.0, down: 0.0 });
}

#[test]
fn levels_of_both_buffers_are_kept_together() {
    let mut detector = detector();
    let mut both = sample(1, Some(0.1));
    both.link.up.queue = level(6_000.0);
    both.link.down.queue = level(1_000.0);
    detector.push(&both);
    let mut one = sample(2, Some(0.1));
    one.link.up.queue = level(50_000.0);
    detector.push(&one);
    let mean = detector.run().queues.mean().expect("both were seen once");
    assert_near(mean[0], 6_000.0);
    assert_near(mean[1], 1_000.0);
    // The highest level is each buffer's own.
    assert_eq!(
        PerDirection::from_fn(|x| detector.passed[x].peak_queue),
        PerDirection { up: 50_000.0, down: 1_000.0 }
    );
    let mut lower = sample(3, Some(0.1));
    lower.link.up.queue = level(2.0);
    // 9,000 bytes, give or take more than the link carries in 50 ms: that proves nothing.
    lower.link.down.queue = level(9_000.0).map(|queue| QueueSample { uncertainty_bytes: 1e6, ..queue });
    detector.push(&lower);
    assert_eq!(
        PerDirection::from_fn(|x| detector.passed[x].peak_queue),
        PerDirection { up: 50_000.0, down: 1_000.0 }
    );
}

/// Two seconds of one level in the uplink buffer.
fn delay_of(link: Link, queue: QueueSample) -> crate::history::StandingDelay {
    let mut detector = Detector::new(Config { link, ..Config::default() });
    for step in 1..=200 {
        let mut sample = sample(step, Some(0.1));
        sample.link.up.queue = Some(queue);
        sample.link.down.queue = level(0.0);
        detector.push(&sample);
    }
    assert_eq!(detector.run().delay.down.mean(), Some(0.0), "an empty buffer makes nobody wait");
    detector.run().delay.up
}

#[test]
fn a_standing_level_makes_wait_as_long_as_the_link_takes_for_it() {
    let link = Link::with_capacity(UP, DOWN);
    let queue = |bytes, uncertainty_bytes| QueueSample {
        uncertainty_bytes,
        ..QueueSample::level(QueueSource::Tracepoint, bytes)
    };
    // 30,000 bytes, 5,000 of them uncertain, at 250,000 bytes per second: 0.1 s, which is the threshold.
    let delay = delay_of(link, queue(30_000.0, 5_000.0));
    assert_near(delay.mean().expect("known"), 0.1);
    assert_near(delay.known_seconds, 2.0);
    assert_near(delay.above_seconds, 2.0);
    let delay = delay_of(link, queue(29_000.0, 5_000.0));
    assert_near(delay.mean().expect("known"), 0.096);
    assert_eq!(delay.above_seconds, 0.0);
    // It may be empty.
    assert_eq!(delay_of(link, queue(4_000.0, 5_000.0)).mean(), Some(0.0));
    // Without a rate only an empty buffer has a delay.
    let unknown = Link { capacity: PerDirection::default(), ..link };
    assert_eq!(delay_of(unknown, queue(0.0, 0.0)).mean(), Some(0.0));
    assert_eq!(delay_of(unknown, queue(30_000.0, 5_000.0)).known_seconds, 0.0);
    // It stands, within its own uncertainty: at this rate it may make wait for longer than the threshold, or not at all.
    let never_empty = QueueSample { mean_bytes: 28_700.0, ..queue(13_500.0, 14_350.0) };
    assert_eq!(delay_of(link, never_empty).known_seconds, 0.0);
    assert_eq!(delay_of(unknown, never_empty).known_seconds, 0.0);
    assert_eq!(delay_of(Link::with_capacity(2.0 * UP, DOWN), never_empty).mean(), Some(0.0));
}

/// Twice what the link carries is configured: the delay is that of the rate at which the estimate was made, and the link is full.
#[test]
fn a_wrong_configured_rate_does_not_halve_the_delay() {
    let mut detector =
        Detector::new(Config { link: Link::with_capacity(2.0 * UP, DOWN), ..Config::default() });
    for step in 1..=200 {
        let mut sample = sample(step, Some(0.1));
        sample.link.up.queue = Some(QueueSample::level(QueueSource::Estimate, 30_000.0));
        sample.link.up.rate = Some(MeasuredRate { bytes_per_second: UP, measured_at: sample.at });
        sample.link.up.traffic.wire_bytes = (UP / 100.0) as u64;
        detector.push(&sample);
    }
    assert_near(detector.state().directions.up.standing_delay_s.expect("known"), 30_000.0 / UP);
    assert_near(detector.capacity(Direction::Up).expect("measured").value, UP);
}

/// A far end is slow, and the estimate takes that for the downlink's buffer. A level that is read counts whatever the budget says.
#[test]
fn what_the_budget_says_waits_beyond_the_line_is_no_delay_of_the_line() {
    let delay = |source, line_most_s| {
        let mut detector = Detector::new(Config { link: Link::with_capacity(UP, DOWN), ..Config::default() });
        detector.line_most_s = line_most_s;
        for step in 1..=200 {
            let mut sample = sample(step, Some(0.1));
            sample.link.down.queue = Some(QueueSample::level(source, 0.3 * DOWN));
            sample.link.down.traffic.wire_bytes = (DOWN / 100.0) as u64;
            detector.push(&sample);
        }
        detector.state().directions.down.standing_delay_s.expect("known")
    };
    assert_near(delay(QueueSource::Estimate, None), 0.3);
    assert_near(delay(QueueSource::Estimate, Some(0.01)), 0.01);
    assert_near(delay(QueueSource::Tracepoint, Some(0.01)), 0.3);
}

/// A queue beyond the line has a rate of its own: it does not make the configured one wrong, not even when it has drained.
#[test]
fn a_rate_measured_of_a_queue_beyond_the_line_is_not_the_line_s() {
    let rates = |line_most_s| {
        let mut detector = Detector::new(Config { link: Link::with_capacity(UP, DOWN), ..Config::default() });
        detector.line_most_s = line_most_s;
        for step in 1..=220 {
            let mut sample = sample(step, Some(0.1));
            let level = if step <= 200 { 0.1 * DOWN } else { 0.0 };
            sample.link.down.queue = Some(QueueSample::level(QueueSource::Estimate, level));
            let measured_at = sample.at.min(Duration::from_secs(2));
            sample.link.down.rate = Some(MeasuredRate { bytes_per_second: DOWN / 2.0, measured_at });
            detector.push(&sample);
        }
        detector.capacity(Direction::Down).map(|known| known.value)
    };
    assert_eq!(rates(Some(0.01)), Some(DOWN));
    assert_eq!(rates(Some(0.3)), Some(DOWN / 2.0));
    assert_eq!(rates(None), Some(DOWN / 2.0));
}

/// Twenty seconds with so much under way in each direction, buffers that are not seen, and a base round trip of 50 ms.
fn hidden(up: f64, down: f64, is_proven: bool) -> PerDirection<Option<f64>> {
    let mut detector = detector();
    for step in 1..=2_000 {
        let mut sample = sample(step, Some(0.5));
        sample.base_round_trip = Some(BaseRoundTrip { seconds: 0.05, is_proven });
        // A round trip is fifty samples long.
        sample.link.up.traffic.data_bytes = (up / 50.0) as u64;
        sample.link.down.traffic.data_bytes = (down / 50.0) as u64;
        detector.push(&sample);
    }
    let state = detector.state();
    PerDirection::from_fn(|x| {
        state.directions[x].standing_delay_s.map(|seconds| (seconds * 1e6).round() / 1e6)
    })
}

/// What the round trip has grown by stands in the only buffer that is full.
#[test]
fn a_hidden_buffer_makes_wait_what_the_round_trip_has_grown_by() {
    // 0.5 s against 0.01 s of outstanding data; the other way round.
    assert_eq!(hidden(125_000.0, 20_000.0, true), PerDirection { up: Some(0.45), down: Some(0.0) });
    assert_eq!(hidden(2_500.0, 1_000_000.0, true), PerDirection { up: Some(0.0), down: Some(0.45) });
    // Both are full, each for a part nobody knows; neither is.
    assert_eq!(hidden(125_000.0, 1_000_000.0, true), PerDirection { up: None, down: None });
    assert_eq!(hidden(2_500.0, 20_000.0, true), PerDirection { up: Some(0.0), down: Some(0.0) });
    // A base that may contain a queue proves none.
    assert_eq!(hidden(125_000.0, 20_000.0, false), PerDirection { up: None, down: Some(0.0) });
}

/// Ten seconds of a full uplink; what is learnt of its rate.
fn learnt(source: QueueSource, bytes: f64) -> Option<f64> {
    let mut detector = Detector::new(Config::default());
    for step in 1..=1_000 {
        let mut sample = sample(step, Some(0.1));
        sample.link.up.queue = Some(QueueSample::level(source, bytes));
        sample.link.up.traffic.wire_bytes = 2_500;
        detector.push(&sample);
    }
    detector.measured_rate(Direction::Up).map(|rate| rate.bytes_per_second)
}

/// A shaper at half of the configured rate, which then pauses: the configured rate is as right as before.
#[test]
fn what_a_shaper_lets_through_contradicts_nothing() {
    let mut link = Link::with_capacity(2.0 * UP, DOWN);
    link.shaped.up = Some(UP);
    let mut detector = Detector::new(Config { link, ..Config::default() });
    for step in 1..=1_000 {
        let mut sample = sample(step, Some(0.1));
        sample.link.up.queue = level(20_000.0);
        sample.link.up.traffic.wire_bytes = 2_500;
        detector.push(&sample);
    }
    detector.link = Link::with_capacity(2.0 * UP, DOWN);
    assert_eq!(detector.capacity(Direction::Up).map(|known| known.value), Some(2.0 * UP));
}

/// A buffer that stands passes what the link carries. An estimate of the level rests on the rate and cannot teach it.
#[test]
fn rates_are_learnt_from_buffers_that_are_seen_to_stand() {
    let rate = learnt(QueueSource::Tracepoint, 20_000.0).expect("learnt");
    assert!((rate - UP).abs() < 0.02 * UP, "{rate}");
    assert_eq!(learnt(QueueSource::Estimate, 20_000.0), None);
    assert_eq!(learnt(QueueSource::Tracepoint, 0.0), None);
}
