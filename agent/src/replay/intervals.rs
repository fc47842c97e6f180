//! From packets to [`Sample`]s: what happened in each short interval, once the queues of that interval are known.
//!
//! The level of a buffer is known only when the packets in it have come out, which may take seconds. Intervals wait
//! here until then; their number is bounded because the queues' patience is.

use std::collections::VecDeque;
use std::time::Duration;

use pendulum_model::sample::{
    AckBursts, DirectionSample, FlowSample, QueueSample, QueueSource, Sample, Traffic,
};
use pendulum_model::segment::{Class, Direction, PerDirection};

use super::meter::Observation;
use super::queue::Queue;
use pendulum_model::buffer::level::{INTERVAL_NS, Levels};

/// Without a packet for this long the link is silent: everything drains, and one sample covers all of it.
pub const SILENCE_NS: u64 = 10_000_000_000;

/// A turnaround older than this is no part of the round-trip time any more.
const TURN_LIFETIME_NS: u64 = 5_000_000_000;

/// One interval whose queues are not known yet.
#[derive(Clone, Debug, Default)]
struct Interval {
    traffic: PerDirection<Traffic>,
    bursts: PerDirection<AckBursts>,
    turns: PerDirection<(f64, u32)>,
    flows: Vec<FlowSample>,
}

/// Cuts time into intervals.
#[derive(Debug)]
pub struct Intervals {
    /// End of the open interval, nanoseconds from the start of the capture.
    open_end_ns: u64,
    open: Interval,
    /// End of the oldest waiting interval.
    waiting_end_ns: u64,
    waiting: VecDeque<Interval>,
    queues: PerDirection<Queue>,
    /// Newest turnaround of each end, in seconds, and when.
    turns: PerDirection<Option<(f64, u64)>>,
    last_packet_ns: u64,
}

impl Intervals {
    /// Begin at time 0 with these two queues.
    pub fn new(queues: PerDirection<Queue>) -> Self {
        Self {
            open_end_ns: INTERVAL_NS,
            open: Interval::default(),
            waiting_end_ns: INTERVAL_NS,
            waiting: VecDeque::new(),
            queues,
            turns: PerDirection::default(),
            last_packet_ns: 0,
        }
    }

    /// A direction's queue.
    pub fn queue(&mut self, direction: Direction) -> &mut Queue {
        &mut self.queues[direction]
    }

    /// Both queues.
    pub fn queues(&self) -> &PerDirection<Queue> {
        &self.queues
    }

