//! What the detector says of made-up links whose answer is known: any protocol, bufferbloat, the round trip without
//! queues, uncertain levels, rates, and the same answer for as long as the traffic is the same.

#[path = "judgements/steady.rs"]
mod steady;
mod streams;

use std::time::Duration;

use pendulum_model::detector::{Config, Detector, DetectorState};
use pendulum_model::event::Event;
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::link::Link;
use pendulum_model::sample::{BaseRoundTrip, MeasuredRate, QueueSample, QueueSource};
use pendulum_model::segment::Direction;
use streams::{DOWN, Half, UP, acks, bloats, evidence, figure, run, sample, stream, tcp, udp, verdicts};

/// A download that gets 17 % beside an upload of datagrams that fills the uplink for 350 ms.
fn beside_udp() -> (Half, Half) {
    let up = Half { udp: 0.87 * UP, ack: 0.13 * UP, ..Half::default() }.full(0.35);
    (up, tcp(0.17 * DOWN))
}

#[test]
fn a_udp_upload_locks_the_uplink_within_ten_seconds() {
    // 20 s of the download alone, then the upload.
    let samples =
        stream(60, |time| if time < 20.0 { (acks(5_000.0), tcp(DOWN).full(0.05)) } else { beside_udp() });
    let (detector, events) = run(&samples);
    let found = verdicts(&events);
    assert_eq!(
        found.iter().map(|found| found.1).collect::<Vec<_>>(),
        [Verdict::OneWay, Verdict::LockedUplink]
    );
    assert!((20.0..30.0).contains(&found[1].0), "{found:?}");
    let evidence = evidence(&detector);
    // 83 % of 2.5 MB/s are 2.075 MB/s or 16.6 Mbit/s.
    assert!((figure(&evidence, "starved_utilization").expect("known") - 0.17).abs() < 1e-6);
    assert!((figure(&evidence, "remaining_bytes_per_second").expect("known") - 425_000.0).abs() < 1.0);
    assert_eq!(
        figure(&evidence, "starved_bytes_per_second"),
        figure(&evidence, "remaining_bytes_per_second")
    );
    assert!((figure(&evidence, "lost_bytes_per_second").expect("known") - 2_075_000.0).abs() < 1.0);
    assert!(
        evidence.reason.contains("16.6 Mbit/s of the downlink's rate stays unused"),
        "{}",
        evidence.reason
    );
    assert!((figure(&evidence, "uplink_share_udp").expect("known") - 0.87).abs() < 1e-6);
    assert!((figure(&evidence, "uplink_share_ack").expect("known") - 0.13).abs() < 1e-6);
    assert!(
        evidence.reason.contains("87 % of the traffic in the uplink's buffer is UDP"),
        "{}",
        evidence.reason
    );
    assert!(evidence.missing.is_empty());
}

/// WireGuard or ESP both ways, and the mirror image.
#[test]
fn protocols_and_directions_do_not_matter() {
    let tunnel = stream(40, |_| (udp(UP).full(0.35), udp(0.17 * DOWN)));
    // The tunnel's download keeps its rate at a steady round trip: that does not show whether it is held back.
    let (detector, _) = run(&tunnel);
    assert_eq!(detector.verdict(), Verdict::Unknown);
    assert_eq!(evidence(&detector).missing[0], "download_demand");
    // Where the round trip moves, its rate moves against it: it is held back.
    let swaying = stream(60, |time| {
        let delay = 0.2 + 0.4 * (time % 8.0) / 8.0;
        (udp(UP).full(delay), udp(200_000.0 / (0.03 + delay)))
    });
    let (detector, _) = run(&swaying);
    assert_eq!(detector.verdict(), Verdict::LockedUplink);
    let down = stream(40, |_| (tcp(0.2 * UP), udp(DOWN).full(0.3)));
    let (detector, _) = run(&down);
    assert_eq!(detector.verdict(), Verdict::LockedDownlink);
    assert!((figure(&evidence(&detector), "downlink_share_udp").expect("known") - 1.0).abs() < 1e-9);
}

