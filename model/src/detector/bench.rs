//! Where verdicts are weighed: the stretch of two-way traffic they rest on, the dwell that keeps them from flapping,
//! and how long each has held.

use std::time::Duration;

use crate::activity::{Scene, assess};
use crate::findings::{Change, Event, Evidence, Verdict};
use crate::segment::{Direction, PerDirection};
use crate::thresholds::times;
use crate::verdict::{Circumstances, Ruling, judge_one_way, judge_two_way};

use super::Detector;

/// The verdict in force, its challenger, and the record.
#[derive(Clone, Debug, Default)]
pub(super) struct Bench {
    current: Option<(Ruling, Duration)>,
    /// Since when only hysteresis has kept it.
    held_since: Option<Duration>,
    challenger: Option<(Verdict, Duration)>,
    two_way_since: Option<Duration>,
    held_seconds: [f64; 7],
    counted_to: Duration,
}

impl Bench {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.current.as_ref().map(|(ruling, _)| ruling.verdict)
    }

    pub(super) fn evidence(&self) -> Option<Evidence> {
        self.current.as_ref().map(|(ruling, since)| evidence(ruling, *since, self.held_since))
    }

    /// The verdict that held longest; `Clear` only if nothing else ever held.
    pub(super) fn longest(&self) -> Option<Verdict> {
        let held = |verdict: &Verdict| self.held_seconds[*verdict as usize];
        Verdict::ALL
            .into_iter()
            .filter(|verdict| held(verdict) > 0.0 && *verdict != Verdict::Clear)
            .max_by(|one, two| held(one).total_cmp(&held(two)))
    }

    pub(super) fn held_seconds(&self) -> [f64; 7] {
        self.held_seconds
    }

    /// Weighs a ruling; returns the event if it changes the verdict.
    fn weigh(&mut self, ruling: Ruling, at: Duration, dwell: Duration) -> Option<Event> {
        if let Some(current) = self.verdict() {
            self.held_seconds[current as usize] += at.saturating_sub(self.counted_to).as_secs_f64();
        }
        self.counted_to = at;
        if self.verdict() == Some(ruling.verdict) {
            self.challenger = None;
            self.held_since = ruling.held.then(|| self.held_since.unwrap_or(at));
            if let Some((current, _)) = &mut self.current {
                // Same verdict, fresh figures.
                *current = ruling;
            }
            return None;
        }
        let since = match self.challenger {
            Some((verdict, since)) if verdict == ruling.verdict => since,
            _ => at,
        };
        self.challenger = Some((ruling.verdict, since));
        if at.saturating_sub(since) < dwell {
            return None;
        }
        self.challenger = None;
        let from = self.verdict().unwrap_or(Verdict::Clear);
        let to = ruling.verdict;
        self.held_since = None;
        let evidence = evidence(&ruling, since, None);
        let first = self.current.replace((ruling, since)).is_none();
        // Nothing changed if the first verdict is what is assumed without one.
        if first && from == to {
            return None;
        }
        Some(Event { at_s: at.as_secs_f64(), change: Change::Verdict { from, to }, evidence })
    }
}

fn evidence(ruling: &Ruling, since: Duration, held_since: Option<Duration>) -> Evidence {
    Evidence {
        rule: ruling.rule,
        reason: ruling.reason.clone(),
        figures: ruling.figures.iter().copied().filter(|figure| figure.value.is_finite()).collect(),
        since_s: since.as_secs_f64(),
        held_since_s: held_since.map(|since| since.as_secs_f64()),
    }
}

impl Detector {
    /// Judges activity, verdict and findings anew.
    pub(super) fn reconsider(&mut self, at: Duration, events: &mut Vec<Event>) {
        let round_trip = self.bounded_round_trip();
        self.activity = PerDirection::from_fn(|direction| {
            let share = self.flows.long_flow_share(direction, self.thresholds.short_flow.0, at);
            let scene = Scene { history: &self.history, thresholds: &self.thresholds, now: at, round_trip };
            let capacity = self.capacity(direction).map(|known| known.value);
            assess(scene, direction, self.activity[direction].bulk, share, capacity)
        });
        if let Some(ruling) = self.rule(at, round_trip) {
            let dwell = self.dwell(ruling.verdict, round_trip);
            events.extend(self.bench.weigh(ruling, at, dwell));
        }
        self.reconsider_findings(at, events);
    }

    /// How long a new verdict must hold. Traffic that starts or stops is plain to see; whether two-way traffic is locked
    /// or swings is a matter of degree, and must hold for a good part of the horizon it was judged by.
    fn dwell(&self, verdict: Verdict, round_trip: Duration) -> Duration {
        let two_way = |verdict| !matches!(verdict, Verdict::OneWay | Verdict::Clear);
        let dwell = self.thresholds.verdict_dwell.0;
        if two_way(verdict) && self.bench.verdict().is_some_and(two_way) {
            return dwell.max(self.thresholds.horizon(round_trip) / 4);
        }
        dwell
    }

    /// What the rules say now; `None` while the evidence is too short.
    fn rule(&mut self, at: Duration, round_trip: Duration) -> Option<Ruling> {
        let both = Direction::ALL.into_iter().all(|direction| self.activity[direction].bulk);
        let activity_time = self.thresholds.activity_time(round_trip);
        if !both {
            self.bench.two_way_since = None;
            // Before the first stretch of activity is full, "no bulk data" would only mean "not looked yet".
            let seen = self.run().seconds >= activity_time.as_secs_f64();
            return seen.then(|| judge_one_way(&self.activity, &self.thresholds));
        }
        // Both have been active for most of the activity time already.
        let proven = times(activity_time, self.thresholds.bulk_active_share);
        let since = *self.bench.two_way_since.get_or_insert(at.saturating_sub(proven));
        if at.saturating_sub(since) < self.thresholds.evidence_time(round_trip) {
            return None;
        }
        let start = since.max(at.saturating_sub(self.thresholds.horizon(round_trip)));
        let recent = self.history.since(start);
        // No phase, no verdict about phases.
        if recent.phase_seconds.iter().sum::<f64>() < 0.5 * recent.seconds {
            return None;
        }
        let circumstances = Circumstances {
            recent: &recent,
            capacity: PerDirection::from_fn(|x| self.capacity(x).map(|known| known.value)),
            switches: self.swing.switches_since(start),
            period: self.swing.period_since(start),
            current: self.bench.verdict(),
        };
        Some(judge_two_way(&circumstances, &self.thresholds))
    }
}
