//! What is known about the link, and where from.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;

use crate::ratio::{Setting, SettingError};
use crate::segment::{Direction, PerDirection};

/// Where a figure of the link comes from, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The user said so.
    Config,
    /// The qdisc that shapes the link is set to it.
    ShapingQdisc,
    /// Measured from the traffic.
    Learnt,
}

/// A figure and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Known {
    /// In the figure's base unit.
    pub value: f64,
    /// Where from.
    pub provenance: Provenance,
}

impl Known {
    /// A figure the user gave.
    pub const fn config(value: f64) -> Self {
        Self { value, provenance: Provenance::Config }
    }
}

/// Capacities, buffers and propagation time; whatever is not known is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Link {
    /// `C_x`, bytes per second.
    pub capacity: PerDirection<Option<Known>>,
    /// `B_x`, bytes.
    pub buffer: PerDirection<Option<Known>>,
    /// `T_p`, one way, seconds.
    pub propagation: Option<Known>,
}

impl Link {
    /// A link of known capacities, bytes per second.
    pub fn with_capacity(uplink: f64, downlink: f64) -> Self {
        let capacity = PerDirection { up: Some(Known::config(uplink)), down: Some(Known::config(downlink)) };
        Self { capacity, ..Self::default() }
    }

    /// `C_x`, bytes per second, if known and usable.
    pub fn capacity(&self, direction: Direction) -> Option<f64> {
        self.capacity[direction].map(|known| known.value).filter(|value| value.is_finite() && *value > 0.0)
    }

    /// `k = C_d/C_u`.
    pub fn k(&self) -> Option<f64> {
        Some(self.capacity(Direction::Down)? / self.capacity(Direction::Up)?)
    }

    /// The link as the formulas need it; `None` if a capacity or buffer is unknown. An unknown propagation time
    /// counts as 0, as in the paper's derivation.
    ///
    /// # Errors
    /// If a known figure is impossible.
    pub fn setting(&self) -> Option<Result<Setting, SettingError>> {
        let capacity =
            PerDirection { up: self.capacity(Direction::Up)?, down: self.capacity(Direction::Down)? };
        let buffer = PerDirection { up: self.buffer.up?.value, down: self.buffer.down?.value };
        Some(Setting::new(capacity, buffer, self.propagation.map_or(0.0, |known| known.value)))
    }
}

/// A rate must hold this long to be a capacity …
const SUSTAINED: Duration = Duration::from_secs(1);

/// … and for this many full frames: the times of the first and the last are known to some ten milliseconds, and the
/// highest of many such rates is found, not the mean.
const SUSTAINED_BYTES: u64 = 32 * 1514;

/// A learnt capacity is forgotten after one to two of these without confirmation.
const EPOCH: Duration = Duration::from_secs(300);

/// Learns one direction's capacity: the highest rate sustained for a second, or 32 frames, while the queue stands.
///
/// If the buffer cannot be seen, the highest sustained rate of all: a lower bound that is right as soon as the link
/// has been full once, unless what was counted went into a buffer behind the place where it was counted. It counts no
/// more once the buffer is seen.
#[derive(Clone, Debug, Default)]
pub struct CapacityLearner {
    /// Intervals in which something left, and their bytes, oldest first: the window.
    window: VecDeque<(Duration, u64)>,
    /// Their sum.
    bytes: u64,
    /// The buffer has been seen.
    seen: bool,
    best: f64,
    best_before: f64,
    epoch: Option<Duration>,
}

impl CapacityLearner {
    /// Takes in one interval: bytes on the wire, and whether the queue stands (`None`: cannot be seen).
    pub fn push(&mut self, at: Duration, wire_bytes: u64, stands: Option<bool>) {
        if stands.is_some() && !self.seen {
            *self = Self { seen: true, ..Self::default() };
        }
        if stands.is_some() != self.seen || stands == Some(false) {
            self.window.clear();
            self.bytes = 0;
            return;
        }
        if wire_bytes == 0 {
            return;
        }
        self.window.push_back((at, wire_bytes));
        self.bytes = self.bytes.saturating_add(wire_bytes);
        // The shortest that is long enough.
        while let Some(&(next, _)) = self.window.get(1)
            && let first = self.window[0].1
            && is_sustained(at.saturating_sub(next), self.between_ends(1, self.bytes.saturating_sub(first)))
        {
            self.bytes = self.bytes.saturating_sub(first);
            self.window.pop_front();
        }
        let span = at.saturating_sub(self.window[0].0);
        let bytes = self.between_ends(0, self.bytes);
        if !is_sustained(span, bytes) {
            return;
        }
        let epoch = *self.epoch.get_or_insert(at);
        if at.saturating_sub(epoch) > EPOCH && self.best > 0.0 {
            self.best_before = std::mem::take(&mut self.best);
            self.epoch = Some(at);
        }
        self.best = self.best.max(bytes as f64 / span.as_secs_f64());
    }

