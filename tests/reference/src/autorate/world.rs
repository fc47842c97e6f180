//! One direction of a link with TCP around it: connections whose windows grow and fall, a queue of the gateway's with a share and a CoDel for
//! each, and a hidden buffer that is served by opportunities. Time advances by steps of a quarter of a millisecond.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use pendulum_model::autorate::{Bounds, Controller, FIRST_HOP, Need, Own, Priority};
use pendulum_model::segment::{Direction, PerDirection};

use super::law::{self, Law};
use super::tcp::{Codel, Congestion, Flow, Packet};

/// Bytes of a packet.
pub const PACKET: f64 = 1514.0;
/// Seconds.
const STEP: f64 = 0.000_25;
const TICK: f64 = 0.1;
/// One way.
pub const PROPAGATION: f64 = 0.02;
/// Measurements start then.
pub const SETTLED: f64 = 5.0;
/// A far bottleneck's buffer, seconds.
const FAR_BUFFER: f64 = 0.5;
/// Where nothing is known, bytes per second.
const START: f64 = 125e6;
/// Between two of the law's probes, and of the pings that measure, seconds.
const PROBE_INTERVAL: f64 = 0.05;
/// Between two connections that are no TCP, seconds.
pub const HANDSHAKE: f64 = 2.0;
/// Between two questions to the first hop, seconds.
const FIRST_HOP_INTERVAL: f64 = 0.25;
/// The flow number of a probe, of a handshake, and of a question to the first hop: none takes room.
const PROBE: usize = usize::MAX;
/// Bytes per second at a time.
pub type Rates<'a> = &'a dyn Fn(f64) -> f64;

/// A connection.
#[derive(Clone, Copy, Debug)]
pub struct WorldConnection {
    /// Its congestion control.
    pub congestion: Congestion,
    /// Packets to send; `None`: until it stops.
    pub packets: Option<usize>,
    /// When it starts and stops, seconds.
    pub from: f64,
    /// When it stops.
    pub until: f64,
    /// Its host outside.
    pub host: usize,
}

impl WorldConnection {
    /// Starts at once, never stops.
    pub fn long(congestion: Congestion, host: usize) -> Self {
        Self { congestion, packets: None, from: 0.0, until: f64::MAX, host }
    }
}

/// A host outside.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// What of its packets says how long they waited.
    pub says: Says,
    /// A bottleneck between it and the link, bytes per second.
    pub far: Option<f64>,
}

/// What a host's packets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// TCP with timestamps: both waits.
    Both,
    /// TCP without: the uplink's wait, by its ACKs.
    Acks,
    /// QUIC, or a VPN.
    Nothing,
}

/// A host that answers and has no bottleneck of its own.
pub const NEAR: Remote = Remote { says: Says::Both, far: None };

/// A link and what is on it.
pub struct Setting<'a> {
    /// Which direction is shaped.
    pub direction: Direction,
    /// Bytes per second at a time.
    pub capacity: Rates<'a>,
    /// Of the hidden buffer, bytes.
    pub buffer: f64,
    /// Whether a full buffer drops its oldest packet.
    pub drops_at_head: bool,
    /// From the tenth second on replies look later by so many seconds at a time.
    pub late: Rates<'a>,
    /// All connections.
    pub sources: Vec<WorldConnection>,
    /// All hosts outside.
    pub remotes: Vec<Remote>,
    /// Whether a connection that is no TCP starts each [`HANDSHAKE`] seconds, to a host of its own whose reply tells how long the first packet took.
    pub handshakes: bool,
    /// Whether the first hop is asked while the controller wants that.
    pub first_hop: bool,
    /// How long it runs.
    pub seconds: f64,
}

/// Sets the rate of the gateway's queue.
pub enum Shaper<'a> {
    /// Pendulum's controller.
    Ours(Box<Controller>),
    /// A rate at a time, bytes per second.
    Given(Rates<'a>),
    /// cake-autorate's law.
    Law(Box<Law>),
}

