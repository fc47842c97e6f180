//! What is taken in of a sample, and what is not.

use super::*;
use crate::constants::MOMENT;
use crate::link::Provenance;
use crate::sample::{Composition, FlowSample, QueueSample, QueueSource};

const STEP: Duration = Duration::from_millis(10);

fn sample(at: Duration) -> Sample {
    Sample { at, span: STEP, ..Sample::default() }
}

fn level(bytes: f64) -> Option<QueueSample> {
    Some(QueueSample::level(QueueSource::Tracepoint, bytes))
}

/// A full uplink and an empty downlink.
fn locked(at: Duration) -> Sample {
    let mut sample = sample(at);
    sample.link.up.queue = level(9_000.0);
    sample.link.down.queue = level(0.0);
    sample
}

#[test]
fn time_only_goes_on() {
    let mut detector = Detector::new(Config::default());
    for (ms, rejected) in [(50, 0), (50, 1), (40, 2), (60, 2), (59, 3)] {
        detector.push(&sample(Duration::from_millis(ms)));
        assert_eq!(detector.rejected_samples(), rejected, "{ms}");
    }
}

/// A sample speaks for its span, but not for time that another one spoke for.
#[test]
fn no_time_is_counted_twice() {
    let mut detector = Detector::new(Config::default());
    for (ms, span_ms, sum_ms) in [(100, 30, 30.0), (120, 50, 50.0), (150, 10, 60.0)] {
        let sample = Sample {
            at: Duration::from_millis(ms),
            span: Duration::from_millis(span_ms),
            ..Sample::default()
        };
        detector.push(&sample);
        assert!((detector.run().seconds * 1e3 - sum_ms).abs() < 1e-9, "{ms}");
    }
}

/// After so long without samples the case of a link that was locked, with this round trip.
fn after_gap(gap: Duration, round_trip: Option<f64>) -> Option<Phase> {
    let mut detector = Detector::new(Config::default());
    for step in 1..=400_u32 {
        detector.push(&Sample { round_trip, ..locked(STEP * step) });
    }
    assert_eq!(detector.phase().map(|(phase, _)| phase), Some(Phase::UplinkBound));
    detector.push(&locked(STEP * 400 + gap + STEP));
    detector.phase().map(|(phase, _)| phase)
}

/// A second without samples, or a round trip if that is longer, and what stood in the buffers is not known.
#[test]
fn a_gap_ends_what_was_known() {
    let held = Some(Phase::UplinkBound);
    let gap = |ms| Duration::from_millis(ms);
    assert_eq!((after_gap(gap(1_000), None), after_gap(gap(1_001), None)), (held, None));
    assert_eq!((after_gap(gap(1_001), Some(0.05)), after_gap(gap(1_001), Some(1.1))), (None, held));
    assert_eq!(after_gap(gap(1_101), Some(1.1)), None);
}

#[test]
fn useless_round_trips_and_rates_are_left_out() {
    let mut detector = Detector::new(Config::default());
    let rate = |value| Some(MeasuredRate { bytes_per_second: value, measured_at: STEP });
    for (step, value) in (1..).zip([0.2, f64::NAN, 0.0, -1.0, f64::INFINITY]) {
        let mut sample = Sample { round_trip: Some(value), ..sample(STEP * step) };
        sample.link.down.rate = rate(1e5 * value);
        detector.push(&sample);
        assert_eq!(detector.state().round_trip_s, Some(0.2), "{value}");
        let measured = detector.measured_rate(Direction::Down).map(|rate| rate.bytes_per_second);
        assert_eq!(measured, Some(20_000.0), "{value}");
    }
    assert_eq!(detector.measured_rate(Direction::Up), None);
}

/// What was measured 5 s ago is no part of the present.
#[test]
fn a_round_trip_is_published_for_a_moment() {
    let mut detector = Detector::new(Config::default());
    detector.push(&Sample { round_trip: Some(0.2), ..sample(STEP) });
    let mut published_at = |at| {
        detector.push(&sample(at));
        detector.state().round_trip_s
    };
    assert_eq!(published_at(STEP + MOMENT), Some(0.2));
    assert_eq!(published_at(STEP * 2 + MOMENT), None);
}

/// A second's flows: one from near by, at 0.1 s, and one from far away.
fn near_and_far(second: u32, near_bytes: u64, far_s: f64) -> Sample {
    let part = u64::from(10 + second % 10);
    let flow = |id, base, bytes: u64| FlowSample {
        id,
        direction: Direction::Down,
        data_bytes: bytes * part,
        in_flight_bytes: Some(3_000.0 * part as f64),
        round_trip: None,
        base_round_trip: Some(base),
    };
    let flows = vec![flow(1, 0.1, near_bytes), flow(2, far_s, 1_000)];
    let span = Duration::from_secs(1);
    Sample { span, flows, ..sample(span * second) }
}

