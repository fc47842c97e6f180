//! The frames of both captures in the order of time, through meter, queues and detector.

use pendulum_model::constants::HALF;
use pendulum_model::detector::{Config, Detector};
use pendulum_model::link::Link;
use pendulum_model::observer::{Observer, Vantage};
use pendulum_model::sample::{FlowSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};
use std::time::Duration;

use super::super::account::Account;
use super::super::capture::{Capture, CaptureError, Progress, Record};
use super::super::flow::FlowKey;
use super::super::intervals::Intervals;
use super::super::meter::Meter;
use super::super::notes::Notes;
use super::super::orientation::Orientation;
use super::super::packet::{Packet, outline, parse};
use super::super::queue::Buffers;
use super::super::queue::exact::{Crossings, ExactQueue, Sighting};
use super::super::survey::{Surveyed, direction_of};
use super::super::table::Entry;
use super::super::tally::{InFlight, Tally, Turns};
use super::super::timeline::Source;
use super::super::vantage_detection::DetectedVantage;
use super::{Audience, Outcome, Task};

/// An interval waits this long for answers that tell of the uplink's buffer.
const LAG: Duration = Duration::from_secs(3);

/// Flows are read this often.
const FLOWS_NS: u64 = 1_000_000_000;

pub(super) struct Session {
    wan: Capture,
    lan: Option<Capture>,
    origin_ns: u64,
    lan_offset_ns: i64,
    orientation: Orientation,
    meter: Meter<Tally>,
    lan_meter: Meter<InFlight>,
    intervals: Intervals,
    detector: Detector,
    notes: Notes,
    detected: DetectedVantage,
    flows_due_ns: u64,
    last_ns: u64,
    account: Account,
    warnings: Vec<String>,
}

impl Session {
    pub(super) fn open(
        task: &Task,
        (wan, lan): (&Source, Option<&Source>),
        surveyed: Surveyed,
        detected: DetectedVantage,
        link: Link,
    ) -> Result<Self, CaptureError> {
        let lan = lan.map(Source::open).transpose()?;
        let configured = PerDirection::from_fn(|x| link.capacity(x));
        let observer = |vantage, rates| {
            let mut observer = Observer::new(0, vantage, LAG);
            observer.set_rates(configured, configured.up);
            observer.set_first_rates(rates);
            observer
        };
        let exact =
            (detected.vantage == Vantage::Both).then(|| Box::new(ExactQueue::new(0, surveyed.translates)));
        let mut buffers = Buffers::new(observer(detected.vantage, detected.rates), exact);
        if let Some((vantage, rates)) = detected.other {
            buffers.doubt(observer(vantage, rates));
        }
        Ok(Self {
            wan: wan.open()?,
            lan,
            origin_ns: surveyed.origin_ns,
            lan_offset_ns: surveyed.lan_offset_ns,
            orientation: surveyed.orientation,
            meter: Meter::default(),
            lan_meter: Meter::default(),
            intervals: Intervals::new(buffers),
            detector: Detector::new(Config { link, ..Config::default() }),
            notes: Notes::default(),
            detected,
            flows_due_ns: FLOWS_NS,
            last_ns: 0,
            account: Account::new(!task.home.is_empty()),
            warnings: surveyed.warnings,
        })
    }