impl Shaper<'_> {
    /// Pendulum's controller; `known`: the link's rate, bytes per second.
    pub fn ours(direction: Direction, known: Option<f64>, priority: Priority) -> Self {
        let bounds = Bounds { least: 8_000.0, most: 1.25e9 };
        let controller = Controller::new(direction, bounds, START).with_priority(priority);
        Self::Ours(Box::new(match known {
            Some(rate) => controller.with_rate(rate),
            None => controller,
        }))
    }

    /// The law with these bounds, bit/s, and parameters.
    pub fn law(bounds: law::RateBounds, tuning: law::Tuning) -> Self {
        Self::Law(Box::new(Law::new(PerDirection { up: bounds, down: bounds }).tuned(tuning)))
    }
}

/// What one run showed.
#[derive(Debug, Default)]
pub struct Outcome {
    given: f64,
    carried: f64,
    waits: Vec<f64>,
    /// Each decision: when, the rate, and bytes that the link carried since the one before.
    pub ticks: Vec<(f64, f64, f64)>,
}

impl Outcome {
    /// Share of what the link gave that was used, since [`SETTLED`].
    pub fn used(&self) -> f64 {
        self.carried / self.given.max(1.0)
    }

    /// The 95th percentile of what a ping would have waited in the hidden buffer beyond the next opportunity, seconds.
    pub fn wait_p95(&self) -> f64 {
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        waits.get(waits.len() * 95 / 100).copied().unwrap_or(0.0)
    }

    /// Least, mean and greatest rate within a stretch of time, bytes per second.
    pub fn rate(&self, from: f64, to: f64) -> (f64, f64, f64) {
        let rates: Vec<f64> =
            self.ticks.iter().filter(|it| (from..to).contains(&it.0)).map(|it| it.1).collect();
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        (least, rates.iter().sum::<f64>() / rates.len().max(1) as f64, most)
    }

    /// What the link carried within a stretch of time, bytes per second.
    pub fn throughput(&self, from: f64, to: f64) -> f64 {
        let bytes: f64 = self.ticks.iter().filter(|it| (from..to).contains(&it.0)).map(|it| it.2).sum();
        bytes / (to - from)
    }
}

/// What takes no room.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ProbePacket {
    /// The law's probe, or a handshake's first packet, by number.
    Numbered(usize),
    FirstHop,
}

#[derive(Clone, Copy, Debug)]
enum WorldEvent {
    Arrives(Packet),
    Acknowledged(Packet, f64),
    Lost(Packet),
    Reply(ProbePacket, f64),
}

struct World<'a, 'b> {
    setting: &'b Setting<'a>,
    shaper: Shaper<'a>,
    flows: Vec<Flow>,
    own: Vec<Codel>,
    /// When each host's far bottleneck is free again.
    far_free: Vec<f64>,
    turn: usize,
    hidden: VecDeque<Packet>,
    hidden_bytes: f64,
    given: f64,
    credit: f64,
    now: f64,
    events: BTreeMap<u64, WorldEvent>,
    order: BinaryHeap<Reverse<(u64, u64)>>,
    number: u64,
    asked: u64,
    replied: bool,
    own_most: f64,
    passed: f64,
    tick_carried: f64,
    random: u64,
    outcome: Outcome,
}

/// Runs it.
pub fn run<'a>(setting: &Setting<'a>, shaper: Shaper<'a>) -> Outcome {
    let flows = setting.sources.iter().map(|it| Flow::new(it.congestion, it.packets, it.from)).collect();
    let mut world = World {
        setting,
        shaper,
        flows,
        own: setting.sources.iter().map(|_| Codel::default()).collect(),
        far_free: vec![0.0; setting.remotes.len()],
        turn: 0,
        hidden: VecDeque::new(),
        hidden_bytes: 0.0,
        given: 0.0,
        credit: 0.0,
        now: 0.0,
        events: BTreeMap::new(),
        order: BinaryHeap::new(),
        number: 0,
        asked: 0,
        replied: false,
        own_most: 0.0,
        passed: 0.0,
        tick_carried: 0.0,
        random: 7,
        outcome: Outcome::default(),
    };
    let each = |period: f64| (period / STEP) as u64;
    let mut next_load = 0.0;
    for step in 0..each(setting.seconds) {
        world.now = step as f64 * STEP;
        world.step();
        if step % each(PROBE_INTERVAL) == 0 {
            world.probe((step / each(PROBE_INTERVAL)) as usize);
            if world.now >= SETTLED {
                world.ping();
            }
        }
        if world.now >= next_load {
            next_load = world.now + world.load();
        }
        if step % each(TICK) == 0 {
            world.decide();
        }
    }
    world.outcome
}

