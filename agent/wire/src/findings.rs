//! What the detector finds and advises (docs/design/detector.md).

use pendulum_model::sizing::{self, Recommended};
use serde::{Deserialize, Serialize};

use crate::Name;

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
