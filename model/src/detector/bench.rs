//! Where verdicts are weighed: the stretch of two-way traffic they rest on, the dwell that keeps them from flapping,
//! and how long each has held.

use std::time::Duration;

use crate::activity::{Demand, Facts, Scene, assess};
use crate::event::Event;
use crate::findings::{Change, Evidence, Missing, Verdict};
use crate::history::Totals;
use crate::segment::{Direction, PerDirection};
use crate::thresholds::times;
use crate::verdict::{Circumstances, Ruling, is_case_known, judge_one_way, judge_two_way};

use super::Detector;
use super::damping::Damping;

/// A lock that held for this part of the time of one-way traffic is the verdict on the whole: a third of both.
const LOCK_PART: f64 = 0.5;

/// The verdict in force, its challenger, and the record.
#[derive(Clone, Debug, Default)]
pub(super) struct Bench {
    current: Option<Holding>,
    challenger: Option<Challenger>,
    two_way_since: Option<Duration>,
    /// Since when the case has been known without a gap.
    case_known_since: Option<Duration>,
    held_seconds: [f64; Verdict::COUNT],
    /// Time that samples spoke for since verdicts were last weighed, seconds.
    unbooked: f64,
    damping: Damping,
}

/// The verdict in force.
#[derive(Clone, Debug)]
struct Holding {
    ruling: Ruling,
    since: Duration,
    /// Since when only hysteresis has kept it.
    kept_since: Option<Duration>,
}

/// Another verdict, while it has not held for long enough.
#[derive(Clone, Copy, Debug)]
struct Challenger {
    verdict: Verdict,
    since: Duration,
    /// Time that belongs to it if it wins, else to the verdict in force, seconds.
    seconds: f64,
    /// It has been in force before, and takes longer than usual.
    is_put_off: bool,
}

impl Bench {
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.current.as_ref().map(|holding| holding.ruling.verdict)
    }

    pub(super) fn evidence(&self) -> Option<Evidence> {
        let holding = self.current.as_ref()?;
        let mut evidence = evidence(&holding.ruling, holding.since, holding.kept_since);
        if let Some(Challenger { verdict, seconds, .. }) = self.challenger.filter(|it| it.is_put_off) {
            let doubt = format!(
                "; for {seconds:.0} s the newest figures would be {verdict}, which was given up before"
            );
            evidence.reason.push_str(&doubt);
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
        let is_lock = |verdict| matches!(verdict, Verdict::LockedUplink | Verdict::LockedDownlink);
        let lock = of(&is_lock, LOCK_PART * held(&longest)).filter(|_| longest == Verdict::OneWay);
        Some(lock.unwrap_or(longest))
    }

    /// Time each verdict has held. What a challenger may still win counts for the verdict in force until then.
    pub(super) fn held_seconds(&self) -> [f64; Verdict::COUNT] {
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
    fn weigh(&mut self, ruling: Ruling, begin: Duration, at: Duration, dwell: Dwell) -> Option<Event> {
        let passed = std::mem::take(&mut self.unbooked);
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
                Challenger { verdict: ruling.verdict, since: begin, seconds: passed, is_put_off: false }
            }
        };
        let needed = self.damping.dwell(ruling.verdict, at, dwell.usual, dwell.degree);
        if at.saturating_sub(challenger.since) < needed {
            let is_put_off = needed > dwell.usual;
            if is_put_off {
                self.damping.put_off(ruling.verdict, challenger.since, at);
            }
            self.challenger = Some(Challenger { is_put_off, ..challenger });
            return None;
        }
        let from = self.verdict().unwrap_or(Verdict::Clear);
        let (to, since) = (ruling.verdict, challenger.since);
        if is_degree(from) && is_degree(to) {
            self.damping.give_up(from, at);
        }
        let evidence = evidence(&ruling, since, None);
        let first = self.current.replace(Holding { ruling, since, kept_since: None }).is_none();
        self.book(Some(to), challenger.seconds);
        // Nothing changed if the first verdict is what is assumed without one.
        if first && from == to {
            return None;
        }
        Some(Event { at_s: at.as_secs_f64(), change: Change::Verdict { from, to }, evidence })
    }
}

/// How long a new verdict must hold.
#[derive(Clone, Copy, Debug)]
struct Dwell {
    usual: Duration,
    /// Between verdicts that differ by degree.
    degree: Duration,
}

/// Verdicts between which the same traffic may lie. "One way" is one of them where the other way is limited by its application, which is told from how
/// its rate varies.
const fn is_degree(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Clear | Verdict::Unknown)
}

fn evidence(ruling: &Ruling, since: Duration, held_since: Option<Duration>) -> Evidence {
    Evidence {
        rule: ruling.rule,
        reason: ruling.reason.clone(),
        figures: ruling.figures.iter().copied().filter(|figure| figure.value.is_finite()).collect(),
        since_s: since.as_secs_f64(),
        held_since_s: held_since.map(|since| since.as_secs_f64()),
        missing: ruling.missing.clone(),
    }
}

/// A buffer stands if its queue's delay was above `bufferbloat-delay` for this share of the activity time.
const FILLS: f64 = 0.8;

/// Against losses the other way a queue of any height counts that stood for this share of the activity time.
const STANDS: f64 = 0.5;

