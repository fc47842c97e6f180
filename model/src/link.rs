//! What is known about the link, and where from.

use std::time::Duration;

use serde::Serialize;

use crate::ratio::{Setting, SettingError};
use crate::segment::{Direction, PerDirection};
use crate::window::SlidingSum;

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

/// A rate must hold this long to be a capacity.
const SUSTAINED: Duration = Duration::from_secs(1);

/// A learnt capacity is forgotten after one to two of these without confirmation.
const EPOCH: Duration = Duration::from_secs(300);

/// Learns one direction's capacity: the highest rate sustained for a second while the queue stands.
///
/// If the buffer cannot be seen, the highest sustained rate of all: a lower bound that is right as soon as the link
/// has been full once.
#[derive(Clone, Debug, Default)]
pub struct CapacityLearner {
    bytes: SlidingSum,
    standing_since: Option<Duration>,
    best: f64,
    best_before: f64,
    epoch: Option<Duration>,
}

impl CapacityLearner {
    /// Takes in one interval: bytes on the wire, and whether the queue stands (`None`: cannot be seen).
    pub fn push(&mut self, at: Duration, wire_bytes: u64, stands: Option<bool>) {
        self.bytes.push(at, wire_bytes);
        if stands == Some(false) {
            self.standing_since = None;
            return;
        }
        let since = *self.standing_since.get_or_insert(at);
        if at.saturating_sub(since) < SUSTAINED {
            return;
        }
        let sum = self.bytes.since(at.saturating_sub(SUSTAINED));
        let epoch = *self.epoch.get_or_insert(at);
        if at.saturating_sub(epoch) > EPOCH && self.best > 0.0 {
            self.best_before = std::mem::take(&mut self.best);
            self.epoch = Some(at);
        }
        self.best = self.best.max(sum as f64 / SUSTAINED.as_secs_f64());
    }

    /// The capacity, bytes per second; `None` until a queue has stood for a second.
    pub fn capacity(&self) -> Option<Known> {
        let value = self.best.max(self.best_before);
        (value > 0.0).then_some(Known { value, provenance: Provenance::Learnt })
    }
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
