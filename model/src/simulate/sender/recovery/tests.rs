use super::super::super::packet::MILLISECOND;
use super::super::tests::under_way;
use super::*;

const MS: Time = MILLISECOND;

/// A recovery from a window of 20 to 10 with so many segments under way.
fn reducing(in_flight: usize, delivered: u32, sent: u32) -> Sender {
    let mut sender = Sender { state: State::Recovery, prior_window: 20, ..under_way(&vec![0; in_flight]) };
    (sender.window.threshold, sender.window.segments) = (10, 20);
    (sender.reduction_delivered, sender.reduction_sent) = (delivered, sent);
    sender
}

#[test]
fn above_the_threshold_its_share_of_what_arrives_is_sent() {
    // ⌈10 · 3/20⌉ = 2 of three that arrived, less what was sent.
    for (sent, window) in [(0, 17), (1, 16), (2, 15)] {
        let mut sender = reducing(15, 0, sent);
        sender.reduce(3, false, true);
        assert_eq!((sender.window.segments, sender.reduction_delivered), (window, 3));
    }
    let mut sender = reducing(15, 17, 3);
    sender.reduce(3, false, true);
    assert_eq!(sender.window.segments, 15 + 10 - 3);
}

#[test]
fn below_it_what_arrives_and_one_more_while_nothing_new_is_lost() {
    let window = |in_flight, before, sent, delivered, lost, advanced| {
        let mut sender = reducing(in_flight, before, sent);
        sender.reduce(delivered, lost, advanced);
        sender.window.segments
    };
    assert_eq!(window(5, 0, 1, 2, false, true), 8);
    assert_eq!([window(5, 0, 1, 2, true, true), window(5, 0, 1, 2, false, false)], [7, 7]);
    assert_eq!(window(5, 3, 1, 2, true, true), 9, "what arrived before and was not used");
    assert_eq!(window(5, 9, 1, 2, false, true), 10, "up to the threshold");
    assert_eq!(
        [window(10, 0, 1, 2, false, true), window(10, 0, 0, 2, false, true)],
        [10, 11],
        "the first copy goes out"
    );
    assert_eq!(window(5, 3, 1, 0, false, true), 20, "nothing arrived");
}

#[test]
fn a_quarter_of_the_shortest_round_trip_may_be_out_of_order() {
    let window = |state, sacked, shortest| {
        let mut sender = Sender { state, sacked, ..under_way(&[0; 5]) };
        sender.round_trip.shortest = shortest;
        sender.reordering_window()
    };
    assert_eq!([window(State::Open, 0, 40_000), window(State::Disorder, 2, 40_000)], [10_000, 10_000]);
    assert_eq!(window(State::Open, 0, 400_000), 50_000, "one round trip at most");
    for none in [
        window(State::Disorder, 3, 40_000),
        window(State::Recovery, 0, 40_000),
        window(State::Loss, 0, 40_000),
    ] {
        assert_eq!(none, 0);
    }
}

/// The one sent at 30 ms has arrived after 50 ms; 60 ms after their sending others are lost.
#[test]
fn what_was_sent_before_one_that_arrived_is_lost_a_quarter_of_a_round_trip_later() {
    let detect = |now: Time| {
        let mut sender = under_way(&[0, 20, 30, 30, 40]);
        sender.round_trip.shortest = 40_000;
        (sender.board[2].sacked, sender.sacked) = (true, 1);
        (sender.rack.sent, sender.rack.end, sender.rack.round_trip) = (30 * MS, 2, 50_000);
        let wait = sender.detect(now * MS);
        (wait.map(|wait| wait / MS), sender.board.iter().map(|it| it.lost).collect::<Vec<_>>())
    };
    assert_eq!(detect(59), (Some(21), vec![false; 5]));
    assert_eq!(detect(60), (Some(20), vec![true, false, false, false, false]));
    assert_eq!(detect(80), (None, vec![true, true, false, false, false]));
    assert_eq!(detect(999), (None, vec![true, true, false, false, false]), "not what was sent later");
}

#[test]
fn what_is_lost_already_is_lost_again_only_if_it_was_sent_again() {
    let mut sender = under_way(&[0, 0, 90]);
    (0..2).for_each(|at| sender.mark_lost(at));
    sender.send_again(30 * MS, 1);
    (sender.rack.sent, sender.rack.end, sender.rack.round_trip) = (90 * MS, 2, 10_000);
    assert_eq!(sender.detect(200 * MS), None);
    assert_eq!((sender.lost, sender.lost_ever, sender.again), (2, 3, 0));
}

