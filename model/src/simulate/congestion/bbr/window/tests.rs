use super::super::tests::{full, report};
use super::super::{WINDOW_GAIN, bandwidth};
use super::*;

/// 1,000 segments a second.
fn known() -> u64 {
    bandwidth(1_000, 1_000_000)
}

#[test]
fn below_1_2_megabits_each_segment_leaves_alone() {
    let least = |pacing_rate| Bbr { pacing_rate, ..full() }.least_burst();
    assert_eq!([least(149_999), least(150_000)], [1, 2]);
    // A millisecond's bytes in segments of 1,448, 65,215 bytes at most.
    let burst = |pacing_rate| Bbr { pacing_rate, ..full() }.burst();
    assert_eq!([149_999, 150_000, 5 << 20, 1 << 40].map(burst), [1, 2, 3, 45]);
}

#[test]
fn the_pipe_is_what_the_bandwidth_carries_in_a_round_trip() {
    let bbr = full();
    assert_eq!([bbr.pipe(known(), UNIT), bbr.pipe(known(), 2 * UNIT), bbr.pipe(0, UNIT)], [100, 200, 0]);
    assert_eq!(bbr.pipe(known() / 3_000, UNIT), 1, "rounded up");
    assert_eq!(Bbr { shortest: i64::MAX, ..full() }.pipe(known(), UNIT), INITIAL_WINDOW);
}

#[test]
fn bursts_have_room_and_the_count_is_even() {
    let budget = |mode, phase, segments| Bbr { mode, phase, ..full() }.budget(segments);
    // Three bursts of two: 6.
    assert_eq!([10, 11].map(|segments| budget(Mode::ProbeBandwidth, 1, segments)), [16, 18]);
    assert_eq!([budget(Mode::ProbeBandwidth, 0, 10), budget(Mode::Startup, 0, 10)], [18, 16]);
    assert_eq!(full().target(known(), UNIT), 108);
}

#[test]
fn what_pacing_holds_back_will_have_arrived() {
    let then = |pacing_gain, held, in_flight| {
        Bbr { pacing_gain, ..full() }.in_network(&Report { held, ..report() }, in_flight)
    };
    assert_eq!([then(UNIT, 0, 50), then(UNIT, 10_001, 50), then(UNIT, 99_999, 50)], [50, 40, 0]);
    assert_eq!(then(UNIT + 1, 10_001, 50), 42, "and a burst leaves");
}

#[test]
fn the_window_to_come_back_to_is_the_largest_of_a_disturbance() {
    let saved = |previous, mode| {
        let mut bbr = Bbr { previous, mode, prior_window: 80, ..full() };
        let window = |segments| Window { segments, ..Window::default() };
        bbr.save_window(&window(50));
        let lower = bbr.prior_window;
        bbr.save_window(&window(90));
        (lower, bbr.prior_window)
    };
    assert_eq!(saved(State::Disorder, Mode::ProbeBandwidth), (50, 90));
    assert_eq!(saved(State::Recovery, Mode::ProbeBandwidth), (80, 90));
    assert_eq!(saved(State::Open, Mode::ProbeRoundTrip), (80, 90));
}

#[test]
fn the_window_grows_by_what_arrives_up_to_its_target() {
    // Twice the pipe and three bursts.
    let next = |is_full, before, acked, delivered| {
        let mut bbr = Bbr { full: is_full, phase: 1, ..full() };
        bbr.next_window(before, &Report { acked, delivered, ..report() }, known())
    };
    assert_eq!([next(true, 150, 5, 500), next(true, 204, 5, 500), next(true, 300, 5, 500)], [155, 206, 206]);
    assert_eq!([next(false, 205, 5, 500), next(false, 206, 5, 500)], [210, 206]);
    assert_eq!([next(false, 300, 5, 9), next(false, 300, 5, 10)], [305, 300], "at first in any case");
    let mut poor = Bbr { phase: 1, ..full() };
    assert_eq!(poor.next_window(1, &Report { acked: 1, ..report() }, known()), LEAST_WINDOW);
}

#[test]
fn it_changes_when_something_arrives_and_is_four_while_the_round_trip_is_probed() {
    let set = |mode, acked| {
        let mut window = Window { segments: 150, ..Window::default() };
        Bbr { mode, phase: 1, window_gain: WINDOW_GAIN, ..full() }.set_window(
            &mut window,
            &Report { acked, ..report() },
            known(),
        );
        window.segments
    };
    assert_eq!(
        [set(Mode::ProbeBandwidth, 0), set(Mode::ProbeBandwidth, 1), set(Mode::ProbeRoundTrip, 0)],
        [150, 151, 4]
    );
}

#[test]
fn a_recovery_takes_off_what_is_lost_and_sends_what_arrives() {
    let recovered = |previous, state, losses, before| {
        let mut bbr = Bbr { previous, prior_window: 90, ..full() };
        let segments = bbr
            .recover(before, &Report { state, losses, in_flight: 30, acked: 4, delivered: 77, ..report() });
        assert_eq!(bbr.previous, state);
        (segments, bbr.conserving, bbr.round_end)
    };
    assert_eq!(recovered(State::Open, State::Open, 0, 50), (50, false, 0));
    assert_eq!(recovered(State::Open, State::Disorder, 3, 50), (47, false, 0));
    assert_eq!(recovered(State::Open, State::Disorder, 60, 50), (1, false, 0));
    assert_eq!(recovered(State::Open, State::Recovery, 3, 50), (34, true, 77));
    assert_eq!(recovered(State::Recovery, State::Recovery, 3, 50), (47, false, 0), "it goes on");
    assert_eq!(recovered(State::Recovery, State::Open, 0, 50), (90, false, 0));
    assert_eq!(recovered(State::Loss, State::Disorder, 0, 99), (99, false, 0));
    assert_eq!(recovered(State::Recovery, State::Loss, 0, 50), (50, false, 0));
    // While as much is sent as arrives the target does not count.
    let mut bbr = Bbr { conserving: true, previous: State::Recovery, ..full() };
    let told = Report { state: State::Recovery, in_flight: 30, acked: 4, ..report() };
    assert_eq!([bbr.next_window(50, &told, known()), bbr.next_window(20, &told, known())], [50, 34]);
}
