//! Several ends that tell of one hidden buffer: how much of its queue is in the delay without queue of each.
//!
//! An end that is first heard while the buffer holds a queue has the smallest queue since then in its smallest delay, and its waits are
//! too short by that. But all ends wait in the same buffer. So the end that was heard first, or whose delay without queue is proven,
//! tells how much is missing at the others.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::End;
use super::base::Split;
use super::rules::RULES;
use crate::recent::Recent;

/// What is known of one end.
#[derive(Debug)]
struct HeardEnd {
    first_ns: f64,
    /// PacketWait by the best end less that by this one.
    differences: VecDeque<f64>,
    missing_ns: Option<f64>,
}

/// The best end, and its newest waits.
#[derive(Debug)]
struct Best {
    end: End,
    is_proven: bool,
    first_ns: f64,
    heard_ns: f64,
    /// When a question passed, and how long it waited.
    waits: VecDeque<(f64, f64)>,
}

/// What an end's word is worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Correction {
    /// The question waited so much longer, nanoseconds.
    pub(super) missing_ns: f64,
    /// No other end tells better.
    pub(super) is_best: bool,
}

/// All ends.
#[derive(Debug, Default)]
pub(super) struct CrossChecks {
    ends: Recent<End, HeardEnd, { RULES.records_max }>,
    best: Option<Best>,
}

impl CrossChecks {
    /// An end tells how long a question waited that passed at `asked_ns`; known at `now_ns`. `None` if it is not known how much longer it waited than
    /// that, and another end tells better.
    pub(super) fn judge(
        &mut self,
        end: End,
        split: &Split,
        asked_ns: f64,
        now_ns: f64,
    ) -> Option<Correction> {
        let heard = self.ends.entry(end, || HeardEnd {
            first_ns: now_ns,
            differences: VecDeque::new(),
            missing_ns: None,
        });
        let is_proven = split.proven_ns.is_some();
        let rank = |is_proven: bool, first_ns: f64| (is_proven, Reverse(first_ns as u64));
        let own = rank(is_proven, heard.first_ns);
        let is_best = self.best.as_ref().is_none_or(|best| {
            best.end == end
                || own > rank(best.is_proven, best.first_ns)
                || now_ns - best.heard_ns > RULES.long_ns
        });
        let missing_ns = if is_proven { 0.0 } else { heard.missing_ns.unwrap_or(0.0) };
        if is_best {
            let waits = self.best.take().filter(|best| best.end == end).map(|best| best.waits);
            let mut waits = waits.unwrap_or_default();
            waits.push_back((asked_ns, split.queue_ns + missing_ns));
            if waits.len() > RULES.values_max {
                waits.pop_front();
            }
            self.best = Some(Best { end, is_proven, first_ns: heard.first_ns, heard_ns: now_ns, waits });
            return Some(Correction { missing_ns, is_best });
        }
        let nearest = self.best.iter().flat_map(|best| &best.waits).min_by(|a, b| {
            let away = |wait: &(f64, f64)| (wait.0 - asked_ns).abs();
            away(a).total_cmp(&away(b))
        });
        if let Some((_, wait_ns)) = nearest.filter(|(at_ns, _)| (at_ns - asked_ns).abs() < RULES.vague_ns) {
            heard.differences.push_back(wait_ns - split.queue_ns);
            if heard.differences.len() > 2 * RULES.agreeing {
                heard.differences.pop_front();
            }
            if heard.differences.len() >= RULES.agreeing {
                let mut sorted: Vec<f64> = heard.differences.iter().copied().collect();
                sorted.sort_by(f64::total_cmp);
                let median = sorted[sorted.len() / 2];
                heard.missing_ns = Some(if median.abs() > RULES.held_back_ns { median } else { 0.0 });
            }
        }
        let missing_ns = if is_proven { Some(0.0) } else { heard.missing_ns }?;
        Some(Correction { missing_ns, is_best })
    }
}