#[test]
fn a_recovery_begins_with_half_a_window_and_keeps_what_it_may_undo() {
    let mut sender = Sender { probe: Some(3), ..under_way(&[0; 20]) };
    (sender.window.segments, sender.window.threshold, sender.window.count) = (20, 12, 5);
    (sender.reduction_delivered, sender.reduction_sent) = (7, 8);
    sender.enter_recovery();
    assert_eq!((sender.state, sender.high, sender.probe), (State::Recovery, 20, None));
    assert_eq!((sender.prior_window, sender.window.threshold, sender.window.count), (20, 10, 0));
    assert_eq!((sender.reduction_delivered, sender.reduction_sent), (0, 0));
    // Three quarters of the window are more than its threshold.
    assert_eq!((sender.undo.window, sender.undo.threshold, sender.undo.from), (20, 15, Some(0)));
    assert_eq!(sender.undo.again, None);
    sender.again = 2;
    sender.begin_undo();
    assert_eq!(
        (sender.undo.threshold, sender.undo.again),
        (10, Some(2)),
        "in a recovery the threshold is what it is"
    );
    (sender.state, sender.window.threshold) = (State::Open, 40);
    sender.begin_undo();
    assert_eq!(sender.undo.threshold, 40);
}

#[test]
fn what_proves_needless_is_undone() {
    let undone = |from: Option<u32>, again, first_again, echo, unmark| {
        let mut sender = reducing(5, 0, 0);
        sender.mark_lost(1);
        sender.undo = Undo { from, again, threshold: 16, window: 24, first_again };
        sender.window.segments = 7;
        let mut news = News::default();
        news.echo = echo;
        let undone = sender.try_undo(&news, unmark);
        assert_eq!(undone, sender.window.segments == 24 && sender.window.threshold == 16);
        (undone, sender.lost, sender.board[1].lost, sender.undo.from)
    };
    let kept = (false, 1, true, Some(0));
    // All copies were reported as needless, or what arrived was sent before the first of them.
    assert_eq!(undone(Some(0), Some(0), None, 0, false), (true, 1, true, None));
    assert_eq!(undone(Some(0), Some(0), None, 0, true), (true, 0, false, None));
    assert_eq!(undone(Some(0), Some(1), Some(100), 99, false), (true, 1, true, None));
    assert_eq!(undone(Some(0), Some(1), Some(100), 100, false), kept);
    assert_eq!(undone(Some(0), Some(1), None, 0, true), kept);
    assert_eq!(undone(None, Some(0), None, 0, false), (false, 1, true, None));
    // It does not shrink what is larger already.
    let mut sender = reducing(5, 0, 0);
    sender.undo = Undo { from: Some(0), again: Some(0), threshold: 6, window: 8, first_again: None };
    sender.try_undo(&News::default(), false);
    assert_eq!((sender.window.segments, sender.window.threshold), (20, 10));
}

#[test]
fn without_anything_lost_the_state_is_open_or_disorder() {
    for (sacked, state, high) in [(0, State::Open, 5), (1, State::Disorder, 9)] {
        let mut sender = Sender { high: 9, state: State::Disorder, sacked, ..under_way(&[0; 5]) };
        sender.undo.first_again = Some(4);
        assert!(!sender.open_or_recover());
        assert_eq!((sender.state, sender.high, sender.undo.first_again), (state, high, None));
    }
    let mut sender = Sender { again: 1, ..under_way(&[0; 5]) };
    sender.undo.first_again = Some(4);
    assert!(!sender.open_or_recover() && sender.undo.first_again.is_some(), "a copy is on its way");
    sender.mark_lost(0);
    assert!(sender.open_or_recover() && sender.state == State::Recovery);
}

#[test]
fn a_recovery_ends_at_its_threshold_when_all_of_it_is_acknowledged() {
    let judged = |state, una| {
        let mut sender = Sender { una, high: 5, ..under_way(&[0; 5]) };
        sender.undo = Undo { from: Some(0), again: Some(1), ..Undo::default() };
        (sender.state, sender.window.segments, sender.window.threshold) = (state, 20, 10);
        sender.judge(100 * MS, &mut News::default());
        (sender.state, sender.window.segments)
    };
    assert_eq!(
        [judged(State::Recovery, 4), judged(State::Recovery, 5)],
        [(State::Recovery, 20), (State::Open, 10)]
    );
    // What was no recovery leaves the window as it is.
    assert_eq!([judged(State::Disorder, 5), judged(State::Loss, 5)], [(State::Open, 20); 2]);
}
