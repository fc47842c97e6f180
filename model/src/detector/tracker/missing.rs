//! What may not be said without evidence.

use super::super::Config;
use super::*;
use crate::link::Link;
use crate::sample::{BaseRoundTrip, Composition, DirectionSample, QueueSample, QueueSource, Sample, Traffic};

/// What one direction does in 10 ms.
fn direction(composition: Composition, queue: Option<(f64, f64)>) -> DirectionSample {
    let data_bytes = composition.tcp_data;
    DirectionSample {
        traffic: Traffic {
            wire_bytes: composition.total(),
            data_bytes,
            data_segments: data_bytes.div_ceil(1500),
            ack_segments: composition.ack / 66,
            ..Traffic::default()
        },
        composition,
        queue: queue.map(|(level, uncertainty_bytes)| QueueSample {
            uncertainty_bytes,
            ..QueueSample::level(QueueSource::Estimate, level)
        }),
        ..DirectionSample::default()
    }
}

fn sample(step: u64, up: &DirectionSample, down: &DirectionSample, round_trip: Option<f64>) -> Sample {
    Sample {
        at: Duration::from_millis(10 * step),
        span: Duration::from_millis(10),
        link: PerDirection { up: up.clone(), down: down.clone() },
        round_trip,
        ..Sample::default()
    }
}

/// A minute of the same on a link of 1 and 8 Mbit/s; the verdict at its end and what was missing.
fn judge(up: &DirectionSample, down: &DirectionSample, round_trip: Option<f64>) -> (Verdict, Vec<Missing>) {
    let link = Link::with_capacity(125e3, 1e6);
    let mut detector = Detector::new(Config { link, ..Config::default() });
    for step in 1..=6000 {
        detector.push(&sample(step, up, down, round_trip));
    }
    let verdict = detector.verdict();
    (verdict, detector.tracker.current.map_or(Vec::new(), |holding| holding.ruling.missing))
}

fn udp(bytes: u64) -> Composition {
    Composition { udp: bytes, ..Composition::default() }
}

fn tcp(bytes: u64) -> Composition {
    Composition { tcp_data: bytes, ..Composition::default() }
}

const EMPTY: Option<(f64, f64)> = Some((0.0, 0.0));

#[test]
fn datagrams_into_a_buffer_that_nobody_sees_are_not_called_clear() {
    let (verdict, missing) = judge(&direction(udp(1000), None), &direction(udp(0), EMPTY), None);
    assert_eq!(verdict, Verdict::Unknown);
    assert!(missing.contains(&Missing::demand(Direction::Up)), "{missing:?}");
    assert!(missing.contains(&Missing::queue(Direction::Up)), "{missing:?}");
    // The same with the buffer in sight, and empty.
    let (verdict, _) = judge(&direction(udp(1000), EMPTY), &direction(udp(0), EMPTY), None);
    assert_eq!(verdict, Verdict::Clear);
}

/// Datagrams into an empty buffer for half a minute; then nobody sees it any more.
#[test]
fn clear_ends_at_once_when_its_evidence_does() {
    let mut detector = Detector::new(Config { link: Link::with_capacity(125e3, 1e6), ..Config::default() });
    let mut ended = None;
    for step in 1..=4000 {
        let up = direction(udp(1000), EMPTY.filter(|_| step <= 3000));
        detector.push(&sample(step, &up, &direction(udp(0), EMPTY), None));
        if step == 3000 {
            assert_eq!(detector.verdict(), Verdict::Clear);
        }
        if step > 3000 && detector.verdict() == Verdict::Unknown {
            ended.get_or_insert(step - 3000);
        }
    }
    // A fifth of the ten seconds for which activity is looked at; no dwell of two seconds after that.
    assert!(ended.is_some_and(|steps| steps <= 225), "{ended:?} times 10 ms");
}

/// A QUIC connection that does not spin is timed when it opens, and never again.
#[test]
fn a_round_trip_before_the_queue_says_nothing_of_the_upload_behind_it() {
    let (up, down) = (direction(udp(2_600), None), direction(udp(90), None));
    let mut detector = Detector::new(Config::default());
    for step in 1..=3000 {
        detector.push(&sample(step, &up, &down, (step == 1).then_some(0.003)));
        let verdict = detector.verdict();
        assert_eq!(verdict, Verdict::Unknown, "after {} s", step / 100);
    }
}

#[test]
fn a_download_whose_acks_pass_elsewhere_is_not_called_one_way() {
    let full = direction(tcp(10_000), Some((60_000.0, 1_500.0)));
    let (verdict, missing) = judge(&direction(tcp(0), None), &full, Some(0.1));
    assert_eq!(verdict, Verdict::Unknown);
    assert!(missing.contains(&Missing::queue(Direction::Up)), "{missing:?}");
    // With its ACKs it is.
    let acks = Composition { ack: 66, ..Composition::default() };
    let (verdict, _) = judge(&direction(acks, EMPTY), &full, Some(0.1));
    assert_eq!(verdict, Verdict::OneWay);
}

