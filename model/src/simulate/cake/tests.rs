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

#[test]
fn the_rate_gives_quantum_target_and_interval() {
    let of = |rate| {
        let queue = CakeQueue::new(rate, [7].into_iter(), 1);
        (queue.quantum, queue.parameters.target, queue.parameters.interval)
    };
    assert_eq!(of(1e6), (300, 5 * MS, 100 * MS));
    assert_eq!(of(4_096_000.0), (1_000, 5 * MS, 100 * MS));
    assert_eq!(of(1e8), (1_514, 5 * MS, 100 * MS));
    // 100 kB/s: a frame takes 15.14 ms.
    assert_eq!(of(1e5), (300, 22_710_000, 117_710_000));
}

#[test]
fn flows_of_a_host_share_its_quantum() {
    let mut queue = CakeQueue::new(RATE, [5, 5, 9].into_iter(), 1);
    assert_eq!(
        (queue.hosts.len(), queue.flows[0].host, queue.flows[1].host, queue.flows[2].host),
        (2, 0, 0, 1)
    );
    let mut quanta = |load| {
        queue.hosts[0] = load;
        let quanta: Vec<i64> = (0..1_000).map(|_| queue.quantum_of(1)).collect();
        (quanta.iter().min().copied(), quanta.iter().max().copied())
    };
    // Rounded by chance, from 299.995 and a quarter of it.
    assert_eq!(
        [quanta(0), quanta(1), quanta(4)],
        [(Some(299), Some(300)), (Some(299), Some(300)), (Some(74), Some(75))]
    );
}

/// Turns of a queue: new, then one of those that take turns; empty, then out.
#[test]
fn how_a_queue_changes_its_turn() {
    let mut queue = queue(1);
    queue.push(0, data(0, 1_000, 0));
    assert_eq!(
        (queue.flows[0].turn, queue.new.len(), queue.old.len(), queue.hosts[0]),
        (Turn::Sparse, 1, 0, 0)
    );
    assert!((299..=300).contains(&queue.flows[0].deficit));
    queue.push(0, data(0, 1_000, 1));
    assert_eq!(queue.new.len(), 1, "once");
    // The first frame uses the quantum up; the queue is paid, and counted with its host from then on.
    queue.pop(0);
    assert_eq!((queue.flows[0].turn, queue.flows[0].deficit <= -700), (Turn::Sparse, true));
    queue.pop(MS);
    assert_eq!(
        (queue.flows[0].turn, queue.new.len(), queue.old.len(), queue.hosts[0]),
        (Turn::Bulk, 0, 1, 1)
    );
    // Empty: while its deficit is paid it keeps its place, then it leaves.
    assert!(queue.pop(2 * MS).is_none());
    assert_eq!(queue.flows[0].turn, Turn::Bulk, "there was nothing to look for");
    queue.push(3 * MS, data(0, 50, 2));
    queue.push(3 * MS, data(0, 50, 3));
    queue.pop(3 * MS);
    queue.pop(3 * MS);
    assert_eq!((queue.frames, queue.bytes), (0, 0));
}

#[test]
fn an_empty_queue_that_has_used_up_its_deficit_waits_without_being_counted() {
    let mut queue = queue(2);
    queue.push(0, data(0, 1_000, 0));
    queue.push(0, data(1, 100, 0));
    queue.pop(0);
    // Flow 0 is empty and in debt: it waits among the others, and flow 1 is served.
    assert_eq!(queue.pop(MS).expect("a frame").0.flow, 1);
    assert_eq!((queue.flows[0].turn, queue.hosts[0], queue.old.len()), (Turn::SparseWait, 0, 1));
    // With a frame it is one of those that take turns.
    queue.push(MS, data(0, 100, 1));
    assert_eq!((queue.flows[0].turn, queue.hosts[0], queue.new.len()), (Turn::Bulk, 1, 1));
}

#[test]
fn a_queue_that_leaves_is_not_counted_any_more() {
    for (turn, hosts) in [(Turn::Bulk, 1), (Turn::Sparse, 2)] {
        let mut queue = queue(1);
        (queue.hosts[0], queue.flows[0].turn) = (2, turn);
        queue.leave(0, 0);
        assert_eq!((queue.flows[0].turn, queue.hosts[0]), (Turn::None, hosts));
    }
}
