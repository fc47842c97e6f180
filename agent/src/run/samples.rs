//! From what is read ten times a second to the detector's [`Sample`]s.
//!
//! Where the history ring gives the queue, a sample speaks for one bucket of 10 ms; else for the time since the reading
//! before. Counters are read once for all the buckets of a tick: what passed in it is spread evenly over them. What the
//! uplink carried is taken behind its buffer where the ring tells, so that a buffer that fills is not taken for a faster
//! link.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::{Duration, Instant};

use pendulum_model::sample::{AckBursts, DirectionSample, FlowSample, QueueSample, Sample, Traffic};
use pendulum_model::segment::{Class, Direction, PerDirection};

use super::downlink::ProviderQueue;
use crate::bpf::{BUCKET, Interval, abi};
use crate::snapshot::{FlowRow, FlowSweep};

/// A round trip measured longer ago than this is no part of the present one.
const ROUND_TRIP_LIFETIME: Duration = Duration::from_secs(5);
/// Time one reading without buckets can speak for.
const LONGEST_SPAN: Duration = Duration::from_secs(1);
/// Flows told to the detector at once, those that carried most: a table of a million costs no more than this.
const FLOWS: usize = 512;
/// A sample waits for the estimate of the downlink's buffer for no longer than this.
const LATEST_ESTIMATE: Duration = Duration::from_millis(600);
/// How much of the past stays in the composition of the uplink's traffic, from tick to tick: about a second.
const COMPOSITION_DECAY: f64 = 0.9;

/// What is known of one direction's buffer since the reading before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Seen<'a> {
    /// Nothing: it stands elsewhere.
    #[default]
    Nothing,
    /// One figure for all of the time.
    Level(QueueSample),
    /// Every bucket that ended since, oldest first.
    Buckets(&'a [Interval]),
    /// Buckets that become known late: when what met them has come out.
    Estimate(&'a ProviderQueue),
}

/// Everything that was read at one tick.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    /// Now, on the kernel's monotonic clock.
    pub(super) at: Duration,
    /// Totals since the start; index with [`Direction`].
    pub(super) counters: &'a [abi::pendulum_counters; 2],
    /// Both buffers of the link.
    pub(super) queues: PerDirection<Seen<'a>>,
    /// What is shown as the queue of each direction; more than `queues` if a device's queue is not the link's buffer.
    pub(super) shown: PerDirection<Seen<'a>>,
    /// The flow table, if it was read since the tick before.
    pub(super) flows: Option<&'a FlowSweep>,
}

/// Follows the readings of one link.
#[derive(Debug, Default)]
pub(super) struct SampleBuilder {
    before: Option<[abi::pendulum_counters; 2]>,
    /// End of the newest sample.
    last: Option<Duration>,
    /// Counted, and not yet in a sample.
    pending: PerDirection<Counted>,
    composition: Composition,
    round_trips: PerDirection<Option<(f64, Duration)>>,
    /// Samples whose downlink buffer is not known yet, oldest first.
    waiting: VecDeque<Sample>,
    flows_at: Option<Instant>,
}

/// What was counted in one direction over some time.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    traffic: Traffic,
    bursts: AckBursts,
}

/// One sample before it has traffic.
struct Slot {
    end: Duration,
    span: Duration,
    queue: PerDirection<Option<QueueSample>>,
    /// Bytes that left the uplink buffer: data and everything else, pure ACKs.
    left: Option<[u64; 2]>,
}

impl SampleBuilder {
    /// Newest round trip towards the end a direction leads to, seconds, unless it is too old.
    pub(super) fn round_trip(&self, direction: Direction, now: Duration) -> Option<f64> {
        let (seconds, at) = self.round_trips[direction]?;
        (now.saturating_sub(at) <= ROUND_TRIP_LIFETIME).then_some(seconds)
    }

    /// End of the newest sample.
    pub(super) fn newest(&self) -> Option<Duration> {
        self.last
    }

    /// Turns a reading into samples that follow those before, oldest first.
    pub(super) fn take(&mut self, reading: &Reading<'_>, samples: &mut Vec<Sample>) {
        let measured = self.count(reading);
        let slots = self.slots(reading);
        let Some(newest) = slots.last() else { return self.release(reading, samples) };
        self.last = Some(newest.end);
        let round_trip = measured.then(|| self.sum_of_round_trips(reading.at)).flatten();
        let counted = std::mem::take(&mut self.pending);
        let data_share = self.composition.data_share();
        let count = slots.len() as u64;
        for (index, slot) in (0..count).zip(&slots) {
            let is_last = index + 1 == count;
            let mut link = PerDirection::from_fn(|x| DirectionSample {
                queue: slot.queue[x],
                traffic: counted[x].traffic.part(index, count),
                in_flight_bytes: None,
                ack_bursts: if is_last { counted[x].bursts } else { AckBursts::default() },
            });
            if let Some([others, acks]) = slot.left {
                link.up.traffic.wire_bytes = others + acks;
                link.up.traffic.data_bytes = (others as f64 * data_share).round() as u64;
            }
            let flows = match reading.flows {
                Some(sweep) if is_last => self.flows(sweep),
                _ => Vec::new(),
            };
            self.waiting.push_back(Sample { at: slot.end, span: slot.span, link, round_trip, flows });
        }
        self.release(reading, samples);
    }

