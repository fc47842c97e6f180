use super::super::congestion::CongestionControl;
use super::super::packet::{Ack, Block, MILLISECOND, SECOND};
use super::*;

pub(super) fn sender(which: CongestionControl) -> Sender {
    made(which, 50 * MILLISECOND, u32::MAX, false)
}

/// A sender that never runs out of data.
pub(super) fn made(which: CongestionControl, round_trip: Time, most: u32, paced: bool) -> Sender {
    let algorithm = Algorithm::new(which, &mut fastrand::Rng::with_seed(0));
    let mut sender = Sender::new(Jiffies::default(), algorithm, most, paced);
    sender.connected(0, round_trip);
    sender.offer(u32::MAX);
    sender
}

pub(super) fn numbers(sender: &mut Sender) -> Vec<u32> {
    sender.outgoing().map(|data| data.number).collect()
}

pub(super) fn acknowledge(sender: &mut Sender, now: Time, next: u32, blocks: &[(u32, u32)]) -> Vec<u32> {
    let blocks: Vec<Block> = blocks.iter().map(|(from, to)| Block { from: *from, to: *to }).collect();
    sender.acknowledged(now, &Ack::new(next, stamp(now) - 50, None, &blocks));
    numbers(sender)
}

/// A sender in congestion avoidance with a window of 20 segments, all under way.
pub(super) fn steady(which: CongestionControl) -> (Sender, Time) {
    let mut sender = sender(which);
    sender.window.threshold = 20;
    sender.start(100 * MILLISECOND);
    assert_eq!(numbers(&mut sender), (0..10).collect::<Vec<_>>());
    let now = 150 * MILLISECOND;
    for next in 1..=10 {
        acknowledge(&mut sender, now, next, &[]);
    }
    assert_eq!((sender.window(), sender.in_flight()), (20, 20));
    (sender, now)
}

#[test]
fn slow_start_doubles_the_window_in_a_round_trip() {
    let mut sender = sender(CongestionControl::Reno);
    sender.start(100 * MILLISECOND);
    assert_eq!(numbers(&mut sender).len(), 10);
    for next in [2, 4, 6, 8, 10] {
        acknowledge(&mut sender, 150 * MILLISECOND, next, &[]);
    }
    assert_eq!(sender.window(), 20);
}

#[test]
fn the_last_segment_of_a_burst_or_of_what_was_written_carries_psh() {
    let pushes = |sender: &mut Sender| sender.outgoing().map(|data| data.push).collect::<Vec<_>>();
    // A burst that a whole window fits into.
    let mut sender = sender(CongestionControl::Reno);
    sender.pacing.rate = 100_000_000;
    sender.start(100 * MILLISECOND);
    assert_eq!(pushes(&mut sender), [false, false, false, false, false, false, false, false, false, true]);
    // Its copy carries it too; others do not.
    for (at, push) in [(9, true), (8, false)] {
        sender.send_again(110 * MILLISECOND, at);
        assert_eq!(pushes(&mut sender), [push]);
    }
    // One segment at a time: written alone, or out of much more.
    for (offered, push) in [(1, true), (99, false)] {
        let mut sender = Sender::new(Jiffies::default(), Algorithm::Reno, 1, false);
        sender.connected(0, 50 * MILLISECOND);
        sender.offer(offered);
        sender.start(0);
        assert_eq!(pushes(&mut sender), [push], "{offered}");
    }
}

#[test]
fn a_lost_segment_is_sent_again_once_and_the_window_ends_at_the_threshold() {
    for (which, after) in [(CongestionControl::Reno, 10), (CongestionControl::Cubic, 14)] {
        let (mut sender, now) = steady(which);
        // SentSegment 10 is lost; 11 to 29 arrive.
        let now = now + 50 * MILLISECOND;
        let mut again = Vec::new();
        for to in 12..=30 {
            again.extend(acknowledge(&mut sender, now + u64::from(to) * MICROSECOND, 10, &[(11, to)]));
        }
        assert_eq!(again.iter().filter(|number| **number == 10).count(), 1, "{which:?}: {again:?}");
        assert!(again.iter().all(|number| *number == 10 || *number >= 30), "{again:?}");
        assert_eq!(sender.state, State::Recovery);
        let end = sender.high;
        acknowledge(&mut sender, now + 60 * MILLISECOND, end, &[]);
        assert_eq!((sender.state, sender.window.threshold), (State::Open, after), "{which:?}");
        assert!((after..=after + 1).contains(&sender.window()), "{which:?}: {}", sender.window());
    }
}

#[test]
fn recovery_sends_the_share_of_what_arrives() {
    // RFC 6937: of 20 delivered segments a window that is halved lets 10 out.
    let (mut sender, now) = steady(CongestionControl::Reno);
    let now = now + 50 * MILLISECOND;
    let sent: usize = (12..=30)
        .map(|to| acknowledge(&mut sender, now + u64::from(to) * MICROSECOND, 10, &[(11, to)]).len())
        .sum();
    assert!((9..=10).contains(&sent), "{sent}");
}

#[test]
fn silence_is_probed_then_times_out_and_the_window_is_one_segment() {
    let (mut sender, _) = steady(CongestionControl::Reno);
    let due = sender.deadline().expect("a timer");
    sender.expire(due);
    // The probe is new data.
    assert_eq!(numbers(&mut sender), [30]);
    let due = sender.deadline().expect("a timer");
    sender.expire(due);
    assert_eq!(numbers(&mut sender), [10]);
    assert_eq!((sender.repeats, sender.window(), sender.in_flight()), (1, 1, 1));
    // Each further timeout takes twice as long.
    let first = sender.deadline().expect("a timer") - due;
    sender.expire(due + first);
    let second = sender.deadline().expect("a timer") - due - first;
    assert!(second.abs_diff(2 * first) <= 8 * MILLISECOND, "{first} {second}");
}

