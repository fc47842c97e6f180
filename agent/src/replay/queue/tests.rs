//! Both queues against packets whose fate is known by hand.

use super::super::packet::{Frame, LinkType, Packet, outline, parse};
use super::super::tests::craft::{Direction as Way, LinkLayer, Tcp, up};
use super::*;
use crate::replay::flow::FlowKey;
use crate::replay::queue::exact::{Crossings, Sighting};
use pendulum_model::buffer::level::INTERVAL_NS;
use pendulum_model::buffer::{Answer, Passing};
use pendulum_model::segment::Direction;

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
enum Step<'a> {
    In(u64, &'a Tcp),
    Out(u64, &'a Tcp, u32),
}

fn run(queue: &mut ExactQueue, steps: &[Step<'_>]) {
    for step in steps {
        match step {
            Step::In(ms, packet) => queue.enter(ms * MS, &sighting(packet)),
            Step::Out(ms, packet, bytes) => {
                queue.leave(ms * MS, &sighting(packet), *bytes);
                queue.settle(ms * MS);
            }
        }
    }
}

/// Mean level of each interval.
fn means(queue: &mut ExactQueue) -> Vec<f64> {
    std::iter::from_fn(|| queue.standing().track.pop()).map(|levels| levels.mean).collect()
}

fn data(number: u32) -> Tcp {
    up().seq(1 + 1000 * number).payload(1000)
}

use Step::{In, Out};

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
    assert_eq!(queue.crossings(), Crossings { matched: 3, dropped: 0, unmatched: 0 });
}

#[test]
fn what_never_leaves_was_dropped_and_took_no_room() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b, c) = (data(0), data(1), data(2));
    run(&mut queue, &[In(0, &a), In(1, &b), In(2, &c), Out(10, &a, 1000)]);
    assert!(!queue.standing().track.is_ready(), "b may still leave");
    run(&mut queue, &[Out(20, &c, 1000)]);
    queue.finish(20 * MS);
    assert_eq!(means(&mut queue), [1800.0, 1000.0]);
    assert_eq!(queue.crossings().dropped, 1);
}

#[test]
fn the_copy_of_a_dropped_packet_is_told_from_the_original() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b) = (data(0).ts(1, 1), data(1).ts(1, 1));
    let copy = data(0).ts(9, 1);
    run(&mut queue, &[In(0, &a), In(1, &b), Out(5, &b, 1000), In(30, &copy), Out(35, &copy, 1000)]);
    assert_eq!(queue.crossings(), Crossings { matched: 2, dropped: 1, unmatched: 0 });
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
    assert_eq!(queue.crossings(), Crossings { matched: 3, dropped: 0, unmatched: 0 });
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
    assert_eq!(queue.crossings().matched, 1);
}

#[test]
fn packets_of_the_gateway_itself_are_counted_apart() {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[Out(1, &data(0), 1040)]);
    assert_eq!(queue.crossings(), Crossings { matched: 0, dropped: 0, unmatched: 1 });
}

#[test]
fn other_protocols_are_recognised_by_what_nobody_changes() {
    let mut queue = ExactQueue::new(0, false);
    let (a, b) = (up().protocol(17).payload(20), up().protocol(17).payload(30));
    run(&mut queue, &[In(0, &a), In(0, &b), Out(5, &a, 60), Out(6, &b, 70)]);
    assert_eq!(queue.crossings().matched, 2);
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
    assert_eq!(queue.crossings(), Crossings { matched: 3, dropped: 0, unmatched: 0 });
}

#[test]
fn patience_and_memory_have_an_end() {
    let mut queue = ExactQueue::new(0, false);
    queue.enter(0, &sighting(&data(0)));
    queue.settle(31_000 * MS);
    assert_eq!(queue.crossings().dropped, 1);
    for i in 0..70_000 {
        queue.enter(32_000 * MS, &sighting(&up().seq(i).payload(1)));
    }
    assert!(queue.crossings().dropped > 4_000);
}

#[test]
fn what_is_inside_at_the_end_is_no_drop() {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[In(0, &data(0)), In(0, &data(1)), Out(5, &data(0), 1040)]);
    queue.finish(10 * MS);
    assert_eq!(queue.crossings(), Crossings { matched: 1, dropped: 0, unmatched: 0 });
    assert_eq!(means(&mut queue), [520.0]);
}

/// 300,000 B/s: 1500 bytes are on the link for 5 ms.
const RATE: f64 = 300_000.0;

fn delayed(opposite: Option<f64>) -> DelayQueue {
    DelayQueue::new(0, Direction::Down, RATE, opposite)
}

fn pass(queue: &mut DelayQueue, at_ms: u64, bytes: u32, delay_us: Option<u64>) {
    let answer = delay_us.map(|us| Answer { end: [7; 16], delay_ns: us * 1000, question_bytes: 60 });
    queue.pass(&Passing { at_ns: at_ms * MS, bytes, clock: None }, answer.as_ref());
}

/// A full packet arrives, `delay_ms` after the short one that it answers.
fn full(queue: &mut DelayQueue, at_ms: u64, delay_ms: u64) {
    pass(queue, at_ms, 1500, Some(delay_ms * 1000));
}

/// Mean and highest level of each interval up to `to_ms`.
fn levels(queue: &mut DelayQueue, to_ms: u64) -> Vec<(f64, f64)> {
    queue.finish(to_ms * MS);
    let track = &mut queue.standing().track;
    let mut levels = Vec::new();
    while track.is_ready() {
        levels.extend(track.pop().map(|levels| (levels.mean, levels.max)));
    }
    levels
}

