//! What stands in the link's two buffers, from captures.
//!
//! [`exact`]: with a capture on each side of the uplink buffer, every packet is seen entering and leaving. What has a capture on one side
//! only is the [`Observer`]'s work.

pub mod exact;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use exact::ExactQueue;
use pendulum_model::observer::{Answer, Observer, Passing};
use pendulum_model::sample::{QueueSample, QueueSource};
use pendulum_model::segment::{Direction, PerDirection};

/// Both buffers of the link, seen in one way or another.
#[derive(Debug)]
pub struct Buffers {
    /// Whatever is seen from one side only.
    pub observer: Observer,
    /// Of the place that the capture may as well be from.
    other: Option<Box<OtherPlace>>,
    /// The uplink's, by a capture on each side.
    pub exact: Option<Box<ExactQueue>>,
    /// Intervals that are known, oldest first.
    known: PerDirection<VecDeque<Option<QueueSample>>>,
}

/// An observer at the other side of the uplink's buffer, and the uplink's level as it sees it.
#[derive(Debug)]
struct OtherPlace {
    observer: Observer,
    levels: VecDeque<Option<QueueSample>>,
}

impl Buffers {
    /// These buffers, from now on.
    pub fn new(observer: Observer, exact: Option<Box<ExactQueue>>) -> Self {
        Self { observer, other: None, exact, known: PerDirection::default() }
    }

    /// The capture may as well be from where this observer is: the uplink's level is reported as uncertain as that makes it.
    pub fn doubt(&mut self, observer: Observer) {
        self.other = Some(Box::new(OtherPlace { observer, levels: VecDeque::new() }));
    }

    /// A packet passes the point of observation.
    pub fn pass(&mut self, direction: Direction, packet: &Passing, answer: Option<&Answer>) {
        for observer in self.observers() {
            observer.pass(direction, packet, answer);
        }
    }

    fn observers(&mut self) -> impl Iterator<Item = &mut Observer> {
        std::iter::once(&mut self.observer).chain(self.other.as_mut().map(|other| &mut other.observer))
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
        self.observers().for_each(|observer| observer.settle(now_ns));
        if let Some(exact) = &mut self.exact {
            exact.settle(now_ns);
        }
        self.collect();
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub fn finish(&mut self, now_ns: u64) {
        self.observers().for_each(|observer| observer.finish(now_ns));
        if let Some(exact) = &mut self.exact {
            exact.finish(now_ns);
        }
        self.collect();
    }

    /// Takes the oldest interval of both buffers; `None` while one of them is not known yet, inside for a level that nothing tells.
    pub fn pop(&mut self) -> Option<PerDirection<Option<QueueSample>>> {
        let is_waiting = self.other.as_ref().is_some_and(|other| other.levels.is_empty());
        if is_waiting || Direction::ALL.into_iter().any(|x| self.known[x].is_empty()) {
            return None;
        }
        let mut levels = PerDirection::from_fn(|x| self.known[x].pop_front().flatten());
        if let Some(other) = &mut self.other {
            let there = other.levels.pop_front().flatten();
            levels.up = levels.up.zip(there).map(|(here, there)| either(here, &there));
        }
        Some(levels)
    }

    /// Begins anew at `start_ns`, after a silence in which everything drained. What was not taken is gone.
    pub fn restart(&mut self, start_ns: u64) {
        self.known = PerDirection::default();
        self.observers().for_each(|observer| observer.restart(start_ns));
        if let Some(other) = &mut self.other {
            other.levels.clear();
        }
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
        if let Some(other) = &mut self.other {
            while other.observer.pop(Direction::Down).is_some() {}
            while let Some(level) = other.observer.pop(Direction::Up) {
                other.levels.push_back(level);
            }
        }
        let Some(exact) = &mut self.exact else { return };
        while let Some((levels, _)) = exact.standing.track.pop() {
            self.known.up.push_back(Some(QueueSample {
                source: QueueSource::Capture,
                min_bytes: levels.min,
                mean_bytes: levels.mean,
                max_bytes: levels.max,
                uncertainty_bytes: 0.0,
            }));
        }
    }
}

/// A level that may as well be another one.
fn either(here: QueueSample, there: &QueueSample) -> QueueSample {
    let off = (there.mean_bytes - here.mean_bytes).abs() + there.uncertainty_bytes;
    QueueSample { uncertainty_bytes: here.uncertainty_bytes.max(off), ..here }
}
