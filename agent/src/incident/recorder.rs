//! Keeps the newest samples of a link, and makes an incident of what lasts.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime};

use pendulum_model::degree::Severity;
use pendulum_model::detector::Detector;
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, FindingKind, Verdict};
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::thresholds::Thresholds;
use pendulum_wire as wire;
use serde_json::Value;

use super::table::{MAX_ROWS, SampleRow, columns};
use super::{FlowReading, HeavyFlow, Incident, Store};
use crate::bpf::abi::pendulum_flow_key;
use crate::snapshot::FlowSweep;

/// Recorded before a change, and after it.
const BEFORE: Duration = Duration::from_secs(15);
const AFTER: Duration = Duration::from_secs(60);
/// What ends earlier is not kept.
const LASTS: Duration = Duration::from_secs(10);
/// Flows of one reading that are recorded, those that carried most.
const FLOWS: usize = 24;
/// Flows of the summary.
const HEAVY: usize = 10;
/// Events of a recording, the newest.
const EVENTS: usize = 200;
/// A step of the picture.
const STEP: Duration = Duration::from_secs(1);

/// A flow and its payload each way.
type Carried = (pendulum_flow_key, PerDirection<u64>);

/// The newest samples of one link.
#[derive(Debug)]
pub(crate) struct Recorder {
    link: String,
    store: Option<Store>,
    rows: VecDeque<(Duration, SampleRow)>,
    flows: VecDeque<(Duration, Vec<FlowSample>)>,
    heavy: VecDeque<(Duration, Vec<Carried>)>,
    events: VecDeque<(Duration, Value)>,
    shaper: &'static str,
    open: Option<OpenChange>,
}

/// A change that may last.
#[derive(Debug)]
struct OpenChange {
    at: Duration,
    time: SystemTime,
    event: Event,
    thresholds: Thresholds,
    capacity: PerDirection<Option<f64>>,
    ended: Option<Duration>,
    held: VerdictTimes,
}

/// How long each verdict held while the change lasted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct VerdictTimes([f64; Verdict::ALL.len()]);

impl VerdictTimes {
    pub(super) fn add(&mut self, verdict: Verdict, span: Duration) {
        self.0[verdict as usize] += span.as_secs_f64();
    }

    /// The one that held longest.
    pub(super) fn longest(&self) -> Verdict {
        let held = |verdict: &Verdict| self.0[*verdict as usize];
        Verdict::ALL
            .into_iter()
            .max_by(|one, two| held(one).total_cmp(&held(two)))
            .unwrap_or(Verdict::Unknown)
    }
}

impl OpenChange {
    /// Whether this event says that what began is over.
    fn ends_with(&self, event: &Event) -> bool {
        match (self.event.change, event.change) {
            (Change::Verdict { .. }, Change::Verdict { .. }) => true,
            (
                Change::Finding { finding, direction },
                Change::FindingEnded { finding: ended, direction: ended_in },
            ) => finding == ended && direction == ended_in,
            _ => false,
        }
    }
}

/// What is worth a recording: what hurts. Traffic that starts and stops is not.
fn begins(change: Change) -> bool {
    match change {
        Change::Verdict { to, .. } => {
            matches!(to, Verdict::Swinging | Verdict::LockedUplink | Verdict::LockedDownlink)
        }
        // A recording has the line's buffers: these are elsewhere.
        Change::Finding {
            finding:
                FindingKind::HomeBloat
                | FindingKind::BeyondBloat
                | FindingKind::SenderLimited
                | FindingKind::ReceiverLimited,
            ..
        } => false,
        Change::Finding { .. } => true,
        Change::Phase { .. } | Change::FindingEnded { .. } | Change::ShapeRate { .. } => false,
    }
}

impl Recorder {
    /// Keeps nothing without a store.
    pub(crate) fn new(link: &str, store: Option<Store>) -> Self {
        Self {
            link: link.to_owned(),
            store,
            rows: VecDeque::new(),
            flows: VecDeque::new(),
            heavy: VecDeque::new(),
            events: VecDeque::new(),
            shaper: "off",
            open: None,
        }
    }

    /// The shaper's state now.
    pub(crate) fn set_shaper(&mut self, state: &'static str) {
        self.shaper = state;
    }

