//! TCP sources whose ACKs share one slow reverse channel, simulated segment by segment (002 §2.4, §4.1).
//!
//! ```text
//!  sources ─ access delay ─ forward link, nothing is lost ─ destination
//!     └────── access delay ─ slow channel ◄─ reverse buffer ◄──┘
//! ```
//!
//! Deterministic: one seed, one outcome.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::buffer::{Ack, Counts, ReverseBuffer};
use super::policy::Policy;
use super::tcp::{PlainReceiver, PlainSender};

/// The path that all sources share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Forward link, bytes per second.
    pub forward_rate: f64,
    /// Reverse channel, bytes per second.
    pub reverse_rate: f64,
    /// `T`: propagation there and back, without the sources' access links.
    pub base_rtt: Duration,
    /// Data segments on the wire, bytes.
    pub segment_bytes: f64,
    /// ACKs on the wire, bytes.
    pub ack_bytes: f64,
    /// `d`.
    pub segments_per_ack: u32,
    /// What the receivers take at a time, segments; infinite if the window is never to be the limit.
    pub receiver_window: f64,
    /// Most ACKs in the reverse buffer; `None` for a large one.
    pub reverse_capacity: Option<usize>,
}

/// A host that sends one file after another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// One-way delay between it and the shared path.
    pub access_delay: Duration,
    /// Smallest and largest file, segments; sizes are uniform between them.
    pub file_segments: (u64, u64),
    /// Longest pause before a file; pauses are uniform.
    pub longest_pause: Duration,
}

impl Source {
    /// One that starts at once and never ends.
    pub const ENDLESS: Self = Self {
        access_delay: Duration::ZERO,
        file_segments: (u64::MAX, u64::MAX),
        longest_pause: Duration::ZERO,
    };
}

/// A file that has arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Which source sent it.
    pub source: usize,
    /// Its size, segments.
    pub segments: u64,
    /// When its first segment was sent.
    pub begin: Duration,
    /// When its last ACK came.
    pub end: Duration,
}

/// What there is to see at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Since the start.
    pub at: Duration,
    /// Congestion windows of all connections together, segments.
    pub window_segments: f64,
    /// Segments sent by all sources since the start.
    pub sent_segments: u64,
    /// Segments acknowledged since the start, as the sources know.
    pub acked_segments: u64,
    /// ACKs in the reverse buffer.
    pub queued_acks: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin { source: usize },
    AtForwardLink { connection: u32, segment: u64 },
    AtReceiver { connection: u32, segment: u64 },
    DelayedAck { connection: u32 },
    ChannelFree,
    AtSource { connection: u32, number: u64 },
    Timer { connection: u32 },
}

struct Connection {
    source: usize,
    access_delay: Duration,
    sender: PlainSender,
    receiver: PlainReceiver,
    segments: u64,
    begin: Duration,
    timer_set: bool,
}

/// A running simulation.
pub struct Simulation {
    network: Network,
    sources: Vec<Source>,
    random: fastrand::Rng,
    now: Duration,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    event_number: u64,
    connections: BTreeMap<u32, Connection>,
    next_connection: u32,
    forward_free: Duration,
    channel_busy: bool,
    buffer: ReverseBuffer,
    transfers: Vec<Transfer>,
    sent_segments: u64,
    acked_before: u64,
}

impl Simulation {
    /// The sources at rest, each before its first pause.
    pub fn new(network: Network, policy: Policy, sources: Vec<Source>, seed: u64) -> Self {
        let buffer =
            ReverseBuffer::new(policy, network.reverse_capacity, network.reverse_rate, network.ack_bytes);
        let mut simulation = Self {
            network,
            sources,
            random: fastrand::Rng::with_seed(seed),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            event_number: 0,
            connections: BTreeMap::new(),
            next_connection: 0,
            forward_free: Duration::ZERO,
            channel_busy: false,
            buffer,
            transfers: Vec::new(),
            sent_segments: 0,
            acked_before: 0,
        };
        for source in 0..simulation.sources.len() {
            simulation.pause(source);
        }
        simulation
    }

    /// Goes on until `end`.
    pub fn run_until(&mut self, end: Duration) {
        while let Some(Reverse((at, _, _))) = self.events.peek() {
            if *at > end {
                break;
            }
            if let Some(Reverse((at, _, event))) = self.events.pop() {
                self.now = at;
                self.handle(event);
            }
        }
        self.now = end;
    }

    /// What there is to see now.
    pub fn moment(&self) -> Moment {
        let acked: u64 = self.connections.values().map(|connection| connection.sender.acked()).sum();
        Moment {
            at: self.now,
            window_segments: self.connections.values().map(|c| c.sender.window()).sum(),
            sent_segments: self.sent_segments,
            acked_segments: self.acked_before + acked,
            queued_acks: self.buffer.len(),
        }
    }