/// The ACKs of a download fill the uplink by themselves, and the download gets a fifth.
#[test]
fn acks_that_fill_the_uplink_lock_it() {
    let (detector, _) = run(&stream(40, |_| (acks(UP).full(0.4), tcp(0.2 * DOWN))));
    assert_eq!(detector.verdict(), Verdict::LockedUplink);
    let evidence = evidence(&detector);
    assert_eq!(evidence.rule, "standing_queue_starves");
    assert!((figure(&evidence, "uplink_delay_s").expect("known") - 0.4).abs() < 1e-6);
    assert!(
        evidence.reason.contains("100 % of the traffic in the uplink's buffer is TCP ACKs"),
        "{}",
        evidence.reason
    );
    // At 60 % it does not starve.
    let (detector, _) = run(&stream(40, |_| (acks(UP).full(0.4), tcp(0.6 * DOWN))));
    assert_eq!(detector.verdict(), Verdict::OneWay);
}

/// An upload whose segments are lost in a buffer of five packets, and which therefore sends little.
#[test]
fn an_upload_that_is_lost_starves() {
    let with_losses = |again: bool| {
        let mut samples = stream(60, |_| (acks(0.1 * UP), tcp(DOWN).full(0.25)));
        // A segment each 300 ms, every third one for the second time.
        for (index, sample) in samples.iter_mut().enumerate().filter(|(index, _)| index % 30 == 0) {
            let up = &mut sample.link.up;
            up.traffic.data_bytes = 1_500;
            up.traffic.data_segments = 1;
            up.traffic.retransmitted_segments = u64::from(again && index % 90 == 0);
            up.composition.tcp_data = 1_500;
        }
        run(&samples).0
    };
    let starved = with_losses(true);
    assert_eq!(starved.verdict(), Verdict::LockedDownlink);
    // The same little upload without losses is what its application wants.
    assert_eq!(with_losses(false).verdict(), Verdict::OneWay);
}

/// A direction that wants nothing does not starve, and neither does one that gets what it wants.
#[test]
fn one_way_traffic_starves_nobody() {
    for (up, down) in [
        (tcp(UP).full(0.4), acks(8_000.0)),
        (udp(UP).full(0.4), Half::default()),
        (acks(20_000.0), tcp(DOWN).full(0.3)),
        // A request now and then, at a steady 5 kB/s.
        (tcp(UP).full(0.4), tcp(5_000.0)),
    ] {
        let (detector, events) = run(&stream(60, |_| (up, down)));
        assert_eq!(detector.verdict(), Verdict::OneWay);
        assert_eq!(verdicts(&events).len(), 1);
    }
}

/// An upload of TCP, and a call of 1.5 Mbit/s both ways that keeps its rate while the RTT moves.
#[test]
fn a_call_beside_an_upload_is_not_starved() {
    let (detector, events) = run(&stream(60, |time| {
        (
            Half { tcp: 0.25 * UP, udp: 0.75 * UP, ..Half::default() }.full(0.1 + 0.05 * (time % 8.0)),
            udp(187_500.0),
        )
    }));
    assert_eq!(verdicts(&events).iter().map(|found| found.1).collect::<Vec<_>>(), [Verdict::OneWay]);
    assert!(!detector.state().directions.down.bulk);
}

#[test]
fn without_rates_a_starving_direction_is_not_guessed() {
    let mut samples = stream(40, |_| (tcp(UP).full(0.3), tcp(0.1 * DOWN)));
    for sample in &mut samples {
        // Nothing of the downlink can be seen, and nobody knows its rate.
        sample.link.down.queue = None;
    }
    let mut detector = Detector::new(Config::default());
    let events: Vec<Event> = samples.iter().flat_map(|sample| detector.push(sample)).collect();
    assert_eq!(detector.verdict(), Verdict::Unknown);
    let evidence = evidence(&detector);
    assert_eq!(evidence.missing, ["downlink_queue", "downlink_rate"]);
    assert!(evidence.reason.contains("unknown: the level of the downlink's buffer, the downlink's rate"));
    assert!(verdicts(&events).iter().all(|(_, verdict)| *verdict == Verdict::Unknown));
    // The uplink's rate is learnt from its queue, the downlink's is not invented.
    assert!((detector.capacity(Direction::Up).expect("a standing queue").value - UP).abs() < 1.0);
    assert_eq!(detector.capacity(Direction::Down), None);
}

