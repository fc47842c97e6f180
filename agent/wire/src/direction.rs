//! One direction of a link.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Name;

/// One direction of a link. Counters are since the start and go on when a device comes back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Direction {
    /// Segments by class ([measurement.md](../design/measurement.md)).
    pub segments: BTreeMap<Name, u64>,
    /// Link-layer bytes.
    pub bytes: u64,
    /// TCP payload with retransmissions.
    pub payload_bytes: u64,
    /// Segments whose data had been sent before.
    pub retransmitted_segments: u64,
    /// Segments that came after later ones.
    pub reordered_segments: u64,
    /// Segments by mark: `ce`, `ece`, `cwr`, `sack`.
    pub marked_segments: BTreeMap<Name, u64>,
    /// Link-layer bits per second, moving over 300 ms; `up`: what left the queue, where that is observed ([queues.md](../design/queues.md), "Uplink throughput").
    pub throughput_bps: f64,
    /// The same over the last second; at most the link's rate, or else more than 10 % above it. `null` until a second was measured.
    pub throughput_1s_bps: Option<f64>,
    /// Payload that receivers acknowledged: at most the TCP payload in `throughput_1s_bps`, the rest in later seconds.
    pub goodput_bps: f64,
    /// `throughput_bps` over link rate.
    pub utilization: Option<f64>,
    /// Payload sent and not yet acknowledged, over all live flows.
    pub in_flight_bytes: u64,
    /// Flows that carried payload in this direction within the last 5 s.
    pub flows: u64,
    /// Round trips from the gateway to the end this direction leads to and back, over the last 10 s; `null` if none was measured.
    pub rtt: Option<Rtt>,
    /// Pure ACKs between two data segments.
    pub ack_burst: Option<AckBurst>,
    /// The buffer in front of the link ([queues.md](../design/queues.md)); `null` where unknown.
    pub queue: Option<Queue>,
    /// Congestion windows of the gateway's own sockets on the link, together.
    pub cwnd_bytes: Option<u64>,
    /// How these are known: `fexit`, `fentry`, `tcp_probe` or `sock_diag`.
    pub cwnd_source: Option<Name>,
    /// Share of the bytes the device itself counted in the last 10 s that bypassed the programs (flow offload, XDP in front, senders around traffic control); a lower bound, `null` below 100 kB.
    pub unseen_ratio: Option<f64>,
}

/// Round trips, seconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rtt {
    /// How many were measured.
    pub samples: u64,
    /// The smallest of the flows in the table.
    pub min_s: Option<f64>,
    /// Their mean.
    pub mean_s: f64,
    /// Their median, inside the histogram's bucket.
    pub p50_s: f64,
    /// Their 95th percentile, inside the histogram's bucket.
    pub p95_s: f64,
}

/// Pure ACKs between two data segments.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AckBurst {
    /// Mean length.
    pub mean: f64,
    /// 95th percentile of the lengths.
    pub p95: u64,
    /// Bursts by length; those that never happened are left out.
    pub histogram: BTreeMap<u64, u64>,
}

impl AckBurst {
    /// Of so many bursts of each length, and their segments together; `None` of no burst.
    pub fn of(by_length: &[u64], segments: u64) -> Option<Self> {
        let histogram: BTreeMap<u64, u64> =
            (0..).zip(by_length.iter().copied()).filter(|(_, count)| *count > 0).collect();
        let bursts: u64 = histogram.values().sum();
        let mut below = 0;
        // Nearest rank.
        let (&p95, _) = histogram.iter().find(|(_, count)| {
            below += **count;
            below * 20 >= bursts * 19
        })?;
        Some(Self { mean: segments as f64 / bursts as f64, p95, histogram })
    }
}

/// The buffer in front of the link. Of a buffer elsewhere (`source` is `estimate`) only `bytes`, `peak_bytes`, `uncertainty_bytes`, `standing_bytes`, `limit_bytes`, `composition`, `top_port` and `trust` are known.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queue {
    /// `tracepoint` or `netlink` of the gateway's own; `estimate` of a buffer of another machine, the modem's (whose level is 0.6 s old) or the provider's.
    pub source: Name,
    /// Of an estimate: `confirmed`, `never_empty` or `stale`.
    pub trust: Option<Name>,
    /// Its kind.
    pub qdisc: Option<String>,
    /// The level.
    pub bytes: Option<u64>,
    /// The same in packets.
    pub packets: Option<u64>,
    /// Of the level, pure ACKs.
    pub ack_bytes: Option<u64>,
    /// The same in packets.
    pub ack_packets: Option<u64>,
    /// The highest level within the last 100 ms.
    pub peak_bytes: Option<u64>,
    /// The true level lies within this many bytes of `bytes`; 0 where it is exact, `null` where unknown.
    pub uncertainty_bytes: Option<f64>,
    /// The lowest level of the last round trip.
    pub standing_bytes: Option<f64>,
    /// How much fits.
    pub limit_bytes: Option<u64>,
    /// Shares (0 to 1) of `tcp_data`, `ack`, `udp` and `other` in the bytes that entered over the last ten seconds; `null` if nothing did.
    pub composition: Option<BTreeMap<Name, f64>>,
    /// The largest traffic that is not TCP.
    pub top_port: Option<TopPort>,
    /// Drops by reason.
    pub drops: BTreeMap<Name, u64>,
}

/// The largest traffic that is not TCP.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopPort {
    /// In words, as `UDP port 443`.
    pub name: String,
    /// The IP protocol's number.
    pub protocol: u8,
    /// The port, if the protocol has ports.
    pub port: Option<u16>,
    /// Its share of all bytes, at least.
    pub share: f64,
}
