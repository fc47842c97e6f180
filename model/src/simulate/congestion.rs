//! Congestion control: how the window grows and what a loss makes of it.

mod bbr;
mod cubic;
mod windowed;

use bbr::Bbr;
pub(super) use bbr::Report;
use cubic::Cubic;

named! {
    /// What a sender uses. The default is that of Linux, Windows and macOS.
    #[derive(Default)]
    pub enum CongestionControl {
        /// New Reno (net/ipv4/tcp_cong.c).
        Reno = "reno",
        /// CUBIC (RFC 9438; net/ipv4/tcp_cubic.c).
        #[default]
        Cubic = "cubic",
        /// BBR, version 1 (net/ipv4/tcp_bbr.c). It paces, whatever the flow says.
        Bbr = "bbr",
    }
}

/// `icsk_ca_state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// Nothing is missing.
    #[default]
    Open,
    /// Something is missing, nothing is taken for lost.
    Disorder,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

/// A rate sample (`struct rate_sample`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeliveryRate {
    /// Segments delivered between the sending of the latest of those that arrive now and now.
    pub(super) delivered: u32,
    /// How long that took, microseconds.
    pub(super) interval: u64,
    /// Segments that had been delivered when that segment was sent.
    pub(super) prior_delivered: u32,
    /// Whether the application, not the network, was the limit then.
    pub(super) app_limited: bool,
}

/// No slow-start threshold yet (`TCP_INFINITE_SSTHRESH`).
pub(super) const NO_THRESHOLD: u32 = 0x7fff_ffff;
/// `TCP_INIT_CWND`, RFC 6928.
pub(super) const INITIAL_WINDOW: u32 = 10;

/// A window in segments, with the count that makes it grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) segments: u32,
    pub(super) threshold: u32,
    pub(super) count: u32,
}

impl Default for Window {
    fn default() -> Self {
        Self { segments: INITIAL_WINDOW, threshold: NO_THRESHOLD, count: 0 }
    }
}

impl Window {
    pub(super) fn in_slow_start(&self) -> bool {
        self.segments < self.threshold
    }

    /// `tcp_slow_start`: returns what is left of the acknowledged segments.
    pub(super) fn slow_start(&mut self, acked: u32) -> u32 {
        let grown = (self.segments + acked).min(self.threshold);
        let left = acked - (grown - self.segments);
        self.segments = grown;
        left
    }

    /// `tcp_cong_avoid_ai`: one segment more for every `per` acknowledged.
    pub(super) fn grow(&mut self, per: u32, acked: u32) {
        if self.count >= per {
            self.count = 0;
            self.segments += 1;
        }
        self.count += acked;
        if self.count >= per {
            self.segments += self.count / per;
            self.count %= per;
        }
    }
}

/// The state of an algorithm.
#[derive(Clone, Debug, Default)]
pub(super) enum Algorithm {
    #[default]
    Reno,
    Cubic(Cubic),
    Bbr(Box<Bbr>),
}

/// `tcp_min_tso_segs`, segments of the smallest burst.
const LEAST_BURST: u64 = 2;

impl Algorithm {
    /// BBR takes its first phase by chance.
    pub(super) fn new(which: CongestionControl, random: &mut fastrand::Rng) -> Self {
        match which {
            CongestionControl::Reno => Self::Reno,
            CongestionControl::Cubic => Self::Cubic(Cubic::default()),
            CongestionControl::Bbr => Self::Bbr(Box::new(Bbr::new(random.fork()))),
        }
    }

    /// `cong_control`: BBR sets window and pacing itself, instead of what the others have in common.
    pub(super) fn bbr(&mut self) -> Option<&mut Bbr> {
        if let Self::Bbr(bbr) = self { Some(bbr) } else { None }
    }

    pub(super) fn is_bbr(&self) -> bool {
        matches!(self, Self::Bbr(_))
    }

    /// `min_tso_segs`.
    pub(super) fn least_burst(&self) -> u64 {
        if let Self::Bbr(bbr) = self { bbr.least_burst() } else { LEAST_BURST }
    }

    /// `ssthresh`: the window after a loss.
    pub(super) fn after_loss(&mut self, window: &Window) -> u32 {
        match self {
            Self::Reno => (window.segments / 2).max(2),
            Self::Cubic(cubic) => cubic.after_loss(window.segments),
            Self::Bbr(bbr) => {
                bbr.save_window(window);
                window.threshold
            }
        }
    }

    /// A retransmission timeout.
    pub(super) fn timed_out(&mut self) {
        if let Self::Cubic(cubic) = self {
            *cubic = Cubic::default();
        }
    }

