//! Findings beside the verdict: they begin, hold and end, or happen once.

use std::time::Duration;

use crate::bloat::{Bloat, Bufferbloat, BufferbloatNews};
use crate::constants::MOMENT;
use crate::event::Event;
use crate::fairness::{RttClasses, classes, knocked_back};
use crate::findings::{Change, Evidence, Figure, FindingKind};
use crate::segment::{Direction, PerDirection};

use super::Detector;

/// What holds at present.
#[derive(Clone, Debug, Default)]
pub(super) struct ActiveFindings {
    unfair_since: PerDirection<Option<Duration>>,
    unfair: PerDirection<bool>,
    classes: PerDirection<Option<RttClasses>>,
    knocked: PerDirection<Option<Duration>>,
    bloat: PerDirection<Bloat>,
}

impl ActiveFindings {
    /// RTT classes of a direction, if its flows differ in RTT.
    pub(super) fn classes(&self, direction: Direction) -> Option<RttClasses> {
        self.classes[direction]
    }

    /// The buffer that does not drain.
    pub(super) fn bufferbloat(&self, direction: Direction) -> Option<Bufferbloat> {
        self.bloat[direction].get().cloned()
    }

    /// Whether near flows take more than their part.
    pub(super) fn is_unfair(&self, direction: Direction) -> bool {
        self.unfair[direction]
    }
}

impl Detector {
    pub(super) fn reconsider_findings(&mut self, at: Duration, events: &mut Vec<Event>) {
        for direction in Direction::ALL {
            self.reconsider_fairness(at, direction, events);
            self.reconsider_knock(at, direction, events);
            self.reconsider_bloat(at, direction, events);
        }
    }

    fn reconsider_bloat(&mut self, at: Duration, direction: Direction, events: &mut Vec<Event>) {
        let round_trip = self.bounded_round_trip();
        let may_be_beyond = self.may_be_beyond[direction];
        let bloat = &mut self.findings.bloat[direction];
        let (finding, direction_of) = (FindingKind::Bufferbloat, Some(direction));
        let (change, reason, figures, since) =
            match bloat.consider(&self.history, &self.thresholds, direction, at, round_trip, may_be_beyond) {
                None => return,
                Some(BufferbloatNews::Begins(since_s, reason, figures)) => {
                    let since = Duration::try_from_secs_f64(since_s).unwrap_or(at);
                    (Change::Finding { finding, direction: direction_of }, reason, figures, since)
                }
                Some(BufferbloatNews::Ends(reason, figures)) => {
                    (Change::FindingEnded { finding, direction: direction_of }, reason, figures, at)
                }
            };
        events.push(event(at, change, "standing_delay", reason, figures, since));
    }

    fn reconsider_fairness(&mut self, at: Duration, direction: Direction, events: &mut Vec<Event>) {
        let found = classes(&self.flows, direction, &self.thresholds, at);
        self.findings.classes[direction] = found;
        let unfair = found.filter(|found| found.near_far_ratio >= self.thresholds.unfair_share_ratio);
        let Some(found) = unfair else {
            self.findings.unfair_since[direction] = None;
            if std::mem::take(&mut self.findings.unfair[direction]) {
                let reason = "near and far flows share evenly again, or only one kind is left".to_owned();
                let change =
                    Change::FindingEnded { finding: FindingKind::RttUnfairness, direction: Some(direction) };
                events.push(event(at, change, "shares_by_round_trip", reason, Vec::new(), at));
            }
            return;
        };
        let since = *self.findings.unfair_since[direction].get_or_insert(at);
        if self.findings.unfair[direction] || at.saturating_sub(since) < self.thresholds.evidence.0 {
            return;
        }
        self.findings.unfair[direction] = true;
        let reason = format!(
            "flows with {:.0} ms RTT get {:.1} times what flows with {:.0} ms get, {}load",
            found.near_round_trip_s * 1e3,
            found.near_far_ratio,
            found.far_round_trip_s * 1e3,
            direction.name(),
        );
        let change = Change::Finding { finding: FindingKind::RttUnfairness, direction: Some(direction) };
        let figures = found.figures(&self.thresholds);
        events.push(event(at, change, "shares_by_round_trip", reason, figures, since));
    }

    fn reconsider_knock(&mut self, at: Duration, direction: Direction, events: &mut Vec<Event>) {
        if self.findings.knocked[direction].is_some_and(|last| at.saturating_sub(last) < MOMENT) {
            return;
        }
        let Some(figures) = knocked_back(&self.flows, direction, &self.thresholds, at) else { return };
        self.findings.knocked[direction] = Some(at);
        let reason = "a far flow's window collapsed while a near flow burst in".to_owned();
        let change = Change::Finding { finding: FindingKind::FarFlowKnockedBack, direction: Some(direction) };
        events.push(event(at, change, "far_window_collapse", reason, figures, at));
    }
}

fn event(
    at: Duration,
    change: Change,
    rule: &'static str,
    reason: String,
    figures: Vec<Figure>,
    since: Duration,
) -> Event {
    let figures = figures.into_iter().filter(|figure| figure.value.is_finite()).collect();
    let evidence = Evidence::new(rule, reason, figures, since.as_secs_f64());
    Event { at_s: at.as_secs_f64(), change, evidence }
}
