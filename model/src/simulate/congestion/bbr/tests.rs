use super::super::NO_THRESHOLD;
use super::super::{DeliveryRate, State};
use super::*;

/// Nothing has happened yet.
pub(super) fn report() -> Report {
    Report {
        jiffy: 0,
        in_flight: 0,
        prior_in_flight: 0,
        delivered: 1,
        delivered_at: 0,
        lost: 0,
        acked: 0,
        losses: 0,
        state: State::Open,
        round_trip: None,
        held: 0,
        rate: None,
    }
}

/// A path of so many segments per second and a round trip of so many microseconds, on which all is delivered at once: a round for each report.
struct Steady {
    bbr: Bbr,
    window: Window,
    report: Report,
    per_second: u64,
}

impl Steady {
    fn new() -> Self {
        let mut bbr = Bbr::new(fastrand::Rng::with_seed(1));
        bbr.begin(100_000, 0);
        let window = Window { segments: INITIAL_WINDOW, threshold: NO_THRESHOLD, count: 0 };
        Self { bbr, window, report: report(), per_second: 1_000 }
    }

    /// A round trip in which the window, or what the path carries, arrives.
    fn round(&mut self, round_trip: i64) {
        let carried = (self.per_second * round_trip as u64 / 1_000_000) as u32;
        let segments = self.window.segments.min(carried);
        let report = &mut self.report;
        report.rate = Some(DeliveryRate {
            delivered: segments,
            interval: round_trip as u64,
            prior_delivered: report.delivered,
            app_limited: false,
        });
        report.delivered += segments;
        report.delivered_at += round_trip as u64;
        report.jiffy = report.delivered_at / 4_000;
        report.acked = segments;
        report.round_trip = Some(round_trip);
        report.prior_in_flight = self.window.segments;
        report.in_flight = segments;
        self.bbr.acknowledged(&mut self.window, report);
    }
}

#[test]
fn startup_fills_the_pipe_then_drains_and_probes() {
    let mut steady = Steady::new();
    // 2.89 initial windows in a round trip of 100 ms, less one per cent: 2.89 · 14,480 · 0.99 / 0.1 s.
    assert!(steady.bbr.pacing_rate.abs_diff(414_000) < 2_000, "{}", steady.bbr.pacing_rate);
    for _ in 0..8 {
        steady.round(100_000);
    }
    assert!(steady.bbr.full);
    assert_eq!(steady.bbr.mode, Mode::ProbeBandwidth);
    // Twice what the path holds, three bursts and what was acknowledged at once.
    steady.round(100_000);
    assert!((200..=320).contains(&steady.window.segments), "{}", steady.window.segments);
    // 1,000 segments per second, by the gains of the cycle.
    let mean: u64 = (0..16)
        .map(|_| {
            steady.round(100_001);
            steady.bbr.pacing_rate
        })
        .sum::<u64>()
        / 16;
    assert!(mean.abs_diff(1_448_000) < 60_000, "{mean}");
}

#[test]
fn the_gain_cycle_goes_through_all_phases() {
    let mut steady = Steady::new();
    for _ in 0..10 {
        steady.round(100_000);
    }
    steady.report.losses = 1;
    let gains: Vec<u64> = (0..16)
        .map(|_| {
            steady.round(100_001);
            steady.bbr.pacing_gain
        })
        .collect();
    let start = gains.iter().position(|gain| *gain == UNIT * 5 / 4).expect("a probing phase");
    assert_eq!(gains[start..start + 8], CYCLE);
}

#[test]
fn a_round_trip_not_seen_for_ten_seconds_is_probed_with_four_segments() {
    let mut steady = Steady::new();
    steady.round(100_000);
    for _ in 0..99 {
        steady.round(101_000);
        assert_ne!(steady.bbr.mode, Mode::ProbeRoundTrip);
    }
    let before = steady.window.segments;
    for _ in 0..3 {
        steady.round(101_000);
    }
    assert_eq!((steady.bbr.mode, steady.window.segments), (Mode::ProbeRoundTrip, LEAST_WINDOW));
    // 200 ms with no more than that, and a round.
    for _ in 0..5 {
        steady.round(101_000);
    }
    assert_eq!(steady.bbr.mode, Mode::ProbeBandwidth);
    assert_eq!(steady.bbr.shortest, 101_000);
    assert!(steady.window.segments >= before / 2, "{before} {}", steady.window.segments);
}

