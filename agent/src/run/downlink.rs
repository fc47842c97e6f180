//! The provider's buffer in front of the downlink, from what comes in: 000 Eq. 1, `docs/queues.md`.
//!
//! The kernel side keeps what comes in by time and which of it answers what ([`Arrival`]). Here the time that the
//! question spent in our own uplink's queue is taken off, and the rest is the model's work ([`DelayQueue`]), the same as
//! for a capture.

use std::collections::VecDeque;

use pendulum_model::buffer::{Answer, DelayQueue, End, Levels, Passing, Trust};
use pendulum_model::sample::{QueueSample, QueueSource};

use crate::bpf::{Answered, Arrival, BUCKET, Departures, Interval};

const BUCKET_NS: u64 = BUCKET.as_nanos() as u64;

/// How far back levels are kept, in buckets: longer than any packet waits in a buffer.
const BUCKETS: usize = 2048;

/// An uplink on which a full packet takes less than this is fast: packets that came together waited alike.
const FAST_PACKET_S: f64 = 0.001;
const FULL_BYTES: f64 = 1500.0;

/// Lengths come in steps of this many bytes.
const LENGTH_STEP: u32 = 16;

/// The buffer at the other end of the downlink.
#[derive(Debug)]
pub struct ProviderQueue {
    queue: DelayQueue,
    /// Number of the bucket after the newest known one.
    next: u64,
    /// Newest known buckets, oldest first.
    levels: VecDeque<Option<Levels>>,
    /// Everything before was read.
    read_to_ns: u64,
}

impl ProviderQueue {
    /// From `start_ns` of the monotonic clock on, for link rates in bytes per second. `uplink_rate`: what a question's own
    /// time on the uplink follows from; `None` if that is not known, or part of its time in our own queue, because that
    /// shapes (a token bucket holds a packet until its time on the link is over).
    pub fn new(start_ns: u64, rate: f64, uplink_rate: Option<f64>) -> Self {
        let number = start_ns / BUCKET_NS;
        let direction = pendulum_model::segment::Direction::Down;
        Self {
            queue: DelayQueue::new(number * BUCKET_NS, direction, rate, uplink_rate),
            next: number,
            levels: VecDeque::new(),
            read_to_ns: start_ns,
        }
    }

    /// Rates that are better known now, as for [`Self::new`].
    pub fn set_rates(&mut self, rate: f64, uplink_rate: Option<f64>) {
        self.queue.set_rates(rate, uplink_rate);
    }

    /// Something came in. `own_ns`: how long the question of its answer waited in our own queue; `None`: that is not known,
    /// and the answer tells nothing.
    pub fn push(&mut self, arrival: &Arrival, own_ns: Option<u64>) {
        let answer = arrival.answer.zip(own_ns);
        let Some((answered, own_ns)) = answer else {
            let passing = Passing { at_ns: arrival.at_ns, bytes: arrival.bytes, clock: arrival.clock };
            self.queue.pass(&passing, None);
            return;
        };
        // What came together with the answer came before it, for all that can be told.
        let at_ns = answered.at_ns;
        let rest = arrival.bytes.saturating_sub(answered.answer_bytes);
        let together = if rest < LENGTH_STEP { 0 } else { rest };
        if together > 0 {
            self.queue.pass(&Passing { at_ns, bytes: together, clock: None }, None);
        }
        let answer = Answer {
            end: end_of(answered.end),
            delay_ns: at_ns.saturating_sub(answered.asked_ns).saturating_sub(own_ns),
            question_bytes: answered.question_bytes,
        };
        let passing = Passing { at_ns, bytes: arrival.bytes - together, clock: arrival.clock };
        self.queue.pass(&passing, Some(&answer));
    }

    /// Everything before `read_to_ns` was told.
    pub fn settle(&mut self, read_to_ns: u64) {
        self.read_to_ns = read_to_ns;
        self.queue.settle(read_to_ns);
        while let Some(levels) = self.queue.pop() {
            self.levels.push_back(levels);
            self.next += 1;
        }
        let excess = self.levels.len().saturating_sub(BUCKETS);
        self.levels.drain(..excess);
    }

    /// Number of the bucket after the newest one whose level is known: a level shows when the packets that met it have
    /// come out.
    pub fn known_to(&self) -> u64 {
        self.next
    }

    /// What stood in the buffer during a bucket; while that has not shown yet, what stood there last. `None` if it is not
    /// known, or too long ago.
    pub fn sample(&self, number: u64) -> Option<QueueSample> {
        let first = self.next - self.levels.len() as u64;
        let known = if number < self.next {
            let levels = self.levels.get(usize::try_from(number.checked_sub(first)?).ok()?);
            (*levels?)?
        } else {
            let last = (*self.levels.back()?)?;
            Levels { min: last.mean, max: last.mean, ..last }
        };
        Some(QueueSample {
            source: QueueSource::Estimate,
            min_bytes: known.min,
            mean_bytes: known.mean,
            max_bytes: known.max,
        })
    }