impl Detector {
    /// Judges activity, verdict and findings anew. The newest sample speaks for `span`.
    pub(super) fn reconsider(&mut self, at: Duration, span: Duration, events: &mut Vec<Event>) {
        let round_trip = self.bounded_round_trip();
        let recent =
            self.history.since(at.saturating_sub(self.thresholds.activity_after(&self.history, round_trip)));
        let fills = PerDirection::from_fn(|x| recent.delayed_share(x) >= FILLS);
        let stands = PerDirection::from_fn(|x| recent.standing_share(x) >= STANDS);
        self.activity = PerDirection::from_fn(|direction| {
            let facts = Facts {
                long_flow_share: self.flows.long_flow_share(direction, self.thresholds.short_flow.0, at),
                capacity: self.capacity(direction).map(|known| known.value),
                fills: fills[direction],
                stands: recent.known_standing_share(direction) >= FILLS,
                opposed: fills[direction.opposite()] || stands[direction.opposite()],
                level_known: self.phases.standing()[direction].is_some(),
            };
            let scene = Scene { history: &self.history, thresholds: &self.thresholds, now: at, round_trip };
            assess(scene, direction, self.activity[direction].demand, facts)
        });
        // A direction that wants nothing any more: other traffic than before.
        if Direction::ALL.into_iter().any(|x| self.activity[x].demand == Demand::None) {
            self.bench.damping.forget();
        }
        match self.rule(at, round_trip, &fills) {
            Some(ruling) => {
                let dwell = self.dwell(ruling.verdict, round_trip);
                events.extend(self.bench.weigh(ruling, at.saturating_sub(span), at, dwell));
            }
            None => self.bench.hold(),
        }
        self.reconsider_findings(at, events);
    }

    /// How long a new verdict must hold. Traffic that starts or stops is plain to see, as is evidence that was missing and comes in; whether two-way
    /// traffic is locked or swings is a matter of degree, and must hold for a good part of the horizon it was judged by.
    fn dwell(&self, verdict: Verdict, round_trip: Duration) -> Dwell {
        let two_way = |verdict| !matches!(verdict, Verdict::OneWay | Verdict::Clear);
        let shortest = self.thresholds.verdict_dwell.0;
        let degree = shortest.max(self.thresholds.horizon(round_trip) / 4);
        let current = self.bench.verdict().filter(|current| *current != Verdict::Unknown);
        let is_degree = two_way(verdict) && current.is_some_and(two_way);
        Dwell { usual: if is_degree { degree } else { shortest }, degree }
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
            self.bench.two_way_since = None;
            // Before the first stretch of activity is full, "no bulk data" would only mean "not looked yet".
            let seen = self.run().seconds >= activity_time.as_secs_f64();
            let start = at.saturating_sub(activity_time);
            let recent = self.history.since(start);
            return seen
                .then(|| judge_one_way(&self.circumstances(start, &recent, &missing), &self.thresholds));
        }
        // Both have been active for most of the activity time already.
        let proven = times(activity_time, self.thresholds.bulk_active_share);
        let since = *self.bench.two_way_since.get_or_insert(at.saturating_sub(proven));
        if at.saturating_sub(since) < evidence_time {
            return None;
        }
        let mut start = since.max(at.saturating_sub(self.thresholds.horizon(round_trip)));
        let mut recent = self.history.since(start);
        if !is_case_known(&recent) {
            // What is known since then may be enough by itself.
            let is_enough = |since: &Duration| at.saturating_sub(*since) >= evidence_time;
            if let Some(known_since) = self.bench.case_known_since.filter(is_enough) {
                start = start.max(known_since);
                recent = self.history.since(start);
            }
        }
        let ruling = judge_two_way(&self.circumstances(start, &recent, &missing), &self.thresholds);
        let finds = !matches!(ruling.verdict, Verdict::Balanced | Verdict::OneWay | Verdict::Unknown);
        if !finds && at.saturating_sub(since) < self.thorough(since, activity_time) {
            return None;
        }
        self.over_longer(ruling, since, at, &missing)
    }

    /// What is found may be said as soon as there is evidence. That nothing is found takes as many of the longest round trips, to see what each
    /// direction wants (`activity_time` was enough for that) and for the evidence.
    fn thorough(&self, since: Duration, activity_time: Duration) -> Duration {
        let longest = self.history.slots_since(since).filter_map(|(_, slot)| slot.mean_round_trip());
        let longest = self.thresholds.bounded_round_trip(longest.fold(0.0, f64::max));
        let missed = self.thresholds.activity_time(longest).saturating_sub(activity_time);
        self.thresholds.evidence_time(longest) + missed
    }

    /// Whether both buffers take turns or stand together is judged by the longest horizon before it is said anew: a swing has a period of many round
    /// trips, and the shares of a few of them say little. `None`: the verdict in force holds on.
    fn over_longer(
        &self,
        ruling: Ruling,
        since: Duration,
        at: Duration,
        missing: &[Missing],
    ) -> Option<Ruling> {
        let turns = |verdict: Verdict| matches!(verdict, Verdict::Swinging | Verdict::Balanced);
        let current = self.bench.verdict();
        if !turns(ruling.verdict) || current == Some(ruling.verdict) || !current.is_some_and(turns) {
            return Some(ruling);
        }
        let start = since.max(at.saturating_sub(self.thresholds.longest_horizon.0));
        let recent = self.history.since(start);
        let mut longer = judge_two_way(&self.circumstances(start, &recent, missing), &self.thresholds);
        if Some(longer.verdict) == current {
            let horizon = self.thresholds.horizon(self.bounded_round_trip()).as_secs_f64();
            let doubt = format!("; the last {horizon:.0} s alone would be {}", ruling.verdict);
            longer.reason.push_str(&doubt);
        }
        turns(longer.verdict).then_some(longer)
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
            current: self.bench.verdict(),
        }
    }

    /// What is not known at present and may keep the case or its cost from being told.
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
        if self.round_trip.is_none() {
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
