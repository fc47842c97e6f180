//! A buffer of which only the beginning can be seen, such as a modem's: its level by book-keeping.
//!
//! Every byte that enters is seen; when it leaves follows from the link's rate (Lindley's recursion: a packet is served
//! when the one before it is, or when it comes). Errors of the rate, framing and drops make that drift. Answers set it right: each tells how long
//! one packet waited. Between two of them the error is spread over the packets between, after the newest the recursion goes on.

mod ledger;

use std::collections::VecDeque;

use super::End;
use super::known::KnownRate;
use super::learner::{Learner, Measured};
use super::level::{INTERVAL_NS, Levels};
use super::rules::RULES;
use crate::capacity::ServiceRate;
use crate::segment::SLOWEST_LINK;

/// One packet, or all of a short slot of time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at_ns: f64,
    /// End of its service.
    done_ns: f64,
    bytes: f64,
    /// Bytes that have entered up to its end.
    sum: f64,
    /// A wait was measured.
    is_measured: bool,
    /// So far off its book-keeping may be, nanoseconds: as far as it was when a wait was measured next. Until then, what is beyond the longest wait that was
    /// ever measured may have been dropped, of this packet or one before; and of an unknown rate, the slowest link would not have served what came since.
    off_ns: f64,
    /// How long it would have waited behind what came before if the link were the slowest there is.
    slowest_ns: f64,
}

/// A packet that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// When it came.
    pub(super) at_ns: u64,
    /// Bytes of its slot of time that came before it.
    pub(super) ahead_bytes: f64,
}

/// A level, and how far off it may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Booked {
    pub(super) levels: Levels,
    /// Of waiting, nanoseconds …
    pub(super) error_ns: f64,
    /// … and bytes, whichever is more.
    pub(super) doubt_bytes: f64,
}

/// The buffer.
#[derive(Debug)]
pub(super) struct EntrySide {
    /// What is known of the rate beside what is learnt.
    pub(super) known: KnownRate,
    pub(super) learner: Learner,
    entries: VecDeque<Entry>,
    sum: f64,
    /// Number of the newest measured entry, counted from the first ever.
    corrected: u64,
    first: u64,
    waited_ns: f64,
    /// The buffer has been seen to drop at its longest wait: no packet waits longer.
    is_limited: bool,
    measured_at_ns: f64,
    /// Mean square of the differences, nanoseconds squared, and how many they are.
    error2: f64,
    measured: f64,
    /// What stood before is not known …
    began_ns: f64,
    /// … and whether it has drained since.
    is_drained: bool,
    /// When the slowest link would have served all that came.
    slowest_done_ns: f64,
    /// Start of the next interval to take.
    pub(super) next_ns: u64,
}

impl EntrySide {
    pub(super) fn new(start_ns: u64) -> Self {
        Self {
            known: KnownRate::default(),
            learner: Learner::default(),
            entries: VecDeque::new(),
            sum: 0.0,
            corrected: 0,
            first: 0,
            waited_ns: 0.0,
            is_limited: false,
            measured_at_ns: f64::NEG_INFINITY,
            error2: 0.0,
            measured: 0.0,
            began_ns: start_ns as f64,
            is_drained: false,
            slowest_done_ns: start_ns as f64 + RULES.drained_ns,
            next_ns: start_ns,
        }
    }

    /// Bytes per nanosecond: what is configured, else what was measured.
    pub(super) fn rate(&self) -> Option<f64> {
        self.known.best(|pick| self.measured_rate(pick))
    }

    /// Bytes per nanosecond as measured. Where a rate is configured, one from sparse replies does not speak against it.
    pub(super) fn measured_rate(&self, pick: fn(&ServiceRate) -> Option<f64>) -> Option<f64> {
        let sparse = || self.learner.sparse_rate().filter(|_| !self.known.is_configured());
        self.learner.rate(pick, self.is_limited).or_else(sparse)
    }

