//! Between what a rate may be.

/// Bounds of the rate, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Never less.
    pub least: f64,
    /// Never more.
    pub most: f64,
}

impl Bounds {
    /// At least a byte per second, and in order.
    pub(super) fn sane(self) -> Self {
        let least = if self.least.is_finite() { self.least.max(1.0) } else { 1.0 };
        let most = if self.most.is_nan() { f64::MAX } else { self.most.clamp(least, f64::MAX) };
        Self { least, most }
    }
}
