use super::super::packet::MILLISECOND;
use super::*;

fn receiver() -> Receiver {
    let mut receiver = Receiver::new(Jiffies::default(), false);
    receiver.connected(20 * MILLISECOND);
    receiver
}

fn data(number: u32) -> Data {
    Data { number, stamp: 1_000 + number, push: false }
}

/// A receiver that has left the quick acknowledgements of the beginning behind it, with the number and the time of what comes next.
fn settled() -> (Receiver, u32, Time) {
    let mut receiver = receiver();
    for number in 0..17 {
        receiver.arrive(u64::from(number) * MILLISECOND, data(number));
    }
    // The 17th waits; with the 18th it is acknowledged.
    assert!(receiver.arrive(17 * MILLISECOND, data(17)).0.is_some());
    (receiver, 18, 18 * MILLISECOND)
}

#[test]
fn the_first_sixteen_segments_are_acknowledged_at_once() {
    let mut receiver = receiver();
    for number in 0..16 {
        let (ack, fresh) = receiver.arrive(u64::from(number) * MILLISECOND, data(number));
        assert_eq!((ack.map(|ack| ack.next), fresh), (Some(number + 1), true));
    }
    assert_eq!(receiver.arrive(16 * MILLISECOND, data(16)).0, None);
}

#[test]
fn then_every_second_one_or_after_40_ms() {
    let (mut receiver, next, now) = settled();
    assert_eq!(receiver.arrive(now, data(next)).0, None);
    let due = receiver.deadline().expect("a timer");
    // Segments came each millisecond, so the delay has become the shortest, which jiffies of 4 ms cut by less than two of them.
    assert!((now + 32 * MILLISECOND..=now + 40 * MILLISECOND).contains(&due), "{}", due - now);
    assert_eq!(receiver.expire(due - 1), None);
    assert_eq!(receiver.expire(due).map(|ack| ack.next), Some(next + 1));
    assert_eq!(receiver.deadline(), None);
    assert_eq!(receiver.arrive(due, data(next + 1)).0, None);
    assert_eq!(receiver.arrive(due, data(next + 2)).0.map(|ack| ack.next), Some(next + 3));
}

#[test]
fn after_a_pause_longer_than_the_timeout_sixteen_are_acknowledged_at_once() {
    // The handshake took 20 ms, so the timeout is 220 ms.
    for (pause_ms, at_once) in [(208, false), (236, true)] {
        let (mut receiver, next, now) = settled();
        let now = now + pause_ms * MILLISECOND;
        assert_eq!(receiver.arrive(now, data(next)).0.is_some(), at_once, "{pause_ms}");
    }
}

#[test]
fn a_segment_with_psh_is_acknowledged_at_once() {
    let (mut receiver, next, now) = settled();
    let pushed = Data { push: true, ..data(next) };
    assert_eq!(receiver.arrive(now, pushed).0.map(|ack| ack.next), Some(next + 1));
    assert_eq!((receiver.arrive(now, data(next + 1)).0, receiver.deadline().is_some()), (None, true));
}

#[test]
fn what_lies_behind_a_hole_is_reported_the_latest_first() {
    let (mut receiver, next, now) = settled();
    let block = |from, to| Block { from: next + from, to: next + to };
    let mut blocks = |number: u32| {
        let ack = receiver.arrive(now, data(next + number)).0.expect("an ACK at once");
        assert_eq!(ack.next, next);
        ack.sacks().to_vec()
    };
    assert_eq!(blocks(1), [block(1, 2)]);
    assert_eq!(blocks(3), [block(3, 4), block(1, 2)]);
    assert_eq!(blocks(5), [block(5, 6), block(3, 4), block(1, 2)]);
    assert_eq!(blocks(2), [block(1, 4), block(5, 6)]);
    // The hole is filled: all up to the next one is acknowledged at once.
    let ack = receiver.arrive(now, data(next)).0.expect("an ACK");
    assert_eq!((ack.next, ack.sacks()), (next + 4, [block(5, 6)].as_slice()));
}

#[test]
fn a_duplicate_is_reported_and_counts_once() {
    let (mut receiver, next, now) = settled();
    let (ack, fresh) = receiver.arrive(now, data(next - 1));
    assert_eq!((ack.and_then(|ack| ack.twice), fresh), (Some(next - 1), false));
}

#[test]
fn the_echo_is_of_the_segment_that_is_acknowledged() {
    let (mut receiver, next, now) = settled();
    receiver.arrive(now, Data { stamp: 9_000, ..data(next + 1) });
    let ack = receiver.arrive(now, Data { stamp: 8_000, ..data(next) }).0.expect("an ACK");
    // RFC 7323, section 4.3: the one that filled the hole, not the later one behind it.
    assert_eq!(ack.echo, 8_000);
}

