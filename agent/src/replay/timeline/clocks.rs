//! The senders' clocks (TCP timestamps) against the capture's: a clock that was set moves all of them from one packet to the next, by the same
//! amount, in both directions. The steadiest of them shows that it is for good. A queue holds back one direction, and a stall lets go.

use std::collections::HashMap;

use super::super::packet::{Packet, ParsedSegment};
use super::{ClockStep, SILENCE_NS};

/// One half of a connection: source and destination, with their ports.
type ConnectionHalf = ([u8; 16], u16, [u8; 16], u16);

/// Clocks remembered, and moments in doubt.
const CLOCKS_MAX: usize = 256;
const DOUBTS_MAX: usize = 64;

/// A clock's rate is read over [`WINDOW_NS`]; rates near those of known systems are those, per second.
const RATES: [f64; 4] = [1_000.0, 250.0, 100.0, 1e6];
const RATE_PART: f64 = 0.03;
/// A queue that grows makes a clock look slow. So near to a known rate it is probably that one: enough for the step from one packet to the next.
const RATE_PART_PROBABLE: f64 = 0.3;

/// Offsets before and after a moment are the least within this time, nanoseconds.
const WINDOW_NS: u64 = 2_000_000_000;

/// Clocks agree on a step within this part, and as much as a clock that ticks 100 times a second is off.
const AGREE_PART: f64 = 0.2;
const AGREE_NS: f64 = 3e7;

#[derive(Clone, Copy, Debug)]
struct Clock {
    first: (u64, u32),
    /// Ticks per nanosecond, and whether that is certain.
    rate: Option<f64>,
    is_certain: bool,
    /// Least and most offset in the present window and in the one before.
    windows: [(u64, f64, f64); 2],
    newest: f64,
    /// Offsets in them.
    count: u64,
}

/// A clock that is read less often than this just before says little of how steady it is.
const STEADY_COUNT: u64 = 16;

/// A window without an offset.
const NOTHING: (u64, f64, f64) = (u64::MAX, f64::MAX, f64::MIN);

impl Clock {
    fn new(at_ns: u64, ticks: u32) -> Self {
        Self {
            first: (at_ns, ticks),
            rate: None,
            is_certain: false,
            windows: [NOTHING; 2],
            newest: 0.0,
            count: 0,
        }
    }

    /// How far the capture's clock is ahead of this one, nanoseconds since the first packet.
    fn offset(&mut self, at_ns: u64, ticks: u32) -> Option<f64> {
        let passed_ns = at_ns as f64 - self.first.0 as f64;
        let ticked = f64::from(ticks.wrapping_sub(self.first.1).cast_signed());
        if !self.is_certain && passed_ns >= WINDOW_NS as f64 && ticked > 0.0 {
            let per_second = 1e9 * ticked / passed_ns;
            let known = |part: f64| RATES.into_iter().find(|rate| (per_second / rate - 1.0).abs() < part);
            self.is_certain = known(RATE_PART).is_some();
            self.rate = known(RATE_PART_PROBABLE).map(|rate| rate / 1e9);
        }
        self.rate.map(|rate| passed_ns - ticked / rate)
    }

    fn note(&mut self, at_ns: u64, offset: f64) {
        let number = at_ns / WINDOW_NS;
        if self.windows[0].0 != number {
            self.windows = [(number, offset, offset), self.windows[0]];
        }
        self.count += 1;
        self.newest = offset;
        let (_, least, most) = &mut self.windows[0];
        (*least, *most) = (least.min(offset), most.max(offset));
    }

    /// Its offsets of late, if there were any.
    fn before(&self) -> Option<Before> {
        let [(_, least, most), (_, least_before, most_before)] = self.windows;
        let (least, most) = (least.min(least_before), most.max(most_before));
        let is_steady = self.is_certain && self.count >= STEADY_COUNT;
        let varies = if is_steady { most - least } else { f64::MAX };
        (least <= most).then_some(Before { least, varies, newest: self.newest })
    }
}

/// A clock's offsets before a moment: the least, how much they varied, and the newest.
#[derive(Clone, Copy, Debug)]
struct Before {
    least: f64,
    varies: f64,
    newest: f64,
}

/// A clock's offsets after a moment.
#[derive(Clone, Copy, Debug)]
struct After {
    first: f64,
    least: f64,
}

