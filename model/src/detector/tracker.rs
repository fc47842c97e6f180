//! The verdict in force. The rules give a ruling four times a second; a filter over them says which verdict holds, so that traffic between two
//! verdicts does not flap.

use std::time::Duration;

use crate::activity::{Demand, Facts, Scene, assess};
use crate::constants::{HALF, MOST};
use crate::event::Event;
use crate::findings::{Change, Evidence, Missing, Verdict};
use crate::history::Totals;
use crate::segment::{Direction, PerDirection};
use crate::thresholds::{Thresholds, times};
use crate::verdict::{Circumstances, Ruling, began, is_case_known, judge_one_way, judge_two_way};

use super::Detector;

/// The rules must have spoken for another verdict so many times as long as for the one in force.
const OUTWEIGHS: f64 = 3.0;

/// The verdict in force, its challenger, and the record.
#[derive(Clone, Debug, Default)]
pub(super) struct VerdictTracker {
    current: Option<Holding>,
    challenger: Option<Challenger>,
    weights: Weights,
    two_way_since: Option<Duration>,
    /// Since when the case has been known without a gap.
    case_known_since: Option<Duration>,
    held_seconds: [f64; Verdict::ALL.len()],
    /// Time that samples spoke for since verdicts were last weighed, seconds.
    unbooked: f64,
}

/// Seconds for which the rules have spoken for each verdict on the present traffic, faded.
#[derive(Clone, Copy, Debug, Default)]
struct Weights([f64; Verdict::ALL.len()]);

impl Weights {
    /// The rules spoke for a verdict for so long.
    fn add(&mut self, verdict: Verdict, seconds: f64, memory: Duration) {
        let kept = (-seconds / memory.as_secs_f64()).exp();
        self.0.iter_mut().for_each(|weight| *weight *= kept);
        self.0[verdict as usize] += seconds;
    }

    /// Whether a verdict outweighs the one in force. Locks and the ends of traffic need no weight: what starves must not be overlooked, and what
    /// is over is plain to see.
    fn allow(&self, verdict: Verdict, current: Verdict) -> bool {
        let outweighs = self.0[verdict as usize] > OUTWEIGHS * self.0[current as usize];
        is_lock(verdict) || is_end(verdict) || is_end(current) || outweighs
    }
}

const fn is_lock(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::LockedUplink | Verdict::LockedDownlink)
}

/// No traffic to judge, or no evidence.
const fn is_end(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Clear | Verdict::Unknown)
}

/// The verdict in force.
#[derive(Clone, Debug)]
struct Holding {
    ruling: Ruling,
    since: Duration,
    /// Since when only hysteresis has kept it.
    kept_since: Option<Duration>,
}

/// Another verdict, while it is not in force.
#[derive(Clone, Copy, Debug)]
struct Challenger {
    verdict: Verdict,
    since: Duration,
    /// Time that belongs to it if it wins, else to the verdict in force, seconds.
    seconds: f64,
}

/// How rulings become a verdict.
#[derive(Clone, Copy, Debug)]
struct Filter {
    /// A new verdict must hold for this long …
    dwell: Duration,
    /// … and outweigh the one in force, by what the rules said in about this time.
    memory: Duration,
}

