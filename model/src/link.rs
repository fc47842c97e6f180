//! What is known about the link, and where from.

use serde::Serialize;

use crate::ratio::{Setting, SettingError};
use crate::segment::{Direction, PerDirection};

named! {
    /// Where a figure of the link comes from, best first.
    pub enum Provenance {
        /// The user said so.
        Config = "config",
        /// The qdisc that shapes the link is set to it.
        ShapingQdisc = "qdisc",
        /// Measured from what passed while the buffer held a queue.
        Learnt = "learnt",
    }
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
    /// `C_x`, bytes per second, as configured.
    pub capacity: PerDirection<Option<Known>>,
    /// The rate to which a qdisc of this machine shapes, bytes per second.
    pub shaped: PerDirection<Option<f64>>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_needs_capacities_and_buffers() {
        let mut link = Link::with_capacity(24_500.0, 300_000.0);
        assert!(link.setting().is_none());
        link.buffer = PerDirection { up: Some(Known::config(9_000.0)), down: Some(Known::config(30_000.0)) };
        let setting = link.setting().expect("complete").expect("valid");
        assert!((setting.k() - 300.0 / 24.5).abs() < 1e-12);
        assert_eq!(setting.in_flight(Direction::Up), 0.0);
    }
}
