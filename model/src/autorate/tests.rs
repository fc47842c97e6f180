//! The controller in a closed loop: packets of our queue enter a hidden drop-tail buffer, answers come a round trip later, with noise.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const TICK_NS: u64 = 100_000_000;

/// The hidden link: what it carries at a time, bytes per second; the rest of the loop.
struct Loop {
    controller: Controller,
    now: f64,
    next_tick: f64,
    /// When the hidden buffer has served everything in it.
    free: f64,
    round_trip: f64,
    /// The controller's idea of the round trip without queues is the first one.
    first_round_trip: f64,
    buffer: f64,
    noise: f64,
    random: u64,
    /// When each comes: its end, what it is about, the wait, and whether it may have been held back.
    answers: BTreeMap<u64, Vec<(u64, u64, f64, bool)>>,
    lost: VecDeque<(f64, f64)>,
    hosts: f64,
    /// When packets were sent that are not counted yet, and how much later they are counted than they pass, seconds.
    sent: VecDeque<f64>,
    counted_late: f64,
    /// Each tick: time, rate, wait in the hidden buffer, decision.
    told: Vec<(f64, f64, f64, Decision)>,
}

impl Loop {
    fn new(start: f64, round_trip: f64) -> Self {
        let bounds = Bounds { least: 8_000.0, most: 1.25e9 };
        Self {
            controller: Controller::new(Direction::Up, bounds, start),
            now: 0.0,
            next_tick: 0.0,
            free: 0.0,
            round_trip,
            first_round_trip: round_trip,
            buffer: 0.5,
            noise: 0.003,
            random: 1,
            answers: BTreeMap::new(),
            lost: VecDeque::new(),
            hosts: 3.0,
            sent: VecDeque::new(),
            counted_late: 0.0,
            told: Vec::new(),
        }
    }

    fn chance(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as f64 / (1u64 << 31) as f64
    }

    /// For so long; `demand`: bytes per second that want to pass, `police`: whether what exceeds the link is dropped, not queued.
    fn run(&mut self, seconds: f64, capacity: f64, demand: f64, police: bool) {
        let end = self.now + seconds;
        while self.now < end {
            let rate = self.controller.rate().min(demand).min(1.25e8);
            let sent = self.now;
            let at_ns = (sent * 1e9) as u64;
            self.controller.pass(at_ns, FULL_FRAME_BYTES as u32);
            self.sent.push_back(sent);
            let start = self.free.max(sent);
            let wait = start - sent;
            let drops = if police { wait > 0.002 } else { wait > self.buffer };
            self.note_lost(sent, drops);
            if !drops {
                self.free = start + FULL_FRAME_BYTES / capacity;
                let jitter = self.noise * self.chance();
                let heard = start + self.round_trip + jitter;
                let longer = self.round_trip - self.first_round_trip;
                let end = (self.chance() * self.hosts) as u64;
                self.answers.entry((heard * 1e9) as u64).or_default().push((
                    end,
                    at_ns,
                    (heard - sent - self.first_round_trip).max(longer),
                    false,
                ));
            }
            self.now += FULL_FRAME_BYTES / rate;
            while self.next_tick <= self.now {
                self.tick(demand);
            }
        }
    }

    fn note_lost(&mut self, now: f64, is_lost: bool) {
        self.lost.push_back((now, f64::from(u8::from(is_lost))));
        while self.lost.front().is_some_and(|(at, _)| *at < now - 1.0) {
            self.lost.pop_front();
        }
    }

    /// Share of the packets of the newest second.
    fn lost(&self) -> f64 {
        self.lost.iter().map(|(_, lost)| lost).sum::<f64>() / self.lost.len().max(1) as f64
    }

    fn answers_until(&mut self, now_ns: u64) -> impl Iterator<Item = (u64, u64, f64, bool)> + use<> {
        let later = self.answers.split_off(&now_ns);
        std::mem::replace(&mut self.answers, later).into_values().flatten()
    }

    fn tick(&mut self, demand: f64) {
        let now_ns = (self.next_tick * 1e9) as u64;
        for (end, at_ns, wait, may_be_held) in self.answers_until(now_ns) {
            self.controller.waited(end, at_ns, wait, may_be_held);
        }
        let asked = self.sent.partition_point(|sent| *sent <= self.next_tick - self.counted_late);
        self.sent.drain(..asked);
        let own = Own {
            bytes: if demand > self.controller.rate() { 0.02 * self.controller.rate() } else { 0.0 },
            lost: self.lost(),
            asked: asked as u64,
            ..Own::default()
        };
        let decision = self.controller.decide(now_ns, own);
        let wait = (self.free - self.next_tick).max(0.0);
        self.told.push((self.next_tick, self.controller.rate(), wait, decision));
        self.next_tick += TICK_NS as f64 / 1e9;
    }

