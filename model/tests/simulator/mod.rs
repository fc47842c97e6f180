//! A packet-level simulation of paper 000, Fig. 2: NewReno with SACK over one two-way bottleneck link.
//!
//! It exists to give the model something to be wrong about: links and flows nobody tuned to, with every queue known
//! exactly. Deterministic. Packets, ACKs, queues and timers are simulated one by one; nothing here uses the model's
//! equations.

mod buffer;
mod packet;
mod tcp;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use pendulum_model::sample::{AckBursts, Composition, FlowSample, QueueSample, QueueSource, Sample};
use pendulum_model::segment::{Direction, PerDirection};

use buffer::{Buffer, Level};
use packet::{DATA_BYTES, Packet};
use tcp::{Receiver, Sender};

const SAMPLE_NS: u64 = 10_000_000;
const LAN_NS: u64 = 100_000;

/// How a buffer counts.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Bytes(u64),
    Packets(usize),
}

/// One transfer.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) direction: Direction,
    pub(crate) start_s: f64,
    pub(crate) stop_s: f64,
    /// One-way delay between R1 and the remote end, milliseconds.
    pub(crate) remote_ms: f64,
    /// Data per second the application offers, bytes; `None`: as much as TCP takes.
    pub(crate) application_rate: Option<f64>,
    /// No TCP: datagrams at this rate whatever becomes of them, bytes per second.
    pub(crate) datagram_rate: Option<f64>,
}

/// The link and what runs over it. Rates in bits per second, times in milliseconds.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) down_bps: f64,
    pub(crate) up_bps: f64,
    pub(crate) propagation_ms: f64,
    pub(crate) buffer: PerDirection<Limit>,
    pub(crate) delayed_acks: bool,
    pub(crate) flows: Vec<Flow>,
    pub(crate) duration_s: f64,
}

enum Action {
    /// Reaches the buffer of the direction.
    Enqueue(Direction, Packet),
    /// The link has sent its packet.
    Sent(Direction),
    Deliver(Packet),
    Start(usize),
    Timeout(usize, u64),
    DelayedAck(usize, u64),
    Offer(usize),
    Datagram(usize),
    Tick,
}

pub(crate) struct Simulation {
    scenario: Scenario,
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, usize)>>,
    actions: Vec<Option<Action>>,
    free: Vec<usize>,
    buffers: PerDirection<Buffer>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    rtt: Vec<(f64, u32)>,
    reported: Vec<u64>,
    /// First segment number never sent, by flow.
    sent: Vec<u64>,
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

