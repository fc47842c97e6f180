//! How much of what may pass does.

use super::passage::FULL;

/// Measured over this time, seconds, or over so many full packets if that is longer.
const USE: f64 = 0.3;
const USE_PACKETS: f64 = 6.0;

/// One decision's share of it.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    seconds: f64,
    allowed: f64,
    passed: f64,
}

/// What passed and what might have, over the newest decisions.
#[derive(Debug, Default)]
pub(super) struct Usage {
    stretches: Vec<Stretch>,
}

impl Usage {
    /// So many bytes passed within `seconds`, of `rate` bytes per second that were allowed. Returns what passes, bytes per second, and
    /// which share of the allowance that is at most: a packet that is about to pass counts.
    pub(super) fn note(&mut self, seconds: f64, bytes: f64, rate: f64) -> (f64, f64) {
        self.stretches.push(Stretch { seconds, allowed: seconds * rate, passed: bytes });
        let whole = USE.max(USE_PACKETS * FULL / rate);
        let mut sum = Stretch { seconds: 0.0, allowed: 0.0, passed: 0.0 };
        let mut count = 0;
        for stretch in self.stretches.iter().rev() {
            if sum.seconds >= whole {
                break;
            }
            sum.seconds += stretch.seconds;
            sum.allowed += stretch.allowed;
            sum.passed += stretch.passed;
            count += 1;
        }
        let old = self.stretches.len() - count;
        self.stretches.drain(..old);
        (sum.passed / sum.seconds.max(1e-9), (sum.passed + FULL) / sum.allowed.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_three_tenths_count() {
        let mut usage = Usage::default();
        usage.note(0.1, 0.0, 1e6);
        for _ in 0..3 {
            usage.note(0.1, 5e4, 1e6);
        }
        let (passing, used) = usage.note(0.1, 8e4, 1e6);
        assert!((passing - 6e5).abs() < 1.0 && (used - 0.6 - FULL / 3e5).abs() < 1e-6, "{passing} {used}");
    }

    #[test]
    fn a_slow_rate_is_measured_for_longer() {
        let mut usage = Usage::default();
        for passed in [1514.0, 0.0, 0.0, 0.0] {
            usage.note(0.19, passed, 8e3);
        }
        // Six packets take 1.1 s there.
        let (passing, _) = usage.note(0.19, 0.0, 8e3);
        assert!((passing - 1514.0 / 0.95).abs() < 1.0, "{passing}");
    }
}
