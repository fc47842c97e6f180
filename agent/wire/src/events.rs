//! `/api/v1/events`, the event `finding` of the stream, and the lines of the event log.

use serde::{Deserialize, Serialize};

use crate::{Evidence, Name};

/// `/api/v1/events`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Events"))]
pub struct Events<Event = JournalEvent> {
    /// Oldest first.
    #[serde(default)]
    pub events: Vec<Event>,
    /// How many after `since` are no longer kept.
    #[serde(default)]
    pub dropped: u64,
    /// Continues the list as a stream: its `Last-Event-ID`.
    #[serde(default)]
    pub last_event_id: String,
}

/// Something that changed. Which fields there are depends on `event`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JournalEvent {
    /// Number, from 1 at the agent's start, without gaps.
    pub seq: u64,
    /// Which link.
    pub link: String,
    /// When it was recognised: UTC by the wall clock, which may be stepped.
    pub time: String,
    /// The same on the kernel's monotonic clock, which puts events in order as `seq` does.
    pub at_s: f64,
    /// `phase`, `verdict`, `shape_rate` (the shaper has found a rate that differs by more than 10 %), `finding` (it begins), `finding_ended`.
    pub event: Name,
    /// Of `phase` and `verdict`: the one before; `null` at the first phase.
    pub from: Option<Name>,
    /// Of `phase` and `verdict`: the one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Name>,
    /// Of `phase`: how long the one before held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dwell_s: Option<f64>,
    /// Of `finding` and `finding_ended`: `rtt_unfairness`, `far_flow_knocked_back`, `bufferbloat`, `home_bloat`, `beyond_bloat`, `sender_limited`, `receiver_limited`, `shaping_not_helping`, `shaping_ineffective` (whose `evidence` has the figures of the comparison).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<Name>,
    /// Of `shape_rate`, and of findings that are about one direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Name>,
    /// Of `shape_rate`: bits per second before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_bps: Option<f64>,
    /// Of `shape_rate`: bits per second now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_bps: Option<f64>,
    /// Of `shape_rate`: why it changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Name>,
    /// Of `verdict`: share of the starved direction's rate that is lost, 0 to 1; absent if no direction starves or its rate is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_ratio: Option<f64>,
    /// Of `verdict`: `info`, `warning`, `critical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<Name>,
    /// Why.
    pub evidence: Evidence,
}