#[test]
fn the_first_round_of_a_recovery_sends_what_arrives() {
    let mut steady = Steady::new();
    for _ in 0..10 {
        steady.round(100_000);
    }
    let before = steady.window.segments;
    steady.bbr.save_window(&steady.window.clone());
    steady.report.state = State::Recovery;
    steady.report.losses = 10;
    steady.report.in_flight = 50;
    steady.report.acked = 2;
    // No new round begins.
    steady.report.rate.as_mut().expect("a rate").prior_delivered = 0;
    steady.bbr.acknowledged(&mut steady.window, &steady.report);
    assert_eq!(steady.window.segments, 52);
    steady.report.state = State::Open;
    steady.report.losses = 0;
    steady.bbr.acknowledged(&mut steady.window, &steady.report);
    assert!(steady.window.segments.abs_diff(before) <= 8, "{before} {}", steady.window.segments);
}

/// A path of 1,000 segments a second and a round trip of 100 ms, with the pipe full: 100 segments.
pub(super) fn full() -> Bbr {
    let mut bbr = Bbr::new(fastrand::Rng::with_seed(1));
    bbr.begin(100_000, 0);
    bbr.bandwidth.add(BANDWIDTH_ROUNDS, 0, bandwidth(1_000, 1_000_000));
    (bbr.mode, bbr.full, bbr.pacing_gain, bbr.window_gain) = (Mode::ProbeBandwidth, true, UNIT, WINDOW_GAIN);
    bbr.pacing_rate = 1_448_000;
    bbr
}

fn sample(delivered: u32, interval: u64, prior_delivered: u32, app_limited: bool) -> Option<DeliveryRate> {
    Some(DeliveryRate { delivered, interval, prior_delivered, app_limited })
}

#[test]
fn bandwidths_and_gains_are_integers_of_the_kernel() {
    assert_eq!((HIGH_GAIN, DRAIN_GAIN, WINDOW_GAIN, BANDWIDTH_ROUNDS), (739, 88, 512, 10));
    // 10 · 2²⁴/100,000; 1,677 · 1,448 · 990,000/2²⁴.
    assert_eq!((bandwidth(10, 100_000), bytes_per_second(1_677, UNIT)), (1_677, 143_290));
    assert_eq!(bytes_per_second(1_677, 2 * UNIT), 286_580);
}

#[test]
fn it_begins_with_the_handshake_s_round_trip() {
    let mut bbr = Bbr::new(fastrand::Rng::with_seed(1));
    bbr.begin(0, 7);
    assert_eq!((bbr.shortest, bbr.shortest_at), (1, 7));
    bbr.begin(100_000, 9);
    assert_eq!((bbr.shortest, bbr.shortest_at, bbr.pacing_rate), (100_000, 9, bytes_per_second(1_677, 739)));
}

#[test]
fn a_round_ends_when_what_was_sent_in_it_arrives() {
    let told = |prior, app_limited, delivered| {
        let mut bbr = Bbr { round_end: 50, conserving: true, rounds: 3, new_round: true, ..full() };
        bbr.update_bandwidth(&Report {
            delivered: 80,
            rate: sample(delivered, 100_000, prior, app_limited),
            ..report()
        });
        (
            bbr.round_end,
            bbr.rounds,
            bbr.new_round,
            bbr.conserving,
            bbr.bandwidth.get() / bandwidth(10, 1_000_000),
        )
    };
    assert_eq!(told(49, false, 200), (50, 3, false, true, 200));
    assert_eq!(told(50, false, 200), (80, 4, true, false, 200));
    // What the application limits counts if it is no less than what is known.
    assert_eq!((told(50, true, 200).4, told(50, true, 99).4, told(50, false, 99).4), (200, 100, 100));
    let mut bbr = Bbr { new_round: true, rounds: 3, ..full() };
    bbr.update_bandwidth(&report());
    assert_eq!((bbr.new_round, bbr.rounds), (false, 3));
    // Ten rounds.
    let mut bbr = Bbr { rounds: 9, ..full() };
    let mut after = |rounds| {
        bbr.rounds = rounds;
        bbr.update_bandwidth(&Report { rate: sample(10, 100_000, 0, false), delivered: 9, ..report() });
        bbr.bandwidth.get() / bandwidth(10, 1_000_000)
    };
    assert_eq!([after(9), after(19)], [100, 10]);
}

