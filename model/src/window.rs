//! Minimum and sum over a sliding window of time, amortised constant time for each sample.

use std::collections::VecDeque;
use std::time::Duration;

/// Entries kept at most. At 10 ms a sample this is 80 s, far beyond any round trip; a source that samples faster
/// loses the far end of an overlong window instead of memory.
const MAX_ENTRIES: usize = 8192;

/// Minimum over a window whose start only moves forward (a monotonic queue).
///
/// The start never moves back even if the window's length jumps up. That suits round trips: a sample measured at `t`
/// left at `t − RTT`, and in a FIFO what leaves later returns later.
#[derive(Clone, Debug, Default)]
pub struct SlidingMinimum {
    /// Times and values, both increasing: each entry is the minimum of everything after its predecessor.
    entries: VecDeque<(Duration, f64)>,
    start: Duration,
}

impl SlidingMinimum {
    /// Adds a value that speaks for the interval ending at `at`. Not a number: ignored.
    pub fn push(&mut self, at: Duration, value: f64) {
        if value.is_nan() {
            return;
        }
        while self.entries.back().is_some_and(|&(_, last)| last >= value) {
            self.entries.pop_back();
        }
        if self.entries.len() == MAX_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back((at, value));
    }

    /// Minimum of the values after `start`; `None` if there are none.
    pub fn since(&mut self, start: Duration) -> Option<f64> {
        self.start = self.start.max(start);
        while self.entries.front().is_some_and(|&(at, _)| at <= self.start) {
            self.entries.pop_front();
        }
        self.entries.front().map(|&(_, value)| value)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

/// Sum of counts over a window whose start only moves forward. Integers, so nothing drifts.
#[derive(Clone, Debug, Default)]
pub struct SlidingSum {
    entries: VecDeque<(Duration, u64)>,
    sum: u64,
    start: Duration,
}

impl SlidingSum {
    /// Adds a count that belongs to the interval ending at `at`.
    pub fn push(&mut self, at: Duration, count: u64) {
        if count == 0 {
            return;
        }
        if self.entries.len() == MAX_ENTRIES {
            self.drop_oldest();
        }
        self.sum = self.sum.saturating_add(count);
        self.entries.push_back((at, count));
    }

    /// Sum of the counts after `start`.
    pub fn since(&mut self, start: Duration) -> u64 {
        self.start = self.start.max(start);
        while self.entries.front().is_some_and(|&(at, _)| at <= self.start) {
            self.drop_oldest();
        }
        self.sum
    }

    fn drop_oldest(&mut self) {
        if let Some((_, count)) = self.entries.pop_front() {
            self.sum = self.sum.saturating_sub(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn minimum_by_hand() {
        let mut minimum = SlidingMinimum::default();
        for (at, value) in [(10, 5.0), (20, 3.0), (30, 4.0), (40, 6.0)] {
            minimum.push(ms(at), value);
        }
        assert_eq!(minimum.since(ms(0)), Some(3.0));
        // 3.0 ended at 20 ms and is outside (20, 40].
        assert_eq!(minimum.since(ms(20)), Some(4.0));
        // The start does not move back.
        assert_eq!(minimum.since(ms(0)), Some(4.0));
        assert_eq!(minimum.since(ms(40)), None);
    }

    #[test]
    fn sum_by_hand() {
        let mut sum = SlidingSum::default();
        for (at, count) in [(10, 100), (20, 0), (30, 10), (40, 1)] {
            sum.push(ms(at), count);
        }
        assert_eq!(sum.since(ms(0)), 111);
        assert_eq!(sum.since(ms(10)), 11);
        assert_eq!(sum.since(ms(40)), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_looking_at_everything(
            values in proptest::collection::vec((0u32..1000, 1u64..50), 1..200),
            windows in proptest::collection::vec(1u64..500, 200),
        ) {
            let (mut minimum, mut sum) = (SlidingMinimum::default(), SlidingSum::default());
            let (mut seen, mut now, mut start) = (Vec::new(), 0, 0);
            for (&(value, step), window) in values.iter().zip(windows) {
                now += step;
                seen.push((now, value));
                minimum.push(ms(now), f64::from(value));
                sum.push(ms(now), u64::from(value));
                start = start.max(now.saturating_sub(window));
                let inside = seen.iter().filter(|(at, _)| *at > start);
                prop_assert_eq!(minimum.since(ms(start)), inside.clone().map(|(_, v)| f64::from(*v)).reduce(f64::min));
                prop_assert_eq!(sum.since(ms(start)), inside.map(|(_, v)| u64::from(*v)).sum::<u64>());
            }
        }

        #[test]
        fn memory_is_bounded(count in 1usize..20_000) {
            let mut minimum = SlidingMinimum::default();
            for index in 0..count {
                minimum.push(Duration::from_nanos(index as u64), index as f64);
            }
            prop_assert!(minimum.entries.len() <= MAX_ENTRIES);
        }
    }
}
