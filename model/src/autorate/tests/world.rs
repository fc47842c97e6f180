//! The controller with TCP around it: connections whose windows grow and fall, a queue of ours with a share and a CoDel for each, and a
//! hidden drop-tail buffer that is served by opportunities. Time goes on by steps of a quarter of a millisecond.

use std::collections::VecDeque;

use super::tcp::{Codel, Congestion, Flow, Packet};
use crate::autorate::{Bounds, Controller, Own};
use crate::segment::Direction;

/// Bytes of a packet.
pub(super) const PACKET: f64 = 1514.0;
/// Seconds.
const STEP: f64 = 0.000_25;
const TICK: f64 = 0.1;
/// One way.
const PROPAGATION: f64 = 0.02;
/// What is measured begins then.
const SETTLED: f64 = 5.0;
/// Bytes per second at a time.
pub(super) type Rates<'a> = &'a dyn Fn(f64) -> f64;

/// What is on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) congestion: Congestion,
    /// Long connections.
    pub(super) long: usize,
    /// A burst of so many packets each four seconds; 0: none.
    pub(super) burst: usize,
    pub(super) late: Late,
}

/// From the tenth second on answers look later than they are: by seconds between these two, so many times a second up and down.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Late {
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) turns: f64,
}

impl Late {
    fn at(self, now: f64) -> f64 {
        let swing = 0.5 + 0.5 * (std::f64::consts::TAU * self.turns * now).sin();
        if now > 2.0 * SETTLED { self.least + (self.most - self.least) * swing } else { 0.0 }
    }
}

/// Numbers by chance, 0 to 1, by seed.
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

/// What one run showed.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Bytes that the link gave and carried since [`SETTLED`].
    given: f64,
    carried: f64,
    /// What a ping would have waited in the hidden buffer, each 50 ms; seconds.
    waits: Vec<f64>,
    /// Each decision: when, and the rate.
    told: Vec<(f64, f64)>,
}

impl Outcome {
    pub(super) fn used(&self) -> f64 {
        self.carried / self.given.max(1.0)
    }

    /// Mean and coefficient of variation of the rate, since twice [`SETTLED`].
    pub(super) fn rate(&self) -> (f64, f64) {
        let rates: Vec<f64> = self.told.iter().filter(|it| it.0 >= 2.0 * SETTLED).map(|it| it.1).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    pub(super) fn wait_p95(&self) -> f64 {
        let mut waits = self.waits.clone();
        waits.sort_by(f64::total_cmp);
        waits.get(waits.len() * 95 / 100).copied().unwrap_or(0.0)
    }
}

/// The link, its senders and the shaper.
struct World<'a> {
    direction: Direction,
    controller: Controller,
    /// Rates that are told, bytes per second at a time, in place of the controller's.
    told: Option<Rates<'a>>,
    late: Late,
    flows: Vec<Flow>,
    own: Vec<Codel>,
    turn: usize,
    hidden: VecDeque<Packet>,
    buffer: usize,
    given: f64,
    shaper: f64,
    now: f64,
    /// What happens later, by kind; each in the order of time.
    arriving: VecDeque<(f64, Packet)>,
    acks: VecDeque<(f64, Packet)>,
    answers: VecDeque<(f64, usize, f64, f64)>,
    losses: VecDeque<(f64, Packet)>,
    asked: u64,
    own_most: f64,
    chance: Chance,
    capacity: Rates<'a>,
    outcome: Outcome,
}

/// `capacity`: bytes per second at a time; the hidden buffer holds a second of `mean`. With `told` the rate is that.
pub(super) fn run(
    direction: Direction,
    traffic: Traffic,
    seconds: f64,
    mean: f64,
    told: Option<Rates>,
    capacity: Rates,
) -> Outcome {
    let bounds = Bounds { least: 8_000.0, most: 1.25e9 };
    let mut world = World {
        direction,
        controller: Controller::new(direction, bounds, 125e6),
        told,
        late: traffic.late,
        flows: Vec::new(),
        own: Vec::new(),
        turn: 0,
        hidden: VecDeque::new(),
        buffer: ((mean / PACKET) as usize).max(20),
        given: 0.0,
        shaper: 0.0,
        now: 0.0,
        arriving: VecDeque::new(),
        acks: VecDeque::new(),
        answers: VecDeque::new(),
        losses: VecDeque::new(),
        asked: 0,
        own_most: 0.0,
        chance: Chance(7),
        capacity,
        outcome: Outcome::default(),
    };
    for _ in 0..traffic.long {
        world.connect(traffic.congestion, None);
    }
    let steps = (seconds / STEP) as u64;
    let each = |period: f64| (period / STEP) as u64;
    for step in 0..steps {
        world.now = step as f64 * STEP;
        if traffic.burst > 0 && step % each(4.0) == 0 {
            world.connect(traffic.congestion, Some(traffic.burst));
        }
        world.step();
        if step % each(0.05) == 0 && world.now >= SETTLED {
            world.ping();
        }
        if step % each(TICK) == 0 {
            world.decide();
        }
    }
    world.outcome
}