#[test]
fn datagrams_that_get_little_beside_a_queue_of_half_a_second_may_starve() {
    let full = direction(tcp(1250), Some((62_500.0, 1_500.0)));
    // A fifth of the downlink's rate: nobody knows whether it wants more.
    let (verdict, missing) = judge(&full, &direction(udp(2_000), EMPTY), Some(0.52));
    assert_eq!(verdict, Verdict::Unknown);
    assert_eq!(missing.first(), Some(&Missing::demand(Direction::Down)));
    // Two thirds do not starve.
    let (verdict, _) = judge(&full, &direction(udp(6_600), EMPTY), Some(0.52));
    assert_eq!(verdict, Verdict::OneWay);
}

#[test]
fn a_download_that_nothing_times_is_not_called_clear() {
    let acks = direction(Composition { ack: 66, ..Composition::default() }, EMPTY);
    let (verdict, missing) = judge(&acks, &direction(tcp(9_000), None), None);
    assert_eq!(verdict, Verdict::Unknown);
    assert!(missing.contains(&Missing::RoundTrip), "{missing:?}");
}

/// Nothing passes for 20 seconds, then bulk data both ways. The activity needs four seconds; which buffer holds it needs more.
#[test]
fn clear_ends_when_both_ways_want_more_whatever_another_verdict_needs() {
    let mut detector = Detector::new(Config::default());
    let (quiet, up, down) =
        (direction(tcp(0), EMPTY), direction(tcp(1_250), None), direction(tcp(10_000), None));
    for step in 1..=2400 {
        let sample = match step {
            ..=2000 => sample(step, &quiet, &quiet, None),
            _ => sample(step, &up, &down, Some(1.0)),
        };
        let events = detector.push(&sample);
        assert!(step <= 2000 || events.len() <= 1, "{events:?}");
        if step == 2000 {
            assert_eq!(detector.verdict(), Verdict::Clear);
        }
    }
    assert_eq!(detector.verdict(), Verdict::Unknown);
    let reason = detector.state().evidence.expect("evidence").reason;
    assert!(reason.starts_with("bulk data began"), "{reason}");
}

/// Both ways want more; rates and what stands in the uplink's buffer become known after 12 seconds. A round trip of a second looks back for a minute.
#[test]
fn what_was_not_known_at_first_does_not_delay_the_verdict_for_the_whole_horizon() {
    let mut detector = Detector::new(Config::default());
    let mut locked_at = None;
    for step in 1..=6000 {
        if step == 1200 {
            detector.link = Link::with_capacity(125e3, 1e6);
        }
        let queue = (step > 1200).then_some((125_000.0, 3_000.0));
        detector.push(&Sample {
            at: Duration::from_millis(10 * step),
            span: Duration::from_millis(10),
            link: PerDirection { up: direction(tcp(1250), queue), down: direction(tcp(1_500), EMPTY) },
            round_trip: Some(1.0),
            ..Sample::default()
        });
        match detector.verdict() {
            Verdict::LockedUplink => drop(locked_at.get_or_insert(step as f64 / 100.0)),
            verdict => {
                assert!(
                    matches!(verdict, Verdict::Clear | Verdict::Unknown) && locked_at.is_none(),
                    "{verdict:?} at {step}"
                );
            }
        }
    }
    // Evidence of eight round trips at most, and the dwell.
    let locked_at = locked_at.expect("it is told");
    assert!((16.0..23.0).contains(&locked_at), "{locked_at} s");
}

/// TCP is timed through empty buffers. Then nothing but datagrams that nobody replies to pass both ways, and nobody sees a buffer.
#[test]
fn the_round_trip_of_earlier_traffic_tells_no_case() {
    let mut detector = Detector::new(Config { link: Link::with_capacity(125e3, 1e6), ..Config::default() });
    for step in 1..=6000 {
        let traffic = |bytes, up| {
            direction(if step <= 1000 { tcp(up) } else { udp(bytes) }, EMPTY.filter(|_| step <= 1000))
        };
        let base = BaseRoundTrip { seconds: 0.02, is_proven: true };
        detector.push(&Sample {
            base_round_trip: Some(base),
            ..sample(step, &traffic(1_250, 300), &traffic(2_000, 3_000), (step <= 1000).then_some(0.02))
        });
        if step >= 2200 {
            assert_eq!(detector.phase(), None, "at {step}");
            let verdict = detector.verdict();
            assert_eq!(verdict, Verdict::Unknown, "at {step}");
        }
    }
    assert!(detector.missing().contains(&Missing::RoundTrip));
}