    /// `cong_avoid`: segments were delivered. `shortest` round trip in microseconds.
    pub(super) fn delivered(&mut self, window: &mut Window, acked: u32, jiffy: u64, shortest: i64) {
        let left = if window.in_slow_start() { window.slow_start(acked) } else { acked };
        if left == 0 {
            return;
        }
        let per = match self {
            Self::Reno | Self::Bbr(_) => window.segments,
            Self::Cubic(cubic) => cubic.segments_for_one(window.segments, left, jiffy, shortest),
        };
        window.grow(per.max(1), left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_leaves_half_with_reno_and_seven_tenths_with_cubic() {
        let window = |segments| Window { segments, threshold: NO_THRESHOLD, count: 0 };
        let new = |which| Algorithm::new(which, &mut fastrand::Rng::with_seed(0));
        let after = |which| new(which).after_loss(&window(100));
        assert_eq!(after(CongestionControl::Reno), 50);
        // 100 · 717/1024 = 70.02.
        assert_eq!(after(CongestionControl::Cubic), 70);
        assert_eq!(Algorithm::Reno.after_loss(&window(3)), 2);
    }

    #[test]
    fn reno_grows_by_one_segment_for_each_window() {
        let mut window = Window { segments: 10, threshold: 5, count: 0 };
        // 10 + 11 + 12 segments in twos and a one.
        for _ in 0..16 {
            Algorithm::Reno.delivered(&mut window, 2, 1, 0);
        }
        assert_eq!(window.segments, 12);
        Algorithm::Reno.delivered(&mut window, 1, 1, 0);
        assert_eq!(window.segments, 13);
    }

    #[test]
    fn slow_start_ends_at_the_threshold() {
        let mut window = Window { segments: 10, threshold: 15, count: 0 };
        assert_eq!(window.slow_start(4), 0);
        assert_eq!((window.slow_start(4), window.segments), (3, 15));
    }

    /// `tcp_cong_avoid_ai`.
    #[test]
    fn a_window_grows_by_a_segment_for_each_so_many_acknowledged() {
        let grown = |count, per, acked| {
            let mut window = Window { segments: 20, threshold: 10, count };
            window.grow(per, acked);
            (window.segments, window.count)
        };
        assert_eq!(
            [grown(0, 10, 9), grown(0, 10, 10), grown(0, 10, 25), grown(5, 10, 4)],
            [(20, 9), (21, 0), (22, 5), (20, 9)]
        );
        // A count of a larger `per` gives one segment, whatever it is.
        assert_eq!([grown(10, 10, 1), grown(35, 10, 3)], [(21, 1), (21, 3)]);
    }

    #[test]
    fn what_slow_start_leaves_over_counts_as_avoidance() {
        let mut window = Window { segments: 10, threshold: 12, count: 0 };
        Algorithm::Reno.delivered(&mut window, 5, 1, 0);
        assert_eq!((window.segments, window.count, window.in_slow_start()), (12, 3, false));
        let mut window = Window { segments: 10, threshold: 12, count: 0 };
        Algorithm::Reno.delivered(&mut window, 2, 1, 0);
        assert_eq!((window.segments, window.count), (12, 0));
        assert!(Window { segments: 11, ..window }.in_slow_start());
    }

    #[test]
    fn a_timeout_makes_cubic_forget_its_maximum() {
        let window = Window { segments: 100, threshold: NO_THRESHOLD, count: 0 };
        let mut cubic = Algorithm::Cubic(Cubic::default());
        cubic.after_loss(&window);
        cubic.timed_out();
        // A smaller window is the maximum now: with the older one it would be (1024 + 717)/2048 of it.
        cubic.after_loss(&Window { segments: 50, ..window });
        let Algorithm::Cubic(cubic) = cubic else { panic!("cubic") };
        assert!(format!("{cubic:?}").contains("last_maximum: 50"), "{cubic:?}");
    }

    #[test]
    fn bbr_chooses_its_own_bursts_and_keeps_the_threshold_at_a_loss() {
        let mut bbr = Algorithm::new(CongestionControl::Bbr, &mut fastrand::Rng::with_seed(0));
        let window = Window { segments: 100, threshold: 77, count: 0 };
        assert_eq!((bbr.is_bbr(), bbr.least_burst(), bbr.after_loss(&window)), (true, 1, 77));
        assert!(bbr.bbr().is_some());
        let mut reno = Algorithm::Reno;
        assert_eq!((reno.is_bbr(), reno.least_burst(), reno.bbr().is_none()), (false, 2, true));
    }
}
