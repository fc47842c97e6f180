//! How long an end takes to answer when nothing stands in the buffer.

use std::collections::HashMap;

use super::super::orientation::Address;

/// A full packet; what is shorter than half of it is "short".
const FULL_BYTES: u32 = 1500;

/// So many answers behind an idle link make a new delay without queue: one alone may have been held back.
const IDLE_ANSWERS: u32 = 5;

/// If the link carried no more than this since the question, the delay is (nearly) without queue.
const LITTLE_BYTES: u64 = 3000;

/// Ends that are remembered.
const ENDS_MAX: usize = 1 << 14;

/// One answer, its delay cleared of what it spent on the link itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleared {
    pub(super) end: Address,
    pub(super) delay_ns: f64,
    pub(super) question_bytes: u32,
    pub(super) answer_bytes: u32,
    /// What the link carried between question and answer, bytes …
    pub(super) carried: u64,
    /// … and how long it took for that: no answer can have waited longer.
    pub(super) busy_ns: f64,
    /// Whether the link was idle before the answer.
    pub(super) was_idle: bool,
    /// What is known of the queue at this moment from others, in nanoseconds.
    pub(super) queued_ns: f64,
}

/// The delays without queue of all ends.
#[derive(Debug, Default)]
pub(super) struct Bases {
    ends: HashMap<Address, Base>,
    unconfirmed: u64,
}

/// What is known of one end, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    /// By length of question and answer (short or long each): a shaper that lets packets out at line rate makes a
    /// clearing that suits one kind wrong for another.
    by_kind: [Option<f64>; 4],
    /// Answers behind an idle link since the last turn, and the smallest delay of them.
    idle: (u32, f64),
    /// Whether it was ever measured while the link carried little.
    confirmed: bool,
}

impl Bases {
    /// Answers of ends that were never heard while the link carried little.
    pub(super) fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// How much of the delay is queue, in nanoseconds; learns the delay without it.
    pub(super) fn above(&mut self, answer: &Cleared) -> f64 {
        if self.ends.len() >= ENDS_MAX && !self.ends.contains_key(&answer.end) {
            self.ends.clear();
        }
        let delay = answer.delay_ns;
        let known = self.ends.entry(answer.end).or_default();
        let is_long = |bytes: u32| usize::from(bytes > FULL_BYTES / 2);
        let kind = is_long(answer.question_bytes) * 2 + is_long(answer.answer_bytes);
        let other_kinds = || known.by_kind.iter().flatten().copied().reduce(f64::min);
        let first_of_kind = || other_kinds().unwrap_or(delay - answer.queued_ns).max(delay - answer.busy_ns);
        let mut base = known.by_kind[kind].unwrap_or_else(first_of_kind).min(delay);
        known.confirmed |= answer.carried <= LITTLE_BYTES;
        if answer.was_idle {
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
