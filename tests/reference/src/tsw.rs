//! The time sliding window estimator (002 §3.1, after Clark and Fang 1998).

use std::time::Duration;

/// A mean rate that forgets over time, not over events.
///
/// At each event of size `Size`: `Volume = Rate·Window + Size; Time = Now − Last + Window; Rate = Volume/Time; Last = Now`.
/// An event far from the last one weighs more than one close to it, so low rates converge in as short a time as high ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tsw {
    window: f64,
    rate: f64,
    last: Duration,
}

impl Tsw {
    /// An estimator that starts at `now` with rate 0 and remembers about `window`, which the paper takes "in the same order as
    /// RTT".
    pub fn new(window: Duration, now: Duration) -> Self {
        // A window of zero would divide by zero at two events of one moment.
        Self { window: window.as_secs_f64().max(1e-9), rate: 0.0, last: now }
    }

    /// Notes an event: a packet of `size` bytes gives bytes per second, a busy time in seconds gives a share of time.
    pub fn note(&mut self, size: f64, now: Duration) {
        self.rate = (self.rate * self.window + size) / (self.since(now) + self.window);
        self.last = now;
    }

    /// The rate as it stands at `now` if nothing has happened since the last event: an event of size 0.
    pub fn rate(&self, now: Duration) -> f64 {
        self.rate * self.window / (self.since(now) + self.window)
    }

    fn since(&self, now: Duration) -> f64 {
        now.saturating_sub(self.last).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: Duration = Duration::from_millis(200);

    #[test]
    fn one_step_is_the_papers() {
        let mut tsw = Tsw::new(Duration::from_secs(2), Duration::ZERO);
        tsw.note(40.0, Duration::from_secs(3));
        assert_eq!(tsw.rate(Duration::from_secs(3)), 40.0 / 5.0);
        tsw.note(40.0, Duration::from_secs(4));
        assert_eq!(tsw.rate(Duration::from_secs(4)), (8.0 * 2.0 + 40.0) / 3.0);
    }

    #[test]
    fn a_steady_flow_has_its_rate() {
        let mut tsw = Tsw::new(WINDOW, Duration::ZERO);
        for tick in 1..2_000 {
            tsw.note(40.0, Duration::from_micros(3_200) * tick);
        }
        let rate = tsw.rate(Duration::from_micros(3_200) * 1_999);
        assert!((rate - 12_500.0).abs() < 1.0, "{rate}");
    }

    #[test]
    fn silence_halves_the_rate_in_a_window() {
        let mut tsw = Tsw::new(WINDOW, Duration::ZERO);
        tsw.note(40.0, Duration::ZERO);
        assert_eq!(tsw.rate(WINDOW), tsw.rate(Duration::ZERO) / 2.0);
    }

    proptest! {
        #[test]
        fn the_rate_stays_within_what_was_offered(gaps in prop::collection::vec(1_u64..500, 1..200)) {
            let (mut tsw, mut now) = (Tsw::new(WINDOW, Duration::ZERO), Duration::ZERO);
            let fastest = gaps.iter().map(|gap| 40.0 / (*gap as f64 / 1e3)).fold(0.0, f64::max);
            for gap in gaps {
                now += Duration::from_millis(gap);
                tsw.note(40.0, now);
                prop_assert!(tsw.rate(now) > 0.0 && tsw.rate(now) <= fastest + 1e-6);
            }
        }
    }
}