    /// Files that have arrived so far.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// What has become of the ACKs.
    pub fn ack_counts(&self) -> Counts {
        self.buffer.counts()
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin { source } => self.begin(source),
            Event::AtForwardLink { connection, segment } => {
                let transmission = seconds(self.network.segment_bytes / self.network.forward_rate);
                self.forward_free = self.forward_free.max(self.now) + transmission;
                let arrival = self.forward_free + self.network.base_rtt / 2;
                self.at(arrival, Event::AtReceiver { connection, segment });
            }
            Event::AtReceiver { connection, segment } => self.receive(connection, segment),
            Event::DelayedAck { connection } => self.delayed_ack(connection),
            Event::ChannelFree => {
                self.channel_busy = false;
                self.start_channel();
            }
            Event::AtSource { connection, number } => self.acknowledge(connection, number),
            Event::Timer { connection } => self.timer(connection),
        }
    }

    fn begin(&mut self, source: usize) {
        let Some(Source { access_delay, file_segments: (least, most), .. }) = self.sources.get(source) else {
            return;
        };
        let segments = self.random.u64(*least..=*most);
        let connection = Connection {
            source,
            access_delay: *access_delay,
            sender: PlainSender::new(segments, self.network.receiver_window),
            receiver: PlainReceiver::new(self.network.segments_per_ack),
            segments,
            begin: self.now,
            timer_set: false,
        };
        // Each file is a connection of its own: the buffer knows nothing of it yet.
        let id = self.next_connection;
        self.next_connection += 1;
        self.connections.insert(id, connection);
        self.send(id);
    }

    fn pause(&mut self, source: usize) {
        let longest = self.sources.get(source).map_or(Duration::ZERO, |source| source.longest_pause);
        let pause = longest.mul_f64(self.random.f64());
        self.at(self.now + pause, Event::Begin { source });
    }

    fn send(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let at_link = self.now + connection.access_delay;
        let segments: Vec<u64> = std::iter::from_fn(|| connection.sender.send(self.now)).collect();
        let deadline = connection.sender.deadline().filter(|_| !connection.timer_set);
        connection.timer_set |= deadline.is_some();
        self.sent_segments += segments.len() as u64;
        for segment in segments {
            self.at(at_link, Event::AtForwardLink { connection: id, segment });
        }
        if let Some(deadline) = deadline {
            self.at(deadline, Event::Timer { connection: id });
        }
    }

    fn receive(&mut self, id: u32, segment: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let waited = connection.receiver.deadline();
        if let Some(number) = connection.receiver.receive(segment, self.now) {
            self.queue(Ack { connection: id, number });
        } else if let Some(deadline) = connection.receiver.deadline().filter(|_| waited.is_none()) {
            self.at(deadline, Event::DelayedAck { connection: id });
        }
    }

    fn delayed_ack(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        // The ACK it was set for may have gone; a later one has an event of its own.
        if connection.receiver.deadline().is_some_and(|deadline| deadline <= self.now) {
            let number = connection.receiver.acknowledge();
            self.queue(Ack { connection: id, number });
        }
    }

    fn queue(&mut self, ack: Ack) {
        self.buffer.arrive(ack, self.now);
        self.start_channel();
    }

    fn start_channel(&mut self) {
        if self.channel_busy {
            return;
        }
        if let Some(Ack { connection, number }) = self.buffer.depart(self.now) {
            self.channel_busy = true;
            let free = self.now + seconds(self.network.ack_bytes / self.network.reverse_rate);
            self.at(free, Event::ChannelFree);
            let access = self.connections.get(&connection).map_or(Duration::ZERO, |c| c.access_delay);
            let arrival = free + self.network.base_rtt / 2 + access;
            self.at(arrival, Event::AtSource { connection, number });
        }
    }

    fn acknowledge(&mut self, id: u32, number: u64) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.sender.acknowledge(number, self.now);
        if !connection.sender.is_done() {
            self.send(id);
            return;
        }
        let Connection { source, segments, begin, .. } = *connection;
        self.connections.remove(&id);
        self.acked_before += segments;
        self.transfers.push(Transfer { source, segments, begin, end: self.now });
        self.pause(source);
    }

    /// One timer event of each connection is under way at a time; it moves on if the deadline has.
    fn timer(&mut self, id: u32) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.timer_set = false;
        match connection.sender.deadline() {
            Some(deadline) if deadline > self.now => {
                connection.timer_set = true;
                self.at(deadline, Event::Timer { connection: id });
            }
            Some(_) => {
                connection.sender.expire();
                self.send(id);
            }
            None => {}
        }
    }

    fn at(&mut self, at: Duration, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((at, self.event_number, event)));
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