impl World<'_, '_> {
    fn chance(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / (1u64 << 31) as f64
    }

    fn at(&mut self, at: f64, event: WorldEvent) {
        self.number += 1;
        self.events.insert(self.number, event);
        self.order.push(Reverse(((at * 1e9) as u64, self.number)));
    }

    fn host(&self, packet: Packet) -> usize {
        self.setting.sources[packet.flow].host
    }

    fn step(&mut self) {
        let now_ns = (self.now * 1e9) as u64;
        while self.order.peek().is_some_and(|it| it.0.0 <= now_ns) {
            let Some(Reverse((_, number))) = self.order.pop() else { break };
            let Some(event) = self.events.remove(&number) else { continue };
            self.happen(event);
        }
        for flow in 0..self.flows.len() {
            let source = self.setting.sources[flow];
            if self.now < source.from || self.now > source.until || !self.flows[flow].is_active() {
                continue;
            }
            self.flows[flow].time_out(self.now);
            while self.flows[flow].sends(self.now) {
                self.send(Packet { flow, sent: self.now, entered: self.now, waited: 0.0 });
            }
        }
        self.serve();
        self.shape();
    }

    fn send(&mut self, packet: Packet) {
        match self.setting.direction {
            Direction::Up => self.own[packet.flow].packets.push_back(packet),
            Direction::Down => {
                if let Some((at, waited)) = self.pass_far(packet) {
                    self.at(at + PROPAGATION, WorldEvent::Arrives(Packet { waited, ..packet }));
                }
            }
        }
    }

    /// When a packet leaves the far bottleneck, and how long it waits there; `None` if it is dropped.
    fn pass_far(&mut self, packet: Packet) -> Option<(f64, f64)> {
        let host = self.host(packet);
        let Some(rate) = self.setting.remotes[host].far else { return Some((self.now, 0.0)) };
        let waited = (self.far_free[host] - self.now).max(0.0);
        if waited > FAR_BUFFER {
            self.at(self.now + 2.0 * PROPAGATION + FAR_BUFFER, WorldEvent::Lost(packet));
            return None;
        }
        self.far_free[host] = self.now + waited + PACKET / rate;
        Some((self.far_free[host], waited))
    }

    fn happen(&mut self, event: WorldEvent) {
        let now = self.now;
        match event {
            WorldEvent::Arrives(packet) => self.enter(packet),
            WorldEvent::Lost(packet) => {
                self.replied = true;
                self.flows[packet.flow].lost(now, packet.sent);
            }
            WorldEvent::Reply(probe, asked) => match (&mut self.shaper, probe) {
                (Shaper::Law(law), ProbePacket::Numbered(number)) => law.reply(
                    Duration::from_secs_f64(now),
                    number % law::PINGERS,
                    Duration::from_secs_f64((now - asked).max(0.0)),
                ),
                (Shaper::Ours(controller), _) if self.setting.direction == Direction::Up => {
                    let host = match probe {
                        ProbePacket::Numbered(number) => (self.setting.remotes.len() + number) as u64,
                        ProbePacket::FirstHop => FIRST_HOP,
                    };
                    let wait = now - asked - 2.0 * PROPAGATION;
                    controller.waited(host, (asked * 1e9) as u64, wait.max(0.0), false);
                }
                _ => {}
            },
            WorldEvent::Acknowledged(packet, wait) => {
                self.replied = true;
                self.flows[packet.flow].acknowledged(now, now - packet.sent, 2.0 * PROPAGATION);
                let host = self.host(packet);
                if self.setting.direction == Direction::Up
                    && self.setting.remotes[host].says != Says::Nothing
                    && self.flows[packet.flow].tells(packet.sent)
                    && let Shaper::Ours(controller) = &mut self.shaper
                {
                    controller.waited(host as u64, (packet.entered * 1e9) as u64, wait, false);
                }
            }
        }
    }

