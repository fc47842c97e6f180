//! One replay: the frames of both captures in the order of time, through meter, queues and detector.

use std::path::PathBuf;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::findings::Event;
use pendulum_model::link::{Known, Link, Provenance};
use pendulum_model::rate::Rate;
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};

use super::capture::{Capture, CaptureError, Record};
use super::flow::FlowKey;
use super::intervals::Intervals;
use super::meter::{Meter, MeterConfig, Observation};
use super::orientation::{Evidence, Orientation, Prefix};
use super::packet::{Packet, outline, parse};
use super::queue::Queue;
use super::queue::delay::{Answer, DelayQueue};
use super::queue::exact::{Crossings, ExactQueue, Sighting};
use super::survey::{self, Surveyed, direction_of};
use super::table::Entry;
use super::tally::Tally;

/// Flows are read this often.
const FLOWS_NS: u64 = 1_000_000_000;

/// What to replay.
#[derive(Clone, Debug)]
pub struct Task {
    /// Capture on the bottleneck side of the gateway.
    pub wan: PathBuf,
    /// Capture on the home side.
    pub lan: Option<PathBuf>,
    /// Link rates, where known.
    pub rates: PerDirection<Option<Rate>>,
    /// Home addresses, if the user names them.
    pub home: Vec<Prefix>,
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture could not be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// There is nothing to measure.
    #[error("capture {} holds no packet with a time; was it taken on the right device?", .0.display())]
    Empty(PathBuf),
}

/// Is told how far a replay is.
pub trait Watch {
    /// A pass over a file of this many bytes begins.
    fn begin(&self, what: &'static str, bytes: u64);
    /// So many bytes of it have been read.
    fn at(&self, bytes: u64);
}

/// Is given everything that comes out of a replay, in the order of time.
pub trait Audience {
    /// An interval, after the detector has taken it in.
    fn sample(&mut self, sample: &Sample, detector: &Detector);
    /// A phase change or finding.
    fn event(&mut self, event: &Event);
    /// A flow that is over or forgotten. `at_lan`: the same at the LAN capture.
    fn flow(&mut self, key: &FlowKey, tally: &Tally, at_lan: Option<&Tally>);
}

/// What is known when all is read.
#[derive(Debug)]
pub struct Outcome {
    /// Counters, losses.
    pub meter: Meter<Tally>,
    /// Phases, verdict.
    pub detector: Detector,
    /// From the first to the last packet of the WAN capture, seconds.
    pub duration_s: f64,
    /// Frames of the WAN capture, and of the LAN capture.
    pub frames: (u64, u64),
    /// What decided which end is home.
    pub evidence: Option<Evidence>,
    /// What became of the packets between the captures.
    pub crossings: Option<Crossings>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Replay one or two captures.
///
/// # Errors
/// If a capture cannot be read, or holds nothing.
pub fn replay(task: &Task, watch: &dyn Watch, audience: &mut dyn Audience) -> Result<Outcome, ReplayError> {
    let Some(mut surveyed) = survey::survey(&task.wan, task.lan.as_deref(), &task.home)? else {
        return Err(ReplayError::Empty(task.wan.clone()));
    };
    let link = Link { capacity: capacities(task, &mut surveyed, watch)?, ..Link::default() };
    let mut session = Session::open(task, surveyed, link)?;
    watch.begin("replaying", session.wan.file_bytes());
    session.run(watch, audience)?;
    Ok(session.finish(audience))
}

fn capacities(
    task: &Task,
    surveyed: &mut Surveyed,
    watch: &dyn Watch,
) -> Result<PerDirection<Option<Known>>, CaptureError> {
    let learnt = if Direction::ALL.into_iter().all(|x| task.rates[x].is_some()) {
        PerDirection::default()
    } else {
        survey::learn_rates(&task.wan, &mut surveyed.orientation, watch)?
    };
    for x in Direction::ALL.into_iter().filter(|x| task.rates[*x].is_none()) {
        if learnt[x].is_some_and(|learnt| learnt.lower_bound) {
            let name = x.name();
            surveyed.warnings.push(format!(
                "the {name}link was never full for a second: its rate is a lower bound; give it with --{name}link-rate"
            ));
        }
    }
    Ok(PerDirection::from_fn(|x| {
        let told = task.rates[x].map(|rate| Known::config(rate.bytes_per_second()));
        told.or(learnt[x].map(|learnt| Known { value: learnt.rate, provenance: Provenance::Learnt }))
    }))
}

struct Session {
    wan: Capture,
    lan: Option<Capture>,
    origin_ns: u64,
    lan_offset_ns: i64,
    orientation: Orientation,
    meter: Meter<Tally>,
    lan_meter: Meter<Tally>,
    intervals: Intervals,
    detector: Detector,
    active: Vec<FlowKey>,
    flows_due_ns: u64,
    flows_seen: u64,
    last_ns: u64,
    unoriented: u64,
    warnings: Vec<String>,
}

impl Session {
    fn open(task: &Task, surveyed: Surveyed, link: Link) -> Result<Self, CaptureError> {
        let lan = task.lan.as_deref().map(Capture::open).transpose()?;
        let delay = |x: Direction| match link.capacity(x) {
            Some(rate) => Queue::Delay(Box::new(DelayQueue::new(0, x, rate, link.capacity(x.opposite())))),
            None => Queue::Unknown,
        };
        let queues = PerDirection {
            up: match lan {
                Some(_) => Queue::Exact(Box::new(ExactQueue::new(0, surveyed.translates))),
                None => delay(Direction::Up),
            },
            down: delay(Direction::Down),
        };
        Ok(Self {
            wan: Capture::open(&task.wan)?,
            lan,
            origin_ns: surveyed.origin_ns,
            lan_offset_ns: surveyed.lan_offset_ns,
            orientation: surveyed.orientation,
            meter: Meter::new(MeterConfig::default()),
            lan_meter: Meter::new(MeterConfig::default()),
            intervals: Intervals::new(queues),
            detector: Detector::new(Config { link, ..Config::default() }),
            active: Vec::new(),
            flows_due_ns: FLOWS_NS,
            flows_seen: 0,
            last_ns: 0,
            unoriented: 0,
            warnings: surveyed.warnings,
        })
    }

