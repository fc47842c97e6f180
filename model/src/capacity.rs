//! The rate of one direction: what is configured, what a qdisc shapes to, what was measured. Everyone asks here which of them counts, and why.

mod learner;
mod service;

use std::time::Duration;

use crate::constants::{FADED, MEASURED_WITHIN};
use crate::link::{Known, Link, Provenance};
use crate::sample::MeasuredRate;
use crate::segment::Direction;

pub(crate) use learner::CapacityLearner;
pub(crate) use service::ServiceRate;

/// Whether a configured rate is wrong, as the link carried another one while its buffer held a queue. Both in the same unit.
pub(crate) fn contradicts(measured: f64, configured: f64) -> bool {
    differs(measured, configured, MEASURED_WITHIN)
}

fn differs(measured: f64, configured: f64, part: f64) -> bool {
    (measured - configured).abs() > part * configured
}

/// What is known of a direction's rate at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Capacity {
    /// As configured, bytes per second.
    configured: Option<f64>,
    /// A qdisc of this machine lets this much through, bytes per second.
    shaped: Option<f64>,
    /// The measured rate, if it is recent enough to count.
    pub measured: Option<MeasuredRate>,
    now: Duration,
}

/// The rate that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counting {
    /// Bytes per second, and where from.
    pub known: Known,
    /// The configured rate, bytes per second, if the measured one contradicts it and counts instead.
    pub contradicted: Option<f64>,
}

impl Capacity {
    /// What is known at `now`. Impossible rates are left out, and so are measured ones that have faded.
    pub(crate) fn new(
        link: &Link,
        direction: Direction,
        measured: Option<MeasuredRate>,
        now: Duration,
    ) -> Self {
        let usable = |rate: &f64| rate.is_finite() && *rate > 0.0;
        Self {
            configured: link.capacity(direction),
            shaped: link.shaped[direction].filter(usable),
            measured: measured.filter(|rate| now.saturating_sub(rate.measured_at) < FADED),
            now,
        }
    }

    /// The configured rate, unless the link carries another one for certain; else that of the qdisc; else the measured one. Of a queue that a qdisc of
    /// this machine shapes, the measured rate is the qdisc's and contradicts nothing.
    pub fn counting(&self) -> Option<Counting> {
        let of = |value: f64, provenance| Counting { known: Known { value, provenance }, contradicted: None };
        let learnt = self.measured.map(|rate| of(rate.bytes_per_second, Provenance::Learnt));
        let contradicted = self.configured.filter(|configured| {
            let is_other =
                |rate: MeasuredRate| differs(rate.bytes_per_second, *configured, self.measured_within(&rate));
            self.shaped.is_none() && self.measured.is_some_and(is_other)
        });
        match contradicted {
            Some(_) => learnt.map(|learnt| Counting { contradicted, ..learnt }),
            None => self
                .configured
                .map(|rate| of(rate, Provenance::Config))
                .or_else(|| self.shaped.map(|rate| of(rate, Provenance::ShapingQdisc)))
                .or(learnt),
        }
    }

    /// By which part a measured rate may be off: more with its age, until nothing is left of it.
    fn measured_within(&self, rate: &MeasuredRate) -> f64 {
        let age = self.now.saturating_sub(rate.measured_at).as_secs_f64() / FADED.as_secs_f64();
        MEASURED_WITHIN + (1.0 - MEASURED_WITHIN) * age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3600;

    fn capacity(configured: Option<f64>, shaped: Option<f64>, measured: Option<f64>, age_s: u64) -> Capacity {
        let mut link = Link::default();
        link.capacity.up = configured.map(Known::config);
        link.shaped.up = shaped;
        let measured_at = Duration::from_secs(7);
        let measured = measured.map(|bytes_per_second| MeasuredRate { bytes_per_second, measured_at });
        Capacity::new(&link, Direction::Up, measured, measured_at + Duration::from_secs(age_s))
    }

    #[test]
    fn configured_counts_then_shaped_then_measured() {
        let counting = |capacity: Capacity| {
            capacity.counting().map(|it| (it.known.value, it.known.provenance, it.contradicted))
        };
        for (configured, shaped, measured, expected) in [
            (None, None, None, None),
            (Some(100.0), Some(90.0), Some(89.0), Some((100.0, Provenance::Config, None))),
            (None, Some(90.0), Some(50.0), Some((90.0, Provenance::ShapingQdisc, None))),
            (None, None, Some(50.0), Some((50.0, Provenance::Learnt, None))),
            (Some(100.0), None, Some(76.0), Some((100.0, Provenance::Config, None))),
            (Some(100.0), None, Some(74.0), Some((74.0, Provenance::Learnt, Some(100.0)))),
            (Some(100.0), None, Some(124.0), Some((100.0, Provenance::Config, None))),
            (Some(100.0), None, Some(126.0), Some((126.0, Provenance::Learnt, Some(100.0)))),
            // A shaper at half of the line's rate does not make the line's rate wrong.
            (Some(100.0), Some(50.0), Some(49.0), Some((100.0, Provenance::Config, None))),
            (Some(f64::NAN), Some(0.0), Some(50.0), Some((50.0, Provenance::Learnt, None))),
        ] {
            assert_eq!(counting(capacity(configured, shaped, measured, 0)), expected);
        }
    }

    #[test]
    fn a_measured_rate_fades() {
        let counts = |age_s| capacity(None, None, Some(100.0), age_s).counting().map(|it| it.known.value);
        assert_eq!((counts(0), counts(HOUR - 1), counts(HOUR)), (Some(100.0), Some(100.0), None));
        // What is 40 % off is wrong at first, and after half an hour nobody knows.
        let contradicted =
            |age_s| capacity(Some(100.0), None, Some(60.0), age_s).counting().and_then(|it| it.contradicted);
        assert_eq!((contradicted(0), contradicted(HOUR / 2)), (Some(100.0), None));
    }
}
