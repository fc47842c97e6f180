//! Made-up sample streams with known answers: the detector's rules, their edges, and what must hold for any input.

use std::time::Duration;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Phase, Verdict};
use pendulum_model::link::Link;
use pendulum_model::rate::Span;
use pendulum_model::sample::{DirectionSample, FlowSample, QueueSample, QueueSource, Sample, Traffic};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::thresholds::Thresholds;
use proptest::prelude::*;

/// 10 ms of a link: queues in bytes, data throughput in bytes per second.
#[derive(Clone, Copy)]
struct Moment {
    queue: PerDirection<f64>,
    data: PerDirection<f64>,
    round_trip: f64,
}

const UP: f64 = 24_500.0;
const DOWN: f64 = 300_000.0;

fn stream(seconds: u64, moment: impl Fn(f64) -> Moment) -> Vec<Sample> {
    (1..=seconds * 100)
        .map(|step| {
            let at = Duration::from_millis(10 * step);
            let Moment { queue, data, round_trip } = moment(at.as_secs_f64());
            let link = PerDirection::from_fn(|x| DirectionSample {
                queue: Some(QueueSample::level(QueueSource::Tracepoint, queue[x])),
                traffic: Traffic {
                    wire_bytes: (data[x] * 0.01) as u64,
                    data_bytes: (data[x] * 0.01) as u64,
                    ..Traffic::default()
                },
                ..DirectionSample::default()
            });
            Sample {
                at,
                span: Duration::from_millis(10),
                link,
                round_trip: Some(round_trip),
                ..Sample::default()
            }
        })
        .collect()
}

fn run(samples: &[Sample]) -> (Detector, Vec<Event>) {
    let mut detector = Detector::new(Config { link: Link::with_capacity(UP, DOWN), ..Config::default() });
    let events = samples.iter().flat_map(|sample| detector.push(sample)).collect();
    (detector, events)
}

fn pair<T>(up: T, down: T) -> PerDirection<T> {
    PerDirection { up, down }
}

/// Case 1: 20,000 bytes upstream; the download moves against a sawtooth of the RTT.
fn uplink_bound(time: f64, download: f64) -> Moment {
    let round_trip = 0.6 + 0.4 * (time % 8.0) / 8.0;
    Moment { queue: pair(20_000.0, 0.0), data: pair(UP, download / round_trip), round_trip }
}

/// Case 2: 25,000 bytes downstream.
fn downlink_bound(upload: f64) -> Moment {
    Moment { queue: pair(0.0, 25_000.0), data: pair(upload, DOWN), round_trip: 0.1 }
}

fn verdict_changes(events: &[Event]) -> Vec<Verdict> {
    events
        .iter()
        .filter_map(|event| match event.change {
            Change::Verdict { to, .. } => Some(to),
            _ => None,
        })
        .collect()
}

#[test]
fn alternation_swings_with_its_period() {
    // Two seconds each way: period 4 s.
    let samples =
        stream(
            60,
            |time| if time % 4.0 < 2.0 { downlink_bound(12_000.0) } else { uplink_bound(time, 90_000.0) },
        );
    let (detector, events) = run(&samples);
    assert_eq!(verdict_changes(&events), [Verdict::Swinging]);
    let period = detector.run_swing_period().expect("a period");
    assert!((period - 4.0).abs() < 0.2, "{period}");
    let (up, down) =
        (detector.run().phase_share(Phase::UplinkBound), detector.run().phase_share(Phase::DownlinkBound));
    // A standing queue shows one RTT after it began (0.1 s downstream, 0.6 to 1 s upstream).
    assert!((0.25..=0.5).contains(&up) && (0.45..=0.55).contains(&down), "{up} {down}");
    // Perfect opposites.
    assert!(detector.state().queue_correlation.expect("both move") < -0.95);
}

#[test]
fn a_full_uplink_locks_only_if_the_download_starves() {
    // 45,000/0.6…1.0 s is at most 75,000 B/s: a quarter of 300,000.
    let (detector, _) = run(&stream(40, |time| uplink_bound(time, 45_000.0)));
    assert_eq!(detector.verdict(), Verdict::LockedUplink);
    // 170,000/0.6…1.0 s: at least 170,000 B/s, more than half.
    let (detector, _) = run(&stream(40, |time| uplink_bound(time, 170_000.0)));
    assert_eq!(detector.verdict(), Verdict::Balanced);
}

