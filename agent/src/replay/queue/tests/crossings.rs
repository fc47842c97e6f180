//! What is recognised as the same packet, and what becomes of those that are not.

use super::*;
use crate::replay::tests::craft::flag;

fn crossings(steps: &[BufferStep<'_>]) -> Crossings {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, steps);
    queue.crossings
}

/// Whether a packet that leaves is taken for the one that entered.
fn is_same(entered: &Tcp, left: &Tcp) -> bool {
    let found = crossings(&[In(0, entered), Out(5, left, 1_000)]);
    assert_eq!(found.matched + found.unmatched, 1);
    found.matched == 1
}

#[test]
fn a_packet_is_recognised_by_all_its_numbers() {
    let packet = || up().seq(5_000).payload(100).ts(7, 3);
    assert!(is_same(&packet(), &packet()));
    assert!(is_same(&packet(), &up().seq(5_000).payload(100).ts(7, 99)), "the echo is not the packet's own");
    for (what, other) in [
        ("number", packet().seq(5_001)),
        ("length", packet().payload(101)),
        ("acknowledgement", packet().ack(2)),
        ("flags", packet().flags(flag::ACK | flag::FIN)),
        ("stamp", up().seq(5_000).payload(100).ts(8, 3)),
        ("no stamp", up().seq(5_000).payload(100)),
        ("port", packet().home_port(9)),
    ] {
        assert!(!is_same(&packet(), &other), "{what}");
    }
    // A pure ACK is no piece of anything.
    assert!(is_same(&up().seq(9).ack(5), &up().seq(9).ack(5)));
    assert!(!is_same(&up().seq(9).ack(5), &up().seq(8).ack(5)));
}

/// A super-packet leaves in pieces, in order, each inside of what is left of it. Its flags may stand on one of them only.
#[test]
fn pieces_lie_inside_of_the_whole() {
    let whole = up().seq(1_000).payload(3_000).flags(flag::ACK | flag::FIN);
    let piece = |from: u32, to: u32| up().seq(from).payload((to - from) as usize);
    assert!(!is_same(&whole, &piece(999, 2_000)), "begins before it");
    assert!(!is_same(&whole, &piece(3_000, 4_002)), "ends behind it");
    let queue = |pieces: &[Tcp]| {
        let mut queue = ExactQueue::new(0, false);
        queue.enter(0, &sighting(&whole));
        for (index, piece) in pieces.iter().enumerate() {
            queue.leave((index as u64 + 1) * MS, &sighting(piece), 1_000);
        }
        queue.crossings
    };
    let last = up().seq(3_000).payload(1_000).flags(flag::ACK | flag::FIN);
    let all = [piece(1_000, 2_000), piece(2_000, 3_000), last];
    assert_eq!(queue(&all), Crossings { matched: 1, dropped: 0, unmatched: 0 });
    // A piece that leaves again is another packet.
    let twice = [all[0].clone(), all[0].clone()];
    assert_eq!(queue(&twice), Crossings { matched: 0, dropped: 0, unmatched: 1 });
}

/// Of a super-packet that leaves in part the rest was dropped, but it did leave.
#[test]
fn what_left_in_part_is_no_drop() {
    let whole = up().seq(1).payload(3_000);
    let (piece, next) = (up().seq(1).payload(1_000), up().seq(9_001).payload(50));
    let found = crossings(&[In(0, &whole), In(1, &next), Out(2, &piece, 1_040), Out(3, &next, 90)]);
    assert_eq!(found, Crossings { matched: 1, dropped: 0, unmatched: 0 });
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[In(0, &whole), In(1, &next), Out(2, &piece, 1_040), Out(10, &next, 90)]);
    queue.finish(10 * MS);
    // 1,040 bytes for 2 ms and 90 for 9 ms.
    assert_eq!(means(&mut queue), [(2_080.0 + 810.0) / 10.0]);
}

/// Numbers run over at 2³².
#[test]
fn pieces_may_lie_across_the_end_of_numbers() {
    let whole = up().seq(u32::MAX - 999).payload(2_000);
    let (first, second) = (up().seq(u32::MAX - 999).payload(1_000), up().seq(0).payload(1_000));
    let found = crossings(&[In(0, &whole), Out(1, &first, 1_040), Out(2, &second, 1_040)]);
    assert_eq!(found, Crossings { matched: 1, dropped: 0, unmatched: 0 });
}

