//! The rate of one direction, from whoever knows it best.

use crate::capacity::{self, ServiceRate};

/// What is known of a rate beside what is measured, bytes per nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownRate {
    configured: Option<f64>,
    first: Option<f64>,
}

impl KnownRate {
    /// As configured, or as the qdisc says. It counts before all that is measured.
    pub(super) fn tell(&mut self, rate: Option<f64>) {
        self.configured = rate;
    }

    /// A rate to begin with: it holds until one is measured.
    pub(super) fn begin_with(&mut self, rate: Option<f64>) {
        self.first = rate;
    }

    /// Whether somebody who knows has told it.
    pub(super) fn is_configured(&self) -> bool {
        self.configured.is_some()
    }

    /// Whether anything is known without measuring.
    pub(super) fn is_some(&self) -> bool {
        self.configured.is_some() || self.first.is_some()
    }

    /// The best that is known: configured, unless the link was seen to carry another rate for certain; measured, the one to begin with, a first guess.
    /// `measured` picks from what was learnt.
    pub(super) fn best(
        &self,
        measured: impl Fn(fn(&ServiceRate) -> Option<f64>) -> Option<f64>,
    ) -> Option<f64> {
        let seen = measured(ServiceRate::rate);
        let contradicts = |configured: f64| seen.is_some_and(|seen| capacity::contradicts(seen, configured));
        self.configured
            .filter(|configured| !contradicts(*configured))
            .or(seen)
            .or(self.first)
            .or_else(|| measured(ServiceRate::rough))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configured_before_measured_before_first_before_rough() {
        let nothing = ServiceRate::default();
        let (mut rough, mut measured) = (ServiceRate::default(), ServiceRate::default());
        // 100 bytes per millisecond: a second and 100,000 bytes make a rate, a tenth of each a first guess.
        rough.add(2e8, 2e8, 20_000.0);
        measured.add(2e9, 2e9, 200_000.0);
        let best = |rate: &KnownRate, learnt: &ServiceRate| rate.best(|pick| pick(learnt));
        let mut rate = KnownRate::default();
        assert_eq!(best(&rate, &nothing), None);
        assert_eq!(best(&rate, &rough), Some(1e-4));
        rate.begin_with(Some(3e-4));
        assert_eq!(best(&rate, &rough), Some(3e-4));
        assert_eq!(best(&rate, &measured), Some(1e-4));
        rate.tell(Some(1.2e-4));
        assert_eq!(best(&rate, &measured), Some(1.2e-4));
        // The link does not carry twice what it carries.
        rate.tell(Some(2e-4));
        assert_eq!(best(&rate, &measured), Some(1e-4));
        assert_eq!(best(&rate, &rough), Some(2e-4));
        rate.tell(None);
        assert_eq!(best(&rate, &nothing), Some(3e-4));
    }
}
