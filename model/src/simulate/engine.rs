//! The event loop: two queues, the flows' ends, and what is under way between them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::clock::Jiffies;
use super::congestion::Algorithm;
use super::handshake::{Handshake, HandshakeReply, SYN_FRAME_BYTES};
use super::packet::{
    ACK_FRAME_BYTES, Ack, Content, DATA_FRAME_BYTES, Data, Greeting, PAYLOAD_BYTES, Packet, SECOND, Stage,
    Time,
};
use super::queue::Queue;
use super::receiver::Receiver;
use super::record::Record;
use super::sender::{Sender, stamp};
use super::watch::Watch;
use super::{FlowLoad, Outcome, Run, SimulatedLink};
use crate::segment::{Direction, PerDirection};

/// What happens, to the flow of a number. Small, for the list of events is what a run spends most of its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Start(u32),
    Stop(u32),
    /// A frame of a handshake reaches an end, the one of this place in the list of them.
    Greeting(u32),
    /// The application hands over one more segment, or sends its next datagram.
    Offer(u32),
    /// A frame leaves a queue.
    Up,
    Down,
    /// A frame reaches an end.
    ToReceiver(u32),
    ToSender(u32),
    SenderTimer(u32),
    ReceiverTimer(u32),
}

/// Frames between a queue and one end of a flow; they stay in order.
#[derive(Debug)]
struct Path<T> {
    delay: Time,
    last: Time,
    under_way: VecDeque<T>,
}

impl<T> Path<T> {
    fn new(delay: Time) -> Self {
        Self { delay, last: 0, under_way: VecDeque::new() }
    }

    /// A frame sets out; returns when it arrives.
    fn push(&mut self, now: Time, what: T) -> Time {
        self.last = self.last.max(now + self.delay);
        self.under_way.push_back(what);
        self.last
    }
}

#[derive(Debug)]
struct ActiveFlow {
    direction: Direction,
    load: FlowLoad,
    /// Between two segments of an application, or two datagrams.
    interval: Time,
    stop: Time,
    handshake: Handshake,
    sender: Sender,
    receiver: Receiver,
    to_receiver: Path<Data>,
    to_sender: Path<Ack>,
    /// For when a timer of each end is in the list of events.
    sender_timer: Option<Time>,
    receiver_timer: Option<Time>,
}

pub(super) struct Engine<'a, W> {
    watch: &'a mut W,
    now: Time,
    /// Ties are resolved by the order of entry.
    events: BinaryHeap<Reverse<(Time, u64, Due)>>,
    entered: u64,
    queues: PerDirection<Queue>,
    flows: Vec<ActiveFlow>,
    /// The frames of handshakes that have left a queue, each with its flow.
    greetings: Vec<(u32, Greeting)>,
    record: Record,
    random: fastrand::Rng,
    jitter: Time,
}

impl<'a, W: Watch> Engine<'a, W> {
    pub(super) fn new(link: &SimulatedLink, run: &Run, seed: u64, watch: &'a mut W) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let queues = PerDirection::from_fn(|x| Queue::new(link, x, seed ^ x as u64));
        let mut events = BinaryHeap::new();
        let (mut flows, mut stops) = (Vec::new(), Vec::new());
        for spec in &link.flows {
            let number = flows.len() as u32;
            let delay = |seconds: f64| (seconds * SECOND as f64) as Time;
            let (at_receiver, at_sender) =
                (delay(spec.receiver_round_trip_s), delay(spec.sender_round_trip_s));
            let algorithm = Algorithm::new(spec.congestion_control, &mut random);
            let most = spec.most_segments.unwrap_or(u32::MAX).max(1);
            let mut sender = Sender::new(Jiffies::at(&mut random), algorithm, most, spec.paced);
            let interval = match spec.load {
                FlowLoad::Bulk => {
                    sender.offer(u32::MAX);
                    0
                }
                FlowLoad::Application(rate) => delay(f64::from(PAYLOAD_BYTES) / rate).max(1),
                FlowLoad::Datagrams(rate) => delay(f64::from(DATA_FRAME_BYTES) / rate).max(1),
            };
            let receiver = Receiver::new(Jiffies::at(&mut random), !spec.delayed_acks);
            let start = delay(spec.start_s) + random.u64(0..=delay(run.start_spread_s));
            events.push(Reverse((start, u64::from(number), Due::Start(number))));
            if spec.stop_s.is_finite() {
                stops.push((delay(spec.stop_s), Due::Stop(number)));
            }
            flows.push(ActiveFlow {
                direction: spec.direction,
                load: spec.load,
                interval,
                stop: delay(spec.stop_s),
                handshake: Handshake::new(spec.direction),
                sender,
                receiver,
                to_receiver: Path::new(at_receiver),
                to_sender: Path::new(at_sender),
                sender_timer: None,
                receiver_timer: None,
            });
        }
        let mut engine = Self {
            watch,
            now: 0,
            events,
            entered: flows.len() as u64,
            queues,
            flows,
            greetings: Vec::new(),
            record: Record::new(run, link),
            random,
            jitter: (run.jitter_s * SECOND as f64) as Time,
        };
        for (at, stop) in stops {
            engine.enter(at, stop);
        }
        engine
    }

