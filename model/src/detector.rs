//! The detector: samples in, events out, state on request.
//!
//! ```
//! use pendulum_model::detector::{Config, Detector};
//! use pendulum_model::link::Link;
//! use pendulum_model::sample::Sample;
//!
//! let link = Link::with_capacity(24_500.0, 300_000.0); // 196 kbit/s up, 2.4 Mbit/s down
//! let mut detector = Detector::new(Config { link, ..Config::default() });
//! for event in detector.push(&Sample::default()) {
//!     println!("{event:?}");
//! }
//! println!("{:?}", detector.verdict());
//! ```
//!
//! It reads no clock: time is what the samples say. Memory is bounded whatever comes in, and no figure it returns is
//! ever NaN or infinite: what a source gets wrong is dropped at the door and counted.

mod findings;
mod intervals;
mod passed;
mod state;
mod tracker;

use std::time::Duration;

use crate::activity::Activity;
use crate::capacity::Capacity;
use crate::certainty;
use crate::constants::{BLIND, MOMENT};
use crate::event::Event;
use crate::findings::{Change, Evidence, Phase, Verdict};
use crate::flows::FlowTable;
use crate::history::{History, Totals};
use crate::link::{Known, Link};
use crate::phase::{PhaseChange, PhaseInput, PhaseSource, PhaseTracker};
use crate::sample::{BaseRoundTrip, DirectionSample, MeasuredRate, QueueSample, QueueSource, Sample, sane};
use crate::segment::{Direction, PerDirection};
use crate::swing::Swing;
use crate::thresholds::Thresholds;

use findings::ActiveFindings;
use passed::Passed;
pub use state::{DetectorState, DirectionState};
use tracker::VerdictTracker;

/// Verdicts are reconsidered this often.
const RECONSIDER: Duration = Duration::from_millis(250);

/// What the detector needs to know beforehand.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What is known of the link; capacities that are not are learnt.
    pub link: Link,
    /// The numbers it compares with.
    pub thresholds: Thresholds,
}

/// Finds the pendulum in a stream of samples of one link.
#[derive(Clone, Debug, Default)]
pub struct Detector {
    /// What is known of the link now.
    pub link: Link,
    /// The most that packets wait on the line, by the delay budget, seconds.
    pub line_most_s: Option<f64>,
    /// By the delay budget, what waits in this direction may wait beyond the line.
    pub may_be_beyond: PerDirection<bool>,
    /// The numbers it compares with.
    pub thresholds: Thresholds,
    last: Option<Duration>,
    rejected: u64,
    round_trip: Option<f64>,
    round_trip_at: Duration,
    base: Option<BaseRoundTrip>,
    phases: PhaseTracker,
    transitions: [[u64; 4]; 4],
    swing: Swing,
    history: History,
    passed: PerDirection<Passed>,
    flows: FlowTable,
    activity: PerDirection<Activity>,
    tracker: VerdictTracker,
    findings: ActiveFindings,
    reconsidered: Option<Duration>,
}