    /// Read both captures to the end of the WAN capture.
    pub(super) fn run(
        &mut self,
        progress: &Progress<'_>,
        audience: &mut dyn Audience,
    ) -> Result<(), CaptureError> {
        let mut has_lan = self.advance_lan()?;
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
                has_lan = self.advance_lan()?;
            }
            // A packet of another queue of the device may come a little late: time never runs backwards.
            self.last_ns = self.last_ns.max(wan_ns);
            self.on_wan(self.last_ns, audience);
            progress("replaying", self.wan.read_bytes(), self.wan.file_bytes);
        }
        Ok(())
    }

    fn advance_lan(&mut self) -> Result<bool, CaptureError> {
        self.lan.as_mut().map_or(Ok(false), Capture::advance)
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
        let Some(queue) = &mut self.intervals.buffers.exact else { return };
        match packet {
            Packet::Tcp(segment) => {
                let local =
                    self.orientation.is_home(segment.source) && self.orientation.is_home(segment.destination);
                if direction == Direction::Up && !local {
                    queue.enter(at_ns, &Sighting::of_segment(FlowKey::of(&segment, direction), &segment));
                }
                let observation = self.lan_meter.observe_packet(direction, at_ns, &frame, packet);
                if let Some((_, Entry { flow, note })) = observation.flow {
                    note.note(at_ns, flow);
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
        let direction = direction_of(&mut self.orientation, &record, &packet);
        self.account.note(&record, &packet, direction);
        let Some(direction) = direction else { return };
        leave_exact(&mut self.intervals, direction, now_ns, &record, &packet);
        let observation = self.meter.observe_packet(direction, now_ns, &record.frame(), packet);
        let frame_bytes = record.frame().frame_bytes();
        let wire_bytes = observation.segment.map_or(u64::from(frame_bytes), |segment| segment.wire_bytes());
        self.intervals.count(direction, &observation, wire_bytes);
        if let Some((key, entry)) = &observation.evicted {
            audience.flow(key, &entry.note, self.lan_meter.table.get(key).map(|lan| &lan.note));
        }
        let noted = self.notes.note(direction, now_ns, frame_bytes, observation);
        if let Some(answer) = &noted.answer {
            self.intervals.note_turn(direction, now_ns, answer.delay_ns as f64 / 1e9);
        }
        self.intervals.buffers.pass(direction, &noted.passing, noted.answer.as_ref());
    }

    /// Tell the open interval what the flows did since they were last read.
    fn read_flows(&mut self, now_ns: u64) {
        self.flows_due_ns = now_ns / FLOWS_NS * FLOWS_NS + FLOWS_NS;
        let mut samples = Vec::new();
        for key in std::mem::take(&mut self.notes.active) {
            let Some(entry) = self.meter.table.get_mut(&key) else { continue };
            let note = &mut entry.note;
            note.listed = false;
            for direction in Direction::ALL {
                let data_bytes = std::mem::take(&mut note.halves[direction].fresh_bytes);
                if data_bytes == 0 {
                    continue;
                }
                let both = |pick: fn(&Turns) -> Option<u32>| {
                    let [up, down] = note.halves.both();
                    Some(f64::from(pick(&up.turns)?) / 1e6 + f64::from(pick(&down.turns)?) / 1e6)
                };
                samples.push(FlowSample {
                    id: note.id,
                    direction,
                    data_bytes,
                    in_flight_bytes: Some(f64::from(note.in_flight.halves[direction].level)),
                    round_trip: both(|turns| turns.last_us),
                    base_round_trip: both(|turns| turns.min_us),
                });
            }
        }
        self.intervals.note_flows(now_ns, samples);
    }

    /// Why not one packet could be used, if so.
    pub(super) fn is_unusable(&self) -> Option<String> {
        (self.account.used() == 0).then(|| self.account.describe_left_out())
    }

    pub(super) fn finish(mut self, audience: &mut dyn Audience) -> Outcome {
        self.read_flows(self.last_ns);
        let detector = &mut self.detector;
        self.intervals.finish(self.last_ns, &mut |sample| pass_on(sample, detector, audience));
        for (key, entry) in self.meter.table.drain() {
            audience.flow(&key, &entry.note, self.lan_meter.table.get(&key).map(|lan| &lan.note));
        }
        let crossings = self.intervals.buffers.exact.as_ref().map(|queue| queue.crossings);
        let missing = PerDirection::from_fn(|x| self.intervals.unseen_share(x) > HALF);
        self.warn(crossings, missing);
        Outcome {
            duration_s: self.last_ns as f64 / 1e9,
            frames: (self.wan.notes.frames, self.lan.as_ref().map_or(0, |lan| lan.notes.frames)),
            evidence: self.orientation.evidence(),
            meter: self.meter,
            detector: self.detector,
            account: self.account,
            missing,
            crossings,
            detected: self.detected,
            warnings: self.warnings,
        }
    }

    fn warn(&mut self, crossings: Option<Crossings>, is_missing: PerDirection<bool>) {
        for capture in [Some(&self.wan), self.lan.as_ref()].into_iter().flatten() {
            let (path, notes) = (capture.path.display(), &capture.notes);
            if let Some(offset) = notes.cut_off_at {
                self.warnings
                    .push(format!("{path} is cut off at byte {offset}: the packets before it were used"));
            }
            if let Some((offset, reason)) = &notes.damaged_at {
                self.warnings.push(format!(
                    "{path} is damaged at byte {offset} of its contents: {reason}; the {} packets before it were used",
                    notes.frames
                ));
            }
            if notes.unusable > 0 {
                let unusable = notes.unusable;
                self.warnings.push(format!(
                    "{unusable} packets of {path} carry no time or an unknown link header and were left out"
                ));
            }
        }
        self.account.pass_over(&self.wan.notes);
        self.warnings.extend(self.account.warnings());
        for (direction, missing) in [(Direction::Up, "to"), (Direction::Down, "from")] {
            if is_missing[direction] {
                self.warnings.push(format!(
                    "packets {missing} the Internet are missing from the capture: nothing is known of the {}link's queue; \
                     capture on the device that both directions pass",
                    direction.name()
                ));
            }
        }
        let (answers, unproven) = self.intervals.buffers.observer.answers();
        if unproven * 2 > answers {
            self.warnings.push(
                "the downlink was always busy: a queue that never drained would not show, and the estimate of its queue is a lower bound"
                    .to_owned(),
            );
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

/// A packet of the WAN capture leaves the buffer that lies between the captures.
fn leave_exact(
    intervals: &mut Intervals,
    direction: Direction,
    now_ns: u64,
    record: &Record<'_>,
    packet: &Packet,
) {
    let Some(queue) = &mut intervals.buffers.exact else { return };
    if direction != Direction::Up {
        return;
    }
    let frame = record.frame();
    let sighting = match packet {
        Packet::Tcp(segment) => Some(Sighting::of_segment(FlowKey::of(segment, direction), segment)),
        _ => outline(&frame).as_ref().map(Sighting::of_outline),
    };
    if let Some(sighting) = sighting {
        queue.leave(now_ns, &sighting, frame.frame_bytes());
    }
}

fn pass_on(sample: &Sample, detector: &mut Detector, audience: &mut dyn Audience) {
    for event in detector.push(sample) {
        audience.event(&event);
    }
    audience.sample(sample, detector);
}
