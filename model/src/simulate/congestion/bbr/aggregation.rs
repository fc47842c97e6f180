//! How much more than expected ACKs report at once: what BBR's window needs beyond the pipe (`bbr_update_ack_aggregation`).

use super::{BANDWIDTH_BITS, Report};

/// `bbr_extra_acked_win_rtts`.
const ROUNDS: u32 = 5;
/// `bbr_ack_epoch_acked_reset_thresh`, and the largest count.
const MOST_ACKED: u32 = 1 << 20;
/// `bbr_extra_acked_max_us`.
const LONGEST: u64 = 100_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Aggregation {
    /// The most beyond what was expected, of these five to ten rounds; two counts that take turns.
    extra: [u32; 2],
    turn: usize,
    rounds: u32,
    /// Since when, microseconds, and how many segments.
    since: u64,
    acked: u32,
}

impl Aggregation {
    /// A new epoch.
    fn restart(&mut self, now: u64) {
        (self.since, self.acked) = (now, 0);
    }

    /// Takes an acknowledgement that gave a rate.
    pub(super) fn sample(&mut self, report: &Report, new_round: bool, bandwidth: u64, window: u32) {
        if report.acked == 0 {
            return;
        }
        if new_round {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.turn = 1 - self.turn;
                self.extra[self.turn] = 0;
            }
        }
        let lasted = report.delivered_at.saturating_sub(self.since);
        let mut expected = ((bandwidth * lasted) >> BANDWIDTH_BITS) as u32;
        if self.acked <= expected || self.acked + report.acked >= MOST_ACKED {
            self.restart(report.delivered_at);
            expected = 0;
        }
        self.acked = (self.acked + report.acked).min(MOST_ACKED - 1);
        let extra = (self.acked - expected).min(window);
        self.extra[self.turn] = self.extra[self.turn].max(extra);
    }

    /// `bbr_ack_aggregation_cwnd`: segments.
    pub(super) fn allowance(&self, bandwidth: u64) -> u32 {
        let most = ((bandwidth * LONGEST) >> BANDWIDTH_BITS) as u32;
        self.extra[0].max(self.extra[1]).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::bandwidth;
    use super::super::tests::report;
    use super::*;

    #[test]
    fn bunches_of_acknowledgements_are_allowed_for_until_ten_rounds_after_them() {
        // A segment per millisecond.
        let rate = bandwidth(1_000, 1_000_000);
        let mut aggregation = Aggregation::default();
        let mut report = report();
        report.delivered_at = 1_000_000;
        aggregation.restart(report.delivered_at);
        // Each 20 ms acknowledgements of 20 segments come at once.
        report.acked = 20;
        for _ in 0..4 {
            report.delivered_at += 20_000;
            aggregation.sample(&report, true, rate, 100);
        }
        // And one that the integers of the rate lose.
        assert!((20..=21).contains(&aggregation.allowance(rate)), "{}", aggregation.allowance(rate));
        // Never more than 100 ms of the rate.
        assert!((9..=10).contains(&aggregation.allowance(rate / 10)));
        report.acked = 1;
        // Half the rate: after 40 ms nothing is left of the last bunch.
        for _ in 0..20 + 10 {
            report.delivered_at += 2_000;
            aggregation.sample(&report, true, rate, 100);
        }
        assert!(aggregation.allowance(rate) <= 2, "{}", aggregation.allowance(rate));
    }
}