/// 15 s to 32 s: half the downlink and a little more, which would lock nothing anew.
#[test]
fn evidence_never_contradicts_the_verdict() {
    let download = |time: f64| if (15.0..32.0).contains(&time) { 136_000.0 } else { 45_000.0 };
    let thresholds = Thresholds { longest_horizon: Span(Duration::from_secs(10)), ..Thresholds::default() };
    let mut detector = Detector::new(Config { link: Link::with_capacity(UP, DOWN), thresholds });
    for (number, sample) in stream(45, |time| uplink_bound(time, download(time))).iter().enumerate() {
        detector.push(sample);
        if number % 50 != 0 || number < 1_000 {
            continue;
        }
        assert_eq!(detector.verdict(), Verdict::LockedUplink, "{:?}", sample.at);
        let evidence = detector.state().evidence.expect("a verdict");
        for figure in &evidence.figures {
            let Some(threshold) = figure.threshold else { continue };
            let upper = figure.name == "starved_utilization";
            assert_eq!(figure.value < threshold, upper, "{figure:?} at {:?}", sample.at);
        }
        let held = evidence.held_since_s;
        match sample.at.as_secs() {
            ..15 | 43.. => assert_eq!(held, None, "{:?}", sample.at),
            // The horizon is full of it.
            29..32 => {
                assert!(held.is_some_and(|since| (15.0..29.0).contains(&since)), "{held:?}");
                assert!(evidence.reason.contains("evidence now weaker"));
            }
            _ => {}
        }
    }
}

#[test]
fn both_links_full_is_balanced() {
    let both = Moment { queue: pair(5_000.0, 20_000.0), data: pair(UP, DOWN), round_trip: 0.27 };
    let (detector, _) = run(&stream(30, |_| both));
    assert_eq!(detector.verdict(), Verdict::Balanced);
    assert!(detector.run().phase_share(Phase::Balanced) > 0.95);
}

#[test]
fn no_traffic_is_clear_and_says_nothing() {
    let nothing = Moment { queue: pair(0.0, 0.0), data: pair(0.0, 0.0), round_trip: 0.02 };
    let (detector, events) = run(&stream(30, |_| nothing));
    assert_eq!(detector.verdict(), Verdict::Clear);
    assert_eq!(verdict_changes(&events), []);
    assert_eq!(detector.run().phase_share(Phase::Idle), 1.0);
}

#[test]
fn udp_that_fills_a_buffer_is_no_pendulum() {
    let mut samples =
        stream(30, |_| Moment { queue: pair(20_000.0, 0.0), data: pair(0.0, 0.0), round_trip: 0.8 });
    for sample in &mut samples {
        sample.link.up.traffic.wire_bytes = 245;
    }
    let (detector, _) = run(&samples);
    assert_eq!(detector.verdict(), Verdict::Clear);
    assert_eq!(detector.phase().map(|(phase, _)| phase), Some(Phase::UplinkBound));
}

#[test]
fn many_short_flows_are_no_pendulum() {
    let mut samples = stream(40, |time| uplink_bound(time, 45_000.0));
    for (index, sample) in samples.iter_mut().enumerate().filter(|(index, _)| index % 50 == 0) {
        for direction in Direction::ALL {
            // A new flow every half second, reported once.
            sample.flows.push(FlowSample {
                id: index as u64,
                direction,
                data_bytes: 10_000,
                in_flight_bytes: Some(5_000.0),
                round_trip: None,
                base_round_trip: None,
            });
        }
    }
    let (detector, _) = run(&samples);
    // The shares of flows older than 2 s decay with time; never is most of the data in lasting flows for long.
    assert!(!matches!(detector.verdict(), Verdict::Swinging | Verdict::AckCompression));
    let bulk = detector.state().directions;
    assert_eq!((bulk.up.bulk, bulk.down.bulk), (false, false));
}

#[test]
fn a_short_disturbance_changes_no_verdict() {
    // One second of case 2 in the middle of a minute of case 1.
    let samples = stream(60, |time| {
        if (30.0..31.0).contains(&time) { downlink_bound(12_000.0) } else { uplink_bound(time, 45_000.0) }
    });
    assert_eq!(verdict_changes(&run(&samples).1), [Verdict::LockedUplink]);
}