    /// `bytes` enter; `repeated` of them repeat what was lost before.
    pub(super) fn enter(&mut self, at_ns: u64, bytes: u32, repeated: u32) {
        // In the order of time, whatever a clock says.
        let at_ns = self.entries.back().map_or(at_ns as f64, |before| before.at_ns.max(at_ns as f64));
        let bytes = f64::from(bytes);
        if self.entries.len() == RULES.packets_max {
            self.drop_first();
        }
        self.sum += bytes;
        self.learner.enter(bytes, f64::from(repeated));
        let busy_to = self.entries.back().map_or(at_ns, |before| before.done_ns);
        let rate = self.rate();
        let done_ns = self.after(rate, busy_to, at_ns, bytes);
        let before = self.entries.back().map_or((at_ns, 0.0), |before| (before.at_ns, before.off_ns));
        let off_ns = self.off_ns(rate, before, busy_to, at_ns, bytes);
        let slowest_ns = (self.slowest_done_ns - at_ns).max(0.0);
        self.slowest_done_ns = at_ns + slowest_ns + bytes / SLOWEST_LINK;
        self.entries.push_back(Entry {
            at_ns,
            done_ns,
            bytes,
            sum: self.sum,
            is_measured: false,
            off_ns,
            slowest_ns,
        });
    }

    /// When a packet is served that comes at `at_ns`, the link being busy until `busy_to`.
    fn after(&self, rate: Option<f64>, busy_to: f64, at_ns: f64, bytes: f64) -> f64 {
        match rate {
            Some(rate) => {
                let begins = busy_to.max(at_ns);
                // What finds the buffer full is dropped.
                let is_dropped = self.is_limited && begins - at_ns > self.learner.longest_ns();
                begins + if is_dropped { 0.0 } else { bytes / rate }
            }
            // It waits as long as the last one that was measured.
            None => busy_to.max(at_ns + self.waited_ns),
        }
    }

    /// How far off the book-keeping may be of a packet that comes at `at_ns` to a link that is busy until `busy_to`; `before`: when the one before came, and
    /// how far off that was.
    fn off_ns(&self, rate: Option<f64>, before: (f64, f64), busy_to: f64, at_ns: f64, bytes: f64) -> f64 {
        let (before_at_ns, before_ns) = before;
        let wait_ns = busy_to - at_ns;
        match rate {
            None => (before_ns - (at_ns - before_at_ns)).max(0.0) + bytes / SLOWEST_LINK,
            Some(_) if wait_ns <= 0.0 => 0.0,
            Some(_) => before_ns.max(wait_ns - self.learner.longest_ns()),
        }
    }

    /// The wait that the recursion gives for a packet that came at `at_ns`, if the rate is known.
    pub(super) fn expected_ns(&self, at_ns: u64) -> Option<f64> {
        let rate = self.rate()?;
        let entry = self.entries.get(self.index_of(at_ns as f64))?;
        Some((entry.done_ns - entry.bytes / rate - entry.at_ns).max(0.0))
    }

    /// Whether a queue can be ruled out for a packet that came at `at_ns` and was answered at `now_ns`: in the second before it no more entered than this
    /// part of the rate, and what had stood there when all this began has had time to drain. `is_quiet`: from then on hardly anything was
    /// answered before this packet was.
    pub(super) fn is_light(&mut self, at_ns: u64, now_ns: u64, part: f64, is_quiet: bool) -> bool {
        let Some(rate) = self.rate() else { return false };
        let entered = |entries: &VecDeque<Entry>, from_ns: f64, to_ns: f64| {
            let oldest = entries.partition_point(|entry| entry.at_ns < from_ns);
            let count = entries.partition_point(|entry| entry.at_ns <= to_ns);
            let newest = count.checked_sub(1).filter(|newest| *newest >= oldest);
            newest.map_or(0.0, |newest| entries[newest].sum - entries[oldest].sum + entries[oldest].bytes)
        };
        let (at_ns, now_ns) = (at_ns as f64, now_ns as f64);
        if !self.is_drained {
            let elapsed_ns = at_ns - self.began_ns;
            let index = self.index_of(at_ns);
            let sum = self.entries.get(index).map_or(0.0, |entry| entry.sum);
            // Whoever had filled it would have gone on meanwhile, and what stood there would have been answered.
            let began_quiet = is_quiet
                && elapsed_ns < RULES.drained_ns
                && entered(&self.entries, self.began_ns, now_ns) <= part * rate * (now_ns - self.began_ns);
            self.is_drained = began_quiet || elapsed_ns - sum / rate >= RULES.drained_ns;
            if began_quiet {
                return true;
            }
        }
        self.is_drained
            && entered(&self.entries, at_ns - RULES.second_ns, at_ns) <= part * rate * RULES.second_ns
    }

