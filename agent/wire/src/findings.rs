//! What the detector finds and advises (docs/design/detector.md).

use pendulum_model::{bloat, fairness, findings, sizing};
use serde::{Deserialize, Serialize};

use crate::Name;

/// The reason of a statement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Short name of the rule, stable, for programs.
    pub rule: Name,
    /// One sentence for people.
    pub reason: String,
    /// What the rule looked at.
    pub figures: Vec<Figure>,
    /// When the condition began to hold, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Since when hysteresis alone keeps the verdict; absent while it does not need to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since_s: Option<f64>,
    /// Missing evidence that could change or confirm it; absent if none is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Name>,
}

/// One figure that a rule looked at.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its name, as `uplink_bound_share`.
    pub name: Name,
    /// Its value in base units (seconds, bytes, bytes per second, ratios 0 to 1).
    pub value: f64,
    /// The threshold it was compared with, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

/// Download throughput over upload throughput.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// Over the horizon, while bulk data goes both ways.
    pub measured: Option<f64>,
    /// For the buffers as they are.
    pub predicted: Option<f64>,
}

/// A buffer that never drains.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bufferbloat {
    /// Since when, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Delay that every packet waits.
    pub delay_s: f64,
    /// The buffer's main traffic; `null` if unknown.
    pub cause: Option<Cause>,
    /// What helps, one sentence.
    pub help: Name,
}

/// The main traffic in a buffer.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cause {
    /// `tcp_data`, `ack`, `udp` or `other`.
    pub kind: Name,
    /// Its share of the bytes that entered, 0 to 1.
    pub share: f64,
}

/// Flows with short and with long round trips in one direction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RttClasses {
    /// Flows in the near class.
    pub near_flows: u64,
    /// Flows in the far class.
    pub far_flows: u64,
    /// Largest base round trip of a near flow.
    pub near_round_trip_s: f64,
    /// Smallest base round trip of a far flow.
    pub far_round_trip_s: f64,
    /// Near flows' share of the bytes of both classes.
    pub near_share: f64,
    /// What a near flow gets over what a far flow gets, on average; at most 1000.
    pub near_far_ratio: f64,
}

/// What to set, for the link as measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Advice {
    /// The uplink buffer for `wanted_ratio`.
    pub uplink_buffer_bytes: u64,
    /// The same in packets.
    pub uplink_buffer_packets: u64,
    /// The downlink buffer for it.
    pub downlink_buffer_bytes: u64,
    /// Download over upload, as wanted.
    pub wanted_ratio: f64,
    /// Download over upload, as the advice gives it by the paper's formula.
    pub expected_ratio: Option<f64>,
    /// Downloads with the advice, by the paper's formula.
    pub download_bps: u64,
    /// Uploads with the advice, by the paper's formula.
    pub upload_bps: u64,
    /// What both queues then delay at most.
    pub max_queue_delay_s: f64,
    /// Commands that set it.
    pub commands: Vec<String>,
    /// How far to trust the formula here: `low`, `moderate`, `high`.
    pub confidence: Name,
    /// The simulated link; `null` if none was.
    pub predicted_inputs: Option<PredictedInputs>,
    /// Result of the simulation with the present buffers.
    pub predicted: Option<Predicted>,
    /// Why `predicted` is `null`.
    pub predicted_reason: Option<String>,
    /// What the simulation gives with the buffers of the advice.
    pub predicted_as_advised: Option<Predicted>,
    /// Why `predicted_as_advised` is `null`.
    pub predicted_as_advised_reason: Option<String>,
    /// The best uplink buffer by the simulation, the downlink's as it is.
    pub recommended: Option<Recommended>,
    /// Why `recommended` is `null`.
    pub recommended_reason: Option<String>,
}

/// The link and the transfers that were simulated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PredictedInputs {
    /// Bits per second.
    pub downlink_rate_bps: u64,
    /// Bits per second.
    pub uplink_rate_bps: u64,
    /// Round trip without queues.
    pub rtt_s: f64,
    /// As `30000b` (bytes) or `50p` (packets); `null` unless both buffers are known.
    pub downlink_buffer: Option<String>,
    /// Like `downlink_buffer`.
    pub uplink_buffer: Option<String>,
    /// The senders' congestion control.
    pub congestion_control: Name,
    /// Long downloads.
    pub downloads: u32,
    /// Long uploads.
    pub uploads: u32,
}

