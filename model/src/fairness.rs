//! Flows of different RTT over one buffer (paper 003).
//!
//! Near and far are told apart by base RTT at the widest gap. Two findings: a lasting difference in what a near and a
//! far flow get (Fig. 5: 80/20), and a far flow whose window collapses as a near one bursts in (Fig. 6, 8).

use std::time::Duration;

use serde::Serialize;

use crate::findings::Figure;
use crate::flows::{FlowBook, FlowRecord};
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// A far window that falls to this part between two reports was cut at least twice (0.5² and the rest of a segment).
const COLLAPSE: f64 = 0.3;

/// A near flow younger than this is a burst (003 Fig. 8: transfers of 1–3 MB).
const BURST_AGE: Duration = Duration::from_secs(5);

/// What flows of two RTT classes get from one direction of the link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Classes {
    /// Flows in the near class.
    pub near_flows: usize,
    /// Flows in the far class.
    pub far_flows: usize,
    /// Largest base RTT of a near flow, seconds.
    pub near_round_trip_s: f64,
    /// Smallest base RTT of a far flow, seconds.
    pub far_round_trip_s: f64,
    /// Near flows' share of the bytes of both classes.
    pub near_share: f64,
    /// What a near flow gets over what a far flow gets, on average; at most 1000.
    pub near_far_ratio: f64,
}

impl Classes {
    /// The figures for evidence.
    pub(crate) fn figures(&self, thresholds: &Thresholds) -> Vec<Figure> {
        vec![
            Figure::against("near_far_ratio", self.near_far_ratio, thresholds.unfair_share_ratio),
            Figure::new("near_share", self.near_share),
            Figure::new("near_round_trip_s", self.near_round_trip_s),
            Figure::new("far_round_trip_s", self.far_round_trip_s),
        ]
    }
}

/// Splits the lasting flows of a direction at the widest gap in base RTT; `None` if no gap is wide enough.
pub(crate) fn classes(
    book: &FlowBook,
    direction: Direction,
    thresholds: &Thresholds,
    now: Duration,
) -> Option<Classes> {
    let mut flows: Vec<(f64, f64)> = book
        .of(direction)
        .filter(|flow| flow.age(now) >= BURST_AGE)
        .filter_map(|flow| Some((flow.base_round_trip?, flow.recent_bytes(now))))
        .collect();
    flows.sort_by(|one, two| one.0.total_cmp(&two.0));
    let gap = |index: &usize| flows[*index].0 / flows[index - 1].0;
    let split = (1..flows.len()).max_by(|one, two| gap(one).total_cmp(&gap(two)))?;
    if gap(&split) < thresholds.far_round_trip_ratio {
        return None;
    }
    let (near, far) = flows.split_at(split);
    let bytes = |class: &[(f64, f64)]| class.iter().map(|(_, bytes)| bytes).sum::<f64>();
    let (near_bytes, far_bytes) = (bytes(near), bytes(far));
    if near_bytes + far_bytes <= 0.0 {
        return None;
    }
    let mean = |sum: f64, class: &[(f64, f64)]| sum / class.len() as f64;
    Some(Classes {
        near_flows: near.len(),
        far_flows: far.len(),
        near_round_trip_s: near[near.len() - 1].0,
        far_round_trip_s: far[0].0,
        near_share: near_bytes / (near_bytes + far_bytes),
        near_far_ratio: (mean(near_bytes, near) / mean(far_bytes, far).max(1e-9)).min(1000.0),
    })
}

/// A far flow whose window collapsed in the latest report while a near flow was bursting in.
pub(crate) fn knocked_back(
    book: &FlowBook,
    direction: Direction,
    thresholds: &Thresholds,
    now: Duration,
) -> Option<Vec<Figure>> {
    let nearest_burst = book
        .of(direction)
        .filter(|flow| flow.age(now) <= BURST_AGE)
        .filter_map(|flow| flow.base_round_trip)
        .min_by(f64::total_cmp)?;
    let collapsed = |flow: &&FlowRecord| {
        let (Some(before), Some(after)) = (flow.in_flight_before, flow.in_flight) else { return false };
        before >= 4.0 * thresholds.segment_bytes && after <= COLLAPSE * before
    };
    let far = book
        .of(direction)
        .filter(|flow| flow.age(now) > BURST_AGE)
        .filter(|flow| {
            flow.base_round_trip.is_some_and(|base| base >= thresholds.far_round_trip_ratio * nearest_burst)
        })
        .find(collapsed)?;
    let before = far.in_flight_before?;
    Some(vec![
        Figure::against("far_window_bytes", far.in_flight?, COLLAPSE * before),
        Figure::new("far_window_before_bytes", before),
        Figure::new("far_round_trip_s", far.base_round_trip?),
        Figure::new("near_round_trip_s", nearest_burst),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::FlowSample;

    fn flow(id: u64, base: f64, bytes: u64, in_flight: f64) -> FlowSample {
        FlowSample {
            id,
            direction: Direction::Down,
            data_bytes: bytes,
            in_flight_bytes: Some(in_flight),
            round_trip: None,
            base_round_trip: Some(base),
        }
    }

    fn book(reports: &[(u64, Vec<FlowSample>)]) -> FlowBook {
        let mut book = FlowBook::default();
        for (second, flows) in reports {
            book.push(Duration::from_secs(*second), flows);
        }
        book
    }

    #[test]
    fn shares_of_near_and_far() {
        // 003 Fig. 5: 30 ms and 100 ms, 80/20.
        let reports: Vec<_> =
            (0..20).map(|t| (t, vec![flow(1, 0.03, 80_000, 1e4), flow(2, 0.1, 20_000, 1e4)])).collect();
        let now = Duration::from_secs(19);
        let classes =
            classes(&book(&reports), Direction::Down, &Thresholds::default(), now).expect("two classes");
        assert!((classes.near_share - 0.8).abs() < 1e-9);
        assert!((classes.near_far_ratio - 4.0).abs() < 1e-9);
        assert_eq!((classes.near_round_trip_s, classes.far_round_trip_s), (0.03, 0.1));
    }

    #[test]
    fn equal_round_trips_are_one_class() {
        let reports: Vec<_> =
            (0..20).map(|t| (t, vec![flow(1, 0.03, 80_000, 1e4), flow(2, 0.035, 20_000, 1e4)])).collect();
        let now = Duration::from_secs(19);
        assert_eq!(classes(&book(&reports), Direction::Down, &Thresholds::default(), now), None);
    }

    #[test]
    fn a_near_burst_knocks_a_far_flow_back() {
        let mut reports: Vec<_> = (0..20).map(|t| (t, vec![flow(2, 0.1, 100_000, 60_000.0)])).collect();
        let thresholds = Thresholds::default();
        reports.push((20, vec![flow(2, 0.1, 50_000, 12_000.0)]));
        let alone = book(&reports);
        assert_eq!(knocked_back(&alone, Direction::Down, &thresholds, Duration::from_secs(20)), None);
        reports.pop();
        reports.push((20, vec![flow(2, 0.1, 50_000, 12_000.0), flow(3, 0.03, 200_000, 30_000.0)]));
        let figures = knocked_back(&book(&reports), Direction::Down, &thresholds, Duration::from_secs(20));
        // 12,000 of 60,000 is 0.2 ≤ 0.3.
        assert_eq!(figures.expect("a collapse")[0].value, 12_000.0);
    }
}
