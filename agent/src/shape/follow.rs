//! `rate = "auto"`: the rate of each direction follows the queue that stands behind the shaper.

use std::time::Instant;

use pendulum_model::autorate::{Bounds, Controller, Decision, Need, Own};
use pendulum_model::constants::{RECENT, SLIGHT};
use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::Auto;

use crate::config::{LEAST_RATE, ShapeConfig, ShapeRate};

/// Begun with where nothing is known, bytes per second: no link of a gateway of this kind is faster. It falls as soon as a queue stands behind.
const START: f64 = 125e6;

/// What passed, and how long it waited behind the shaper (uplink) or before it came (downlink).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Passing {
    /// Bytes that left for the link, or came out of it.
    Passed {
        /// When, nanoseconds of the monotonic clock.
        at_ns: u64,
        /// How many.
        bytes: u32,
    },
    /// What one end's answer tells.
    Waited {
        /// Which end.
        end: u64,
        /// When what it is about passed.
        passed_ns: u64,
        /// Seconds.
        wait_s: f64,
        /// Whether the answer may have been held back by who gave it.
        may_be_held: bool,
    },
}

/// Our own queue of one direction as last read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnLevel {
    /// The most that stood in it, bytes.
    pub bytes: f64,
    /// What it has dropped since the start.
    pub drops: u64,
    /// Share of what passed that repeats what passed before.
    pub repeated: f64,
    /// Whose wait behind replies tell.
    pub asked: RepliedTraffic,
}

/// What was sent to the uplink and is replied to, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepliedTraffic {
    /// Segments of TCP.
    pub segments: u64,
    /// Segments of TCP that came from the link.
    pub replies: u64,
    /// Bytes of QUIC connections that spin.
    pub spin_bytes: u64,
    /// Their packets that came from the link and told how long a round trip took.
    pub spin_replies: u64,
}

/// A change of more than 10 %.
#[derive(Clone, Debug, PartialEq)]
pub struct RateChange {
    /// Of which direction.
    pub direction: Direction,
    /// Bytes per second reported before, and now.
    pub from: f64,
    /// Now.
    pub to: f64,
    /// What it was.
    pub decision: Decision,
    /// What it is based on.
    pub reason: String,
}

/// Both directions.
#[derive(Debug)]
pub(super) struct Follower {
    ways: PerDirection<FollowedDirection>,
}

#[derive(Debug)]
struct FollowedDirection {
    controller: Controller,
    auto: Auto,
    /// How often each was decided, in the order of [`Decision::ALL`].
    decisions: [u64; Decision::ALL.len()],
    reported: f64,
    drops: u64,
    asked: Option<RepliedTraffic>,
    dropped: Option<Instant>,
}

impl Follower {
    /// For these settings; `None` if they do not ask for it. `rates`: what is known of the link.
    pub(super) fn of(shape: &ShapeConfig, rates: PerDirection<Option<Rate>>) -> Option<Self> {
        (shape.rate == ShapeRate::Auto).then(|| Self {
            ways: PerDirection::from_fn(|x| {
                let bounds = shape.bounds[x];
                let bytes = |rate: Rate| rate.bytes_per_second();
                let least = bounds.least.map_or(LEAST_RATE as f64 / 8.0, bytes);
                let most = bounds.most.map_or(f64::MAX, bytes);
                let start = bounds.most.map_or(START, bytes);
                let controller =
                    Controller::new(x, Bounds { least, most }, start).with_priority(shape.priority);
                let controller = match rates[x] {
                    Some(known) => controller.with_rate(bytes(known)),
                    None => controller,
                };
                let reported = controller.rate();
                FollowedDirection {
                    controller,
                    auto: Auto {
                        decision: Decision::Hold.name().into(),
                        minimum_bps: bounds.least.map(Rate::bits_per_second),
                        maximum_bps: bounds.most.map(Rate::bits_per_second),
                        ..Auto::default()
                    },
                    decisions: Default::default(),
                    reported,
                    drops: 0,
                    asked: None,
                    dropped: None,
                }
            }),
        })
    }

