//! From what is read ten times a second to the detector's [`Sample`]s.
//!
//! Where the history ring gives the queue, a sample speaks for one bucket of 10 ms; else for the time since the reading
//! before. Counters are read once for all the buckets of a tick: what passed in it is spread evenly over them. What the
//! uplink carried is taken behind its buffer where the ring tells, so that a buffer that fills is not taken for a faster
//! link.

mod counted;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use pendulum_model::sample::{
    AckBursts, BaseRoundTrip, DirectionSample, FlowSample, MeasuredRate, QueueSample, Sample,
};
use pendulum_model::segment::{Direction, PerDirection};

use self::counted::{Counted, DataShare, Part as _, Stretch, total};
use super::estimate::Estimate;
use crate::bpf::{BUCKET, QueueInterval, abi};
use crate::snapshot::{FlowRow, FlowSweep};

/// A round trip measured longer ago than this is no part of the present one.
const ROUND_TRIP_LIFETIME: Duration = Duration::from_secs(5);
/// Time one reading without buckets can speak for.
const LONGEST_SPAN: Duration = Duration::from_secs(1);
/// Time for which the estimate knows every bucket although nobody looked meanwhile: the rings of slots reach back further.
const LONGEST_ESTIMATED: Duration = Duration::from_secs(4);
/// Flows given to the detector at once, those that carried most: a table of a million costs no more than this.
const FLOWS: usize = 512;
/// A sample waits for the estimates of both buffers for no longer than this.
const LATEST_ESTIMATE: Duration = Duration::from_millis(800);
/// What is known of one direction's buffer since the reading before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Seen<'a> {
    /// Nothing: it stands elsewhere.
    #[default]
    Nothing,
    /// One figure for all of the time.
    Level(QueueSample),
    /// Every bucket that ended since, oldest first.
    Buckets(&'a [QueueInterval]),
    /// Buckets that become known late: when what met them has come out, or was answered.
    Estimate(Estimate<'a>),
}

/// Everything that was read at one tick.
#[derive(Debug)]
pub(super) struct LinkReading<'a> {
    /// Now, on the kernel's monotonic clock.
    pub(super) at: Duration,
    /// Totals since the start; index with [`Direction`].
    pub(super) counters: &'a [abi::pendulum_counters; 2],
    /// Both buffers of the link.
    pub(super) queues: PerDirection<Seen<'a>>,
    /// Rates as measured by who watched the buffers.
    pub(super) rates: PerDirection<Option<MeasuredRate>>,
    /// From the gateway to the far ends and back, without queues.
    pub(super) base_round_trip: Option<BaseRoundTrip>,
    /// The shortest time in which the outside answered since the tick before, seconds: an ACK's clock that comes back, too.
    pub(super) answered_s: Option<f64>,
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
    shares: DataShare,
    round_trips: PerDirection<Option<(f64, Duration)>>,
    /// The shortest way home and back, seconds: no buffer of the link is in it.
    home: Option<f64>,
    /// Samples whose buffers are not known yet, oldest first.
    waiting: VecDeque<Sample>,
    flows_at: Option<Instant>,
}

/// One sample before it has traffic.
struct Slot {
    end: Duration,
    span: Duration,
    queue: PerDirection<Option<QueueSample>>,
    /// Bytes that left the uplink buffer: data and everything else, pure ACKs.
    left: Option<[u64; 2]>,
}

impl Slot {
    fn begin(&self) -> Duration {
        self.end.saturating_sub(self.span)
    }
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
    pub(super) fn take(&mut self, reading: &LinkReading<'_>, samples: &mut Vec<Sample>) {
        let measured = self.count(reading);
        let slots = self.slots(reading);
        let (Some(oldest), Some(newest)) = (slots.first(), slots.last()) else {
            return self.release(reading, samples);
        };
        // What passed before the oldest of them, while nobody looked, is no part of what is seen now.
        let begin = self.last.unwrap_or(oldest.begin()).min(oldest.begin());
        let since_begin = |at: Duration| at.saturating_sub(begin).as_nanos();
        let whole = since_begin(newest.end);
        self.last = Some(newest.end);
        let round_trip = measured.then(|| self.sum_of_round_trips(reading.at)).flatten();
        let counted = std::mem::take(&mut self.pending);
        let base_round_trip = reading
            .base_round_trip
            .map(|base| BaseRoundTrip { seconds: base.seconds + self.home.unwrap_or(0.0), ..base });
        let data_share = self.shares.data_share();
        let count = slots.len() as u64;
        for (index, slot) in (0..count).zip(&slots) {
            let is_last = index + 1 == count;
            let stretch = Stretch { from: since_begin(slot.begin()), to: since_begin(slot.end), whole };
            let mut link = PerDirection::from_fn(|x| DirectionSample {
                queue: slot.queue[x],
                traffic: counted[x].traffic.part(stretch),
                ack_bursts: if is_last { counted[x].bursts } else { AckBursts::default() },
                composition: counted[x].composition.part(stretch),
                rate: reading.rates[x],
            });
            if let Some([others, acks]) = slot.left {
                link.up.traffic.wire_bytes = others + acks;
                link.up.traffic.data_bytes = (others as f64 * data_share).round() as u64;
            }
            let flows = match reading.flows {
                Some(sweep) if is_last => self.flows(sweep),
                _ => Vec::new(),
            };
            self.waiting.push_back(Sample {
                at: slot.end,
                span: slot.span,
                link,
                round_trip,
                base_round_trip,
                flows,
            });
        }
        self.release(reading, samples);
    }

