//! Figures that several rules mean alike.

use std::time::Duration;

/// "Most of the time" wherever a rule says so: a state that holds for this share of it.
pub(crate) const MOST: f64 = 0.8;

/// "Nearly all", likewise: TCP's windows and ticks leave gaps.
pub(crate) const NEARLY_ALL: f64 = 0.9;

/// "Half of the time", likewise: from here on a state prevails.
pub const HALF: f64 = 0.5;

/// "Slight", likewise: a part, a change or a variation of less is not worth a word.
pub const SLIGHT: f64 = 0.1;

/// "Recent", wherever figures are of the recent past.
pub const RECENT: Duration = Duration::from_secs(10);

/// What lasts for less is a burst (003 Fig. 8: transfers of 1–3 MB), and what was measured longer ago is no part of the present.
pub const MOMENT: Duration = Duration::from_secs(5);

/// A longer route, or a slower line, is itself after so long: the best of earlier is forgotten.
pub const FORGOTTEN: Duration = Duration::from_secs(600);

/// Less is next to nothing, bytes per second: a link that carries it is idle, and a transfer that does is no bulk.
pub const LITTLE: f64 = 6_000.0;

/// Without samples for longer than this, or one RTT, what stood in the buffers is no longer known.
pub(crate) const BLIND: Duration = Duration::from_secs(1);

/// A shorter wait is no queue: a packet's own time, clocks of 1 ms, a slow scheduler. Seconds.
pub const NO_QUEUE_S: f64 = 0.005;

/// A rate or a wait that was measured elsewhere may be off by this part: framing of the modem, bytes that were not seen.
pub(crate) const MEASURED_WITHIN: f64 = 0.25;

/// Fewer packets or replies say nothing: single ones get lost, or are held back, and one host may think.
pub(crate) const FEW: usize = 3;

/// A reply tells of the present for so long, seconds: few hosts reply often. After so long without one nobody may be there.
pub(crate) const HEARD_S: f64 = 3.0;

/// A receiver holds the ACK of a single segment back for this long at least (RFC 1122, 4.2.3.2; Linux: `TCP_DELACK_MIN`), seconds.
pub(crate) const HELD_BACK_S: f64 = 0.04;

/// And no longer than this (Linux: `TCP_DELACK_MAX`), seconds.
pub(crate) const HELD_BACK_MOST_S: f64 = 0.2;

/// After so long without a queue a measured rate is unknown: the link may have any other one.
pub(crate) const FADED: Duration = Duration::from_secs(3600);
