use super::super::tests::{numbers, under_way};
use super::*;

const MS: Time = MILLISECOND;

#[test]
fn a_burst_is_a_millisecond_of_the_rate_and_more_for_near_hosts() {
    let burst = |rate: u64, shortest| {
        let mut sender = under_way(&[]);
        (sender.pacing.rate, sender.round_trip.shortest) = (rate, shortest);
        sender.burst_segments()
    };
    // 1,448 bytes each 1/1024 s. Two at least, 65,536 bytes at most.
    assert_eq!([0, 3, 5, 100].map(|segments| burst(segments * 1_448 * 1_024, 50_000)), [2, 3, 5, 45]);
    // 65,536 bytes, halved for each 512 µs.
    assert_eq!([511, 512, 1_024, 2_048].map(|shortest| burst(0, shortest)), [45, 22, 11, 2]);
    // Both together: 1,448 · 5 + 65,536/4 bytes.
    assert_eq!(burst(5 * 1_448 * 1_024, 1_024), 16);
}

#[test]
fn a_small_burst_waits_for_the_next_acknowledgement() {
    // The first segment was sent half a round trip of 50 ms ago, and the last burst left within a millisecond.
    let defers = |now: Time, ready: Time, room, burst, state| {
        let mut sender = Sender { state, ..under_way(&[0]) };
        (sender.window.segments, sender.pacing.ready) = (20, ready);
        sender.defers(now, room, burst)
    };
    let now = 25 * MS;
    assert!(defers(now, now, 1, 2, State::Open) && defers(now, now, 5, 9, State::Disorder));
    assert!(!defers(now, now, 2, 2, State::Open), "a whole burst");
    assert!(!defers(now, now, 6, 9, State::Open), "a third of the window");
    assert!(!defers(now, now, 1, 2, State::Recovery) && !defers(now, now, 1, 2, State::Loss));
    assert!(!defers(now - 1, now, 1, 2, State::Open), "no acknowledgement is near");
    assert!(defers(now, now - MS, 1, 2, State::Open) && !defers(now, now - MS - 1, 1, 2, State::Open));
    let mut empty = under_way(&[]);
    (empty.window.segments, empty.pacing.ready) = (20, now);
    assert!(!empty.defers(now, 1, 2), "nothing is under way");
}

#[test]
fn a_paced_burst_takes_its_time_less_half_of_it_that_was_saved() {
    // A segment each millisecond.
    let ready = |sent: usize, ready, paced, rate| {
        let mut sender = under_way(&vec![0; sent]);
        (sender.pacing.ready, sender.pacing.paced, sender.pacing.rate) = (ready, paced, rate);
        sender.pace(100 * MS, 4);
        sender.pacing.ready
    };
    let rate = 1_448_000;
    assert_eq!(ready(10, 100 * MS, true, rate), 104 * MS);
    assert_eq!(ready(10, 99 * MS, true, rate), 103 * MS, "a millisecond of credit");
    assert_eq!(ready(10, 90 * MS, true, rate), 102 * MS, "half of four at most");
    assert_eq!(ready(10, 103 * MS, true, rate), 107 * MS, "what is ahead goes on");
    for unpaced in
        [ready(9, 90 * MS, true, rate), ready(10, 90 * MS, false, rate), ready(10, 90 * MS, true, 0)]
    {
        assert_eq!(unpaced, 100 * MS);
    }
}

#[test]
fn a_burst_waits_until_pacing_lets_it_go() {
    let mut sender = under_way(&[]);
    (sender.pacing.paced, sender.pacing.ready) = (true, 100 * MS);
    sender.transmit(100 * MS - 1);
    assert_eq!((numbers(&mut sender), sender.pacing.due), (vec![], Some(100 * MS)));
    sender.pacing.due = None;
    sender.transmit(100 * MS);
    assert_eq!((numbers(&mut sender).len(), sender.pacing.due), (10, Some(105 * MS)));
    let mut unpaced = under_way(&[]);
    unpaced.pacing.ready = 100 * MS;
    unpaced.transmit(50 * MS);
    assert_eq!(numbers(&mut unpaced).len(), 10);
}

#[test]
fn window_socket_and_application_limit_what_is_sent() {
    let sent = |window, most, offered| {
        let mut sender = Sender { most, offered, ..under_way(&[0; 4]) };
        sender.window.segments = window;
        sender.transmit(MS);
        numbers(&mut sender).len()
    };
    assert_eq!(
        [sent(10, 99, 99), sent(10, 7, 99), sent(10, 99, 6), sent(4, 99, 99), sent(3, 3, 3)],
        [6, 3, 2, 0, 0]
    );
}

#[test]
fn what_a_recovery_sends_is_counted() {
    let mut sender = Sender { state: State::Recovery, ..under_way(&[0; 4]) };
    sender.transmit(MS);
    assert_eq!(sender.reduction_sent, 6);
    let mut open = under_way(&[0; 4]);
    open.transmit(MS);
    assert_eq!((open.reduction_sent, open.timer.is_some()), (0, true));
}

#[test]
fn lost_segments_are_sent_again_while_the_window_has_room() {
    let lost = |window, at: &[usize]| {
        let mut sender = Sender { state: State::Recovery, hint: 9, ..under_way(&[0; 9]) };
        at.iter().for_each(|at| sender.mark_lost(*at));
        sender.window.segments = window;
        sender.retransmit(50 * MS);
        (numbers(&mut sender), sender.reduction_sent, sender.hint, sender.timer.is_some())
    };
    // Six are under way.
    assert_eq!(lost(9, &[2, 4, 5]), (vec![2, 4, 5], 3, 6, false));
    assert_eq!(lost(8, &[2, 4, 5]), (vec![2, 4], 2, 5, false));
    assert_eq!(lost(6, &[2, 4, 5]), (vec![], 0, 2, false));
    // The first one sets the timer.
    assert_eq!(lost(9, &[0]), (vec![0], 1, 1, true));
}

#[test]
fn a_segment_that_arrived_or_is_on_its_way_again_is_not_sent_again() {
    let mut sender = under_way(&[0; 4]);
    (0..3).for_each(|at| sender.mark_lost(at));
    sender.board[0].sacked = true;
    sender.send_again(10 * MS, 1);
    numbers(&mut sender);
    sender.hint = 0;
    sender.retransmit(50 * MS);
    assert_eq!(numbers(&mut sender), [2]);
    assert_eq!((sender.board[2].sent, sender.board[2].ever_again, sender.again), (50 * MS, true, 2));
}

#[test]
fn each_copy_may_turn_out_needless() {
    let mut sender = under_way(&[0; 2]);
    sender.send_again(10 * MS, 0);
    assert_eq!((sender.undo.first_again, sender.undo.again, sender.again), (Some(10), Some(1), 1));
    sender.send_again(20 * MS, 0);
    assert_eq!((sender.undo.first_again, sender.undo.again, sender.again), (Some(10), Some(2), 1));
}