impl Detector {
    /// A detector that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self { link: config.link, thresholds: config.thresholds, ..Self::default() }
    }

    /// Takes in one interval. Samples that do not follow the one before in time are rejected and counted.
    pub fn push(&mut self, sample: &Sample) -> Vec<Event> {
        if self.last.is_some_and(|last| sample.at <= last) {
            self.rejected += 1;
            return Vec::new();
        }
        let span = self.last.map_or(sample.span, |last| sample.span.min(sample.at - last));
        self.note_gap(sample, span);
        self.last = Some(sample.at);
        self.note_round_trip(sample);
        for x in Direction::ALL {
            if let Some(rate) = sample.link[x].rate {
                let is_elsewhere = self.is_elsewhere(&sample.link[x], rate);
                self.passed[x].note_rate(rate, is_elsewhere);
            }
        }
        self.flows.push(sample.at, &sample.flows);

        let mut events = Vec::new();
        let input = self.phase_input(sample, span);
        if let Some(change) = self.phases.push(&input, &self.thresholds) {
            events.push(self.phase_event(sample.at, &change));
            if let Some(from) = change.from {
                self.transitions[from as usize][change.to as usize] += 1;
            }
            self.swing.push(change.to, change.since);
        }
        self.record(sample, span, &input.window);
        self.tracker.pass(span);
        self.tracker.note_case(sample.at, self.phases.current().is_some());
        // Counted from the first sample, so that the origin of the clock changes nothing.
        let reconsidered = *self.reconsidered.get_or_insert(sample.at);
        if sample.at.saturating_sub(reconsidered) >= RECONSIDER {
            self.reconsidered = Some(sample.at);
            self.reconsider(sample.at, span, &mut events);
        }
        events
    }

    /// The budget's bound of the wait on the line, seconds; none for a level that is read, whatever the budget says.
    fn line_bound(&self, level: Option<QueueSample>) -> Option<f64> {
        let is_read = level.is_some_and(|queue| queue.source != QueueSource::Estimate);
        self.line_most_s.filter(|_| !is_read)
    }

    /// Whether an estimated level, at the rate that was measured of it, makes wait longer than the budget leaves to the line: then it is a queue
    /// beyond the line, and its rate is not the line's.
    fn is_elsewhere(&self, seen: &DirectionSample, rate: MeasuredRate) -> bool {
        let surely = seen.queue.map(|queue| queue.mean_bytes - queue.uncertainty_bytes);
        let bound_s = self.line_bound(seen.queue);
        surely.zip(bound_s).is_some_and(|(bytes, most_s)| bytes / rate.bytes_per_second > most_s)
    }

    /// What is known of `C_x`.
    pub fn rates(&self, direction: Direction) -> Capacity {
        Capacity::new(&self.link, direction, self.passed[direction].rate(), self.now())
    }

    /// `C_x` in bytes per second and where it comes from: the one that counts.
    pub fn capacity(&self, direction: Direction) -> Option<Known> {
        self.rates(direction).counting().map(|counting| counting.known)
    }

    /// The rate measured from the traffic, whichever counts.
    pub fn measured_rate(&self, direction: Direction) -> Option<MeasuredRate> {
        self.rates(direction).measured
    }

    /// The case that holds and since when; `None` without evidence.
    pub fn phase(&self) -> Option<(Phase, Duration)> {
        self.phases.current()
    }

    /// `d_x`, bytes; `None` for a buffer that cannot be seen.
    pub fn standing_bytes(&self, direction: Direction) -> Option<f64> {
        self.phases.standing()[direction]
    }

    /// Samples rejected because they did not follow in time.
    pub fn rejected_samples(&self) -> u64 {
        self.rejected
    }

    /// Sums over the whole run.
    pub fn run(&self) -> &Totals {
        self.history.run()
    }

    /// Changes between cases since the start, `[from][to]` in [`Phase`] order.
    pub fn transitions(&self) -> &[[u64; 4]; 4] {
        &self.transitions
    }

    /// Mean period of the swing over the whole run, seconds.
    pub fn run_swing_period(&self) -> Option<f64> {
        self.swing.run_period()
    }

    /// The verdict now, [`Verdict::Unknown`] until there is evidence for another.
    pub fn verdict(&self) -> Verdict {
        self.tracker.verdict().unwrap_or(Verdict::Unknown)
    }

    /// The verdict that held longest, for a report on a whole capture. Where bulk traffic was judged at all, stretches
    /// without it do not count, and one-way traffic does not hide a lock that held at least half as long.
    pub fn overall_verdict(&self) -> Verdict {
        self.tracker.longest().unwrap_or_else(|| self.verdict())
    }

    fn now(&self) -> Duration {
        self.last.unwrap_or_default()
    }

    /// The newest round trip, if it is of the present: one of earlier traffic says nothing of the buffers now. Seconds.
    fn recent_round_trip(&self) -> Option<f64> {
        self.round_trip.filter(|_| self.now().saturating_sub(self.round_trip_at) <= MOMENT)
    }

    /// The scale of time: the newest round trip of whatever age.
    fn bounded_round_trip(&self) -> Duration {
        self.thresholds
            .bounded_round_trip(self.round_trip.unwrap_or(self.thresholds.assumed_round_trip.seconds()))
    }

    fn note_gap(&mut self, sample: &Sample, span: Duration) {
        let Some(last) = self.last else { return };
        let missing = (sample.at - last).saturating_sub(span);
        if missing > BLIND.max(self.bounded_round_trip()) {
            self.phases.interrupt();
        }
    }

    fn note_round_trip(&mut self, sample: &Sample) {
        if let Some(seconds) = sample.round_trip.and_then(sane).filter(|seconds| *seconds > 0.0) {
            self.round_trip = Some(seconds);
            self.round_trip_at = sample.at;
        }
        let is_usable = |base: &BaseRoundTrip| sane(base.seconds).is_some_and(|seconds| seconds > 0.0);
        self.base = sample.base_round_trip.filter(is_usable).or(self.base);
    }

    fn phase_input(&mut self, sample: &Sample, span: Duration) -> PhaseInput {
        let round_trip = self.bounded_round_trip();
        let since = sample.at.saturating_sub(round_trip);
        let known_round_trip = self.recent_round_trip();
        let queue = PerDirection::from_fn(|x| self.known_queue(x, sample.link[x].queue));
        let window = PerDirection::from_fn(|x| {
            let passed = self.passed[x].push_load(sample.at, since, &sample.link[x]);
            // Part of the window stands in the direction's own buffer: where the round trip is known in part only (a
            // download alone), that is the better figure.
            let standing = queue[x].map(|queue| queue.mean_bytes);
            let known = [known_round_trip.map(|_| passed), standing.filter(|_| passed > 0.0)];
            known.into_iter().flatten().reduce(f64::max)
        });
        PhaseInput {
            at: sample.at,
            span,
            // Of a level that is not known, what is beyond doubt stands.
            queue: PerDirection::from_fn(|x| {
                let surely = || certainty::surely(sample.link[x].queue, &self.thresholds);
                queue[x].map(|queue| queue.min_bytes).or_else(surely)
            }),
            window,
            capacity: PerDirection::from_fn(|x| self.capacity(x).map(|known| known.value)),
            round_trip,
            base_round_trip: self.base_round_trip().map(|base| base.seconds),
        }
    }

    /// The level of a buffer, if it is known well enough.
    fn known_queue(&self, direction: Direction, queue: Option<QueueSample>) -> Option<QueueSample> {
        let capacity = self.capacity(direction).map(|known| known.value);
        certainty::known(queue, capacity, &self.thresholds)
    }

    /// The round trip without queues, as the source gave it last.
    pub fn base_round_trip(&self) -> Option<BaseRoundTrip> {
        self.base
    }

    fn phase_event(&self, at: Duration, change: &PhaseChange) -> Event {
        let rule = match self.phases.source() {
            Some(PhaseSource::Windows) => "windows",
            Some(PhaseSource::QueueAndWindows) => "standing_queue_and_windows",
            _ => "standing_queues",
        };
        let reason = match change.to {
            Phase::UplinkBound => "only the uplink buffer holds a standing queue (case 1)",
            Phase::DownlinkBound => "only the downlink buffer holds a standing queue (case 2)",
            Phase::Balanced => "both buffers hold a standing queue (case 3)",
            Phase::Idle => "neither buffer holds a standing queue",
        };
        let evidence =
            Evidence::new(rule, reason, self.phases.figures(&self.thresholds), change.since.as_secs_f64());
        let dwell_s = change.dwell.as_secs_f64();
        Event {
            at_s: at.as_secs_f64(),
            change: Change::Phase { from: change.from, to: change.to, dwell_s },
            evidence,
        }
    }
}

#[cfg(test)]
mod tests;