    /// A packet comes to the hidden buffer.
    fn enter(&mut self, packet: Packet) {
        let mut dropped = (self.hidden_bytes + PACKET > self.setting.buffer).then_some(packet);
        if dropped.is_some() && self.setting.drops_at_head {
            dropped =
                self.hidden.iter().position(|it| it.flow != PROBE).and_then(|it| self.hidden.remove(it));
            self.hidden_bytes -= PACKET;
        }
        if dropped.is_none() || self.setting.drops_at_head {
            self.hidden.push_back(Packet { entered: self.now, ..packet });
            self.hidden_bytes += PACKET;
        }
        if let Some(dropped) = dropped {
            // At the tail, those ahead of it come first: a second of them.
            let later = if self.setting.drops_at_head { 0.0 } else { 1.0 };
            self.at(self.now + 2.0 * PROPAGATION + later, WorldEvent::Lost(dropped));
        }
    }

    /// The link's opportunities.
    fn serve(&mut self) {
        let bytes = (self.setting.capacity)(self.now) * STEP;
        self.given += bytes;
        let counts = self.now >= SETTLED;
        self.outcome.given += if counts { bytes } else { 0.0 };
        loop {
            while let Some(probe) = self.hidden.front().copied().filter(|it| it.flow == PROBE) {
                self.hidden.pop_front();
                let kind = if probe.sent < 0.0 {
                    ProbePacket::FirstHop
                } else {
                    ProbePacket::Numbered(probe.sent as usize)
                };
                if kind == ProbePacket::FirstHop
                    && self.setting.direction == Direction::Down
                    && let Shaper::Ours(controller) = &mut self.shaper
                {
                    let wait = self.now - probe.entered;
                    controller.waited(FIRST_HOP, (self.now * 1e9) as u64, wait, false);
                }
                self.at(self.now + 2.0 * PROPAGATION, WorldEvent::Reply(kind, probe.entered));
            }
            if self.given < PACKET {
                return;
            }
            self.given -= PACKET;
            let Some(packet) = self.hidden.pop_front() else { continue };
            self.hidden_bytes -= PACKET;
            self.outcome.carried += if counts { PACKET } else { 0.0 };
            self.tick_carried += PACKET;
            self.leave(packet);
        }
    }

    fn leave(&mut self, packet: Packet) {
        let wait = self.now - packet.entered;
        let late = if self.now > 2.0 * SETTLED { (self.setting.late)(self.now) } else { 0.0 };
        match self.setting.direction {
            Direction::Up => {
                let noise = 0.003 * self.chance();
                let Some((left, waited)) = self.pass_far(packet) else { return };
                let back = left + 2.0 * PROPAGATION + noise;
                self.at(back, WorldEvent::Acknowledged(packet, wait + waited + noise + late));
            }
            Direction::Down => {
                let at_ns = (self.now * 1e9) as u64;
                self.passed += PACKET;
                let (host, noise) = (self.host(packet), 0.001 * self.chance());
                if let Shaper::Ours(controller) = &mut self.shaper {
                    controller.pass(at_ns, PACKET as u32);
                    if self.setting.remotes[host].says == Says::Both {
                        controller.waited(host as u64, at_ns, wait + packet.waited + noise + late, false);
                    }
                }
                self.own[packet.flow].packets.push_back(Packet { entered: self.now, ..packet });
            }
        }
    }

    fn shaped(&self) -> f64 {
        match &self.shaper {
            Shaper::Ours(controller) => controller.rate(),
            Shaper::Given(rate) => rate(self.now),
            Shaper::Law(law) => law.rates().up / 8.0,
        }
    }

