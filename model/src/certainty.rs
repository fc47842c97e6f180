//! When the level of a buffer is known well enough to say whether it stands.

use crate::constants::HALF;
use crate::ratio::FAST_RETRANSMIT_SEGMENTS;
use crate::sample::{QueueSample, sane};
use crate::thresholds::Thresholds;

/// The level, if it is known: its uncertainty is at most half of it, or four segments, or what the link carries in half of
/// `bufferbloat-delay`, whichever is most. A level that is less certain proves neither that the buffer stands nor that it is empty, and
/// counts like one that cannot be seen. `capacity`: bytes per second.
pub fn known(
    queue: Option<QueueSample>,
    capacity: Option<f64>,
    thresholds: &Thresholds,
) -> Option<QueueSample> {
    let queue = queue?;
    let level = sane(queue.mean_bytes)?;
    let uncertainty = sane(queue.uncertainty_bytes)?;
    // What is off by less does not change who is guilty.
    let slow = HALF * thresholds.bufferbloat_delay.seconds() * capacity.unwrap_or(0.0);
    // An error of a few segments still tells an empty buffer from a standing queue.
    let bound = (HALF * level).max(FAST_RETRANSMIT_SEGMENTS * thresholds.segment_bytes).max(slow);
    (uncertainty <= bound && sane(queue.min_bytes).is_some()).then_some(queue)
}

/// What of a queue is beyond doubt, bytes, if that is at least four segments: then it stands, however uncertain the rest of it is. `None`: that cannot be known.
pub(crate) fn surely(queue: Option<QueueSample>, thresholds: &Thresholds) -> Option<f64> {
    let queue = queue?;
    let bytes = sane(queue.min_bytes)? - sane(queue.uncertainty_bytes)?;
    (bytes >= FAST_RETRANSMIT_SEGMENTS * thresholds.segment_bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::QueueSource;

    #[test]
    fn half_the_level_or_four_segments() {
        let thresholds = Thresholds { segment_bytes: 1000.0, ..Thresholds::default() };
        let is_known = |level, uncertainty_bytes| {
            let queue = QueueSample { uncertainty_bytes, ..QueueSample::level(QueueSource::Estimate, level) };
            known(Some(queue), None, &thresholds).is_some()
        };
        // Four segments: 4,000 bytes, up to a level of 8,000. Half of 20,000 is 10,000.
        for (level, bound) in [(0.0, 4_000.0), (2_000.0, 4_000.0), (8_000.0, 4_000.0), (20_000.0, 10_000.0)] {
            assert!(is_known(level, bound) && !is_known(level, bound + 1.0), "{level}");
        }
        assert!(!is_known(f64::NAN, 0.0) && !is_known(0.0, f64::NAN) && !is_known(0.0, f64::INFINITY));
        // 50 ms of a link that carries 200,000 bytes a second.
        let queue = |uncertainty_bytes| QueueSample {
            uncertainty_bytes,
            ..QueueSample::level(QueueSource::Estimate, 2_000.0)
        };
        assert!(known(Some(queue(10_000.0)), Some(200_000.0), &thresholds).is_some());
        assert_eq!(known(Some(queue(10_001.0)), Some(200_000.0), &thresholds), None);
        assert_eq!(known(None, None, &thresholds), None);
    }
    #[test]
    fn four_segments_beyond_doubt_stand() {
        let thresholds = Thresholds { segment_bytes: 1000.0, ..Thresholds::default() };
        let of = |uncertainty_bytes| {
            let level = QueueSample::level(QueueSource::Estimate, 20_000.0);
            surely(Some(QueueSample { uncertainty_bytes, min_bytes: 19_000.0, ..level }), &thresholds)
        };
        assert_eq!([of(10_001.0), of(15_000.0), of(15_001.0)], [Some(8_999.0), Some(4_000.0), None]);
        assert_eq!((of(f64::NAN), of(f64::INFINITY), surely(None, &thresholds)), (None, None, None));
    }
}