    /// Passes on the samples whose buffers are known, or have waited for long enough.
    fn release(&mut self, reading: &Reading<'_>, samples: &mut Vec<Sample>) {
        let Seen::Estimate(queue) = reading.queues.down else {
            samples.extend(self.waiting.drain(..));
            return;
        };
        while let Some(sample) = self.waiting.front() {
            // The bucket that ends there.
            let number = number_at(sample.at).saturating_sub(1);
            if number >= queue.known_to() && reading.at.saturating_sub(sample.at) < LATEST_ESTIMATE {
                return;
            }
            samples.extend(self.waiting.pop_front().map(|mut sample| {
                sample.link.down.queue = queue.sample(number);
                sample
            }));
        }
    }

    /// Takes in the counters. Answers whether a round trip was measured.
    fn count(&mut self, reading: &Reading<'_>) -> bool {
        let Some(before) = self.before.replace(*reading.counters) else { return false };
        let mut measured = false;
        for x in Direction::ALL {
            let (now, then) = (&reading.counters[x as usize], &before[x as usize]);
            self.pending[x].add(now, then);
            let samples = total(&now.rtt) - total(&then.rtt);
            if samples > 0 {
                let seconds = (now.rtt_sum_us - then.rtt_sum_us) as f64 / samples as f64 / 1e6;
                self.round_trips[x] = Some((seconds, reading.at));
                measured = true;
            }
        }
        let up = Direction::Up as usize;
        self.composition.push(&reading.counters[up], &before[up]);
        measured
    }

    /// The way out and the way home together. Without the way out it is not a round trip at all.
    fn sum_of_round_trips(&self, now: Duration) -> Option<f64> {
        let out = self.round_trip(Direction::Up, now)?;
        Some(out + self.round_trip(Direction::Down, now).unwrap_or(0.0))
    }

    /// The intervals this reading speaks for.
    fn slots(&self, reading: &Reading<'_>) -> Vec<Slot> {
        let is_new = |end: Duration| self.last.is_none_or(|last| end > last);
        let PerDirection { up, down } = reading.queues;
        let ((Seen::Buckets(grid), _) | (_, Seen::Buckets(grid))) = (up, down) else {
            if !is_new(reading.at) {
                return Vec::new();
            }
            // Longer, and nobody looked: the sample speaks for its end only.
            let span = self.last.map_or(Duration::ZERO, |last| (reading.at - last).min(LONGEST_SPAN));
            let number = number_at(reading.at);
            let queue = PerDirection { up: up.at(number), down: down.at(number) };
            return vec![Slot { end: reading.at, span, queue, left: None }];
        };
        let slot = |bucket: &Interval| Slot {
            end: bucket.end(),
            span: BUCKET,
            queue: PerDirection { up: up.at(bucket.number), down: down.at(bucket.number) },
            left: match up {
                Seen::Buckets(_) => Some(bucket.events.dequeued_bytes),
                Seen::Level(_) | Seen::Estimate(_) | Seen::Nothing => None,
            },
        };
        grid.iter().filter(|bucket| is_new(bucket.end())).map(slot).collect()
    }

    fn flows(&mut self, sweep: &FlowSweep) -> Vec<FlowSample> {
        let interval = self.flows_at.replace(sweep.at).map_or(0.0, |at| (sweep.at - at).as_secs_f64());
        let mut flows: Vec<FlowSample> = sweep
            .rows
            .iter()
            .flat_map(|row| Direction::ALL.map(|direction| flow(row, direction, interval)))
            .flatten()
            .collect();
        if flows.len() > FLOWS {
            flows.select_nth_unstable_by_key(FLOWS, |flow| std::cmp::Reverse(flow.data_bytes));
            flows.truncate(FLOWS);
        }
        flows
    }
}

impl Seen<'_> {
    /// What stood in the buffer during one bucket. The two rings may be read a moment apart: at their end the level is
    /// carried on.
    fn at(&self, number: u64) -> Option<QueueSample> {
        match self {
            Self::Nothing => None,
            Self::Level(queue) => Some(*queue),
            Self::Estimate(queue) => queue.sample(number),
            Self::Buckets(buckets) => {
                let index = buckets.partition_point(|bucket| bucket.number < number);
                buckets.get(index).or(buckets.last()).map(Interval::queue)
            }
        }
    }
}