    fn run(&mut self, watch: &dyn Watch, audience: &mut dyn Audience) -> Result<(), CaptureError> {
        let mut has_lan = match &mut self.lan {
            Some(lan) => lan.advance()?,
            None => false,
        };
        while self.wan.advance()? {
            let Some(wan_ns) = self.wan.record().map(|record| record.time_ns) else { break };
            let wan_ns = wan_ns.saturating_sub(self.origin_ns);
            while has_lan {
                let Some(lan_ns) = self.lan_time_ns() else { break };
                // At the same time the LAN comes first: what passes an empty buffer at once has entered it before.
                if lan_ns > i128::from(wan_ns) {
                    break;
                }
                if let Ok(at_ns) = u64::try_from(lan_ns) {
                    self.on_lan(at_ns);
                }
                has_lan = match &mut self.lan {
                    Some(lan) => lan.advance()?,
                    None => false,
                };
            }
            // A packet of another queue of the device may come a little late: time never runs backwards.
            self.last_ns = self.last_ns.max(wan_ns);
            self.on_wan(self.last_ns, audience);
            watch.at(self.wan.read_bytes());
        }
        Ok(())
    }

    /// Time of the LAN capture's packet, from the first packet of the WAN capture on; negative before it.
    fn lan_time_ns(&self) -> Option<i128> {
        let record = self.lan.as_ref()?.record()?;
        Some(i128::from(record.time_ns) + i128::from(self.lan_offset_ns) - i128::from(self.origin_ns))
    }