impl Simulation {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let buffer = |direction| Buffer {
            limit: scenario.buffer[direction],
            queue: VecDeque::new(),
            bytes: 0,
            in_service: None,
            level: Level { min: 0, max: 0, area: 0.0, changed_ns: 0 },
            wire_bytes: 0,
            data_segments: 0,
            again_segments: 0,
            ack_segments: 0,
            composition: Composition::default(),
            ack_run: 0,
            bursts: AckBursts::default(),
        };
        let mut simulation = Self {
            now: 0,
            order: 0,
            events: BinaryHeap::new(),
            actions: Vec::new(),
            free: Vec::new(),
            buffers: PerDirection::from_fn(buffer),
            senders: scenario.flows.iter().map(|flow| Sender::new(flow.application_rate.is_some())).collect(),
            receivers: scenario.flows.iter().map(|_| Receiver::new(scenario.delayed_acks)).collect(),
            rtt: vec![(0.0, 0); scenario.flows.len()],
            reported: vec![0; scenario.flows.len()],
            sent: vec![0; scenario.flows.len()],
            scenario: scenario.clone(),
        };
        for flow in 0..scenario.flows.len() {
            simulation.at(nanoseconds(scenario.flows[flow].start_s), Action::Start(flow));
        }
        simulation.at(SAMPLE_NS, Action::Tick);
        simulation
    }

    /// Runs to the end and returns one sample for each 10 ms.
    pub(crate) fn run(mut self) -> Vec<Sample> {
        let end = nanoseconds(self.scenario.duration_s);
        let mut samples = Vec::new();
        while let Some(Reverse((at, _, slot))) = self.events.pop() {
            if at > end {
                break;
            }
            self.now = at;
            let action = self.actions[slot].take();
            self.free.push(slot);
            match action {
                Some(Action::Tick) => {
                    samples.push(self.sample());
                    self.at(self.now + SAMPLE_NS, Action::Tick);
                }
                Some(action) => self.act(action),
                None => {}
            }
        }
        samples
    }

    fn at(&mut self, time: u64, action: Action) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.actions.push(None);
            self.actions.len() - 1
        });
        self.actions[slot] = Some(action);
        self.order += 1;
        self.events.push(Reverse((time, self.order, slot)));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Enqueue(direction, packet) => self.enqueue(direction, packet),
            Action::Sent(direction) => self.sent(direction),
            Action::Deliver(packet) if packet.is_datagram => {}
            Action::Deliver(packet) if packet.is_data => self.receive_data(packet),
            Action::Deliver(packet) => self.receive_ack(packet),
            Action::Start(flow) => {
                if self.scenario.flows[flow].datagram_rate.is_some() {
                    return self.at(self.now, Action::Datagram(flow));
                }
                if self.scenario.flows[flow].application_rate.is_some() {
                    self.at(self.now, Action::Offer(flow));
                }
                self.send(flow);
            }
            Action::Timeout(flow, stamp) => {
                if self.senders[flow].timeout(stamp) {
                    self.send(flow);
                }
            }
            Action::DelayedAck(flow, stamp) => {
                if self.receivers[flow].delayed_ack_due(stamp) {
                    self.acknowledge(flow);
                }
            }
            Action::Offer(flow) => {
                self.senders[flow].offered += 1;
                let rate = self.scenario.flows[flow].application_rate.unwrap_or(f64::INFINITY);
                self.at(self.now + nanoseconds(DATA_BYTES as f64 / rate), Action::Offer(flow));
                self.send(flow);
            }
            Action::Datagram(flow) => {
                let Flow { direction, stop_s, datagram_rate, .. } = self.scenario.flows[flow];
                if self.now >= nanoseconds(stop_s) {
                    return;
                }
                let packet = Packet {
                    flow,
                    number: 0,
                    is_data: true,
                    is_again: false,
                    is_datagram: true,
                    sent_ns: self.now,
                };
                self.emit(direction, packet);
                let rate = datagram_rate.unwrap_or(f64::INFINITY);
                self.at(self.now + nanoseconds(DATA_BYTES as f64 / rate), Action::Datagram(flow));
            }
            Action::Tick => {}
        }
    }

    fn remote_ns(&self, flow: usize) -> u64 {
        nanoseconds(self.scenario.flows[flow].remote_ms / 1e3)
    }

    /// From an end system to the buffer in front of it.
    fn emit(&mut self, direction: Direction, packet: Packet) {
        let delay = match direction {
            Direction::Up => LAN_NS,
            Direction::Down => self.remote_ns(packet.flow),
        };
        self.at(self.now + delay, Action::Enqueue(direction, packet));
    }

    fn send(&mut self, flow: usize) {
        let Flow { direction, stop_s, .. } = self.scenario.flows[flow];
        if self.now >= nanoseconds(stop_s) {
            self.senders[flow].stop();
        }
        while let Some(number) = self.senders[flow].next() {
            let is_again = number < self.sent[flow];
            self.sent[flow] = self.sent[flow].max(number + 1);
            let sent_ns = self.now;
            let packet = Packet { flow, number, is_data: true, is_again, is_datagram: false, sent_ns };
            self.emit(direction, packet);
        }
        if let Some((stamp, after)) = self.senders[flow].arm_timer() {
            self.at(self.now + nanoseconds(after), Action::Timeout(flow, stamp));
        }
    }

    fn enqueue(&mut self, direction: Direction, packet: Packet) {
        let now = self.now;
        let buffer = &mut self.buffers[direction];
        if buffer.in_service.is_none() {
            buffer.entered(&packet);
            self.serve(direction, packet);
            return;
        }
        let fits = match buffer.limit {
            Limit::Bytes(limit) => buffer.bytes + packet.bytes() <= limit,
            Limit::Packets(limit) => buffer.queue.len() < limit,
        };
        if fits {
            buffer.entered(&packet);
            buffer.change(now, packet.bytes() as i64);
            buffer.queue.push_back(packet);
        }
    }

    fn serve(&mut self, direction: Direction, packet: Packet) {
        let rate = match direction {
            Direction::Up => self.scenario.up_bps,
            Direction::Down => self.scenario.down_bps,
        };
        self.buffers[direction].in_service = Some(packet);
        let time = nanoseconds(packet.bytes() as f64 * 8.0 / rate);
        self.at(self.now + time, Action::Sent(direction));
    }

    fn sent(&mut self, direction: Direction) {
        let now = self.now;
        let buffer = &mut self.buffers[direction];
        let Some(packet) = buffer.in_service.take() else { return };
        buffer.passed(&packet);
        let next = buffer.queue.pop_front();
        if let Some(next) = next {
            buffer.change(now, -(next.bytes() as i64));
            self.serve(direction, next);
        }
        let far = match direction {
            Direction::Up => self.remote_ns(packet.flow),
            Direction::Down => LAN_NS,
        };
        let delay = nanoseconds(self.scenario.propagation_ms / 1e3) + far;
        self.at(self.now + delay, Action::Deliver(packet));
    }

    fn receive_data(&mut self, packet: Packet) {
        let flow = packet.flow;
        let receiver = &mut self.receivers[flow];
        match receiver.receive(packet.number, packet.sent_ns) {
            tcp::Reply::Now => self.acknowledge(flow),
            tcp::Reply::Later(stamp) => self.at(self.now + 200_000_000, Action::DelayedAck(flow, stamp)),
        }
    }

    fn acknowledge(&mut self, flow: usize) {
        let (number, sent_ns) = self.receivers[flow].acknowledge();
        let direction = self.scenario.flows[flow].direction.opposite();
        let packet = Packet { flow, number, is_data: false, is_again: false, is_datagram: false, sent_ns };
        self.emit(direction, packet);
    }

    fn receive_ack(&mut self, packet: Packet) {
        let flow = packet.flow;
        let rtt = (self.now - packet.sent_ns) as f64 / 1e9;
        self.rtt[flow].0 += rtt;
        self.rtt[flow].1 += 1;
        // Simplification: SACK news is read from the receiver now, half a round trip early.
        let sacked = self.receivers[flow].above();
        self.senders[flow].acknowledged(packet.number, sacked, rtt);
        self.send(flow);
    }

    fn sample(&mut self) -> Sample {
        let now = self.now;
        let mut sample = Sample {
            at: Duration::from_nanos(now),
            span: Duration::from_nanos(SAMPLE_NS),
            ..Sample::default()
        };
        for direction in Direction::ALL {
            let (queue, out) = (&mut self.buffers[direction], &mut sample.link[direction]);
            queue.change(now, 0);
            out.queue = Some(QueueSample {
                source: QueueSource::Capture,
                min_bytes: queue.level.min as f64,
                mean_bytes: queue.level.area / SAMPLE_NS as f64,
                max_bytes: queue.level.max as f64,
                uncertainty_bytes: 0.0,
            });
            queue.level = Level { min: queue.bytes, max: queue.bytes, area: 0.0, changed_ns: now };
            out.traffic.wire_bytes = std::mem::take(&mut queue.wire_bytes);
            out.traffic.data_segments = std::mem::take(&mut queue.data_segments);
            out.traffic.data_bytes = out.traffic.data_segments * DATA_BYTES;
            out.traffic.retransmitted_segments = std::mem::take(&mut queue.again_segments);
            out.composition = std::mem::take(&mut queue.composition);
            out.traffic.ack_segments = std::mem::take(&mut queue.ack_segments);
            out.ack_bursts = std::mem::take(&mut queue.bursts);
            let outstanding: u64 = (0..self.senders.len())
                .filter(|&flow| self.scenario.flows[flow].direction == direction)
                .map(|flow| self.senders[flow].outstanding())
                .sum();
            out.in_flight_bytes = Some((outstanding * DATA_BYTES) as f64);
        }
        let measured: Vec<f64> = self
            .rtt
            .iter()
            .filter(|(_, count)| *count > 0)
            .map(|(sum, count)| sum / f64::from(*count))
            .collect();
        if !measured.is_empty() {
            sample.round_trip = Some(measured.iter().sum::<f64>() / measured.len() as f64);
        }
        self.rtt.fill((0.0, 0));
        if now.is_multiple_of(500_000_000) {
            sample.flows = self.flow_samples();
        }
        sample
    }

    fn flow_samples(&mut self) -> Vec<FlowSample> {
        let mut flows = Vec::new();
        for (index, flow) in self.scenario.flows.iter().enumerate() {
            let delivered = self.receivers[index].delivered();
            let data = delivered - self.reported[index];
            self.reported[index] = delivered;
            if delivered > 0 {
                flows.push(FlowSample {
                    id: index as u64,
                    direction: flow.direction,
                    data_bytes: data * DATA_BYTES,
                    in_flight_bytes: Some((self.senders[index].outstanding() * DATA_BYTES) as f64),
                    round_trip: self.senders[index].last_rtt(),
                    base_round_trip: self.senders[index].min_rtt(),
                });
            }
        }
        flows
    }
}
