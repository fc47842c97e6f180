//! What is known of a wait where one moment's packets tell only part of it.

use crate::constants::{FEW, HELD_BACK_MOST_S, MEASURED_WITHIN, NO_QUEUE_S, SLIGHT};

use super::{Delay, FlowRtt, NOTICED_S, Part, Unknown};

/// A wait lies between these, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WaitBounds {
    pub(super) least_s: f64,
    /// Half of the replies waited no longer: a late one among them accuses nobody.
    pub(super) likely_s: f64,
    pub(super) most_s: f64,
}

impl WaitBounds {
    /// Nothing is known.
    pub(super) const ANY: Self = Self { least_s: 0.0, likely_s: f64::INFINITY, most_s: f64::INFINITY };

    /// The delay that is published: the middle, and how far the bounds are from it.
    pub(super) fn delay(self, base_s: f64) -> Delay {
        let half_s = if self.most_s.is_finite() { (self.most_s - self.least_s) / 2.0 } else { 0.0 };
        Delay { base_s, queue_s: self.least_s + half_s, uncertainty_s: NO_QUEUE_S + half_s }
    }

    /// What both say; where they contradict each other, the upper bound holds.
    pub(super) fn and(self, other: Self) -> Self {
        let most_s = self.most_s.min(other.most_s).max(0.0);
        let likely_s = self.likely_s.min(other.likely_s).clamp(0.0, most_s);
        Self { least_s: self.least_s.max(other.least_s).clamp(0.0, most_s), likely_s, most_s }
    }

    /// Without what packets waited `elsewhere_s`, in a queue that is known to a part of it.
    pub(super) fn less(self, elsewhere_s: f64) -> Self {
        let uncertain_s = MEASURED_WITHIN * elsewhere_s;
        let least_s = self.least_s - elsewhere_s - uncertain_s;
        let likely_s = self.likely_s - elsewhere_s;
        Self { least_s, likely_s, most_s: self.most_s - elsewhere_s + uncertain_s }.and(Self::ANY)
    }

    /// Of a flow whose packets also waited `elsewhere_s` in a queue that is known to a part of it, and took up to `on_line_s` to be sent.
    pub(super) fn of_flow(rtt: FlowRtt, base_s: f64, elsewhere_s: f64, on_line_s: f64) -> Self {
        let most_s = rtt.least_s - base_s;
        // One ACK at a time is delayed: on average no longer than the time from one to the next.
        let held_s = (1.0 / f64::from(rtt.samples.max(1))).min(HELD_BACK_MOST_S);
        let least_s = if (rtt.samples as usize) < FEW { 0.0 } else { most_s - on_line_s - held_s };
        Self { least_s, likely_s: most_s, most_s }.less(elsewhere_s)
    }
}

/// One of those that packets go to.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndWait {
    pub(super) number: u32,
    pub(super) base_s: f64,
    pub(super) wait: WaitBounds,
    /// Packets that went there, or came from there.
    pub(super) packets: u32,
}

/// The slowest part of the traffic.
pub(super) struct Slowest {
    /// What it waits.
    pub(super) part: Part,
    /// Which of the ends does.
    pub(super) whose: Option<u32>,
    /// What it may wait although too few replies show it, seconds.
    pub(super) may_wait_s: f64,
}

impl Slowest {
    /// Nothing shows it.
    pub(super) const fn unknown(why: Unknown) -> Self {
        Self { part: Err(why), whose: None, may_wait_s: 0.0 }
    }
}

/// What the slowest part of the traffic waits, and who of the ends does.
pub(super) fn slowest(ends: &[EndWait]) -> Slowest {
    let certain_and_likely =
        slowest_by(ends, |wait| wait.least_s).zip(slowest_by(ends, |wait| wait.likely_s));
    let is_heard = ends.iter().any(|end| end.wait.most_s.is_finite());
    let Some((certain, likely)) = certain_and_likely.filter(|_| is_heard) else {
        return Slowest::unknown(Unknown::NoReplies);
    };
    let (least_s, likely_s) = (certain.wait.least_s, likely.wait.likely_s);
    if least_s < NOTICED_S && likely_s >= NOTICED_S && likely_s - least_s > NOTICED_S {
        return Slowest { may_wait_s: likely_s, ..Slowest::unknown(Unknown::TooFew) };
    }
    let whose = if least_s > 0.0 { certain } else { likely };
    Slowest { part: Ok(whose.wait.delay(whose.base_s)), whose: Some(whose.number), may_wait_s: 0.0 }
}

/// The end that a tenth of the packets waits as long as, or longer.
fn slowest_by(ends: &[EndWait], figure: impl Fn(WaitBounds) -> f64) -> Option<EndWait> {
    let mut sorted = ends.to_vec();
    sorted.sort_by(|a, b| figure(b.wait).total_cmp(&figure(a.wait)));
    let all: f64 = sorted.iter().map(|end| f64::from(end.packets)).sum();
    let mut slower = 0.0;
    sorted.into_iter().find(|end| {
        slower += f64::from(end.packets);
        slower > 0.0 && slower >= SLIGHT * all
    })
}