/// From twice the rate on, and base round trips that differ by half.
#[test]
fn what_a_near_flow_gets_more_is_unfair_from_its_thresholds_on() {
    let is_found = |near_bytes: u64, far_s: f64| {
        let mut detector = Detector::new(Config::default());
        (1..=60).any(|second| {
            detector.push(&near_and_far(second, near_bytes, far_s));
            detector.findings.is_unfair(Direction::Down)
        })
    };
    assert!(!is_found(1_950, 0.2) && is_found(2_050, 0.2));
    assert!(!is_found(4_000, 0.149) && is_found(4_000, 0.151));
}

/// What is configured counts, then what was measured; both are named as what they are.
#[test]
fn a_configured_rate_comes_first() {
    let mut told = Link::with_capacity(6_000.0, 9_000.0);
    told.capacity.down = None;
    let mut detector = Detector::new(Config { link: told, ..Config::default() });
    let mut one = sample(STEP);
    for x in Direction::ALL {
        one.link[x].rate = Some(MeasuredRate { bytes_per_second: 7_000.0, measured_at: STEP });
    }
    detector.push(&one);
    let known = |x| detector.capacity(x).map(|known| (known.value, known.provenance));
    assert_eq!(known(Direction::Up), Some((6_000.0, Provenance::Config)));
    assert_eq!(known(Direction::Down), Some((7_000.0, Provenance::Learnt)));
    let mut nonsense = detector.clone();
    nonsense.link = Link::with_capacity(0.0, f64::NAN);
    let known = |x| nonsense.capacity(x).map(|known| known.value);
    assert_eq!(Direction::ALL.map(known), [Some(7_000.0); 2], "a link without capacity is no link");
}

/// The window of the uplink in the third of three samples like this one.
fn window(fill: impl Fn(&mut Sample)) -> Option<f64> {
    let mut detector = Detector::new(Config::default());
    let mut found = None;
    for step in 1..=3 {
        let mut sample = sample(STEP * step);
        fill(&mut sample);
        detector.note_round_trip(&sample);
        let input = detector.phase_input(&sample, STEP);
        assert_eq!(input.window.down, None);
        found = input.window.up;
    }
    found
}

/// `cwnd`: what passed in a round trip, or what stands in the direction's own buffer, whichever is more.
#[test]
fn windows_are_what_is_under_way() {
    let data = |sample: &mut Sample| sample.link.up.traffic.data_bytes = 1_000;
    assert_eq!(window(data), None, "neither a round trip nor a level");
    let filled = |sample: &mut Sample| {
        data(sample);
        sample.link.up.queue = level(5_000.0);
    };
    assert_eq!(window(filled), Some(5_000.0));
    let idle = |sample: &mut Sample| sample.link.up.queue = level(5_000.0);
    assert_eq!(window(idle), None, "nothing passed: what stands there is no window");
}

/// The same with a round trip of 20 ms, which holds two samples; then both directions have a window.
#[test]
fn a_round_trip_makes_windows_of_what_passed() {
    let window = |fill: &dyn Fn(&mut Sample)| {
        let mut detector = Detector::new(Config::default());
        let mut found = None;
        for step in 1..=3 {
            let mut sample = Sample { round_trip: Some(0.02), ..sample(STEP * step) };
            sample.link.up.traffic.data_bytes = 1_000;
            fill(&mut sample);
            detector.note_round_trip(&sample);
            found = Some(detector.phase_input(&sample, STEP));
        }
        let input = found.expect("three samples");
        assert_eq!(input.round_trip, Duration::from_millis(20));
        assert_eq!(input.window.down, Some(0.0));
        input.window.up
    };
    assert_eq!(window(&|_| {}), Some(2_000.0));
    assert_eq!(window(&|sample| sample.link.up.queue = level(900.0)), Some(2_000.0));
    assert_eq!(window(&|sample| sample.link.up.queue = level(5_000.0)), Some(5_000.0));
    // All but ACKs passed, and of it 300 bytes in each sample are no TCP.
    let kinds = |sample: &mut Sample| {
        sample.link.up.composition = Composition { tcp_data: 1_000, ack: 500, udp: 200, other: 100 };
    };
    assert_eq!(window(&kinds), Some(2_600.0));
}