#[test]
fn when_a_phase_of_the_cycle_is_over() {
    let over = |gain, passed: u64, losses, prior_in_flight| {
        let bbr = Bbr { pacing_gain: gain, phase_since: 1_000, phase: 1, ..full() };
        bbr.is_phase_over(&Report { delivered_at: 1_000 + passed, losses, prior_in_flight, ..report() })
    };
    // Cruising: more than the shortest round trip.
    assert_eq!([over(UNIT, 100_000, 9, 999), over(UNIT, 100_001, 0, 0)], [false, true]);
    // Probing: as long, and until the pipe is filled by a quarter more or something is lost: 125 segments and three bursts,
    // of which the next one is about to leave.
    let probe = UNIT * 5 / 4;
    assert_eq!(
        [over(probe, 100_001, 0, 129), over(probe, 100_001, 0, 130), over(probe, 100_001, 1, 0)],
        [false, true, true]
    );
    assert_eq!([over(probe, 100_000, 1, 999)], [false]);
    // Draining: as long, or until no more is under way than the pipe and its bursts hold, 106.
    let drain = UNIT * 3 / 4;
    assert_eq!(
        [over(drain, 0, 0, 106), over(drain, 0, 0, 107), over(drain, 100_001, 0, 107)],
        [true, false, true]
    );
}

