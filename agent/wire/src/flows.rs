//! `/api/v1/flows`: the only place where addresses appear.

use serde::{Deserialize, Serialize};

use crate::Name;

/// `/api/v1/flows`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flows {
    /// Flows in the tables, listed or not.
    pub total: u64,
    /// Why hosts behind translated addresses cannot be named; absent if they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_host_missing: Option<String>,
    /// The busiest first, or with `sort=bytes` those that carried most.
    pub flows: Vec<Flow>,
}

/// A TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Flow {
    /// Its link.
    pub link: String,
    /// Who opened it, as `address:port`; the home end if that was not seen.
    pub client: String,
    /// The other end.
    pub server: String,
    /// Which of them is behind the gateway: `client` or `server`.
    pub home: Name,
    /// The address of the host behind the home end's address, where that is translated, either way (masquerading, forwarded ports), IPv4 and IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_host: Option<String>,
    /// `conntrack`: from connection tracking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_host_source: Option<Name>,
    /// The device through which that host, or else the home end, is reached, by the routing table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home_device: Option<String>,
    /// `home`: of a host behind one of the link's `lan` devices, or behind any device but the WAN where none is configured; `other`: of a host behind another device (a guest network, containers); `gateway`: of this machine, not translated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Name>,
    /// Where most of the payload goes.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DirectionName"))]
    pub direction: Name,
    /// `open` or `closed`.
    pub state: Name,
    /// Since its first segment.
    pub age_s: f64,
    /// Since its last segment.
    pub idle_s: f64,
    /// Sent through the WAN device.
    pub up: FlowHalf,
    /// Received through it.
    pub down: FlowHalf,
}

/// One direction of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowHalf {
    /// Link-layer bytes since it was first seen.
    pub bytes: u64,
    /// Payload, with retransmissions.
    pub payload_bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Of these, with payload.
    pub data_segments: u64,
    /// Link-layer bits per second.
    pub throughput_bps: f64,
    /// Acknowledged payload, bits per second.
    pub goodput_bps: f64,
    /// Payload sent and not yet acknowledged.
    pub in_flight_bytes: u64,
    /// The most that ever was.
    pub in_flight_max_bytes: u64,
    /// Round trip from the gateway to the end this direction leads to and back: the smallest.
    pub rtt_min_s: Option<f64>,
    /// Its mean.
    pub rtt_mean_s: Option<f64>,
    /// The newest.
    pub rtt_last_s: Option<f64>,
    /// Data segments for each ACK: `d` of paper 002.
    pub segments_per_ack: Option<f64>,
    /// Segments whose data had been sent before.
    pub retransmitted_segments: u64,
    /// Segments that came after later ones.
    pub reordered_segments: u64,
}

impl Flow {
    /// Link-layer bits per second, both ways together.
    pub fn throughput_bps(&self) -> f64 {
        self.up.throughput_bps + self.down.throughput_bps
    }

    /// Link-layer bytes, both ways together.
    pub fn bytes(&self) -> u64 {
        self.up.bytes + self.down.bytes
    }

    /// Payload not yet acknowledged, both ways together.
    pub fn in_flight_bytes(&self) -> u64 {
        self.up.in_flight_bytes + self.down.in_flight_bytes
    }

    /// Both ways together.
    pub fn retransmitted_segments(&self) -> u64 {
        self.up.retransmitted_segments + self.down.retransmitted_segments
    }

    /// From the gateway to the remote end and back, or, where only that was timed, to the home end.
    pub fn rtt_s(&self) -> Option<f64> {
        self.up.rtt_last_s.or(self.down.rtt_last_s)
    }

    /// The end behind the gateway, and the other one.
    pub fn ends(&self) -> (&str, &str) {
        if self.home == "server" { (&self.server, &self.client) } else { (&self.client, &self.server) }
    }
}
