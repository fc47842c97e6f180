//! The rate of a link of whose buffer only the beginning is seen, from when packets have left it.

use std::collections::VecDeque;

use crate::capacity::ServiceRate;
use crate::recent::Recent;
use crate::segment::{FULL_FRAME_BYTES, SLOWEST_LINK};

use super::End;
use super::rules::RULES;

/// A packet of which it is known when its service began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) at_ns: f64,
    /// Since when the buffer was not empty, at the latest.
    pub(super) busy_since_ns: f64,
    pub(super) begins_ns: f64,
    /// Bytes that have entered before it.
    pub(super) sum: f64,
}

/// A stretch in which the buffer was not empty.
#[derive(Clone, Copy, Debug)]
struct BusySpan {
    end_ns: f64,
    busy_ns: f64,
    bytes: f64,
    /// The longer wait of both ends.
    wait_ns: f64,
    /// Bytes that had been sent again when it began.
    repeated: f64,
}

/// From the service of one packet to that of another, the buffer not empty between.
#[derive(Debug, Default)]
struct OpenSpan {
    /// Its first and its newest packet.
    ends: Option<(Measured, Measured)>,
    /// Bytes that repeat what was lost, until it began.
    repeated: f64,
}

impl OpenSpan {
    /// One more packet: what entered between both ends is what the link carried. It was not empty if, when the service of the one before began, it had been
    /// not empty since `since_ns` at the latest.
    fn extend(&mut self, new: Measured, since_ns: f64, repeated: f64) -> Option<BusySpan> {
        let open = self.ends.filter(|(_, before)| since_ns + RULES.no_queue_ns < before.begins_ns);
        let span = open.map(|(begin, _)| BusySpan {
            end_ns: new.begins_ns,
            busy_ns: new.begins_ns - begin.begins_ns,
            bytes: new.sum - begin.sum,
            wait_ns: (new.begins_ns - new.at_ns).max(begin.begins_ns - begin.at_ns),
            repeated: self.repeated,
        });
        let is_short = span.is_some_and(|span| span.busy_ns < RULES.span_ns || span.bytes <= 0.0);
        if let Some((_, newest)) = self.ends.as_mut().filter(|_| is_short) {
            *newest = new;
            return None;
        }
        *self = Self { ends: Some((new, new)), repeated };
        span
    }
}

/// The longest waits of the newest seconds.
#[derive(Debug, Default)]
struct Longest {
    /// Number of the second, and its longest wait.
    seconds: VecDeque<(u64, f64)>,
    /// The longest that so many of them confirm; the longest of all while they are fewer.
    confirmed_ns: f64,
    /// The longest ever.
    ever_ns: f64,
}

impl Longest {
    fn add(&mut self, at_ns: f64, wait_ns: f64) {
        self.ever_ns = self.ever_ns.max(wait_ns);
        let second = (at_ns / RULES.second_ns) as u64;
        match self.seconds.back_mut() {
            Some((newest, longest)) if second <= *newest => {
                if wait_ns <= *longest {
                    return;
                }
                *longest = wait_ns;
            }
            _ => self.seconds.push_back((second, wait_ns)),
        }
        if self.seconds.len() > RULES.values_max {
            self.seconds.pop_front();
        }
        let mut longest = [0.0; RULES.few];
        for (_, wait_ns) in &self.seconds {
            if *wait_ns > longest[RULES.few - 1] {
                longest[RULES.few - 1] = *wait_ns;
                longest.sort_by(|one, two| two.total_cmp(one));
            }
        }
        self.confirmed_ns = longest[if self.seconds.len() < RULES.few { 0 } else { RULES.few - 1 }];
    }
}

/// A rate that counts while most of what it is made of agrees: replies that are late by themselves, or base delays in which a queue hides, give spans of
/// any rate.
#[derive(Debug, Default)]
struct AgreedRate {
    rate: ServiceRate,
    /// Known since the newest was added: each packet asks for the rate.
    agrees: bool,
    /// How long all of it was measured.
    busy_ns: f64,
}

impl AgreedRate {
    fn add(&mut self, span: &BusySpan) {
        self.rate.add(span.end_ns, span.busy_ns, span.bytes);
        self.busy_ns += span.busy_ns;
        self.agrees = self.rate.share_within(RULES.within) >= RULES.half;
    }

    fn get(&self, of: impl Fn(&ServiceRate) -> Option<f64>) -> Option<f64> {
        of(&self.rate).filter(|_| self.agrees)
    }
}

/// What one end tells, if a queue may hide in its base, or all whose bases are proven. What hides is the same for both ends of a span: the rate is right
/// nevertheless.
#[derive(Debug, Default)]
struct EndSpans {
    measured: VecDeque<Measured>,
    span: OpenSpan,
    sparse_span: OpenSpan,
}

impl EndSpans {
    /// In order: an answer that was held back shows by the next one. Returns what no later one can change.
    fn add(&mut self, new: Measured) -> Option<Measured> {
        for old in self.measured.iter_mut().rev() {
            if old.sum > new.sum || old.begins_ns <= new.begins_ns {
                break;
            }
            old.begins_ns = new.begins_ns;
        }
        if self.measured.back().is_some_and(|newest| newest.sum >= new.sum) {
            return None;
        }
        self.measured.push_back(new);
        (self.measured.len() > RULES.settled).then(|| self.measured.pop_front()).flatten()
    }
}

/// Learns the rate.
#[derive(Debug, Default)]
pub(super) struct Learner {
    /// From spans in which the buffer was not full …
    open: AgreedRate,
    /// … and from those in which it was.
    full: AgreedRate,
    /// For want of both, from spans between packets that did not stand there together: how much stood before each, the rate itself tells. Not full either.
    sparse: AgreedRate,
    held: VecDeque<BusySpan>,
    by_end: Recent<Option<End>, EndSpans, { RULES.values_max }>,
    /// Bytes that repeat what was lost.
    repeated: f64,
    /// So much of it has been found to be what was dropped of spans.
    found: f64,
    longest: Longest,
    losses: f64,
    total: f64,
}