#[test]
fn the_cycle_begins_in_any_phase_but_the_draining_one() {
    let mut bbr = full();
    let mut first: Vec<usize> = (0..200)
        .map(|at| {
            bbr.mode = Mode::Drain;
            bbr.probe_bandwidth(&Report { delivered_at: at, ..report() });
            assert_eq!((bbr.mode, bbr.phase_since), (Mode::ProbeBandwidth, at));
            bbr.phase
        })
        .collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first, [0, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn the_pipe_is_full_after_three_rounds_without_a_quarter_more() {
    let known = bandwidth(1_000, 1_000_000);
    let check = |full_bandwidth, full_rounds, new_round, app_limited| {
        let mut bbr = Bbr { full: false, full_bandwidth, full_rounds, new_round, ..full() };
        bbr.check_full(&Report { rate: sample(1, 1, 0, app_limited), ..report() });
        (bbr.full_bandwidth, bbr.full_rounds, bbr.full)
    };
    let before = known * 4 / 5;
    assert_eq!(check(before, 2, true, false), (known, 0, false), "a quarter more");
    assert_eq!(check(before + 2, 1, true, false), (before + 2, 2, false));
    assert_eq!(check(before + 2, 2, true, false), (before + 2, 3, true));
    assert_eq!(check(before, 2, false, false), (before, 2, false), "in the same round");
    assert_eq!(check(before, 2, true, true), (before, 2, false), "the application is the limit");
    let mut bbr = Bbr { full_bandwidth: 7, new_round: true, ..full() };
    bbr.check_full(&report());
    assert_eq!(bbr.full_bandwidth, 7, "it is full");
}

#[test]
fn it_drains_until_the_pipe_holds_what_is_under_way() {
    let drained = |mode, full_pipe, in_flight| {
        let mut bbr = Bbr { mode, full: full_pipe, ..full() };
        bbr.check_drained(&Report { in_flight, ..report() });
        bbr.mode
    };
    assert_eq!(
        [drained(Mode::Startup, false, 0), drained(Mode::Startup, true, 107)],
        [Mode::Startup, Mode::Drain]
    );
    assert_eq!(
        [drained(Mode::Drain, true, 106), drained(Mode::Drain, true, 107)],
        [Mode::ProbeBandwidth, Mode::Drain]
    );
    assert_eq!(drained(Mode::ProbeRoundTrip, true, 0), Mode::ProbeRoundTrip);
}

#[test]
fn the_shortest_round_trip_is_of_the_last_ten_seconds() {
    let told = |measured, jiffy| {
        let mut bbr = Bbr { shortest_at: 100, ..full() };
        let mut window = Window { segments: 50, ..Window::default() };
        let probing = bbr
            .update_shortest(&mut window, &Report { round_trip: measured, jiffy, in_flight: 50, ..report() });
        (bbr.shortest, bbr.shortest_at, probing)
    };
    assert_eq!(told(Some(100_000), 200), (100_000, 200, false));
    assert_eq!(told(Some(100_001), 200), (100_000, 100, false));
    assert_eq!(told(Some(0), 200), (1, 200, false));
    assert_eq!(told(Some(100_001), 2_600), (100_000, 100, false));
    assert_eq!(told(Some(100_001), 2_601), (100_001, 2_601, true));
    assert_eq!(told(None, 2_601), (100_000, 100, true));
}

#[test]
fn a_probe_of_the_round_trip_takes_200_ms_with_four_segments_and_a_round() {
    let mut bbr = full();
    let mut window = Window { segments: 50, ..Window::default() };
    let mut told = |jiffy, in_flight, new_round| {
        (bbr.new_round, bbr.round_end) = (new_round, 0);
        bbr.update_shortest(&mut window, &Report { jiffy, in_flight, delivered: 9, ..report() });
        (bbr.mode == Mode::ProbeRoundTrip, bbr.probe_until, bbr.round_end)
    };
    assert_eq!(told(2_501, 5, true), (true, None, 0));
    assert_eq!(told(2_502, 4, true), (true, Some(2_552), 9));
    assert_eq!(told(2_600, 4, false), (true, Some(2_552), 0), "no round has passed");
    assert_eq!(told(2_552, 4, true), (true, Some(2_552), 0), "not yet");
    assert!(!told(2_553, 4, false).0);
    assert_eq!((bbr.shortest_at, window.segments, bbr.mode), (2_553, 50, Mode::ProbeBandwidth));
}

#[test]
fn after_a_probe_the_window_is_what_it_was() {
    for (is_full, mode) in [(true, Mode::ProbeBandwidth), (false, Mode::Startup)] {
        let mut bbr = Bbr {
            mode: Mode::ProbeRoundTrip,
            full: is_full,
            prior_window: 40,
            probe_until: Some(50),
            ..full()
        };
        let mut window = Window { segments: 4, ..Window::default() };
        bbr.end_probe(&mut window, &Report { jiffy: 50, ..report() });
        assert_eq!((window.segments, bbr.mode), (4, Mode::ProbeRoundTrip));
        bbr.end_probe(&mut window, &Report { jiffy: 51, ..report() });
        assert_eq!((window.segments, bbr.mode, bbr.shortest_at), (40, mode, 51));
        window.segments = 60;
        bbr.end_probe(&mut window, &Report { jiffy: 52, ..report() });
        assert_eq!(window.segments, 60);
    }
}

#[test]
fn each_mode_has_its_gains() {
    let gains = |mode, phase| {
        let mut bbr = Bbr { mode, phase, ..full() };
        bbr.update_gains();
        (bbr.pacing_gain, bbr.window_gain)
    };
    assert_eq!(
        [gains(Mode::Startup, 0), gains(Mode::Drain, 0), gains(Mode::ProbeRoundTrip, 0)],
        [(739, 739), (88, 739), (256, 256)]
    );
    assert_eq!(
        [0, 1, 2, 7].map(|phase| gains(Mode::ProbeBandwidth, phase)),
        [(320, 512), (192, 512), (256, 512), (256, 512)]
    );
}

#[test]
fn until_the_pipe_is_full_it_does_not_slow_down() {
    let paced = |is_full, estimate| {
        let mut bbr = Bbr { full: is_full, pacing_rate: 143_290, ..full() };
        bbr.pace(estimate, UNIT);
        bbr.pacing_rate
    };
    assert_eq!([paced(true, 1_676), paced(false, 1_676), paced(false, 1_678)], [143_204, 143_290, 143_375]);
}

#[test]
fn a_timeout_begins_a_round() {
    let mut bbr = Bbr { full_bandwidth: 9, ..full() };
    bbr.timed_out(&Report { losses: 1, ..report() });
    assert_eq!((bbr.previous, bbr.full_bandwidth, bbr.new_round), (State::Loss, 0, true));
    assert!(
        format!("{:?}", bbr.policer).contains("sampling: true, in_use: false, bandwidth: 0, rounds: 1"),
        "{:?}",
        bbr.policer
    );
}

#[test]
fn an_acknowledgement_sets_pacing_and_window() {
    let mut bbr = Bbr { phase: 7, phase_since: 0, ..full() };
    let mut window = Window { segments: 300, ..Window::default() };
    let told = Report {
        delivered: 500,
        delivered_at: 100_001,
        jiffy: 25,
        acked: 10,
        in_flight: 90,
        prior_in_flight: 100,
        rate: sample(100, 100_000, 400, false),
        ..report()
    };
    assert!(!bbr.acknowledged(&mut window, &told));
    // The phase after the last is the probing one: 1.25 · 1,000 segments less one per cent; 200 for twice the pipe, ten that came at once, 6 for bursts, 2 for the phase.
    assert_eq!((bbr.phase, bbr.phase_since, bbr.pacing_gain), (0, 100_001, 320));
    assert_eq!(bbr.pacing_rate, bytes_per_second(bandwidth(1_000, 1_000_000), 320));
    assert_eq!(window.segments, 218);
    bbr.mode = Mode::ProbeRoundTrip;
    assert!(bbr.acknowledged(&mut window, &told));
    assert_eq!(window.segments, LEAST_WINDOW);
}