    /// The most that a packet of so many bytes, which came at `at_ns`, can have waited, whatever the rate is. `is_quiet`: from then on hardly anything was
    /// answered before this packet was.
    pub(super) fn most_ns(&self, at_ns: u64, bytes: u32, is_quiet: bool) -> f64 {
        let Some(index) = self.index_near(at_ns) else { return f64::INFINITY };
        let entry = self.entries[index];
        let beside_ns = (entry.bytes - f64::from(bytes)).max(0.0) / SLOWEST_LINK;
        // Whoever had filled it before all this began would have gone on meanwhile, and what stood there would have been answered.
        let began_quiet = is_quiet && self.first == 0 && entry.at_ns - self.began_ns < RULES.drained_ns;
        let since_start = || {
            let done = self
                .entries
                .range(..index)
                .fold(self.began_ns, |done, before| done.max(before.at_ns) + before.bytes / SLOWEST_LINK);
            (done - entry.at_ns).max(0.0)
        };
        beside_ns + if began_quiet { since_start() } else { entry.slowest_ns }
    }

    /// The packet, or the slot, that came at this moment as far as delays tell; `None` if it is forgotten, or was never seen.
    fn index_near(&self, at_ns: u64) -> Option<usize> {
        // Delays are whole microseconds.
        let index = self.index_of(at_ns as f64 - 1e3);
        self.entries
            .get(index)
            .filter(|entry| (entry.at_ns - at_ns as f64).abs() <= RULES.jitter_ns)
            .map(|_| index)
    }

    /// Bytes per nanosecond that entered in the second before, for want of a rate.
    pub(super) fn throughput(&self, at_ns: u64) -> f64 {
        let sum = |until_ns: f64| {
            let count = self.entries.partition_point(|entry| entry.at_ns <= until_ns);
            let first = self.entries.front().map_or(0.0, |entry| entry.sum - entry.bytes);
            count.checked_sub(1).map_or(first, |newest| self.entries[newest].sum)
        };
        (sum(at_ns as f64) - sum(at_ns as f64 - RULES.second_ns)) / RULES.second_ns
    }

    fn index_of(&self, at_ns: f64) -> usize {
        self.entries.partition_point(|entry| entry.at_ns < at_ns).min(self.entries.len().saturating_sub(1))
    }

    /// This packet waited for so long, which tells the rate. `unproven`: who answered, if a queue may hide in its base.
    pub(super) fn learn(&mut self, question: Question, wait_ns: f64, unproven: Option<End>) {
        let Some(index) = self.index_near(question.at_ns) else { return };
        let entry = self.entries[index];
        let begins_ns = entry.at_ns + wait_ns.max(0.0);
        let busy_since_ns = self.busy_since(index, wait_ns, begins_ns, unproven);
        let sum = entry.sum - entry.bytes + question.ahead_bytes.min(entry.bytes);
        self.learner.measure(Measured { at_ns: entry.at_ns, busy_since_ns, begins_ns, sum }, unproven);
    }

    /// This packet waited for so long; known at `now_ns`.
    pub(super) fn measure(&mut self, question: Question, wait_ns: f64, now_ns: f64) {
        let Some(index) = self.index_near(question.at_ns) else { return };
        let entry = self.entries[index];
        let wait_ns = wait_ns - self.rate().map_or(0.0, |rate| question.ahead_bytes.min(entry.bytes) / rate);
        let service_ns = self.rate().map_or(0.0, |rate| entry.bytes / rate);
        let begins_ns = entry.at_ns + wait_ns.max(0.0);
        let off_by = begins_ns + service_ns - entry.done_ns;
        // A newer packet was answered before, and left no later: this answer was held back. Of several answers to one question the first tells:
        // the others answer what was sent at the same tick of the sender's clock.
        let is_old = self.first + (index as u64) < self.corrected.saturating_sub(1);
        if off_by > 0.0 && (is_old || entry.is_measured) {
            return;
        }
        self.entries[index].is_measured = true;
        self.waited_ns = wait_ns.max(0.0);
        self.measured_at_ns = now_ns;
        // Without a rate there is no book-keeping that could err.
        self.measured = if self.rate().is_some() { self.measured + 1.0 } else { 1.0 };
        self.error2 += (1.0 / self.measured).max(RULES.half * RULES.slight) * (off_by * off_by - self.error2);
        let longest_ns = self.learner.longest_ns();
        self.is_limited |=
            off_by < -RULES.no_queue_ns && longest_ns > 0.0 && wait_ns > RULES.nearly * longest_ns;
        self.correct(index, off_by);
    }