#[test]
fn events_carry_their_evidence() {
    let (_, events) = run(&stream(20, |time| uplink_bound(time, 45_000.0)));
    let verdict =
        events.iter().find(|event| matches!(event.change, Change::Verdict { .. })).expect("a verdict");
    assert_eq!(verdict.evidence.rule, "one_buffer_never_empties");
    assert!(verdict.evidence.since_s <= verdict.at_s);
    assert!(verdict.evidence.figures.iter().any(|figure| figure.threshold.is_some()));
    let json = serde_json::to_value(verdict).expect("json");
    assert_eq!((&json["event"], &json["to"]), (&"verdict".into(), &"locked_uplink".into()));
}

#[test]
fn without_evidence_there_is_no_phase() {
    let mut samples = stream(20, |time| uplink_bound(time, 45_000.0));
    for sample in &mut samples {
        sample.round_trip = None;
        for direction in Direction::ALL {
            sample.link[direction].queue = None;
        }
    }
    let (detector, events) = run(&samples);
    assert_eq!(detector.phase(), None);
    assert_eq!(detector.run().phase_seconds, [0.0; 4]);
    // Data that nothing times, in buffers that nobody sees: that is not "clear".
    assert_eq!(verdict_changes(&events), []);
    assert_eq!(detector.verdict(), Verdict::Unknown);
    assert!(detector.state().evidence.is_some_and(|evidence| !evidence.missing.is_empty()));
}

#[test]
fn a_gap_in_the_samples_forgets_the_phase() {
    let mut samples = stream(10, |time| uplink_bound(time, 45_000.0));
    let later = Duration::from_secs(60);
    let mut after = samples[0].clone();
    after.at += later;
    for direction in Direction::ALL {
        after.link[direction].queue = None;
    }
    samples.push(after);
    let (detector, _) = run(&samples);
    assert_eq!(detector.phase(), None);
    // The gap belongs to no case.
    assert!(detector.run().phase_seconds.iter().sum::<f64>() < 10.1);
}

#[test]
fn samples_out_of_order_are_rejected_and_counted() {
    let mut samples = stream(1, |time| uplink_bound(time, 45_000.0));
    samples.push(samples[10].clone());
    let (detector, _) = run(&samples);
    assert_eq!(detector.rejected_samples(), 1);
}

/// Everything the detector says, without times.
fn story(samples: &[Sample], config: Config) -> (Vec<Change>, [f64; 4], Verdict) {
    let mut detector = Detector::new(config);
    let mut changes = Vec::new();
    for sample in samples {
        changes.extend(detector.push(sample).into_iter().map(|event| event.change));
    }
    let shares = Phase::ALL.map(|phase| (detector.run().phase_share(phase) * 1e6).round() / 1e6);
    (changes, shares, detector.verdict())
}

fn swing(seconds: u64, half_ms: u64) -> Vec<Sample> {
    let half = half_ms as f64 / 1e3;
    stream(seconds, move |time| {
        if time % (2.0 * half) < half { downlink_bound(12_000.0) } else { uplink_bound(time, 90_000.0) }
    })
}

