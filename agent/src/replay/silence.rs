//! When a link has been silent for so long that both buffers are empty: such time is passed over at once, so that a replay takes as long as
//! its packets and not as long as the capture.

use pendulum_model::segment::SLOWEST_LINK;

/// Without a packet for this long everything has drained, however much was queued.
const LONG_NS: u64 = 10_000_000_000;

/// Without a packet for this long everything has drained, if it was little: TCP's answers to what came before are in as well.
const SHORT_NS: u64 = 1_000_000_000;

/// Watches for silences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    last_ns: u64,
    /// When the slowest link would have sent all that passed.
    drained_ns: u64,
}

impl Silence {
    /// A packet passes.
    pub fn pass(&mut self, now_ns: u64, bytes: u32) {
        self.last_ns = now_ns;
        self.drained_ns = self.drained_ns.max(now_ns) + (f64::from(bytes) / SLOWEST_LINK) as u64;
    }

    /// If a packet at `now_ns` ends a silence: the time by which everything had drained.
    pub fn drained_before(&self, now_ns: u64) -> Option<u64> {
        let is_longer = |than_ns: u64| now_ns > self.last_ns + than_ns;
        let is_little = self.drained_ns <= self.last_ns + SHORT_NS / 2;
        match is_little {
            true if is_longer(SHORT_NS) => Some(self.last_ns + SHORT_NS / 2),
            _ => is_longer(LONG_NS).then_some(self.last_ns + LONG_NS / 2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// 4,000 bytes take the slowest link half a second.
    #[test]
    fn a_second_is_enough_after_little_and_ten_after_much() {
        let mut silence = Silence::default();
        silence.pass(3 * S, 4_000);
        assert_eq!(silence.drained_before(4 * S), None);
        assert_eq!(silence.drained_before(4 * S + 1), Some(3 * S + S / 2));
        silence.pass(5 * S, 4_001);
        assert_eq!(silence.drained_before(15 * S), None);
        assert_eq!(silence.drained_before(15 * S + 1), Some(10 * S));
        // It had drained, and what came before does not count.
        silence.pass(20 * S, 40);
        assert_eq!(silence.drained_before(21 * S + 1), Some(20 * S + S / 2));
        // Little by little becomes much.
        for _ in 0..100 {
            silence.pass(30 * S, 41);
        }
        assert_eq!(silence.drained_before(40 * S), None);
    }
}
