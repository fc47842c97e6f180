//! The delay without queues of each end: the one definition that queueing delays, windows and advice count from.
//!
//! For each end it is the smallest delay seen, less what is known to have been queue. It falls at once. It rises only when
//! the link proves that no queue can have been in the delay ([`LowerBound`]), or when the route has become longer.

use super::bound::LowerBound;
use super::rules::RULES;
use super::{Answer, End};
use crate::recent::Recent;
use crate::segment::FULL_FRAME_BYTES;

/// One answer, its delay cleared of what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleared {
    pub(super) end: End,
    pub(super) at_ns: f64,
    /// From question to answer, less the time both were on the link themselves and less the waits that are known otherwise.
    pub(super) delay_ns: f64,
    pub(super) question_bytes: u32,
    pub(super) answer_bytes: u32,
    /// The most of it that can be queue, as far as the links tell; infinite if they do not.
    pub(super) most_ns: f64,
    /// If no more than this can be queue, it counts as a delay without queue.
    pub(super) clear_ns: f64,
    /// The queue in it, if others tell: for an end that is new.
    pub(super) known_ns: Option<f64>,
}

/// The delays without queue of all ends.
#[derive(Debug, Default)]
pub(super) struct Bases {
    ends: Recent<End, EndBase, { RULES.records_max }>,
    /// Delay without queues of the end that answered last, nanoseconds, and whether it is certain that no queue is in it.
    pub(super) newest: Option<(f64, bool)>,
    /// The same of the nearest end whose delay is certain.
    pub(super) nearest: Option<f64>,
}

/// What is known of one end.
#[derive(Clone, Copy, Debug, Default)]
struct EndBase {
    /// Smallest delay by length of question and answer (short or long each), nanoseconds: a shaper that lets single packets out at line
    /// rate makes a clearing that suits one kind wrong for another.
    by_kind: [Option<f64>; 4],
    bound: LowerBound,
    proven_ns: Option<f64>,
}

/// An answer's delay, taken apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Split {
    /// What is queue, nanoseconds.
    pub(super) queue_ns: f64,
    /// What is not.
    pub(super) base_ns: f64,
    /// When it was last certain that the base contains no queue.
    pub(super) proven_ns: Option<f64>,
}

impl Bases {
    /// How much of the delay is queue; learns the delay without it.
    pub(super) fn split(&mut self, answer: &Cleared) -> Split {
        let delay = answer.delay_ns;
        let known = self.ends.entry(answer.end, EndBase::default);
        let is_long = |bytes: u32| usize::from(f64::from(bytes) > FULL_FRAME_BYTES / 2.0);
        let kind = is_long(answer.question_bytes) * 2 + is_long(answer.answer_bytes);
        let other_kinds = || known.by_kind.iter().flatten().copied().reduce(f64::min);
        // What others tell may be wrong, and no route is shorter than nothing.
        let by_others = || answer.known_ns.map_or(delay, |known| (delay - known).max(0.0));
        let first_of_kind = || other_kinds().unwrap_or_else(by_others).max(delay - answer.most_ns);
        let mut base = known.by_kind[kind].unwrap_or_else(first_of_kind).min(delay);
        if let Some(least) = known.bound.add(answer.at_ns, delay - answer.most_ns) {
            base = base.max(least).min(delay);
        }
        known.by_kind[kind] = Some(base);
        if answer.most_ns <= answer.clear_ns.max(RULES.slight * delay) && delay - base <= RULES.no_queue_ns {
            known.proven_ns = Some(answer.at_ns);
        }
        // The end as a whole is as near as its quickest kind of answer.
        let nearest = known.by_kind.iter().flatten().copied().reduce(f64::min).unwrap_or(base);
        self.newest = Some((nearest, known.proven_ns.is_some()));
        if known.proven_ns.is_some() && self.nearest.is_none_or(|least| nearest < least) {
            self.nearest = Some(nearest.max(0.0));
        }
        Split { queue_ns: delay - base, base_ns: base, proven_ns: known.proven_ns }
    }

    /// The most that an answer can have waited: its delay, less what of that is no queue for certain; infinite for what is no answer.
    pub(super) fn most_ns(&self, answer: Option<&Answer>) -> f64 {
        answer.map_or(f64::INFINITY, |answer| {
            let proven = self.ends.get(&answer.end).filter(|end| end.proven_ns.is_some());
            let base_ns = proven.and_then(|end| end.by_kind.iter().flatten().copied().reduce(f64::min));
            (answer.delay_ns as f64 - base_ns.unwrap_or(0.0)).max(0.0)
        })
    }

    /// So long a queue may hide in the delay without queues of the end that answered last, nanoseconds.
    pub(super) fn hiding_ns(&self) -> f64 {
        self.newest.map_or(0.0, |(base_ns, is_proven)| if is_proven { 0.0 } else { base_ns.max(0.0) })
    }
}