    fn on_lan(&mut self, at_ns: u64) {
        let Some(record) = self.lan.as_ref().and_then(Capture::record) else { return };
        let frame = record.frame();
        let packet = parse(&frame);
        let Some(direction) = direction_of(&mut self.orientation, &record, &packet) else { return };
        let Queue::Exact(queue) = self.intervals.queue(Direction::Up) else { return };
        match packet {
            Packet::Tcp(segment) => {
                let local =
                    self.orientation.is_home(segment.source) && self.orientation.is_home(segment.destination);
                if direction == Direction::Up && !local {
                    queue.enter(at_ns, &Sighting::of_segment(FlowKey::of(&segment, direction), &segment));
                }
                let observation = self.lan_meter.observe_packet(direction, at_ns, &frame, packet);
                if let (Some(observed), Some((_, entry))) = (observation.observed, observation.flow) {
                    let Entry { flow, note } = entry;
                    note.note(direction, at_ns, &segment, &observed, flow);
                }
            }
            _ => {
                if let (Direction::Up, Some(outline)) = (direction, outline(&frame))
                    && !self.orientation.is_home(outline.destination)
                {
                    queue.enter(at_ns, &Sighting::of_outline(&outline));
                }
            }
        }
    }

    fn on_wan(&mut self, now_ns: u64, audience: &mut dyn Audience) {
        if self.intervals.is_due(now_ns) {
            if now_ns >= self.flows_due_ns {
                self.read_flows(now_ns);
            }
            let detector = &mut self.detector;
            self.intervals.advance(now_ns, &mut |sample| pass_on(sample, detector, audience));
        }
        let Some(record) = self.wan.record() else { return };
        let packet = parse(&record.frame());
        let Some(direction) = direction_of(&mut self.orientation, &record, &packet) else {
            self.unoriented += 1;
            return;
        };
        pass_queues(&mut self.intervals, direction, now_ns, &record, &packet);
        let observation = self.meter.observe_packet(direction, now_ns, &record.frame(), packet);
        let wire_bytes =
            observation.segment.map_or(u64::from(record.frame().frame_bytes()), |s| s.wire_bytes());
        self.intervals.count(direction, &observation, wire_bytes);
        if let Some((key, entry)) = &observation.evicted {
            audience.flow(key, &entry.note, self.lan_meter.table().get(key).map(|lan| &lan.note));
        }
        note(&mut self.intervals, &mut self.active, &mut self.flows_seen, direction, now_ns, observation);
    }

    /// Tell the open interval what the flows did since they were last read.
    fn read_flows(&mut self, now_ns: u64) {
        self.flows_due_ns = now_ns / FLOWS_NS * FLOWS_NS + FLOWS_NS;
        let mut samples = Vec::new();
        for key in std::mem::take(&mut self.active) {
            let Some(entry) = self.meter.table_mut().get_mut(&key) else { continue };
            let note = &mut entry.note;
            note.listed = false;
            for direction in Direction::ALL {
                let data_bytes = std::mem::take(&mut note.halves[direction as usize].fresh_bytes);
                if data_bytes == 0 {
                    continue;
                }
                let half = &note.halves[direction as usize];
                let both = |pick: fn(&super::tally::Turns) -> Option<u32>| {
                    let [up, down] = &note.halves;
                    Some(f64::from(pick(&up.turns)?) / 1e6 + f64::from(pick(&down.turns)?) / 1e6)
                };
                samples.push(FlowSample {
                    id: note.id,
                    direction,
                    data_bytes,
                    in_flight_bytes: Some(f64::from(half.in_flight.now())),
                    round_trip: both(|turns| turns.last_us),
                    base_round_trip: both(|turns| turns.min_us),
                });
            }
        }
        self.intervals.note_flows(samples);
    }

    fn finish(mut self, audience: &mut dyn Audience) -> Outcome {
        self.read_flows(self.last_ns);
        let detector = &mut self.detector;
        self.intervals.finish(self.last_ns, &mut |sample| pass_on(sample, detector, audience));
        for (key, entry) in self.meter.drain() {
            audience.flow(&key, &entry.note, self.lan_meter.table().get(&key).map(|lan| &lan.note));
        }
        let crossings = match &self.intervals.queues().up {
            Queue::Exact(queue) => Some(queue.crossings()),
            _ => None,
        };
        self.warn(crossings);
        Outcome {
            duration_s: self.last_ns as f64 / 1e9,
            frames: (self.wan.notes().frames, self.lan.as_ref().map_or(0, |lan| lan.notes().frames)),
            evidence: self.orientation.evidence(),
            meter: self.meter,
            detector: self.detector,
            crossings,
            warnings: self.warnings,
        }
    }

