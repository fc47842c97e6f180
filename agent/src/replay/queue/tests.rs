//! Both queues against packets whose fate is known by hand.

use super::super::packet::{Frame, LinkType, Packet, outline, parse};
use super::super::tests::craft::{Direction as Way, LinkLayer, Tcp, up};
use super::*;
use crate::replay::flow::FlowKey;
use crate::replay::queue::exact::{Crossings, Sighting};
use pendulum_model::observer::Vantage;
use pendulum_model::observer::level::INTERVAL_NS;
use pendulum_model::segment::Direction;
use std::time::Duration;

mod crossings;

const MS: u64 = 1_000_000;

fn sighting(packet: &Tcp) -> Sighting {
    let crafted = packet.build(LinkLayer::RawIp);
    assert_eq!(crafted.direction, Way::Up);
    let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
    match parse(&frame) {
        Packet::Tcp(segment) => Sighting::of_segment(FlowKey::of(&segment, Direction::Up), &segment),
        _ => Sighting::of_outline(&outline(&frame).expect("an IP packet")),
    }
}

/// What a test does to the buffer, in the order of time.
enum BufferStep<'a> {
    In(u64, &'a Tcp),
    Out(u64, &'a Tcp, u32),
}

fn run(queue: &mut ExactQueue, steps: &[BufferStep<'_>]) {
    for step in steps {
        match step {
            BufferStep::In(ms, packet) => queue.enter(ms * MS, &sighting(packet)),
            BufferStep::Out(ms, packet, bytes) => {
                queue.leave(ms * MS, &sighting(packet), *bytes);
                queue.settle(ms * MS);
            }
        }
    }
}

/// Mean level of each interval.
fn means(queue: &mut ExactQueue) -> Vec<f64> {
    std::iter::from_fn(|| queue.standing.track.pop()).map(|(levels, _)| levels.mean).collect()
}

fn data(number: u32) -> Tcp {
    up().seq(1 + 1000 * number).payload(1000)
}

use BufferStep::{In, Out};

#[test]
fn bytes_stand_from_the_lan_to_the_wan() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b, c) = (data(0), data(1), data(2));
    run(
        &mut queue,
        &[In(0, &a), In(5, &b), Out(10, &a, 1040), In(12, &c), Out(20, &b, 1040), Out(40, &c, 1040)],
    );
    queue.finish(40 * MS);
    // a 0–10, b 5–20, c 12–40: 1040 · (10 + 5)/10, 1040 · (10 + 8)/10, 1040, 1040.
    assert_eq!(means(&mut queue), [1560.0, 1872.0, 1040.0, 1040.0]);
    assert_eq!(queue.crossings, Crossings { matched: 3, dropped: 0, unmatched: 0 });
}

#[test]
fn what_never_leaves_was_dropped_and_took_no_room() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b, c) = (data(0), data(1), data(2));
    run(&mut queue, &[In(0, &a), In(1, &b), In(2, &c), Out(10, &a, 1000)]);
    assert_eq!(queue.standing.track.pop(), None, "b may still leave");
    run(&mut queue, &[Out(20, &c, 1000)]);
    queue.finish(20 * MS);
    assert_eq!(means(&mut queue), [1800.0, 1000.0]);
    assert_eq!(queue.crossings.dropped, 1);
}

#[test]
fn the_copy_of_a_dropped_packet_is_distinguished_from_the_original() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b) = (data(0).ts(1, 1), data(1).ts(1, 1));
    let copy = data(0).ts(9, 1);
    run(&mut queue, &[In(0, &a), In(1, &b), Out(5, &b, 1000), In(30, &copy), Out(35, &copy, 1000)]);
    assert_eq!(queue.crossings, Crossings { matched: 2, dropped: 1, unmatched: 0 });
}

#[test]
fn flows_may_overtake_each_other_and_acknowledgements_their_own_data() {
    let mut queue = ExactQueue::new(0, false);
    let (bulk, other, ack) = (data(0), up().home_port(41_000).payload(10), up().ack(5));
    run(
        &mut queue,
        &[
            In(0, &bulk),
            In(1, &other),
            In(2, &ack),
            Out(3, &ack, 40),
            Out(4, &other, 50),
            Out(9, &bulk, 1040),
        ],
    );
    assert_eq!(queue.crossings, Crossings { matched: 3, dropped: 0, unmatched: 0 });
}

#[test]
fn segmentation_between_the_captures() {
    let mut queue = ExactQueue::new(0, false);
    let whole = up().seq(1).payload(3000);
    let pieces: Vec<Tcp> = (0..3).map(|i| up().seq(1 + 1000 * i).payload(1000)).collect();
    run(
        &mut queue,
        &[In(0, &whole), Out(10, &pieces[0], 1040), Out(20, &pieces[1], 1040), Out(30, &pieces[2], 1040)],
    );
    queue.finish(30 * MS);
    assert_eq!(means(&mut queue), [3120.0, 2080.0, 1040.0]);
    assert_eq!(queue.crossings.matched, 1);
}

