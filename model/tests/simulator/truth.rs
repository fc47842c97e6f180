//! What really happened on a simulated link, in the form that the detector takes.

use std::collections::VecDeque;
use std::time::Duration;

use pendulum_model::sample::{
    AckBursts, BaseRoundTrip, Composition, DirectionSample, FlowSample, QueueSample, QueueSource, Sample,
    Traffic,
};
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::simulate::{Content, DATA_FRAME_BYTES, Packet, Watch};

const SAMPLE_NS: u64 = 10_000_000;
/// Samples between two that tell of each flow.
const FLOWS_EVERY: u64 = 50;

const DATA_BYTES: u64 = DATA_FRAME_BYTES as u64;

/// Makes samples of a run.
pub(super) struct Truth {
    samples: Vec<Sample>,
    queues: PerDirection<Queue>,
    flows: Vec<Flow>,
}

/// A buffer, and what went through it since the last sample. The frame that the link works on is not in it.
#[derive(Default)]
struct Queue {
    /// Bytes of each, and whether it had been sent before. The first is on the link.
    frames: VecDeque<(u64, bool)>,
    bytes: u64,
    least: u64,
    most: u64,
    area: f64,
    changed_ns: u64,
    traffic: Traffic,
    composition: Composition,
    ack_run: u64,
    bursts: AckBursts,
}

struct Flow {
    direction: Direction,
    /// Segments sent at least once, acknowledged, and acknowledged when it was last reported.
    sent: u32,
    acked: u32,
    told: u32,
    round_trips: Vec<f64>,
    last: Option<f64>,
    shortest: Option<f64>,
}

impl Queue {
    fn change(&mut self, now: u64, by: i64) {
        self.area += self.bytes as f64 * (now - self.changed_ns) as f64;
        self.changed_ns = now;
        self.bytes = self.bytes.saturating_add_signed(by);
        self.least = self.least.min(self.bytes);
        self.most = self.most.max(self.bytes);
    }

    fn enter(&mut self, now: u64, frame: &Packet, is_again: bool) {
        let bytes = u64::from(frame.bytes);
        *match frame.content {
            Content::Data(_) => &mut self.composition.tcp_data,
            Content::Ack(_) | Content::Greeting(_) => &mut self.composition.ack,
            Content::Datagram => &mut self.composition.udp,
        } += bytes;
        if !self.frames.is_empty() {
            self.change(now, bytes as i64);
        }
        self.frames.push_back((bytes, is_again));
    }

    fn leave(&mut self, now: u64, frame: &Packet) {
        let (bytes, is_again) = self.frames.pop_front().expect("what leaves has entered");
        if let Some((next, _)) = self.frames.front() {
            self.change(now, -(*next as i64));
        }
        self.traffic.wire_bytes += bytes;
        match frame.content {
            Content::Data(_) => {
                self.traffic.data_bytes += bytes;
                self.traffic.data_segments += 1;
                self.traffic.retransmitted_segments += u64::from(is_again);
                self.bursts.add(std::mem::take(&mut self.ack_run), 1);
            }
            Content::Ack(_) | Content::Greeting(_) => {
                self.traffic.ack_segments += 1;
                self.ack_run += 1;
            }
            Content::Datagram => {}
        }
    }

    /// The sample that ends now.
    fn take(&mut self, now: u64) -> DirectionSample {
        self.change(now, 0);
        let queue = QueueSample {
            source: QueueSource::Capture,
            min_bytes: self.least as f64,
            mean_bytes: std::mem::take(&mut self.area) / SAMPLE_NS as f64,
            max_bytes: self.most as f64,
            uncertainty_bytes: 0.0,
        };
        (self.least, self.most) = (self.bytes, self.bytes);
        DirectionSample {
            queue: Some(queue),
            traffic: std::mem::take(&mut self.traffic),
            ack_bursts: std::mem::take(&mut self.bursts),
            composition: std::mem::take(&mut self.composition),
            ..DirectionSample::default()
        }
    }
}

impl Flow {
    fn in_flight_bytes(&self) -> f64 {
        (u64::from(self.sent - self.acked) * DATA_BYTES) as f64
    }

    fn tell(&mut self, id: usize) -> FlowSample {
        let data_bytes = u64::from(self.acked - self.told) * DATA_BYTES;
        self.told = self.acked;
        FlowSample {
            id: id as u64,
            direction: self.direction,
            data_bytes,
            in_flight_bytes: Some(self.in_flight_bytes()),
            round_trip: self.last,
            base_round_trip: self.shortest,
        }
    }
}

impl Truth {
    /// Of flows of these directions.
    pub(super) fn new(flows: impl Iterator<Item = Direction>) -> Self {
        let flow = |direction| Flow {
            direction,
            sent: 0,
            acked: 0,
            told: 0,
            round_trips: Vec::new(),
            last: None,
            shortest: None,
        };
        Self {
            samples: Vec::new(),
            queues: PerDirection::from_fn(|_| Queue::default()),
            flows: flows.map(flow).collect(),
        }
    }

    /// All samples of a run that ended at this time.
    pub(super) fn samples(mut self, end: u64) -> Vec<Sample> {
        self.advance(end + 1);
        self.samples
    }

    /// Time goes on to this moment, of which not all has happened yet.
    fn advance(&mut self, to: u64) {
        while (self.samples.len() as u64 + 1) * SAMPLE_NS < to {
            let number = self.samples.len() as u64 + 1;
            let sample = self.sample(number);
            self.samples.push(sample);
        }
    }

    fn sample(&mut self, number: u64) -> Sample {
        let now = number * SAMPLE_NS;
        let link = PerDirection::from_fn(|x| self.queues[x].take(now));
        let means = self.flows.iter_mut().filter_map(|flow| {
            let measured = std::mem::take(&mut flow.round_trips);
            (!measured.is_empty()).then(|| measured.iter().sum::<f64>() / measured.len() as f64)
        });
        let means: Vec<f64> = means.collect();
        let round_trip = (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64);
        let shortest = self.flows.iter().filter_map(|flow| flow.shortest).reduce(f64::min);
        let flows = self.flows.iter_mut().enumerate();
        let flows = flows.filter(|(_, flow)| number.is_multiple_of(FLOWS_EVERY) && flow.acked > 0);
        Sample {
            at: Duration::from_nanos(now),
            span: Duration::from_nanos(SAMPLE_NS),
            link,
            round_trip,
            base_round_trip: shortest.map(|seconds| BaseRoundTrip { seconds, is_proven: false }),
            flows: flows.map(|(id, flow)| flow.tell(id)).collect(),
        }
    }
}

impl Watch for Truth {
    fn reached(&mut self, at: u64, direction: Direction, frame: &Packet, is_taken: bool) {
        self.advance(at);
        let mut is_again = false;
        if let Content::Data(data) = frame.content {
            let flow = &mut self.flows[frame.flow as usize];
            is_again = data.number < flow.sent;
            flow.sent = flow.sent.max(data.number + 1);
        }
        if is_taken {
            self.queues[direction].enter(at, frame, is_again);
        }
    }

    fn left(&mut self, at: u64, direction: Direction, frame: &Packet) {
        self.advance(at);
        self.queues[direction].leave(at, frame);
    }

    fn acknowledged(&mut self, at: u64, flow: usize, next: u32, round_trip_s: f64) {
        self.advance(at);
        let flow = &mut self.flows[flow];
        flow.acked = flow.acked.max(next);
        flow.round_trips.push(round_trip_s);
        flow.last = Some(round_trip_s);
        flow.shortest = Some(flow.shortest.map_or(round_trip_s, |shortest| shortest.min(round_trip_s)));
    }
}