    /// Passes on the samples whose buffers are known, or have waited for long enough.
    fn release(&mut self, reading: &LinkReading<'_>, samples: &mut Vec<Sample>) {
        while let Some(sample) = self.waiting.front() {
            // The bucket that ends there.
            let number = number_at(sample.at).saturating_sub(1);
            let is_late = |x: Direction| match reading.queues[x] {
                Seen::Estimate(queue) => number >= queue.known_to(),
                Seen::Nothing | Seen::Level(_) | Seen::Buckets(_) => false,
            };
            if Direction::ALL.into_iter().any(is_late)
                && reading.at.saturating_sub(sample.at) < LATEST_ESTIMATE
            {
                return;
            }
            let Some(mut sample) = self.waiting.pop_front() else { return };
            for x in Direction::ALL {
                if let Seen::Estimate(queue) = reading.queues[x] {
                    sample.link[x].queue = queue.sample(number);
                }
            }
            samples.push(sample);
        }
    }

    /// Takes in the counters. Answers whether a round trip was measured.
    fn count(&mut self, reading: &LinkReading<'_>) -> bool {
        let Some(before) = self.before.replace(*reading.counters) else { return false };
        let mut measured = false;
        for x in Direction::ALL {
            let (now, then) = (&reading.counters[x as usize], &before[x as usize]);
            self.pending[x].add(now, then);
            let samples = total(&now.rtt) - total(&then.rtt);
            if samples > 0 {
                let seconds = (now.rtt_sum_us - then.rtt_sum_us) as f64 / samples as f64 / 1e6;
                self.round_trips[x] = Some((seconds, reading.at));
                if x == Direction::Down {
                    self.home = Some(self.home.map_or(seconds, |home| home.min(seconds)));
                }
                measured = true;
            }
        }
        let out = &mut self.round_trips.up;
        // No data went out that could be answered, as beside datagrams: what ACKs asked tells the way out as well.
        if out.is_none_or(|(_, at)| at < reading.at)
            && let Some(seconds) = reading.answered_s
        {
            *out = Some((seconds, reading.at));
            measured = true;
        }
        let up = Direction::Up as usize;
        self.shares.push(&reading.counters[up], &before[up]);
        measured
    }

    /// The way out and the way home together. Without the way out it is not a round trip at all.
    fn sum_of_round_trips(&self, now: Duration) -> Option<f64> {
        let out = self.round_trip(Direction::Up, now)?;
        Some(out + self.round_trip(Direction::Down, now).unwrap_or(0.0))
    }

    /// The intervals this reading speaks for.
    fn slots(&self, reading: &LinkReading<'_>) -> Vec<Slot> {
        let is_new = |end: Duration| self.last.is_none_or(|last| end > last);
        let PerDirection { up, down } = reading.queues;
        let ((Seen::Buckets(grid), _) | (_, Seen::Buckets(grid))) = (up, down) else {
            if let Seen::Estimate(_) = up {
                return self.estimated_slots(reading);
            }
            if !is_new(reading.at) {
                return Vec::new();
            }
            // Longer, and nobody looked: the sample speaks for its end only.
            let span = self.last.map_or(Duration::ZERO, |last| (reading.at - last).min(LONGEST_SPAN));
            let number = number_at(reading.at);
            let queue = PerDirection { up: up.at(number), down: down.at(number) };
            return vec![Slot { end: reading.at, span, queue, left: None }];
        };
        let slot = |bucket: &QueueInterval| Slot {
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

    /// Buckets since the newest sample; a pause is made up for as far as what passed was read.
    fn estimated_slots(&self, reading: &LinkReading<'_>) -> Vec<Slot> {
        let PerDirection { up, down } = reading.queues;
        let end = number_at(reading.at);
        let longest = number_at(LONGEST_ESTIMATED);
        let from = self.last.map_or(end.saturating_sub(1), number_at).max(end.saturating_sub(longest));
        let slot = |number: u64| Slot {
            end: start_of(number + 1),
            span: BUCKET,
            queue: PerDirection { up: up.at(number), down: down.at(number) },
            left: None,
        };
        (from..end).map(slot).filter(|slot| self.last.is_none_or(|last| slot.end > last)).collect()
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
                buckets.get(index).or(buckets.last()).map(QueueInterval::queue)
            }
        }
    }
}

/// Number of the bucket that a moment lies in.
fn number_at(at: Duration) -> u64 {
    (at.as_nanos() / BUCKET.as_nanos()) as u64
}

/// When a bucket begins.
fn start_of(number: u64) -> Duration {
    Duration::from_nanos(number.saturating_mul(BUCKET.as_nanos() as u64))
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
        id: row.key.id(),
        direction,
        data_bytes: half.fresh_bytes,
        in_flight_bytes,
        round_trip,
        base_round_trip: both(|half| half.rtt_min_us),
    })
}

#[cfg(test)]
mod tests;
