//! The acceptance table of the packet measurement, run through [`super::meter`].

use std::net::Ipv4Addr;

use pendulum_model::segment::{Class, Direction, PerDirection};
use proptest::prelude::*;

use super::flow::FlowKey;
use super::meter::Meter;
use super::packet::{Frame, LinkType, Lost};
use crate::bpf::abi::{self, pendulum_half};

#[path = "../../../tests/support/cases.rs"]
mod cases;
#[path = "../../../tests/support/craft.rs"]
pub(super) mod craft;
#[path = "../../../tests/support/exchanges.rs"]
pub(super) mod exchanges;
#[path = "../../../tests/support/pcap.rs"]
mod pcap;

pub(super) mod captures;
mod clocks;
mod evidence;
mod figures;
mod ns3;
mod runs;
mod surveys;

use cases::{Case, cases};
use craft::{CraftedFrame, LinkLayer};

pub(super) fn direction(crafted: craft::Direction) -> Direction {
    match crafted {
        craft::Direction::Up => Direction::Up,
        craft::Direction::Down => Direction::Down,
    }
}

fn frame(link_layer: LinkLayer, crafted: &CraftedFrame) -> Frame<'_> {
    let link_type = match link_layer {
        LinkLayer::Ethernet => LinkType::Ethernet,
        LinkLayer::RawIp => LinkType::RawIp,
    };
    Frame {
        gso_segments: crafted.gso_segs,
        gso_size: crafted.gso_size,
        ..Frame::whole(link_type, &crafted.bytes)
    }
}

/// Reasons that were counted between two states.
fn lost_since(before: &[u64], after: &[u64]) -> Vec<&'static str> {
    Lost::ALL
        .into_iter()
        .flat_map(|reason| {
            let count = after[reason as usize] - before[reason as usize];
            (0..count).map(move |_| reason.name())
        })
        .collect()
}

/// What differs between a case and the meter.
fn differences(case: &Case) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut meter = Meter::<()>::default();
    for (i, (crafted, expect)) in case.frames.iter().zip(&case.expect).enumerate() {
        let before = meter.stats;
        let class = meter
            .observe_frame(direction(crafted.direction), crafted.time_ns, &frame(case.link_layer, crafted))
            .class;
        let lost = lost_since(&before, &meter.stats);
        if class.name() != expect.class || lost != expect.lost {
            wrong.push(format!("{}: frame {i} is {} {lost:?}, not {expect:?}", case.name, class.name()));
        }
    }
    for &(name, expected) in &case.figures {
        match figure(&meter, name) {
            Some(value) if value == expected => {}
            Some(value) => wrong.push(format!("{}: {name} is {value}, not {expected}", case.name)),
            None => wrong.push(format!("{}: no figure {name}", case.name)),
        }
    }
    wrong
}

/// The value of a figure by its name; see `cases.rs`.
fn figure(meter: &Meter, name: &str) -> Option<u64> {
    let (group, rest) = name.split_once('.')?;
    let directions = |name| Direction::ALL.into_iter().find(|d| d.name() == name);
    let entry = endpoints().iter().find_map(|key| meter.table.get(key));
    let flow = entry.map(|entry| entry.flow.clone()).unwrap_or_default();
    match group {
        "up" | "down" => half_figure(&flow.halves[directions(group)?], rest),
        "outstanding" => Some(u64::from(flow.outstanding(directions(rest)?))),
        "stats" => match rest {
            "nursed" => Some(meter.stats[abi::PENDULUM_FLOW_NURSED as usize]),
            "promoted" => Some(meter.stats[abi::PENDULUM_FLOW_PROMOTED as usize]),
            "restarted" => Some(meter.stats[abi::PENDULUM_FLOW_RESTARTED as usize]),
            _ => None,
        },
        "table" => match rest {
            "flows" => Some(meter.table.flows().count() as u64),
            "nursery" => Some(meter.table.nursery().count() as u64),
            _ => None,
        },
        "counters" => {
            let (direction, field) = rest.split_once('.')?;
            counter_figure(meter, directions(direction)?, field)
        }
        _ => None,
    }
}

