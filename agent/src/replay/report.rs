//! What a replay found, as one object: the JSON of `pendulum replay --format json`.

mod collect;
mod conclusion;
mod flows;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

pub use collect::Collector;
pub use flows::FlowReport;
pub use text::write_text;

use pendulum_model::degree::Degree;
use pendulum_model::observer::Vantage;
use pendulum_model::segment::PerDirection;
use pendulum_wire::{PerPhase, Ratio};

use super::orientation::Evidence;
use super::vantage_detection::VantageBy;

/// Everything. Rates in bit/s of link-layer or payload bytes as named, times in seconds, sizes in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// From the first to the last packet of the WAN capture.
    pub duration_s: f64,
    /// Frames read.
    pub packets: Packets,
    /// Where the WAN capture was taken.
    pub vantage: Vantage,
    /// How that is known.
    pub vantage_by: VantageBy,
    /// The link.
    pub link: LinkReport,
    /// Each direction.
    pub directions: PerDirection<DirectionReport>,
    /// Shares of the time in which the case was known; all 0 if it never was.
    pub phase_share: PerPhase,
    /// The time in which the case was known, seconds.
    pub phase_known_s: f64,
    /// Changes of case.
    pub phase_transitions: u64,
    /// The verdict on the whole. Time without bulk traffic does not count if there was any: `clear` only if nothing else held. Of the others the one
    /// that held longest; instead of `one_way` a lock that held at least half as long. `unknown` where evidence is missing.
    pub verdict: &'static str,
    /// Why, in one sentence.
    pub verdict_reason: Option<String>,
    /// What it costs: `lost_ratio`, the share of the starved direction's rate that is lost, and `severity`.
    #[serde(flatten)]
    pub degree: Degree,
    /// How long each verdict held, seconds.
    pub verdict_seconds: BTreeMap<&'static str, f64>,
    /// Mean period of the swing between the two buffers.
    pub swing_period_s: Option<f64>,
    /// Pearson's correlation of both queues.
    pub queue_correlation: Option<f64>,
    /// Download over upload; predicted for buffers as large as the longest queues seen.
    pub throughput_ratio: Ratio,
    /// The largest flows, most delivered bytes first.
    pub flows: Vec<FlowReport>,
    /// Number of all flows, one-sided attempts included.
    pub flows_total: u64,
    /// How it was decided which end is home.
    pub home_by: Option<Evidence>,
    /// Measurements lost, by reason, where there are any.
    pub lost: BTreeMap<&'static str, u64>,
    /// What stands in the way of trusting all this.
    pub warnings: Vec<String>,
}

/// Frames read.
#[derive(Clone, Debug, Serialize)]
pub struct Packets {
    /// Of the WAN capture.
    pub wan: u64,
    /// Of the LAN capture.
    pub lan: u64,
    /// Of the WAN capture, those that say something of the link.
    pub used: u64,
    /// Of the WAN capture, those that do not, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
}

/// Rates of the link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkReport {
    /// Bits per second; null if no packet travelled that way.
    pub uplink_rate_bps: Option<f64>,
    /// Likewise.
    pub downlink_rate_bps: Option<f64>,
    /// `config` if they were given, `learnt` if any was measured; null if neither rate is known.
    pub rate_source: Option<&'static str>,
}

/// One direction of the link, at the WAN capture.
#[derive(Clone, Debug, Serialize)]
pub struct DirectionReport {
    /// By class.
    pub segments: BTreeMap<&'static str, u64>,
    /// Link-layer bytes of all classes.
    pub bytes: u64,
    /// Payload that was acknowledged, in bits per second of the whole capture.
    pub goodput_bps: f64,
    /// Share of the link rate in use; null if that is unknown.
    pub utilization: Option<f64>,
    /// Segments whose payload had passed before.
    pub retransmitted_segments: u64,
    /// Segments that filled a gap which had just opened.
    pub reordered_segments: u64,
    /// The buffer in front of this direction.
    pub queue: QueueReport,
    /// ACKs between two data segments.
    pub ack_burst: BurstReport,
}

/// A buffer over the whole capture.
#[derive(Clone, Debug, Serialize)]
pub struct QueueReport {
    /// `capture` (seen on both sides, exact) or `estimate` (from delays).
    pub source: &'static str,
    /// Mean level; null if it could not be seen.
    pub mean_bytes: Option<f64>,
    /// Highest level.
    pub max_bytes: Option<f64>,
    /// Mean of the lowest level within a round trip.
    pub standing_mean_bytes: Option<f64>,
    /// The true levels lie within so many bytes of the estimate, on average; 0 if exact, null if the level is not known.
    pub uncertainty_bytes: Option<f64>,
    /// What entered the buffer, by kind, as shares of its bytes; null if nothing did.
    pub composition: Option<BTreeMap<&'static str, f64>>,
    /// Packets that entered and never left; null without a capture on both sides.
    pub dropped_packets: Option<u64>,
}

/// ACK bursts of one direction (paper 000, Fig. 3.4).
#[derive(Clone, Debug, Default, Serialize)]
pub struct BurstReport {
    /// Mean length of bursts of at least one ACK; null if there is none.
    pub mean: Option<f64>,
    /// Length that 95 % of the bursts do not exceed.
    pub p95: Option<u64>,
    /// Bursts by length. The key `64` stands for 64 and longer.
    pub histogram: BTreeMap<u64, u64>,
}
