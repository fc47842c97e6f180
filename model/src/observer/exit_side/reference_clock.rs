//! Which sender's clock the others go by: all packets wait in one buffer.
//!
//! A clock that is first read while the buffer holds a queue has the smallest queue since then in its smallest reading, and its waits are too short by that. So
//! the clock whose smallest reading is proven, or else the one that was heard first, tells the others how long packets wait.

use std::cmp::Reverse;

use super::super::clock::{Clocks, SenderClock};
use super::super::rules::RULES;

/// A clock, its newest reading, and how much that is worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockReading {
    pub(super) flow: u64,
    pub(super) left_ns: f64,
    pub(super) waited_ns: f64,
    /// When it was heard first.
    pub(super) first_ns: f64,
    pub(super) is_proven: bool,
}

impl ClockReading {
    fn rank(&self) -> (bool, Reverse<u64>) {
        (self.is_proven, Reverse(self.first_ns.max(0.0) as u64))
    }
}

/// The best clock, and those that were read after it was.
#[derive(Debug, Default)]
pub(super) struct ReferenceClock {
    best: Option<ClockReading>,
    followers: Vec<u64>,
}

impl ReferenceClock {
    /// A clock was read. Whether it is the best one; the others hear of it then.
    pub(super) fn hear(&mut self, reading: ClockReading, clocks: &mut Clocks) -> bool {
        match self.best {
            Some(best) if reading.left_ns - best.left_ns > RULES.second_ns => self.followers.clear(),
            Some(best) if best.flow != reading.flow && reading.rank() < best.rank() => {
                if self.followers.len() < RULES.values_max && !self.followers.contains(&reading.flow) {
                    self.followers.push(reading.flow);
                }
                return false;
            }
            _ => {}
        }
        self.best = Some(reading);
        for flow in self.followers.drain(..).filter(|flow| *flow != reading.flow) {
            clocks.entry(flow, SenderClock::default).follow(reading.left_ns, reading.waited_ns);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(flow: u64, first_s: f64, is_proven: bool, left_s: f64) -> ClockReading {
        ClockReading { flow, left_ns: left_s * 1e9, waited_ns: 40e6, first_ns: first_s * 1e9, is_proven }
    }

    #[test]
    fn what_is_proven_or_was_heard_first_is_best_while_it_is_heard() {
        let (mut reference_clock, mut clocks) = (ReferenceClock::default(), Clocks::default());
        assert!(reference_clock.hear(reading(2, 2.0, false, 10.0), &mut clocks), "the only one");
        assert!(reference_clock.hear(reading(1, 1.0, false, 10.1), &mut clocks), "heard earlier");
        assert!(!reference_clock.hear(reading(2, 2.0, false, 10.2), &mut clocks));
        assert!(reference_clock.hear(reading(3, 3.0, true, 10.3), &mut clocks), "proven");
        assert!(!reference_clock.hear(reading(1, 1.0, false, 10.4), &mut clocks));
        assert!(reference_clock.hear(reading(1, 1.0, false, 11.4), &mut clocks), "the other is silent");
    }
}
