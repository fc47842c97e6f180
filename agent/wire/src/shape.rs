//! The shaper of a link (docs/guide/shaping.md).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;

/// The shaper of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shape {
    /// `off`, `dry_run`, `enforcing`, `observing`: an A/B interval without shaping, `ineffective`: packets still queue behind the shaper, `declined`: `auto` has found no gain, `refused`.
    pub state: Name,
    /// Why, of `ineffective`, `declined` and `refused`.
    pub reason: Option<String>,
    /// `ack-filter` as configured.
    pub ack_filter: Name,
    /// `delta` of the ACK filter.
    pub delta: Option<u32>,
    /// What the uplink is shaped to; `null` if it is not.
    pub uplink: Option<Shaped>,
    /// What the downlink is shaped to; `null` if it is not.
    pub downlink: Option<Shaped>,
    /// ACKs by action and reason; those that never happened are left out.
    pub acks: Option<BTreeMap<Name, BTreeMap<Name, u64>>>,
    /// ACKs that the agent's own filter withheld, because a newer one made them redundant.
    pub held_acks: Option<u64>,
    /// Bytes of these.
    pub held_bytes: Option<u64>,
    /// The comparison of A/B intervals with and without shaping.
    pub ab_test: Option<AbTest>,
}

/// What one direction is shaped to.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shaped {
    /// Bits per second.
    pub rate_bps: u64,
    /// `config`, `qdisc`, `learnt` or `auto`.
    pub rate_source: Option<Name>,
    /// With `rate = "auto"`, how the rate is found ([autorate.md](../design/autorate.md)); else `null`.
    pub auto: Option<Auto>,
}

/// How a rate is found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Auto {
    /// The newest decision.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DecisionName"))]
    pub decision: Name,
    /// Why.
    pub reason: Name,
    /// The link's rate as measured.
    pub link_rate_bps: Option<f64>,
    /// How long packets wait behind the shaper.
    pub waits_behind_s: Option<f64>,
    /// The rate does not go below this.
    pub minimum_bps: Option<u64>,
    /// The rate does not go above this.
    pub maximum_bps: Option<u64>,
}

/// A/B intervals with shaping against those without.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AbTest {
    /// Pairs of turns so far.
    pub pairs: u64,
    /// `undecided`, `helps`, `no_difference` or `hurts`.
    pub outcome: Name,
    /// Change of the score by shaping.
    pub change: Option<f64>,
    /// Its 95 % confidence interval.
    pub confidence_interval: Option<[f64; 2]>,
    /// Change of the round trip, as a share of that without shaping.
    pub rtt_change: Option<f64>,
    /// Its 95 % confidence interval.
    pub rtt_confidence_interval: Option<[f64; 2]>,
    /// Means with shaping.
    pub with: Turn,
    /// Means without.
    pub without: Turn,
    /// The result in words.
    pub statement: String,
}

/// Means over turns.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// Goodput of the downloads.
    pub download_bps: f64,
    /// Goodput of the uploads.
    pub upload_bps: f64,
    /// Round trip.
    pub rtt_s: Option<f64>,
}
