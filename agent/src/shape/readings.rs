//! What the shaper takes from the measurement.

use std::time::Duration;

use pendulum_model::segment::{Class, Direction};

use super::plan::MeasuredTraffic;
use crate::bpf::abi::pendulum_counters;
use crate::snapshot::{FlowSweep, RecentRtt, TrialTurn};

impl MeasuredTraffic {
    /// From the flow table, the link's counters and what stands in the uplink's queue.
    pub fn of(flows: &FlowSweep, counters: &[pendulum_counters; 2], uplink_bytes: u32) -> Self {
        let (up, down) = (Direction::Up as usize, Direction::Down as usize);
        let round_trip = flows
            .rows
            .iter()
            .filter(|row| row.halves[up].rtt_min_us > 0)
            .map(|row| u64::from(row.halves[up].rtt_min_us) + u64::from(row.halves[down].rtt_min_us))
            .min()
            .map(Duration::from_micros);
        // Of connections that download, weighted by their segments.
        let (segments, acks) = flows.rows.iter().fold((0.0, 0.0), |(segments, acks), row| {
            let half = &row.halves[down];
            match half.segments_per_ack() {
                Some(each) => {
                    let count = half.acknowledgements as f64;
                    (segments + each * count, acks + count)
                }
                None => (segments, acks),
            }
        });
        let class = Class::Ack as usize;
        let up = &counters[up];
        Self {
            round_trip,
            segments_per_ack: (acks > 0.0).then(|| segments / acks),
            ack_bytes: (up.segments[class] > 0).then(|| up.bytes[class] as f64 / up.segments[class] as f64),
            uplink_bytes,
        }
    }
}

impl TrialTurn {
    /// From the flow table, and the recent round trips of both directions.
    pub fn of(flows: &FlowSweep, recent: &[RecentRtt; 2]) -> Self {
        let samples: u64 = recent.iter().flat_map(|rtt| rtt.slots).sum();
        let sum: u64 = recent.iter().map(|rtt| rtt.sum_us).sum();
        Self {
            goodput: flows.totals.map(|totals| totals.goodput),
            round_trip: (samples > 0).then(|| sum as f64 / samples as f64 / 1e6),
        }
    }
}
