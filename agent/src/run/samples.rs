//! From what is read ten times a second to the detector's [`Sample`]s.
//!
//! Where the history ring gives the queue, a sample speaks for one bucket of 10 ms; else for the time since the reading
//! before. Counters are read once for all the buckets of a tick. What the uplink carried is taken behind its buffer where the ring tells, so
//! that a buffer that fills is not taken for a faster link.

mod counted;

use std::time::Duration;

use pendulum_model::sample::{
    Assembler, BaseRoundTrip, FlowSample, Level, MeasuredRate, QueueSample, Sample, SampleInterval,
};
use pendulum_model::segment::{Direction, PerDirection};

use self::counted::{DataShare, add, total};
use super::estimate::Estimate;
use crate::bpf::{BUCKET, QueueInterval, abi};
use crate::snapshot::{FlowRow, FlowSweep};

/// Time one reading without buckets can speak for.
const LONGEST_SPAN: Duration = Duration::from_secs(1);
/// Time for which the estimate knows every bucket although nobody looked meanwhile: the rings of slots reach back further.
const LONGEST_ESTIMATED: Duration = Duration::from_secs(4);
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
    pub(super) counters: &'a PerDirection<abi::pendulum_counters>,
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
    before: Option<PerDirection<abi::pendulum_counters>>,
    pub(super) assembler: Assembler,
    shares: DataShare,
    /// The shortest way home and back, seconds: no buffer of the link is in it.
    home: Option<f64>,
}

impl SampleBuilder {
    /// Turns a reading into samples that follow those before, oldest first.
    pub(super) fn take(&mut self, reading: &LinkReading<'_>, samples: &mut Vec<Sample>) {
        self.count(reading);
        if let Some(sweep) = reading.flows {
            let rows = sweep.rows.iter();
            let flows = rows.flat_map(|row| Direction::ALL.map(|x| flow(row, x))).flatten();
            self.assembler.note_flows(reading.at, flows.collect());
        }
        let base_round_trip = reading
            .base_round_trip
            .map(|base| BaseRoundTrip { seconds: base.seconds + self.home.unwrap_or(0.0), ..base });
        self.assembler.close(&self.intervals(reading), reading.rates, base_round_trip);
        let levels = |sample: &Sample| {
            // The bucket that ends there.
            let number = number_at(sample.at).saturating_sub(1);
            let estimates = PerDirection::from_fn(|x| reading.queues[x].estimate());
            let is_late = |x: Direction| estimates[x].is_some_and(|queue| number >= queue.known_to());
            let waits = Direction::ALL.into_iter().any(is_late)
                && reading.at.saturating_sub(sample.at) < LATEST_ESTIMATE;
            (!waits).then(|| PerDirection::from_fn(|x| estimates[x]?.sample(number)))
        };
        self.assembler.release(levels, |sample| samples.push(sample));
    }

    fn count(&mut self, reading: &LinkReading<'_>) {
        let Some(before) = self.before.replace(*reading.counters) else { return };
        let mut replies = PerDirection::default();
        for x in Direction::ALL {
            let (now, then) = (&reading.counters[x], &before[x]);
            add(self.assembler.counted(x), now, then);
            replies[x] = total(&now.rtt) - total(&then.rtt);
            if replies[x] > 0 {
                let seconds = (now.rtt_sum_us - then.rtt_sum_us) as f64 / replies[x] as f64 / 1e6;
                self.assembler.note_round_trip(x, reading.at, seconds, replies[x]);
                if x == Direction::Down {
                    self.home = Some(self.home.map_or(seconds, |home| home.min(seconds)));
                }
            }
        }
        // No data went out that could be answered, as beside datagrams: what ACKs asked tells the way out as well.
        if let Some(seconds) = reading.answered_s.filter(|_| replies.up == 0) {
            self.assembler.note_round_trip(Direction::Up, reading.at, seconds, 1);
        }
        self.shares.push(&reading.counters.up, &before.up);
    }

    /// The intervals this reading speaks for.
    fn intervals(&self, reading: &LinkReading<'_>) -> Vec<SampleInterval> {
        let newest = self.assembler.newest;
        let is_new = |end: Duration| newest.is_none_or(|newest| end > newest);
        let PerDirection { up, down } = reading.queues;
        let interval = |number: u64, left| SampleInterval {
            at: start_of(number + 1),
            span: BUCKET,
            queues: PerDirection { up: up.at(number), down: down.at(number) },
            left,
        };
        let ((Seen::Buckets(grid), _) | (_, Seen::Buckets(grid))) = (up, down) else {
            let end = number_at(reading.at);
            if let Seen::Estimate(_) = up {
                // A pause is made up for as far as what passed was read.
                let from = newest.map_or(end.saturating_sub(1), number_at);
                let from = from.max(end.saturating_sub(number_at(LONGEST_ESTIMATED)));
                let all = (from..end).map(|number| interval(number, None));
                return all.filter(|interval| is_new(interval.at)).collect();
            }
            if !is_new(reading.at) {
                return Vec::new();
            }
            // Longer, and nobody looked: the sample speaks for its end only.
            let span = newest.map_or(Duration::ZERO, |newest| (reading.at - newest).min(LONGEST_SPAN));
            return vec![SampleInterval { at: reading.at, span, ..interval(end, None) }];
        };
        let data_share = self.shares.data_share();
        let left = |bucket: &QueueInterval| match up {
            Seen::Buckets(_) => {
                let [others, acks] = bucket.events.dequeued_bytes;
                Some([others + acks, (others as f64 * data_share).round() as u64])
            }
            Seen::Level(_) | Seen::Estimate(_) | Seen::Nothing => None,
        };
        let new = grid.iter().filter(|bucket| is_new(bucket.end()));
        new.map(|bucket| interval(bucket.number, left(bucket))).collect()
    }
}

impl<'a> Seen<'a> {
    /// What stood in the buffer during one bucket. The two rings may be read a moment apart: at their end the level is
    /// carried on.
    fn at(&self, number: u64) -> Level {
        match self {
            Self::Nothing => Level::Known(None),
            Self::Level(queue) => Level::Known(Some(*queue)),
            Self::Estimate(_) => Level::Awaited,
            Self::Buckets(buckets) => {
                let index = buckets.partition_point(|bucket| bucket.number < number);
                Level::Known(buckets.get(index).or(buckets.last()).map(QueueInterval::queue))
            }
        }
    }

    fn estimate(&self) -> Option<Estimate<'a>> {
        match self {
            Self::Estimate(queue) => Some(*queue),
            Self::Nothing | Self::Level(_) | Self::Buckets(_) => None,
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

fn flow(row: &FlowRow, direction: Direction) -> Option<FlowSample> {
    let half = &row.halves[direction];
    if half.fresh_bytes == 0 {
        return None;
    }
    let both = |of: fn(&crate::snapshot::HalfRow) -> u32| {
        let [up, down] = row.halves.both();
        let known = up.rtt_samples > 0 && down.rtt_samples > 0;
        known.then(|| (f64::from(of(up)) + f64::from(of(down))) / 1e6)
    };
    Some(FlowSample {
        id: row.key.id(),
        direction,
        data_bytes: half.fresh_bytes,
        in_flight_bytes: Some(f64::from(half.in_flight_bytes)),
        round_trip: both(|half| half.rtt_last_us),
        base_round_trip: both(|half| half.rtt_min_us),
    })
}

#[cfg(test)]
pub(super) mod tests;
