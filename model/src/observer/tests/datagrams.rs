//! Nothing but QUIC before a hidden buffer: datagrams that nobody acknowledges in sight, and a connection that opens from time to time.

use std::time::Duration;

use fastrand::Rng;

use super::super::{Answer, Observer, Passing, Vantage};
use crate::segment::{Direction, PerDirection};

const SECOND: f64 = 1e9;
const DATAGRAM: f64 = 1242.0;

/// Bytes per second, and bytes.
const RATE: f64 = 24_500.0;
const ROOM: f64 = 30_000.0;

/// A link behind a buffer that drops what it has no room for.
struct Dropping {
    /// When each datagram entered, and when its service began.
    stays: Vec<(f64, f64)>,
    done_ns: f64,
}

impl Dropping {
    /// When the datagram has left, unless it is dropped.
    fn pass(&mut self, at_ns: f64) -> Option<f64> {
        let begins = self.done_ns.max(at_ns);
        if (begins - at_ns) * RATE / SECOND + DATAGRAM > ROOM {
            return None;
        }
        self.done_ns = begins + DATAGRAM * SECOND / RATE;
        self.stays.push((at_ns, begins));
        Some(self.done_ns)
    }

    fn level(&self, at_ns: f64) -> f64 {
        let waits = |(enters, begins): &&(f64, f64)| *enters <= at_ns && at_ns < *begins;
        self.stays.iter().filter(waits).count() as f64 * DATAGRAM
    }
}

/// What the observer tells of the uplink.
struct Told {
    /// Share of the time in which the level is known, and of that in which it lies within its uncertainty.
    known: f64,
    covered: f64,
    /// Bytes per second.
    rate: Option<f64>,
}

/// From the tenth second on datagrams enter, `part` of the link's rate; a connection opens each `every_s`, and its server thinks for up to `think_ms`.
fn observe(seed: u64, part: f64, every_s: f64, think_ms: f64, is_configured: bool) -> Told {
    const SECONDS: f64 = 80.0;
    let mut rng = Rng::with_seed(seed);
    let base_ns = 0.06 * SECOND;
    let mut buffer = Dropping { stays: Vec::new(), done_ns: 0.0 };
    let mut observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_millis(500));
    if is_configured {
        observer.set_rates(PerDirection { up: Some(RATE), down: Some(3e5) }, None);
    }
    let opens = |number: u32| (0.5 + f64::from(number) * every_s) * SECOND;
    let mut sends: Vec<(f64, bool)> =
        (0..).map(opens).take_while(|at| *at < SECONDS * SECOND).map(|at| (at, true)).collect();
    let mut at = (10.0 + rng.f64()) * SECOND;
    while at < SECONDS * SECOND {
        sends.push((at, false));
        at += DATAGRAM * SECOND / (RATE * part) * (0.9 + 0.2 * rng.f64());
    }
    sends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut events: Vec<(f64, Option<f64>)> = Vec::new();
    for (at, opens) in sends {
        events.push((at, None));
        let left = buffer.pass(at).filter(|_| opens);
        events.extend(left.map(|left| (left + base_ns + think_ms * 1e6 * rng.f64(), Some(at))));
    }
    events.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut settled_ns, mut row_ns) = (0.0, 0.0);
    let (mut rows, mut known, mut covered) = (0.0, 0.0, 0.0);
    for (at, asked) in events {
        while settled_ns < at {
            settled_ns += 0.1 * SECOND;
            observer.settle(settled_ns as u64);
            while let Some(row) = observer.pop(Direction::Up) {
                row_ns += 1e7;
                if row_ns < 20.0 * SECOND {
                    continue;
                }
                rows += 1.0;
                if let Some(row) = row {
                    let off = (row.mean_bytes - buffer.level(row_ns - 5e6)).abs();
                    known += 1.0;
                    covered += f64::from(off <= row.uncertainty_bytes);
                }
            }
            while observer.pop(Direction::Down).is_some() {}
        }
        let bytes = DATAGRAM as u32;
        let passing = Passing { at_ns: at as u64, bytes, ..Passing::default() };
        match asked {
            None => observer.leave(&passing, None),
            Some(asked) => {
                let delay_ns = (at - asked) as u64;
                let answer = Answer { end: [1; 16], delay_ns, question_bytes: bytes, ..Answer::default() };
                observer.arrive(&passing, Some(&answer));
            }
        }
    }
    let rate = observer.rate(Direction::Up).map(|rate| rate.bytes_per_second);
    Told { known: known / rows, covered: covered / known, rate }
}

/// A buffer that is overrun: the level lies within its uncertainty in nine tenths of the time, however seldom connections open.
#[test]
fn a_level_by_connections_that_open_lies_within_its_uncertainty() {
    for part in [0.8, 1.0, 1.1, 1.5] {
        for every_s in [0.2, 0.5, 2.0] {
            for think_ms in [2.0, 40.0] {
                let runs: Vec<_> = (1..=8).map(|seed| observe(seed, part, every_s, think_ms, true)).collect();
                let mean = |of: fn(&Told) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
                let (known, covered) = (mean(|told| told.known), mean(|told| told.covered));
                println!(
                    "{part} of the rate, each {every_s} s, {think_ms} ms: known {known:.2}, covered {covered:.2}"
                );
                assert!(known >= 0.4 && covered >= 0.9, "{part} {every_s} {think_ms}: {known} {covered}");
            }
        }
    }
}

/// Nobody repeats in sight what a full buffer drops: half more than it carries is not taken for its rate, configured or not.
#[test]
fn what_is_dropped_in_silence_is_no_part_of_the_rate() {
    for is_configured in [true, false] {
        for seed in 1..=8 {
            let told = observe(seed, 1.5, 0.5, 2.0, is_configured);
            assert!(told.rate.is_none_or(|rate| rate < 1.15 * RATE), "{seed}: {:?}", told.rate);
            assert!(told.known == 0.0 || told.covered >= 0.9, "{seed}: {} of {}", told.covered, told.known);
        }
    }
}
