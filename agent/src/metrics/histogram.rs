//! Histograms of times, as both kinds that Prometheus has: the classic one with 18 bounds, and the native one of schema 1, whose bounds
//! are the powers of √2 (prometheus.io/docs/specs/native_histograms, "Schema"). The kernel side's slots are cut at the bounds of both,
//! so that each figure of either is an exact sum of slots. Text formats carry the classic one; protobuf carries both, and Prometheus
//! takes the one it is configured to take.

use prometheus_client::encoding::{NativeHistogram, NativeHistogramBuckets};

use crate::bpf::abi;

/// Bounds of the classic histogram, microseconds; all are among [`abi::TIME_BOUNDS_US`].
/// Closer where a full buffer's delays lie: a quantile is exact to the width of a bucket.
const CLASSIC_BOUNDS_US: [u32; 18] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 353_553, 500_000, 707_106, 1_000_000,
    1_414_213, 2_000_000, 2_828_427, 5_000_000, 10_000_000,
];

/// Buckets end at 2^(index / 2^1) seconds.
const SCHEMA: i32 = 1;

/// Times up to here are in the "zero bucket": the lowest bound, 2⁻¹³ s.
const ZERO_THRESHOLD_S: f64 = 1.0 / 8192.0;

/// How many times fell between two bounds of [`abi::TIME_BOUNDS_US`].
pub(super) type TimeSlots = [u64; abi::PENDULUM_TIME_SLOTS as usize];

/// Upper bound in seconds and count of each bucket by itself; the last bound is infinity.
pub(super) fn classic_buckets(slots: &TimeSlots) -> Vec<(f64, u64)> {
    let mut from = 0;
    let mut bucket = |end: usize, bound_s: f64| {
        let count = slots[from..end].iter().sum();
        from = end;
        (bound_s, count)
    };
    let mut buckets: Vec<_> = CLASSIC_BOUNDS_US
        .iter()
        .map(|bound| bucket(abi::time_slot(*bound) + 1, f64::from(*bound) / 1e6))
        .collect();
    buckets.push(bucket(slots.len(), f64::INFINITY));
    buckets
}

/// The buckets of the native histogram, as its protobuf message has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NativeBuckets {
    zero_count: u64,
    /// Rows of buckets that follow each other: how many empty ones lie between this row and the one before (before the first: its
    /// index), and how many it has.
    spans: Vec<(i32, u32)>,
    /// The count of the first bucket, and of each further one what it has more than the one before.
    deltas: Vec<i64>,
}

impl NativeBuckets {
    pub(super) fn new(slots: &TimeSlots) -> Self {
        let mut buckets = Self { zero_count: slots[0], ..Self::default() };
        // The next index that continues the row, and the count of the bucket before.
        let (mut next, mut before) = (0, 0);
        for (index, count) in counts(slots) {
            let gap = index - next;
            match buckets.spans.last_mut() {
                Some((_, length)) if gap == 0 => *length += 1,
                _ => buckets.spans.push((gap, 1)),
            }
            let count = count.cast_signed();
            buckets.deltas.push(count - before);
            (next, before) = (index + 1, count);
        }
        buckets
    }

    pub(super) fn message(&self) -> NativeHistogram<'_> {
        NativeHistogram {
            schema: SCHEMA,
            zero_threshold: ZERO_THRESHOLD_S,
            zero_count: self.zero_count,
            negative: NativeHistogramBuckets { spans: &[], deltas: &[] },
            positive: NativeHistogramBuckets { spans: &self.spans, deltas: &self.deltas },
            created: None,
        }
    }
}

/// Index and count of each bucket above zero that has any, by index.
fn counts(slots: &TimeSlots) -> Vec<(i32, u64)> {
    let mut counts: Vec<(i32, u64)> = Vec::new();
    for (slot, &count) in slots.iter().enumerate().skip(1).filter(|(_, count)| **count > 0) {
        let index = native_index(slot);
        match counts.last_mut() {
            Some((last, sum)) if *last == index => *sum += count,
            _ => counts.push((index, count)),
        }
    }
    counts
}

/// The native bucket that a slot lies in. What is above the last bound is said to be in the bucket that begins there.
fn native_index(slot: usize) -> i32 {
    let index = |us: u32| (2.0 * (f64::from(us) / 1e6).log2()).ceil() as i32;
    abi::TIME_BOUNDS_US
        .get(slot)
        .map_or_else(|| index(abi::TIME_BOUNDS_US[slot - 1]) + 1, |bound| index(*bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around every bound, and some between.
    fn times() -> impl Iterator<Item = u32> {
        let around = abi::TIME_BOUNDS_US.into_iter().flat_map(|bound| [bound - 1, bound, bound + 1]);
        around.chain((0..20_000_000).step_by(997))
    }

    fn slots(times: impl Iterator<Item = u32>) -> TimeSlots {
        let mut slots = [0; abi::PENDULUM_TIME_SLOTS as usize];
        times.for_each(|us| slots[abi::time_slot(us)] += 1);
        slots
    }

    /// Worked out from the times, not from the slots.
    #[test]
    fn a_classic_bucket_has_the_times_up_to_its_bound() {
        let mut sum = 0;
        for (bound, count) in classic_buckets(&slots(times())) {
            sum += count;
            let expected = times().filter(|us| f64::from(*us) / 1e6 <= bound).count() as u64;
            assert_eq!(sum, expected, "up to {bound} s");
        }
        assert_eq!(sum, times().count() as u64);
    }

    /// The definition: the bucket with index i holds what is above 2^((i - 1) / 2) s and not above 2^(i / 2) s.
    #[test]
    fn a_native_bucket_has_the_times_between_its_bounds() {
        for us in times().filter(|us| *us <= 16_000_000) {
            let seconds = f64::from(us) / 1e6;
            let found = counts(&slots([us].into_iter()));
            if seconds <= ZERO_THRESHOLD_S {
                assert_eq!(found, [], "{us} us");
                continue;
            }
            let [(index, 1)] = found[..] else { panic!("{us} us: {found:?}") };
            let end = |index: i32| (f64::from(index) / 2.0).exp2();
            assert!(end(index - 1) < seconds && seconds <= end(index), "{us} us in bucket {index}");
        }
        assert_eq!(counts(&slots([16_000_001].into_iter())), [(9, 1)]);
    }

    /// By hand: 2 of 15,625 µs (2⁻⁶ s: index -12), 5 of 20 ms and 1 of 22 ms (-11), 7 of 1.2 s (1), 3 below the lowest bound.
    #[test]
    fn spans_and_deltas_are_those_of_the_protocol() {
        let known = [(15_625, 2), (20_000, 5), (22_000, 1), (1_200_000, 7), (100, 3)];
        let slots = slots(known.into_iter().flat_map(|(us, count)| std::iter::repeat_n(us, count)));
        let expected = NativeBuckets { zero_count: 3, spans: vec![(-12, 2), (11, 1)], deltas: vec![2, 4, 1] };
        assert_eq!(NativeBuckets::new(&slots), expected);
        assert_eq!(NativeBuckets::new(&[0; abi::PENDULUM_TIME_SLOTS as usize]), NativeBuckets::default());
    }
}