impl Counted {
    fn add(&mut self, now: &abi::pendulum_counters, then: &abi::pendulum_counters) {
        let grown = |of: fn(&abi::pendulum_counters) -> u64| of(now) - of(then);
        let traffic = &mut self.traffic;
        traffic.wire_bytes += grown(|counters| total(&counters.bytes));
        traffic.data_bytes += grown(|counters| counters.bytes[Class::Data as usize]);
        traffic.data_segments += grown(|counters| counters.segments[Class::Data as usize]);
        traffic.ack_segments += grown(|counters| pure_acks(&counters.segments));
        traffic.retransmitted_segments += grown(|counters| counters.retransmitted_segments);
        let mut rest = grown(|counters| counters.burst_segments);
        let longest = now.bursts.len() - 1;
        for (length, (now, then)) in now.bursts.iter().zip(&then.bursts).enumerate().take(longest) {
            self.bursts.add(length as u64, now - then);
            rest = rest.saturating_sub(length as u64 * (now - then));
        }
        // The last slot holds all longer ones: how many ACKs those were is what is left of the sum.
        let long = now.bursts[longest] - then.bursts[longest];
        if long > 0 {
            self.bursts.bursts += long;
            self.bursts.segments += rest;
            self.bursts.segments_in_long_bursts += rest;
        }
    }
}

/// A part of a whole that is spread evenly; the parts add up to it.
trait Part {
    fn part(&self, index: u64, count: u64) -> Self;
}

impl Part for u64 {
    fn part(&self, index: u64, count: u64) -> Self {
        let until = |index: u64| (u128::from(*self) * u128::from(index) / u128::from(count)) as Self;
        until(index + 1) - until(index)
    }
}

impl Part for Traffic {
    fn part(&self, index: u64, count: u64) -> Self {
        let part = |whole: u64| whole.part(index, count);
        Self {
            wire_bytes: part(self.wire_bytes),
            data_bytes: part(self.data_bytes),
            data_segments: part(self.data_segments),
            ack_segments: part(self.ack_segments),
            retransmitted_segments: part(self.retransmitted_segments),
        }
    }
}

/// Which part of the bytes that are no pure ACKs is TCP data: the ring tells only the two apart.
#[derive(Clone, Copy, Debug, Default)]
struct Composition {
    data: f64,
    others: f64,
}

impl Composition {
    fn push(&mut self, now: &abi::pendulum_counters, then: &abi::pendulum_counters) {
        let data = now.bytes[Class::Data as usize] - then.bytes[Class::Data as usize];
        let all = total(&now.bytes) - total(&then.bytes);
        let acks = pure_acks(&now.bytes) - pure_acks(&then.bytes);
        // Silence changes nothing: what still waits in the buffer is what came before it.
        if all > acks {
            self.data = self.data * COMPOSITION_DECAY + data as f64;
            self.others = self.others * COMPOSITION_DECAY + (all - acks) as f64;
        }
    }

    fn data_share(&self) -> f64 {
        if self.others > 0.0 { (self.data / self.others).clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// Number of the bucket that a moment lies in.
fn number_at(at: Duration) -> u64 {
    (at.as_nanos() / BUCKET.as_nanos()) as u64
}

fn total(figures: &[u64]) -> u64 {
    figures.iter().sum()
}

fn pure_acks(by_class: &[u64; abi::PENDULUM_CLASSES as usize]) -> u64 {
    Class::ALL.into_iter().filter(|class| class.is_pure_ack()).map(|class| by_class[class as usize]).sum()
}

fn flow(row: &FlowRow, direction: Direction, interval: f64) -> Option<FlowSample> {
    let half = &row.halves[direction as usize];
    if half.fresh_bytes == 0 {
        return None;
    }
    let both = |of: fn(&crate::snapshot::HalfRow) -> u32| {
        let [up, down] = &row.halves;
        let known = up.rtt_samples > 0 && down.rtt_samples > 0;
        known.then(|| (f64::from(of(up)) + f64::from(of(down))) / 1e6)
    };
    let round_trip = both(|half| half.rtt_last_us);
    // Outstanding data counts from the sender's side of both buffers. A download's is not to be seen from here: what
    // arrives within one round trip is.
    let in_flight_bytes = match direction {
        Direction::Up => Some(f64::from(half.in_flight_bytes)),
        Direction::Down if interval > 0.0 => {
            round_trip.map(|seconds| half.fresh_bytes as f64 / interval * seconds)
        }
        Direction::Down => None,
    };
    Some(FlowSample {
        id: BuildHasherDefault::<DefaultHasher>::default().hash_one(row.key),
        direction,
        data_bytes: half.fresh_bytes,
        in_flight_bytes,
        round_trip,
        base_round_trip: both(|half| half.rtt_min_us),
    })
}

#[cfg(test)]
mod tests;
