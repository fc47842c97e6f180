//! Where the delay of what passes comes from.

use pendulum_model::delay::{Budget, Place};
use pendulum_model::findings::FindingKind;

/// The budget of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySnapshot {
    /// Its segments.
    pub budget: Budget,
    /// Where packets have waited longest over the last seconds.
    pub place: Place,
    /// What lasts at home and beyond the line: since when and how long packets wait, seconds, if it holds.
    pub findings: [(FindingKind, Option<(f64, f64)>); 2],
}