/// Bufferbloat begins once it has lasted for the evidence time of 5 s, and ends once it was gone for most of twice that.
#[test]
fn bufferbloat_begins_and_ends_once() {
    let (detector, events) = run(&stream(60, |time| {
        let up = if (10.0..40.0).contains(&time) { beside_udp().0 } else { acks(5_000.0) };
        (up, Half::default())
    }));
    let found = bloats(&events);
    assert_eq!(
        found.iter().map(|found| (found.1, found.2)).collect::<Vec<_>>(),
        [(true, Direction::Up), (false, Direction::Up)]
    );
    assert!((14.4..=16.0).contains(&found[0].0) && (46.5..=48.0).contains(&found[1].0), "{found:?}");
    let begins =
        events.iter().find(|event| !bloats(std::slice::from_ref(event)).is_empty()).expect("it began");
    assert!((begins.evidence.since_s - (begins.at_s - 5.0)).abs() < 1e-6);
    assert!((figure(&begins.evidence, "uplink_delay_s").expect("known") - 0.35).abs() < 0.04);
    assert!(
        begins
            .evidence
            .reason
            .contains("87 % of the traffic in the uplink's buffer is UDP; shape the uplink")
    );
    assert_eq!(detector.state().directions.up.bufferbloat, None);
}

#[test]
fn the_state_says_what_fills_the_buffer() {
    let (detector, _) = run(&stream(20, |_| beside_udp()));
    let DetectorState { directions, .. } = detector.state();
    let found = directions.up.bufferbloat.expect("350 ms");
    assert!((found.delay_s - 0.35).abs() < 1e-6);
    let cause = found.cause.expect("known");
    assert_eq!(cause.kind, "udp");
    assert!((cause.share - 0.87).abs() < 1e-6);
    assert!((directions.up.standing_delay_s.expect("known") - 0.35).abs() < 0.01);
    assert_eq!((directions.down.bufferbloat, directions.down.standing_delay_s), (None, Some(0.0)));
    // 20 s of 250,000 bytes/s.
    assert!((detector.run().composition.up.total() as f64 / 5_000_000.0 - 1.0).abs() < 0.02);
}

#[test]
fn ordinary_traffic_is_no_bufferbloat() {
    for (name, halves) in [
        ("idle", (|_| (Half::default(), Half::default())) as fn(f64) -> (Half, Half)),
        // A page each 8 s: 1.5 s of a full downlink with 400 ms of queue.
        ("pages", |time| match time % 8.0 < 1.5 {
            true => (acks(5_000.0), tcp(DOWN).full(0.4)),
            false => (Half::default(), Half::default()),
        }),
        ("call", |_| (udp(187_500.0), udp(187_500.0))),
        // An upload of 4 s, each half minute.
        ("burst", |time| {
            if time % 30.0 < 4.0 { (tcp(UP).full(0.5), acks(5_000.0)) } else { (acks(0.0), acks(0.0)) }
        }),
        ("fq_codel", |time| (tcp(UP).full(0.005 + 0.0075 * (time % 2.0)), tcp(DOWN).full(0.015))),
        ("99 ms", |_| (tcp(UP).full(0.099), acks(5_000.0))),
        // The queue drains each half second.
        ("sawtooth", |time| (tcp(UP).full(0.3 * (time % 0.5)), acks(5_000.0))),
    ] {
        let (_, events) = run(&stream(120, halves));
        assert_eq!(bloats(&events), [], "{name}");
    }
    let (_, events) = run(&stream(20, |_| (tcp(UP).full(0.101), acks(5_000.0))));
    assert_eq!(bloats(&events).len(), 1);
}

/// Only the round trip tells: the uplink's buffer is the modem's. With a proven base of 30 ms, 380 ms are 350 ms of queue.
#[test]
fn a_hidden_buffer_is_found_by_the_round_trip_if_its_base_is_proven() {
    for is_proven in [true, false] {
        let mut samples = stream(40, |_| (tcp(UP).full(0.35), tcp(0.17 * DOWN)));
        for sample in &mut samples {
            sample.link.up.queue = None;
            sample.base_round_trip = Some(BaseRoundTrip { seconds: 0.03, is_proven });
        }
        let (detector, events) = run(&samples);
        assert_eq!(detector.verdict(), Verdict::LockedUplink, "{is_proven}");
        assert_eq!(bloats(&events).len(), usize::from(is_proven));
        let delay = detector.state().directions.up.standing_delay_s;
        assert_eq!(delay.map(|seconds| (seconds * 1e3).round()), is_proven.then_some(350.0));
        assert_eq!(detector.base_round_trip().map(|base| base.is_proven), Some(is_proven));
    }
}