    /// Of the `bytes` of the window from its interval `first` on, what the time between its ends surely carried. A packet takes its
    /// time before it leaves (tbf saves tokens for it) or after it (hfsc), so that at one of the ends it does not count.
    fn between_ends(&self, first: usize, bytes: u64) -> u64 {
        let end = |entry: Option<&(Duration, u64)>| entry.map_or(0, |&(_, bytes)| bytes);
        bytes.saturating_sub(end(self.window.get(first)).max(end(self.window.back())))
    }

    /// The capacity, bytes per second; `None` until a queue has stood for long enough.
    pub fn capacity(&self) -> Option<Known> {
        let value = self.best.max(self.best_before);
        (value > 0.0).then_some(Known { value, provenance: Provenance::Learnt })
    }
}

fn is_sustained(span: Duration, bytes: u64) -> bool {
    span >= SUSTAINED && bytes >= SUSTAINED_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(learner: &mut CapacityLearner, from_s: f64, to_s: f64, rate: u64, stands: Option<bool>) {
        let (from, to) = ((from_s * 100.0) as u64, (to_s * 100.0) as u64);
        for step in from + 1..=to {
            learner.push(Duration::from_millis(10 * step), rate / 100, stands);
        }
    }

    #[test]
    fn learns_while_the_queue_stands() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 5.0, 50_000, Some(false));
        assert_eq!(learner.capacity(), None);
        run(&mut learner, 5.0, 8.0, 24_500, Some(true));
        let known = learner.capacity().expect("a standing queue");
        assert!((known.value - 24_500.0).abs() < 300.0, "{}", known.value);
        assert_eq!(known.provenance, Provenance::Learnt);
    }

    /// 20,000 bytes go into the buffer before it is met for the first time.
    #[test]
    fn what_fills_an_unseen_buffer_is_forgotten_once_it_is_seen() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 2.0, 45_000, None);
        assert!((learner.capacity().expect("a bound").value - 45_000.0).abs() < 1.0);
        run(&mut learner, 2.0, 5.0, 24_500, Some(true));
        assert!((learner.capacity().expect("learnt").value - 24_500.0).abs() < 1.0);
        // Out of sight again: what is counted then is no better than what was seen.
        run(&mut learner, 5.0, 8.0, 45_000, None);
        assert!((learner.capacity().expect("learnt").value - 24_500.0).abs() < 1.0);
    }

    /// A frame takes many intervals, and a second holds 16 or 17 of them.
    #[test]
    fn the_frames_of_a_slow_link_are_no_steps_of_its_rate() {
        for (rate, frame) in [(25_000.0, 1_514), (3_000.0, 1_514), (25_000.0, 66), (1_250_000.0, 1_514)] {
            let mut learner = CapacityLearner::default();
            let mut left = 0;
            for step in 1..=3_000 {
                let due = (f64::from(step) / 100.0 * rate) as u64 / frame;
                learner.push(Duration::from_millis(10 * step as u64), (due - left) * frame, Some(true));
                left = due;
            }
            let found = learner.capacity().expect("learnt").value / rate;
            assert!((0.995..=1.012).contains(&found), "{rate} B/s, frames of {frame}: {found}");
        }
    }

    #[test]
    fn forgets_a_rate_that_is_no_more() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 10.0, 100_000, Some(true));
        run(&mut learner, 10.0, 1000.0, 50_000, Some(true));
        assert!((learner.capacity().expect("learnt").value - 50_000.0).abs() < 1.0);
    }

    #[test]
    fn an_unseen_buffer_gives_the_highest_rate() {
        let mut learner = CapacityLearner::default();
        run(&mut learner, 0.0, 3.0, 80_000, None);
        run(&mut learner, 3.0, 6.0, 20_000, None);
        assert!((learner.capacity().expect("learnt").value - 80_000.0).abs() < 1.0);
    }

    #[test]
    fn setting_needs_capacities_and_buffers() {
        let mut link = Link::with_capacity(24_500.0, 300_000.0);
        assert!((link.k().expect("both") - 300.0 / 24.5).abs() < 1e-12);
        assert!(link.setting().is_none());
        link.buffer = PerDirection { up: Some(Known::config(9_000.0)), down: Some(Known::config(30_000.0)) };
        assert_eq!(link.setting().expect("complete").expect("valid").propagation(), 0.0);
    }
}
