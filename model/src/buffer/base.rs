//! How long an end takes to answer when nothing stands in the buffer.
//!
//! All depends on it. The smallest delay alone would not do: a standing queue that never drains would hide in it, and a
//! route that becomes longer would look like a queue for ever. So it falls at once, and rises when the buffer was
//! empty for certain:
//!
//! * The link was idle before the answer, or carried next to nothing since the question.
//! * The link was not full over a stretch of time: a queue that never emptied would have kept it full, so the smallest
//!   delay of the stretch met an empty buffer.

use std::collections::HashMap;

use super::{End, Trust};

/// A full packet; what is shorter than half of it is "short".
const FULL_BYTES: u32 = 1500;

/// So many answers behind an empty buffer make a new delay without queue: one alone may have been held back.
const IDLE_ANSWERS: u32 = 5;

/// If the link carried no more than this since the question, the delay is (nearly) without queue.
const LITTLE_BYTES: u64 = 3000;

/// The same if it was busy for no more than this part of the delay.
const LIGHT: f64 = 0.1;

/// Below this part of the rate over a stretch, the buffer was empty in between.
const NOT_FULL: f64 = 0.85;

/// Answers that a stretch needs: a few may all have met a queue that came and went.
const STRETCH_ANSWERS: u32 = 10;

/// Full for this long without an empty buffer: the route may have changed unseen.
const STALE_NS: f64 = 300e9;

/// What a confirmed end said this long ago still counts for the trust in all.
const RECENT_NS: f64 = 10e9;

/// Ends that are remembered.
const ENDS_MAX: usize = 1 << 14;

/// One answer, its delay cleared of what it spent on the link itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleared {
    pub(super) end: End,
    pub(super) at_ns: f64,
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
    ends: HashMap<End, Base>,
    unconfirmed: u64,
    /// When an end last answered whose delay without queue is confirmed, stale, or neither.
    heard_ns: [Option<f64>; 3],
}

/// Smallest of some delays, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Smallest {
    count: u32,
    ns: f64,
}

impl Smallest {
    fn add(&mut self, ns: f64) {
        self.ns = if self.count == 0 { ns } else { self.ns.min(ns) };
        self.count = self.count.saturating_add(1);
    }
}

/// What is known of one end, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    /// By length of question and answer (short or long each): a shaper that lets packets out at line rate makes a
    /// clearing that suits one kind wrong for another.
    by_kind: [Option<f64>; 4],
    /// Answers behind an empty buffer since the last turn.
    idle: Smallest,
    /// All answers of the stretch, by kind.
    stretch: [Smallest; 4],
    /// When it was last measured while the buffer was empty.
    confirmed_ns: Option<f64>,
}

impl Base {
    fn trust(&self, now_ns: f64) -> Trust {
        match self.confirmed_ns {
            None => Trust::NeverEmpty,
            Some(at) if now_ns - at > STALE_NS => Trust::Stale,
            Some(_) => Trust::Confirmed,
        }
    }
}

impl Bases {
    /// Answers of ends that were never heard while the link carried little.
    pub(super) fn unconfirmed(&self) -> u64 {
        self.unconfirmed
    }

    /// What the newest answers rest on: the best that any end offers.
    pub(super) fn trust(&self) -> Trust {
        let newest = self.heard_ns.into_iter().flatten().fold(f64::NEG_INFINITY, f64::max);
        let recent = |trust: Trust| self.heard_ns[trust as usize].is_some_and(|at| newest - at <= RECENT_NS);
        if recent(Trust::Confirmed) {
            Trust::Confirmed
        } else if recent(Trust::Stale) {
            Trust::Stale
        } else {
            Trust::NeverEmpty
        }
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
        let is_light = answer.busy_ns <= LIGHT * delay;
        if answer.carried <= LITTLE_BYTES || is_light {
            known.confirmed_ns = Some(answer.at_ns);
        }
        if answer.was_idle || is_light {
            // What the link carried meanwhile is the most that can have been queue.
            known.idle.add(if answer.was_idle { delay } else { delay - answer.busy_ns });
            if known.idle.count >= IDLE_ANSWERS {
                base = base.max(known.idle.ns).min(delay);
                known.idle = Smallest::default();
                known.confirmed_ns = Some(answer.at_ns);
            }
        }
        known.stretch[kind].add(delay);
        let trust = known.trust(answer.at_ns);
        known.by_kind[kind] = Some(base);
        self.heard_ns[trust as usize] = Some(answer.at_ns);
        self.unconfirmed += u64::from(trust == Trust::NeverEmpty);
        delay - base
    }

