use super::super::super::congestion::Algorithm;
use super::super::super::packet::SECOND;
use super::super::tests::{numbers, under_way};
use super::*;

const MS: Time = MILLISECOND;

/// Round trips of 50 ms: a timeout of 250 ms, which are 63 jiffies of 4 ms. At 100 ms so many segments are under way.
fn sender(count: usize) -> Sender {
    let sender = under_way(&vec![100; count]);
    assert_eq!(sender.timeout(), 252 * MS);
    sender
}

#[test]
fn a_probe_comes_two_round_trips_and_two_jiffies_after_what_was_sent() {
    let probe = |count, at, advancing| {
        let mut sender = sender(count);
        sender.schedule_probe(at * MS, advancing).then(|| sender.timer.map(|(_, due)| due / MS)).flatten()
    };
    assert_eq!(probe(2, 100, true), Some(208));
    // Of a single segment the reply may be held back for 200 ms: 300 ms, and a timeout is earlier.
    assert_eq!(probe(1, 100, true), Some(352));
    // When the timeout of the first is due, if nothing has arrived; none is left: as if it were just sent.
    assert_eq!(
        [probe(2, 240, true), probe(2, 260, false), probe(2, 360, false)],
        [Some(348), Some(352), Some(468)]
    );
    assert_eq!(probe(0, 100, true), None);
    let mut sender = Sender { state: State::Disorder, ..sender(2) };
    assert!(!sender.schedule_probe(100 * MS, true));
    assert_eq!(sender.timer, None);
}

#[test]
fn a_single_segment_of_a_short_round_trip_is_probed_200_ms_later() {
    let mut sender = sender(1);
    sender.connected(0, MS);
    // A timeout of 201 ms, which are 204; 202 ms are less.
    sender.schedule_probe(100 * MS, true);
    assert_eq!(sender.timer, Some((Timer::Probe, 304 * MS)));
    sender.connected(0, 500 * MS);
    sender.schedule_probe(100 * MS, true);
    assert_eq!(sender.timer, Some((Timer::Probe, 1_300 * MS)), "two round trips and 200 ms");
}

#[test]
fn the_timeout_after_a_probe_is_that_of_the_first_segment() {
    let armed = |timer, at| {
        let mut sender = Sender { timer, ..sender(2) };
        sender.rearm(at * MS);
        sender.timer.map(|(timer, due)| (timer, due / MS))
    };
    for (timer, due) in [
        (None, 452),
        (Some((Timer::Retransmission, 0)), 452),
        (Some((Timer::Probe, 0)), 352),
        (Some((Timer::Reordering, 0)), 352),
    ] {
        assert_eq!(armed(timer, 200), Some((Timer::Retransmission, due)));
    }
    assert_eq!(armed(Some((Timer::Probe, 0)), 400), Some((Timer::Retransmission, 404)), "at the next jiffy");
    let mut sender = Sender { timer: Some((Timer::Retransmission, 9)), ..sender(0) };
    sender.rearm(100 * MS);
    assert_eq!(sender.timer, None, "nothing is under way");
}

#[test]
fn a_timeout_is_doubled_up_to_two_minutes() {
    let timeout = |doublings| Sender { doublings, ..sender(1) }.timeout() / MS;
    assert_eq!(
        [timeout(1), timeout(3), timeout(8), timeout(9), timeout(60)],
        [504, 2_016, 64_512, 120_000, 120_000]
    );
}

#[test]
fn the_first_of_timer_and_pacing_is_due() {
    let due = |timer: Option<Time>, pacing| {
        let mut sender = Sender { timer: timer.map(|at| (Timer::Probe, at)), ..sender(1) };
        sender.pacing.due = pacing;
        sender.deadline()
    };
    assert_eq!([due(None, None), due(Some(5), None), due(None, Some(6))], [None, Some(5), Some(6)]);
    assert_eq!([due(Some(5), Some(6)), due(Some(7), Some(6))], [Some(5), Some(6)]);
}

#[test]
fn a_timer_does_what_it_is_for_when_it_is_due_and_not_before() {
    let mut sender = Sender { timer: Some((Timer::Probe, 208 * MS)), ..sender(2) };
    sender.window.segments = 2;
    sender.expire(208 * MS - 1);
    assert!(numbers(&mut sender).is_empty());
    sender.expire(208 * MS);
    assert_eq!(numbers(&mut sender), [2]);
    assert_eq!((sender.probe, sender.timer), (Some(3), Some((Timer::Retransmission, 460 * MS))));
    // A second probe is none: the timeout of what was sent first.
    sender.timer = Some((Timer::Probe, 212 * MS));
    sender.expire(212 * MS);
    assert!(numbers(&mut sender).is_empty());
    assert_eq!(sender.timer, Some((Timer::Retransmission, 352 * MS)));
    // Without anything under way nothing happens.
    let mut empty = Sender { timer: Some((Timer::Retransmission, 5)), ..under_way(&[]) };
    empty.expire(5);
    assert!(numbers(&mut empty).is_empty() && empty.timer.is_none());
}

