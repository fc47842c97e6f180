//! A buffer of which only the end can be seen: its level from the delay of the answers that came through it.
//!
//! When a packet left the buffer is seen; when it entered is found out, and the level follows as if both had been seen.
//! For an answer, that is its departure less the part of its delay that is queue (000 Eq. 1, one buffer at a time); other
//! packets are placed between answers. What makes this exact enough to tell the cases apart:
//!
//! * **Serialisation.** A long packet takes longer on a slow link than a short one, both as question and as answer.
//!   Known from its length and the link rates, it is taken off, so that the delay without queue learnt from a
//!   handshake holds for data.
//! * **Order.** A buffer is a queue: what came out later went in later. A delay that says otherwise (an answer that its
//!   sender held back) is cut down to what the packet before allows.
//! * **Work.** A buffer that holds something keeps the link busy. So what an answer waited for cannot be more than what
//!   the link carried between question and answer; and if the link was idle before a packet, the buffer was empty.
//! * **The sender's clock.** Only the first packet of a burst is an answer; the others show by their timestamps (RFC
//!   7323) how soon after it they were sent.

use std::collections::{HashMap, VecDeque};

use crate::segment::Direction;

use super::base::{Bases, Cleared};
use super::clock::{Clock, interpolate};
use super::level::Levels;
use super::standing::Standing;
use super::{Answer, Passing, Trust};

/// Longer than any packet's time on the link, so that jitter and a slow scheduler are not taken for an idle link.
const IDLE_TOLERANCE_NS: f64 = 5e6;

/// A full packet.
const FULL_BYTES: f64 = 1500.0;

/// If the link was busy for more than this part of an answer's delay, a silence before it was a pause of the link.
const MOSTLY: f64 = 0.5;

/// A packet that no answer of its own flow follows within this time is placed by those of others.
const PLACED_NS: u64 = 500_000_000;

/// An entry this fresh calibrates an end first seen.
const FRESH_NS: f64 = 30e6;

/// Without an answer or an idle link for this long the level is not known.
const KNOWN_NS: u64 = 5_000_000_000;

/// A stretch of time over which the link's load is judged.
const STRETCH_NS: f64 = 10e9;

/// Packets remembered to know what the link carried since a question.
const HISTORY_MAX: usize = 1 << 12;

/// Packets that wait to be placed; more are placed at once.
const PENDING_MAX: usize = 1 << 16;

/// Flows whose clock is followed.
const FLOWS_MAX: usize = 1 << 14;

/// How far a packet's placing looks ahead.
const LOOK_AHEAD: usize = 32;

/// A packet whose entry is not final.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// When its first bit was on the link: it left the buffer.
    left_ns: f64,
    bytes: u32,
    tsval: u32,
    /// When it entered, as far as known.
    entered_ns: Option<f64>,
    /// Whether that was measured.
    measured: bool,
}

/// The buffer.
#[derive(Debug)]
pub struct DelayQueue {
    direction: Direction,
    /// Of this direction, bytes per nanosecond.
    rate: f64,
    /// Of the other direction, if known.
    opposite_rate: Option<f64>,
    bases: Bases,
    answers: u64,
    /// When the link was last known to be busy.
    busy_to_ns: f64,
    /// Entry of the newest measured packet, and how long it waited.
    measured_ns: f64,
    waited_ns: f64,
    /// When something was last known about the level.
    evidence_ns: u64,
    /// When each of the last packets had left the link, and the bytes up to it.
    history: VecDeque<(u64, u64)>,
    bytes: u64,
    pending: VecDeque<Pending>,
    /// Number of the first packet in `pending`.
    first: u64,
    clocks: HashMap<u64, Clock>,
    /// When the stretch began, and the bytes carried until then.
    stretch: (f64, u64),
    /// Entry and departure of the newest packet that was placed.
    placed: (f64, f64),
    standing: Standing,
}

impl DelayQueue {
    /// An empty buffer in front of a link of `rate` bytes per second; `opposite_rate`: of the other direction.
    pub fn new(start_ns: u64, direction: Direction, rate: f64, opposite_rate: Option<f64>) -> Self {
        Self {
            direction,
            rate: rate / 1e9,
            opposite_rate: opposite_rate.map(|rate| rate / 1e9),
            bases: Bases::default(),
            answers: 0,
            busy_to_ns: start_ns as f64,
            measured_ns: start_ns as f64,
            waited_ns: 0.0,
            evidence_ns: start_ns,
            history: VecDeque::new(),
            bytes: 0,
            pending: VecDeque::new(),
            first: 0,
            clocks: HashMap::new(),
            stretch: (start_ns as f64, 0),
            placed: (start_ns as f64, start_ns as f64),
            standing: Standing::new(start_ns),
        }
    }

    /// Answers so far.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Those of ends that were never heard while the link carried little: their delay without queue may contain a queue
    /// that never drained, and the level is then too low by it.
    pub fn unconfirmed(&self) -> u64 {
        self.bases.unconfirmed()
    }

