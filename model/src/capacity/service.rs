//! A link's rate from what left its buffer back to back.
//!
//! While a buffer holds a packet, the link sends. So bytes over time between two departures, with something waiting
//! throughout, *is* the rate. Spans of that kind are collected; the rate is their sum over the most recent ones, up to [`RECENT`] of busy time.

use std::collections::VecDeque;

use crate::constants::{RECENT, SLIGHT};
use crate::segment::FULL_FRAME_BYTES;

/// The rate has changed if the newest spans differ by more than this part.
const CHANGED: f64 = 0.08;

/// A rate to be shown, and one that has changed, rest on this much busy time and so many bytes.
pub(super) const SUSTAINED_NS: f64 = 1e9;
pub(super) const SUSTAINED_BYTES: f64 = 32.0 * FULL_FRAME_BYTES;

/// Spans remembered.
const SPANS_MAX: usize = 1 << 14;

/// A stretch of time in which the link was busy throughout.
#[derive(Clone, Copy, Debug)]
struct ServiceSpan {
    busy_ns: f64,
    bytes: f64,
}

/// Learns one direction's rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceRate {
    spans: VecDeque<ServiceSpan>,
    busy_ns: f64,
    bytes: f64,
    newest_ns: f64,
}

impl ServiceRate {
    /// The link was busy for `busy_ns`, until `end_ns`, and carried `bytes`.
    pub(crate) fn add(&mut self, end_ns: f64, busy_ns: f64, bytes: f64) {
        if !(busy_ns > 0.0 && bytes > 0.0 && busy_ns.is_finite() && bytes.is_finite()) {
            return;
        }
        self.newest_ns = self.newest_ns.max(end_ns);
        self.spans.push_back(ServiceSpan { busy_ns, bytes });
        self.busy_ns += busy_ns;
        self.bytes += bytes;
        while self.is_too_much() {
            self.drop_oldest();
        }
        self.drop_another_rate();
    }

    /// Bytes per nanosecond, good enough to show.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.is_sustained(1.0).then(|| self.bytes / self.busy_ns)
    }

    /// Bytes per nanosecond as far as known: the first guess rests on a tenth of that.
    pub(crate) fn rough(&self) -> Option<f64> {
        self.is_sustained(SLIGHT).then(|| self.bytes / self.busy_ns)
    }

    /// Share of the busy time in which the link carried the rate within this part of it.
    pub(crate) fn share_within(&self, part: f64) -> f64 {
        let rate = self.bytes / self.busy_ns;
        let is_near =
            |span: &&ServiceSpan| (span.bytes - rate * span.busy_ns).abs() <= part * rate * span.busy_ns;
        self.spans.iter().filter(is_near).map(|span| span.busy_ns).sum::<f64>() / self.busy_ns
    }

    /// The newest moment at which the link was known to be busy.
    pub(crate) fn newest_ns(&self) -> f64 {
        self.newest_ns
    }

    /// Whether the link has become slower than `before` says, by what is as new. For measurements that may make a link too fast, never too slow.
    pub(crate) fn is_slower_than(&self, before: &Self) -> bool {
        let rates = self.rate().zip(before.rate()).filter(|_| self.newest_ns >= before.newest_ns);
        rates.is_some_and(|(now, before)| before - now > CHANGED * before)
    }

    fn is_sustained(&self, part: f64) -> bool {
        self.busy_ns >= part * SUSTAINED_NS && self.bytes >= part * SUSTAINED_BYTES
    }

    /// On slow links the window is as long as a sustained rate takes.
    fn is_too_much(&self) -> bool {
        let Some(oldest) = self.spans.front().filter(|_| self.spans.len() > 1) else { return false };
        let is_long = self.busy_ns > RECENT.as_nanos() as f64 && self.bytes - oldest.bytes >= SUSTAINED_BYTES;
        is_long || self.spans.len() > SPANS_MAX
    }

    fn drop_oldest(&mut self) {
        if let Some(span) = self.spans.pop_front() {
            self.busy_ns -= span.busy_ns;
            self.bytes -= span.bytes;
        }
    }

    /// What was measured before the rate changed is no part of it.
    fn drop_another_rate(&mut self) {
        let (mut busy_ns, mut bytes, mut count) = (0.0, 0.0, 0);
        for span in self.spans.iter().rev() {
            busy_ns += span.busy_ns;
            bytes += span.bytes;
            count += 1;
            if busy_ns >= SUSTAINED_NS && bytes >= SUSTAINED_BYTES {
                break;
            }
        }
        let (old_ns, old_bytes) = (self.busy_ns - busy_ns, self.bytes - bytes);
        if busy_ns < SUSTAINED_NS || bytes < SUSTAINED_BYTES || old_ns < SUSTAINED_NS {
            return;
        }
        let (recent, old) = (bytes / busy_ns, old_bytes / old_ns);
        if (recent - old).abs() > CHANGED * old {
            while self.spans.len() > count {
                self.drop_oldest();
            }
        }
    }
}

#[cfg(test)]
mod tests;