#[test]
fn a_probe_is_the_last_segment_again_where_the_socket_buffers_are_full() {
    for (most, offered, probe) in [(2, 9, 1), (3, 9, 2), (3, 2, 1)] {
        let mut sender = Sender { most, offered, ..sender(2) };
        sender.timer = Some((Timer::Probe, 208 * MS));
        sender.expire(208 * MS);
        assert_eq!(numbers(&mut sender), [probe], "{most} {offered}");
    }
}

#[test]
fn what_pacing_held_back_is_sent_when_it_is_due() {
    let mut sender = sender(0);
    (sender.pacing.paced, sender.pacing.ready, sender.pacing.due) = (true, 100 * MS, Some(100 * MS));
    sender.expire(100 * MS - 1);
    assert!(numbers(&mut sender).is_empty() && sender.pacing.due.is_some());
    sender.expire(100 * MS);
    // And what 10 segments in 50 ms, twice as fast, hold back of the next two.
    assert_eq!((numbers(&mut sender).len(), sender.pacing.due), (10, Some(105 * MS)));
}

#[test]
fn a_timeout_takes_for_lost_what_is_older_than_a_round_trip() {
    let mut sender = under_way(&[0, 10, 20, 30]);
    sender.rack.round_trip = 50_000;
    sender.board[3].sacked = true;
    sender.mark_old_lost(60 * MS);
    let lost: Vec<bool> = sender.board.iter().map(|segment| segment.lost).collect();
    assert_eq!(lost, [true, true, false, false]);
    let mut sender = under_way(&[40, 50]);
    sender.rack.round_trip = 50_000;
    sender.mark_old_lost(60 * MS);
    assert_eq!((sender.board[0].lost, sender.lost), (true, 1), "the first in any case");
}

#[test]
fn a_timeout_begins_anew_with_one_segment() {
    let mut sender = under_way(&[0; 20]);
    (sender.window.segments, sender.window.threshold, sender.window.count) = (20, 12, 7);
    (sender.probe, sender.hint, sender.algorithm) = (Some(9), 5, Algorithm::Reno);
    sender.time_out(SECOND);
    assert_eq!(numbers(&mut sender), [0]);
    assert_eq!((sender.window.segments, sender.window.threshold, sender.window.count), (1, 10, 0));
    assert_eq!((sender.state, sender.high, sender.probe, sender.hint), (State::Loss, 20, None, 0));
    assert_eq!((sender.doublings, sender.repeats, sender.in_flight()), (1, 1, 1));
    assert_eq!((sender.undo.from, sender.undo.window, sender.undo.threshold), (Some(0), 20, 15));
    assert_eq!(sender.timer, Some((Timer::Retransmission, SECOND + 504 * MS)));
    // A second one in a row does not lower the threshold again.
    sender.time_out(2 * SECOND);
    assert_eq!((sender.window.threshold, sender.undo.window, sender.doublings), (10, 20, 2));
    // One after something new was acknowledged does.
    (sender.repeats, sender.window.segments) = (0, 8);
    sender.time_out(3 * SECOND);
    assert_eq!((sender.window.threshold, sender.undo.window), (4, 8));
}

#[test]
fn the_end_of_the_reordering_window_takes_for_lost_what_is_late() {
    // The segment sent at 20 ms has arrived after 50 ms. Those sent before are late after a quarter of a round trip more.
    let waiting = || {
        let mut sender = under_way(&[0, 20]);
        (sender.board[1].sacked, sender.sacked, sender.state) = (true, 1, State::Disorder);
        (sender.rack.sent, sender.rack.end, sender.rack.round_trip) = (20 * MS, 1, 50_000);
        sender
    };
    let mut sender = Sender { timer: Some((Timer::Reordering, 70 * MS)), ..waiting() };
    sender.expire(70 * MS);
    assert_eq!((numbers(&mut sender), sender.state), (vec![0], State::Recovery));
    assert_eq!((sender.window.segments, sender.window.threshold), (1, 5));
    // Too early: the timeout of the first.
    let mut sender = Sender { timer: Some((Timer::Reordering, 60 * MS)), ..waiting() };
    sender.expire(60 * MS);
    assert!(numbers(&mut sender).is_empty());
    assert_eq!((sender.state, sender.timer), (State::Disorder, Some((Timer::Retransmission, 252 * MS))));
}
