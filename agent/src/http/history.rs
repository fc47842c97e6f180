//! `/api/v1/history`: the last quarter of an hour of each link in steps of ten seconds, so that a picture that is opened
//! begins with what was. Bounded: [`KEPT`] steps for each link that is configured.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use pendulum_model::segment::PerDirection;
use pendulum_wire::{self as wire, Name, PerPhase, Step, StepAuto, StepHalf, TickAuto};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::answer::{Refusal, shortened};
use super::{App, json};
use crate::snapshot::{Board, LinkSnapshot};

/// Length of a step.
const STEP: Duration = Duration::from_secs(10);
/// Steps that are kept of a link: 15 minutes.
const KEPT: usize = 90;
/// Between two looks at the links, which publish as often.
const LOOK: Duration = Duration::from_millis(100);
/// Longer than this without news of a link, and its step ends: what was not measured is a gap.
const GAP: Duration = Duration::from_secs(1);

/// The steps of all links.
#[derive(Clone, Debug, Default)]
pub(super) struct History(Arc<Mutex<BTreeMap<Arc<str>, Course>>>);

/// One link.
#[derive(Debug, Default)]
struct Course {
    closed: VecDeque<Step>,
    open: Option<OpenStep>,
}

/// A step that is being measured.
#[derive(Debug)]
struct OpenStep {
    begin: Duration,
    end: Duration,
    number: u64,
    halves: PerDirection<Sums>,
    /// Time in each phase since the agent's start: when the step began, and now.
    phases: Option<([f64; 4], [f64; 4])>,
    verdict: Option<Name>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, values: impl IntoIterator<Item = f64>) {
        for value in values {
            self.sum += value;
            self.count += 1.0;
        }
    }

    fn value(self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }
}

#[derive(Clone, Debug, Default)]
struct Sums {
    queue: Mean,
    uncertainty: Mean,
    ack: Mean,
    peak: Option<f64>,
    throughput: Mean,
    rtt: Mean,
    found: FoundSums,
}

#[derive(Clone, Debug, Default)]
struct FoundSums {
    rate: Mean,
    wait: Mean,
    longest: Option<f64>,
    decisions: BTreeMap<Name, u32>,
}

impl FoundSums {
    fn add(&mut self, found: &TickAuto) {
        self.rate.add([found.rate_bps as f64]);
        self.wait.add(found.waits_behind_s);
        self.longest = found.waits_behind_s.into_iter().chain(self.longest).reduce(f64::max);
        *self.decisions.entry(found.decision.clone()).or_default() += 1;
    }

    fn found(&self) -> Option<StepAuto> {
        let rate_bps = self.rate.value()?;
        let share =
            |(decision, count): (&Name, &u32)| (decision.clone(), f64::from(*count) / self.rate.count);
        Some(StepAuto {
            rate_bps,
            waits_behind_peak_s: self.longest,
            waits_behind_s: self.wait.value(),
            decision_share: self.decisions.iter().map(share).collect(),
        })
    }
}

impl OpenStep {
    fn new(link: &LinkSnapshot, begin: Duration) -> Self {
        let phases = link.findings.as_ref().map(|findings| (findings.phase_seconds, findings.phase_seconds));
        Self { begin, end: begin, number: 0, halves: PerDirection::default(), phases, verdict: None }
    }

    fn add(&mut self, link: &LinkSnapshot) {
        (self.end, self.number) = (end(link), link.tick_number);
        let PerDirection { up, down } = &mut self.halves;
        for (tick, sums) in [(&link.tick.up, up), (&link.tick.down, down)] {
            let levels = || tick.queue_bytes.iter().flatten().copied();
            sums.queue.add(levels());
            sums.peak = levels().chain(sums.peak).reduce(f64::max);
            sums.uncertainty.add(tick.queue_uncertainty_bytes.iter().flatten().copied());
            sums.ack.add(tick.queue_ack_bytes.iter().flatten().copied());
            sums.throughput.add([tick.throughput_bps]);
            sums.rtt.add(tick.rtt_s);
            tick.auto.iter().for_each(|found| sums.found.add(found));
        }
        self.verdict.clone_from(&link.tick.verdict);
        self.phases = self
            .phases
            .map(|(begin, _)| begin)
            .zip(link.findings.as_ref().map(|findings| findings.phase_seconds));
    }