    /// Mean and coefficient of variation of the rate since then.
    fn since(&self, from: f64) -> (f64, f64) {
        let rates: Vec<f64> = self.told.iter().filter(|it| it.0 >= from).map(|it| it.1).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / rates.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    /// The first tick since `from` from which both hold: within `part` of the rate, and a wait of less than `wait`.
    fn settled(&self, from: f64, rate: f64, part: f64, wait: f64) -> Option<f64> {
        self.told
            .iter()
            .find(|it| it.0 >= from && (it.1 / rate - 1.0).abs() <= part && it.2 < wait)
            .map(|it| it.0 - from)
    }
}

mod rules;
mod varying;

const GREEDY: f64 = 1e12;

/// 2, 20 and 100 Mbit/s; near and far.
const LINKS: [(f64, f64); 6] =
    [(250e3, 0.03), (2.5e6, 0.03), (12.5e6, 0.03), (250e3, 0.15), (2.5e6, 0.15), (12.5e6, 0.15)];

/// Upstream a packet passes each fifth of a second, unless that is more than half of what the link carries; downstream half of it.
#[test]
fn so_much_passes_while_a_queue_drains() {
    let bounds = Bounds { least: 8_000.0, most: 1.25e9 };
    let least = |direction, capacity| Controller::new(direction, bounds, 1e6).least(capacity);
    let up = [1e6, 20_000.0, 10_000.0].map(|capacity| least(Direction::Up, capacity));
    assert_eq!(up, [50_000.0, 5.0 * FULL_FRAME_BYTES, 5_000.0]);
    assert_eq!(least(Direction::Down, 1e6), 5e5);
}

/// Everything is answered, by one host or by three, and the link becomes half as fast: the reason says who waits.
#[test]
fn the_reason_says_whose_packets_wait() {
    for (hosts, expected) in
        [(1.0, "packets of one host, 100 % of the traffic, wait "), (3.0, "packets of 3 hosts wait ")]
    {
        let mut link = Loop { hosts, ..Loop::new(1e6, 0.03) };
        link.run(20.0, 1e6, GREEDY, false);
        let mut reasons = (0..50).map(|_| {
            link.run(0.1, 5e5, GREEDY, false);
            link.controller.reason()
        });
        assert!(reasons.any(|reason| reason.starts_with(expected)), "{hosts}");
    }
}

#[test]
fn a_constant_link_is_found_and_held() {
    for (capacity, round_trip) in LINKS {
        let mut link = Loop::new(4.0 * capacity, round_trip);
        link.run(60.0, capacity, GREEDY, false);
        let (mean, variation) = link.since(10.0);
        let what = format!("{capacity} B/s, {round_trip} s: {:.4}, {variation:.4}", mean / capacity);
        println!("{what}");
        assert!((mean / capacity - 1.0).abs() <= 0.01 && variation <= 0.025, "{what}");
        let waits: f64 = link.told.iter().filter(|it| it.0 > 10.0).map(|it| it.2).sum();
        assert!(
            waits / (link.told.len() as f64 - 100.0) < 0.03 + FULL_FRAME_BYTES / capacity,
            "{what}: {waits}"
        );
    }
}

/// One host, packets of 62 ms, and segments that are counted up to 60 ms after they passed: a tick has none or two of them.
#[test]
fn a_slow_link_is_found_whenever_its_segments_are_counted() {
    for counted_late in [0.0, 0.02, 0.04, 0.06] {
        let mut link = Loop { hosts: 1.0, counted_late, ..Loop::new(1e6, 0.05) };
        link.run(60.0, 24.5e3, GREEDY, false);
        let (mean, _) = link.since(10.0);
        let what = format!("counted {counted_late} s late: {:.3}", mean / 24.5e3);
        println!("{what}");
        assert!((mean / 24.5e3 - 1.0).abs() < 0.05, "{what}");
    }
}

/// Packets that pass together and are acknowledged one by one may make the first rate too high. The host that measured it is the only one, and TCP sends no more
/// than the line carries: that it does not use half of the rate is no reason to doubt its waits.
#[test]
fn a_first_rate_that_is_four_times_too_high_does_not_stay() {
    for line in [24.5e3, 250e3] {
        let mut link = Loop { hosts: 1.0, ..Loop::new(4.0 * line, 0.05) };
        (link.controller.known, link.controller.is_doubtful) = (Some(TriedRate::found(4.0 * line)), true);
        link.free = 0.4;
        link.run(10.0, line, line, false);
        let rate = link.controller.rate() / line;
        assert!((0.8..1.25).contains(&rate), "{line} B/s: {rate}");
    }
}

/// The shaper tries more than the link carries, again and again: the more, the longer a queue behind takes to show. That is not published as the link's rate.
#[test]
fn what_is_only_tried_is_not_the_links_rate() {
    for line in [24.5e3, 250e3, 2.5e6] {
        let mut tried: f64 = 0.0;
        for round_trip in [0.05, 0.3] {
            let mut link = Loop { hosts: 1.0, ..Loop::new(4.0 * line, round_trip) };
            link.run(10.0, line, GREEDY, false);
            let mut published: Vec<f64> = Vec::new();
            for _ in 0..500 {
                link.run(0.1, line, GREEDY, false);
                published.extend(link.controller.capacity().map(|rate| rate / line));
                tried = tried.max(link.controller.rate() / line);
            }
            published.sort_by(f64::total_cmp);
            let [median, often, most] = [published[250], published[450], published[499]];
            println!(
                "{line} B/s, {round_trip} s: {median:.3}, {often:.3}, {most:.3} of it, tried {tried:.3}"
            );
            assert!((median - 1.0).abs() < 0.03 && often < 1.08);
        }
        assert!(tried > 1.05);
    }
}

#[test]
fn a_halved_link_is_followed_and_its_queue_drained_soon() {
    for (capacity, round_trip) in &LINKS[1..] {
        for at in [20.0, 20.03, 20.07, 21.1, 21.55, 22.0] {
            let mut link = Loop::new(*capacity, *round_trip);
            link.run(at, *capacity, GREEDY, false);
            let step = link.now;
            link.run(5.0, capacity / 2.0, GREEDY, false);
            let packet = 4.0 * FULL_FRAME_BYTES / capacity;
            let took = link.settled(step + 0.1, capacity / 2.0, 0.1, 0.03 + packet).expect("settles") + 0.1;
            let beyond = took - 2.0 * round_trip;
            let what = format!("{capacity} B/s, {round_trip} s, at {at}: 2 round trips and {beyond:.2} s");
            println!("{what}");
            assert!(took <= 2.0 * round_trip + 0.65, "{what}");
        }
    }
}

#[test]
fn a_doubled_link_is_followed_within_five_seconds() {
    for (capacity, round_trip) in LINKS {
        let mut link = Loop::new(capacity, round_trip);
        link.run(20.0, capacity, GREEDY, false);
        let step = link.now;
        link.run(10.0, capacity * 2.0, GREEDY, false);
        let took = link.settled(step, capacity * 2.0, 0.1, 1.0).expect("settles");
        println!("{capacity} B/s, {round_trip} s: doubled, and followed after {took:.2} s");
        assert!(took <= 5.0, "{capacity} B/s, {round_trip} s: {took:.2} s");
    }
}

#[test]
fn an_upload_that_its_application_limits_moves_nothing() {
    let mut link = Loop::new(2.5e6, 0.05);
    link.run(20.0, 2.5e6, GREEDY, false);
    let before = link.controller.rate();
    link.run(60.0, 2.5e6, 0.6e6, false);
    assert!((link.controller.rate() / before - 1.0).abs() < 0.1, "{before} {}", link.controller.rate());
    assert!(link.told.iter().rev().take(500).all(|it| it.3 == Decision::Hold));
}

#[test]
fn a_longer_route_is_no_queue() {
    let mut link = Loop::new(2.5e6, 0.03);
    link.run(20.0, 2.5e6, GREEDY, false);
    link.round_trip = 0.12;
    link.run(20.0, 2.5e6, GREEDY, false);
    let (mean, _) = link.since(30.0);
    assert!((mean / 2.5e6 - 1.0).abs() < 0.03, "{mean} {:#?}", &link.told[195..240]);
    assert!(link.told.iter().any(|it| it.3 == Decision::Hold));
}

#[test]
fn a_policer_is_followed_to_what_it_lets_pass() {
    let mut link = Loop::new(5e6, 0.03);
    link.run(40.0, 2.5e6, GREEDY, true);
    let (mean, _) = link.since(20.0);
    assert!((0.85..1.1).contains(&(mean / 2.5e6)), "{mean}");
}

/// A policer is met at once, and then everybody is silent: what it let pass stays known.
#[test]
fn what_a_policer_lets_pass_is_not_forgotten_in_silence() {
    let mut link = Loop::new(1e6, 0.03);
    while link.controller.capacity().is_none() {
        assert!(link.now < 10.0, "never met");
        link.run(0.1, 2.5e5, GREEDY, true);
    }
    for _ in 0..50 {
        link.answers.clear();
        link.tick(0.0);
        let known = link.controller.capacity().expect("known") / 2.5e5;
        assert!(known > 0.5, "{known}");
    }
    assert!(link.controller.rate() > 0.5 * 2.5e5);
}

/// Most of what passes is QUIC, which replies once in a round trip, and a small flow beside it has a bottleneck of its own. That one's wait is none of the
/// link's while QUIC has not replied as well.
#[test]
fn what_spins_counts_only_while_it_replies() {
    for spin_replied in [false, true] {
        let mut controller = Controller::new(Direction::Up, Bounds { least: 1e4, most: 1e9 }, 1e6);
        for tick in 0..30u64 {
            let at = tick * TICK_NS;
            (0..60).for_each(|packet| controller.pass(at + packet * 1_000_000, 1514));
            controller.waited(1, at, 0.01 * tick as f64, false);
            let own = Own { asked: 5, spin_bytes: 55.0 * 1514.0, spin_replied, ..Own::default() };
            controller.decide(at + TICK_NS, own);
        }
        assert_eq!(controller.wait().is_some_and(|wait| wait > 0.1), spin_replied);
        assert_eq!(controller.rate() < 9e5, spin_replied, "{}", controller.rate());
    }
}

/// Answers of one end come a second late, of another too early: the third tells.
#[test]
fn one_end_that_lies_and_one_that_is_slow_move_nothing() {
    let mut controller = Controller::new(Direction::Up, Bounds { least: 1e4, most: 1e9 }, 1e6);
    for tick in 0..100u64 {
        let at = tick * TICK_NS;
        for packet in 0..60 {
            controller.pass(at + packet * 1_000_000, 1514);
        }
        for (end, wait) in [(1, 0.002), (2, 1.0), (3, -0.5)] {
            controller.waited(end, at, wait, false);
        }
        controller.decide(at + TICK_NS, Own::default());
        assert!((controller.rate() - 1e6).abs() < 1.0, "{tick}");
    }
}

#[test]
fn nothing_is_made_of_nonsense() {
    for (least, most) in [(f64::NAN, f64::NAN), (5e5, 1e5)] {
        let mut controller = Controller::new(Direction::Down, Bounds { least, most }, f64::NAN);
        assert!(controller.rate().is_finite() && controller.rate() >= 1.0);
        for at in [5u64, 3, 3, 0, u64::MAX, 7] {
            controller.pass(at, u32::MAX);
            controller.waited(1, at, f64::NAN, false);
            controller.waited(1, at, f64::INFINITY, false);
            controller.waited(1, at, -1.0, false);
            let (bytes, lost, spin_bytes) = (f64::NAN, f64::NAN, f64::NAN);
            let own = Own { bytes, lost, asked: u64::MAX, spin_bytes, spin_replied: true, replied: true };
            controller.decide(at, own);
            assert!(controller.rate().is_finite() && controller.rate() >= 1.0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    /// Any sequence of rates, demand up to four times that: within bounds, a number; and a link that is constant from then on is found. Demand
    /// then uses up even half of the highest rate: below that floor one host's waits may be those of a bottleneck elsewhere.
    #[test]
    fn any_link_and_demand(
        stretches in prop::collection::vec((0.1f64..2.0, 3e4f64..3e7, 0.05f64..4.0), 1..8),
        round_trip in 0.01f64..0.3,
        start in 1e4f64..1e8,
    ) {
        let mut link = Loop::new(start, round_trip);
        for (seconds, capacity, wanted) in stretches {
            link.run(seconds, capacity, wanted * capacity, false);
        }
        let from = link.now;
        link.run(40.0, 2.5e6, 3e7, false);
        for (at, rate, _, _) in &link.told {
            prop_assert!(rate.is_finite() && (8_000.0..=1.25e9).contains(rate), "{at}: {rate}");
        }
        let (mean, variation) = link.since(from + 25.0);
        prop_assert!((mean / 2.5e6 - 1.0).abs() <= 0.05 && variation <= 0.05, "{mean} {variation}");
    }
}
