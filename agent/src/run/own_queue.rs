//! The gateway's own queue as those see it who asked the outside: how long it held each of them back, which is no part of the delays behind it.

use std::collections::VecDeque;

use pendulum_model::segment::FULL_FRAME_BYTES;

use super::estimate::{BUCKET_NS, BUCKETS};
use crate::bpf::{Answered, Departures, QueueInterval};

/// An uplink on which a full packet takes less than this is fast: packets that came together waited alike.
const FAST_PACKET_S: f64 = 0.001;

/// What our own uplink's queue was like in the recent past: how long it held a packet back that asked the outside.
#[derive(Default)]
pub struct OwnQueue {
    departures: Option<Departures>,
    /// Lowest level of each of the newest buckets, oldest first, and the number of the first.
    lowest: VecDeque<u32>,
    first: u64,
    rate: Option<f64>,
}

impl OwnQueue {
    /// `departures`: when packets left, if the tracepoints tell.
    pub fn new(departures: Option<Departures>) -> Self {
        Self { departures, ..Self::default() }
    }

    /// The uplink's rate, bytes per second, as far as known.
    pub fn set_rate(&mut self, rate: Option<f64>) {
        self.rate = rate;
    }

    /// One bucket of the queue's history.
    pub fn push(&mut self, interval: &QueueInterval) {
        self.note(interval.number, interval.min_bytes);
    }

    /// The level, where only that can be read.
    pub fn push_level(&mut self, now_ns: u64, bytes: u32) {
        let number = now_ns / BUCKET_NS;
        // Nothing was seen in between: at best what stands there now did.
        for missing in self.next().max(number.saturating_sub(10))..=number {
            self.note(missing, bytes);
        }
    }

    /// How long a packet waited that asked something; `None` if that cannot be known.
    pub fn sojourn_ns(&self, question: &Answered) -> Option<u64> {
        let departures = self.departures.as_ref();
        let left_ns = departures
            .and_then(|left| left.sojourn_ns(question.asked_ns, question.asked_by_ack, self.is_fast()));
        if left_ns.is_some() {
            return left_ns;
        }
        let index = (question.asked_ns / BUCKET_NS).checked_sub(self.first)?;
        match (self.lowest.get(usize::try_from(index).ok()?)?, self.rate) {
            // It found the queue empty and passed it by.
            (0, _) => Some(0),
            (bytes, Some(rate)) if departures.is_none() => Some((f64::from(*bytes) / rate * 1e9) as u64),
            _ => None,
        }
    }

    fn is_fast(&self) -> bool {
        self.rate.is_some_and(|rate| FULL_FRAME_BYTES / rate < FAST_PACKET_S)
    }

    fn next(&self) -> u64 {
        self.first + self.lowest.len() as u64
    }

    fn note(&mut self, number: u64, bytes: u32) {
        if self.lowest.is_empty() || number != self.next() {
            self.lowest.clear();
            self.first = number;
        }
        self.lowest.push_back(bytes);
        if self.lowest.len() > BUCKETS {
            self.lowest.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::samples::tests::bucket;
    use super::*;

    pub(in super::super) const MS: u64 = 1_000_000;
    /// Bytes per second: 1500 bytes take 5 ms.
    pub(in super::super) const RATE: f64 = 300_000.0;

    /// A question that is answered after 50 ms.
    pub(in super::super) fn question(asked_ns: u64) -> Answered {
        Answered {
            end: 1,
            at_ns: asked_ns + 50 * MS,
            asked_ns,
            asked_by_ack: true,
            may_be_held: false,
            is_relayed: false,
            question_bytes: 64,
            ahead_bytes: 0,
            answer_bytes: 1488,
        }
    }

    #[test]
    fn an_answer_whose_question_may_have_waited_at_home_tells_nothing() {
        let own = OwnQueue::new(None);
        assert_eq!(own.sojourn_ns(&question(1000 * MS)), None);
        let mut own = OwnQueue::new(None);
        own.push_level(1000 * MS, 0);
        own.push_level(1100 * MS, 30_000);
        assert_eq!(own.sojourn_ns(&question(1001 * MS)), Some(0));
        assert_eq!(own.sojourn_ns(&question(1101 * MS)), None, "no rate");
        own.set_rate(Some(RATE));
        assert_eq!(own.sojourn_ns(&question(1101 * MS)), Some(100 * MS));
        assert_eq!(own.sojourn_ns(&question(1200 * MS)), None, "not seen yet");
    }

    /// As much as stood there at its lowest: 300 bytes, and 600 in the bucket after.
    #[test]
    fn a_question_waited_as_long_as_what_stood_in_its_bucket() {
        let mut own = OwnQueue::new(None);
        own.set_rate(Some(RATE));
        own.push(&bucket(100, 600, [0; 2]));
        own.push(&bucket(101, 1_200, [0; 2]));
        assert_eq!(
            [1_000, 1_010, 1_020].map(|ms| own.sojourn_ns(&question(ms * MS))),
            [Some(MS), Some(2 * MS), None]
        );
    }

    #[test]
    fn the_oldest_buckets_are_forgotten_and_the_others_keep_their_time() {
        let mut own = OwnQueue::new(None);
        own.set_rate(Some(RATE));
        let buckets = BUCKETS as u64 + 10;
        (0..buckets).for_each(|number| own.push_level(number * BUCKET_NS, 300 * number as u32));
        // A bucket's number is its delay in milliseconds.
        let waited_ms = |number| own.sojourn_ns(&question(number * BUCKET_NS)).map(|ns| ns / MS);
        assert_eq!([9, 10, buckets - 1].map(waited_ms), [None, Some(10), Some(buckets - 1)]);
    }

    /// A full packet within a millisecond: 12 Mbit/s.
    #[test]
    fn from_twelve_megabits_per_second_on_an_uplink_is_fast() {
        let mut own = OwnQueue::new(None);
        let just = FULL_FRAME_BYTES / FAST_PACKET_S;
        for (rate, is_fast) in [(None, false), (Some(RATE), false), (Some(just), false), (Some(1.6e6), true)]
        {
            own.set_rate(rate);
            assert_eq!(own.is_fast(), is_fast, "{rate:?}");
        }
    }
}