    /// The gateway's own queue.
    fn shape(&mut self) {
        let rate = self.shaped();
        let stands = self.own.iter().map(|own| own.packets.len()).sum::<usize>() as f64 * PACKET;
        self.own_most = self.own_most.max(stands);
        self.credit = (self.credit + rate * STEP).min(PACKET.max(rate * STEP));
        let mut dropped = Vec::new();
        while self.credit >= 0.0 {
            let Some(flow) = (0..self.own.len())
                .map(|step| (self.turn + step) % self.own.len())
                .find(|flow| !self.own[*flow].packets.is_empty())
            else {
                break;
            };
            self.turn = flow + 1;
            let before = dropped.len();
            let taken = self.own[flow].take(self.now, PACKET / rate, &mut dropped);
            if self.setting.direction == Direction::Down {
                // `ingress`: what is dropped has passed the link, too.
                self.credit -= PACKET * (dropped.len() - before) as f64;
            }
            let Some(packet) = taken else { continue };
            self.credit -= PACKET;
            match self.setting.direction {
                Direction::Up => {
                    self.passed += PACKET;
                    if let Shaper::Ours(controller) = &mut self.shaper {
                        controller.pass((self.now * 1e9) as u64, PACKET as u32);
                    }
                    self.asked += u64::from(self.setting.remotes[self.host(packet)].says != Says::Nothing);
                    self.enter(packet);
                }
                Direction::Down => {
                    self.at(self.now + PROPAGATION, WorldEvent::Acknowledged(packet, 0.0));
                }
            }
        }
        for packet in dropped {
            let back = if self.setting.direction == Direction::Up { 2.0 * PROPAGATION } else { PROPAGATION };
            self.at(self.now + back, WorldEvent::Lost(packet));
        }
    }

    /// A packet that takes no room: the law's probes by number, 20 a second, the first one of a handshake, or a question to the first hop.
    fn probe(&mut self, number: usize) {
        let is_handshake =
            self.setting.handshakes && number.is_multiple_of((HANDSHAKE / PROBE_INTERVAL) as usize);
        let asks = self.setting.first_hop
            && number.is_multiple_of((FIRST_HOP_INTERVAL / PROBE_INTERVAL) as usize)
            && matches!(&self.shaper, Shaper::Ours(controller) if controller.need() == Need::FirstHop);
        let numbered = matches!(self.shaper, Shaper::Law(_)) || is_handshake;
        for sent in [numbered.then_some(number as f64), asks.then_some(-1.0)].into_iter().flatten() {
            self.hidden.push_back(Packet { flow: PROBE, sent, entered: self.now, waited: 0.0 });
        }
    }

    /// The law reads the load; returns when it does so next.
    fn load(&mut self) -> f64 {
        let Shaper::Law(law) = &mut self.shaper else { return f64::MAX };
        let interval = law.load_interval().as_secs_f64();
        let passed = std::mem::take(&mut self.passed) * 8.0 / interval;
        law.load(PerDirection { up: passed, down: passed });
        interval
    }

    /// What a ping that enters now would wait, beyond the next opportunity.
    fn ping(&mut self) {
        let mut left = self.hidden_bytes + PACKET - self.given;
        let (mut at, mut first) = (self.now, None);
        let mut next = PACKET - self.given;
        while left > 0.0 && at < self.now + 5.0 {
            at += STEP;
            let bytes = (self.setting.capacity)(at) * STEP;
            (left, next) = (left - bytes, next - bytes);
            if next <= 0.0 && first.is_none() {
                first = Some(at);
            }
        }
        self.outcome.waits.push(at - first.unwrap_or(at));
    }

    fn decide(&mut self) {
        let own = Own {
            bytes: std::mem::take(&mut self.own_most),
            lost: 0.0,
            asked: std::mem::take(&mut self.asked),
            replied: std::mem::take(&mut self.replied),
            spin_bytes: 0.0,
            spin_replied: false,
        };
        if let Shaper::Ours(controller) = &mut self.shaper {
            controller.decide((self.now * 1e9) as u64, own);
        }
        self.outcome.ticks.push((self.now, self.shaped(), std::mem::take(&mut self.tick_carried)));
    }
}