/// Once found by the property below: the grid on which verdicts are reconsidered hung on the clock's origin.
#[test]
fn one_second_later_is_the_same() {
    let samples = swing(25, 3876);
    let mut shifted = samples.clone();
    for sample in &mut shifted {
        sample.at += Duration::from_secs(1);
    }
    let config = Config { link: Link::with_capacity(UP, DOWN), ..Config::default() };
    assert_eq!(story(&samples, config.clone()), story(&shifted, config));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// When it happens does not matter.
    #[test]
    fn time_shift_invariance(shift_s in 0u64..1_000_000_000, half_ms in 700u64..4000) {
        let samples = swing(25, half_ms);
        let config = Config { link: Link::with_capacity(UP, DOWN), ..Config::default() };
        let mut shifted = samples.clone();
        for sample in &mut shifted {
            sample.at += Duration::from_secs(shift_s);
        }
        let (one, two) = (story(&samples, config.clone()), story(&shifted, config));
        prop_assert_eq!(one.1, two.1);
        prop_assert_eq!(one.2, two.2);
        prop_assert_eq!(one.0.len(), two.0.len());
    }

    /// A link of another speed with segments, buffers and rates in proportion behaves the same.
    #[test]
    fn scale_invariance(power in -2i32..8, half_ms in 700u64..4000) {
        let scale = 2f64.powi(power);
        let samples = swing(25, half_ms);
        let mut scaled = samples.clone();
        for sample in &mut scaled {
            for direction in Direction::ALL {
                let direction = &mut sample.link[direction];
                let queue = direction.queue.as_mut().expect("seen");
                for level in [&mut queue.min_bytes, &mut queue.mean_bytes, &mut queue.max_bytes] {
                    *level *= scale;
                }
                let traffic = &mut direction.traffic;
                traffic.wire_bytes = (traffic.wire_bytes as f64 * scale) as u64;
                traffic.data_bytes = (traffic.data_bytes as f64 * scale) as u64;
            }
        }
        let plain = Config { link: Link::with_capacity(UP, DOWN), ..Config::default() };
        let thresholds = Thresholds { segment_bytes: 1500.0 * scale, ..Thresholds::default() };
        let link = Link::with_capacity(UP * scale, DOWN * scale);
        let (one, two) = (story(&samples, plain), story(&scaled, Config { link, thresholds }));
        prop_assert_eq!(one.1, two.1);
        prop_assert_eq!(one.2, two.2);
    }

    /// Whatever comes in: no NaN, nothing infinite, shares that add up, memory and time bounded.
    #[test]
    fn nothing_it_says_is_ever_nan(
        values in proptest::collection::vec(
            (any::<f64>(), any::<f64>(), any::<u64>(), any::<f64>(), 0u64..5_000_000_000, any::<f64>()), 1..200),
        segment in any::<f64>(), dwell in any::<f64>(), seconds in 0u64..100,
    ) {
        let thresholds = Thresholds {
            segment_bytes: segment,
            phase_dwell_round_trips: dwell,
            verdict_dwell: Span(Duration::from_secs(seconds)),
            ..Thresholds::default()
        };
        let mut detector = Detector::new(Config { link: Link::default(), thresholds });
        let mut at = Duration::ZERO;
        for (queue, other, bytes, round_trip, step, window) in values {
            at += Duration::from_nanos(step);
            let mut sample = Sample { at, span: Duration::from_nanos(step / 2), ..Sample::default() };
            sample.round_trip = Some(round_trip);
            sample.link.up.queue = Some(QueueSample::level(QueueSource::Netlink, queue));
            sample.link.down.queue = Some(QueueSample::level(QueueSource::Estimate, other));
            sample.link.down.traffic = Traffic { wire_bytes: bytes, data_bytes: bytes, ..Traffic::default() };
            sample.link.up.traffic = sample.link.down.traffic;
            sample.link.up.ack_bursts.add(bytes, bytes);
            sample.flows.push(FlowSample {
                id: bytes,
                direction: Direction::Up,
                data_bytes: bytes,
                in_flight_bytes: Some(window),
                round_trip: Some(round_trip),
                base_round_trip: Some(other),
            });
            for event in detector.push(&sample) {
                prop_assert!(event.at_s.is_finite());
                prop_assert!(event.evidence.figures.iter().all(|figure| figure.value.is_finite()));
            }
        }
        // serde_json writes NaN and infinities as null: no number may have become one that was not None.
        let state = detector.state();
        for x in Direction::ALL {
            prop_assert!(detector.run().mean_window(x).is_finite() && detector.run().long_burst_share(x).is_finite());
            prop_assert!(state.directions[x].standing_delay_s.is_none_or(f64::is_finite));
            prop_assert!(detector.standing_bytes(x).is_none_or(f64::is_finite));
        }
        let figures = [state.queue_correlation, state.throughput_ratio, state.swing_period_s, state.round_trip_s];
        prop_assert!(figures.into_iter().flatten().all(f64::is_finite));
        let sum: f64 = detector.run().phase_seconds.iter().sum();
        prop_assert!(sum.is_finite() && sum <= detector.run().seconds * 1.000_001 + 1e-6);
    }
}