impl VerdictTracker {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.current.as_ref().map(|holding| holding.ruling.verdict)
    }

    /// Why it holds. `dwell`: a challenger that has lasted for longer is named.
    pub(super) fn evidence(&self, dwell: Duration) -> Option<Evidence> {
        let holding = self.current.as_ref()?;
        let mut evidence = evidence(&holding.ruling, holding.since, holding.kept_since);
        let lasting = self.challenger.filter(|challenger| challenger.seconds >= dwell.as_secs_f64());
        if let Some(Challenger { verdict, seconds, .. }) = lasting {
            evidence.reason.push_str(&format!("; for {seconds:.0} s the newest figures would be {verdict}"));
        }
        Some(evidence)
    }

    /// The verdict that held longest; `Clear` only if nothing else ever held. One-way traffic does not hide a lock that held for a good part of
    /// the time.
    pub(super) fn longest(&self) -> Option<Verdict> {
        let held = |verdict: &Verdict| self.held_seconds[*verdict as usize];
        let of = |among: &dyn Fn(Verdict) -> bool, least: f64| {
            Verdict::ALL
                .into_iter()
                .filter(|verdict| among(*verdict) && held(verdict) > 0.0 && held(verdict) >= least)
                .max_by(|one, two| held(one).total_cmp(&held(two)))
        };
        let longest = of(&|verdict| verdict != Verdict::Clear, 0.0)?;
        let lock = of(&is_lock, HALF * held(&longest)).filter(|_| longest == Verdict::OneWay);
        Some(lock.unwrap_or(longest))
    }

    /// Time each verdict has held. What a challenger may still win counts for the verdict in force until then.
    pub(super) fn held_seconds(&self) -> [f64; Verdict::ALL.len()] {
        let mut held = self.held_seconds;
        if let Some(current) = self.verdict() {
            held[current as usize] += self.challenger.map_or(0.0, |challenger| challenger.seconds);
        }
        held
    }

    /// A sample speaks for this much time: what nobody looked at belongs to no verdict.
    pub(super) fn pass(&mut self, span: Duration) {
        self.unbooked += span.as_secs_f64();
    }

    /// Whether the case is known at `at`.
    pub(super) fn note_case(&mut self, at: Duration, is_known: bool) {
        self.case_known_since = is_known.then(|| self.case_known_since.unwrap_or(at));
    }

    fn book(&mut self, verdict: Option<Verdict>, seconds: f64) {
        if let Some(verdict) = verdict {
            self.held_seconds[verdict as usize] += seconds;
        }
    }

    /// No rule can be applied: the verdict in force holds on.
    fn hold(&mut self) {
        let lost = self.challenger.take().map_or(0.0, |challenger| challenger.seconds);
        let seconds = lost + std::mem::take(&mut self.unbooked);
        self.book(self.verdict(), seconds);
    }

    /// Weighs a ruling about the time from `begin` to `at`; returns the event if it changes the verdict.
    fn weigh(&mut self, ruling: Ruling, begin: Duration, at: Duration, rules: Filter) -> Option<Event> {
        let passed = std::mem::take(&mut self.unbooked);
        self.weights.add(ruling.verdict, passed, rules.memory);
        let before = self.challenger.take();
        if let Some(holding) =
            self.current.as_mut().filter(|holding| holding.ruling.verdict == ruling.verdict)
        {
            let kept = ruling.held.then(|| holding.kept_since.unwrap_or(at));
            // Same verdict, fresh figures.
            *holding = Holding { ruling, since: holding.since, kept_since: kept };
            // Time that a challenger did not win belongs to the verdict that lasts.
            self.book(self.verdict(), before.map_or(0.0, |challenger| challenger.seconds) + passed);
            return None;
        }
        let challenger = match before {
            Some(challenger) if challenger.verdict == ruling.verdict => {
                Challenger { seconds: challenger.seconds + passed, ..challenger }
            }
            other => {
                self.book(self.verdict(), other.map_or(0.0, |challenger| challenger.seconds));
                Challenger { verdict: ruling.verdict, since: begin, seconds: passed }
            }
        };
        let outweighs = self.verdict().is_none_or(|current| self.weights.allow(ruling.verdict, current));
        if at.saturating_sub(challenger.since) < rules.dwell || !outweighs {
            self.challenger = Some(challenger);
            return None;
        }
        let from = self.verdict().unwrap_or(Verdict::Unknown);
        let (to, since) = (ruling.verdict, challenger.since);
        let evidence = evidence(&ruling, since, None);
        let first = self.current.replace(Holding { ruling, since, kept_since: None }).is_none();
        self.book(Some(to), challenger.seconds);
        // At the start: nothing has happened.
        if first && is_end(to) {
            return None;
        }
        Some(Event { at_s: at.as_secs_f64(), change: Change::Verdict { from, to }, evidence })
    }
}

fn evidence(ruling: &Ruling, since: Duration, held_since: Option<Duration>) -> Evidence {
    Evidence {
        rule: ruling.rule.into(),
        reason: ruling.reason.clone(),
        figures: ruling.figures.iter().filter(|figure| figure.value.is_finite()).cloned().collect(),
        since_s: since.as_secs_f64(),
        held_since_s: held_since.map(|since| since.as_secs_f64()),
        missing: ruling.missing.iter().map(|missing| missing.name().into()).collect(),
    }
}

impl Detector {
    /// Judges activity, verdict and findings anew. The newest sample speaks for `span`.
    pub(super) fn reconsider(&mut self, at: Duration, span: Duration, events: &mut Vec<Event>) {
        let round_trip = self.bounded_round_trip();
        let recent =
            self.history.since(at.saturating_sub(self.thresholds.activity_after(&self.history, round_trip)));
        let fills = PerDirection::from_fn(|x| recent.delayed_share(x) >= MOST);
        let stands = PerDirection::from_fn(|x| recent.standing_share(x) >= HALF);
        let young = self.thresholds.activity.0.mul_f64(HALF);
        self.activity = PerDirection::from_fn(|direction| {
            let facts = Facts {
                long_flow_share: self.flows.long_flow_share(direction, young, at),
                capacity: self.capacity(direction).map(|known| known.value),
                fills: fills[direction],
                stands: recent.known_standing_share(direction) >= MOST,
                opposed: fills[direction.opposite()] || stands[direction.opposite()],
                level_known: self.phases.standing()[direction].is_some(),
            };
            let scene = Scene { history: &self.history, thresholds: &self.thresholds, now: at, round_trip };
            assess(scene, direction, self.activity[direction].demand, facts)
        });
        // A direction that wants nothing any more: other traffic than before.
        if Direction::ALL.into_iter().any(|x| self.activity[x].demand == Demand::None) {
            self.tracker.weights = Weights::default();
        }
        let Thresholds { verdict_dwell, longest_horizon, .. } = self.thresholds;
        let ruling = self.rule(at, round_trip, &fills);
        let is_clear = self.tracker.verdict() == Some(Verdict::Clear);
        // Seconds of what wants more already contradict it.
        let contradicted = || is_clear.then(|| began(&self.missing()));
        match ruling.or_else(contradicted) {
            Some(ruling) => {
                // "Clear" goes with its evidence.
                let dwell = if is_clear && ruling.verdict == Verdict::Unknown {
                    Duration::ZERO
                } else {
                    verdict_dwell.0
                };
                // The end of a lock is plain to see; a swing has a period of many round trips.
                let is_locked = self.tracker.verdict().is_some_and(is_lock);
                let memory = if is_locked { self.thresholds.horizon(round_trip) } else { longest_horizon.0 };
                let rules = Filter { dwell, memory };
                events.extend(self.tracker.weigh(ruling, at.saturating_sub(span), at, rules));
            }
            None => self.tracker.hold(),
        }
        self.reconsider_findings(at, events);
    }