fn counter_figure(meter: &Meter, direction: Direction, field: &str) -> Option<u64> {
    let counters = meter.counters[direction];
    let class = |name| Class::ALL.into_iter().position(|c| c.name() == name);
    match field.split_once('.') {
        None => match field {
            "payload_bytes" => Some(counters.payload_bytes),
            "retransmitted_segments" => Some(counters.retransmitted_segments),
            "reordered_segments" => Some(counters.reordered_segments),
            "burst_segments" => Some(counters.burst_segments),
            "rtt_sum_us" => Some(counters.rtt_sum_us),
            _ => None,
        },
        Some(("segments", name)) => counters.segments.get(class(name)?).copied(),
        Some(("bytes", name)) => counters.bytes.get(class(name)?).copied(),
        Some(("marked_segments", name)) => {
            let mark = ["ce", "ece", "cwr", "sack"].into_iter().position(|mark| mark == name)?;
            counters.marked_segments.get(mark).copied()
        }
        Some(("bursts", slot)) => counters.bursts.get(slot.parse::<usize>().ok()?).copied(),
        Some(("rtt", slot)) => counters.rtt.get(slot.parse::<usize>().ok()?).copied(),
        Some(_) => None,
    }
}

fn half_figure(half: &pendulum_half, field: &str) -> Option<u64> {
    if let Some(flag) = field.strip_prefix("flag.") {
        return Some(u64::from(half.has(flag_of(flag)?)));
    }
    Some(match field {
        "first_seen_ns" => half.first_seen_ns,
        "last_seen_ns" => half.last_seen_ns,
        "wire_bytes" => half.wire_bytes,
        "payload_bytes" => half.payload_bytes,
        "segments" => half.segments,
        "data_segments" => half.data_segments,
        "ack_segments" => half.ack_segments,
        "acked_bytes" => half.acked_bytes,
        "advancing_acks" => half.advancing_acks,
        "rtt_sum_us" => half.rtt_sum_us,
        "hole_at_ns" => half.hole_at_ns,
        "rtt_samples" => half.rtt_samples.into(),
        "rtt_min_us" => half.rtt_min_us.into(),
        "rtt_last_us" => half.rtt_last_us.into(),
        "retransmitted_segments" => half.retransmitted_segments.into(),
        "reordered_segments" => half.reordered_segments.into(),
        "in_flight_max_bytes" => half.in_flight_max_bytes.into(),
        "isn" => half.isn.into(),
        "seq_next" => half.seq_next.into(),
        "ack_highest" => half.ack_highest.into(),
        "hole_start" => half.hole_start.into(),
        "hole_end" => half.hole_end.into(),
        "tsval_newest" => half.tsval_newest.into(),
        "tsecr_newest" => half.tsecr_newest.into(),
        "window_raw" => half.window_raw.into(),
        "mss" => half.mss.into(),
        "flags" => half.flags.into(),
        "wscale" => half.wscale.into(),
        _ => return None,
    })
}

fn flag_of(name: &str) -> Option<u32> {
    Some(match name {
        "seq" => abi::PENDULUM_HALF_SEQ,
        "ack" => abi::PENDULUM_HALF_ACK,
        "syn" => abi::PENDULUM_HALF_SYN,
        "fin" => abi::PENDULUM_HALF_FIN,
        "rst" => abi::PENDULUM_HALF_RST,
        "ts" => abi::PENDULUM_HALF_TS,
        "sack_ok" => abi::PENDULUM_HALF_SACK_OK,
        "wscale" => abi::PENDULUM_HALF_WSCALE,
        "mptcp" => abi::PENDULUM_HALF_MPTCP,
        "accecn" => abi::PENDULUM_HALF_ACCECN,
        "hole" => abi::PENDULUM_HALF_HOLE,
        "window" => abi::PENDULUM_HALF_WINDOW,
        "tsecr" => abi::PENDULUM_HALF_TSECR,
        _ => return None,
    })
}

/// The conversation of the table's packets, by IPv4 and by IPv6.
fn endpoints() -> [FlowKey; 2] {
    let mapped = |v4: [u8; 4]| Ipv4Addr::from(v4).to_ipv6_mapped().octets();
    let key = |home_addr, remote_addr| FlowKey {
        home_addr,
        remote_addr,
        home_port: craft::endpoint::HOME_PORT,
        remote_port: craft::endpoint::REMOTE_PORT,
    };
    [
        key(mapped(craft::endpoint::HOME_V4), mapped(craft::endpoint::REMOTE_V4)),
        key(craft::endpoint::HOME_V6, craft::endpoint::REMOTE_V6),
    ]
}

