//! What passed and when it left the buffer behind: how fast that buffer is served, and what stands in it now.

use std::collections::VecDeque;

use super::RULES;
use crate::constants::{BLIND, FEW, HEARD_S, HELD_BACK_S};
use crate::segment::FULL_FRAME_BYTES;

/// A packet of which it is known when it left the buffer.
#[derive(Clone, Copy, Debug)]
struct Served {
    passed: f64,
    left: f64,
    /// Bytes that had passed up to and with it.
    sum: f64,
}

/// What passed the point of measurement. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// When, and the bytes that had passed then.
    log: VecDeque<(f64, f64)>,
    sum: f64,
    served: VecDeque<Served>,
}

impl Service {
    /// So many bytes pass. In the order of time; what comes out of it counts as of the newest time.
    pub(super) fn pass(&mut self, at: f64, bytes: f64) {
        let at = self.log.back().map_or(at, |(newest, _)| at.max(*newest));
        self.sum += bytes;
        self.log.push_back((at, self.sum));
        while self.log.front().is_some_and(|(oldest, _)| *oldest < at - (HEARD_S + BLIND.as_secs_f64())) {
            self.log.pop_front();
        }
    }

    /// What was known of the buffer does not hold any more.
    pub(super) fn forget(&mut self) {
        self.served.clear();
    }

    /// Bytes that had passed by then, and of the packet that did so last.
    pub(super) fn at(&self, at: f64) -> (f64, f64) {
        let index = self.log.partition_point(|(passed, _)| *passed <= at);
        let sum = |index: usize| self.log.get(index).map(|(_, sum)| *sum);
        let Some(newest) = index.checked_sub(1).and_then(sum) else {
            // Older than what is remembered.
            return (self.log.front().map_or(self.sum, |(_, sum)| *sum), 0.0);
        };
        let before = index.checked_sub(2).and_then(sum).unwrap_or(newest);
        (newest, newest - before)
    }

    /// What passed at `passed` left the buffer at `left`; `sum` had passed with it. An answer that was held back shows by the next
    /// one: the buffer is first in, first out.
    pub(super) fn serve(&mut self, passed: f64, left: f64, sum: f64) {
        for earlier in self.served.iter_mut().rev() {
            if earlier.passed > passed || earlier.left <= left {
                break;
            }
            earlier.left = left;
        }
        // Of packets that passed together, the last one leaves when all of them have left.
        if let Some(newest) = self.served.back_mut().filter(|newest| newest.passed == passed) {
            newest.left = newest.left.max(left);
        }
        if self.served.back().is_none_or(|newest| newest.passed < passed) {
            self.served.push_back(Served { passed, left, sum });
        }
        while self
            .served
            .front()
            .is_some_and(|oldest| oldest.passed < passed - (HEARD_S + BLIND.as_secs_f64()))
        {
            self.served.pop_front();
        }
    }

    /// How fast the buffer was served lately while each packet waited for longer than `wait` seconds, bytes per second; `None` if that says
    /// nothing. `rate`: what is known of it.
    pub(super) fn service(&self, wait: f64, rate: Option<f64>) -> Option<f64> {
        let waits = |it: &&Served| it.left - it.passed > wait;
        let newest = self.served.back().filter(waits)?;
        let since = |it: &Served| (newest.left - it.left, newest.sum - it.sum);
        let few = FEW as f64 * FULL_FRAME_BYTES;
        let pause = rate.map_or(BLIND.as_secs_f64(), |rate| RULES.span_at(rate));
        let mut oldest = newest;
        for it in self.served.iter().rev().skip(1).take_while(waits) {
            let (seconds, bytes) = since(oldest);
            let is_enough = seconds >= RULES.span && bytes >= RULES.enough;
            if is_enough || oldest.left - it.left > pause {
                break;
            }
            oldest = it;
        }
        let (seconds, bytes) = match since(oldest) {
            (0.0, _) => since(self.before(newest).filter(waits)?),
            stretch => stretch,
        };
        (seconds >= HELD_BACK_S && bytes > few).then(|| bytes / seconds)
    }

    /// What was answered for before that, once in a round trip: if what passed meanwhile kept the buffer busy.
    fn before(&self, newest: &Served) -> Option<&Served> {
        let before = self.served.get(self.served.len().checked_sub(2)?)?;
        let seconds = newest.left - before.left;
        let rate = (newest.sum - before.sum) / seconds;
        let first = self.log.partition_point(|(at, _)| *at <= before.left);
        let passed = self.log.range(first..).take_while(|(at, _)| *at <= newest.passed);
        let mut stands = passed.map(|(at, sum)| sum - before.sum - rate * (at - before.left));
        let is_busy = stands.all(|stands| stands >= 0.0);
        (seconds <= BLIND.as_secs_f64() && is_busy).then_some(before)
    }