    fn step(&self) -> Step {
        let half = |sums: &Sums| StepHalf {
            queue_bytes: sums.queue.value(),
            queue_uncertainty_bytes: sums.uncertainty.value(),
            queue_peak_bytes: sums.peak,
            queue_ack_bytes: sums.ack.value(),
            throughput_bps: sums.throughput.value(),
            rtt_s: sums.rtt.value(),
            auto: sums.found.found(),
        };
        Step {
            at_s: self.end.as_secs_f64(),
            lasted_s: (self.end - self.begin).as_secs_f64(),
            up: half(&self.halves.up),
            down: half(&self.halves.down),
            phase_share: self.phase_share(),
            verdict: self.verdict.clone(),
        }
    }

    fn phase_share(&self) -> Option<PerPhase> {
        let (begin, now) = self.phases?;
        let spent: [f64; 4] = std::array::from_fn(|phase| (now[phase] - begin[phase]).max(0.0));
        let whole: f64 = spent.iter().sum();
        (whole > 0.0).then(|| spent.map(|seconds| seconds / whole).into())
    }
}

/// End of the newest tick.
fn end(link: &LinkSnapshot) -> Duration {
    Duration::try_from_secs_f64(link.tick.at_s).unwrap_or_default()
}

impl Course {
    /// Takes in the newest tick, once.
    fn note(&mut self, link: &LinkSnapshot) {
        let at = end(link);
        if link.tick_number == 0 || self.open.as_ref().is_some_and(|open| open.number == link.tick_number) {
            return;
        }
        let over = |open: &OpenStep| {
            at < open.end || at - open.end > GAP || open.end.saturating_sub(open.begin) >= STEP
        };
        let before = self.open.take_if(|open| over(open));
        let follows =
            before.as_ref().filter(|open| at >= open.end && at - open.end <= GAP).map(|open| open.end);
        self.closed.extend(before.map(|open| open.step()));
        while self.closed.len() > KEPT {
            self.closed.pop_front();
        }
        let begin = follows.unwrap_or_else(|| at.saturating_sub(LOOK));
        self.open.get_or_insert_with(|| OpenStep::new(link, begin)).add(link);
    }

    /// The step that goes on is reported as far as it has come.
    fn steps(&self) -> Vec<Step> {
        self.closed.iter().cloned().chain(self.open.as_ref().map(OpenStep::step)).collect()
    }
}

impl History {
    fn note(&self, board: &Board) {
        let links = board.snapshots();
        let mut courses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        courses.retain(|name, _| links.iter().any(|link| link.name == *name));
        for link in &links {
            courses.entry(Arc::clone(&link.name)).or_default().note(link);
        }
    }
}

/// Writes down what happens until the agent stops.
pub async fn remember(app: Arc<App>, mut stopping: watch::Receiver<bool>) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            _ = look.tick() => app.history.note(&app.board),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryRequest {
    /// The first link if not given.
    link: Option<String>,
}

pub(super) async fn history(
    State(app): State<Arc<App>>,
    request: Result<Query<HistoryRequest>, QueryRejection>,
) -> Response {
    let refusal = |reason: String| {
        let remedy = "use link=NAME, or nothing for the first link; /api/v1/state lists them".to_owned();
        Refusal { status: StatusCode::BAD_REQUEST, reason, remedy }.into_response()
    };
    let wanted = match request {
        Ok(Query(request)) => request.link,
        Err(error) => return refusal(error.body_text()),
    };
    let links = app.board.snapshots();
    let found = links.iter().find(|link| wanted.as_ref().is_none_or(|name| *link.name == **name));
    let Some(link) = found else {
        return refusal(format!("there is no link {}", shortened(wanted.as_deref().unwrap_or_default())));
    };
    let courses = app.history.0.lock().unwrap_or_else(PoisonError::into_inner);
    let steps = courses.get(&link.name).map(Course::steps).unwrap_or_default();
    json(StatusCode::OK, &wire::History { link: link.name.to_string(), step_s: STEP.as_secs_f64(), steps })
}

#[cfg(test)]
mod tests;