/// Other protocols are distinguished by length and by what stands behind ports and checksum.
#[test]
fn datagrams_are_distinguished_by_their_content() {
    let datagram = |byte: u8| up().protocol(17).payload(20).patch(20 + 8, byte);
    assert!(is_same(&datagram(1), &datagram(1)));
    assert!(!is_same(&datagram(1), &datagram(2)));
    assert!(!is_same(&datagram(1), &up().protocol(17).payload(21).patch(28, 1)));
    // Ports and checksum, of which a gateway makes others, do not count.
    assert!(is_same(&datagram(1), &datagram(1).patch(20, 9).patch(27, 9)));
    assert!(!is_same(&datagram(1), &up().protocol(47).payload(20).patch(28, 1)), "another protocol");
}

/// A packet that entered after it left (two clocks, read at two places) waited for no time.
#[test]
fn nothing_leaves_before_it_entered() {
    let mut queue = ExactQueue::new(0, false);
    queue.enter(6 * MS, &sighting(&data(0)));
    queue.leave(5 * MS, &sighting(&data(0)), 1_040);
    queue.finish(10 * MS);
    assert_eq!(means(&mut queue), [0.0]);
    assert_eq!(queue.crossings.matched, 1);
}

/// Thirty seconds is how long a packet is waited for.
#[test]
fn patience_is_thirty_seconds() {
    let dropped = |now_ns: u64| {
        let mut queue = ExactQueue::new(0, false);
        queue.enter(5, &sighting(&data(0)));
        queue.settle(now_ns);
        queue.crossings.dropped
    };
    assert_eq!((dropped(30_000 * MS + 5), dropped(30_000 * MS + 6)), (0, 1));
}

/// At most 2¹⁶ packets wait: one more, and the oldest is given up.
#[test]
fn so_many_packets_wait_and_no_more() {
    let mut queue = ExactQueue::new(0, false);
    let packet = |number: u32| up().seq(number).payload(1).home_port((number % 60_000) as u16);
    for number in 0..1 << 16 {
        queue.enter(0, &sighting(&packet(number)));
    }
    assert_eq!(queue.crossings.dropped, 0);
    queue.enter(0, &sighting(&packet(1 << 16)));
    assert_eq!(queue.crossings.dropped, 1);
    // The first is not waited for any more, the second is.
    queue.leave(1, &sighting(&packet(0)), 41);
    assert_eq!((queue.crossings.matched, queue.crossings.unmatched), (0, 1));
    queue.leave(1, &sighting(&packet(1)), 41);
    assert_eq!(queue.crossings.matched, 1);
}

/// The search within a flow ends after 4,096 packets.
#[test]
fn a_flow_is_searched_so_far() {
    let matched = |position: u32| {
        let mut queue = ExactQueue::new(0, false);
        for number in 0..=position {
            queue.enter(0, &sighting(&data(number)));
        }
        queue.leave(1, &sighting(&data(position)), 1_040);
        queue.crossings.matched
    };
    assert_eq!((matched(4_095), matched(4_096)), (1, 0));
}

/// Packets that were inside before a silence have no fate; those that come after it are seen as before.
#[test]
fn what_was_inside_before_a_silence_is_forgotten() {
    let mut queue = ExactQueue::new(0, false);
    run(&mut queue, &[In(0, &data(0)), In(99, &data(1)), In(100, &data(2))]);
    queue.restart(100 * MS);
    assert_eq!(queue.crossings, Crossings::default());
    queue.leave(104 * MS, &sighting(&data(2)), 1_040);
    queue.leave(105 * MS, &sighting(&data(0)), 1_040);
    queue.finish(110 * MS);
    assert_eq!(queue.crossings, Crossings { matched: 1, dropped: 0, unmatched: 1 });
    assert_eq!(means(&mut queue), [416.0], "1,040 bytes for 4 ms of 10");
}

/// What leaves under another name belongs to the flow of the same remote end that waits with the same numbers.
#[test]
fn another_remote_end_is_no_translated_flow() {
    let entered = up().home_port(1_000).seq(500).payload(100);
    let left = |remote_port: u8| up().home_port(61_000).seq(500).payload(100).patch(23, remote_port);
    for (translates, remote_port, matched) in [(true, 80, 1), (true, 81, 0), (false, 80, 0)] {
        let mut queue = ExactQueue::new(0, translates);
        queue.enter(0, &sighting(&entered));
        queue.leave(1, &sighting(&left(remote_port)), 140);
        assert_eq!(queue.crossings.matched, matched, "{translates} {remote_port}");
    }
}
