//! `/api/v1/incidents`.

use serde::{Deserialize, Serialize};

use crate::Name;

/// Recordings of what lasted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incidents {
    /// Newest first.
    pub incidents: Vec<Incident>,
    /// Why new ones are not kept; `null` if they are.
    pub trouble: Option<String>,
}

/// A change that lasted, in short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Incident {
    /// Its file is `/api/v1/incidents/ID`.
    pub id: String,
    /// Which link.
    pub link: String,
    /// When it was recognised, UTC (RFC 3339, milliseconds).
    pub time: String,
    /// The verdict or finding that began.
    pub what: String,
    /// The direction that a finding is about.
    pub direction: Option<Name>,
    /// How urgent: `info`, `warning`, `critical`.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::SeverityName"))]
    pub severity: Name,
    /// Share of the starved direction's rate that was lost, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Why, in one sentence.
    pub reason: String,
    /// How long it lasted; recording ends after 60 s.
    pub lasted_s: f64,
    /// The verdict that held longest meanwhile.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::VerdictName"))]
    pub verdict: Name,
    /// The shaper's state.
    pub shaper: String,
    /// From the beginning of the recording to the change.
    pub before_s: f64,
    /// Length of a step of the picture.
    pub step_s: f64,
    /// Mean level of the uplink's buffer in each step; `null` where it was unknown.
    pub up_queue_bytes: Vec<Option<f64>>,
    /// The same of the downlink's.
    pub down_queue_bytes: Vec<Option<f64>>,
}