    /// Whether the first hop is to be asked.
    pub(super) fn need(&self) -> Need {
        let [up, down] = self.ways.both().map(|way| way.controller.need());
        up.max(down)
    }

    /// What is sent, or let in.
    pub(super) fn rate(&self, direction: Direction) -> Option<Rate> {
        Rate::from_bytes_per_second(self.ways[direction].controller.rate())
    }

    /// What is sent of it.
    pub(super) fn auto(&self, direction: Direction) -> &Auto {
        &self.ways[direction].auto
    }

    /// How often each was decided, in the order of [`Decision::ALL`].
    pub(super) fn decisions(&self, direction: Direction) -> [u64; Decision::ALL.len()] {
        self.ways[direction].decisions
    }

    /// The link's rate as measured, bytes per second.
    pub(super) fn capacity(&self, direction: Direction) -> Option<f64> {
        self.auto(direction).link_rate_bps.map(|bits| bits / 8.0)
    }

    /// Takes in what was seen since the tick before, and decides. Answers what has changed by more than 10 % since the last report.
    pub(super) fn tick(
        &mut self,
        now_ns: u64,
        now: Instant,
        seen: impl IntoIterator<Item = (Direction, Passing)>,
        own: PerDirection<OwnLevel>,
    ) -> Vec<RateChange> {
        for (direction, seen) in seen {
            let controller = &mut self.ways[direction].controller;
            match seen {
                Passing::Passed { at_ns, bytes } => controller.pass(at_ns, bytes),
                Passing::Waited { end, passed_ns, wait_s, may_be_held } => {
                    controller.waited(end, passed_ns, wait_s, may_be_held);
                }
            }
        }
        Direction::ALL.into_iter().filter_map(|x| self.ways[x].tick(x, now_ns, now, own[x])).collect()
    }
}

