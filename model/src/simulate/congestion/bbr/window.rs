//! What BBR allows under way (`bbr_set_cwnd`).

use super::super::super::packet::PAYLOAD_BYTES;
use super::super::State;
use super::super::{INITIAL_WINDOW, Window};
use super::{BANDWIDTH_BITS, Bbr, LEAST_WINDOW, Mode, Report, UNIT, UNIT_BITS};

/// `bbr_min_tso_rate`, 1.2 Mbit/s, here in bytes per second.
const ALONE_BELOW: u64 = 1_200_000 / 8;
/// `bbr_tso_segs_goal`: the largest burst, segments.
const MOST_TOGETHER: u64 = 0x7f;
/// `GSO_MAX_SIZE - 1 - MAX_TCP_HEADER`, bytes.
const MOST_BYTES: u64 = 65_536 - 1 - 320;

impl Bbr {
    /// `bbr_min_tso_segs`: segments of the smallest burst.
    pub(in super::super) fn least_burst(&self) -> u64 {
        if self.pacing_rate < ALONE_BELOW { 1 } else { 2 }
    }

    /// `bbr_tso_segs_goal`.
    fn burst(&self) -> u32 {
        let segments = (self.pacing_rate >> 10).min(MOST_BYTES) / u64::from(PAYLOAD_BYTES);
        segments.max(self.least_burst()).min(MOST_TOGETHER) as u32
    }

    /// `bbr_bdp`: what the path holds, segments.
    fn pipe(&self, bandwidth: u64, gain: u64) -> u32 {
        if self.shortest == i64::MAX {
            return INITIAL_WINDOW;
        }
        let scaled = (u128::from(bandwidth) * self.shortest as u128 * u128::from(gain)) >> UNIT_BITS;
        scaled.div_ceil(1 << BANDWIDTH_BITS) as u32
    }

    /// `bbr_quantization_budget`: room for bursts at both ends.
    fn budget(&self, segments: u32) -> u32 {
        let even = (segments + 3 * self.burst() + 1) & !1;
        // The probing phase must get above the pipe, however small that is.
        even + if self.mode == Mode::ProbeBandwidth && self.phase == 0 { 2 } else { 0 }
    }

    /// `bbr_inflight`.
    pub(super) fn target(&self, bandwidth: u64, gain: u64) -> u32 {
        self.budget(self.pipe(bandwidth, gain))
    }

    /// `bbr_packets_in_net_at_edt`: what will be under way when pacing lets the next burst go.
    pub(super) fn in_network(&self, report: &Report, in_flight: u32) -> u32 {
        let delivered = ((self.estimate() * report.held) >> BANDWIDTH_BITS) as u32;
        let then = if self.pacing_gain > UNIT { in_flight + self.burst() } else { in_flight };
        then.saturating_sub(delivered)
    }

    /// `bbr_save_cwnd`: the window to come back to.
    pub(in super::super) fn save_window(&mut self, window: &Window) {
        let undisturbed = self.previous < State::Recovery && self.mode != Mode::ProbeRoundTrip;
        self.prior_window =
            if undisturbed { window.segments } else { self.prior_window.max(window.segments) };
    }

    /// `bbr_set_cwnd`.
    pub(super) fn set_window(&mut self, window: &mut Window, report: &Report, estimate: u64) {
        if report.acked > 0 {
            window.segments = self.next_window(window.segments, report, estimate);
        }
        if self.mode == Mode::ProbeRoundTrip {
            window.segments = window.segments.min(LEAST_WINDOW);
        }
    }

    fn next_window(&mut self, before: u32, report: &Report, estimate: u64) -> u32 {
        let mut segments = self.recover(before, report);
        if self.conserving {
            return segments.max(report.in_flight + report.acked);
        }
        let extra = if self.full { self.aggregation.allowance(estimate) } else { 0 };
        let target = self.budget(self.pipe(estimate, self.window_gain) + extra);
        if self.full {
            segments = (segments + report.acked).min(target);
        } else if segments < target || report.delivered < INITIAL_WINDOW {
            segments += report.acked;
        }
        segments.max(LEAST_WINDOW)
    }

    /// `bbr_set_cwnd_to_recover_or_restore`: in the first round of a recovery as much is sent as arrives.
    fn recover(&mut self, before: u32, report: &Report) -> u32 {
        let mut segments = before;
        if report.losses > 0 {
            segments = segments.saturating_sub(report.losses).max(1);
        }
        let previous = std::mem::replace(&mut self.previous, report.state);
        if report.state == State::Recovery && previous != State::Recovery {
            self.conserving = true;
            self.round_end = report.delivered;
            segments = report.in_flight + report.acked;
        } else if previous >= State::Recovery && report.state < State::Recovery {
            segments = segments.max(self.prior_window);
            self.conserving = false;
        }
        segments
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            [next(true, 150, 5, 500), next(true, 204, 5, 500), next(true, 300, 5, 500)],
            [155, 206, 206]
        );
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
            let segments = bbr.recover(
                before,
                &Report { state, losses, in_flight: 30, acked: 4, delivered: 77, ..report() },
            );
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
}
