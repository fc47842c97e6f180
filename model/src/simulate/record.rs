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
mod tests;