#[test]
fn a_needless_timeout_is_undone() {
    let (mut sender, _) = steady(CongestionControl::Reno);
    for _ in 0..2 {
        let due = sender.deadline().expect("a timer");
        sender.expire(due);
    }
    numbers(&mut sender);
    // Everything had only been late: the ACK echoes a stamp from before the retransmission.
    let now = sender.deadline().expect("a timer") - 1;
    sender.acknowledged(now, &Ack::new(30, 150, None, &[]));
    assert_eq!(sender.state, State::Open);
    assert!(sender.window() >= 20, "{}", sender.window());
}

#[test]
fn pacing_spreads_a_window_over_the_round_trip() {
    let mut sender = made(CongestionControl::Reno, 100 * MILLISECOND, u32::MAX, true);
    sender.window.threshold = 5;
    sender.start(0);
    numbers(&mut sender);
    let mut now = SECOND / 10;
    sender.acknowledged(now, &Ack::new(10, 0, None, &[]));
    let mut times: Vec<Time> = sender.outgoing().map(|_| now).collect();
    while times.len() < 10 {
        now = sender.deadline().expect("a timer");
        sender.expire(now);
        times.extend(sender.outgoing().map(|_| now));
    }
    // Ten segments in bursts of two, at 1.2 windows of ten for each 100 ms: 16.7 ms from burst to burst, the first of them shorter by the credit.
    let length = times[8] - times[0];
    assert!((50 * MILLISECOND..67 * MILLISECOND).contains(&length), "{length}");
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn socket_buffers_limit_what_is_under_way() {
    let mut sender = made(CongestionControl::Reno, 50 * MILLISECOND, 6, false);
    sender.start(0);
    assert_eq!(numbers(&mut sender).len(), 6);
    for round in 1..=20_u32 {
        acknowledge(&mut sender, u64::from(round) * 50 * MILLISECOND, 6 * round, &[]);
        assert_eq!(sender.in_flight(), 6);
    }
    // A window that is not the limit does not grow for ever.
    assert!(sender.window() <= 24, "{}", sender.window());
}

#[test]
fn without_more_data_the_last_segment_probes_for_a_loss() {
    let mut sender = Sender::new(Jiffies::default(), Algorithm::Reno, 99, false);
    sender.connected(0, 50 * MILLISECOND);
    sender.start(0);
    assert!(numbers(&mut sender).is_empty());
    sender.offer(3);
    sender.start(0);
    assert_eq!(numbers(&mut sender), [0, 1, 2]);
    let due = sender.deadline().expect("a timer");
    sender.expire(due);
    assert_eq!(numbers(&mut sender), [2]);
    sender.offer(9);
    sender.stop();
    assert!(acknowledge(&mut sender, due + 50 * MILLISECOND, 3, &[]).is_empty());
}

/// Segments that have never been sent again, sent at these milliseconds.
pub(super) fn under_way(sent_ms: &[u64]) -> Sender {
    let mut sender = sender(CongestionControl::Reno);
    for at in sent_ms {
        sender.send_new(at * MILLISECOND, false);
    }
    sender.outgoing();
    (sender.timer, sender.undo) = (None, Undo::default());
    sender
}

#[test]
fn pacing_allows_1_2_windows_for_each_round_trip_and_two_in_slow_start() {
    // 20 segments of 1,448 bytes each 50 ms are 579,200 B/s.
    for (segments, threshold, rate) in [(20, 40, 695_040), (20, 42, 1_158_400), (10, 20, 347_520)] {
        let mut sender = sender(CongestionControl::Reno);
        (sender.window.segments, sender.window.threshold) = (segments, threshold);
        sender.update_pacing_rate();
        assert_eq!(sender.pacing.rate, rate);
    }
    let mut sender = under_way(&[0; 15]);
    (sender.window.segments, sender.window.threshold) = (10, 10);
    sender.update_pacing_rate();
    assert_eq!(sender.pacing.rate, 15 * 1_448 * 20 * 12 / 10, "as many as are under way");
}

#[test]
fn what_is_under_way_is_what_was_sent_less_what_arrived_or_was_lost() {
    let mut sender = under_way(&[0; 6]);
    assert_eq!(sender.in_flight(), 6);
    sender.mark_lost(2);
    sender.mark_lost(2);
    assert_eq!((sender.in_flight(), sender.lost, sender.lost_ever, sender.hint), (5, 1, 1, 0));
    sender.hint = 4;
    sender.send_again(10 * MILLISECOND, 2);
    assert_eq!((sender.in_flight(), sender.again), (6, 1));
    // The copy is lost too: that counts once more.
    sender.mark_lost(2);
    assert_eq!(
        (sender.in_flight(), sender.lost, sender.lost_ever, sender.again, sender.hint),
        (5, 1, 2, 0, 2)
    );
}

#[test]
fn an_application_that_has_sent_all_is_the_limit() {
    let limited = |offered: u32, window, lost, again| {
        let mut sender = Sender { delivered: 11, ..under_way(&[0; 6]) };
        (sender.offered, sender.window.segments, sender.lost, sender.again) = (offered, window, lost, again);
        sender.delivery.app_limited = 0;
        sender.offer(1);
        sender.delivery.app_limited
    };
    assert_eq!(limited(6, 7, 0, 0), 17);
    assert_eq!([limited(7, 7, 0, 0), limited(6, 6, 0, 0), limited(6, 7, 1, 0)], [0, 0, 0]);
    assert_eq!(limited(6, 7, 1, 1), 17);
}