    /// Whether the interval that is open ends at or before `now_ns`.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.open_end_ns
    }

    /// A packet comes at `now_ns`: close what ended before it and pass on what is complete.
    pub fn advance(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        if now_ns > self.last_packet_ns + SILENCE_NS {
            self.skip_silence(now_ns, sink);
        }
        self.last_packet_ns = now_ns;
        if !self.is_due(now_ns) {
            return;
        }
        while self.open_end_ns <= now_ns {
            self.close();
        }
        for direction in Direction::ALL {
            self.queues[direction].settle(now_ns);
        }
        self.emit(sink);
    }

    /// Count a packet of the WAN capture.
    pub fn count<T>(&mut self, direction: Direction, observation: &Observation<'_, T>, wire_bytes: u64) {
        let traffic = &mut self.open.traffic[direction];
        traffic.wire_bytes += wire_bytes;
        let Some(segment) = &observation.segment else { return };
        let segments = u64::from(segment.segments);
        if observation.class == Class::Data {
            traffic.data_bytes += wire_bytes;
            traffic.data_segments += segments;
        } else if observation.class.is_pure_ack() {
            traffic.ack_segments += segments;
        }
        if observation.observed.is_some_and(|observed| observed.retransmitted) {
            traffic.retransmitted_segments += segments;
        }
        self.open.bursts[direction].add(observation.burst, 1);
    }

    /// An end took this long to answer with a packet of `direction`.
    pub fn note_turn(&mut self, direction: Direction, now_ns: u64, seconds: f64) {
        let (sum, count) = &mut self.open.turns[direction];
        *sum += seconds;
        *count += 1;
        self.turns[direction] = Some((seconds, now_ns));
    }

    /// What the flows did since they were last read.
    pub fn note_flows(&mut self, flows: Vec<FlowSample>) {
        self.open.flows = flows;
    }

    /// The capture ends at `now_ns`.
    pub fn finish(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        self.advance(now_ns, sink);
        self.flush(now_ns, sink);
    }

    fn flush(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        let end = now_ns.max(self.open_end_ns);
        while self.open_end_ns <= end {
            self.close();
        }
        for direction in Direction::ALL {
            self.queues[direction].finish(self.open_end_ns);
        }
        self.emit(sink);
    }

    /// Silence up to `now_ns`: one sample says so, and everything begins anew.
    fn skip_silence(&mut self, now_ns: u64, sink: &mut impl FnMut(&Sample)) {
        self.flush(self.last_packet_ns + SILENCE_NS / 2, sink);
        let from_ns = self.waiting_end_ns - INTERVAL_NS;
        let start_ns = now_ns / INTERVAL_NS * INTERVAL_NS;
        if start_ns > from_ns {
            let mut sample = Sample {
                at: Duration::from_nanos(start_ns),
                span: Duration::from_nanos(start_ns - from_ns),
                ..Sample::default()
            };
            for direction in Direction::ALL {
                sample.link[direction].queue =
                    source_of(&self.queues[direction]).map(|source| QueueSample::level(source, 0.0));
            }
            sink(&sample);
        }
        for direction in Direction::ALL {
            self.queues[direction].restart(start_ns);
        }
        self.waiting.clear();
        self.open = Interval::default();
        self.open_end_ns = start_ns + INTERVAL_NS;
        self.waiting_end_ns = self.open_end_ns;
    }

    fn close(&mut self) {
        let mut closed = std::mem::take(&mut self.open);
        // A mean of what was measured in it; what was measured before it lasts for a while.
        for direction in Direction::ALL {
            if closed.turns[direction].1 == 0
                && let Some((seconds, at_ns)) = self.turns[direction]
                && at_ns + TURN_LIFETIME_NS >= self.open_end_ns
            {
                closed.turns[direction] = (seconds, 0);
            }
        }
        self.waiting.push_back(closed);
        self.open_end_ns += INTERVAL_NS;
    }

    fn emit(&mut self, sink: &mut impl FnMut(&Sample)) {
        while !self.waiting.is_empty() {
            let Some(levels) = self.pop_levels() else { return };
            let Some(interval) = self.waiting.pop_front() else { return };
            let sample = self.assemble(interval, levels);
            self.waiting_end_ns += INTERVAL_NS;
            sink(&sample);
        }
    }

    /// The levels of the oldest waiting interval: `None` if a queue does not know yet.
    fn pop_levels(&mut self) -> Option<PerDirection<Option<Levels>>> {
        for queue in [&mut self.queues.up, &mut self.queues.down] {
            if queue.is_known() && !queue.is_ready() {
                return None;
            }
        }
        Some(PerDirection::from_fn(|x| self.queues[x].pop()))
    }

    fn assemble(&self, interval: Interval, levels: PerDirection<Option<Levels>>) -> Sample {
        let direction = |x: Direction| DirectionSample {
            queue: source_of(&self.queues[x]).zip(levels[x]).map(|(source, levels)| QueueSample {
                source,
                min_bytes: levels.min,
                mean_bytes: levels.mean,
                max_bytes: levels.max,
            }),
            traffic: interval.traffic[x],
            in_flight_bytes: None,
            ack_bursts: interval.bursts[x],
        };
        Sample {
            at: Duration::from_nanos(self.waiting_end_ns),
            span: Duration::from_nanos(INTERVAL_NS),
            link: PerDirection::from_fn(direction),
            round_trip: round_trip(&interval.turns),
            flows: interval.flows,
        }
    }
}

/// Both ends' turnarounds together are the round trip, if either was measured in the interval.
fn round_trip(turns: &PerDirection<(f64, u32)>) -> Option<f64> {
    if turns.up.1 + turns.down.1 == 0 {
        return None;
    }
    let seconds = |(sum, count): (f64, u32)| sum / f64::from(count.max(1));
    Some(seconds(turns.up) + seconds(turns.down))
}

fn source_of(queue: &Queue) -> Option<QueueSource> {
    match queue {
        Queue::Exact(_) => Some(QueueSource::Capture),
        Queue::Delay(_) => Some(QueueSource::Estimate),
        Queue::Unknown => None,
    }
}
