//! The closed forms of paper 002 §2: how many ACKs may queue before filtering starts, and what an early start costs.

use std::time::Duration;

/// A slow reverse channel and the TCP connection whose ACKs it carries (002 §2.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReverseChannel {
    /// `μ_r`: ACKs per second that the channel carries.
    pub acks_per_second: f64,
    /// `T`: round-trip time without queueing.
    pub base_rtt: Duration,
    /// `d`: data segments that the receiver acknowledges with one ACK.
    pub segments_per_ack: u32,
}

impl ReverseChannel {
    /// `μ_r·T`: ACKs in flight when the channel is just full. Also the threshold that is safe for the burstiest traffic
    /// (002 §3).
    pub fn bandwidth_delay_acks(&self) -> f64 {
        self.acks_per_second * self.base_rtt.as_secs_f64()
    }

    /// `δ_o = μ_r·T/(d + 1)` (002 Eq. 1): the ACKs that slow start queues while the channel fills. Filtering below it slows the
    /// window's growth, filtering above it only adds delay.
    pub fn optimum_threshold(&self) -> f64 {
        self.bandwidth_delay_acks() / f64::from(self.segments_per_ack + 1)
    }

    /// `α = 1 + 1/d`: growth of the window in each round trip of unfiltered slow start (002 §2.1).
    pub fn growth_factor(&self) -> f64 {
        1.0 + 1.0 / f64::from(self.segments_per_ack.max(1))
    }

    /// The window in segments, and the ACKs that come through, `round` round trips after filtering with threshold `delta` has
    /// started: `W(n)` and `N(n)` of 002 §2.3 for `n = n_0 + round`. Holds until the channel is full.
    pub fn filtered_growth(&self, delta: f64, round: u32) -> FilteredGrowth {
        let (d, n) = (f64::from(self.segments_per_ack), f64::from(round));
        FilteredGrowth {
            window_segments: delta * (d * (d + 1.0) + n * (d + 1.0) + n * (n - 1.0) / 2.0),
            acks: delta * (d + 1.0 + n),
        }
    }

    /// `n_0`: round trips of unfiltered slow start from a window of one segment until `delta` ACKs stand in the buffer; from
    /// `W(n_0) = α^n_0 = δ·d·(d+1)` (002 §2.3).
    pub fn rounds_before_filtering(&self, delta: f64) -> f64 {
        let d = f64::from(self.segments_per_ack);
        (delta * d * (d + 1.0)).ln() / self.growth_factor().ln()
    }
}

/// One round trip of slow start under static filtering (002 §2.3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilteredGrowth {
    /// `W(n)`, segments.
    pub window_segments: f64,
    /// `N(n)`, ACKs that leave the slow channel in this round trip.
    pub acks: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 002 §2.4: 100 kb/s, ACKs of 40 bytes, 200 ms, every segment acknowledged.
    const PAPER: ReverseChannel =
        ReverseChannel { acks_per_second: 312.5, base_rtt: Duration::from_millis(200), segments_per_ack: 1 };

    #[test]
    fn the_papers_optimum_is_thirty_acks() {
        // "For such scenario the calculation gives a δ_o equal to 30 ACKs."
        assert_eq!(PAPER.optimum_threshold().floor(), 31.0);
        assert!((PAPER.optimum_threshold() - 30.0).abs() < 1.5);
        assert_eq!(PAPER.bandwidth_delay_acks(), 62.5);
    }

    #[test]
    fn delayed_acks_lower_the_optimum() {
        let delayed = ReverseChannel { segments_per_ack: 2, ..PAPER };
        assert!((delayed.optimum_threshold() - 62.5 / 3.0).abs() < 1e-9);
        assert_eq!(delayed.growth_factor(), 1.5);
    }

    #[test]
    fn growth_continues_the_windows_recursion() {
        for (delta, d) in [(1.0, 1), (3.0, 1), (5.0, 2)] {
            let channel = ReverseChannel { segments_per_ack: d, ..PAPER };
            for round in 0..20 {
                let (now, next) =
                    (channel.filtered_growth(delta, round), channel.filtered_growth(delta, round + 1));
                // W(n+1) = W(n) + N(n); N(n+1) = N(n) + δ.
                assert!((next.window_segments - now.window_segments - now.acks).abs() < 1e-9);
                assert!((next.acks - now.acks - delta).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn filtering_starts_with_the_window_that_fills_the_threshold() {
        let rounds = PAPER.rounds_before_filtering(3.0);
        let window = PAPER.growth_factor().powf(rounds);
        assert!((window - PAPER.filtered_growth(3.0, 0).window_segments).abs() < 1e-9);
    }
}