    /// What the rules say now; `None` while the evidence is too short.
    fn rule(&mut self, at: Duration, round_trip: Duration, fills: &PerDirection<bool>) -> Option<Ruling> {
        let activity_time = self.thresholds.activity_after(&self.history, round_trip);
        let evidence_time = self.thresholds.evidence_after(&self.history, round_trip);
        // Both directions matter if both want more, or if one does and the other's buffer stands, whatever fills it.
        let matters = |x: Direction| self.activity[x].wants() || fills[x];
        let wanted = Direction::ALL.into_iter().any(|x| self.activity[x].wants());
        let missing = self.missing();
        if !(wanted && matters(Direction::Up) && matters(Direction::Down)) {
            self.tracker.two_way_since = None;
            // Before the first stretch of activity is full, "no bulk data" would only mean "not looked yet".
            let seen = self.run().seconds >= activity_time.as_secs_f64();
            let start = at.saturating_sub(activity_time);
            let recent = self.history.since(start);
            return seen
                .then(|| judge_one_way(&self.circumstances(start, &recent, &missing), &self.thresholds));
        }
        // Both have been active for most of the activity time already.
        let proven = times(activity_time, self.thresholds.bulk_active_share);
        let since = *self.tracker.two_way_since.get_or_insert(at.saturating_sub(proven));
        if at.saturating_sub(since) < evidence_time {
            return None;
        }
        let mut start = since.max(at.saturating_sub(self.thresholds.horizon(round_trip)));
        let mut recent = self.history.since(start);
        if !is_case_known(&recent) {
            // What is known since then may be enough by itself.
            let is_enough = |since: &Duration| at.saturating_sub(*since) >= evidence_time;
            if let Some(known_since) = self.tracker.case_known_since.filter(is_enough) {
                start = start.max(known_since);
                recent = self.history.since(start);
            }
        }
        let ruling = judge_two_way(&self.circumstances(start, &recent, &missing), &self.thresholds);
        let finds = !matches!(ruling.verdict, Verdict::Balanced | Verdict::OneWay | Verdict::Unknown);
        (finds || at.saturating_sub(since) >= self.thorough(since, activity_time)).then_some(ruling)
    }

    /// What is found may be said as soon as there is evidence. That nothing is found takes as many of the longest round trips, to see what each
    /// direction wants (`activity_time` was enough for that) and for the evidence.
    fn thorough(&self, since: Duration, activity_time: Duration) -> Duration {
        let longest = self.history.slots_since(since).filter_map(|(_, slot)| slot.mean_round_trip());
        let longest = self.thresholds.bounded_round_trip(longest.fold(0.0, f64::max));
        let missed = self.thresholds.activity_time(longest).saturating_sub(activity_time);
        self.thresholds.evidence_time(longest) + missed
    }

    /// What happened from `start` on.
    fn circumstances<'a>(
        &self,
        start: Duration,
        recent: &'a Totals,
        missing: &'a [Missing],
    ) -> Circumstances<'a> {
        Circumstances {
            recent,
            activity: self.activity,
            capacity: PerDirection::from_fn(|x| self.capacity(x).map(|known| known.value)),
            switches: self.swing.switches_since(start),
            period: self.swing.period_since(start),
            missing,
            current: self.tracker.verdict(),
        }
    }

    /// What is not known at present and may keep the case or its cost from being known.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        for x in Direction::ALL {
            if self.phases.standing()[x].is_none() {
                missing.push(Missing::queue(x));
            }
            if self.capacity(x).is_none() {
                missing.push(Missing::rate(x));
            }
        }
        if self.recent_round_trip().is_none() {
            missing.push(Missing::RoundTrip);
        }
        if !self.base_round_trip().is_some_and(|base| base.is_proven) {
            missing.push(Missing::BaseRoundTrip);
        }
        missing
    }
}

#[cfg(test)]
mod missing;
#[cfg(test)]
mod tests;