/// With a round trip of 20 ms and a timeout of 220 ms, in jiffies of 4 ms. A segment comes so many after the one before.
#[test]
fn the_delay_follows_the_pauses_between_segments() {
    let estimated = |delay, pause: u64| {
        let mut receiver = Receiver { delay, last_arrival: 1_000, ..receiver() };
        receiver.estimate_delay(1_000 + pause);
        assert_eq!(receiver.last_arrival, 1_000 + pause);
        (receiver.delay, receiver.quick)
    };
    assert_eq!(estimated(0, 99), (10, 16), "the first");
    assert_eq!([estimated(40, 5), estimated(41, 0)], [(25, 0), (25, 0)]);
    assert_eq!([estimated(40, 6), estimated(40, 39)], [(26, 0), (55, 0)]);
    assert_eq!([estimated(40, 40), estimated(40, 55), estimated(40, 56)], [(40, 0), (40, 0), (40, 16)]);
    assert_eq!(estimated(100, 30), (55, 0), "the timeout at most");
    let mut receiver = Receiver { delay: 40, quick: 20, ..receiver() };
    receiver.estimate_delay(1_000);
    assert_eq!(receiver.quick, 20);
}

#[test]
fn a_delayed_acknowledgement_is_due_within_a_round_trip_and_200_ms() {
    let due = |round_trip, delay, due| {
        let mut receiver = Receiver { round_trip, delay, due, next: 5, ..receiver() };
        let ack = receiver.delay(1_000).map(|ack| ack.next);
        (ack, receiver.due)
    };
    assert_eq!(
        [due(5, 10, None), due(5, 40, None), due(5, 9, None)],
        [(None, Some(1_010)), (None, Some(1_010)), (None, Some(1_009))]
    );
    assert_eq!([due(30, 40, None), due(30, 20, None)], [(None, Some(1_030)), (None, Some(1_020))]);
    assert_eq!([due(100, 90, None), due(900, 900, None)], [(None, Some(1_050)), (None, Some(1_050))]);
    // One that is due within a quarter of it goes out now; the earlier one stays.
    assert_eq!(
        [due(100, 40, Some(1_010)), due(100, 40, Some(1_011)), due(100, 40, Some(1_050))],
        [(Some(5), None), (None, Some(1_011)), (None, Some(1_040))]
    );
}

#[test]
fn a_delayed_acknowledgement_that_was_needed_makes_the_next_wait_longer() {
    let expired = |delay, jiffy: u64| {
        let mut receiver = Receiver { delay, due: Some(1_000), ..receiver() };
        let ack = receiver.expire(jiffy * 4 * MILLISECOND).is_some();
        (ack, receiver.delay, receiver.due)
    };
    assert_eq!(
        [expired(10, 999), expired(10, 1_000), expired(30, 1_001)],
        [(false, 10, Some(1_000)), (true, 20, None), (true, 55, None)]
    );
    assert_eq!(receiver().expire(MILLISECOND), None);
}

#[test]
fn the_last_of_the_quick_acknowledgements_begins_with_the_shortest_delay() {
    for (quick, left, delay) in [(2, 1, 40), (1, 0, 10), (0, 0, 40)] {
        let mut receiver = Receiver { quick, delay: 40, next: 7, due: Some(5), ..receiver() };
        receiver.acknowledge(None);
        assert_eq!((receiver.quick, receiver.delay, receiver.acked, receiver.due), (left, delay, 7, None));
    }
}

#[test]
fn what_has_arrived_before_brings_back_quick_acknowledgements() {
    let (mut receiver, next, now) = settled();
    receiver.arrive(now, data(next + 2));
    receiver.delay = 40;
    // In order, and behind a hole. The duplicate's acknowledgement is the first of sixteen.
    for number in [next - 1, next + 2] {
        receiver.quick = 0;
        let (ack, fresh) = receiver.arrive(now, data(number));
        assert_eq!((ack.map(|ack| (ack.next, ack.twice)), fresh), (Some((next, Some(number))), false));
        assert_eq!((receiver.quick, receiver.delay), (15, 10));
    }
}

#[test]
fn islands_grow_at_both_ends_and_meet() {
    let kept = |islands: &[(u32, u32)], number| {
        let block = |(from, to): &(u32, u32)| Block { from: *from, to: *to };
        let mut receiver = Receiver { islands: islands.iter().map(block).collect(), ..receiver() };
        receiver.keep(number);
        let islands: Vec<(u32, u32)> = receiver.islands.iter().map(|it| (it.from, it.to)).collect();
        islands
    };
    assert_eq!(kept(&[(5, 7)], 2), [(2, 3), (5, 7)]);
    assert_eq!([kept(&[(5, 7)], 4), kept(&[(5, 7)], 7)], [[(4, 7)], [(5, 8)]]);
    assert_eq!([kept(&[(5, 7)], 3), kept(&[(5, 7)], 8)], [[(3, 4), (5, 7)], [(5, 7), (8, 9)]]);
    assert_eq!(kept(&[(1, 3), (5, 7), (8, 9)], 7), [(1, 3), (5, 9)]);
    let receiver = Receiver { islands: vec![Block { from: 5, to: 7 }], ..receiver() };
    assert_eq!([4, 5, 6, 7].map(|number| receiver.has_island(number)), [false, true, true, false]);
}

#[test]
fn four_islands_are_remembered() {
    let (mut receiver, next, now) = settled();
    (1..=6).for_each(|island| _ = receiver.arrive(now, data(next + 2 * island)));
    let reported: Vec<u32> = receiver.reported.iter().map(|it| it.from - next).collect();
    assert_eq!(reported, [12, 10, 8, 6]);
    // What is acknowledged is reported no more.
    (0..=6).for_each(|number| _ = receiver.arrive(now, data(next + number)));
    let reported: Vec<u32> = receiver.reported.iter().map(|it| it.from - next).collect();
    assert_eq!(reported, [12, 10, 8]);
}