#[test]
fn packets_of_the_gateway_itself_are_counted_apart() {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[Out(1, &data(0), 1040)]);
    assert_eq!(queue.crossings, Crossings { matched: 0, dropped: 0, unmatched: 1 });
}

#[test]
fn other_protocols_are_recognised_by_what_nobody_changes() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b) = (up().protocol(17).payload(20), up().protocol(17).payload(30));
    run(&mut queue, &[In(0, &a), In(0, &b), Out(5, &a, 60), Out(6, &b, 70)]);
    assert_eq!(queue.crossings.matched, 2);
}

#[test]
fn translated_flows_are_recognised_by_their_numbers() {
    let mut queue = ExactQueue::new(0, true);
    // Two flows of the same remote end; the gateway gives each another port.
    let inside = |port, seq| up().home_port(port).seq(seq).payload(100);
    let (a, b) = (inside(1000, 500), inside(2000, 900));
    let (a_out, b_out) = (inside(61_000, 500), inside(62_000, 900));
    let (a_next, a_next_out) = (inside(1000, 600), inside(61_000, 600));
    run(
        &mut queue,
        &[
            In(0, &a),
            In(1, &b),
            Out(5, &b_out, 140),
            Out(6, &a_out, 140),
            In(7, &a_next),
            Out(8, &a_next_out, 140),
        ],
    );
    assert_eq!(queue.crossings, Crossings { matched: 3, dropped: 0, unmatched: 0 });
}

#[test]
fn patience_and_memory_have_an_end() {
    let mut queue = ExactQueue::new(0, false);
    queue.enter(0, &sighting(&data(0)));
    queue.settle(31_000 * MS);
    assert_eq!(queue.crossings.dropped, 1);
    for i in 0..70_000 {
        queue.enter(32_000 * MS, &sighting(&up().seq(i).payload(1)));
    }
    assert!(queue.crossings.dropped > 4_000);
}

#[test]
fn what_is_inside_at_the_end_is_no_drop() {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[In(0, &data(0)), In(0, &data(1)), Out(5, &data(0), 1040)]);
    queue.finish(10 * MS);
    assert_eq!(queue.crossings, Crossings { matched: 1, dropped: 0, unmatched: 0 });
    assert_eq!(means(&mut queue), [520.0]);
}

#[test]
fn a_buffer_begins_anew_after_a_silence() {
    let observer = Observer::new(0, Vantage::Both, Duration::from_secs(1));
    let mut buffers = Buffers::new(observer, Some(Box::new(ExactQueue::new(0, false))));
    buffers.settle(50 * MS);
    buffers.finish(100 * MS);
    while buffers.pop().is_some() {}
    let start = 10_000 * INTERVAL_NS;
    buffers.restart(start);
    buffers.finish(start + 3 * INTERVAL_NS);
    assert_eq!(std::iter::from_fn(|| buffers.pop()).count(), 3);
}

/// A capture that may be from before the buffer or from behind it: the uplink's level holds what the other place tells within its uncertainty, and is not known
/// where that is not.
#[test]
fn a_level_is_as_uncertain_as_the_other_place_makes_it() {
    let observer = |vantage| {
        let mut observer = Observer::new(0, vantage, Duration::ZERO);
        observer.set_rates(PerDirection { up: Some(100_000.0), down: None }, Some(100_000.0));
        observer
    };
    let passed = |doubted: bool| {
        let mut buffers = Buffers::new(observer(Vantage::BeforeUplinkBuffer), None);
        if doubted {
            buffers.doubt(observer(Vantage::BehindUplinkBuffer));
        }
        // Ten packets at once after 1 s: 15,000 bytes if they enter the buffer here, none if they have left it.
        for _ in 0..10 {
            let packet = Passing { at_ns: 1_000_000_000, bytes: 1_500, ..Passing::default() };
            buffers.pass(Direction::Up, &packet, None);
        }
        buffers.settle(1_200_000_000);
        buffers.finish(1_500_000_000);
        std::iter::from_fn(|| buffers.pop()).map(|levels| levels.up).collect::<Vec<_>>()
    };
    let (sure, doubted) = (passed(false), passed(true));
    assert_eq!(sure.len(), doubted.len());
    let mut full = 0;
    for (sure, doubted) in sure.into_iter().zip(doubted) {
        let Some(doubted) = doubted else { continue };
        let sure = sure.expect("what is known doubtfully is known");
        assert_eq!(sure.mean_bytes, doubted.mean_bytes);
        assert!(
            doubted.uncertainty_bytes >= sure.uncertainty_bytes.max(0.5 * sure.mean_bytes),
            "{doubted:?}"
        );
        full += usize::from(sure.mean_bytes > 5_000.0);
    }
    assert!(full > 3, "{full} levels of a full buffer");
    let here = QueueSample { uncertainty_bytes: 10.0, ..QueueSample::level(QueueSource::Estimate, 500.0) };
    let there = |mean: f64| QueueSample {
        uncertainty_bytes: 30.0,
        ..QueueSample::level(QueueSource::Estimate, mean)
    };
    assert_eq!(either(here, &there(900.0)).uncertainty_bytes, 430.0);
    assert_eq!(either(here, &there(400.0)).uncertainty_bytes, 130.0);
}
