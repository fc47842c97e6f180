//! Flows of different RTT over one buffer (paper 003).
//!
//! Near and far are distinguished by base RTT at the widest gap. Two findings: a lasting difference in what a near and a
//! far flow get (Fig. 5: 80/20), and a far flow whose window collapses as a near one bursts in (Fig. 6, 8).
//!
//! Only flows that carry bulk data now compete: an idle connection, a page or a call gets what it asks for, not what
//! others leave it. And only those of which the whole round trip was measured.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::constants::{HALF, MOMENT, SLIGHT};
use crate::findings::Figure;
use crate::flows::{FlowRecord, FlowTable};
use crate::ratio::FAST_RETRANSMIT_SEGMENTS;
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// A far window that falls to this part between two reports was cut twice.
const COLLAPSE: f64 = HALF * HALF;

/// A flow that competes for the buffer.
#[derive(Clone, Copy, Debug)]
struct Competitor {
    round_trip: f64,
    bytes: f64,
    /// Its rate varies only slightly from report to report: by its application (a call, a stream). A window that competes for a buffer rises and is
    /// cut by half, which for a saw from ½ to 1 is 0.19.
    is_paced: bool,
}

/// Flows with short and with long round trips in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

impl RttClasses {
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

/// Splits the lasting bulk flows of a direction at the widest gap in base RTT; `None` if no gap is wide enough.
pub(crate) fn classes(
    book: &FlowTable,
    direction: Direction,
    thresholds: &Thresholds,
    now: Duration,
) -> Option<RttClasses> {
    let competes = |flow: &&FlowRecord| flow.bulk_for(now, thresholds).is_some_and(|time| time >= MOMENT);
    let mut flows: Vec<Competitor> = book
        .of(direction)
        .filter(competes)
        .filter_map(|flow| {
            Some(Competitor {
                round_trip: flow.base_round_trip?,
                bytes: flow.recent_bytes(now),
                is_paced: flow.rate_variation().is_some_and(|variation| variation < SLIGHT),
            })
        })
        .collect();
    // Who has most of the link is as steady as the link.
    let most = flows.iter().map(|flow| flow.bytes).fold(0.0, f64::max);
    flows.retain(|flow| !flow.is_paced || flow.bytes >= most);
    flows.sort_by(|one, two| one.round_trip.total_cmp(&two.round_trip));
    let gap = |index: &usize| flows[*index].round_trip / flows[index - 1].round_trip;
    let split = (1..flows.len()).max_by(|one, two| gap(one).total_cmp(&gap(two)))?;
    if gap(&split) < thresholds.far_round_trip_ratio {
        return None;
    }
    let (near, far) = flows.split_at(split);
    let bytes = |class: &[Competitor]| class.iter().map(|flow| flow.bytes).sum::<f64>();
    let (near_bytes, far_bytes) = (bytes(near), bytes(far));
    if near_bytes + far_bytes <= 0.0 {
        return None;
    }
    let mean = |sum: f64, class: &[Competitor]| sum / class.len() as f64;
    Some(RttClasses {
        near_flows: near.len() as u64,
        far_flows: far.len() as u64,
        near_round_trip_s: near[near.len() - 1].round_trip,
        far_round_trip_s: far[0].round_trip,
        near_share: near_bytes / (near_bytes + far_bytes),
        near_far_ratio: (mean(near_bytes, near) / mean(far_bytes, far).max(1e-9)).min(1000.0),
    })
}

/// A far bulk flow whose window collapsed, and that went on, while near flows burst in with at least the bytes it lost.
pub(crate) fn knocked_back(
    book: &FlowTable,
    direction: Direction,
    thresholds: &Thresholds,
    now: Duration,
) -> Option<Vec<Figure>> {
    let bursts = || book.of(direction).filter(|flow| flow.age(now) <= MOMENT && flow.flows(now));
    let knocked = |far: &FlowRecord| {
        let (before, after) = far.fell(now)?;
        let base = far.base_round_trip?;
        // That it is bulk its window before the fall says: the mean has come down with it.
        let collapsed =
            before >= FAST_RETRANSMIT_SEGMENTS * thresholds.segment_bytes && after <= COLLAPSE * before;
        if !collapsed || far.steady_for(now) <= MOMENT {
            return None;
        }
        let near = |flow: &&FlowRecord| {
            flow.base_round_trip.is_some_and(|near| base >= thresholds.far_round_trip_ratio * near)
        };
        let burst: f64 = bursts().filter(near).map(|flow| flow.recent_bytes(now)).sum();
        let nearest = bursts().filter_map(|flow| flow.base_round_trip).min_by(f64::total_cmp)?;
        (burst >= before - after).then(|| {
            vec![
                Figure::against("far_window_bytes", after, COLLAPSE * before),
                Figure::new("far_window_before_bytes", before),
                Figure::against("near_burst_bytes", burst, before - after),
                Figure::new("far_round_trip_s", base),
                Figure::new("near_round_trip_s", nearest),
            ]
        })
    };
    book.of(direction).find_map(knocked)
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

    const THRESHOLDS: fn() -> Thresholds = Thresholds::default;

    /// A bulk flow's second: a saw between half of the window and all of it, in ten seconds.
    fn saw(id: u64, base: f64, second: u64, bytes: u64, in_flight: f64) -> FlowSample {
        let part = 0.5 + 0.05 * ((second + 3 * id) % 10) as f64;
        flow(id, base, (bytes as f64 * part) as u64, in_flight * part)
    }

    fn book(reports: &[(u64, Vec<FlowSample>)]) -> FlowTable {
        let mut book = FlowTable::default();
        for (second, flows) in reports {
            book.push(Duration::from_secs(*second), flows);
        }
        book
    }

    /// Whatever `classes` says at any second of these reports.
    fn classes_of(reports: &[(u64, Vec<FlowSample>)]) -> Vec<RttClasses> {
        let mut book = FlowTable::default();
        let mut found = Vec::new();
        for (second, flows) in reports {
            let now = Duration::from_secs(*second);
            book.push(now, flows);
            found.extend(classes(&book, Direction::Down, &THRESHOLDS(), now));
        }
        found
    }

    /// Whatever `knocked_back` says at the quarter seconds of these reports.
    fn knocks_of(reports: &[(u64, Vec<FlowSample>)]) -> Vec<Vec<Figure>> {
        let mut book = FlowTable::default();
        let mut found = Vec::new();
        for (second, flows) in reports {
            book.push(Duration::from_secs(*second), flows);
            for quarter in 0..4 {
                let now = Duration::from_millis(second * 1000 + quarter * 250);
                found.extend(knocked_back(&book, Direction::Down, &THRESHOLDS(), now));
            }
        }
        found
    }

    #[test]
    fn shares_of_near_and_far() {
        // 003 Fig. 5: 30 ms and 100 ms, 80/20. Both saws have the same mean part after whole periods.
        let reports: Vec<_> =
            (0..60).map(|t| (t, vec![saw(1, 0.03, t, 80_000, 1e4), saw(2, 0.1, t, 20_000, 1e4)])).collect();
        let found = classes_of(&reports);
        assert!(found.len() > 50, "{}", found.len());
        for classes in &found[20..] {
            // A saw's faded mean is within its bounds, ½ and 1.
            assert!((2.0..=8.0).contains(&classes.near_far_ratio), "{classes:?}");
            assert_eq!((classes.near_round_trip_s, classes.far_round_trip_s), (0.03, 0.1));
            assert_eq!((classes.near_flows, classes.far_flows), (1, 1));
        }
        let mean =
            found[20..].iter().map(|classes| classes.near_share).sum::<f64>() / (found.len() - 20) as f64;
        assert!((mean - 0.8).abs() < 0.05, "{mean}");
    }

    #[test]
    fn equal_round_trips_are_one_class() {
        let reports: Vec<_> =
            (0..20).map(|t| (t, vec![saw(1, 0.03, t, 80_000, 1e4), saw(2, 0.035, t, 20_000, 1e4)])).collect();
        assert_eq!(classes_of(&reports), []);
    }

    /// Beside a download from near by, at 30 ms: what the far end, at 200 ms, sends each second.
    fn beside_a_download(far: impl Fn(u64) -> Option<FlowSample>) -> Vec<(u64, Vec<FlowSample>)> {
        let near = |t| saw(1, 0.03, t, 2_000_000, 60_000.0);
        (0..60).map(|t| (t, std::iter::once(near(t)).chain(far(t)).collect())).collect()
    }

    #[test]
    fn what_asks_for_little_is_not_treated_unfairly() {
        // An idle connection (iperf3's control connection): a few bytes a second.
        let idle = beside_a_download(|_| Some(flow(2, 0.2, 60, 60.0)));
        // Kept alive, a page of 300 kB every six seconds: it comes within one of them.
        let page = beside_a_download(|t| t.is_multiple_of(6).then(|| flow(2, 0.2, 300_000, 60_000.0)));
        // A call of 1.2 Mb/s over TCP, by no more than 5 % off: 30 kB outstanding.
        let call = beside_a_download(|t| Some(flow(2, 0.2, 150_000 + 7_500 * (t % 3) - 7_500, 30_000.0)));
        // A VPN that carries a shell: two segments now and then.
        let vpn = beside_a_download(|t| (t % 3 != 1).then(|| flow(2, 0.2, 2_900, 1_450.0)));
        for (name, reports) in [("idle", idle), ("page", page), ("call", call), ("vpn", vpn)] {
            assert_eq!(classes_of(&reports), [], "{name}");
            assert_eq!(knocks_of(&reports), Vec::<Vec<Figure>>::new(), "{name}");
        }
        // The rule can fire: a bulk flow in their place.
        let bulk = beside_a_download(|t| Some(saw(2, 0.2, t, 150_000, 30_000.0)));
        assert!(classes_of(&bulk).iter().all(|classes| classes.near_far_ratio > 4.0));
        assert!(classes_of(&bulk).len() > 50);
    }

    #[test]
    fn half_a_round_trip_is_none() {
        let far = |t| FlowSample { base_round_trip: None, ..saw(2, 0.2, t, 150_000, 30_000.0) };
        assert_eq!(classes_of(&beside_a_download(|t| Some(far(t)))), []);
    }

    #[test]
    fn flows_that_ended_compete_no_longer() {
        let reports = beside_a_download(|t| (t < 20).then(|| saw(2, 0.2, t, 150_000, 30_000.0)));
        let now = |t| Duration::from_secs(t);
        let at = |t: u64| classes(&book(&reports[..=t as usize]), Direction::Down, &THRESHOLDS(), now(t));
        assert!(at(19).is_some());
        assert_eq!(at(22), None);
    }

    /// A far flow alone for 20 s, then what is given, one report a second.
    fn after_20_s(then: &[Vec<FlowSample>]) -> Vec<(u64, Vec<FlowSample>)> {
        let alone = (0..20).map(|t| (t, vec![flow(2, 0.1, 100_000, 60_000.0)]));
        alone.chain((20..).zip(then.iter().cloned())).collect()
    }

    #[test]
    fn a_near_burst_knocks_a_far_flow_back() {
        let cut = flow(2, 0.1, 50_000, 12_000.0);
        let burst = flow(3, 0.03, 200_000, 30_000.0);
        assert_eq!(knocks_of(&after_20_s(&[vec![cut], vec![cut]])).len(), 0, "without a burst");
        let found = knocks_of(&after_20_s(&[vec![cut, burst], vec![cut, burst]]));
        // 12,000 of 60,000 is 0.2 ≤ 0.3; the burst's 400,000 bytes are more than the 48,000 that are gone.
        let figures: Vec<(f64, Option<f64>)> = found[0].iter().map(|it| (it.value, it.threshold)).collect();
        assert_eq!([figures[0], figures[1]], [(12_000.0, Some(15_000.0)), (60_000.0, None)]);
        assert_eq!((figures[2].1, figures[3].0, figures[4].0), (Some(48_000.0), 0.1, 0.03));
        // A page of 20 kB did not take them away.
        let page = flow(3, 0.03, 10_000, 5_000.0);
        assert_eq!(knocks_of(&after_20_s(&[vec![cut, page], vec![cut, page]])).len(), 0, "a small page");
    }

    #[test]
    fn a_flow_that_ends_was_not_knocked_back() {
        let burst = flow(3, 0.03, 200_000, 30_000.0);
        // Its last report: what was left of it, all acknowledged.
        let end = flow(2, 0.1, 30_000, 0.0);
        let others = vec![burst];
        let reports = after_20_s(&[vec![end, burst], others.clone(), others.clone(), others.clone(), others]);
        assert_eq!(knocks_of(&reports).len(), 0);
    }

    #[test]
    fn who_sent_long_before_or_has_ended_did_not_burst_in() {
        let cut = flow(2, 0.1, 50_000, 12_000.0);
        let burst = flow(3, 0.03, 200_000, 30_000.0);
        let mut reports = after_20_s(&[vec![cut, burst], vec![cut, burst]]);
        reports[..20].iter_mut().for_each(|(_, flows)| flows.push(burst));
        assert_eq!(knocks_of(&reports).len(), 0, "long before");
        let alone = flow(2, 0.1, 100_000, 60_000.0);
        let reports = after_20_s(&[vec![alone, burst], vec![alone], vec![alone], vec![cut], vec![cut]]);
        assert_eq!(knocks_of(&reports).len(), 0, "it has ended");
    }
}
