//! Events of `/api/v1/stream`. `state` is a [`Link`](crate::Link), `finding` an [`JournalEvent`](crate::JournalEvent).

use serde::{Deserialize, Serialize};

use crate::Name;

/// Event `tick`: measurements since the tick before, in steps of 10 ms.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tick {
    /// The link.
    pub link: String,
    /// The end of the last step, on the kernel's monotonic clock.
    pub at_s: f64,
    /// Length of a step: 0.01.
    pub step_s: f64,
    /// Traffic that leaves through the WAN device.
    pub up: TickHalf,
    /// Traffic that enters through it.
    pub down: TickHalf,
    /// As in the state.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::PhaseName>"))]
    pub phase: Option<Name>,
    /// As in the state.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::VerdictName>"))]
    pub verdict: Option<Name>,
    /// Ticks before this one that were left out because the client read too slowly.
    pub skipped: u64,
}

/// One direction of a tick.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickHalf {
    /// Mean level of each step, oldest first, usually ten; `null` if the queue cannot be seen.
    pub queue_bytes: Option<Vec<f64>>,
    /// How far each of these may be off; 0: it was read.
    pub queue_uncertainty_bytes: Option<Vec<f64>>,
    /// Of these levels, pure ACKs.
    pub queue_ack_bytes: Option<Vec<f64>>,
    /// How the level is known, as in the state.
    pub source: Option<Name>,
    /// Link-layer bits per second.
    pub throughput_bps: f64,
    /// From the gateway to that end and back, mean of the newest tick in which one was measured.
    pub rtt_s: Option<f64>,
    /// With `rate = "auto"`, the rate that was found; `null` while packets do not pass the shaper.
    pub auto: Option<TickAuto>,
}

/// A rate that the shaper has found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickAuto {
    /// Bits per second.
    pub rate_bps: u64,
    /// How long packets wait behind the shaper.
    pub waits_behind_s: Option<f64>,
    /// The newest decision.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DecisionName"))]
    pub decision: Name,
}

/// Event `dropped`.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Dropped {
    /// Events after the client's last one that are no longer kept.
    pub dropped: u64,
}