    fn warn(&mut self, crossings: Option<Crossings>) {
        for capture in [Some(&self.wan), self.lan.as_ref()].into_iter().flatten() {
            let (path, notes) = (capture.path().display(), capture.notes());
            if let Some(offset) = notes.cut_off_at {
                self.warnings
                    .push(format!("{path} is cut off at byte {offset}: the packets before it were used"));
            }
            if notes.unusable > 0 {
                let unusable = notes.unusable;
                self.warnings.push(format!(
                    "{unusable} packets of {path} carry no time or an unknown link header and were left out"
                ));
            }
        }
        if self.unoriented > 0 {
            let unoriented = self.unoriented;
            self.warnings.push(format!(
                "{unoriented} packets between unknown addresses were left out; name yours with --home PREFIX"
            ));
        }
        for direction in Direction::ALL {
            if let Queue::Delay(queue) = &self.intervals.queues()[direction]
                && queue.unconfirmed() * 2 > queue.answers()
            {
                let name = direction.name();
                self.warnings.push(format!(
                    "the {name}link was always busy: a queue that never drained would not show, and the estimate of its \
                     queue is a lower bound"
                ));
            }
        }
        if let Some(Crossings { matched, unmatched, .. }) = crossings
            && unmatched * 20 > matched
        {
            self.warnings.push(format!(
                "{unmatched} of {} packets that left were not seen on the LAN side: the uplink queue is a lower bound",
                matched + unmatched
            ));
        }
    }
}

/// A packet of the WAN capture at the two buffers; its answers come later ([`note`]).
fn pass_queues(
    intervals: &mut Intervals,
    direction: Direction,
    now_ns: u64,
    record: &Record<'_>,
    packet: &Packet,
) {
    let frame = record.frame();
    match intervals.queue(direction) {
        Queue::Exact(queue) => {
            let sighting = match packet {
                Packet::Tcp(segment) => Some(Sighting::of_segment(FlowKey::of(segment, direction), segment)),
                _ => outline(&frame).as_ref().map(Sighting::of_outline),
            };
            if let Some(sighting) = sighting {
                queue.leave(now_ns, &sighting, frame.frame_bytes());
            }
        }
        Queue::Delay(queue) => queue.pass(now_ns, frame.frame_bytes()),
        Queue::Unknown => {}
    }
}

/// Note a segment in its flow, and what its end's delay tells about the queue.
fn note(
    intervals: &mut Intervals,
    active: &mut Vec<FlowKey>,
    flows_seen: &mut u64,
    direction: Direction,
    now_ns: u64,
    observation: Observation<'_, Tally>,
) {
    let (Some(segment), Some(observed), Some((key, entry))) =
        (observation.segment, observation.observed, observation.flow)
    else {
        return;
    };
    let Entry { flow, note } = entry;
    if note.id == 0 {
        *flows_seen += 1;
        note.id = *flows_seen;
    }
    let turn = note.note(direction, now_ns, &segment, &observed, flow);
    if segment.payload_bytes > 0 && !note.listed {
        note.listed = true;
        active.push(key);
    }
    let Some(turn) = turn else { return };
    intervals.note_turn(direction, now_ns, f64::from(turn.us) / 1e6);
    if let Queue::Delay(queue) = intervals.queue(direction) {
        queue.observe(&Answer {
            at_ns: now_ns,
            end: match direction {
                Direction::Up => key.home_addr,
                Direction::Down => key.remote_addr,
            },
            delay_ns: u64::from(turn.us) * 1000,
            question_bytes: turn.question_bytes,
            answer_bytes: segment.frame_bytes,
        });
    }
}

fn pass_on(sample: &Sample, detector: &mut Detector, audience: &mut dyn Audience) {
    for event in detector.push(sample) {
        audience.event(&event);
    }
    audience.sample(sample, detector);
}