    /// What the estimate rests on.
    pub fn trust(&self) -> Trust {
        self.queue.trust(self.read_to_ns)
    }
}

fn end_of(hash: u32) -> End {
    let mut end = [0; 16];
    end[12..].copy_from_slice(&hash.to_be_bytes());
    end
}

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
    pub fn push(&mut self, interval: &Interval) {
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

    /// How long a packet waited that asked something; `None` if that cannot be told.
    pub fn sojourn_ns(&self, question: &Answered) -> Option<u64> {
        let fast = self.rate.is_some_and(|rate| FULL_BYTES / rate < FAST_PACKET_S);
        let departures = self.departures.as_ref();
        if let Some(ns) =
            departures.and_then(|left| left.sojourn_ns(question.asked_ns, question.asked_by_ack, fast))
        {
            return Some(ns);
        }
        let index = (question.asked_ns / BUCKET_NS).checked_sub(self.first)?;
        match (self.lowest.get(usize::try_from(index).ok()?)?, self.rate) {
            // It found the queue empty and passed it by.
            (0, _) => Some(0),
            (bytes, Some(rate)) if departures.is_none() => Some((f64::from(*bytes) / rate * 1e9) as u64),
            _ => None,
        }
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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    /// Bytes per second: 1500 bytes take 5 ms.
    const RATE: f64 = 300_000.0;

    fn question(asked_ns: u64) -> Answered {
        Answered {
            end: 1,
            at_ns: asked_ns + 50 * MS,
            asked_ns,
            asked_by_ack: true,
            question_bytes: 64,
            answer_bytes: 1488,
        }
    }

    fn arrival(at_ns: u64, asked_ns: u64) -> Arrival {
        let answer = Answered { at_ns, ..question(asked_ns) };
        Arrival { at_ns, bytes: 1500, answer: Some(answer), clock: None }
    }

    /// An idle link answers after 20 ms, then a queue of 40 packets builds up and stays.
    #[test]
    fn a_queue_shows_in_the_delay_of_answers() {
        let start = 100_000 * MS;
        let mut provider = ProviderQueue::new(start, RATE, Some(RATE));
        for i in 1..20 {
            let at = start + i * 100 * MS;
            provider.push(&arrival(at, at - 20 * MS), Some(0));
            provider.settle(at + 50 * MS);
        }
        assert_eq!(provider.trust(), Trust::Confirmed);
        let burst = start + 2000 * MS;
        // The link is full: a packet every 5 ms. The question waited 300 ms at home, and its answer 200 ms in the buffer.
        for i in 0..400 {
            let at = burst + i * 5 * MS;
            let waited = (i * 5).min(200);
            provider.push(&arrival(at, at - (20 + waited + 300) * MS), Some(300 * MS));
            provider.settle(at);
        }
        let newest = provider.known_to() - 1;
        let level = provider.sample(newest - 5).expect("known").mean_bytes;
        assert!((level - 60_000.0).abs() < 3_000.0, "{level}");
        assert_eq!(provider.sample(newest + 50).expect("carried on").source, QueueSource::Estimate);
        assert!(provider.sample(burst / (10 * MS) - 10).expect("known").max_bytes < 3_000.0);
    }

    /// The link stops for 40 ms while 200 ms stand in the buffer: that is no idle link.
    #[test]
    fn a_pause_of_the_link_does_not_empty_the_buffer() {
        let start = 100_000 * MS;
        let mut provider = ProviderQueue::new(start, RATE, None);
        for i in 1..20 {
            let at = start + i * 100 * MS;
            provider.push(&arrival(at, at - 20 * MS), Some(0));
            provider.settle(at + 50 * MS);
        }
        let burst = start + 2000 * MS;
        let mut pause = 0;
        for i in 0..200 {
            pause += if i == 100 { 40 } else { 0 };
            let at = burst + (i * 5 + pause) * MS;
            let waited = (i * 5).min(200) + if i < 140 { pause } else { 0 };
            provider.push(&arrival(at, at - (20 + waited) * MS), Some(0));
            provider.settle(at);
        }
        // Just after the pause, before a packet that came in since has come out.
        let number = (burst + (110 * 5 + 40) * MS) / (10 * MS);
        let level = provider.sample(number).expect("known").mean_bytes;
        assert!((level - 60_000.0).abs() < 6_000.0, "{level}");
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
}
