//! What is measured of a run, after its beginning.

use super::packet::{PAYLOAD_BYTES, SECOND, Time};
use super::{Outcome, Run, SimulatedLink, Wait};
use crate::segment::{Direction, PerDirection};

/// How often the queues are read.
const INTERVAL: Time = SECOND / 100;

#[derive(Debug)]
pub(super) struct Record {
    from: Time,
    until: Time,
    next_reading: Time,
    delivered: PerDirection<u64>,
    sent_bytes: PerDirection<u64>,
    frames: u64,
    waits: PerDirection<Vec<f32>>,
}

impl Record {
    pub(super) fn new(run: &Run, link: &SimulatedLink) -> Self {
        let from = (run.from_s * SECOND as f64) as Time;
        let until = (run.until_s * SECOND as f64) as Time;
        let readings = (until.saturating_sub(from) / INTERVAL) as usize + 1;
        let waits = PerDirection::from_fn(|_| Vec::with_capacity(readings));
        let zero = PerDirection { up: 0, down: 0 };
        debug_assert!(!link.flows.is_empty());
        Self { from, until, next_reading: from, delivered: zero, sent_bytes: zero, frames: 0, waits }
    }

    /// Time goes on: reads the queues as often as it is due.
    pub(super) fn advance(&mut self, to: Time, mut reading: impl FnMut(Time) -> PerDirection<f64>) {
        while self.next_reading <= to && self.next_reading <= self.until {
            let reading = reading(self.next_reading);
            for direction in Direction::ALL {
                self.waits[direction].push(reading[direction] as f32);
            }
            self.next_reading += INTERVAL;
        }
    }

    pub(super) fn delivered(&mut self, now: Time, direction: Direction) {
        if now >= self.from {
            self.delivered[direction] += 1;
        }
    }

    pub(super) fn sent(&mut self, now: Time, direction: Direction, bytes: u32) {
        self.frames += 1;
        if now >= self.from {
            self.sent_bytes[direction] += u64::from(bytes);
        }
    }

    /// `sparse_up` is what frames of flows without others wait before the uplink, at each reading; `None`: no less than others.
    pub(super) fn outcome(self, dropped: PerDirection<u64>, sparse_up: Option<Vec<f32>>) -> Outcome {
        let seconds = self.until.saturating_sub(self.from) as f64 / SECOND as f64;
        let sparse = sparse_up.map(|up| PerDirection { up, down: self.waits.down.clone() });
        let (wait, wait_both) = waits(self.waits);
        let (sparse_wait, sparse_wait_both) = sparse.map_or((wait, wait_both), waits);
        Outcome {
            goodput_bps: PerDirection::from_fn(|x| {
                self.delivered[x] as f64 * f64::from(PAYLOAD_BYTES) * 8.0 / seconds
            }),
            sent_bps: PerDirection::from_fn(|x| self.sent_bytes[x] as f64 * 8.0 / seconds),
            wait,
            wait_both,
            sparse_wait,
            sparse_wait_both,
            frames: self.frames,
            dropped,
        }
    }
}

/// Of each queue, and of both together.
fn waits(readings: PerDirection<Vec<f32>>) -> (PerDirection<Wait>, Wait) {
    let both = readings.up.iter().zip(&readings.down).map(|(up, down)| up + down).collect();
    (PerDirection { up: wait(readings.up), down: wait(readings.down) }, wait(both))
}

fn wait(mut all: Vec<f32>) -> Wait {
    if all.is_empty() {
        return Wait::default();
    }
    let mean = all.iter().map(|wait| f64::from(*wait)).sum::<f64>() / all.len() as f64;
    let rank = ((all.len() as f64 * 0.95).ceil() as usize).clamp(1, all.len());
    let p95 = f64::from(*all.select_nth_unstable_by(rank - 1, f32::total_cmp).1);
    Wait { mean_s: mean, p95_s: p95 }
}

#[cfg(test)]
mod tests {
    use super::super::packet::MILLISECOND;
    use super::*;
    use crate::rate::BufferSize;
    use crate::simulate::{CongestionControl, Flow};

    fn record() -> Record {
        let link = SimulatedLink {
            rate: PerDirection { up: 1e6, down: 1e6 },
            buffer: PerDirection { up: BufferSize::Packets(1), down: BufferSize::Packets(1) },
            cake: false,
            burst: PerDirection { up: 0.0, down: 0.0 },
            flows: vec![Flow::bulk(Direction::Up, CongestionControl::Reno)],
        };
        Record::new(&Run { from_s: 1.0, until_s: 3.0, start_spread_s: 0.0, jitter_s: 0.0 }, &link)
    }

    #[test]
    fn mean_and_95th_percentile_of_the_readings() {
        let of = |count: u16| wait((1..=count).rev().map(f32::from).collect());
        assert_eq!(of(20), Wait { mean_s: 10.5, p95_s: 19.0 });
        assert_eq!(of(100), Wait { mean_s: 50.5, p95_s: 95.0 });
        assert_eq!([of(1), of(0)], [Wait { mean_s: 1.0, p95_s: 1.0 }, Wait::default()]);
    }

    #[test]
    fn queues_are_read_each_10_ms_of_what_is_measured() {
        let mut record = record();
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for to in [SECOND - 1, SECOND, SECOND + 2 * INTERVAL - 1, 9 * SECOND] {
            record.advance(to, |at| {
                times.push(at / MILLISECOND);
                PerDirection { up: 0.5, down: 0.25 }
            });
            counts.push(times.len());
        }
        assert_eq!(counts, [0, 1, 2, 201]);
        assert_eq!((times[0], times[1], times[200]), (1_000, 1_010, 3_000));
        let outcome = record.outcome(PerDirection { up: 0, down: 0 }, None);
        assert_eq!(
            (outcome.wait.up.mean_s, outcome.wait.down.p95_s, outcome.wait_both.mean_s),
            (0.5, 0.25, 0.75)
        );
        assert_eq!((outcome.sparse_wait, outcome.sparse_wait_both), (outcome.wait, outcome.wait_both));
    }

    #[test]
    fn what_is_measured_counts_and_the_frames_of_all_the_time() {
        let mut record = record();
        for at in [SECOND - 1, SECOND, 2 * SECOND] {
            record.delivered(at, Direction::Down);
            record.sent(at, Direction::Up, 100);
        }
        record.advance(SECOND, |_| PerDirection { up: 0.5, down: 0.25 });
        let outcome = record.outcome(PerDirection { up: 3, down: 4 }, Some(vec![0.125]));
        // Two segments of 1,448 bytes and 200 bytes in two seconds.
        assert_eq!((outcome.goodput_bps.down, outcome.goodput_bps.up), (1_448.0 * 8.0, 0.0));
        assert_eq!((outcome.sent_bps.up, outcome.sent_bps.down, outcome.frames), (800.0, 0.0, 3));
        assert_eq!((outcome.dropped.up, outcome.dropped.down), (3, 4));
        assert_eq!((outcome.sparse_wait.up.mean_s, outcome.sparse_wait_both.mean_s), (0.125, 0.375));
    }
}
