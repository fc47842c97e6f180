//! A queue's level over time, cut into equal intervals.

use std::collections::VecDeque;

/// Length of an interval: the usual one of `crate::sample`.
pub const INTERVAL_NS: u64 = 10_000_000;

/// The level in one interval, bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Levels {
    /// Lowest.
    pub min: f64,
    /// Time-weighted mean.
    pub mean: f64,
    /// Highest.
    pub max: f64,
}

/// Integrates a level that is reported in the order of time. Times are nanoseconds from the start of the capture.
#[derive(Debug)]
pub struct LevelTrack {
    level: f64,
    /// Everything before is integrated.
    told_to_ns: u64,
    interval_start_ns: u64,
    integral: f64,
    min: f64,
    max: f64,
    /// Complete intervals, how far off each may be, and how many in a row are the same.
    closed: VecDeque<(Levels, f64, u64)>,
    /// How far off the level may be, nanoseconds of waiting: now, and at most in this interval.
    doubt_ns: f64,
    most_doubt_ns: f64,
}

impl LevelTrack {
    /// An empty queue from `start_ns` on, the start of an interval.
    pub fn new(start_ns: u64) -> Self {
        Self {
            level: 0.0,
            told_to_ns: start_ns,
            interval_start_ns: start_ns,
            integral: 0.0,
            min: 0.0,
            max: 0.0,
            closed: VecDeque::new(),
            doubt_ns: 0.0,
            most_doubt_ns: 0.0,
        }
    }

    /// From now on the level is off by no more than what waits for `ns`.
    pub fn doubt(&mut self, ns: f64) {
        self.doubt_ns = ns;
        self.most_doubt_ns = self.most_doubt_ns.max(ns);
    }

    /// From `at_ns` on the level is `bytes`. Times before the last report count as now.
    pub fn set(&mut self, at_ns: u64, bytes: f64) {
        self.hold(at_ns);
        self.level = bytes;
        self.min = self.min.min(bytes);
        self.max = self.max.max(bytes);
    }

    /// The level holds until `to_ns`.
    pub fn hold(&mut self, to_ns: u64) {
        let complete = to_ns.saturating_sub(self.interval_start_ns) / INTERVAL_NS;
        if complete > 0 {
            let end = self.interval_start_ns + INTERVAL_NS;
            self.integrate(end);
            let levels = Levels { min: self.min, mean: self.integral / INTERVAL_NS as f64, max: self.max };
            self.close(levels, 1);
            // The rest of a long time is one entry: a clock that jumps by years needs no memory.
            let level = self.level;
            self.close(Levels { min: level, mean: level, max: level }, complete - 1);
            self.told_to_ns = self.told_to_ns.max(self.interval_start_ns);
        }
        self.integrate(to_ns);
    }

    /// `count` intervals are complete, all with the same level.
    fn close(&mut self, levels: Levels, count: u64) {
        if count > 0 {
            self.closed.push_back((levels, self.most_doubt_ns, count));
            self.most_doubt_ns = self.doubt_ns;
        }
        self.interval_start_ns += count * INTERVAL_NS;
        self.integral = 0.0;
        self.min = self.level;
        self.max = self.level;
    }

    /// Take the oldest interval that is complete, and how far off it may be, nanoseconds of waiting.
    pub fn pop(&mut self) -> Option<(Levels, f64)> {
        let (levels, doubt_ns, count) = self.closed.front_mut()?;
        let oldest = (*levels, *doubt_ns);
        *count -= 1;
        if *count == 0 {
            self.closed.pop_front();
        }
        Some(oldest)
    }

    fn integrate(&mut self, to_ns: u64) {
        if to_ns > self.told_to_ns {
            self.integral += self.level * (to_ns - self.told_to_ns) as f64;
            self.told_to_ns = to_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn levels_by_hand() {
        let mut track = LevelTrack::new(0);
        track.set(2 * MS, 1000.0);
        track.set(7 * MS, 400.0);
        // Empty for 2 ms, 1000 bytes for 5 ms, 400 for 3 ms: (5000 + 1200)/10.
        track.set(25 * MS, 0.0);
        assert_eq!(track.pop(), Some((Levels { min: 0.0, mean: 620.0, max: 1000.0 }, 0.0)));
        assert_eq!(track.pop(), Some((Levels { min: 400.0, mean: 400.0, max: 400.0 }, 0.0)));
        assert_eq!(track.pop(), None, "the third interval is open");
        track.hold(30 * MS);
        assert_eq!(track.pop(), Some((Levels { min: 0.0, mean: 200.0, max: 400.0 }, 0.0)));
    }

    #[test]
    fn a_level_of_no_duration_counts_as_extreme_only() {
        let mut track = LevelTrack::new(0);
        track.set(5 * MS, 3000.0);
        track.set(5 * MS, 0.0);
        track.hold(10 * MS);
        assert_eq!(track.pop(), Some((Levels { min: 0.0, mean: 0.0, max: 3000.0 }, 0.0)));
    }

    #[test]
    fn time_does_not_run_backwards() {
        let mut track = LevelTrack::new(0);
        track.set(8 * MS, 100.0);
        track.set(3 * MS, 500.0);
        track.hold(10 * MS);
        assert_eq!(track.pop(), Some((Levels { min: 0.0, mean: 100.0, max: 500.0 }, 0.0)));
    }
}