#[test]
fn a_change_of_case_says_what_it_rests_on() {
    let mut detector = Detector::new(Config::default());
    let mut changes = Vec::new();
    for step in 1..=600_u32 {
        let mut sample = Sample { round_trip: Some(0.1), ..sample(STEP * step) };
        let (up, down) = match step {
            1..=200 => (9_000.0, 0.0),
            201..=300 => (9_000.0, 8_000.0),
            301..=400 => (0.0, 8_000.0),
            _ => (0.0, 0.0),
        };
        sample.link.up.queue = level(up);
        sample.link.down.queue = level(down);
        for event in detector.push(&sample) {
            if let Change::Phase { from, to, dwell_s } = event.change {
                changes.push((from, to, dwell_s, event.evidence));
            }
        }
    }
    let found: Vec<_> = changes.iter().map(|(from, to, dwell, _)| (*from, *to, *dwell)).collect();
    // A queue stands once it has stood for a round trip of 0.1 s, and is gone at once.
    assert_eq!(
        found,
        [
            (None, Phase::UplinkBound, 0.0),
            (Some(Phase::UplinkBound), Phase::Balanced, 2.09),
            (Some(Phase::Balanced), Phase::DownlinkBound, 0.91),
            (Some(Phase::DownlinkBound), Phase::Idle, 1.0),
        ]
    );
    for ((_, to, _, evidence), words) in changes.iter().zip([
        "only the uplink buffer holds a standing queue (case 1)",
        "both buffers hold a standing queue (case 3)",
        "only the downlink buffer holds a standing queue (case 2)",
        "neither buffer holds a standing queue",
    ]) {
        assert_eq!((&*evidence.reason, &*evidence.rule), (words, "standing_queues"), "{to:?}");
    }
    let transitions = detector.transitions();
    assert_eq!(transitions.iter().flatten().sum::<u64>(), 3, "the first case is no change");
    assert_eq!(transitions[Phase::UplinkBound as usize][Phase::Balanced as usize], 1);
    assert_eq!(detector.standing_bytes(Direction::Up), Some(0.0));
}

/// Ten seconds of a full uplink at 250,000 bytes per second against a download that gets nothing.
fn starved() -> Detector {
    let link = Link::with_capacity(250_000.0, 2_500_000.0);
    let mut detector = Detector::new(Config { link, ..Config::default() });
    for step in 1..=1_000_u32 {
        let mut sample = Sample { round_trip: Some(0.25), ..locked(STEP * step) };
        sample.link.up.queue = level(50_000.0);
        sample.link.up.traffic = crate::sample::Traffic {
            wire_bytes: 2_500,
            data_bytes: 2_400,
            data_segments: 2,
            ..crate::sample::Traffic::default()
        };
        // Its ACKs: a direction of which nothing passes would be one that is not seen.
        sample.link.down.traffic.wire_bytes = 66;
        detector.push(&sample);
    }
    detector
}

/// It goes up and down as the source says; silence about it changes nothing, and neither does what is no time.
#[test]
fn the_base_round_trip_is_the_sources_newest_word() {
    let mut detector = Detector::new(Config::default());
    let base = |seconds, is_proven| Some(BaseRoundTrip { seconds, is_proven });
    for (told, expected) in [
        (None, None),
        (base(0.04, true), base(0.04, true)),
        (None, base(0.04, true)),
        (base(-1.0, false), base(0.04, true)),
        (base(0.0, false), base(0.04, true)),
        (base(f64::NAN, false), base(0.04, true)),
        (base(0.06, false), base(0.06, false)),
        (base(0.02, true), base(0.02, true)),
    ] {
        detector.note_round_trip(&Sample {
            round_trip: Some(0.01),
            base_round_trip: told,
            ..Sample::default()
        });
        assert_eq!(detector.base_round_trip(), expected, "{told:?}");
    }
}

