//! Whether the link's rate varies: one that does is tried again sooner and by more, one that does not is left alone.

/// What varies: a rate that differs by more than this from the one before, …
const DIFFERENT: f64 = 0.2;
/// … and what does not: one that was tried and found again with no more difference than this.
const SAME: f64 = 0.04;
/// How much is left of the variation after each of those, and with time, seconds.
const FOUND_AGAIN: f64 = 0.6;
const FADES: f64 = 60.0;
/// A link varies if more than this is left.
const VARIES: f64 = 0.3;
/// The least share of the time that is waited before the rate is raised again.
const HOLD_LEAST: f64 = 0.1;
/// What passed so long after a raise shows what it did, seconds.
const SHOWS: f64 = 0.1;
/// The first raise; and those on the way back to what had passed before, up to so much of it.
const FIRST: f64 = 1.12;
const BACK: f64 = 1.5;
const BACK_TO: f64 = 0.7;
/// What had passed before is forgotten within so many seconds.
const PEAK_FADES: f64 = 10.0;

/// How much a link's rate varies, as far as seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Variation {
    /// 0: not at all; 1: it has just done so.
    share: f64,
    /// The most that passed without a queue behind, fading.
    peak: f64,
    tried: bool,
}

impl Variation {
    /// Time passes.
    pub(super) fn tick(&mut self, span: f64) {
        self.share *= (1.0 - span / FADES).max(0.0);
        self.peak *= (1.0 - span / PEAK_FADES).max(0.0);
    }

    /// So much passes, and no queue stands behind.
    pub(super) fn passes(&mut self, rate: f64) {
        self.peak = self.peak.max(rate);
    }

    /// The link's rate was measured; `known`: the one before.
    pub(super) fn measured(&mut self, rate: f64, known: f64) {
        let difference = (rate / known - 1.0).abs();
        if difference > DIFFERENT {
            self.share = 1.0;
        } else if difference < SAME && std::mem::take(&mut self.tried) {
            self.share *= FOUND_AGAIN;
        }
    }

    /// `rate` is raised: with it, no queue stood behind. `known`: the link's rate as measured.
    pub(super) fn raised(&mut self, rate: f64, known: Option<f64>) {
        self.tried = true;
        self.passes(rate);
        if known.is_some_and(|known| rate > (1.0 + DIFFERENT) * known) {
            self.share = 1.0;
        }
    }

    /// The same time, shorter the more the link varies.
    pub(super) fn hold(&self, seconds: f64) -> f64 {
        seconds * (1.0 - self.share).max(HOLD_LEAST)
    }

    /// What passed so long after a change shows what it did, seconds; `steady` on a link that does not vary.
    pub(super) fn shows(&self, steady: f64) -> f64 {
        if self.varies() { SHOWS } else { steady }
    }

    /// By how much `rate` is raised; `steady` on a link that does not vary.
    pub(super) fn factor(&self, rate: f64, steady: f64) -> f64 {
        match self.varies() {
            true if rate < BACK_TO * self.peak => BACK,
            true => steady.max(FIRST),
            false => steady,
        }
    }

    fn varies(&self) -> bool {
        self.share > VARIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_found_again_is_steady_after_three_times() {
        let mut variation = Variation::default();
        assert_eq!((variation.hold(2.0), variation.factor(1e6, 1.04)), (2.0, 1.04));
        variation.measured(1e6, 2e6);
        assert!((variation.hold(2.0) - 0.2).abs() < 1e-9);
        assert_eq!((variation.factor(1e6, 1.04), variation.factor(1e6, 1.25)), (FIRST, 1.25));
        for _ in 0..3 {
            assert_eq!(variation.shows(0.25), SHOWS);
            variation.raised(1e6, Some(1e6));
            variation.measured(1.01e6, 1e6);
            // Once for each raise.
            variation.measured(1.01e6, 1e6);
        }
        assert_eq!((variation.shows(0.25), variation.factor(1e6, 1.04)), (0.25, 1.04));
        assert!((variation.hold(2.0) - 2.0 * (1.0 - 0.6f64.powi(3))).abs() < 1e-9);
    }

    #[test]
    fn what_had_passed_is_gone_back_to_in_large_steps() {
        let mut variation = Variation::default();
        variation.passes(8e6);
        assert_eq!(variation.factor(1e6, 1.04), 1.04, "nothing varies yet");
        variation.measured(1e6, 8e6);
        assert_eq!((variation.factor(1e6, 1.04), variation.factor(6e6, 1.04)), (BACK, FIRST));
        (0..300).for_each(|_| variation.tick(0.1));
        assert_eq!(variation.factor(1e6, 1.04), FIRST, "half a minute later");
    }

    #[test]
    fn a_rate_far_above_the_measured_one_that_passes_is_variation() {
        let mut variation = Variation::default();
        variation.raised(1.1e6, Some(1e6));
        assert_eq!(variation.shows(0.25), 0.25);
        variation.raised(1.3e6, Some(1e6));
        assert_eq!(variation.shows(0.25), SHOWS);
    }
}
