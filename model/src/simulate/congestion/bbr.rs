//! BBR, version 1, as net/ipv4/tcp_bbr.c has it, in its integers.
//!
//! It paces by the largest bandwidth of ten round trips, and allows under way what that gives in the shortest round trip of ten seconds.

mod aggregation;
mod policer;
#[cfg(test)]
mod tests;
mod window;

use super::super::clock::HERTZ;
use super::super::packet::PAYLOAD_BYTES;
use super::windowed::WindowedMax;
use super::{DeliveryRate, State};
use super::{INITIAL_WINDOW, Window};

use aggregation::Aggregation;
use policer::{Finding, Policer};

/// Gains are counted in 1/256 (`BBR_UNIT`).
const UNIT_BITS: u32 = 8;
const UNIT: u64 = 1 << UNIT_BITS;
/// Bandwidths are counted in 1/2²⁴ segments per microsecond (`BW_UNIT`).
const BANDWIDTH_BITS: u32 = 24;
/// `bbr_high_gain`: 2/ln 2.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const WINDOW_GAIN: u64 = 2 * UNIT;
/// `bbr_pacing_gain`: one phase probes for more, the next drains what that has left.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// `bbr_cycle_rand`: the cycle begins in any phase but the draining one.
const FIRST_PHASES: usize = 7;
/// `bbr_bw_rtts`.
const BANDWIDTH_ROUNDS: u32 = CYCLE.len() as u32 + 2;
/// `bbr_min_rtt_win_sec`.
const SHORTEST_FOR_S: u64 = 10;
/// `bbr_probe_rtt_mode_ms`.
const PROBE_MS: u64 = 200;
/// `bbr_cwnd_min_target`, segments.
const LEAST_WINDOW: u32 = 4;
/// `bbr_full_bw_cnt` rounds without a quarter more.
const FULL_ROUNDS: u32 = 3;

/// `enum bbr_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRoundTrip,
}

/// What a sender knows after an acknowledgement, or at another moment at which BBR acts. Times are microseconds.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Report {
    pub(in super::super) jiffy: u64,
    /// Segments under way now, and before the acknowledgement.
    pub(in super::super) in_flight: u32,
    pub(in super::super) prior_in_flight: u32,
    /// Segments delivered so far, and when the last of them was.
    pub(in super::super) delivered: u32,
    pub(in super::super) delivered_at: u64,
    /// Segments taken for lost so far.
    pub(in super::super) lost: u32,
    /// Segments that this acknowledgement delivered, and took for lost.
    pub(in super::super) acked: u32,
    pub(in super::super) losses: u32,
    pub(in super::super) state: State,
    /// Of the last segment that arrived.
    pub(in super::super) round_trip: Option<i64>,
    /// How long pacing holds the next burst back.
    pub(in super::super) held: u64,
    pub(in super::super) rate: Option<DeliveryRate>,
}

#[derive(Clone, Debug, Default)]
pub(in super::super) struct Bbr {
    mode: Mode,
    /// Shortest round trip, microseconds, and the jiffy at which it was last seen.
    shortest: i64,
    shortest_at: u64,
    /// Jiffy at which probing for it ends.
    probe_until: Option<u64>,
    probe_round_over: bool,
    bandwidth: WindowedMax,
    /// Round trips counted by segments, and the count of deliveries at which this one ends.
    rounds: u32,
    round_end: u32,
    new_round: bool,
    /// Place in the gain cycle, and since when, microseconds.
    phase: usize,
    phase_since: u64,
    pacing_gain: u64,
    window_gain: u64,
    /// Whether the pipe is full, by the bandwidth of the rounds before.
    full: bool,
    full_rounds: u32,
    full_bandwidth: u64,
    previous: State,
    conserving: bool,
    prior_window: u32,
    policer: Policer,
    aggregation: Aggregation,
    /// Bytes of payload per second.
    pub(in super::super) pacing_rate: u64,
    dice: fastrand::Rng,
}

impl Bbr {
    pub(super) fn new(dice: fastrand::Rng) -> Self {
        Self { shortest: i64::MAX, pacing_gain: HIGH_GAIN, window_gain: HIGH_GAIN, dice, ..Self::default() }
    }

    /// `bbr_init`, with the round trip of the handshake, microseconds.
    pub(in super::super) fn begin(&mut self, round_trip: i64, jiffy: u64) {
        self.shortest = round_trip.max(1);
        self.shortest_at = jiffy;
        let first = bandwidth(INITIAL_WINDOW, self.shortest as u64);
        self.pacing_rate = bytes_per_second(first, HIGH_GAIN);
    }

    /// `bbr_bw`.
    fn estimate(&self) -> u64 {
        self.policer.bandwidth().unwrap_or_else(|| self.bandwidth.get())
    }

    /// `bbr_main`. Returns whether rates measured from now on say little, because little is under way on purpose.
    pub(in super::super) fn acknowledged(&mut self, window: &mut Window, report: &Report) -> bool {
        self.update_bandwidth(report);
        if report.rate.is_some() {
            let estimate = self.estimate();
            self.aggregation.sample(report, self.new_round, estimate, window.segments);
        }
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(report) {
            self.next_phase(report);
        }
        self.check_full(report);
        self.check_drained(report);
        let probing = self.update_shortest(window, report);
        self.update_gains();
        let estimate = self.estimate();
        self.pace(estimate, self.pacing_gain);
        self.set_window(window, report, estimate);
        probing
    }

