//! Input that no link produces: it must not panic, not take memory without end, and not give figures that are no figures.

use std::time::Duration;

use fastrand::Rng;

use super::super::level::{INTERVAL_NS, LevelTrack};
use super::super::{Answer, Observer, Passing, Vantage};
use crate::segment::{Direction, PerDirection};

const YEAR_NS: u64 = 31_557_600_000_000_000;

/// Takes at most so many intervals of each direction; each must be sane.
fn check(observer: &mut Observer, most: usize) {
    for direction in [Direction::Up, Direction::Down] {
        for row in (0..most).map_while(|_| observer.pop(direction)).flatten() {
            let figures = [row.min_bytes, row.mean_bytes, row.max_bytes, row.uncertainty_bytes];
            assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{row:?}");
            assert!(
                row.min_bytes <= row.mean_bytes + 1.0 && row.mean_bytes <= row.max_bytes + 1.0,
                "{row:?}"
            );
        }
        if let Some(rate) = observer.rate(direction) {
            assert!(rate.bytes_per_second.is_finite() && rate.bytes_per_second > 0.0);
        }
    }
    if let Some(base) = observer.base_round_trip() {
        assert!(base.seconds.is_finite() && base.seconds >= 0.0);
    }
}

/// One of the values that break things, or a small one.
fn nasty(rng: &mut Rng, small: u64) -> u64 {
    match rng.u8(..24) {
        0 => 0,
        1 => YEAR_NS,
        2 => u64::from(u32::MAX),
        3 => 3 * YEAR_NS,
        _ => rng.u64(..small),
    }
}

#[test]
fn nonsense_of_all_kinds() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let vantage =
            [Vantage::OwnQueue, Vantage::BeforeUplinkBuffer, Vantage::BehindUplinkBuffer, Vantage::Both]
                [seed as usize % 4];
        let mut observer = Observer::new(nasty(&mut rng, 1000), vantage, Duration::from_secs(1));
        let rate = |rng: &mut Rng| {
            [None, Some(0.0), Some(-1.0), Some(f64::NAN), Some(f64::INFINITY), Some(1e-300), Some(1e5)]
                [rng.usize(..7)]
        };
        observer.set_rates(PerDirection { up: rate(&mut rng), down: rate(&mut rng) }, rate(&mut rng));
        observer.set_first_rates(PerDirection { up: rate(&mut rng), down: rate(&mut rng) });
        let mut at_ns = 0_u64;
        for _ in 0..600 {
            at_ns = match rng.u8(..40) {
                0 => at_ns.saturating_sub(nasty(&mut rng, 1_000_000_000)),
                1 => at_ns.saturating_add(nasty(&mut rng, 1_000_000_000)),
                _ => at_ns.saturating_add(rng.u64(..5_000_000)),
            };
            let packet = Passing {
                at_ns,
                bytes: nasty(&mut rng, 1500).min(u64::from(u32::MAX)) as u32,
                repeated_bytes: nasty(&mut rng, 1500).min(u64::from(u32::MAX)) as u32,
                clock: rng.bool().then(|| (rng.u64(..3), nasty(&mut rng, 5000) as u32)),
            };
            let answer = rng.bool().then(|| Answer {
                end: [rng.u8(..3); 16],
                delay_ns: nasty(&mut rng, 100_000_000),
                question_bytes: nasty(&mut rng, 1500).min(u64::from(u32::MAX)) as u32,
                ahead_bytes: nasty(&mut rng, 1500).min(u64::from(u32::MAX)) as u32,
                own_queue_ns: nasty(&mut rng, 100_000_000),
            });
            match rng.bool() {
                true => observer.leave(&packet, answer.as_ref()),
                false => observer.arrive(&packet, answer.as_ref()),
            }
            if rng.u8(..10) == 0 {
                observer.settle(at_ns);
                check(&mut observer, 1000);
            }
        }
        observer.finish(at_ns);
        check(&mut observer, 1000);
        observer.restart(at_ns);
        check(&mut observer, 10);
        observer.finish(u64::MAX);
        check(&mut observer, 10);
    }
}

