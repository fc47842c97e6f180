//! What stands in the link's two buffers, from captures.
//!
//! [`exact`]: with a capture on each side of the uplink buffer, every packet is seen entering and leaving. A buffer with
//! a capture behind it only shows in how long answers take ([`pendulum_model::buffer`], 000 Eq. 1).

pub mod exact;
#[cfg(test)]
mod tests;

use exact::ExactQueue;
use pendulum_model::buffer::{DelayQueue, LevelTrack, Levels};

/// A buffer, seen in one way or another.
#[derive(Debug)]
pub enum Queue {
    /// By a capture on each side.
    Exact(Box<ExactQueue>),
    /// By the delay of answers.
    Delay(Box<DelayQueue>),
    /// Not at all: neither a second capture nor a link rate.
    Unknown,
}

impl Queue {
    /// Whether anything is known of it.
    pub fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// Nothing can change before `now_ns` any more but what is still on its way through the buffer.
    pub fn settle(&mut self, now_ns: u64) {
        match self {
            Self::Exact(queue) => queue.settle(now_ns),
            Self::Delay(queue) => queue.settle(now_ns),
            Self::Unknown => {}
        }
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub fn finish(&mut self, now_ns: u64) {
        match self {
            Self::Exact(queue) => queue.finish(now_ns),
            Self::Delay(queue) => queue.finish(now_ns),
            Self::Unknown => {}
        }
    }

    /// Whether there is an interval that is complete.
    pub fn is_ready(&mut self) -> bool {
        self.track().is_some_and(|track| track.is_ready())
    }

    /// Take the oldest interval that is complete; `None` if its level is not known.
    pub fn pop(&mut self) -> Option<Levels> {
        self.track().and_then(LevelTrack::pop)
    }

    /// Begin anew at `start_ns`, after a silence in which everything drained. What was not taken is gone.
    pub fn restart(&mut self, start_ns: u64) {
        match self {
            Self::Exact(queue) => queue.restart(start_ns),
            Self::Delay(queue) => queue.restart(start_ns),
            Self::Unknown => {}
        }
    }

    fn track(&mut self) -> Option<&mut LevelTrack> {
        match self {
            Self::Exact(queue) => Some(&mut queue.standing().track),
            Self::Delay(queue) => Some(&mut queue.standing().track),
            Self::Unknown => None,
        }
    }
}