    /// What the estimate rests on. An idle link has an empty buffer, whatever else is known.
    pub fn trust(&self, now_ns: u64) -> Trust {
        if self.is_idle(now_ns) { Trust::Confirmed } else { self.bases.trust() }
    }

    /// Link rates that are better known now, bytes per second.
    pub fn set_rates(&mut self, rate: f64, opposite_rate: Option<f64>) {
        self.rate = rate / 1e9;
        self.opposite_rate = opposite_rate.map(|rate| rate / 1e9);
    }

    /// A packet of this direction has come out; `answer` if it is one. Packets come in the order of time.
    pub fn pass(&mut self, packet: &Passing, answer: Option<&Answer>) {
        let (left, off_link) = self.time_on_link(packet);
        let tolerance = IDLE_TOLERANCE_NS.max(0.5 * FULL_BYTES / self.rate);
        let silence = left - self.busy_to_ns;
        // A link that stops for a moment, a shaper that oversleeps, is no idle link: what stood in the buffer still does.
        let may_have_drained = silence > self.waited_ns;
        let was_idle = silence > tolerance;
        self.busy_to_ns = self.busy_to_ns.max(off_link);
        let entered = match answer {
            Some(answer) => Some(self.entry(packet, answer, left, was_idle, may_have_drained)),
            None if was_idle && may_have_drained => Some(left),
            None => None,
        };
        self.remember(off_link, packet.bytes);
        self.end_stretch(off_link);
        if self.pending.len() >= PENDING_MAX {
            self.place_first();
        }
        let number = self.first + self.pending.len() as u64;
        self.pending.push_back(Pending {
            left_ns: left,
            bytes: packet.bytes,
            tsval: packet.clock.map_or(0, |(_, tsval)| tsval),
            entered_ns: entered,
            measured: entered.is_some(),
        });
        if let Some(entered) = entered {
            self.measured_ns = entered;
            self.waited_ns = left - entered;
            self.evidence_ns = packet.at_ns;
        }
        if let Some((flow, tsval)) = packet.clock {
            self.follow_clock(flow, tsval, entered, number);
        }
    }

    /// Nothing more has come out before `now_ns`: what can be placed now is placed.
    pub fn settle(&mut self, now_ns: u64) {
        let unseen = self.unseen_ns();
        let is_idle = self.is_idle(now_ns);
        if is_idle {
            self.evidence_ns = now_ns;
        }
        let due = now_ns.saturating_sub(PLACED_NS) as f64;
        while self.pending.front().is_some_and(|p| is_idle || p.entered_ns.is_some() || p.left_ns < due) {
            self.place_first();
        }
        // What is still to come out entered after what came out last.
        if is_idle {
            self.placed.0 = self.placed.0.max(now_ns as f64 - unseen);
        }
        self.standing.track.believe_to(self.evidence_ns.saturating_add(KNOWN_NS));
        self.standing.hold(self.placed.0.max(0.0) as u64);
    }

    /// Nothing comes any more: everything up to `now_ns` is known.
    pub fn finish(&mut self, now_ns: u64) {
        while !self.pending.is_empty() {
            self.place_first();
        }
        self.settle(now_ns);
        self.standing.hold(now_ns);
    }

    /// Begin anew at `start_ns`, after a silence in which everything drained. Delays without queue stay known; what was
    /// not taken of the level is gone.
    pub fn restart(&mut self, start_ns: u64) {
        let start = start_ns as f64;
        self.busy_to_ns = start;
        self.measured_ns = start;
        self.waited_ns = 0.0;
        self.evidence_ns = start_ns;
        self.history.clear();
        self.bytes = 0;
        self.first += self.pending.len() as u64;
        self.pending.clear();
        self.clocks.clear();
        self.stretch = (start, 0);
        self.placed = (start, start);
        self.standing = Standing::new(start_ns);
    }

    /// Its level over time, of which the oldest intervals can be taken.
    pub fn standing(&mut self) -> &mut Standing {
        &mut self.standing
    }

    /// Take the oldest interval that is complete and was not taken yet; inside, `None` if its level is not known.
    pub fn pop(&mut self) -> Option<Option<Levels>> {
        let track = &mut self.standing.track;
        track.is_ready().then(|| track.pop())
    }

    /// A packet that is on the link now may have begun this long ago.
    fn unseen_ns(&self) -> f64 {
        FULL_BYTES / self.rate + IDLE_TOLERANCE_NS
    }

    /// No packet can be on the link.
    fn is_idle(&self, now_ns: u64) -> bool {
        now_ns as f64 > self.busy_to_ns + 2.0 * self.unseen_ns()
    }

    fn end_stretch(&mut self, now_ns: f64) {
        let (began_ns, bytes) = self.stretch;
        let length = now_ns - began_ns;
        if length < STRETCH_NS {
            return;
        }
        self.bases.end_stretch(now_ns, (self.bytes - bytes) as f64 / self.rate / length);
        self.stretch = (now_ns, self.bytes);
    }