    /// Runs until a moment and says what happened.
    pub(super) fn run(mut self, until: Time) -> Outcome {
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > until {
                break;
            }
            let queues = &mut self.queues;
            self.record.advance(at, |now| PerDirection::from_fn(|x| queues[x].read(now)));
            self.now = at;
            self.handle(event);
        }
        let queues = &mut self.queues;
        self.record.advance(until, |now| PerDirection::from_fn(|x| queues[x].read(now)));
        let sparse = queues.up.take_sparse();
        let dropped = PerDirection::from_fn(|x| queues[x].dropped());
        self.record.outcome(dropped, sparse)
    }

    fn enter(&mut self, at: Time, event: Due) {
        self.entered += 1;
        self.events.push(Reverse((at, self.entered, event)));
    }

    fn handle(&mut self, event: Due) {
        match event {
            Due::Start(number) => match self.flows[number as usize].load {
                FlowLoad::Bulk | FlowLoad::Application(_) => self.open(number),
                FlowLoad::Datagrams(_) => self.offer(number),
            },
            Due::Greeting(place) => {
                let (number, greeting) = self.greetings[place as usize];
                self.greeted(number, greeting);
            }
            Due::Stop(number) => self.flows[number as usize].sender.stop(),
            Due::Offer(number) => self.offer(number),
            Due::Up => self.depart(Direction::Up),
            Due::Down => self.depart(Direction::Down),
            Due::ToReceiver(number) => self.arrive(number),
            Due::ToSender(number) => {
                let flow = &mut self.flows[number as usize];
                if let Some(ack) = flow.to_sender.under_way.pop_front() {
                    flow.sender.acknowledged(self.now, &ack);
                    let round_trip = stamp(self.now).saturating_sub(ack.echo);
                    self.watch.acknowledged(self.now, number as usize, ack.next, f64::from(round_trip) / 1e3);
                    self.send(number);
                }
            }
            Due::SenderTimer(number) => {
                let flow = &mut self.flows[number as usize];
                if flow.sender_timer == Some(self.now) {
                    flow.sender_timer = None;
                }
                if flow.sender.deadline().is_some_and(|due| due <= self.now) {
                    flow.sender.expire(self.now);
                }
                self.send(number);
            }
            Due::ReceiverTimer(number) => {
                let flow = &mut self.flows[number as usize];
                if flow.receiver_timer == Some(self.now) {
                    flow.receiver_timer = None;
                }
                let ack = flow.receiver.expire(self.now);
                self.reply(number, ack);
            }
        }
    }

    /// A connection begins, or tries again.
    fn open(&mut self, number: u32) {
        if let Some((syn, again)) = self.flows[number as usize].handshake.open(self.now) {
            self.enter(again, Due::Start(number));
            self.greet(number, syn);
        }
    }

    fn greet(&mut self, number: u32, greeting: Greeting) {
        let bytes = if greeting.stage == Stage::Ack { ACK_FRAME_BYTES } else { SYN_FRAME_BYTES };
        let packet = Packet { flow: number, bytes, content: Content::Greeting(greeting) };
        self.push(greeting.stage.direction(), packet);
    }

    fn greeted(&mut self, number: u32, greeting: Greeting) {
        let flow = &mut self.flows[number as usize];
        match flow.handshake.arrive(self.now, greeting) {
            None => {}
            Some(HandshakeReply::Send(next)) => self.greet(number, next),
            Some(HandshakeReply::Begin(round_trip)) => {
                flow.receiver.connected(flow.handshake.receiver_round_trip(round_trip));
                flow.sender.connected(self.now, round_trip);
                if flow.load == FlowLoad::Bulk {
                    flow.sender.start(self.now);
                    self.send(number);
                } else {
                    self.offer(number);
                }
            }
        }
    }

    /// A frame leaves a queue.
    fn depart(&mut self, direction: Direction) {
        let Some((packet, next)) = self.queues[direction].pop(self.now) else { return };
        if let Some(at) = next {
            self.enter_departure(at, direction);
        }
        self.watch.left(self.now, direction, &packet);
        self.record.sent(self.now, direction, packet.bytes);
        let start = self.now + self.random.u64(0..=self.jitter);
        let flow = &mut self.flows[packet.flow as usize];
        let (at, event) = match packet.content {
            Content::Data(data) => (flow.to_receiver.push(start, data), Due::ToReceiver(packet.flow)),
            Content::Ack(ack) => (flow.to_sender.push(start, ack), Due::ToSender(packet.flow)),
            Content::Greeting(greeting) => {
                let is_ahead = flow.direction == direction;
                let delay = if is_ahead { flow.to_receiver.delay } else { flow.to_sender.delay };
                self.greetings.push((packet.flow, greeting));
                (start + delay, Due::Greeting(self.greetings.len() as u32 - 1))
            }
            Content::Datagram => return,
        };
        self.enter(at, event);
    }

    fn enter_departure(&mut self, at: Time, direction: Direction) {
        self.enter(at, if direction == Direction::Up { Due::Up } else { Due::Down });
    }

    fn arrive(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let Some(data) = flow.to_receiver.under_way.pop_front() else { return };
        let (ack, fresh) = flow.receiver.arrive(self.now, data);
        if fresh {
            self.record.delivered(self.now, flow.direction);
        }
        self.reply(number, ack);
    }

    /// Puts an acknowledgement into the other direction's queue, and keeps the receiver's timer.
    fn reply(&mut self, number: u32, ack: Option<Ack>) {
        let flow = &mut self.flows[number as usize];
        let back = flow.direction.opposite();
        if let Some(due) = flow.receiver.deadline()
            && flow.receiver_timer.is_none_or(|entered| due < entered)
        {
            flow.receiver_timer = Some(due);
            self.enter(due.max(self.now), Due::ReceiverTimer(number));
        }
        if let Some(ack) = ack {
            self.push(back, Packet { flow: number, bytes: ack.frame_bytes(), content: Content::Ack(ack) });
        }
    }

    /// Puts what a sender has to send into its direction's queue, and keeps the sender's timer.
    fn send(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        let direction = flow.direction;
        let mut due = None;
        for data in flow.sender.outgoing() {
            let packet = Packet { flow: number, bytes: DATA_FRAME_BYTES, content: Content::Data(data) };
            due = due.or(put(self.watch, &mut self.queues, self.now, direction, packet));
        }
        let timer =
            flow.sender.deadline().filter(|due| flow.sender_timer.is_none_or(|entered| *due < entered));
        if let Some(at) = timer {
            flow.sender_timer = Some(at);
            self.enter(at.max(self.now), Due::SenderTimer(number));
        }
        if let Some(at) = due {
            self.enter_departure(at, direction);
        }
    }

    fn push(&mut self, direction: Direction, packet: Packet) {
        if let Some(at) = put(self.watch, &mut self.queues, self.now, direction, packet) {
            self.enter_departure(at, direction);
        }
    }

    /// One segment or datagram more, and when the next one is due.
    fn offer(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        if self.now >= flow.stop {
            return;
        }
        let (direction, next) = (flow.direction, self.now + flow.interval);
        if let FlowLoad::Datagrams(_) = flow.load {
            let packet = Packet { flow: number, bytes: DATA_FRAME_BYTES, content: Content::Datagram };
            self.push(direction, packet);
        } else {
            flow.sender.offer(1);
            flow.sender.start(self.now);
            self.send(number);
        }
        self.enter(next, Due::Offer(number));
    }
}

/// Puts a frame into a queue; when its link was idle: the moment at which the frame leaves.
fn put<W: Watch>(
    watch: &mut W,
    queues: &mut PerDirection<Queue>,
    now: Time,
    direction: Direction,
    packet: Packet,
) -> Option<Time> {
    let (is_taken, due) = queues[direction].push(now, packet);
    watch.reached(now, direction, &packet, is_taken);
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_on_a_path_stay_in_order() {
        let mut path = Path::new(10);
        assert_eq!([path.push(5, 'a'), path.push(3, 'b'), path.push(6, 'c')], [15, 15, 16]);
        assert_eq!(path.under_way, ['a', 'b', 'c']);
    }
}
