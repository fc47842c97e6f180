use super::super::super::packet::MILLISECOND;
use super::super::tests::{numbers, under_way};
use super::super::timers::Timer;
use super::*;

const MS: Time = MILLISECOND;

/// Round-trip times that the timeout and the window learn, microseconds, and whether the timer is set. All at 100 ms.
fn learnt(news: News, head_sent: Option<Time>) -> (Option<i64>, i64, bool) {
    let mut sender = under_way(&[0; 5]);
    let (mut news, before) = (news, sender.round_trip.smoothed());
    sender.doublings = 3;
    let for_window = sender.update_round_trip(100 * MS, head_sent, &mut news);
    // The smoothed time goes an eighth of the way.
    let measured = 8 * (sender.round_trip.smoothed() - before) + before;
    assert_eq!(sender.doublings == 0, measured != before);
    (for_window, if measured == before { 0 } else { measured }, news.set_timer)
}

#[test]
fn a_round_trip_is_that_of_the_first_for_the_timeout_and_of_the_last_for_the_window() {
    let acked =
        News { advanced: true, first_acked: Some(10 * MS), last_acked: Some(20 * MS), ..News::default() };
    assert_eq!(learnt(acked, None), (Some(80_000), 90_000, true));
    // What arrived out of order is the latest.
    let both = News { first_sacked: Some(30 * MS), last_sacked: Some(34 * MS), ..acked };
    assert_eq!(learnt(both, None), (Some(66_000), 90_000, true));
    let sacked = News { advanced: false, first_acked: None, last_acked: None, ..both };
    assert_eq!(learnt(sacked, None), (Some(66_000), 70_000, false));
    assert_eq!(learnt(News::default(), None), (None, 0, false));
}

#[test]
fn after_a_copy_the_echo_tells_the_round_trip() {
    let acked = News {
        advanced: true,
        again: true,
        first_acked: Some(10 * MS),
        last_acked: Some(20 * MS),
        echo: 66,
        ..News::default()
    };
    assert_eq!(learnt(acked, None), (Some(34_000), 34_000, true));
    let sacked = News { first_sacked: Some(30 * MS), last_sacked: Some(34 * MS), ..acked };
    assert_eq!(learnt(sacked, None), (Some(66_000), 70_000, true));
    assert_eq!(learnt(News { advanced: false, ..acked }, None), (None, 0, false), "nothing new");
    assert_eq!(learnt(News { echo: 100, ..acked }, None).0, Some(1), "within a tick");
}

#[test]
fn what_was_sent_before_the_copy_of_the_first_sets_the_timer() {
    let sacked = News { first_sacked: Some(30 * MS), last_sacked: Some(30 * MS), ..News::default() };
    for (head, sets) in [(None, false), (Some(29 * MS), false), (Some(30 * MS), false), (Some(31 * MS), true)]
    {
        assert_eq!(learnt(sacked, head).2, sets, "{head:?}");
    }
}

#[test]
fn the_timer_is_set_anew_when_what_was_sent_before_a_copy_arrives() {
    let timer = |from| {
        let mut sender = under_way(&[100; 8]);
        (sender.window.segments, sender.window.threshold) = (8, 8);
        let sack = |from, to| Ack::new(0, 50, None, &[Block { from, to }]);
        sender.acknowledged(150 * MS, &sack(1, 5));
        assert_eq!((sender.state, sender.board[0].again), (State::Recovery, true));
        let before = sender.timer.map(|(_, due)| due / MS);
        sender.acknowledged(180 * MS, &sack(from, from + 1));
        assert_eq!(sender.timer.map(|(timer, _)| timer), Some(Timer::Retransmission));
        (before, sender.timer.map(|(_, due)| due / MS))
    };
    // 252 ms after the copy; then 50 + 30/8 + 200 ms, in jiffies of 4 ms, after what arrived 80 ms after it was sent.
    assert_eq!(timer(5), (Some(400), Some(436)));
    assert_eq!(timer(1), (Some(400), Some(400)), "nothing new");
}

#[test]
fn the_newest_sent_of_what_arrived_leads() {
    let rack = |number, sent: Time, again| {
        let mut sender = under_way(&[0; 5]);
        (sender.rack.sent, sender.rack.end, sender.round_trip.shortest) = (20 * MS, 2, 50_000);
        sender.advance_rack(100 * MS, number, sent * MS, again);
        let rack = sender.rack;
        (rack.sent / MS, rack.end, rack.round_trip, rack.advanced)
    };
    assert_eq!(rack(1, 30, false), (30, 1, 70_000, true));
    assert_eq!(rack(3, 20, false), (20, 3, 80_000, true));
    assert_eq!(rack(1, 20, false), (20, 2, 80_000, true));
    assert_eq!(rack(9, 10, false), (20, 2, 90_000, true));
    // A copy that would have been faster than any: the first one has arrived.
    assert_eq!(rack(1, 51, true), (20, 2, 0, false));
    assert_eq!(rack(1, 50, true), (50, 1, 50_000, true));
    assert_eq!(rack(1, 51, false), (51, 1, 49_000, true));
}

