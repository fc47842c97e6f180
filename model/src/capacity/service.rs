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
mod tests {
    use super::*;

    fn feed(rate: &mut ServiceRate, from_s: f64, seconds: f64, bytes_per_s: f64, frame: f64) {
        let step = frame / bytes_per_s;
        for i in 0..(seconds / step) as u32 {
            rate.add((from_s + f64::from(i) * step) * 1e9, step * 1e9, frame);
        }
    }

    #[test]
    fn a_rate_needs_a_second_and_thirty_two_frames() {
        let mut rate = ServiceRate::default();
        feed(&mut rate, 0.0, 0.9, 300_000.0, 1500.0);
        assert_eq!(rate.rate(), None);
        assert!((rate.rough().expect("a guess") * 1e9 - 300_000.0).abs() < 1.0);
        feed(&mut rate, 0.9, 0.2, 300_000.0, 1500.0);
        assert!((rate.rate().expect("a rate") * 1e9 - 300_000.0).abs() < 1.0);
        // 24,500 bytes a second: a second holds 16 frames only.
        let mut slow = ServiceRate::default();
        feed(&mut slow, 0.0, 1.5, 24_500.0, 1500.0);
        assert_eq!(slow.rate(), None);
        feed(&mut slow, 1.5, 1.0, 24_500.0, 1500.0);
        assert!((slow.rate().expect("a rate") * 1e9 - 24_500.0).abs() < 1.0);
    }

    #[test]
    fn it_follows_a_link_that_becomes_slower_or_faster() {
        for after in [150_000.0, 600_000.0] {
            let mut rate = ServiceRate::default();
            feed(&mut rate, 0.0, 30.0, 300_000.0, 1500.0);
            feed(&mut rate, 30.0, 2.5, after, 1500.0);
            let found = rate.rate().expect("a rate") * 1e9;
            assert!((found - after).abs() < 0.01 * after, "{found} for {after}");
            assert!(rate.newest_ns() > 32.4e9);
        }
    }

    #[test]
    fn nonsense_is_left_out() {
        let mut rate = ServiceRate::default();
        for (busy, bytes) in [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            rate.add(1.0, busy, bytes);
        }
        assert_eq!((rate.rough(), rate.newest_ns()), (None, 0.0));
    }

    /// Spans of a second, newest last, of so many frames.
    fn seconds(frames: &[u32]) -> ServiceRate {
        let mut rate = ServiceRate::default();
        for (at, frames) in frames.iter().enumerate() {
            rate.add(at as f64 * 1e9, 1e9, f64::from(*frames) * FULL_FRAME_BYTES);
        }
        rate
    }

    fn frames(rate: &ServiceRate) -> Option<u32> {
        rate.rate().map(|rate| (rate * 1e9 / FULL_FRAME_BYTES * 100.0).round() as u32)
    }

    #[test]
    fn a_rate_is_of_ten_seconds_or_as_long_as_32_frames_take() {
        assert_eq!(seconds(&[100; 10]).spans.len(), 10);
        assert_eq!(seconds(&[100; 11]).spans.len(), 10);
        // Two frames a second: 17 seconds without the oldest hold 32 of them.
        assert_eq!([16, 17].map(|count| seconds(&vec![2; count]).spans.len()), [16, 16]);
        assert_eq!(seconds(&[2; 40]).spans.len(), 16);
        let mut many = ServiceRate::default();
        (0..SPANS_MAX + 5).for_each(|_| many.add(0.0, 1.0, 1.0));
        assert_eq!(
            (many.spans.len(), many.busy_ns, many.bytes),
            (SPANS_MAX, SPANS_MAX as f64, SPANS_MAX as f64)
        );
    }

    #[test]
    fn a_single_span_is_kept_however_long() {
        let mut rate = ServiceRate::default();
        rate.add(0.0, 50e9, 1e9);
        assert_eq!(rate.rate(), Some(0.02));
    }

    #[test]
    fn the_first_guess_needs_a_tenth_of_both() {
        let rough = |busy_ns, frames: f64| {
            let mut rate = ServiceRate::default();
            rate.add(0.0, busy_ns, frames * FULL_FRAME_BYTES);
            rate.rough().is_some()
        };
        assert_eq!([rough(1e8, 3.3), rough(0.99e8, 9.0), rough(9e8, 3.1)], [true, false, false]);
    }

    #[test]
    fn a_rate_that_differs_by_8_percent_for_a_second_replaces_the_old_one() {
        assert_eq!(frames(&seconds(&[100, 100, 108])), Some(10_267));
        assert_eq!(frames(&seconds(&[100, 100, 109])), Some(10_900));
        assert_eq!(frames(&seconds(&[100, 100, 91])), Some(9_100));
        // Each needs a second and 32 frames.
        assert_eq!(frames(&seconds(&[20, 40])), Some(4_000));
        assert_eq!(frames(&seconds(&[100, 100, 31])), Some(6_550), "with the second before");
        assert_eq!(frames(&seconds(&[100, 100, 32])), Some(3_200));
        let mut short = ServiceRate::default();
        short.add(0.0, 0.9e9, 90.0 * FULL_FRAME_BYTES);
        short.add(1e9, 1e9, 200.0 * FULL_FRAME_BYTES);
        assert_eq!(short.spans.len(), 2);
    }

    #[test]
    fn a_part_of_the_time_is_near_the_rate() {
        // 100 frames in the mean.
        let rate = seconds(&[100, 97, 103, 100]);
        assert_eq!([rate.share_within(0.029), rate.share_within(0.031)], [0.5, 1.0]);
    }

    #[test]
    fn a_link_has_become_slower_by_more_than_8_percent_by_what_is_as_new() {
        let slower = |frames: u32, end_s: f64| {
            let mut now = ServiceRate::default();
            now.add(end_s * 1e9, 1e9, f64::from(frames) * FULL_FRAME_BYTES);
            now.is_slower_than(&seconds(&[100, 100]))
        };
        assert_eq!(
            [slower(91, 1.0), slower(93, 1.0), slower(91, 0.9), slower(120, 1.0)],
            [true, false, false, false]
        );
        assert!(!ServiceRate::default().is_slower_than(&seconds(&[100])));
        let mut late = ServiceRate::default();
        late.add(5.0, 1.0, 1.0);
        late.add(3.0, 1.0, 1.0);
        assert_eq!(late.newest_ns(), 5.0);
    }
}
