//! A buffer that has a capture behind it only: its level from the delay of the answers that came through it.
//!
//! `d_x = (delay − delay without queue) · C_x` (000 Eq. 1, one buffer at a time). Four things make it exact enough to
//! tell the cases apart:
//!
//! * **Serialisation.** A long packet takes longer on a slow link than a short one, both as question and as answer.
//!   Known from its length and the link rates, it is taken off, so that the delay without queue learnt from a
//!   handshake holds for data. Where a shaper lets packets out at line rate this takes off too much; delays are
//!   therefore compared only with delays of the same kind (long or short question and answer), and a kind first seen
//!   starts from the others.
//! * **Service.** A packet also waits for the rest of the one that is on the link already, which is in no buffer any
//!   more: on average half a packet, the longer ones more often.
//! * **Order.** A buffer is a queue: what came out later went in later. A delay that says otherwise (an answer that its
//!   sender held back) is cut down to what the packet before allows.
//! * **Work.** A buffer that holds something keeps the link busy. So what an answer waited for cannot be more than what the
//!   link carried between question and answer; and if the link was idle before a packet, the buffer was empty. Delays
//!   measured then are the delay without queue, even if that has become longer (another route).

use std::collections::{HashMap, VecDeque};

use pendulum_model::segment::Direction;

use super::super::level::LevelTrack;
use super::super::orientation::Address;

/// Longer than any packet's time on the link, so that jitter and a slow scheduler are not taken for an idle link.
const IDLE_TOLERANCE_NS: f64 = 5e6;

/// A full packet; what is shorter than half of it is "short".
const FULL_BYTES: f64 = 1500.0;

/// An answer's delay is known at most this long after it passed through the buffer.
const SETTLED_NS: u64 = 2_000_000_000;

/// Packets over which lengths are averaged.
const MEMORY: f64 = 64.0;

/// A level this fresh calibrates an end first seen.
const FRESH_NS: u64 = 30_000_000;

/// Ends whose delay without queue is remembered.
const ENDS_MAX: usize = 1 << 14;

/// An answer that came through the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When it passed the capture.
    pub at_ns: u64,
    /// The end that answered.
    pub end: Address,
    /// From the packet that it answers to itself.
    pub delay_ns: u64,
    /// Link-layer length of the packet that it answers.
    pub question_bytes: u32,
    /// Its own.
    pub answer_bytes: u32,
}

/// Packets remembered to know what the link carried since a question.
const HISTORY_MAX: usize = 1 << 12;

/// If the link carried no more than this since the question, the delay is (nearly) without queue.
const LITTLE_BYTES: u64 = 3000;

/// So many answers behind an idle link make a new delay without queue: one alone may have been held back.
const IDLE_ANSWERS: u32 = 5;

/// What is known of one end's delay without queue, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    /// By length of question and answer (short or long each).
    by_kind: [Option<f64>; 4],
    /// Answers behind an idle link since the last turn, and the smallest delay of them.
    idle: (u32, f64),
    /// Whether it was ever measured while the link carried little.
    confirmed: bool,
}

/// The buffer.
#[derive(Debug)]
pub struct DelayQueue {
    direction: Direction,
    /// Of this direction, bytes per nanosecond.
    rate: f64,
    /// Of the other direction, if known.
    opposite_rate: Option<f64>,
    bases: HashMap<Address, Base>,
    /// When the link was last known to be busy.
    busy_to_ns: f64,
    /// Whether the link was idle before the newest packet.
    was_idle: bool,
    entered_ns: f64,
    answers: u64,
    unconfirmed: u64,
    /// When each of the last packets had left the link, and the bytes up to it.
    history: VecDeque<(u64, u64)>,
    bytes: u64,
    /// Moving means of the packets' length and its square.
    length: (f64, f64),
    track: LevelTrack,
}

impl DelayQueue {
    /// An empty buffer in front of a link of `rate` bytes per second; `opposite_rate`: of the other direction.
    pub fn new(start_ns: u64, direction: Direction, rate: f64, opposite_rate: Option<f64>) -> Self {
        Self {
            direction,
            rate: rate / 1e9,
            opposite_rate: opposite_rate.map(|rate| rate / 1e9),
            bases: HashMap::new(),
            busy_to_ns: start_ns as f64,
            was_idle: false,
            entered_ns: start_ns as f64,
            answers: 0,
            unconfirmed: 0,
            history: VecDeque::new(),
            bytes: 0,
            length: (0.0, 0.0),
            track: LevelTrack::new(start_ns),
        }
    }

    /// Answers so far.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// Those of ends that were never heard while the link carried little: their delay without queue may contain a queue
    /// that never drained, and the level is then too low by it.
    pub fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// A packet of this direction passes the capture.
    pub fn pass(&mut self, at_ns: u64, wire_bytes: u32) {
        let (start, end) = self.time_on_link(at_ns, wire_bytes);
        let tolerance = IDLE_TOLERANCE_NS.max(0.5 * FULL_BYTES / self.rate);
        self.was_idle = start > self.busy_to_ns + tolerance;
        if self.was_idle {
            self.set(self.busy_to_ns, 0.0);
            self.set(start, 0.0);
            self.entered_ns = self.entered_ns.max(start);
        }
        self.busy_to_ns = self.busy_to_ns.max(end);
        if self.history.len() == HISTORY_MAX {
            self.history.pop_front();
        }
        self.bytes += u64::from(wire_bytes);
        self.history.push_back((end as u64, self.bytes));
        let (bytes, (mean, square)) = (f64::from(wire_bytes), self.length);
        self.length = (mean + (bytes - mean) / MEMORY, square + (bytes * bytes - square) / MEMORY);
    }

