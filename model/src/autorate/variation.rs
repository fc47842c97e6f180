//! Whether the link's rate varies: one that does is tried again sooner and by more, one that does not is left alone.

/// What varies: a rate that differs by more than this from the one before, …
const DIFFERENT: f64 = 0.2;
/// … and what does not: one that was tried and found again with no more difference than this.
const SAME: f64 = 0.04;
/// How much is left of the variation after each of those, after each other measurement that says the same, and with time, seconds.
const FOUND_AGAIN: f64 = 0.6;
const FOUND_STILL: f64 = 0.98;
const FADES: f64 = 60.0;
/// A link varies if more than this is left.
const VARIES: f64 = 0.3;
/// The share of the time that is waited before the rate is raised again, on a link that varies.
const HOLD: f64 = 0.1;
/// What passed so long after a raise shows what it did, seconds.
const SHOWS: f64 = 0.1;
/// The first raise; and those on the way back to what had passed before, up to so much of it.
const FIRST: f64 = 1.2;
const BACK: f64 = 1.5;
const BACK_TO: f64 = 0.4;
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

    /// The most that passed without a queue behind within the last seconds, fading.
    pub(super) fn peak(&self) -> f64 {
        self.peak
    }

    /// The link's rate was measured; `known`: the one before.
    pub(super) fn measured(&mut self, rate: f64, known: f64) {
        let difference = (rate / known - 1.0).abs();
        if difference > DIFFERENT {
            self.share = 1.0;
        } else if difference < SAME {
            self.share *= if std::mem::take(&mut self.tried) { FOUND_AGAIN } else { FOUND_STILL };
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

    /// What holds for a link that varies, or for one that does not.
    pub(super) fn choose(&self, varying: f64, steady: f64) -> f64 {
        if self.varies() { varying } else { steady }
    }

    /// For how long the rate is held; `steady` on a link that does not vary. Seconds.
    pub(super) fn hold(&self, steady: f64) -> f64 {
        self.choose(HOLD, 1.0) * steady
    }

    /// What passed so long after a change shows what it did, seconds; `steady` on a link that does not vary.
    pub(super) fn shows(&self, steady: f64) -> f64 {
        self.choose(SHOWS, steady)
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
        for _ in 0..3 {
            assert_eq!((variation.hold(2.0), variation.shows(0.25)), (2.0 * HOLD, SHOWS));
            assert_eq!((variation.factor(1e6, 1.04), variation.factor(1e6, 1.25)), (FIRST, 1.25));
            variation.raised(1e6, Some(1e6));
            variation.measured(1.01e6, 1e6);
        }
        assert_eq!(
            (variation.hold(2.0), variation.shows(0.25), variation.factor(1e6, 1.04)),
            (2.0, 0.25, 1.04)
        );
    }

    #[test]
    fn a_rate_that_is_measured_again_and_again_is_steady_within_ten_seconds() {
        let mut variation = Variation::default();
        variation.measured(1e6, 2e6);
        // Differences of more than that say neither.
        (0..100).for_each(|_| variation.measured(1.1e6, 1e6));
        assert!(variation.varies());
        let took = (0..1000).take_while(|_| {
            variation.measured(1.02e6, 1e6);
            variation.varies()
        });
        let took = took.count();
        assert!((20..100).contains(&took), "{took} tenths of a second");
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
