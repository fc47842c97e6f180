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