    /// When a packet's first and last bit were on the link. Captures see a packet when it has arrived, or when it
    /// begins to leave.
    fn time_on_link(&self, packet: &Passing) -> (f64, f64) {
        let (at, length) = (packet.at_ns as f64, f64::from(packet.bytes) / self.rate);
        match self.direction {
            Direction::Up => (at, at + length),
            Direction::Down => (at - length, at),
        }
    }

    /// When an answer entered the buffer.
    fn entry(
        &mut self,
        packet: &Passing,
        answer: &Answer,
        left: f64,
        was_idle: bool,
        may_have_drained: bool,
    ) -> f64 {
        let carried = self.carried_since(packet.at_ns.saturating_sub(answer.delay_ns));
        let is_busy = carried as f64 / self.rate > MOSTLY * answer.delay_ns as f64;
        let was_idle = was_idle && (may_have_drained || !is_busy);
        // What another end tells about the queue at this moment, for one that is new.
        let is_fresh = packet.at_ns as f64 - self.measured_ns < FRESH_NS;
        let queued_ns = if is_fresh { (self.busy_to_ns - self.measured_ns).max(0.0) } else { 0.0 };
        let above = self.bases.above(&Cleared {
            end: answer.end,
            at_ns: packet.at_ns as f64,
            delay_ns: self.without_serialisation(packet, answer),
            question_bytes: answer.question_bytes,
            answer_bytes: packet.bytes,
            carried,
            busy_ns: carried as f64 / self.rate,
            was_idle,
            queued_ns,
        });
        self.answers += 1;
        let waited = if was_idle { 0.0 } else { above.min(carried as f64 / self.rate) };
        (left - waited).max(self.measured_ns).min(left)
    }

    /// The delay less the time that question and answer themselves were on the link between.
    fn without_serialisation(&self, packet: &Passing, answer: &Answer) -> f64 {
        let delay = answer.delay_ns as f64;
        match self.direction {
            // The question arrived and the answer begins to leave: neither was on the link in between.
            Direction::Up => delay,
            Direction::Down => {
                let question = self.opposite_rate.map_or(0.0, |rate| f64::from(answer.question_bytes) / rate);
                delay - question - f64::from(packet.bytes) / self.rate
            }
        }
    }

    fn remember(&mut self, off_link: f64, bytes: u32) {
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.bytes += u64::from(bytes);
        self.history.push_back((off_link as u64, self.bytes));
    }

    /// Bytes that the link carried since a moment. Without bound if that is longer ago than is remembered.
    fn carried_since(&self, since_ns: u64) -> u64 {
        let index = self.history.partition_point(|(off_link_ns, _)| *off_link_ns <= since_ns);
        match index.checked_sub(1) {
            Some(index) => self.bytes - self.history[index].1,
            None if self.history.len() < HISTORY_MAX => self.bytes,
            None => u64::MAX,
        }
    }

    /// Place the packets of a flow between two measured ones by the sender's clock.
    fn follow_clock(&mut self, flow: u64, tsval: u32, entered: Option<f64>, number: u64) {
        if self.clocks.len() >= FLOWS_MAX && !self.clocks.contains_key(&flow) {
            self.clocks.clear();
        }
        let clock = self.clocks.entry(flow).or_default();
        let Some(entered) = entered else {
            match clock.measured {
                // Sent in the same tick: at once, as far as can be told.
                Some((measured_tsval, measured)) if measured_tsval == tsval => {
                    if let Some(packet) = self.pending.back_mut() {
                        packet.entered_ns = Some(measured.min(packet.left_ns));
                    }
                }
                _ => clock.waiting.push(number),
            }
            return;
        };
        let before = clock.measured.replace((tsval, entered));
        for waiting in clock.waiting.drain(..) {
            let Some(index) = waiting.checked_sub(self.first) else { continue };
            let Some(packet) = self.pending.get_mut(index as usize) else { continue };
            packet.entered_ns = interpolate(before, (tsval, entered), packet.tsval);
        }
    }

    /// The oldest packet that is not placed enters and leaves the buffer.
    fn place_first(&mut self) {
        let Some(packet) = self.pending.pop_front() else { return };
        self.first += 1;
        let ahead = self.pending.iter().take(LOOK_AHEAD).find(|packet| packet.measured);
        let next = ahead.and_then(|packet| Some((packet.entered_ns?, packet.left_ns)));
        let entered = packet.entered_ns.unwrap_or_else(|| match next {
            // As far between its neighbours' entries as between their departures.
            Some((entered, left)) if left > self.placed.1 => {
                let share = (packet.left_ns - self.placed.1) / (left - self.placed.1);
                self.placed.0 + share * (entered - self.placed.0)
            }
            // It waited as long as the one before.
            _ => packet.left_ns - (self.placed.1 - self.placed.0),
        });
        let latest = next.map_or(packet.left_ns, |(entered, _)| entered.min(packet.left_ns));
        let entered = entered.min(latest).max(self.placed.0).min(packet.left_ns);
        self.placed = (entered.max(self.placed.0), packet.left_ns);
        self.standing.enter(entered.max(0.0) as u64, [(packet.left_ns.max(0.0) as u64, packet.bytes)]);
    }
}