    /// A stretch of time is over, in which the link was busy for this part.
    pub(super) fn end_stretch(&mut self, now_ns: f64, busy: f64) {
        for end in self.ends.values_mut() {
            for (base, stretch) in end.by_kind.iter_mut().zip(&mut end.stretch) {
                if busy < NOT_FULL && stretch.count >= STRETCH_ANSWERS {
                    // What came before a change of the route may still be in it: it only rises.
                    *base = base.map(|base| base.max(stretch.ns));
                    end.confirmed_ns = Some(now_ns);
                }
                *stretch = Smallest::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;
    const SECOND: f64 = 1e9;

    /// An answer after `delay_ms`, during which the link was busy for `busy_ms`.
    fn answer(at_ns: f64, delay_ms: f64, busy_ms: f64) -> Cleared {
        Cleared {
            end: [7; 16],
            at_ns,
            delay_ns: delay_ms * MS,
            question_bytes: 66,
            answer_bytes: 1500,
            carried: (busy_ms * 300.0) as u64,
            busy_ns: busy_ms * MS,
            was_idle: busy_ms == 0.0,
            queued_ns: 0.0,
        }
    }

    #[test]
    fn a_queue_that_never_drains_is_not_believed() {
        let mut bases = Bases::default();
        for i in 0..1000 {
            // Between 50 and 100 ms of queue, always.
            let delay = 90.0 + f64::from(i % 50);
            bases.above(&answer(f64::from(i) * 10.0 * MS, delay, delay));
        }
        assert_eq!((bases.trust(), bases.unconfirmed()), (Trust::NeverEmpty, 1000));
        // A pause reveals the base, and from then on the delay counts from it.
        let pause = 11.0 * SECOND;
        for i in 0..5 {
            bases.above(&answer(pause + f64::from(i) * 10.0 * MS, 40.0, 0.0));
        }
        let above = bases.above(&answer(pause + SECOND, 90.0, 90.0));
        assert_eq!(bases.trust(), Trust::Confirmed);
        assert!((above - 50.0 * MS).abs() < 1.0, "{above}");
    }

    #[test]
    fn a_longer_route_is_noticed_and_a_shorter_one_at_once() {
        let mut bases = Bases::default();
        let mut at = 0.0;
        let mut next = |bases: &mut Bases, delay: f64, busy: f64| {
            at += 10.0 * MS;
            bases.above(&answer(at, delay, busy)) / MS
        };
        for _ in 0..10 {
            next(&mut bases, 40.0, 0.0);
        }
        // 30 ms more behind an idle link are no queue, once five answers have said so.
        assert_eq!(next(&mut bases, 70.0, 0.0), 30.0);
        for _ in 0..10 {
            next(&mut bases, 70.0, 0.0);
        }
        assert_eq!(next(&mut bases, 70.0, 0.0), 0.0);
        bases.end_stretch(0.5 * SECOND, 0.1);
        assert_eq!(next(&mut bases, 70.0, 0.0), 0.0, "the old route is not what it falls back to");
        bases.end_stretch(0.6 * SECOND, 0.1);
        // Busy, but not full: after a stretch, for a standing queue would have filled the link.
        for i in 0..20 {
            assert!(next(&mut bases, 100.0 + f64::from(i), 80.0) >= 30.0);
        }
        bases.end_stretch(SECOND, 0.7);
        assert_eq!(next(&mut bases, 120.0, 90.0), 20.0);
        // A full link says nothing of that kind.
        for _ in 0..20 {
            next(&mut bases, 150.0, 150.0);
        }
        bases.end_stretch(2.0 * SECOND, 0.99);
        assert_eq!(next(&mut bases, 150.0, 150.0), 50.0);
        assert_eq!(next(&mut bases, 60.0, 60.0), 0.0);
        assert_eq!(next(&mut bases, 70.0, 60.0), 10.0);
    }

    #[test]
    fn minutes_without_an_empty_buffer_make_it_stale() {
        let mut bases = Bases::default();
        bases.above(&answer(0.0, 40.0, 0.0));
        bases.above(&answer(299.0 * SECOND, 140.0, 140.0));
        assert_eq!(bases.trust(), Trust::Confirmed);
        bases.above(&answer(320.0 * SECOND, 140.0, 140.0));
        assert_eq!(bases.trust(), Trust::Stale);
    }

    #[test]
    fn little_traffic_bounds_what_can_have_been_queue() {
        let mut bases = Bases::default();
        // Never idle, but each answer met at most 3 ms of other traffic.
        for i in 0..20 {
            bases.above(&answer(f64::from(i) * 10.0 * MS, 40.0, 3.0));
        }
        assert_eq!(bases.trust(), Trust::Confirmed);
        for i in 20..30 {
            bases.above(&answer(f64::from(i) * 10.0 * MS, 70.0, 3.0));
        }
        let above = bases.above(&answer(300.0 * MS, 70.0, 70.0));
        assert!(above <= 3.0 * MS, "{above}");
    }
}