    /// Takes in a sample, after the detector. `rtt`: from the gateway to each side and back.
    pub(crate) fn push(&mut self, sample: &Sample, rtt: PerDirection<Option<f64>>, verdict: Verdict) {
        if self.store.is_none() {
            return;
        }
        let previous = self.rows.back().map_or(sample.at.saturating_sub(sample.span), |(at, _)| *at);
        self.rows.push_back((sample.at, SampleRow::of(sample, previous, rtt)));
        if !sample.flows.is_empty() {
            let mut flows = sample.flows.clone();
            flows.sort_by_key(|flow| std::cmp::Reverse(flow.data_bytes));
            flows.truncate(FLOWS);
            flows.shrink_to_fit();
            self.flows.push_back((sample.at, flows));
        }
        if let Some(open) = &mut self.open {
            if open.ended.is_none() {
                open.held.add(verdict, sample.span);
            }
            if sample.at.saturating_sub(open.at) >= AFTER || self.rows.len() >= MAX_ROWS {
                self.finish();
            }
        }
        self.forget(sample.at);
    }

    /// Takes in a reading of the flow table that belongs to the newest samples.
    pub(crate) fn note_flows(&mut self, at: Duration, sweep: &FlowSweep) {
        if self.store.is_none() {
            return;
        }
        let bytes = |row: &crate::snapshot::FlowRow| PerDirection::from_fn(|x| row.halves[x].fresh_bytes);
        let mut heavy: Vec<_> = sweep.rows.iter().map(|row| (row.key, bytes(row))).collect();
        heavy.retain(|(_, bytes)| bytes.up + bytes.down > 0);
        heavy.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.up + bytes.down));
        heavy.truncate(HEAVY);
        heavy.shrink_to_fit();
        self.heavy.push_back((at, heavy));
    }

    /// Takes in what changed: by the detector or by the shaper.
    pub(crate) fn note(&mut self, event: &Event, age: Duration, detector: &Detector) {
        if self.store.is_none() {
            return;
        }
        let at = Duration::try_from_secs_f64(event.at_s).unwrap_or_default();
        if !matches!(event.change, Change::Phase { .. }) {
            self.events.push_back((at, serde_json::to_value(event).unwrap_or_default()));
            if self.events.len() > EVENTS {
                self.events.pop_front();
            }
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.ended.is_none() && open.ends_with(event)) {
            open.ended = Some(at);
            if at.saturating_sub(open.at) < LASTS {
                self.open = None;
            }
        }
        // A lock or swing is recorded for itself, though the delay it brings was found before.
        let is_finding = |open: &OpenChange| matches!(open.event.change, Change::Finding { .. });
        if matches!(event.change, Change::Verdict { .. })
            && begins(event.change)
            && self.open.as_ref().is_some_and(is_finding)
        {
            self.finish();
        }
        if self.open.is_none() && begins(event.change) {
            let now = SystemTime::now();
            self.open = Some(OpenChange {
                at,
                time: now.checked_sub(age).unwrap_or(now),
                event: event.clone(),
                thresholds: detector.thresholds,
                capacity: PerDirection::from_fn(|x| detector.capacity(x).map(|known| known.value)),
                ended: None,
                held: VerdictTimes::default(),
            });
        }
    }

    /// Drops what is too old for a recording that may begin, or has begun.
    fn forget(&mut self, now: Duration) {
        let from = self.open.as_ref().map_or(now, |open| open.at).saturating_sub(BEFORE);
        forget_before(from, &mut self.rows);
        forget_before(from, &mut self.flows);
        forget_before(from, &mut self.heavy);
        forget_before(from, &mut self.events);
    }

    /// Ends a recording. What has not lasted is dropped.
    fn finish(&mut self) {
        let Some(open) = self.open.take() else { return };
        let end = self.rows.back().map_or(open.at, |(at, _)| *at);
        let lasted = open.ended.unwrap_or(end).saturating_sub(open.at);
        let Some(store) = self.store.as_ref().filter(|_| lasted >= LASTS) else { return };
        store.keep(self.incident(&open, lasted, store.names_hosts()));
    }

    fn incident(&self, open: &OpenChange, lasted: Duration, names_hosts: bool) -> Incident {
        let (flow_samples, numbers) = self.numbered();
        let from = self.rows.front().map_or(open.at, |(at, _)| *at);
        let rows: Vec<SampleRow> = self.rows.iter().map(|(_, row)| *row).collect();
        let picture = |x: Direction| {
            let mut steps: Vec<(f64, u32)> = Vec::new();
            for (at, row) in &self.rows {
                let step = ((*at - from).as_nanos() / STEP.as_nanos()) as usize;
                steps.resize(steps.len().max(step + 1), (0.0, 0));
                if let Some(level) = row.level(x) {
                    steps[step] = (steps[step].0 + level, steps[step].1 + 1);
                }
            }
            steps.iter().map(|(sum, count)| (*count > 0).then(|| (sum / f64::from(*count)).round())).collect()
        };
        let event = serde_json::to_value(&open.event).unwrap_or_default();
        let text = |key: &str| event.get(key).and_then(Value::as_str).map(str::to_owned);
        let what = text("finding").or_else(|| text("to")).unwrap_or_default();
        let degree = open.event.degree();
        let time = humantime::format_rfc3339_millis(open.time).to_string();
        let stamp: String = time.chars().take(19).filter(|sign| !matches!(sign, '-' | ':')).collect();
        Incident {
            summary: wire::Incident {
                id: format!("{stamp}Z-{}-{what}", self.link),
                link: self.link.clone(),
                time,
                direction: text("direction").map(Into::into),
                severity: degree.map_or(Severity::Warning, |degree| degree.severity).name().into(),
                lost_ratio: degree.and_then(|degree| degree.lost_ratio),
                reason: open.event.evidence.reason.clone(),
                lasted_s: lasted.as_secs_f64(),
                verdict: open.held.longest().name().into(),
                shaper: self.shaper.to_owned(),
                before_s: open.at.saturating_sub(from).as_secs_f64(),
                step_s: STEP.as_secs_f64(),
                up_queue_bytes: picture(Direction::Up),
                down_queue_bytes: picture(Direction::Down),
                what,
            },
            thresholds: open.thresholds,
            capacity: open.capacity,
            flows: self.heaviest(&numbers, names_hosts),
            events: self.events.iter().map(|(_, event)| event.clone()).collect(),
            rows: rows.len(),
            columns: columns(&rows),
            flow_samples,
        }
    }

    /// The flows by row, each with a number that stands for it.
    fn numbered(&self) -> (Vec<FlowReading>, HashMap<u64, usize>) {
        let mut numbers = HashMap::new();
        let mut readings = Vec::new();
        let micros = |seconds: Option<f64>| seconds.map(|seconds| (seconds * 1e6).round() as i64);
        for (at, flows) in &self.flows {
            let Ok(row) = self.rows.binary_search_by_key(at, |(at, _)| *at) else { continue };
            let flow = |flow: &FlowSample| {
                let next = numbers.len();
                let number = *numbers.entry(flow.id).or_insert(next);
                [
                    Some(number as i64),
                    Some(flow.direction as i64),
                    Some(i64::try_from(flow.data_bytes).unwrap_or(i64::MAX)),
                    flow.in_flight_bytes.map(|bytes| bytes.round() as i64),
                    micros(flow.round_trip),
                    micros(flow.base_round_trip),
                ]
            };
            readings.push((row, flows.iter().map(flow).collect()));
        }
        (readings, numbers)
    }

    fn heaviest(&self, numbers: &HashMap<u64, usize>, names_hosts: bool) -> Vec<HeavyFlow> {
        let mut sums: HashMap<pendulum_flow_key, PerDirection<u64>> = HashMap::new();
        for (key, bytes) in self.heavy.iter().flat_map(|(_, heavy)| heavy) {
            let sum = sums.entry(*key).or_default();
            *sum = PerDirection::from_fn(|x| sum[x] + bytes[x]);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(key, bytes)| (std::cmp::Reverse(bytes.up + bytes.down), *key));
        sums.truncate(HEAVY);
        let flow = |(key, bytes): (pendulum_flow_key, PerDirection<u64>)| HeavyFlow {
            flow: numbers.get(&key.id()).copied(),
            home_port: key.home().port(),
            remote_port: key.remote().port(),
            addresses: names_hosts.then(|| [key.home().ip().to_string(), key.remote().ip().to_string()]),
            bytes,
        };
        sums.into_iter().map(flow).collect()
    }
}

fn forget_before<T>(from: Duration, noted: &mut VecDeque<(Duration, T)>) {
    while noted.front().is_some_and(|(at, _)| *at < from) {
        noted.pop_front();
    }
}

/// At the agent's end, what has lasted until then is kept.
impl Drop for Recorder {
    fn drop(&mut self) {
        self.finish();
    }
}
