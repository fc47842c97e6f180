//! What stands in the link's two buffers, from captures.
//!
//! [`exact`]: with a capture on each side of the uplink buffer, every packet is seen entering and leaving. What has a capture on one side
//! only is the [`Observer`]'s work.

pub mod exact;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use exact::ExactQueue;
use pendulum_model::observer::Observer;
use pendulum_model::sample::{QueueSample, QueueSource};
use pendulum_model::segment::{Direction, PerDirection};

/// Both buffers of the link, seen in one way or another.
#[derive(Debug)]
pub struct Buffers {
    /// Whatever is seen from one side only.
    pub observer: Observer,
    /// The uplink's, by a capture on each side.
    pub exact: Option<Box<ExactQueue>>,
    /// Intervals that are known, oldest first.
    known: PerDirection<VecDeque<Option<QueueSample>>>,
}

impl Buffers {
    /// These buffers, from now on.
    pub fn new(observer: Observer, exact: Option<Box<ExactQueue>>) -> Self {
        Self { observer, exact, known: PerDirection::default() }
    }

    /// How a direction's buffer is known.
    pub fn source(&self, direction: Direction) -> QueueSource {
        match (direction, &self.exact) {
            (Direction::Up, Some(_)) => QueueSource::Capture,
            _ => QueueSource::Estimate,
        }
    }

    /// Nothing can change before `now_ns` any more but what is still on its way through a buffer.
    pub fn settle(&mut self, now_ns: u64) {
        self.observer.settle(now_ns);
        if let Some(exact) = &mut self.exact {
            exact.settle(now_ns);
        }
        self.collect();
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub fn finish(&mut self, now_ns: u64) {
        self.observer.finish(now_ns);
        if let Some(exact) = &mut self.exact {
            exact.finish(now_ns);
        }
        self.collect();
    }

    /// Takes the oldest interval of both buffers; `None` while one of them is not known yet, inside for a level that nothing tells.
    pub fn pop(&mut self) -> Option<PerDirection<Option<QueueSample>>> {
        if Direction::ALL.into_iter().any(|x| self.known[x].is_empty()) {
            return None;
        }
        Some(PerDirection::from_fn(|x| self.known[x].pop_front().flatten()))
    }

    /// Begins anew at `start_ns`, after a silence in which everything drained. What was not taken is gone.
    pub fn restart(&mut self, start_ns: u64) {
        self.known = PerDirection::default();
        self.observer.restart(start_ns);
        if let Some(exact) = &mut self.exact {
            exact.restart(start_ns);
        }
    }

    fn collect(&mut self) {
        for x in Direction::ALL {
            while let Some(level) = self.observer.pop(x) {
                self.known[x].push_back(level);
            }
        }
        let Some(exact) = &mut self.exact else { return };
        let track = &mut exact.standing().track;
        while track.is_ready() {
            let levels = track.pop();
            self.known.up.push_back(levels.map(|levels| QueueSample {
                source: QueueSource::Capture,
                min_bytes: levels.min,
                mean_bytes: levels.mean,
                max_bytes: levels.max,
                uncertainty_bytes: 0.0,
            }));
        }
    }
}