/// Ten minutes of the same load: no base is forgotten, and so no verdict.
#[test]
fn the_base_round_trip_outlives_the_load() {
    let mut samples = stream(600, |time| match time < 5.0 {
        true => (acks(0.0), acks(0.0)),
        false => (tcp(UP).full(0.35), tcp(0.17 * DOWN)),
    });
    for sample in &mut samples {
        // No queue is seen, the windows decide.
        sample.link.up.queue = None;
        sample.link.down.queue = None;
        sample.base_round_trip = match sample.at.as_secs() {
            1 => sample.base_round_trip,
            2 => Some(BaseRoundTrip { seconds: -1.0, is_proven: true }),
            _ => None,
        };
    }
    let (detector, events) = run(&samples);
    assert_eq!(detector.base_round_trip(), Some(BaseRoundTrip { seconds: 0.03, is_proven: true }));
    // What begins contradicts "clear" before the lock is known.
    assert_eq!(
        verdicts(&events).iter().map(|found| found.1).collect::<Vec<_>>(),
        [Verdict::Unknown, Verdict::LockedUplink]
    );
    assert_eq!(detector.phase().map(|(phase, _)| phase), Some(Phase::UplinkBound));
}

/// 30,000 bytes, give or take more than half of them and more than four segments: what is beyond doubt stands, and no more is known.
#[test]
fn of_an_uncertain_level_counts_what_is_beyond_doubt() {
    for (uncertainty_bytes, known, standing) in [
        (15_000.0, true, Some(30_000.0)),
        (15_001.0, false, Some(14_999.0)),
        (24_000.0, false, Some(6_000.0)),
        (24_001.0, false, None),
    ] {
        let mut samples = stream(30, |_| (tcp(UP).behind(30_000.0), acks(5_000.0)));
        for sample in &mut samples {
            if let Some(queue) = &mut sample.link.up.queue {
                queue.uncertainty_bytes = uncertainty_bytes;
            }
        }
        let (detector, events) = run(&samples);
        assert_eq!(detector.standing_bytes(Direction::Up), standing);
        // Of 120 ms 60 are certain. Where the level says nothing, the round trip of 150 ms on a proven base of 30 does.
        assert_eq!(bloats(&events).len(), usize::from(!known));
    }
}

/// Configured, else the newest that was measured, by the source or here.
#[test]
fn the_best_rate_counts() {
    let samples = stream(30, |_| (tcp(UP).full(0.3), acks(5_000.0)));
    let (once, until_the_end) = (700..=700, 700..=samples.len());
    for (configured, said, expected) in [
        (true, until_the_end.clone(), 300_000.0),
        (false, until_the_end, 240_000.0),
        (true, once.clone(), 300_000.0),
        (false, once, UP),
    ] {
        let link = if configured { Link::with_capacity(300_000.0, DOWN) } else { Link::default() };
        let mut detector = Detector::new(Config { link, ..Config::default() });
        for (index, sample) in samples.iter().enumerate() {
            let mut sample = sample.clone();
            let rate = MeasuredRate { bytes_per_second: 240_000.0, measured_at: sample.at };
            sample.link.up.rate = Some(rate).filter(|_| said.contains(&index));
            detector.push(&sample);
        }
        let found = detector.capacity(Direction::Up).expect("known");
        assert!((found.value - expected).abs() < 1.0, "{found:?}");
        let rate = detector.measured_rate(Direction::Up).expect("measured");
        assert!(rate.measured_at > Duration::from_secs(29), "{rate:?}");
        assert_eq!(detector.capacity(Direction::Down).is_some(), configured);
    }
}

/// A rate learnt from an estimate would be learnt from itself, one from a buffer that is not seen from nothing.
#[test]
fn nothing_is_learnt_from_a_buffer_that_is_not_seen() {
    for source in [None, Some(QueueSource::Estimate)] {
        let mut samples = stream(60, |_| (tcp(UP).full(0.3), acks(5_000.0)));
        for sample in &mut samples {
            sample.link.up.queue = source.map(|source| QueueSample::level(source, 75_000.0));
        }
        let mut detector = Detector::new(Config::default());
        samples.iter().for_each(|sample| drop(detector.push(sample)));
        assert_eq!(detector.capacity(Direction::Up), None);
    }
}

