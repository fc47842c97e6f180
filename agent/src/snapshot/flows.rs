//! The flow table at one moment, in the form its readers need.

use std::time::{Duration, Instant};

use pendulum_model::segment::PerDirection;

use crate::bpf::abi::pendulum_flow_key;

/// A connection that is silent for this long is treated as gone: its sender is, or its retransmission timer has backed off so far that nothing of it is in
/// the network (RFC 6298 §5). An ended one stays as long, for late retransmissions and for people to see it.
pub const SILENT: Duration = Duration::from_secs(10);

/// One look at the flow table.
#[derive(Clone, Debug)]
pub struct FlowSweep {
    /// When it was taken.
    pub at: Instant,
    /// Every flow, ordered by key.
    pub rows: Vec<FlowRow>,
    /// Totals of each direction.
    pub totals: PerDirection<FlowTotals>,
    /// Flows that the kernel pushed out of a full table since the start.
    pub evicted: u64,
    /// Flows that the agent removed, because they had ended or were idle, since the start.
    pub expired: u64,
}

impl FlowSweep {
    /// A look at nothing.
    pub fn empty(at: Instant) -> Self {
        Self { at, rows: Vec::new(), totals: PerDirection::default(), evicted: 0, expired: 0 }
    }
}

/// Sums over the flows of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTotals {
    /// Outstanding data of all live flows, bytes.
    pub in_flight_bytes: u64,
    /// Flows that carried payload in this direction within the last seconds.
    pub active: u32,
    /// Payload acknowledged by the receivers, bytes per second over the last sweep interval.
    pub goodput: f64,
}

/// One flow at a sweep.
#[derive(Clone, Debug)]
pub struct FlowRow {
    /// Who talks to whom.
    pub key: pendulum_flow_key,
    /// What each end has sent.
    pub halves: PerDirection<HalfRow>,
    /// When a segment of either end was last noticed, to the sweep.
    pub changed_at: Instant,
    /// Whether the connection has ended.
    pub is_closed: bool,
}

/// What one end of a flow has sent, and what that tells.
#[derive(Clone, Debug, Default)]
pub struct HalfRow {
    /// Link-layer bytes.
    pub wire_bytes: u64,
    /// Payload bytes, retransmissions included.
    pub payload_bytes: u64,
    /// Of these, what came since the sweep before.
    pub fresh_bytes: u64,
    /// Segments of any class.
    pub segments: u64,
    /// Segments with payload.
    pub data_segments: u64,
    /// Payload bytes of this end that the other one acknowledged.
    pub delivered_bytes: u64,
    /// Segments of the other end that acknowledged something new.
    pub acknowledgements: u64,
    /// Monotonic time of the first segment, nanoseconds; 0 if there was none.
    pub first_seen_ns: u64,
    /// Monotonic time of the newest segment, nanoseconds.
    pub last_seen_ns: u64,
    /// Sum of the RTT samples, microseconds.
    pub rtt_sum_us: u64,
    /// RTT samples: from the gateway to the other end and back.
    pub rtt_samples: u32,
    /// Smallest RTT sample, microseconds.
    pub rtt_min_us: u32,
    /// Newest RTT sample, microseconds.
    pub rtt_last_us: u32,
    /// Samples since the sweep before, and the least that is known of them, microseconds.
    pub rtt_fresh: Option<(u32, u32)>,
    /// Segments sent again.
    pub retransmitted_segments: u32,
    /// Of these, what came since the sweep before.
    pub retransmitted_fresh: u32,
    /// Segments that arrived out of order.
    pub reordered_segments: u32,
    /// Sent and not yet acknowledged, bytes.
    pub in_flight_bytes: u32,
    /// The most that was ever outstanding, bytes.
    pub in_flight_max_bytes: u32,
    /// The window that this end advertised last, bytes; `None` if its scale is unknown.
    pub window_bytes: Option<u32>,
    /// Whether its SYN was seen.
    pub opened: bool,
    /// Link-layer bytes per second over the last sweep interval.
    pub wire_rate: f32,
    /// Delivered bytes per second over the last sweep interval.
    pub goodput: f32,
    /// When payload was last noticed, to the sweep.
    pub data_at: Option<Instant>,
}

impl HalfRow {
    /// Mean RTT, seconds.
    pub fn rtt_mean_s(&self) -> Option<f64> {
        (self.rtt_samples > 0).then(|| self.rtt_sum_us as f64 / f64::from(self.rtt_samples) / 1e6)
    }

    /// Data segments for each ACK that acknowledged something new: `d` of paper 002.
    pub fn segments_per_ack(&self) -> Option<f64> {
        if self.acknowledgements == 0 || self.data_segments == 0 || self.payload_bytes == 0 {
            return None;
        }
        let segment_bytes = self.payload_bytes as f64 / self.data_segments as f64;
        Some(self.delivered_bytes as f64 / self.acknowledgements as f64 / segment_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_per_ack_needs_data_and_acks() {
        let mut half = HalfRow {
            payload_bytes: 30_000,
            data_segments: 20,
            delivered_bytes: 30_000,
            ..Default::default()
        };
        assert_eq!(half.segments_per_ack(), None);
        half.acknowledgements = 10;
        assert_eq!(half.segments_per_ack(), Some(2.0));
    }
}
