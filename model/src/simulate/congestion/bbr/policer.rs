//! BBR's long-term bandwidth: a rate that two intervals with many losses agree on is taken for a policer's (`bbr_lt_bw_sampling`).

use super::{Report, UNIT, UNIT_BITS, bandwidth, bytes_per_second};

/// `bbr_lt_intvl_min_rtts`, and four times as many at most.
const LEAST_ROUNDS: u32 = 4;
/// `bbr_lt_loss_thresh`, of 256: a fifth of what was delivered.
const LOSSY: u32 = 50;
/// `bbr_lt_bw_ratio`: rates that differ by an eighth agree.
const AGREE: u64 = UNIT / 8;
/// `bbr_lt_bw_diff`: or by 4 kbit/s, here in bytes per second.
const AGREE_BYTES: u64 = 4_000 / 8;
/// `bbr_lt_bw_max_rtts`: so long the rate is used.
const MOST_ROUNDS: u32 = 48;

/// What follows for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Nothing,
    /// The rate is a policer's: no more probing.
    Policed,
    /// Its time is over: probing begins anew.
    Over,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    in_use: bool,
    bandwidth: u64,
    rounds: u32,
    /// The interval's beginning: milliseconds, segments delivered and lost until then.
    since: u64,
    delivered: u32,
    lost: u32,
}

impl Policer {
    /// The policer's rate, if one is taken to be there.
    pub(super) fn bandwidth(&self) -> Option<u64> {
        self.in_use.then_some(self.bandwidth)
    }

    /// `bbr_reset_lt_bw_sampling`.
    fn reset(&mut self, report: &Report) {
        *self = Self::default();
        self.begin(report);
    }

    /// `bbr_reset_lt_bw_sampling_interval`.
    fn begin(&mut self, report: &Report) {
        self.since = report.delivered_at / 1_000;
        self.delivered = report.delivered;
        self.lost = report.lost;
        self.rounds = 0;
    }

    /// `bbr_lt_bw_sampling`. `probing`: in `PROBE_BW`.
    pub(super) fn sample(&mut self, report: &Report, new_round: bool, probing: bool) -> Finding {
        if self.in_use {
            if probing && new_round {
                self.rounds += 1;
                if self.rounds >= MOST_ROUNDS {
                    self.reset(report);
                    return Finding::Over;
                }
            }
            return Finding::Nothing;
        }
        if !self.sampling {
            if report.losses == 0 {
                return Finding::Nothing;
            }
            self.begin(report);
            self.sampling = true;
        }
        if report.rate.is_some_and(|rate| rate.app_limited) {
            self.reset(report);
            return Finding::Nothing;
        }
        self.rounds += u32::from(new_round);
        if self.rounds < LEAST_ROUNDS {
            return Finding::Nothing;
        }
        if self.rounds > 4 * LEAST_ROUNDS {
            self.reset(report);
            return Finding::Nothing;
        }
        if report.losses == 0 {
            return Finding::Nothing;
        }
        self.end(report)
    }

    /// The interval has lasted long enough and ends with a loss.
    fn end(&mut self, report: &Report) -> Finding {
        let lost = report.lost - self.lost;
        let delivered = report.delivered - self.delivered;
        if delivered == 0 || lost << UNIT_BITS < LOSSY * delivered {
            return Finding::Nothing;
        }
        let Some(milliseconds) = (report.delivered_at / 1_000).checked_sub(self.since).filter(|ms| *ms > 0)
        else {
            return Finding::Nothing;
        };
        self.compare(bandwidth(delivered, milliseconds * 1_000), report)
    }

    /// `bbr_lt_bw_interval_done`.
    fn compare(&mut self, measured: u64, report: &Report) -> Finding {
        if self.bandwidth > 0 {
            let difference = measured.abs_diff(self.bandwidth);
            let agrees = difference * UNIT <= AGREE * self.bandwidth
                || bytes_per_second(difference, UNIT) <= AGREE_BYTES;
            if agrees {
                self.bandwidth = (measured + self.bandwidth) / 2;
                self.in_use = true;
                self.rounds = 0;
                return Finding::Policed;
            }
        }
        self.bandwidth = measured;
        self.begin(report);
        Finding::Nothing
    }
}

#[cfg(test)]
mod tests;