/// 90 s one way, 30 s locked, 100 s in which nothing passed: the capture was one-way traffic.
#[test]
fn silence_belongs_to_no_old_verdict() {
    let mut samples = stream(120, |time| match time < 90.0 {
        true => (acks(5_000.0), tcp(DOWN).full(0.05)),
        false => (tcp(UP).full(0.35), tcp(0.17 * DOWN)),
    });
    let mut silence = sample(22_000, Half::default(), Half::default(), 0.03);
    (silence.span, silence.round_trip) = (Duration::from_secs(100), None);
    samples.push(silence);
    let (detector, _) = run(&samples);
    assert_eq!(detector.overall_verdict(), Verdict::OneWay);
    assert_eq!(detector.verdict(), Verdict::Clear);
    let held = detector.state().verdict_seconds;
    let [one_way, locked, clear] =
        [Verdict::OneWay, Verdict::LockedUplink, Verdict::Clear].map(|v| held[v as usize]);
    // The first four seconds are nobody's; the change takes about six to be sure of, less what it is dated back.
    assert!((85.0..=97.0).contains(&one_way) && (22.0..=30.0).contains(&locked), "{held:?}");
    assert!((99.0..=101.0).contains(&clear), "{held:?}");
    // Nobody looked for another 100 s: that belongs to no verdict at all.
    let mut detector = streams::detector();
    let first = stream(60, |_| (acks(5_000.0), tcp(DOWN).full(0.05)));
    for sample in first.iter().cloned().chain(first.iter().cloned().map(|mut sample| {
        sample.at += Duration::from_secs(160);
        sample
    })) {
        detector.push(&sample);
    }
    let held = detector.state().verdict_seconds[Verdict::OneWay as usize];
    assert!((112.0..=120.0).contains(&held), "{held}");
}

/// Deterministic noise, 0 to 1.
fn noise(time: f64, seed: f64) -> f64 {
    ((time * 100.0).round() * 12.9898 + seed).sin().mul_add(43_758.545_3, 0.0).rem_euclid(1.0)
}

/// Ten minutes of the same traffic are ten minutes of the same verdict, with noise and with queues that move.
#[test]
fn nothing_changes_its_mind() {
    type Traffic = fn(f64) -> (Half, Half);
    let cases: [(Verdict, Traffic); 5] = [
        (Verdict::LockedUplink, |time| {
            let delay = 0.25 + 0.1 * noise(time, 1.0) + 0.1 * (time % 7.0) / 7.0;
            (udp(UP).full(delay), tcp(DOWN * (0.05 + 0.04 / (0.03 + delay)) * (0.7 + 0.6 * noise(time, 2.0))))
        }),
        (Verdict::Swinging, |time| {
            let half = 2.0 + noise((time / 8.0).floor(), 3.0);
            match time % (2.0 * half) < half {
                true => (tcp(UP).full(0.15 + 0.1 * noise(time, 4.0)), tcp(0.3 * DOWN)),
                false => (tcp(0.3 * UP), tcp(DOWN).full(0.15 + 0.1 * noise(time, 5.0))),
            }
        }),
        // A stream of 2 Mbit/s beside an upload: the round trip moves in the first minute and is steady then.
        (Verdict::OneWay, |time| {
            let delay = if time < 60.0 { 0.1 + 0.05 * (time % 8.0) } else { 0.5 };
            (tcp(UP).full(delay), tcp(250_000.0))
        }),
        (Verdict::Balanced, |time| {
            (tcp(UP).full(0.05 + 0.02 * noise(time, 6.0)), tcp(DOWN).full(0.05 + 0.02 * noise(time, 7.0)))
        }),
        (Verdict::Clear, |time| (udp(40_000.0 * noise(time, 8.0)), udp(40_000.0 * noise(time, 9.0)))),
    ];
    for (expected, halves) in cases {
        let (detector, events) = run(&stream(600, halves));
        assert_eq!(detector.verdict(), expected);
        assert!(verdicts(&events).len() <= 1, "{expected}: {:?}", verdicts(&events));
        assert!(bloats(&events).len() <= 1, "{expected}: {:?}", bloats(&events));
    }
}
