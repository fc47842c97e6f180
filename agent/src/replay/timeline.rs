//! The times of a capture before anything is measured: whether its clock went back or was set, which packets stand out of the order of time,
//! and whether each packet is in it twice.
//!
//! One pass over the file cuts it into runs in which time goes on. A run of a few packets between two that fit each other is out of order and
//! left out; where a longer one begins before the end of the one before, the clock went back, and all later times are shifted. A clock that is
//! set forward looks like a silence: the senders' own clocks tell the two apart ([`clocks`]).

mod clocks;
mod copies;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::capture::{Capture, CaptureError, CaptureProblem, Disorder, Fault, Record};
use super::packet::parse;
use clocks::Clocks;
pub use copies::Copies;

/// Queues of a device, each with its processor, hand packets over so much out of order.
const DISORDER_NS: u64 = 10_000_000;

/// A silence that may be a clock that was set. Less is no step.
const SILENCE_NS: u64 = 100_000_000;

/// So long a pause begins another run: what comes before it may be dated wrongly.
const PAUSE_NS: u64 = 1_000_000_000;

/// Longer than any silence of a capture that goes on.
const MONTH_NS: u64 = 30 * 86_400 * 1_000_000_000;

/// A run of up to so many packets is out of order, a longer one is a clock that was set.
const STRAYS_MAX: u64 = 16;

/// A capture whose clock goes back more often is not in the order of time.
const STEPS_MAX: usize = 8;

/// A capture of which one of so many packets is out of order is not in the order of time either.
const STRAYS_PART: u64 = 10;

const RUNS_MAX: usize = 1 << 16;

/// A stretch of packets in which time goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PacketStretch {
    /// Number of its first packet, and of packets.
    first: u64,
    count: u64,
    from_ns: u64,
    to_ns: u64,
}

impl PacketStretch {
    /// Begins when another one has ended.
    const fn follows(&self, before: &Self) -> bool {
        self.from_ns.saturating_add(DISORDER_NS) >= before.to_ns
    }

    /// Within a month.
    const fn continues(&self, before: &Self) -> bool {
        self.follows(before) && self.from_ns <= before.to_ns.saturating_add(MONTH_NS)
    }
}

/// From this packet on, times are shifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// Number of the packet.
    pub frame: u64,
    /// What the clock was set by, nanoseconds.
    pub by_ns: i64,
}

/// What is wrong with the times of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// When the clock was set, in the order of packets.
    pub steps: Vec<ClockStep>,
    /// Packets out of order: the first number and the one behind the last.
    strays: Vec<(u64, u64)>,
    /// Each packet is in the capture twice.
    pub is_doubled: bool,
}

/// A capture and what is known of its times.
#[derive(Clone, Debug)]
pub struct Source {
    path: PathBuf,
    pub(super) timeline: Arc<Timeline>,
}

impl Source {
    /// Reads the capture once.
    ///
    /// # Errors
    /// If it cannot be read, or its packets are not in the order of time.
    pub fn examine(path: &Path) -> Result<Self, CaptureError> {
        let mut capture = Capture::open(path)?;
        let mut survey = StretchSurvey::default();
        while capture.advance()? {
            let Some(record) = capture.record() else { break };
            survey.observe(&record);
        }
        let timeline = survey.finish().map_err(|disorder| CaptureProblem::Disorder(disorder).of(path))?;
        Ok(Self { path: path.to_owned(), timeline: Arc::new(timeline) })
    }

    /// The capture at its beginning, with its times corrected.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn open(&self) -> Result<Capture, CaptureError> {
        let capture = Capture::open(&self.path)?;
        if self.timeline.is_sound() {
            return Ok(capture);
        }
        let (timeline, mut copies) = (Arc::clone(&self.timeline), Copies::default());
        Ok(capture.corrected(Box::new(move |frame, record| timeline.correct(frame, record, &mut copies))))
    }
}

impl Timeline {
    /// Whether this packet is out of order.
    pub fn is_stray(&self, frame: u64) -> bool {
        let next = self.strays.partition_point(|(first, _)| *first <= frame);
        next.checked_sub(1).is_some_and(|index| frame < self.strays[index].1)
    }

    /// Dates a packet as it passed; why it is to be left out, if it is.
    fn correct(&self, frame: u64, record: &mut Record<'_>, copies: &mut Copies) -> Option<Fault> {
        let steps = self.steps.iter().take_while(|step| step.frame <= frame);
        record.time_ns = record.time_ns.saturating_add_signed(steps.map(|step| -step.by_ns).sum());
        let is_copy = self.is_doubled && copies.is_copy(record, &parse(&record.frame()));
        match self.is_stray(frame) {
            true => Some(Fault::OutOfOrder),
            false => is_copy.then_some(Fault::Copy),
        }
    }

    /// What the user should know.
    pub fn warnings(&self, path: &Path) -> Vec<String> {
        let step = |step: &ClockStep| {
            format!(
                "the clock of {} was set {} by {:.3} s at packet {}: later times were corrected",
                path.display(),
                if step.by_ns < 0 { "back" } else { "forward" },
                step.by_ns.unsigned_abs() as f64 / 1e9,
                step.frame + 1
            )
        };
        self.steps.iter().map(step).collect()
    }

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.steps.is_empty() && self.strays.is_empty() && !self.is_doubled
    }
}

