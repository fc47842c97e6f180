//! The verdict that the kernel's own readings imply, to hold the agent's against.
//!
//! The rules and thresholds are the detector's (docs/design/detector.md), applied to a whole stretch: what is known of both queues is exact here, and whether there is
//! bulk data, whatever its protocol, is known because the experiment has started it.

use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::thresholds::Thresholds;

use super::figures::Figures;
use super::phases::{PhaseShare, Phases};
use super::results::ScenarioRun;
use crate::lab::LinkSpec;

/// A verdict, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Implied {
    /// A name of the agent's list.
    pub(super) verdict: Option<&'static str>,
    /// Which figures it follows from.
    pub(super) reason: &'static str,
}

const fn implied(verdict: &'static str, reason: &'static str) -> Implied {
    Implied { verdict: Some(verdict), reason }
}

const fn unknown(reason: &'static str) -> Implied {
    Implied { verdict: None, reason }
}

/// The verdict on a stretch of a run.
pub(super) fn of(phases: &Phases, goodput: Figures, run: &ScenarioRun) -> Implied {
    let bulk = PerDirection::from_fn(|direction: Direction| {
        let datagrams = run.scenario.datagrams.iter().any(|timed| timed.spec.direction == direction);
        datagrams || run.transfers(direction).next().is_some()
    });
    judge(phases, goodput, bulk, &run.scenario.link)
}

fn judge(phases: &Phases, goodput: Figures, bulk: PerDirection<bool>, link: &LinkSpec) -> Implied {
    let thresholds = Thresholds::default();
    let Some(share) = phases.phase_share else { return unknown("the queues were not read") };
    match (bulk.up, bulk.down) {
        (false, false) => return implied("clear", "no bulk data"),
        (true, false) | (false, true) => return implied("one_way", "bulk data in one direction"),
        (true, true) => {}
    }
    if phases.queue_correlation.is_some_and(|correlation| correlation >= thresholds.in_phase_correlation) {
        return unknown("both queues move together: only ACK bursts tell ack_compression from balanced");
    }
    let PhaseShare { uplink_bound: up, downlink_bound: down, .. } = share;
    if up.min(down) >= thresholds.swing_share && phases.switches >= thresholds.swing_switches {
        return implied("swinging", "each buffer alone holds the traffic for a part of the time");
    }
    let starved = |bps: Option<f64>, capacity: f64| {
        bps.is_some_and(|bps| bps < thresholds.starved_utilization * capacity)
    };
    let (to_home, to_internet) = (link.downlink.rate, link.uplink.rate);
    if up >= thresholds.locked_share && starved(goodput.download_bps, to_home.bits_per_second() as f64) {
        return implied("locked_uplink", "the uplink's buffer stands alone, and the download starves");
    }
    if down >= thresholds.locked_share && starved(goodput.upload_bps, to_internet.bits_per_second() as f64) {
        return implied("locked_downlink", "the downlink's buffer stands alone, and the upload starves");
    }
    implied("balanced", "neither locked nor swinging")
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: PerDirection<bool> = PerDirection { up: true, down: true };

    fn phases(uplink_bound: f64, downlink_bound: f64, switches: usize) -> Phases {
        let idle = 1.0 - uplink_bound - downlink_bound;
        let share = PhaseShare { uplink_bound, downlink_bound, idle, ..PhaseShare::default() };
        Phases { phase_share: Some(share), switches, ..Phases::default() }
    }

    fn verdict(
        phases: &Phases,
        download: f64,
        upload: f64,
        bulk: PerDirection<bool>,
    ) -> Option<&'static str> {
        judge(phases, Figures::new(download, upload), bulk, &LinkSpec::FIG1).verdict
    }

    #[test]
    fn a_buffer_that_stands_alone_while_the_other_way_starves_is_locked() {
        assert_eq!(verdict(&phases(0.95, 0.0, 0), 400_000.0, 180_000.0, BOTH), Some("locked_uplink"));
        assert_eq!(verdict(&phases(0.95, 0.0, 0), 2_000_000.0, 180_000.0, BOTH), Some("balanced"));
        assert_eq!(verdict(&phases(0.0, 0.9, 0), 2_200_000.0, 20_000.0, BOTH), Some("locked_downlink"));
        assert_eq!(verdict(&phases(0.4, 0.4, 5), 1_200_000.0, 90_000.0, BOTH), Some("swinging"));
    }

    #[test]
    fn without_bulk_data_both_ways_nothing_is_locked() {
        let one = PerDirection { up: true, down: false };
        assert_eq!(verdict(&phases(1.0, 0.0, 0), 0.0, 190_000.0, one), Some("one_way"));
        assert_eq!(verdict(&phases(0.0, 0.0, 0), 0.0, 0.0, PerDirection::default()), Some("clear"));
    }

    #[test]
    fn what_the_queues_cannot_tell_is_not_reported() {
        let together = Phases { queue_correlation: Some(0.6), ..phases(0.1, 0.1, 0) };
        assert_eq!(verdict(&together, 1e6, 1e5, BOTH), None);
        assert_eq!(verdict(&Phases::default(), 1e6, 1e5, BOTH), None);
    }
}
