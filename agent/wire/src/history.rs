//! `/api/v1/history`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Name, PerPhase};

/// The last 15 minutes of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct History {
    /// The link.
    pub link: String,
    /// Length of a full step: 10.
    pub step_s: f64,
    /// Oldest first.
    pub steps: Vec<Step>,
}

/// One step. Unknown figures are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Its end, on the clock of the stream's ticks.
    pub at_s: f64,
    /// Its length. The newest step is still growing; a step ends early where the link was not measured, and what lies between two steps is a gap.
    pub lasted_s: f64,
    /// What left through the WAN device.
    pub up: StepHalf,
    /// What entered through it.
    pub down: StepHalf,
    /// Shares of the step's time.
    pub phase_share: Option<PerPhase>,
    /// The verdict at its end.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::VerdictName>"))]
    pub verdict: Option<Name>,
}

/// One direction of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepHalf {
    /// Mean level.
    pub queue_bytes: Option<f64>,
    /// How far each level may be off, mean; 0: it was read.
    pub queue_uncertainty_bytes: Option<f64>,
    /// The highest level.
    pub queue_peak_bytes: Option<f64>,
    /// Of the level, pure ACKs, mean.
    pub queue_ack_bytes: Option<f64>,
    /// Mean link-layer bits per second.
    pub throughput_bps: Option<f64>,
    /// Mean round trip from the gateway to that end and back.
    pub rtt_s: Option<f64>,
    /// `null` without an automatic rate, or while the link was not shaped.
    pub auto: Option<StepAuto>,
}

/// The rates that the shaper found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepAuto {
    /// Mean, bits per second.
    pub rate_bps: f64,
    /// How long packets waited behind the shaper at most.
    pub waits_behind_peak_s: Option<f64>,
    /// The same, mean.
    pub waits_behind_s: Option<f64>,
    /// Shares of the decisions that were taken.
    pub decision_share: BTreeMap<Name, f64>,
}