    /// When the newest packet that was answered for had passed, and when it left the buffer.
    pub(super) fn newest(&self) -> Option<(f64, f64)> {
        self.served.back().map(|newest| (newest.passed, newest.left))
    }

    /// Bytes that stand behind at `now`, at a service of `rate`: what passed since the newest packet of which it is known when it
    /// left, less what has been served since.
    pub(super) fn standing(&self, now: f64, rate: f64) -> f64 {
        let Some(newest) = self.served.back() else { return 0.0 };
        (self.sum - newest.sum - rate * (now - newest.left)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet each 10 ms, of which each waits for so long.
    fn served(waits: impl IntoIterator<Item = f64>) -> Service {
        let mut passage = Service::default();
        for (number, wait) in waits.into_iter().enumerate() {
            let at = number as f64 * 0.01;
            passage.pass(at, FULL_FRAME_BYTES);
            passage.serve(at, at + wait, passage.at(at).0);
        }
        passage
    }

    #[test]
    fn what_leaves_while_a_queue_stands_is_the_service() {
        // Each leaves 20 ms after the one before.
        let passage = served((0..50).map(|number| 0.02 + f64::from(number) * 0.01));
        let service = passage.service(0.01, Some(1e6)).expect("measured");
        assert!((service / (FULL_FRAME_BYTES / 0.02) - 1.0).abs() < 1e-9, "{service}");
    }

    #[test]
    fn without_a_queue_nothing_is_measured() {
        assert!(served([0.005; 50]).service(0.01, Some(1e6)).is_none());
        // Three packets that waited, and two intervals, are too few.
        let few = (0..50).map(|number| if number < 47 { 0.005 } else { 0.05 });
        assert!(served(few).service(0.01, Some(1e6)).is_none());
    }

    /// Replies once in 0.3 s, as a connection of QUIC has them; `pause`: nothing passes for so long after the first.
    #[test]
    fn rare_replies_tell_the_service_if_the_buffer_was_busy_between_them() {
        for (pause, is_known) in [(0.0, true), (0.15, false)] {
            let mut passage = Service::default();
            let at = |number: u32| {
                let at = f64::from(number) * 0.01;
                at + if number > 5 { pause } else { 0.0 }
            };
            for number in 0..=30 {
                passage.pass(at(number), FULL_FRAME_BYTES);
                if number % 30 == 0 {
                    passage.serve(at(number), at(number) + 0.1, passage.at(at(number)).0);
                }
            }
            let service = passage.service(0.01, Some(1e6));
            let rate = 30.0 * FULL_FRAME_BYTES / (0.3 + pause);
            assert_eq!(
                service.is_some_and(|service| (service / rate - 1.0).abs() < 1e-9),
                is_known,
                "{service:?}"
            );
        }
    }

    #[test]
    fn what_stands_is_what_passed_since_less_what_was_served() {
        let mut passage = served([0.03; 10]);
        // The newest passed at 90 ms and left at 120 ms; since then five more.
        (10..15).for_each(|number| passage.pass(f64::from(number) * 0.01, FULL_FRAME_BYTES));
        let standing = passage.standing(0.16, FULL_FRAME_BYTES / 0.02);
        assert!((standing - 3.0 * FULL_FRAME_BYTES).abs() < 1.0, "{standing}");
        assert_eq!(passage.standing(1.0, FULL_FRAME_BYTES / 0.02), 0.0);
    }

    #[test]
    fn what_is_forgotten_was_never_served() {
        let mut passage = served([0.3; 100]);
        assert!(passage.newest().is_some() && passage.service(0.0, None).is_some());
        passage.forget();
        assert_eq!((passage.newest(), passage.service(0.0, None)), (None, None));
        // What passed is still known.
        assert_eq!(passage.at(0.005).0, FULL_FRAME_BYTES);
    }

    /// So many frames leave each 10 ms, after others that left each 7 ms. Each waits for a second.
    fn slower(frames: u32) -> Option<f64> {
        let mut passage = Service::default();
        let mut left = 1.0;
        for number in 0..200 {
            left += if number < 200 - frames { 0.007 } else { 0.01 };
            passage.pass(left - 1.0, FULL_FRAME_BYTES);
            passage.serve(left - 1.0, left, passage.at(left - 1.0).0);
        }
        passage.service(0.01, None).map(|service| (service / FULL_FRAME_BYTES * 10.0).round() / 10.0)
    }

    /// 24 frames, and a fifth of a second.
    #[test]
    fn the_newest_24_frames_tell_the_service() {
        assert_eq!([slower(24), slower(22)], [Some(100.0), Some(102.6)]);
        // A fifth of a second is more: ten and fifteen of the faster ones.
        assert_eq!([slower(10), slower(0)], [Some(122.0), Some(142.9)]);
    }
}
