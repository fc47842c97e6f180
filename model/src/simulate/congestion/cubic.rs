//! CUBIC with `HyStart` as net/ipv4/tcp_cubic.c has them, in its integers.

use super::super::clock::HERTZ;
use super::{AckSample, Window};

/// The window after a loss, of 1024 parts.
const BETA: u64 = 717;
const SCALE: u64 = 1024;
/// `cube_rtt_scale`: C = 0.4 in units of 1/1024.
const CUBE_SCALE: u64 = 410;
/// Time is counted in 1/1024 s.
const TIME_BITS: u32 = 10;
/// `beta_scale` = 8·(1024 + β)/3/(1024 − β).
const FRIENDLY_SCALE: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);

/// `hystart_low_window`, segments.
const LOW_WINDOW: u32 = 16;
const SAMPLES: u32 = 8;
/// Acknowledgements closer than this are a train, microseconds.
const TRAIN_GAP: i64 = 2_000;
/// Bounds of `HYSTART_DELAY_THRESH`, microseconds.
const DELAY_BOUNDS: (i64, i64) = (4_000, 16_000);
/// `sk_gso_max_size`.
pub(in super::super) const LARGEST_BURST_BYTES: u64 = 65_536;

#[derive(Clone, Debug, Default)]
pub(in super::super) struct Cubic {
    /// Acknowledged segments that make the window grow by one (`cnt`).
    per: u32,
    last_maximum: u32,
    last_window: u32,
    /// Jiffies.
    last_time: u64,
    epoch: Option<u64>,
    /// `bic_origin_point` and `bic_K`.
    origin: u32,
    plateau: u64,
    /// Segments acknowledged, for the window that Reno would have.
    acked: u64,
    reno_window: u64,
    start: HyStart,
}

#[derive(Clone, Debug, Default)]
struct HyStart {
    found: bool,
    /// Shortest round trip of the connection and of this round, microseconds.
    shortest: Option<i64>,
    of_round: Option<i64>,
    samples: u32,
    round_start: i64,
    last_ack: i64,
    round_end: u32,
}

impl Cubic {
    pub(super) fn after_loss(&mut self, window: u32) -> u32 {
        self.epoch = None;
        // Fast convergence (RFC 9438, section 4.7).
        self.last_maximum = if window < self.last_maximum {
            (u64::from(window) * (SCALE + BETA) / (2 * SCALE)) as u32
        } else {
            window
        };
        ((u64::from(window) * BETA / SCALE) as u32).max(2)
    }

    /// `bictcp_reset` and `bictcp_hystart_reset`.
    pub(super) fn reset(&mut self, sample: &AckSample) {
        *self = Self::default();
        self.start.new_round(sample);
    }

    /// `cubictcp_acked`.
    pub(super) fn measure(&mut self, window: &mut Window, sample: &AckSample) {
        let Some(delay) = sample.round_trip else { return };
        if self.epoch.is_some_and(|epoch| sample.jiffy - epoch < HERTZ) {
            return;
        }
        let delay = delay.max(1);
        self.start.shortest = Some(self.start.shortest.map_or(delay, |shortest| shortest.min(delay)));
        if !self.start.found && window.in_slow_start() {
            self.start.update(window, delay, sample);
        }
    }

    /// `bictcp_update`.
    pub(super) fn segments_for_one(&mut self, window: u32, acked: u32, sample: &AckSample) -> u32 {
        self.acked += u64::from(acked);
        if self.last_window == window && sample.jiffy - self.last_time <= HERTZ / 32 {
            return self.per;
        }
        if self.epoch.is_none() || sample.jiffy != self.last_time {
            self.last_window = window;
            self.last_time = sample.jiffy;
            let epoch = self.epoch.unwrap_or_else(|| self.begin(window, acked, sample));
            self.follow(window, epoch, sample);
        }
        self.be_friendly(window);
        // At most one segment for two acknowledged.
        self.per = self.per.max(2);
        self.per
    }

    fn begin(&mut self, window: u32, acked: u32, sample: &AckSample) -> u64 {
        self.epoch = Some(sample.jiffy);
        self.acked = u64::from(acked);
        self.reno_window = u64::from(window);
        if self.last_maximum <= window {
            (self.plateau, self.origin) = (0, window);
        } else {
            let distance = f64::from(self.last_maximum - window);
            // K = ∛((W_max − cwnd)/C) in 1/1024 s.
            self.plateau = ((2_f64.powi(40) / CUBE_SCALE as f64) * distance).cbrt() as u64;
            self.origin = self.last_maximum;
        }
        sample.jiffy
    }