impl Learner {
    /// Bytes per nanosecond as measured. From a full buffer what was lost is taken off, if that is little and what is known otherwise agrees:
    /// whoever sends faster than the link, or does not repeat what was lost, makes a full buffer's rate too high, never too low. So it counts where it is
    /// lower. Nothing is known of a buffer that `drops` what nobody repeats, as QUIC does not in sight.
    pub(super) fn rate(&self, of: impl Fn(&ServiceRate) -> Option<f64>, drops: bool) -> Option<f64> {
        let has_slowed = self.full.agrees && self.full.rate.is_slower_than(&self.open.rate);
        let from_full = || {
            let lost = if self.total > 0.0 { (self.losses / self.total).max(0.0) } else { 0.0 };
            let rate = self.full.get(&of)? * (1.0 - lost);
            let agrees = self.open.rate.rough().is_none_or(|open| (rate - open).abs() <= RULES.within * open);
            (lost <= RULES.within && (agrees || has_slowed) && (lost > 0.0 || !drops)).then_some(rate)
        };
        self.open.get(&of).filter(|_| !has_slowed).or_else(from_full)
    }

    /// Whether the rate is good for more than the level. Whoever begins sends more than the link carries until it learns what was lost: of a buffer that was
    /// full all the time, the first seconds tell a rate that is too high.
    pub(super) fn is_sure(&self) -> bool {
        self.open.rate.rough().is_some() || self.full.busy_ns == 0.0 || self.full.busy_ns >= RULES.answered_ns
    }

    /// Bytes per nanosecond for want of the rate: from what did not stand there together.
    pub(super) fn sparse_rate(&self) -> Option<f64> {
        self.sparse.get(ServiceRate::rate)
    }

    /// The newest moment at which the buffer was known to hold a queue.
    pub(super) fn newest_ns(&self) -> f64 {
        [&self.open, &self.full, &self.sparse]
            .map(|learnt| learnt.rate.newest_ns())
            .into_iter()
            .fold(0.0, f64::max)
    }

    /// The newest packet that was measured by the same.
    pub(super) fn newest(&self, unproven: Option<End>) -> Option<&Measured> {
        self.by_end.get(&unproven)?.measured.back()
    }

    /// The longest wait ever measured.
    pub(super) fn longest_ns(&self) -> f64 {
        self.longest.ever_ns
    }

    /// So many bytes enter the buffer; `repeated` of them repeat what was lost before.
    pub(super) fn enter(&mut self, bytes: f64, repeated: f64) {
        let kept = 1.0 - 1.0 / RULES.records_max as f64;
        self.total = self.total * kept + bytes;
        self.losses = self.losses * kept + repeated;
        self.repeated += repeated;
    }

    /// A packet's service began. `unproven`: who answered it, if a queue may hide in the base of that.
    pub(super) fn measure(&mut self, new: Measured, unproven: Option<End>) {
        let repeated = self.repeated;
        let told = self.by_end.entry(unproven, EndSpans::default);
        let Some(settled) = told.add(new) else { return };
        let span = told.span.extend(settled, settled.at_ns, repeated);
        let sparse = told.sparse_span.extend(settled, settled.busy_since_ns, repeated);
        self.longest.add(settled.at_ns, settled.begins_ns - settled.at_ns);
        self.held.extend(span);
        // Slower than any link: replies are late by themselves.
        let usable = |span: &BusySpan| !self.is_full(span) && span.bytes >= SLOWEST_LINK * span.busy_ns;
        if let Some(span) = sparse.filter(usable) {
            self.sparse.add(&span);
        }
        self.decide(settled.begins_ns);
    }

    /// Nothing spans a silence.
    pub(super) fn interrupt(&mut self) {
        self.decide(f64::INFINITY);
        self.by_end = Recent::default();
    }

    fn is_full(&self, span: &BusySpan) -> bool {
        // For a first guess, all that is known of the buffer has to do.
        let has_guess = self.open.rate.rough().is_some();
        let longest_ns = if has_guess { self.longest.confirmed_ns } else { self.longest.ever_ns };
        span.wait_ns > RULES.nearly * longest_ns
    }

    /// Whether the buffer was full in the oldest spans is known.
    fn decide(&mut self, now_ns: f64) {
        while let Some(span) = self.held.front().copied() {
            let is_full = self.is_full(&span);
            let excess = self.excess(&span);
            let is_undecided = is_full || excess > 0.0;
            if is_undecided && now_ns < span.end_ns + RULES.undecided_ns && self.held.len() < RULES.values_max
            {
                return;
            }
            self.held.pop_front();
            // A buffer that counts packets is full of ACKs long before it holds the longest wait.
            let known = self.found.max(span.repeated);
            let has_dropped = excess > 0.0 && self.repeated - known >= RULES.half * excess;
            if has_dropped {
                self.found = known + RULES.half * excess;
            }
            let learnt = if is_full || has_dropped { &mut self.full } else { &mut self.open };
            learnt.add(&span);
        }
    }

    /// Bytes of a span beyond what the link is known to carry, if they are many: what is dropped and sent again are whole segments.
    fn excess(&self, span: &BusySpan) -> f64 {
        let Some(rate) = self.open.rate.rate() else { return 0.0 };
        let expected = rate * span.busy_ns;
        let excess = span.bytes - expected;
        if excess > (RULES.excess * expected).max(RULES.half * FULL_FRAME_BYTES) { excess } else { 0.0 }
    }
}
