//! Where the delay of what passes comes from.

use pendulum_model::delay::{Budget, Place};

/// The budget of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySnapshot {
    /// Its segments.
    pub budget: Budget,
    /// Where packets have waited longest over the last seconds.
    pub place: Place,
}
