//! What the shaper takes from the measurement.

use std::time::Duration;

use pendulum_model::segment::{Class, PerDirection};

use super::evidence::TrialTurn;
use super::plan::MeasuredTraffic;
use crate::bpf::abi::pendulum_counters;
use crate::snapshot::{FlowSweep, RecentRtt};

impl MeasuredTraffic {
    /// From the flow table, the link's counters and what stands in the uplink's queue.
    pub fn of(flows: &FlowSweep, counters: &PerDirection<pendulum_counters>, uplink_bytes: u32) -> Self {
        let round_trip = flows
            .rows
            .iter()
            .filter(|row| row.halves.up.rtt_min_us > 0)
            .map(|row| u64::from(row.halves.up.rtt_min_us) + u64::from(row.halves.down.rtt_min_us))
            .min()
            .map(Duration::from_micros);
        // Of connections that download, weighted by their segments.
        let (segments, acks) = flows.rows.iter().fold((0.0, 0.0), |(segments, acks), row| {
            let half = &row.halves.down;
            match half.segments_per_ack() {
                Some(each) => {
                    let count = half.acknowledgements as f64;
                    (segments + each * count, acks + count)
                }
                None => (segments, acks),
            }
        });
        let class = Class::Ack as usize;
        let up = &counters.up;
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
    pub fn of(flows: &FlowSweep, recent: &PerDirection<RecentRtt>) -> Self {
        let samples: u64 = recent.both().into_iter().flat_map(|rtt| rtt.slots).sum();
        let sum: u64 = recent.both().into_iter().map(|rtt| rtt.sum_us).sum();
        Self {
            goodput: flows.totals.map(|totals| totals.goodput),
            round_trip: (samples > 0).then(|| sum as f64 / samples as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::example;

    fn flows() -> FlowSweep {
        (*example::link("dsl").flows).clone()
    }

    /// Per flow a download of 1,200 segments of 1,500 bytes, 1,780,000 bytes of which 500 ACKs acknowledge: 2.37 segments each. In one there are
    /// twice as many ACKs: 1,780,000 / 1,000 / 1,500 = 1.187. Together 3 · 1,780,000 / 2,000 / 1,500.
    #[test]
    fn segments_for_each_ack_are_weighted_by_acks() {
        let mut flows = flows();
        flows.rows[0].halves.down.acknowledgements = 1_000;
        let mut counters = PerDirection::<pendulum_counters>::default();
        counters.up.segments[Class::Ack as usize] = 4;
        counters.up.bytes[Class::Ack as usize] = 264;
        let measured = MeasuredTraffic::of(&flows, &counters, 3_028);
        assert!((measured.segments_per_ack.unwrap() - 1.78).abs() < 1e-9, "{measured:?}");
        assert_eq!((measured.ack_bytes, measured.uplink_bytes), (Some(66.0), 3_028));
        // The quickest of three: 30,001 µs outside and 60,001 µs at home.
        assert_eq!(measured.round_trip, Some(Duration::from_micros(90_002)));
        flows.rows.iter_mut().for_each(|row| row.halves.up.rtt_min_us = 0);
        counters.up.segments[Class::Ack as usize] = 0;
        let unknown = MeasuredTraffic::of(&flows, &counters, 0);
        assert_eq!((unknown.round_trip, unknown.ack_bytes), (None, None));
    }

    #[test]
    fn a_turn_s_round_trip_is_the_mean_of_both_directions_samples() {
        let recent = |sum_us, samples| {
            let mut recent = RecentRtt { sum_us, ..RecentRtt::default() };
            recent.slots[5] = samples;
            recent
        };
        let turn =
            TrialTurn::of(&flows(), &PerDirection { up: recent(200_000, 1), down: recent(100_000, 2) });
        assert_eq!(
            (turn.round_trip, turn.goodput),
            (Some(0.1), PerDirection { up: 12_000.0, down: 240_000.0 })
        );
        assert_eq!(TrialTurn::of(&flows(), &PerDirection::default()).round_trip, None);
    }
}