/// What the simulation gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Predicted {
    /// Payload of all downloads, bits per second.
    pub download_bps: f64,
    /// Payload of all uploads, bits per second.
    pub upload_bps: f64,
    /// Download over upload.
    pub ratio: f64,
    /// Smallest and largest ratio of the simulated runs.
    pub ratio_interval: [f64; 2],
    /// What both queues together add to a round trip, mean.
    pub queue_delay_mean_s: f64,
    /// The same, 95th percentile.
    pub queue_delay_p95_s: f64,
}

/// The best uplink buffer by the simulation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recommended {
    /// Its size.
    pub uplink_buffer_bytes: u64,
    /// Payload of all downloads with it, bits per second.
    pub download_bps: f64,
    /// Payload of all uploads with it, bits per second.
    pub upload_bps: f64,
    /// What both queues together add to a round trip, 95th percentile.
    pub queue_delay_p95_s: f64,
    /// The bound that was asked for. If no size keeps it, `queue_delay_p95_s` is above it and the size is that with the shortest delay.
    pub delay_bound_s: f64,
    /// Share of the goodput of both directions that the present buffer gives less; negative if it carries more, at a longer delay.
    pub lost_with_present: Option<f64>,
}

/// Where something comes from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Source {
    /// `queue`, `cwnd`, `rate` or `rtt`.
    pub what: Name,
    /// `up` or `down`.
    pub direction: Option<Name>,
    /// How it is known.
    pub source: Name,
}

impl From<&findings::Evidence> for Evidence {
    fn from(evidence: &findings::Evidence) -> Self {
        let figure = |figure: &findings::Figure| Figure {
            name: figure.name.into(),
            value: figure.value,
            threshold: figure.threshold,
        };
        Self {
            rule: evidence.rule.into(),
            reason: evidence.reason.clone(),
            figures: evidence.figures.iter().map(figure).collect(),
            since_s: evidence.since_s,
            held_since_s: evidence.held_since_s,
            missing: evidence.missing.iter().map(|missing| missing.name().into()).collect(),
        }
    }
}

impl From<bloat::Bufferbloat> for Bufferbloat {
    fn from(found: bloat::Bufferbloat) -> Self {
        Self {
            since_s: found.since_s,
            delay_s: found.delay_s,
            cause: found.cause.map(|cause| Cause { kind: cause.kind.name().into(), share: cause.share }),
            help: found.help.into(),
        }
    }
}

impl From<fairness::Classes> for RttClasses {
    fn from(classes: fairness::Classes) -> Self {
        Self {
            near_flows: classes.near_flows as u64,
            far_flows: classes.far_flows as u64,
            near_round_trip_s: classes.near_round_trip_s,
            far_round_trip_s: classes.far_round_trip_s,
            near_share: classes.near_share,
            near_far_ratio: classes.near_far_ratio,
        }
    }
}

impl From<sizing::Predicted> for Predicted {
    fn from(predicted: sizing::Predicted) -> Self {
        Self {
            download_bps: predicted.download_bps,
            upload_bps: predicted.upload_bps,
            ratio: predicted.ratio,
            ratio_interval: predicted.ratio_interval,
            queue_delay_mean_s: predicted.queue_delay_mean_s,
            queue_delay_p95_s: predicted.queue_delay_p95_s,
        }
    }
}

impl From<sizing::Recommended> for Recommended {
    fn from(recommended: sizing::Recommended) -> Self {
        Self {
            uplink_buffer_bytes: recommended.uplink_buffer_bytes,
            download_bps: recommended.download_bps,
            upload_bps: recommended.upload_bps,
            queue_delay_p95_s: recommended.queue_delay_p95_s,
            delay_bound_s: recommended.delay_bound_s,
            lost_with_present: recommended.lost_with_present,
        }
    }
}