    /// A packet of this direction, already told by [`DelayQueue::pass`], is an answer.
    pub fn observe(&mut self, answer: &Answer) {
        let (start, _) = self.time_on_link(answer.at_ns, answer.answer_bytes);
        let delay = self.without_serialisation(answer);
        let carried = self.carried_since(answer.at_ns.saturating_sub(answer.delay_ns), answer.answer_bytes);
        let waited = self.above_base(answer, delay, carried);
        let entered = (start - waited).max(self.entered_ns).min(start);
        self.entered_ns = entered;
        self.answers += 1;
        let waited_for = ((start - entered) * self.rate).min(carried as f64);
        self.set(entered, (waited_for - self.in_service()).max(0.0));
    }

    /// See [`super::Queue::settle`].
    pub fn settle(&mut self, now_ns: u64) {
        // The packet that may be on the link now began at most so long ago.
        let unseen = FULL_BYTES / self.rate + IDLE_TOLERANCE_NS;
        if (now_ns as f64) > self.busy_to_ns + 2.0 * unseen {
            self.set(self.busy_to_ns, 0.0);
            self.entered_ns = self.entered_ns.max(now_ns as f64 - unseen);
        }
        let known_to = (now_ns.saturating_sub(SETTLED_NS)).max(self.entered_ns as u64).min(now_ns);
        self.entered_ns = self.entered_ns.max(known_to as f64);
        self.track.hold(known_to);
    }

    /// See [`super::Queue::finish`].
    pub fn finish(&mut self, now_ns: u64) {
        self.settle(now_ns);
        self.track.hold(now_ns);
    }

    /// See [`super::Queue::restart`]. Delays without queue stay known.
    pub fn restart(&mut self, start_ns: u64) {
        self.busy_to_ns = start_ns as f64;
        self.entered_ns = start_ns as f64;
        self.history.clear();
        self.bytes = 0;
        self.track = LevelTrack::new(start_ns);
    }

    pub(super) fn track(&self) -> &LevelTrack {
        &self.track
    }

    pub(super) fn track_mut(&mut self) -> &mut LevelTrack {
        &mut self.track
    }

    fn set(&mut self, at_ns: f64, level: f64) {
        self.track.set(at_ns.max(0.0) as u64, level);
    }

    /// Bytes that the link carried from a moment up to the newest packet, which is not counted. Without
    /// bound if the moment is longer ago than is remembered.
    fn carried_since(&self, since_ns: u64, newest_bytes: u32) -> u64 {
        let before = self.bytes - u64::from(newest_bytes);
        let index = self.history.partition_point(|(left_ns, _)| *left_ns <= since_ns);
        let at_start = match index.checked_sub(1) {
            Some(index) => self.history[index].1,
            None if self.history.len() < HISTORY_MAX => 0,
            None => return u64::MAX,
        };
        before.saturating_sub(at_start)
    }

    /// Bytes that are still to be sent of the packet on the link, on average, when another one comes.
    fn in_service(&self) -> f64 {
        let (mean, square) = self.length;
        if mean > 0.0 { square / mean / 2.0 } else { 0.0 }
    }

    /// When a packet's first and last bit were on the link. Captures see a packet when it has arrived, or when it
    /// begins to leave.
    fn time_on_link(&self, at_ns: u64, wire_bytes: u32) -> (f64, f64) {
        let length = f64::from(wire_bytes) / self.rate;
        match self.direction {
            Direction::Up => (at_ns as f64, at_ns as f64 + length),
            Direction::Down => (at_ns as f64 - length, at_ns as f64),
        }
    }

    /// The delay less the time that question and answer themselves were on the link between.
    fn without_serialisation(&self, answer: &Answer) -> f64 {
        let delay = answer.delay_ns as f64;
        match self.direction {
            // The question arrived and the answer begins to leave: neither was on the link in between.
            Direction::Up => delay,
            Direction::Down => {
                let question = self.opposite_rate.map_or(0.0, |rate| f64::from(answer.question_bytes) / rate);
                delay - question - f64::from(answer.answer_bytes) / self.rate
            }
        }
    }

    /// How much of the delay is queue; learns the delay without it.
    fn above_base(&mut self, answer: &Answer, delay: f64, carried: u64) -> f64 {
        if self.bases.len() >= ENDS_MAX && !self.bases.contains_key(&answer.end) {
            self.bases.clear();
        }
        // What another end tells about the queue at this moment, for one that is new.
        let is_fresh = answer.at_ns as f64 - self.entered_ns < FRESH_NS as f64;
        let queued = if is_fresh { self.track.level() / self.rate } else { 0.0 };
        let known = self.bases.entry(answer.end).or_default();
        let is_long = |bytes: u32| usize::from(f64::from(bytes) > FULL_BYTES / 2.0);
        let kind = is_long(answer.question_bytes) * 2 + is_long(answer.answer_bytes);
        let other_kinds = || known.by_kind.iter().flatten().copied().reduce(f64::min);
        let mut base = known.by_kind[kind].or_else(other_kinds).unwrap_or(delay - queued).min(delay);
        known.confirmed |= carried <= LITTLE_BYTES;
        if self.was_idle {
            let (count, smallest) = known.idle;
            known.idle = if count == 0 { (1, delay) } else { (count + 1, smallest.min(delay)) };
            if known.idle.0 >= IDLE_ANSWERS {
                base = base.max(known.idle.1).min(delay);
                known.idle = (0, 0.0);
            }
        }
        self.unconfirmed += u64::from(!known.confirmed);
        known.by_kind[kind] = Some(base);
        delay - base
    }
}