impl World<'_> {
    fn connect(&mut self, congestion: Congestion, left: Option<usize>) {
        self.flows.push(Flow::new(congestion, left, self.now));
        self.own.push(Codel::default());
    }

    fn step(&mut self) {
        let now = self.now;
        while let Some((_, packet)) = self.acks.pop_front_if(|it| it.0 <= now) {
            self.flows[packet.flow].acknowledged(now, now - packet.sent, 2.0 * PROPAGATION);
        }
        while let Some((_, packet)) = self.losses.pop_front_if(|it| it.0 <= now) {
            self.flows[packet.flow].lost(now, packet.sent);
        }
        for flow in 0..self.flows.len() {
            self.flows[flow].time_out(now);
            while self.flows[flow].sends() {
                let packet = Packet { flow, sent: now, entered: now };
                match self.direction {
                    Direction::Up => self.own[flow].packets.push_back(packet),
                    Direction::Down => self.arriving.push_back((now + PROPAGATION, packet)),
                }
            }
        }
        if self.direction == Direction::Down {
            while let Some((_, packet)) = self.arriving.pop_front_if(|it| it.0 <= now) {
                self.enter(packet);
            }
        }
        self.serve();
        self.shape();
    }

    /// A packet comes to the hidden buffer.
    fn enter(&mut self, packet: Packet) {
        if self.hidden.len() >= self.buffer {
            // Those before it, a second of them, come first.
            self.losses.push_back((self.now + 2.0 * PROPAGATION + 1.0, packet));
            return;
        }
        self.hidden.push_back(Packet { entered: self.now, ..packet });
    }

    /// The link's opportunities.
    fn serve(&mut self) {
        let bytes = (self.capacity)(self.now) * STEP;
        self.given += bytes;
        let counts = self.now >= SETTLED;
        self.outcome.given += if counts { bytes } else { 0.0 };
        while self.given >= PACKET {
            self.given -= PACKET;
            let Some(packet) = self.hidden.pop_front() else { continue };
            self.outcome.carried += if counts { PACKET } else { 0.0 };
            let wait = self.now - packet.entered;
            match self.direction {
                Direction::Up => {
                    let noise = 0.003 * self.chance.next();
                    let looks = self.late.at(self.now);
                    let back = self.now + 2.0 * PROPAGATION + noise;
                    self.acks.push_back((back, packet));
                    self.answers.push_back((back, packet.flow, packet.entered, wait + noise + looks));
                }
                Direction::Down => {
                    let at_ns = (self.now * 1e9) as u64;
                    self.controller.pass(at_ns, PACKET as u32);
                    let wait = wait + 0.001 * self.chance.next();
                    self.controller.waited(packet.flow as u64, at_ns, wait, false);
                    self.own[packet.flow].packets.push_back(Packet { entered: self.now, ..packet });
                }
            }
        }
    }

    /// Our own shaper.
    fn shape(&mut self) {
        let rate = self.told.map_or(self.controller.rate(), |told| told(self.now));
        let stands = self.own.iter().map(|own| own.packets.len()).sum::<usize>() as f64 * PACKET;
        self.own_most = self.own_most.max(stands);
        self.shaper = (self.shaper + rate * STEP).min(PACKET.max(rate * STEP));
        let mut dropped = Vec::new();
        while self.shaper >= 0.0 {
            let Some(flow) = (0..self.own.len())
                .map(|step| (self.turn + step) % self.own.len())
                .find(|flow| !self.own[*flow].packets.is_empty())
            else {
                break;
            };
            self.turn = flow + 1;
            let before = dropped.len();
            let taken = self.own[flow].take(self.now, &mut dropped);
            if self.direction == Direction::Down {
                // `ingress`: what is dropped has passed the link, too.
                self.shaper -= PACKET * (dropped.len() - before) as f64;
            }
            let Some(packet) = taken else { continue };
            self.shaper -= PACKET;
            match self.direction {
                Direction::Up => {
                    self.controller.pass((self.now * 1e9) as u64, PACKET as u32);
                    self.asked += 1;
                    self.enter(packet);
                }
                Direction::Down => self.acks.push_back((self.now + PROPAGATION, packet)),
            }
        }
        for packet in dropped {
            let back = if self.direction == Direction::Up { 2.0 * PROPAGATION } else { PROPAGATION };
            self.losses.push_back((self.now + back, packet));
        }
    }

    /// What a ping that enters now would wait, beyond the next opportunity.
    fn ping(&mut self) {
        let mut left = (self.hidden.len() as f64 + 1.0) * PACKET - self.given;
        let (mut at, mut first) = (self.now, None);
        let mut next = PACKET - self.given;
        while left > 0.0 && at < self.now + 5.0 {
            at += STEP;
            let bytes = (self.capacity)(at) * STEP;
            (left, next) = (left - bytes, next - bytes);
            if next <= 0.0 && first.is_none() {
                first = Some(at);
            }
        }
        self.outcome.waits.push(at - first.unwrap_or(at));
    }

    fn decide(&mut self) {
        let now = self.now;
        while let Some((_, flow, passed, wait)) = self.answers.pop_front_if(|it| it.0 <= now) {
            self.controller.waited(flow as u64 % 3, (passed * 1e9) as u64, wait, false);
        }
        let own = Own {
            bytes: std::mem::take(&mut self.own_most),
            lost: 0.0,
            asked: std::mem::take(&mut self.asked),
            back: 0.0,
        };
        self.controller.decide((now * 1e9) as u64, own);
        self.outcome.told.push((now, self.controller.rate()));
    }
}