    /// The cubic curve.
    fn follow(&mut self, window: u32, epoch: u64, sample: &AckSample) {
        let shortest = self.start.shortest.unwrap_or(0) as u64;
        let jiffies = sample.jiffy - epoch + (shortest * HERTZ).div_ceil(1_000_000);
        let time = (jiffies << TIME_BITS) / HERTZ;
        let offset = u128::from(time.abs_diff(self.plateau));
        let delta = ((u128::from(CUBE_SCALE) * offset * offset * offset) >> (10 + 3 * TIME_BITS)) as i64;
        let origin = i64::from(self.origin);
        let target = if time < self.plateau { origin - delta } else { origin + delta };
        let above = target - i64::from(window);
        self.per = if above > 0 { (i64::from(window) / above) as u32 } else { 100 * window };
        // "The initial growth of cubic function may be too conservative when the available bandwidth is still unknown."
        if self.last_maximum == 0 {
            self.per = self.per.min(20);
        }
    }

    /// Not slower than Reno with the same mean loss (RFC 9438, section 4.3).
    fn be_friendly(&mut self, window: u32) {
        let each = (u64::from(window) * FRIENDLY_SCALE) >> 3;
        if each > 0 && self.acked > each {
            let steps = (self.acked - 1) / each;
            self.acked -= steps * each;
            self.reno_window += steps;
        }
        if self.reno_window > u64::from(window) {
            let most = u64::from(window) / (self.reno_window - u64::from(window));
            self.per = self.per.min(most as u32);
        }
    }
}

impl HyStart {
    fn new_round(&mut self, sample: &AckSample) {
        self.round_start = sample.now;
        self.last_ack = sample.now;
        self.round_end = sample.next;
        self.of_round = None;
        self.samples = 0;
    }

    /// `hystart_update`.
    fn update(&mut self, window: &mut Window, delay: i64, sample: &AckSample) {
        if sample.una > self.round_end {
            self.new_round(sample);
        }
        if window.segments < LOW_WINDOW {
            return;
        }
        let shortest = self.shortest.unwrap_or(delay);
        if sample.now - self.last_ack <= TRAIN_GAP {
            self.last_ack = sample.now;
            let burst = 4 * 1_000_000 * LARGEST_BURST_BYTES;
            let burst_delay = burst.checked_div(sample.pacing_rate).unwrap_or(0).min(1_000) as i64;
            // "Pacing might have delayed packets up to RTT/2 during slow start."
            let halvings = u32::from(!sample.paced);
            if sample.now - self.round_start > (shortest + burst_delay) >> halvings {
                self.end(window);
            }
        }
        let of_round = self.of_round.map_or(delay, |least| least.min(delay));
        self.of_round = Some(of_round);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else if of_round > shortest + (shortest >> 3).clamp(DELAY_BOUNDS.0, DELAY_BOUNDS.1) {
            self.end(window);
        }
    }

    fn end(&mut self, window: &mut Window) {
        self.found = true;
        window.threshold = window.segments;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> AckSample {
        let jiffy = milliseconds / 4;
        let now = milliseconds as i64 * 1000;
        AckSample { now, jiffy, una: 0, next: 0, round_trip: None, pacing_rate: 0, paced: false }
    }

    #[test]
    fn the_window_is_back_at_its_maximum_after_k() {
        // W_max = 1000, after the loss 700; K = ∛(300/0.4) = 9.086 s. With one acknowledgement in each millisecond Reno's window stays far below.
        let mut cubic = Cubic::default();
        let mut window = Window { segments: cubic.after_loss(1000), threshold: 700, count: 0 };
        assert_eq!(window.segments, 700);
        let mut reached = None;
        for millisecond in 1_000_u64..20_000 {
            let per = cubic.segments_for_one(window.segments, 4, &at(millisecond));
            window.grow(per, 4);
            if window.segments >= 999 && reached.is_none() {
                reached = Some(millisecond - 1_000);
            }
        }
        let reached = reached.expect("the maximum") as f64 / 1000.0;
        // The curve is flat there: a segment below the maximum is ∛(1/0.4) = 1.36 s from K.
        assert!((reached - 9.086 + 1.36).abs() < 1.0, "{reached}");
        assert!(window.segments > 1000, "it goes on beyond: {}", window.segments);
    }

    #[test]
    fn a_second_loss_below_the_maximum_makes_room() {
        let mut cubic = Cubic::default();
        cubic.after_loss(1000);
        cubic.after_loss(800);
        // 800 · (1024 + 717)/2048 = 680.
        assert_eq!(cubic.last_maximum, 680);
    }

    #[test]
    fn slow_start_ends_when_round_trips_grow() {
        let mut cubic = Cubic::default();
        let mut window = Window { segments: 20, threshold: u32::MAX, count: 0 };
        let mut acked = |milliseconds: u64, round_trip: i64| {
            let sample = AckSample { round_trip: Some(round_trip), una: 1, next: 100, ..at(milliseconds) };
            cubic.measure(&mut window, &sample);
            window.threshold
        };
        for count in 0..8 {
            assert_eq!(acked(10 * (count + 1), 50_000), u32::MAX);
        }
        // The shortest of the round counts: still 50 ms.
        assert_eq!(acked(100, 90_000), u32::MAX);
    }
}
