//! Figures that several rules mean alike.

use std::time::Duration;

/// "Most of the time" wherever a rule says so: a state that holds for this share of it.
pub(crate) const MOST: f64 = 0.8;

/// "Half of the time", likewise: from here on a state prevails.
pub const HALF: f64 = 0.5;

/// "Recent", wherever figures are of the recent past.
pub const RECENT: Duration = Duration::from_secs(10);

/// Throughput is the moving sum of paper 003.
pub const MOVING_THROUGHPUT: Duration = Duration::from_millis(300);

/// Without samples for longer than this, or one RTT, what stood in the buffers is no longer known.
pub(crate) const BLIND: Duration = Duration::from_secs(1);

/// A shorter wait is no queue: a packet's own time, clocks of 1 ms, a slow scheduler. Seconds.
pub const NO_QUEUE_S: f64 = 0.005;

/// A receiver holds the ACK of a single segment back for this long at least (RFC 1122, 4.2.3.2; Linux: `TCP_DELACK_MIN`), seconds.
pub(crate) const HELD_BACK_S: f64 = 0.04;

/// After so long without a queue a measured rate is unknown: the link may have any other one.
pub(crate) const FADED: Duration = Duration::from_secs(3600);