/// Gathers the runs.
#[derive(Debug, Default)]
struct StretchSurvey {
    frames: u64,
    runs: Vec<PacketStretch>,
    is_orderless: bool,
    clocks: Clocks,
    copies: Copies,
    data: u64,
    copied: u64,
}

impl StretchSurvey {
    fn observe(&mut self, record: &Record<'_>) {
        let (frame, at_ns) = (self.frames, record.time_ns);
        self.frames += 1;
        let packet = parse(&record.frame());
        let is_copy = self.copies.is_copy(record, &packet);
        if let super::packet::Packet::Tcp(segment) = &packet
            && segment.payload_bytes > 0
        {
            self.data += 1;
            self.copied += u64::from(is_copy);
        }
        let begins_run = self.begins_run(at_ns);
        match self.runs.last_mut() {
            Some(_) if begins_run => {
                self.clocks.doubt(frame, at_ns);
                self.push(PacketStretch { first: frame, count: 1, from_ns: at_ns, to_ns: at_ns });
            }
            Some(run) => {
                if at_ns > run.to_ns + SILENCE_NS {
                    self.clocks.doubt(frame, at_ns);
                }
                run.count += 1;
                run.to_ns = run.to_ns.max(at_ns);
            }
            None => self.push(PacketStretch { first: frame, count: 1, from_ns: at_ns, to_ns: at_ns }),
        }
        self.clocks.observe(at_ns, &packet);
    }

    /// Time goes back, or on after a pause, or is again where it was before a few packets.
    fn begins_run(&self, at_ns: u64) -> bool {
        let Some(last) = self.runs.last() else { return true };
        let returns = |before: &PacketStretch| {
            last.count <= STRAYS_MAX && !last.follows(before) && at_ns + DISORDER_NS >= before.to_ns
        };
        at_ns.saturating_add(DISORDER_NS) < last.to_ns
            || at_ns > last.to_ns.saturating_add(PAUSE_NS)
            || self.runs.len().checked_sub(2).is_some_and(|index| returns(&self.runs[index]))
    }

    fn push(&mut self, run: PacketStretch) {
        // A run between two others that it fits needs no place of its own.
        if let [.., before, last] = &mut self.runs[..]
            && run.continues(last)
            && last.continues(before)
        {
            before.count += last.count;
            before.to_ns = before.to_ns.max(last.to_ns);
            self.runs.pop();
        }
        self.is_orderless |= self.runs.len() >= RUNS_MAX;
        if !self.is_orderless {
            self.runs.push(run);
        }
    }

    fn finish(self) -> Result<Timeline, Disorder> {
        let (runs, strays) = without_strays(&self.runs);
        let back: Vec<ClockStep> = runs
            .windows(2)
            .filter(|pair| !pair[1].follows(&pair[0]))
            .map(|pair| {
                // Where no clock tells how long it took, no time passed.
                let least = -((pair[0].to_ns - pair[1].from_ns) as i64);
                let reported = self.clocks.step_at(pair[1].first);
                ClockStep {
                    frame: pair[1].first,
                    by_ns: reported.map_or(least, |reported| reported.min(least)),
                }
            })
            .collect();
        let stray_packets = strays.iter().map(|(first, end)| end - first).sum::<u64>();
        let are_many = stray_packets > STRAYS_MAX && stray_packets * STRAYS_PART > self.frames;
        if back.len() > STEPS_MAX || are_many || self.is_orderless {
            return Err(Disorder { steps: back.len(), strays: stray_packets });
        }
        let is_reported = |step: &ClockStep| back.iter().any(|reported| reported.frame == step.frame);
        let forward: Vec<ClockStep> =
            self.clocks.forward_steps().into_iter().filter(|step| !is_reported(step)).collect();
        let mut steps = [back, forward].concat();
        steps.sort_by_key(|step| step.frame);
        // One of two, or two of three.
        let is_doubled = self.copied > 0 && (self.data * 4..=self.data * 7).contains(&(self.copied * 10));
        Ok(Timeline { steps, strays, is_doubled })
    }
}

/// Short runs that do not fit between their neighbours, and the others.
fn without_strays(runs: &[PacketStretch]) -> (Vec<PacketStretch>, Vec<(u64, u64)>) {
    let (mut kept, mut strays) = (Vec::<PacketStretch>::new(), Vec::new());
    for (index, run) in runs.iter().enumerate() {
        let next = runs.get(index + 1);
        // It is itself far off: its neighbours fit each other, or it does not fit the only one.
        let is_stray = run.count <= STRAYS_MAX
            && match (kept.last(), next) {
                (Some(before), Some(next)) => {
                    let fits = run.continues(before) && next.continues(run);
                    !fits && next.continues(before) || !run.follows(before) && !next.follows(before)
                }
                (None, Some(next)) => !next.continues(run),
                (Some(before), None) => !run.continues(before),
                (None, None) => false,
            };
        if is_stray { strays.push((run.first, run.first + run.count)) } else { kept.push(*run) }
    }
    (kept, strays)
}
