//! How much stands in the buffer, from when each packet came and when its service begins.

use super::super::level::Levels;
use super::super::rules::RULES;
use super::{Booked, EntrySide};
use crate::capacity::ServiceRate;

impl EntrySide {
    /// When its service begins: when it comes, or when the one before is served.
    fn start_ns(&self, index: usize) -> f64 {
        let entry = self.entries[index];
        match index.checked_sub(1) {
            Some(before) => self.entries[before].done_ns.max(entry.at_ns),
            None => {
                self.rate().map_or(entry.at_ns, |rate| (entry.done_ns - entry.bytes / rate).max(entry.at_ns))
            }
        }
    }

    /// Packets whose service has begun.
    fn begun(&self, at_ns: f64, by_service: bool) -> usize {
        let served = self.entries.partition_point(|entry| entry.done_ns <= at_ns);
        let next = self.entries.get(served).filter(|_| by_service);
        served + usize::from(next.is_some_and(|_| self.start_ns(served) <= at_ns))
    }

    /// Bytes that have entered and are not yet being served: those that came, less those that were dropped, as which the link has no time for.
    fn waiting(&self, entered: usize, begun: usize, rate: Option<f64>) -> f64 {
        if entered <= begun {
            return 0.0;
        }
        let sum = |count: usize| match count.checked_sub(1) {
            Some(index) => self.entries[index].sum,
            None => self.entries.front().map_or(0.0, |entry| entry.sum - entry.bytes),
        };
        let came = sum(entered) - sum(begun);
        let served = |rate: f64| rate * (self.entries[entered - 1].done_ns - self.start_ns(begun));
        rate.map_or(came, |rate| came.min(served(rate))).max(0.0)
    }

    /// Between two moments; `None` if nobody knows.
    pub(super) fn levels(&self, from: f64, to: f64) -> Option<Booked> {
        let rate = self.rate();
        let start = |index: usize| match rate {
            Some(_) => self.start_ns(index),
            None => self.entries[index].done_ns,
        };
        let mut entered = self.entries.partition_point(|entry| entry.at_ns <= from);
        let mut begun = self.begun(from, rate.is_some());
        let waiting = |entered: usize, begun: usize| self.waiting(entered, begun, rate);
        let mut level = waiting(entered, begun);
        let (mut at, mut area, mut min, mut max) = (from, 0.0, level, level);
        loop {
            let enters = self.entries.get(entered).map_or(f64::INFINITY, |entry| entry.at_ns);
            let begins = if begun < self.entries.len() { start(begun) } else { f64::INFINITY };
            let next = enters.min(begins);
            if next >= to {
                break;
            }
            area += level * (next - at).max(0.0);
            at = at.max(next);
            if enters <= begins {
                entered += 1;
            } else {
                begun += 1;
            }
            level = waiting(entered, begun);
            // A packet that goes on at once never waited.
            if enters != begins {
                min = min.min(level);
                max = max.max(level);
            }
        }
        area += level * (to - at).max(0.0);
        let mean = area / (to - from);
        let levels = Levels { min: min.min(mean), mean, max: max.max(mean) };
        let unmeasured_ns = from - self.measured_at_ns;
        let is_booked = unmeasured_ns > RULES.drained_ns;
        let known = match rate {
            Some(rate) => !is_booked || levels.max <= rate * RULES.drained_ns,
            None => unmeasured_ns < RULES.answered_ns || self.is_silent(from - RULES.second_ns, to),
        };
        // Of the oldest packet that waits, and of the newest that came.
        let newest = entered.saturating_sub(1);
        let ends = [begun.min(newest), newest].into_iter().filter_map(|index| self.entries.get(index));
        let off_ns =
            ends.map(|entry| entry.off_ns).filter(|off_ns| *off_ns > RULES.no_queue_ns).fold(0.0, f64::max);
        let error_ns = (RULES.nine_of_ten * self.error2.sqrt()).max(off_ns);
        // Where no rate is known, or a first guess only, bytes per time are those of the wait that was measured, and what was dropped
        // counts as waiting.
        let is_guess = !self.known.is_some() && self.measured_rate(ServiceRate::rate).is_none();
        let by_wait = match rate {
            None if levels.max > 0.0 => {
                levels.max * (error_ns / self.waited_ns.max(1.0)).clamp(RULES.half, 1.0)
            }
            Some(_) if is_guess => RULES.half * levels.max,
            _ => 0.0,
        };
        let doubt_bytes = if is_booked { levels.max.max(by_wait) } else { by_wait };
        known.then_some(Booked { levels, error_ns, doubt_bytes })
    }
}
