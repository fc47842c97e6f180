//! The rows of the flow table, of which the largest are kept.

use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};

use pendulum_model::segment::Direction;
use serde::Serialize;

use super::super::flow::FlowKey;
use super::super::tally::{InFlight, Tally, Turns};

/// Rows in a report.
pub(super) const ROWS_MAX: usize = 1000;

/// One flow.
#[derive(Clone, Debug, Serialize)]
pub struct FlowRow {
    /// Who opened the connection; home if that was not seen. `ip:port`.
    pub client: String,
    /// The other end.
    pub server: String,
    /// The way most of its payload travelled.
    pub direction: Direction,
    /// Payload acknowledged, bits per second of the flow's own time.
    pub goodput_bps: f64,
    /// Payload acknowledged, bytes.
    pub bytes: u64,
    /// First to last segment, seconds.
    pub duration_s: f64,
    /// Smallest round trip, end to end.
    pub rtt_min_s: Option<f64>,
    /// Mean round trip, end to end.
    pub rtt_mean_s: Option<f64>,
    /// Outstanding data over time, in the main direction. Of an upload with a LAN capture: before the uplink buffer.
    pub in_flight_mean_bytes: Option<f64>,
    /// Its maximum.
    pub in_flight_max_bytes: u32,
    /// The sender's mean window: goodput times mean round trip. Includes what stands in the buffer before the WAN capture,
    /// which outstanding data seen there does not.
    pub window_mean_bytes: Option<f64>,
    /// In the main direction.
    pub retransmitted_segments: u64,
    #[serde(skip)]
    key: FlowKey,
}

impl FlowRow {
    /// From the notes of the WAN capture, and those of the LAN capture if there are any.
    pub(super) fn new(key: &FlowKey, tally: &Tally, at_lan: Option<&InFlight>) -> Self {
        let home = SocketAddr::new(canonical(key.home_addr), key.home_port);
        let remote = SocketAddr::new(canonical(key.remote_addr), key.remote_port);
        let (client, server) = match tally.opener {
            Some(Direction::Down) => (remote, home),
            _ => (home, remote),
        };
        let direction = tally.main_direction();
        let half = &tally.halves[direction as usize];
        let in_flight = match (direction, at_lan) {
            (Direction::Up, Some(lan)) => lan,
            _ => &tally.in_flight,
        };
        let in_flight = &in_flight.halves[direction as usize];
        let bytes = tally.delivered_bytes(direction);
        let rtt_mean_s = end_to_end(tally, Turns::mean_s);
        let duration_s = tally.last_ns.saturating_sub(tally.first_ns) as f64 / 1e9;
        let goodput_bps = if duration_s > 0.0 { bytes as f64 * 8.0 / duration_s } else { 0.0 };
        Self {
            client: client.to_string(),
            server: server.to_string(),
            direction,
            goodput_bps,
            bytes,
            duration_s,
            rtt_min_s: end_to_end(tally, Turns::min_s),
            rtt_mean_s,
            in_flight_mean_bytes: in_flight.mean(),
            in_flight_max_bytes: in_flight.max,
            window_mean_bytes: rtt_mean_s.map(|seconds| goodput_bps / 8.0 * seconds),
            retransmitted_segments: half.retransmitted_segments,
            key: *key,
        }
    }

    /// Most bytes first; then by their ends, so that the order is always the same.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        other.bytes.cmp(&self.bytes).then_with(|| self.key.cmp(&other.key))
    }
}

/// Both ends' turnarounds together; one alone if the other was never measured.
fn end_to_end(tally: &Tally, pick: fn(&Turns) -> Option<f64>) -> Option<f64> {
    let [up, down] = &tally.halves;
    match (pick(&up.turns), pick(&down.turns)) {
        (Some(home), Some(remote)) => Some(home + remote),
        (one, other) => one.or(other),
    }
}

fn canonical(address: [u8; 16]) -> IpAddr {
    IpAddr::from(address).to_canonical()
}