    /// `bbr_set_pacing_rate`.
    fn pace(&mut self, estimate: u64, gain: u64) {
        let rate = bytes_per_second(estimate, gain);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// `bbr_update_bw`.
    fn update_bandwidth(&mut self, report: &Report) {
        self.new_round = false;
        let Some(rate) = report.rate else { return };
        if rate.prior_delivered >= self.round_end {
            self.round_end = report.delivered;
            self.rounds += 1;
            self.new_round = true;
            self.conserving = false;
        }
        self.look_for_policer(report);
        let measured = bandwidth(rate.delivered, rate.interval);
        if !rate.app_limited || measured >= self.bandwidth.get() {
            self.bandwidth.add(BANDWIDTH_ROUNDS, self.rounds, measured);
        }
    }

    fn look_for_policer(&mut self, report: &Report) {
        let probing = self.mode == Mode::ProbeBandwidth;
        match self.policer.sample(report, self.new_round, probing) {
            Finding::Nothing => {}
            Finding::Policed => self.pacing_gain = UNIT,
            Finding::Over => self.probe_bandwidth(report),
        }
    }

    /// `bbr_is_next_cycle_phase`.
    fn is_phase_over(&self, report: &Report) -> bool {
        let lasted = report.delivered_at.saturating_sub(self.phase_since);
        let is_full_length = lasted > self.shortest as u64;
        if self.pacing_gain == UNIT {
            return is_full_length;
        }
        let on_the_way = self.in_network(report, report.prior_in_flight);
        let bandwidth = self.bandwidth.get();
        if self.pacing_gain > UNIT {
            let is_filled = on_the_way >= self.target(bandwidth, self.pacing_gain);
            return is_full_length && (report.losses > 0 || is_filled);
        }
        is_full_length || on_the_way <= self.target(bandwidth, UNIT)
    }

    /// `bbr_advance_cycle_phase`.
    fn next_phase(&mut self, report: &Report) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_since = report.delivered_at;
    }

    /// `bbr_reset_probe_bw_mode`.
    fn probe_bandwidth(&mut self, report: &Report) {
        self.mode = Mode::ProbeBandwidth;
        self.phase = CYCLE.len() - 1 - self.dice.usize(..FIRST_PHASES);
        self.next_phase(report);
    }

    /// `bbr_check_full_bw_reached`.
    fn check_full(&mut self, report: &Report) {
        if self.full || !self.new_round || report.rate.is_some_and(|rate| rate.app_limited) {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= (self.full_bandwidth * UNIT * 5 / 4) >> UNIT_BITS {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
            self.full = self.full_rounds >= FULL_ROUNDS;
        }
    }

    /// `bbr_check_drain`.
    fn check_drained(&mut self, report: &Report) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        let target = self.target(self.bandwidth.get(), UNIT);
        if self.mode == Mode::Drain && self.in_network(report, report.in_flight) <= target {
            self.probe_bandwidth(report);
        }
    }

    /// `bbr_update_min_rtt`. Returns whether this acknowledgement came while it is probed for.
    fn update_shortest(&mut self, window: &mut Window, report: &Report) -> bool {
        let is_old = report.jiffy > self.shortest_at + SHORTEST_FOR_S * HERTZ;
        // An acknowledgement of whole segments is never taken for a delayed one (`FLAG_ACK_MAYBE_DELAYED`).
        if let Some(measured) = report.round_trip.filter(|measured| is_old || *measured <= self.shortest) {
            self.shortest = measured.max(1);
            self.shortest_at = report.jiffy;
        }
        if is_old && self.mode != Mode::ProbeRoundTrip {
            self.mode = Mode::ProbeRoundTrip;
            self.save_window(window);
            self.probe_until = None;
        }
        let probing = self.mode == Mode::ProbeRoundTrip;
        if probing {
            if self.probe_until.is_some() {
                self.probe_round_over |= self.new_round;
                if self.probe_round_over {
                    self.end_probe(window, report);
                }
            } else if report.in_flight <= LEAST_WINDOW {
                self.probe_until = Some(report.jiffy + (PROBE_MS * HERTZ).div_ceil(1_000));
                self.probe_round_over = false;
                self.round_end = report.delivered;
            }
        }
        probing
    }

    /// `bbr_check_probe_rtt_done`.
    fn end_probe(&mut self, window: &mut Window, report: &Report) {
        if self.probe_until.is_none_or(|until| report.jiffy <= until) {
            return;
        }
        self.shortest_at = report.jiffy;
        window.segments = window.segments.max(self.prior_window);
        if self.full {
            self.probe_bandwidth(report);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_update_gains`.
    fn update_gains(&mut self) {
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.policer.bandwidth().is_some() => (UNIT, WINDOW_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.phase], WINDOW_GAIN),
            Mode::ProbeRoundTrip => (UNIT, UNIT),
        };
    }

    /// `bbr_set_state`: a retransmission timeout, the end of a round.
    pub(in super::super) fn timed_out(&mut self, report: &Report) {
        self.previous = State::Loss;
        self.full_bandwidth = 0;
        self.new_round = true;
        self.look_for_policer(report);
    }
}

/// Segments in so many microseconds, as a bandwidth.
fn bandwidth(segments: u32, microseconds: u64) -> u64 {
    (u64::from(segments) << BANDWIDTH_BITS) / microseconds
}

/// `bbr_rate_bytes_per_sec`: with a gain, and one per cent less.
fn bytes_per_second(bandwidth: u64, gain: u64) -> u64 {
    let scaled = (bandwidth * u64::from(PAYLOAD_BYTES) * gain) >> UNIT_BITS;
    (scaled * (1_000_000 / 100 * 99)) >> BANDWIDTH_BITS
}