/// A moment at which the capture's clock may have been set.
#[derive(Debug)]
struct Doubt {
    frame: u64,
    at_ns: u64,
    before: HashMap<ConnectionHalf, Before>,
    after: HashMap<ConnectionHalf, After>,
}

impl Doubt {
    /// What the clock was set by, if clocks of both directions of a connection say so and none contradicts.
    fn step_ns(&self) -> Option<f64> {
        let moved: HashMap<&ConnectionHalf, (&Before, &After)> = self
            .after
            .iter()
            .filter_map(|(half, after)| Some((half, (self.before.get(half)?, after))))
            .collect();
        let is_both = |(from, from_port, to, to_port): &ConnectionHalf| {
            moved.contains_key(&(*to, *to_port, *from, *from_port))
        };
        if !moved.keys().any(|half| is_both(half)) {
            return None;
        }
        let (before, after) = moved.values().min_by(|(a, _), (b, _)| a.varies.total_cmp(&b.varies))?;
        if before.varies == f64::MAX {
            return None;
        }
        let by_ns = after.least - before.least;
        let is_it = |other: f64| (other - by_ns).abs() <= AGREE_PART * by_ns.abs() + AGREE_NS;
        // Through a queue that grows and drains, the least offsets differ by more than the step; from one packet to the next they do not.
        let agrees = |(before, after): &(&Before, &After)| {
            is_it(after.first - before.newest) || is_it(after.least - before.least)
        };
        (by_ns.abs() >= SILENCE_NS as f64 && moved.values().all(agrees)).then_some(by_ns)
    }
}

/// All clocks.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    clocks: HashMap<ConnectionHalf, Clock>,
    doubts: Vec<Doubt>,
}

impl Clocks {
    /// From this packet on, the capture's clock may be another one.
    pub(super) fn doubt(&mut self, frame: u64, at_ns: u64) {
        let open = self.doubts.iter().filter(|doubt| at_ns.abs_diff(doubt.at_ns) < WINDOW_NS).count();
        self.doubts.retain(|doubt| at_ns.abs_diff(doubt.at_ns) < WINDOW_NS || doubt.step_ns().is_some());
        if open >= DOUBTS_MAX || self.doubts.len() >= 2 * DOUBTS_MAX {
            return;
        }
        let before: HashMap<_, _> =
            self.clocks.iter().filter_map(|(half, clock)| Some((*half, clock.before()?))).collect();
        if !before.is_empty() {
            self.doubts.push(Doubt { frame, at_ns, before, after: HashMap::new() });
        }
    }

    pub(super) fn observe(&mut self, at_ns: u64, packet: &Packet) {
        let Packet::Tcp(segment) = packet else { return };
        let ParsedSegment { source, source_port, destination, destination_port, .. } = *segment;
        let Some((ticks, _)) = segment.options.timestamps else { return };
        let half = (source, source_port, destination, destination_port);
        if !self.clocks.contains_key(&half) && self.clocks.len() >= CLOCKS_MAX {
            return;
        }
        let clock = self.clocks.entry(half).or_insert_with(|| Clock::new(at_ns, ticks));
        let Some(offset) = clock.offset(at_ns, ticks) else { return };
        clock.note(at_ns, offset);
        for doubt in &mut self.doubts {
            if at_ns >= doubt.at_ns && at_ns - doubt.at_ns < WINDOW_NS {
                let after = doubt.after.entry(half).or_insert(After { first: offset, least: offset });
                after.least = after.least.min(offset);
            }
        }
    }

    /// What the clock was set by at this packet, nanoseconds, if clocks tell.
    pub(super) fn step_at(&self, frame: u64) -> Option<i64> {
        self.doubts.iter().find(|doubt| doubt.frame == frame).and_then(Doubt::step_ns).map(|ns| ns as i64)
    }

    /// When the clock was set forward. A doubt soon after another one sees the same step once more.
    pub(super) fn forward_steps(&self) -> Vec<ClockStep> {
        let mut steps: Vec<(u64, ClockStep)> = Vec::new();
        for doubt in &self.doubts {
            let is_new = steps.last().is_none_or(|(at_ns, _)| doubt.at_ns > at_ns + 2 * WINDOW_NS);
            if let Some(by_ns) = doubt.step_ns().filter(|by_ns| *by_ns > 0.0 && is_new) {
                steps.push((doubt.at_ns, ClockStep { frame: doubt.frame, by_ns: by_ns as i64 }));
            }
        }
        steps.into_iter().map(|(_, step)| step).collect()
    }
}