#[test]
fn a_year_of_levels_is_one_entry_and_still_counted() {
    let mut track = LevelTrack::new(0);
    track.set(INTERVAL_NS / 2, 1000.0);
    track.hold(YEAR_NS + 4 * INTERVAL_NS);
    let means: Vec<_> = (0..3).map(|_| track.pop().map(|(levels, _)| levels.mean)).collect();
    assert_eq!(means, [Some(500.0), Some(1000.0), Some(1000.0)]);
    track.hold(u64::MAX);
    assert!(track.pop().is_some());
}

#[test]
fn the_largest_doubt_of_an_interval_counts() {
    let mut track = LevelTrack::new(0);
    track.doubt(5.0);
    track.hold(INTERVAL_NS / 2);
    track.doubt(2.0);
    track.hold(3 * INTERVAL_NS);
    let doubts: Vec<f64> = std::iter::from_fn(|| track.pop()).map(|(_, doubt_ns)| doubt_ns).collect();
    assert_eq!(doubts, [5.0, 2.0, 2.0]);
}

/// Levels of the downlink, one for each 10 ms.
fn downlink(observer: &mut Observer) -> Vec<Option<f64>> {
    std::iter::from_fn(|| observer.pop(Direction::Down)).map(|row| row.map(|row| row.mean_bytes)).collect()
}

/// Datagrams that come out of a full downlink back to back: nothing times them. They may have waited, or come just in time; the link's being idle
/// before and after is certain.
#[test]
fn a_burst_that_nothing_times_is_not_an_empty_buffer() {
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
    observer.set_rates(PerDirection { up: None, down: Some(1e6) }, None);
    // 1,250 bytes take 1.25 ms; from 1.0 to 1.5 s without a pause.
    for number in 0..400 {
        let at_ns = 1_000_000_000 + number * 1_250_000;
        observer.arrive(&Passing { at_ns, bytes: 1250, ..Passing::default() }, None);
    }
    observer.settle(1_700_000_000);
    observer.finish(2_000_000_000);
    let rows = downlink(&mut observer);
    assert!(rows[..95].iter().all(|row| *row == Some(0.0)), "idle before");
    assert!(rows[115..145].iter().all(Option::is_none), "{:?}", &rows[115..145]);
    assert!(rows[160..190].iter().all(|row| *row == Some(0.0)), "idle after");
}

/// Datagrams at half of the link's rate: the link has time to spare, so nothing stands.
#[test]
fn a_link_with_time_to_spare_is_empty() {
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
    observer.set_rates(PerDirection { up: None, down: Some(1e6) }, None);
    for number in 0..800 {
        let at_ns = 1_000_000_000 + number * 2_500_000;
        observer.arrive(&Passing { at_ns, bytes: 1250, ..Passing::default() }, None);
        observer.settle(at_ns);
    }
    observer.finish(3_500_000_000);
    let rows = downlink(&mut observer);
    let empty = rows.iter().filter(|row| row.is_some_and(|bytes| bytes < 1300.0)).count();
    assert!(empty * 10 >= rows.len() * 9, "{empty} of {}", rows.len());
}

/// An uplink that is full before the first packet is seen and never drains: the delay without queue contains the queue, and the uncertainty says so.
#[test]
fn what_stood_before_the_first_packet_is_in_the_uncertainty() {
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
    // 15 ms a packet; each finds 20 others there: 300 ms, and 20 ms of the way.
    observer.set_rates(PerDirection { up: Some(1e5), down: Some(1e6) }, None);
    let delay_ns = 335_000_000;
    for number in 0..2000_u64 {
        let at_ns = number * 15_000_000;
        if at_ns >= delay_ns {
            let answer = Answer { end: [1; 16], delay_ns, question_bytes: 1500, ..Answer::default() };
            let passing = Passing { at_ns, bytes: 66, ..Passing::default() };
            observer.arrive(&passing, Some(&answer));
        }
        observer.leave(&Passing { at_ns: at_ns + 1000, bytes: 1500, ..Passing::default() }, None);
        observer.settle(at_ns);
    }
    let rows: Vec<_> = std::iter::from_fn(|| observer.pop(Direction::Up)).skip(200).collect();
    assert!(rows.len() > 1000);
    for row in rows.into_iter().flatten() {
        assert!((row.mean_bytes - 30_000.0).abs() <= row.uncertainty_bytes, "{row:?}");
    }
    assert_ne!(observer.trust(Direction::Up, 30_000_000_000), super::super::Trust::Confirmed);
}