#[test]
fn every_case_holds() {
    let all = cases();
    let wrong: Vec<String> = all.iter().flat_map(differences).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut names: Vec<_> = all.iter().map(|case| case.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len(), "names are unique");
}

#[test]
fn the_table_shows_every_class_and_every_reason_a_packet_can_have() {
    let all = cases();
    for class in Class::ALL {
        let shown = all.iter().flat_map(|case| &case.expect).filter(|e| e.class == class.name()).count();
        assert!(shown > 0, "no case for class {}", class.name());
    }
    // Two need a kernel: memory that cannot be had, a map that is full. Requests have a table of their own.
    let elsewhere = |r: &Lost| matches!(r, Lost::Pull | Lost::FlowInsert | Lost::RequestDisplaced);
    for reason in Lost::ALL.into_iter().filter(|r| !elsewhere(r)) {
        let shown = all.iter().flat_map(|case| &case.expect).any(|e| e.lost.contains(&reason.name()));
        assert!(shown, "no case for reason {}", reason.name());
    }
}

/// Is it up; flags, seq, ack, window, payload in hundreds of bytes, timestamps, time since the one before.
type SegmentLike = (bool, u8, u32, u32, u16, usize, Option<(u32, u32)>, u64);

fn segment_like() -> impl Strategy<Value = SegmentLike> {
    (
        any::<bool>(),
        any::<u8>(),
        // Few values, so that numbers meet: near each other, near the wrap, and far apart.
        prop_oneof![0_u32..300, 0xffff_ff00_u32..=0xffff_ffff, any::<u32>()],
        prop_oneof![0_u32..300, 0xffff_ff00_u32..=0xffff_ffff, any::<u32>()],
        0_u16..3,
        0_usize..3,
        prop::option::of((0_u32..20, 0_u32..20)),
        0_u64..5_000,
    )
}

proptest! {
    /// Whatever passes: no panic, every segment counted once, no figure out of its bounds.
    #[test]
    fn any_stream_of_segments_adds_up(stream in prop::collection::vec(segment_like(), 0..60)) {
        let mut meter = Meter::<()>::default();
        let (mut at, mut passed) = (0, PerDirection::<u64>::default());
        for (is_up, flags, seq, ack, window, payload, ts, after) in stream {
            at += after;
            let packet = if is_up { craft::up() } else { craft::down() };
            let packet = packet.at(at).flags(flags).seq(seq).ack(ack).window(window).payload(payload * 100);
            let packet = match ts {
                Some((tsval, tsecr)) => packet.ts(tsval, tsecr),
                None => packet,
            };
            let crafted = packet.build(LinkLayer::RawIp);
            let direction = direction(crafted.direction);
            meter.observe_frame(direction, crafted.time_ns, &frame(LinkLayer::RawIp, &crafted));
            passed[direction] += 1;
        }
        for direction in Direction::ALL {
            let counters = meter.counters[direction];
            prop_assert_eq!(counters.segments.iter().sum::<u64>(), passed[direction]);
            let data = counters.segments[Class::Data as usize] + counters.segments[Class::Rst as usize]
                + counters.segments[Class::Syn as usize] + counters.segments[Class::ZeroWindowProbe as usize];
            prop_assert!(counters.retransmitted_segments + counters.reordered_segments <= data);
            let acks: u64 = Class::ALL.into_iter().filter(|class| class.is_pure_ack())
                .map(|class| counters.segments[class as usize]).sum();
            prop_assert_eq!(counters.burst_segments + meter.ack_runs[direction], acks);
            if let Some(entry) = endpoints().iter().find_map(|key| meter.table.get(key)) {
                let half = &entry.flow.halves[direction];
                prop_assert!(half.rtt_samples == 0 || half.rtt_min_us >= 1);
                prop_assert!(half.rtt_sum_us >= u64::from(half.rtt_samples) * u64::from(half.rtt_min_us));
                prop_assert_eq!(counters.rtt.iter().sum::<u64>() >= u64::from(half.rtt_samples), true);
            }
        }
    }
}