/// What the state says is what the samples were, each direction for itself.
#[test]
fn the_state_by_hand() {
    let mut detector = starved();
    let state = detector.state();
    assert_eq!(detector.phase(), Some((Phase::UplinkBound, Duration::ZERO)));
    assert_eq!(state.phase_source, Some(PhaseSource::Queues));
    assert_eq!(state.phase_share, Some([1.0, 0.0, 0.0, 0.0]));
    assert!((detector.run().phase_seconds[0] - 10.0).abs() < 1e-9);
    assert_eq!((state.horizon_s, state.round_trip_s), (15.0, Some(0.25)));
    // No source has told one.
    assert_eq!(detector.base_round_trip(), None);
    let (up, down) = (&state.directions.up, &state.directions.down);
    assert_eq!(Direction::ALL.map(|x| detector.standing_bytes(x)), [Some(50_000.0), Some(0.0)]);
    // 25 samples of 2,400 bytes are a round trip; the first 20 pass while more than that stands in the buffer.
    assert!((detector.run().mean_window(Direction::Up) - 59_776.0).abs() < 1e-6);
    assert!((up.standing_delay_s.expect("known") - 0.2).abs() < 1e-9);
    assert_eq!(down.standing_delay_s, Some(0.0));
    assert!(up.bulk && !down.bulk);
    // 200 ms in a buffer that never drains.
    let bloat = up.bufferbloat.as_ref().expect("it stands");
    assert!((bloat.delay_s - 0.2).abs() < 1e-9);
    assert_eq!(down.bufferbloat, None);
    // One-way traffic has no ratio, and one verdict has held since it was reached.
    assert_eq!((state.throughput_ratio, detector.verdict()), (None, Verdict::OneWay));
    // Weighed for the first time at 4.01 s, when the activity time of 4 s is full, and last at 9.76 s: 24 times 250 ms.
    assert!((state.verdict_seconds[Verdict::OneWay as usize] - 6.0).abs() < 1e-9);
    // A new link: four fifths of the rate. Half of it would be contradicted by what passed.
    let capacity = |detector: &Detector| detector.capacity(Direction::Up).expect("a rate").value;
    detector.link = Link::with_capacity(200_000.0, 2_500_000.0);
    assert!((capacity(&detector) - 200_000.0).abs() < 1e-6);
    detector.link = Link::with_capacity(125_000.0, 2_500_000.0);
    assert!((capacity(&detector) - 250_000.0).abs() < 1e-6);
    detector.thresholds = Thresholds { horizon_round_trips: 100.0, ..Thresholds::default() };
    assert_eq!(detector.state().horizon_s, 25.0);
}

#[test]
fn a_detector_that_saw_nothing_says_so() {
    let detector = Detector::new(Config::default());
    let state = detector.state();
    assert_eq!((detector.phase(), state.phase_share), (None, None));
    assert_eq!((detector.verdict(), state.evidence.is_some()), (Verdict::Unknown, false));
    assert_eq!((state.round_trip_s, detector.base_round_trip()), (None, None));
}

/// Verdicts are looked at every 250 ms, from the first sample on: the first stretch of activity of 4 s is full after the sample at 4.01 s,
/// and what is judged first is of no use but for its time.
#[test]
fn verdicts_are_looked_at_four_times_a_second() {
    let judged_at = |origin_ms: u64| {
        let mut detector = Detector::new(Config::default());
        let mut judged = Vec::new();
        for step in 0..=200 {
            let before = detector.reconsidered;
            detector.push(&sample(Duration::from_millis(origin_ms + 10 * step)));
            if detector.reconsidered != before {
                judged.push(10 * step);
            }
        }
        judged
    };
    for origin_ms in [10, 7_777] {
        assert_eq!(judged_at(origin_ms), [0, 250, 500, 750, 1_000, 1_250, 1_500, 1_750, 2_000]);
    }
}

#[test]
fn a_ratio_is_published_of_bulk_data_both_ways() {
    use crate::activity::{Activity, Demand};
    let mut detector = Detector::new(Config::default());
    let mut one = Sample { span: Duration::from_millis(100), ..sample(Duration::from_millis(100)) };
    (one.link.up.traffic.data_bytes, one.link.down.traffic.data_bytes) = (1_000, 4_000);
    detector.push(&one);
    let mut ratio = |up, down| {
        let of = |demand| Activity { demand, ..Activity::default() };
        detector.activity = PerDirection { up: of(up), down: of(down) };
        let state = detector.state();
        assert_eq!(
            (state.directions.up.bulk, state.directions.down.bulk),
            (up == Demand::Bulk, down == Demand::Bulk)
        );
        state.throughput_ratio
    };
    assert_eq!(ratio(Demand::Bulk, Demand::Bulk), Some(4.0));
    assert_eq!([ratio(Demand::Bulk, Demand::HeldBack), ratio(Demand::None, Demand::Bulk)], [None, None]);
}

#[test]
fn near_and_far_flows_are_published_with_the_state() {
    let mut detector = Detector::new(Config::default());
    (1..=20).for_each(|second| _ = detector.push(&near_and_far(second, 4_000, 0.2)));
    let directions = detector.state().directions;
    let classes = directions.down.round_trip_classes.expect("two classes");
    assert_eq!((classes.near_flows, classes.far_flows), (1, 1));
    assert!((classes.near_far_ratio - 4.0).abs() < 1e-6 && directions.up.round_trip_classes.is_none());
}

#[test]
fn a_round_trip_that_nobody_measured_counts_as_100_ms() {
    let mut detector = Detector::new(Config::default());
    assert_eq!(detector.bounded_round_trip(), Duration::from_millis(100));
    detector.push(&Sample { round_trip: Some(0.2), ..sample(STEP) });
    assert_eq!(detector.bounded_round_trip(), Duration::from_millis(200));
}
