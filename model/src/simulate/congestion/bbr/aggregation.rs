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

    /// 1,000 segments a second, since 1 s so many; 100 ms and what the integers lose later come ten more.
    fn sampled(before: Aggregation, new_round: bool, window: u32) -> ([u32; 2], usize, u32, u64, u32) {
        let mut aggregation = Aggregation { since: 1_000_000, ..before };
        let report = super::super::Report { acked: 10, delivered_at: 1_100_002, ..report() };
        aggregation.sample(&report, new_round, bandwidth(1_000, 1_000_000), window);
        let Aggregation { extra, turn, rounds, since, acked } = aggregation;
        (extra, turn, rounds, since, acked)
    }

    #[test]
    fn what_comes_beyond_the_rate_is_counted_since_it_began() {
        let of = |acked| Aggregation { acked, extra: [5, 9], ..Aggregation::default() };
        assert_eq!(sampled(of(110), false, 999), ([20, 9], 0, 0, 1_000_000, 120));
        assert_eq!(sampled(of(110), false, 12), ([12, 9], 0, 0, 1_000_000, 120), "a window at most");
        // No more than the rate: a new beginning.
        assert_eq!(sampled(of(100), false, 999), ([10, 9], 0, 0, 1_100_002, 10));
        assert_eq!(sampled(of(101), false, 999), ([11, 9], 0, 0, 1_000_000, 111));
        assert_eq!(sampled(of((1 << 20) - 10), false, 999), ([10, 9], 0, 0, 1_100_002, 10));
        assert_eq!(sampled(of((1 << 20) - 11), false, 999).4, (1 << 20) - 1);
    }

    #[test]
    fn two_counts_take_turns_of_five_rounds() {
        let of = |rounds, turn| Aggregation {
            rounds,
            turn,
            acked: 110,
            extra: [50, 60],
            ..Aggregation::default()
        };
        assert_eq!(sampled(of(3, 0), true, 999), ([50, 60], 0, 4, 1_000_000, 120));
        assert_eq!(sampled(of(4, 0), true, 999), ([50, 20], 1, 0, 1_000_000, 120));
        assert_eq!(sampled(of(4, 1), true, 999), ([20, 60], 0, 0, 1_000_000, 120));
        let mut none = of(4, 0);
        none.sample(&report(), true, 9, 9);
        assert_eq!(none.rounds, 4, "nothing arrived");
    }
}
