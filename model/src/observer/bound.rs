//! The most that a wait without queue can be, from what the link did: what raises a smallest value again.
//!
//! A smallest value falls by itself and never rises. But a packet cannot have waited longer than the link was busy
//! without a pause before it: its reading less that time is at most the reading without queue. If several readings in a row say
//! that the reading without queue is larger than the smallest one, the route has become longer, or a clock was set.

use super::rules::RULES;

/// Collects readings, each less the longest possible wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LowerBound {
    count: usize,
    began_ns: f64,
    least_ns: f64,
}

impl LowerBound {
    /// Adds one; returns what the reading without queue is at least, once enough agree.
    pub(super) fn add(&mut self, at_ns: f64, value_ns: f64) -> Option<f64> {
        if !value_ns.is_finite() {
            *self = Self::default();
            return None;
        }
        if self.count == 0 {
            *self = Self { count: 0, began_ns: at_ns, least_ns: value_ns };
        }
        self.count += 1;
        self.least_ns = self.least_ns.min(value_ns);
        if self.count < RULES.agreeing || at_ns - self.began_ns < RULES.second_ns {
            return None;
        }
        let least_ns = self.least_ns;
        *self = Self::default();
        Some(least_ns)
    }
}