#[test]
fn a_copy_reported_twice_was_needless() {
    let again = |from, again, number| {
        let mut sender = under_way(&[0; 5]);
        (sender.undo.from, sender.undo.again) = (from, again);
        sender.note_needless(number);
        sender.undo.again
    };
    assert_eq!(
        [again(Some(2), Some(2), 2), again(Some(2), Some(2), 1), again(None, Some(2), 2)],
        [Some(1), Some(2), Some(2)]
    );
    assert_eq!([again(Some(2), Some(0), 3), again(Some(2), None, 3)], [Some(0), None]);
}

#[test]
fn what_arrives_out_of_order_is_counted_once() {
    let mut sender = under_way(&[0, 10, 20, 30, 40]);
    (1..3).for_each(|at| sender.mark_lost(at));
    sender.send_again(50 * MS, 2);
    let mut news = News::default();
    // It ends beyond what was sent.
    for _ in 0..2 {
        sender.mark_sacked(100 * MS, Block { from: 1, to: 9 }, &mut news);
        assert_eq!((sender.sacked, sender.lost, sender.again, sender.delivered), (4, 0, 0, 5));
    }
    assert!(news.sacked && !news.advanced);
    // What was sent again says nothing of the round trip.
    assert_eq!((news.first_sacked, news.last_sacked), (Some(10 * MS), Some(40 * MS)));
    let mut sender = under_way(&[0, 10]);
    sender.send_again(50 * MS, 1);
    sender.mark_sacked(100 * MS, Block { from: 1, to: 2 }, &mut news);
    assert_eq!((sender.again, sender.board[1].again), (1, true), "a copy of what was not lost stays");
}

#[test]
fn what_is_acknowledged_leaves_the_list() {
    let mut sender = under_way(&[0, 10, 20, 30, 40]);
    (sender.repeats, sender.hint) = (2, 3);
    sender.mark_lost(0);
    sender.send_again(50 * MS, 0);
    sender.mark_lost(1);
    let mut news = News { echo: 50, ..News::default() };
    sender.mark_sacked(90 * MS, Block { from: 2, to: 3 }, &mut news);
    sender.hint = 3;
    let delivered = sender.delivered;
    sender.remove_acknowledged(100 * MS, 4, &mut news);
    assert_eq!((sender.una, sender.board.len(), sender.sacked, sender.lost, sender.again), (4, 1, 0, 0, 0));
    assert_eq!((sender.delivered - delivered, sender.repeats, sender.hint), (3, 0, 0));
    assert!(news.advanced && news.again);
    // Neither the copy, nor what had arrived before.
    assert_eq!((news.first_acked, news.last_acked), (Some(10 * MS), Some(30 * MS)));
    assert_eq!(sender.rack.sent, 50 * MS, "the copy");
    let mut none = News::default();
    sender.remove_acknowledged(100 * MS, 4, &mut none);
    assert!(!none.advanced);
}

#[test]
fn an_echo_from_before_the_copy_is_of_the_first_one() {
    for (echo, rack) in [(49, 0), (50, 50)] {
        let mut sender = under_way(&[0, 10]);
        sender.send_again(50 * MS, 0);
        sender.remove_acknowledged(150 * MS, 1, &mut News { echo, ..News::default() });
        assert_eq!(sender.rack.sent, rack * MS);
    }
}

#[test]
fn nonsense_changes_nothing() {
    let mut sender = under_way(&[0; 5]);
    sender.acknowledged(50 * MS, &Ack::new(3, 0, None, &[]));
    numbers(&mut sender);
    let (una, next) = (sender.una, sender.next());
    for beyond in [una - 1, next + 1] {
        sender.acknowledged(60 * MS, &Ack::new(beyond, 0, None, &[]));
        assert_eq!((sender.una, sender.next(), numbers(&mut sender)), (una, next, vec![]));
    }
}

#[test]
fn the_window_grows_by_what_arrived_unless_the_socket_buffers_are_full() {
    for (most, window) in [(99, 12), (10, 10)] {
        let mut sender = Sender { most, ..under_way(&[0; 10]) };
        sender.acknowledged(50 * MS, &Ack::new(2, 0, None, &[]));
        assert_eq!(sender.window.segments, window);
    }
}
