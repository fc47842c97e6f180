//! The round-trip time without queues.

use crate::sample::{BaseRoundTrip, Sample, sane};

/// What is known of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct KnownBase {
    /// The base, and whether both buffers were empty for certain when it was measured.
    pub(super) base: Option<BaseRoundTrip>,
    /// The source's word counts; it knows when the buffers were empty. Without it that is the smallest round trip ever seen, which is never
    /// raised, since under load nothing tells a longer route from a queue.
    is_given: bool,
}

impl KnownBase {
    /// Takes in a sample.
    pub(super) fn push(&mut self, sample: &Sample) {
        let usable = |seconds: f64| sane(seconds).filter(|seconds| *seconds > 0.0);
        if let Some(given) = sample.base_round_trip.filter(|given| usable(given.seconds).is_some()) {
            *self = Self { base: Some(given), is_given: true };
        } else if let Some(seconds) = sample.round_trip.and_then(usable).filter(|_| !self.is_given) {
            let seconds = self.base.map_or(seconds, |base| base.seconds.min(seconds));
            self.base = Some(BaseRoundTrip { seconds, is_proven: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(round_trip: Option<f64>, base: Option<(f64, bool)>) -> Sample {
        Sample {
            round_trip,
            base_round_trip: base.map(|(seconds, is_proven)| BaseRoundTrip { seconds, is_proven }),
            ..Sample::default()
        }
    }

    #[test]
    fn the_smallest_is_never_raised() {
        let mut base = KnownBase::default();
        assert_eq!(base.base, None);
        for seconds in [0.05, 0.02, 0.3] {
            base.push(&sample(Some(seconds), None));
        }
        for _ in 0..100_000 {
            base.push(&sample(Some(0.8), None));
        }
        assert_eq!(base.base, Some(BaseRoundTrip { seconds: 0.02, is_proven: false }));
        base.push(&sample(Some(f64::NAN), Some((-1.0, true))));
        assert_eq!(base.base, Some(BaseRoundTrip { seconds: 0.02, is_proven: false }));
    }

    #[test]
    fn the_sources_word_counts_up_and_down() {
        let mut base = KnownBase::default();
        base.push(&sample(Some(0.01), None));
        base.push(&sample(Some(0.4), Some((0.04, true))));
        assert_eq!(base.base, Some(BaseRoundTrip { seconds: 0.04, is_proven: true }));
        // Silence about it changes nothing, and neither does a round trip below it.
        base.push(&sample(Some(0.03), None));
        assert_eq!(base.base.map(|base| base.seconds), Some(0.04));
        base.push(&sample(None, Some((0.06, false))));
        assert_eq!(base.base, Some(BaseRoundTrip { seconds: 0.06, is_proven: false }));
    }
}
