//! Rules of the scheduler and the shaper.

use super::super::packet::{Content, Data};
use super::*;

const MS: Time = MILLISECOND;
/// 1,000 bytes each millisecond. The quantum is 300 bytes.
const RATE: f64 = 1e6;

/// Each flow has a host of its own.
fn queue(flows: u32) -> CakeQueue {
    CakeQueue::new(RATE, 0..flows, 1)
}

fn data(flow: u32, bytes: u32, number: u32) -> Packet {
    Packet { flow, bytes, content: Content::Data(Data { number, stamp: 0, push: false }) }
}

/// Bytes of each flow that leave within a time, while each flow's queue is kept at `depth` frames of its size.
fn served(queue: &mut CakeQueue, sizes: &[u32], depth: usize, until: Time) -> Vec<u64> {
    let mut sent = vec![0; sizes.len()];
    let mut due = 0;
    while due < until {
        for (flow, bytes) in sizes.iter().enumerate() {
            while queue.flows[flow].frames.len() < depth {
                queue.push(due, data(flow as u32, *bytes, 0));
            }
        }
        let (frame, next) = queue.pop(due).expect("a frame");
        sent[frame.flow as usize] += u64::from(frame.bytes);
        due = next.expect("more frames");
    }
    sent
}

#[test]
fn flows_share_the_link_by_bytes_whatever_their_frames() {
    // Two frames each never stand for four full frames' time, so nothing is dropped.
    let mut queue = queue(2);
    let sent = served(&mut queue, &[1_514, 200], 2, 20_000 * MS);
    let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
    assert!((share - 0.5).abs() < 0.01, "{sent:?}");
    assert_eq!(queue.dropped, 0);
}

#[test]
fn a_host_with_four_flows_gets_as_much_as_one_with_one() {
    let mut queue = CakeQueue::new(RATE, [0, 0, 0, 0, 1].into_iter(), 1);
    let sent = served(&mut queue, &[1_000; 5], 1, 20_000 * MS);
    let share = sent[4] as f64 / sent.iter().sum::<u64>() as f64;
    assert!((share - 0.5).abs() < 0.03, "{sent:?}");
}

#[test]
fn the_shaper_lets_the_first_frame_pass_at_once_and_has_no_burst() {
    let mut queue = queue(1);
    // After a pause of a second nothing is saved up.
    let start = 1_000 * MS;
    let mut due = queue.push(start, data(0, 1_000, 0));
    for number in 1..4 {
        assert_eq!(queue.push(start, data(0, 1_000, number)), None);
    }
    for number in 0..4_u32 {
        assert_eq!(due, Some(start + u64::from(number) * MS));
        due = queue.pop(due.expect("a departure")).expect("a frame").1;
    }
    // The last one has left, and its time on the link is not over: 3 ms and 1 ms.
    assert_eq!(due, None);
    assert_eq!(queue.push(start + 3 * MS, data(0, 500, 4)), Some(start + 4 * MS));
}

#[test]
fn a_flow_that_sends_little_does_not_wait_behind_one_that_sends_much() {
    let mut queue = queue(2);
    let mut due = queue.push(0, data(0, 1_000, 0));
    for number in 1..20 {
        queue.push(0, data(0, 1_000, number));
    }
    for _ in 0..5 {
        due = queue.pop(due.expect("a departure")).expect("a frame").1;
    }
    let now = due.expect("a departure") - MS / 2;
    assert!((queue.wait_seconds() - 15e-3).abs() < 1e-9);
    queue.probe(now);
    queue.push(now, data(1, 66, 0));
    // It waits for the frame that is being sent alone, though 15 of them stand there.
    assert_eq!(queue.pop(now + MS / 2).expect("a frame").0.flow, 1);
    assert_eq!(queue.take_probed(), [0.5e-3]);
}

#[test]
fn the_wait_of_a_sparse_frame_counts_those_that_are_as_new() {
    let mut queue = queue(3);
    queue.push(0, data(0, 1_000, 0));
    queue.push(0, data(1, 200, 0));
    queue.probe(0);
    queue.push(0, data(1, 200, 1));
    queue.push(0, data(1, 200, 2));
    queue.push(0, data(2, 66, 0));
    let (mut order, mut due) = (Vec::new(), Some(0));
    while let Some((frame, next)) = due.and_then(|now| queue.pop(now)) {
        order.push(frame.flow);
        due = next;
    }
    assert_eq!(order, [0, 1, 1, 2, 1]);
    // The first flow's frame, and of the second what its quantum of 300 bytes lets begin, also what came later: two frames.
    assert_eq!(queue.take_probed(), [1.4e-3]);
    // All has left. The shaper still counts the last 200 bytes, and nothing else.
    let last = 1_666_000 - 50_000;
    queue.probe(last);
    queue.probe(10 * MS);
    assert_eq!(queue.take_probed(), [50e-6, 0.0]);
}

#[test]
fn the_last_frame_of_a_queue_is_never_dropped() {
    let mut queue = queue(1);
    // One frame each second, which has waited for 900 ms: far over the target, for ever.
    for second in 1..50 {
        let now = second * 1_000 * MS;
        queue.push(now, data(0, 1_000, 0));
        assert!(queue.pop(now + 900 * MS).is_some());
    }
    assert_eq!(queue.dropped, 0);
}

#[test]
fn codel_drops_at_the_head() {
    let mut queue = queue(1);
    for number in 0..2_000 {
        queue.push(0, data(0, 1_000, number));
    }
    let mut left = Vec::new();
    let mut due = Some(0);
    while let Some((frame, next)) = due.and_then(|now| queue.pop(now)) {
        if let Content::Data(Data { number, .. }) = frame.content {
            left.push(number);
        }
        due = next;
    }
    assert_eq!(left.len() as u64 + queue.dropped, 2_000);
    assert!(queue.dropped > 10);
    assert_eq!(left.last(), Some(&1_999));
    assert!(left.is_sorted());
}