fn highest(queue: &mut DelayQueue, to_ms: u64) -> f64 {
    levels(queue, to_ms).into_iter().map(|(_, max)| max).fold(0.0, f64::max)
}

/// Packets passed, but none of them stood in the buffer.
fn stays_empty(queue: &mut DelayQueue, to_ms: u64) -> bool {
    levels(queue, to_ms).into_iter().all(|(mean, _)| mean < 1.0)
}

#[test]
fn delay_above_the_smallest_is_queue() {
    let mut queue = delayed(None);
    // 20 ms of way and 5 ms of its own; then 20 packets back to back, each 5 ms later than the one before.
    full(&mut queue, 1000, 25);
    for i in 1..=20 {
        full(&mut queue, 1000 + 5 * i, 25 + 4 * i);
    }
    // The last one waited 80 ms: 24,000 bytes, itself among them.
    assert_eq!(highest(&mut queue, 1100), 24_000.0);
    assert_eq!(queue.unconfirmed(), 0);
}

#[test]
fn a_short_answer_calibrates_long_ones() {
    let mut queue = delayed(None);
    // SYN-ACK: 20 ms of way. Data of the same end: 20 ms and 5 ms on the link.
    pass(&mut queue, 1000, 60, Some(20_200));
    full(&mut queue, 1100, 25);
    assert!(stays_empty(&mut queue, 1200));
}

#[test]
fn an_idle_link_means_an_empty_buffer() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    // Held back by its sender for 200 ms; but nothing was on the link before it.
    full(&mut queue, 2000, 225);
    assert!(stays_empty(&mut queue, 2100));
}

#[test]
fn a_delay_cannot_be_longer_than_the_link_was_busy() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    pass(&mut queue, 1010, 1500, None);
    pass(&mut queue, 1015, 1500, None);
    // 100 ms too late, and only three packets passed since the question.
    full(&mut queue, 1020, 125);
    assert!(highest(&mut queue, 1100) <= 4500.0);
}

#[test]
fn a_longer_way_is_learnt_behind_an_idle_link() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    for i in 1..=12 {
        full(&mut queue, 1000 + 100 * i, 55);
    }
    // Busy from now on: 55 ms are no queue any more, 65 ms are 10 ms of one.
    full(&mut queue, 2205, 55);
    for i in 1..=10 {
        pass(&mut queue, 2205 + 5 * i, 1500, None);
    }
    full(&mut queue, 2260, 65);
    // Itself, and the one before it, which leaves 5 ms earlier.
    let level = highest(&mut queue, 2300);
    assert!((3000.0..=4500.0).contains(&level), "{level}");
}

/// A data packet with the sender's clock; an answer if `delay_us` is given.
fn clocked(queue: &mut DelayQueue, at_ms: u64, tsval: u32, delay_us: Option<u64>) {
    let answer = delay_us.map(|us| Answer { end: [7; 16], delay_ns: us * 1000, question_bytes: 60 });
    queue.pass(&Passing { at_ns: at_ms * MS, bytes: 1500, clock: Some((1, tsval)) }, answer.as_ref());
}

#[test]
fn a_burst_stands_in_the_buffer_although_only_its_first_packet_is_an_answer() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    // Ten packets sent at once, on the link one after the other.
    clocked(&mut queue, 1500, 77, Some(25_000));
    for i in 1..10 {
        clocked(&mut queue, 1500 + 5 * i, 77, None);
    }
    // All but the first one, which is on the link; then one less every 5 ms.
    let levels = levels(&mut queue, 1600);
    assert_eq!(levels[149].0, 0.5 * 9.0 * 1500.0);
    assert_eq!(levels[150].0, 0.5 * (8.0 + 7.0) * 1500.0);
    assert_eq!(levels[153].0, 0.5 * (2.0 + 1.0) * 1500.0);
    assert_eq!(levels[154].0, 0.0);
}

#[test]
fn the_clock_places_packets_between_answers() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    clocked(&mut queue, 1500, 100, Some(25_000));
    // Sent 30 ms after the first one, and 10 ms before the next answer, which waited for nothing.
    clocked(&mut queue, 1530, 130, None);
    clocked(&mut queue, 1540, 140, Some(25_000));
    assert!(stays_empty(&mut queue, 1600));
}

#[test]
fn without_answers_the_level_is_not_known_for_long() {
    let mut queue = delayed(None);
    full(&mut queue, 1000, 25);
    for i in 1..2000 {
        pass(&mut queue, 1000 + 5 * i, 1500, None);
        queue.settle((1000 + 5 * i) * MS);
    }
    // Known for 5 s after the answer, of 11 s.
    let known = levels(&mut queue, 11_000).len();
    assert!((590..=610).contains(&known), "{known}");
}

#[test]
fn a_link_that_was_never_idle_is_not_trusted() {
    let mut queue = delayed(None);
    for i in 0..200 {
        pass(&mut queue, 1000 + 5 * i, 1500, None);
    }
    full(&mut queue, 2000, 90);
    assert_eq!((queue.answers(), queue.unconfirmed()), (1, 1));
}

#[test]
fn both_kinds_begin_anew_after_a_silence() {
    for mut queue in
        [Queue::Exact(Box::new(ExactQueue::new(0, false))), Queue::Delay(Box::new(delayed(None)))]
    {
        queue.settle(50 * MS);
        queue.finish(100 * MS);
        while queue.pop().is_some() {}
        let start = 10_000 * INTERVAL_NS;
        queue.restart(start);
        queue.finish(start + 3 * INTERVAL_NS);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 3);
    }
}
