//! Where the delay of what passes comes from.

use std::net::IpAddr;

use pendulum_model::delay::{Budget, Place};
use pendulum_model::findings::FindingKind;

/// The budget of one second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelaySnapshot {
    /// Its segments.
    pub budget: Budget,
    /// Where packets have waited longest over the last seconds.
    pub place: Place,
    /// The host at home that waits as long as the budget says of home; `None` if no flow names it.
    pub home_host: Option<IpAddr>,
    /// The same beyond the line.
    pub far_host: Option<IpAddr>,
    /// What lasts at home and beyond the line: since when and how long packets wait, seconds, if it holds.
    pub findings: [(FindingKind, Option<(f64, f64)>); 2],
    /// What limits slow transfers: since when, and their goodput, bytes per second, if it holds.
    pub limits: [(FindingKind, Option<(f64, f64)>); 2],
}
