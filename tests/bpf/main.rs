//! The BPF programs through TEST_RUN: the acceptance table, and equality with the Rust replay in every figure.
//!
//! Needs root (or CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON), but no interface and no traffic.

mod baseline;
#[path = "../support/cable.rs"]
mod cable;
mod capture;
#[path = "../support/cases.rs"]
mod cases;
#[path = "../support/craft.rs"]
mod craft;
mod downlink;
#[path = "../support/exchanges.rs"]
mod exchanges;
mod kernel;
mod nonlinear;
mod object;
mod protocol_ports;
mod random;
mod requests;
mod slots;
mod turnaround;
mod word;

use pendulum::bpf::LoadOptions;
use pendulum::replay::meter::Meter;
use pendulum::replay::packet::{Frame, LinkType, Lost};
use pendulum_model::segment::{Class, Direction, PerDirection};

use cases::{Case, cases};
use craft::{CraftedFrame, LinkLayer};
use kernel::{Kernel, LOST, State};

fn direction(crafted: craft::Direction) -> Direction {
    match crafted {
        craft::Direction::Up => Direction::Up,
        craft::Direction::Down => Direction::Down,
    }
}

fn link_type(link_layer: LinkLayer) -> LinkType {
    match link_layer {
        LinkLayer::Ethernet => LinkType::Ethernet,
        LinkLayer::RawIp => LinkType::RawIp,
    }
}

/// What the replay makes of the same frames.
struct Replay {
    meter: Meter,
    link_type: LinkType,
}

impl Replay {
    fn new(link_layer: LinkLayer) -> Self {
        Self { meter: Meter::default(), link_type: link_type(link_layer) }
    }

    fn observe(&mut self, frame: &CraftedFrame) {
        let whole = Frame::whole(self.link_type, &frame.bytes);
        self.meter.observe_frame(
            direction(frame.direction),
            frame.time_ns,
            &Frame { gso_segments: frame.gso_segs, gso_size: frame.gso_size, ..whole },
        );
    }

    fn state(&self) -> State {
        let counters = PerDirection::from_fn(|direction| self.meter.counters[direction]);
        let mut flows: Vec<_> = self.meter.table.flows().map(|(k, e)| (*k, e.flow.clone())).collect();
        let mut nursery: Vec<_> = self.meter.table.nursery().map(|(k, e)| (*k, e.flow.clone())).collect();
        flows.sort_by_key(|(key, _)| *key);
        nursery.sort_by_key(|(key, _)| *key);
        State { counters, stats: self.meter.stats.to_vec(), flows, nursery }
    }
}

/// The programs of one link layer, by both hooks.
struct Hooks {
    tc: Kernel,
    /// For frames of which TEST_RUN makes no skb: the parser is the same.
    xdp: Kernel,
}

impl Hooks {
    fn new(link_layer: LinkLayer) -> Self {
        let by_xdp = LoadOptions {
            link_layer: kernel::layer(link_layer),
            xdp_ingress: true,
            ..LoadOptions::default()
        };
        Self { tc: Kernel::new(link_layer), xdp: Kernel::with(by_xdp) }
    }

    /// Show a frame; what it was counted as, and whether the TC program saw it.
    fn observe(&mut self, frame: &CraftedFrame) -> (Option<Class>, Vec<&'static str>, bool) {
        let before = (self.tc.segments(), self.tc.stats());
        if self.tc.observe(frame).is_some() {
            let (class, lost) = changes(&before, &self.tc);
            return (class, lost, true);
        }
        let before = (self.xdp.segments(), self.xdp.stats());
        self.xdp.observe_xdp(&frame.bytes);
        let (class, lost) = changes(&before, &self.xdp);
        (class, lost, false)
    }
}

fn changes(before: &(Vec<u64>, Vec<u64>), kernel: &Kernel) -> (Option<Class>, Vec<&'static str>) {
    let (segments, stats) = (kernel.segments(), kernel.stats());
    let class = Class::ALL.into_iter().find(|&class| segments[class as usize] != before.0[class as usize]);
    let lost = LOST.iter().zip(stats.iter().zip(&before.1));
    (class, lost.flat_map(|(name, (now, then))| std::iter::repeat_n(*name, (now - then) as usize)).collect())
}

/// Run a case in the kernel; what it shows that it should not.
fn differences(case: &Case, hooks: &mut Hooks) -> Vec<String> {
    let mut wrong = Vec::new();
    hooks.tc.reset();
    let mut replay = Replay::new(case.link_layer);
    for (i, (frame, expect)) in case.frames.iter().zip(&case.expect).enumerate() {
        if frame.bytes.len() < 14 {
            println!("{}: frame {i} is too short for TEST_RUN, left out", case.name);
            continue;
        }
        let (class, lost, by_tc) = hooks.observe(frame);
        if by_tc {
            replay.observe(frame);
        }
        if class.map(Class::name) != Some(expect.class) || lost != expect.lost {
            wrong.push(format!("{}: frame {i} is {class:?} {lost:?}, not {expect:?}", case.name));
        }
    }
    let (ours, theirs) = (hooks.tc.state(), replay.state());
    if ours != theirs {
        wrong.push(format!("{}: kernel and replay differ:\n{}", case.name, first_difference(&ours, &theirs)));
    }
    wrong
}

/// The lines in which two states differ.
pub(crate) fn first_difference(kernel: &State, replay: &State) -> String {
    let (kernel, replay) = (format!("{kernel:#?}"), format!("{replay:#?}"));
    let mut lines: Vec<String> = kernel
        .lines()
        .zip(replay.lines())
        .enumerate()
        .filter(|(_, (k, r))| k != r)
        .take(12)
        .map(|(n, (k, r))| format!("  line {n}: kernel {} replay {}", k.trim(), r.trim()))
        .collect();
    if kernel.lines().count() != replay.lines().count() {
        lines.push("  and one has more entries than the other".to_owned());
    }
    lines.join("\n")
}

#[test]
fn every_case_of_the_acceptance_table_holds_in_the_kernel() {
    let all = cases();
    let mut wrong = Vec::new();
    for link_layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let mut hooks = Hooks::new(link_layer);
        for case in all.iter().filter(|case| case.link_layer == link_layer) {
            wrong.extend(differences(case, &mut hooks));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), all.len(), wrong.join("\n"));
}

#[test]
fn reasons_have_the_replays_names_and_order() {
    assert_eq!(LOST, Lost::ALL.map(Lost::name));
}

#[test]
fn times_are_counted_below_these_bounds() {
    let bounds = [
        122, 172, 244, 345, 488, 500, 690, 976, 1_000, 1_381, 1_953, 2_000, 2_762, 3_906, 5_000, 5_524,
        7_812, 10_000, 11_048, 15_625, 20_000, 22_097, 31_250, 44_194, 50_000, 62_500, 88_388, 100_000,
        125_000, 176_776, 200_000, 250_000, 353_553, 500_000, 707_106, 1_000_000, 1_414_213, 2_000_000,
        2_828_427, 4_000_000, 5_000_000, 5_656_854, 8_000_000, 10_000_000, 11_313_708, 16_000_000,
    ];
    assert_eq!(pendulum::bpf::abi::TIME_BOUNDS_US, bounds);
}
