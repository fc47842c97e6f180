//! What a link carries at least, before its rate is known: what has come out of it.

use super::rules::RULES;
use crate::segment::SLOWEST_LINK;

/// The most that came out in a window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fastest {
    /// Start of the present window, and what came out since.
    window: Option<(f64, f64)>,
    /// Bytes per nanosecond.
    most: f64,
}

impl Fastest {
    /// `bytes` came out at `at_ns`.
    pub(super) fn pass(&mut self, at_ns: f64, bytes: f64) {
        match &mut self.window {
            Some((start_ns, sum)) if at_ns - *start_ns < RULES.span_ns => *sum += bytes,
            window => {
                if let Some((start_ns, sum)) = *window {
                    self.most = self.most.max(sum / (at_ns - start_ns));
                }
                *window = Some((at_ns, bytes));
            }
        }
    }

    /// Bytes per nanosecond that the link carries at least.
    pub(super) fn at_least(&self) -> f64 {
        SLOWEST_LINK.max(RULES.half * self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_fastest_tenth_of_a_second_is_certain() {
        let mut fastest = Fastest::default();
        assert_eq!(fastest.at_least(), SLOWEST_LINK);
        // 1,000 bytes each 10 ms for a second, then each 2 ms for half a second, then hardly any.
        let fast = (0..250).map(|i| 1e9 + 2e6 * f64::from(i));
        let slow = (0..100).map(|i| 1e7 * f64::from(i));
        for at_ns in slow.chain(fast).chain([3e9, 4e9, 5e9]) {
            fastest.pass(at_ns, 1_000.0);
        }
        assert!((fastest.at_least() - 0.5 * 1_000.0 / 2e6).abs() < 1e-9, "{}", fastest.at_least());
    }

    #[test]
    fn packets_back_to_back_are_no_rate() {
        let mut fastest = Fastest::default();
        for at_ns in [0.0, 1e3, 2e3, 500e6] {
            fastest.pass(at_ns, 1_500.0);
        }
        assert!(fastest.at_least() <= 4_500.0 / 500e6);
    }
}