impl FollowedDirection {
    fn tick(&mut self, direction: Direction, now_ns: u64, now: Instant, own: OwnLevel) -> Option<RateChange> {
        if std::mem::replace(&mut self.drops, own.drops) != own.drops {
            self.dropped = Some(now);
        }
        // What our own queue has dropped is sent again.
        let is_own = self.dropped.is_some_and(|at| now.duration_since(at) < RECENT);
        let lost = if is_own { 0.0 } else { own.repeated };
        // The programs may be new, and count from zero.
        let asked = own.asked;
        let before = self.asked.replace(asked).unwrap_or(asked);
        let own = Own {
            bytes: own.bytes,
            lost,
            asked: asked.segments.saturating_sub(before.segments),
            replied: asked.replies != before.replies,
            spin_bytes: asked.spin_bytes.saturating_sub(before.spin_bytes) as f64,
            spin_replied: asked.spin_replies != before.spin_replies,
        };
        let decision = self.controller.decide(now_ns, own);
        self.decisions[decision as usize] += 1;
        self.auto.decision = decision.name().into();
        self.auto.reason = self.controller.reason().into();
        self.auto.link_rate_bps = self.controller.capacity().map(|bytes| bytes * 8.0);
        self.auto.waits_behind_s = self.controller.wait();
        let rate = self.controller.rate();
        if (rate / self.reported - 1.0).abs() <= SLIGHT {
            return None;
        }
        let from = std::mem::replace(&mut self.reported, rate);
        Some(RateChange { direction, from, to: rate, decision, reason: self.controller.reason() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::RateBounds;

    fn auto() -> ShapeConfig {
        ShapeConfig { rate: ShapeRate::Auto, ..ShapeConfig::default() }
    }

    #[test]
    fn it_begins_with_what_is_known_and_else_high() {
        assert!(Follower::of(&ShapeConfig::default(), PerDirection::default()).is_none());
        let known = "2mbit".parse().ok();
        let follower = Follower::of(&auto(), PerDirection { up: known, down: None }).expect("asked for");
        assert_eq!(follower.rate(Direction::Up), known);
        assert_eq!(follower.rate(Direction::Down), "1gbit".parse().ok());
        let bounds = RateBounds { least: None, most: "50mbit".parse().ok() };
        let bounded = Follower::of(
            &ShapeConfig { bounds: PerDirection { up: bounds, down: bounds }, ..auto() },
            PerDirection::default(),
        )
        .expect("asked for");
        assert_eq!(bounded.rate(Direction::Up), bounds.most);
    }

    /// 1,000 packets a second leave, and those that are answered for waited longer by a tenth of a second each second.
    #[test]
    fn a_queue_behind_lowers_the_rate_and_that_is_reported_once() {
        let mut follower = Follower::of(&auto(), PerDirection::default()).expect("asked for");
        let start = Instant::now();
        let mut reported = Vec::new();
        for tick in 1..=30u64 {
            let seen: Vec<_> = (0..100)
                .flat_map(|packet| {
                    let at_ns = 1_000_000_000 + tick * 100_000_000 + packet * 1_000_000;
                    let wait_s = (tick * 100 + packet) as f64 * 1e-4;
                    [
                        Passing::Passed { at_ns, bytes: 1514 },
                        Passing::Waited { end: 1, passed_ns: at_ns, wait_s, may_be_held: false },
                    ]
                })
                .map(|seen| (Direction::Up, seen))
                .collect();
            let now_ns = 1_000_000_000 + (tick + 1) * 100_000_000;
            let own = PerDirection::from_fn(|_| OwnLevel {
                asked: RepliedTraffic { segments: 100 * tick, ..RepliedTraffic::default() },
                ..OwnLevel::default()
            });
            reported.extend(follower.tick(now_ns, start + Duration::from_millis(100 * tick), seen, own));
        }
        let first = reported.first().expect("it fell");
        assert!((first.direction, first.from) == (Direction::Up, START) && first.to < 1.5e6, "{first:?}");
        // 1,514,000 bytes come in a second, and that takes 1.1 seconds.
        let found = follower.capacity(Direction::Up).expect("measured");
        assert!((found / (1_514_000.0 / 1.1) - 1.0).abs() < 0.02, "{found}");
        assert!(reported.iter().all(|change| change.direction == Direction::Up), "{reported:?}");
    }

    /// Two seconds of answers to an upload that our own queue limits, then none that tells how long it took. `comes_in`: TCP goes on to come in.
    fn decision_in_silence(comes_in: bool) -> String {
        let known = "10mbit".parse().ok();
        let mut follower = Follower::of(&auto(), PerDirection { up: known, down: known }).expect("asked for");
        let start = Instant::now();
        let (mut asked, mut replies) = (0, 0);
        for tick in 1..=24u64 {
            let is_answered = tick <= 20;
            let rate = follower.rate(Direction::Up).expect("known").bytes_per_second();
            let packets = (rate * 0.1 / 1514.0) as u64;
            asked += packets;
            let seen = (0..packets).flat_map(|packet| {
                let at_ns = 1_000_000_000 + tick * 100_000_000 + packet * 100_000_000 / packets;
                let passed = Passing::Passed { at_ns, bytes: 1514 };
                let waited =
                    |wait_s| Passing::Waited { end: 1, passed_ns: at_ns, wait_s, may_be_held: false };
                let up = is_answered.then(|| (Direction::Up, waited(0.0)));
                up.into_iter().chain([(Direction::Up, passed)])
            });
            replies += u64::from(is_answered || comes_in);
            let own = OwnLevel {
                bytes: 20_000.0,
                asked: RepliedTraffic { segments: asked, replies, ..RepliedTraffic::default() },
                ..OwnLevel::default()
            };
            let own = PerDirection { up: own, down: OwnLevel::default() };
            let now_ns = 1_000_000_000 + (tick + 1) * 100_000_000;
            follower.tick(now_ns, start + Duration::from_millis(100 * tick), seen, own);
        }
        follower.auto(Direction::Up).decision.to_string()
    }

    #[test]
    fn replies_that_do_not_tell_how_long_they_took_are_no_outage() {
        assert_eq!(decision_in_silence(false), "outage");
        assert_ne!(decision_in_silence(true), "outage");
    }
}