    /// Since when the buffer was not empty in which this packet waited, at the latest: what stood before it is what had entered last. How much that is,
    /// the link tells that has served all between the packet measured before and this one; if it did not take long enough, the slowest link.
    fn busy_since(&self, index: usize, wait_ns: f64, begins_ns: f64, unproven: Option<End>) -> f64 {
        let entry = &self.entries[index];
        let sum = entry.sum - entry.bytes;
        let served = self.learner.newest(unproven).and_then(|before| {
            let busy_ns = begins_ns - before.begins_ns;
            (busy_ns >= RULES.span_ns).then(|| RULES.half * (sum - before.sum) / busy_ns)
        });
        let rate = served.map_or(SLOWEST_LINK, |rate| rate.max(SLOWEST_LINK));
        let stood = rate * (wait_ns - RULES.held_back_ns).max(0.0);
        let oldest = self.entries.partition_point(|entry| entry.sum <= sum - stood);
        self.entries[oldest.min(index)].at_ns
    }

    fn correct(&mut self, index: usize, off_by: f64) {
        let gain = match self.rate() {
            None => 1.0,
            Some(_) if off_by < 0.0 => RULES.nearly,
            Some(_) => RULES.half,
        };
        let shift = gain * off_by;
        // Spread over what came since the newest that was set right before.
        let from = (self.corrected.saturating_sub(self.first) as usize).min(index);
        let count = (index - from + 1) as f64;
        for (step, entry) in (1..).zip(self.entries.range_mut(from..=index)) {
            entry.off_ns = off_by.abs();
            entry.done_ns += shift * f64::from(step) / count;
            entry.done_ns = entry.done_ns.max(entry.at_ns);
        }
        self.corrected = self.corrected.max(self.first + index as u64 + 1);
        let rate = self.rate();
        let mut latest = self.entries[index].done_ns;
        // In order: what came before was served before.
        let mut after_ns = latest;
        for (at, entry) in self.entries.range_mut(..index).enumerate().rev() {
            if at < from && entry.done_ns <= after_ns {
                break;
            }
            entry.done_ns = entry.done_ns.min(after_ns).max(entry.at_ns);
            after_ns = entry.done_ns;
        }
        let mut before = (self.entries[index].at_ns, 0.0);
        for at in index + 1..self.entries.len() {
            let Entry { at_ns, bytes, done_ns, .. } = self.entries[at];
            before = (at_ns, self.off_ns(rate, before, latest, at_ns, bytes));
            self.entries[at].off_ns = before.1;
            let done = match rate {
                Some(_) => self.after(rate, latest, at_ns, bytes),
                None => (done_ns + shift).max(latest),
            };
            self.entries[at].done_ns = done;
            latest = done;
        }
    }

    /// Nothing entered between both moments.
    fn is_silent(&self, from: f64, to: f64) -> bool {
        let entered = |until: f64| self.entries.partition_point(|entry| entry.at_ns <= until);
        entered(from) == entered(to)
    }

    /// The oldest interval that ends at or before `until_ns` and was not taken yet.
    pub(super) fn pop(&mut self, until_ns: u64) -> Option<Option<Booked>> {
        let (from, to) = (self.next_ns, self.next_ns.saturating_add(INTERVAL_NS));
        if to > until_ns || to == from {
            return None;
        }
        self.next_ns = to;
        let levels = self.levels(from as f64, to as f64);
        // What has left before is not needed any more, but for the questions that may still be answered.
        let keep_ns = from as f64 - RULES.answered_ns;
        while self.entries.len() > 1 && self.entries[0].done_ns < keep_ns && self.entries[1].at_ns < keep_ns {
            self.drop_first();
        }
        Some(levels)
    }

    fn drop_first(&mut self) {
        self.entries.pop_front();
        self.first += 1;
    }

    /// Begins anew at `start_ns`.
    pub(super) fn restart(&mut self, start_ns: u64) {
        let Self { known, mut learner, is_limited, .. } = std::mem::replace(self, Self::new(start_ns));
        learner.interrupt();
        // It has drained for certain.
        let slowest_done_ns = start_ns as f64;
        *self = Self { known, learner, is_limited, is_drained: true, slowest_done_ns, ..Self::new(start_ns) };
    }
}
