//! CUBIC as net/ipv4/tcp_cubic.c has it, in its integers. `HyStart` only shortens the beginning of a transfer, of which nothing is asked.

use super::super::clock::HERTZ;

/// The window after a loss, of 1024 parts.
const BETA: u64 = 717;
const SCALE: u64 = 1024;
/// `cube_rtt_scale`: C = 0.4 in units of 1/1024.
const CUBE_SCALE: u64 = 410;
/// Time is counted in 1/1024 s.
const TIME_BITS: u32 = 10;
/// `beta_scale` = 8·(1024 + β)/3/(1024 − β).
const FRIENDLY_SCALE: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);

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

    /// `bictcp_update`. `shortest` round trip in microseconds.
    pub(super) fn segments_for_one(&mut self, window: u32, acked: u32, jiffy: u64, shortest: i64) -> u32 {
        self.acked += u64::from(acked);
        if self.last_window == window && jiffy - self.last_time <= HERTZ / 32 {
            return self.per;
        }
        if self.epoch.is_none() || jiffy != self.last_time {
            self.last_window = window;
            self.last_time = jiffy;
            let epoch = self.epoch.unwrap_or_else(|| self.begin(window, acked, jiffy));
            self.follow(window, jiffy - epoch, shortest);
        }
        self.be_friendly(window);
        // At most one segment for two acknowledged.
        self.per = self.per.max(2);
        self.per
    }

    fn begin(&mut self, window: u32, acked: u32, jiffy: u64) -> u64 {
        self.epoch = Some(jiffy);
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
        jiffy
    }

    /// The cubic curve, so many jiffies after its beginning.
    fn follow(&mut self, window: u32, passed: u64, shortest: i64) {
        let jiffies = passed + (shortest as u64 * HERTZ).div_ceil(1_000_000);
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

#[cfg(test)]
mod tests {
    use super::super::Window;
    use super::*;

    #[test]
    fn the_window_is_back_at_its_maximum_after_k() {
        // W_max = 1000, after the loss 700; K = ∛(300/0.4) = 9.086 s. With one acknowledgement in each millisecond Reno's window stays far below.
        let mut cubic = Cubic::default();
        let mut window = Window { segments: cubic.after_loss(1000), threshold: 700, count: 0 };
        assert_eq!(window.segments, 700);
        let mut reached = None;
        for millisecond in 1_000_u64..20_000 {
            let per = cubic.segments_for_one(window.segments, 4, millisecond / 4, 0);
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

    /// A second after the loss, and the shortest round trip of 0.1 s: W(1.1 s) = 1000 − 0.4·(9.086 − 1.1)³ = 796, which is 96 segments more for 700.
    #[test]
    fn the_curve_is_that_of_a_round_trip_later() {
        let mut cubic = Cubic::default();
        assert_eq!(cubic.after_loss(1000), 700);
        cubic.begin(700, 1, 0);
        cubic.follow(700, HERTZ, 100_000);
        assert_eq!(cubic.per, 7);
        // At the maximum it is flat, and a round trip later it rises again.
        cubic.follow(1000, 9 * HERTZ, 100_000);
        assert_eq!(cubic.per, 100_000);
        cubic.follow(1000, 11 * HERTZ, 100_000);
        assert_eq!(cubic.per, 1000 / 3);
    }

    /// Reno with the same mean loss gains a segment for each 15/8 windows: at 20 segments, for each 37. After three times as many it has 23.
    #[test]
    fn it_is_not_slower_than_reno() {
        let mut cubic = Cubic { per: 1_000, reno_window: 20, acked: 37, ..Cubic::default() };
        cubic.be_friendly(20);
        assert_eq!((cubic.per, cubic.reno_window, cubic.acked), (1_000, 20, 37));
        cubic.acked = 3 * 37 + 1;
        cubic.be_friendly(20);
        assert_eq!((cubic.per, cubic.reno_window, cubic.acked), (20 / 3, 23, 1));
    }

    #[test]
    fn the_curve_is_looked_at_once_a_jiffy_and_for_a_new_window_or_after_28_ms() {
        let seen = |window, jiffy, epoch| {
            let mut cubic = Cubic {
                per: 50,
                last_window: 100,
                last_time: 1_000,
                epoch,
                origin: 100,
                last_maximum: 100,
                ..Cubic::default()
            };
            (cubic.segments_for_one(window, 3, jiffy, 0), cubic.last_time, cubic.epoch)
        };
        let at = Some(900);
        // 7 jiffies of 4 ms later nothing is new; after 8 the curve is at 0.432 s: 0.4 · 0.08 is less than a segment.
        assert_eq!(seen(100, 1_007, at), (50, 1_000, at));
        assert_eq!(seen(100, 1_008, at), (10_000, 1_008, at));
        assert_eq!(seen(101, 1_007, at), (10_100, 1_007, at));
        assert_eq!(seen(101, 1_000, at), (50, 1_000, at), "of the same jiffy");
        assert_eq!(seen(101, 1_000, None), (10_100, 1_000, Some(1_000)));
    }

    #[test]
    fn an_epoch_begins_below_the_maximum_or_at_it() {
        let begun = |last_maximum| {
            let mut cubic = Cubic { last_maximum, acked: 99, ..Cubic::default() };
            assert_eq!(cubic.begin(700, 3, 50), 50);
            assert_eq!((cubic.epoch, cubic.acked, cubic.reno_window), (Some(50), 3, 700));
            (cubic.plateau, cubic.origin)
        };
        // K = ∛(300/(410/1024)) s = 9.082 s, in 1/1024 s.
        assert_eq!([begun(1_000), begun(700), begun(600)], [(9_300, 1_000), (0, 700), (0, 700)]);
    }

    #[test]
    fn without_a_known_maximum_it_grows_by_a_twentieth_at_least() {
        let per = |last_maximum| {
            let mut cubic = Cubic { last_maximum, origin: 100, ..Cubic::default() };
            cubic.follow(100, 0, 0);
            cubic.per
        };
        assert_eq!([per(0), per(1)], [20, 10_000]);
        // Never more than one segment for two.
        let mut cubic = Cubic::default();
        assert_eq!(cubic.segments_for_one(10, 1, 9, 60_000_000), 2);
    }

    #[test]
    fn a_loss_at_the_maximum_keeps_it() {
        let mut cubic = Cubic { epoch: Some(9), ..Cubic::default() };
        assert_eq!([cubic.after_loss(1_000), cubic.last_maximum], [700, 1_000]);
        assert_eq!([cubic.after_loss(1_000), cubic.last_maximum], [700, 1_000]);
        assert_eq!([cubic.after_loss(2), cubic.epoch.is_some().into()], [2, 0]);
    }
}
