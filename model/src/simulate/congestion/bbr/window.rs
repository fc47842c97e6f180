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
mod tests;
