use super::*;

#[test]
fn quantiles_lie_inside_their_bucket() {
    let mut slots = [0; abi::PENDULUM_TIME_SLOTS as usize];
    slots[abi::time_slot(5_000)] = 100; // 3.906 to 5 ms
    assert!((rtt_quantile(&slots, 0.5) - 0.004453).abs() < 1e-9);
    slots[abi::TIME_BOUNDS_US.len()] = 900; // above 16 s
    assert!((rtt_quantile(&slots, 0.95) - 16.0).abs() < 1e-9);
}

/// Each of so many samples stands in its bucket as far up as its place among them says, and the quantile is where the
/// share ends: walked here sample by sample.
#[test]
fn quantiles_are_those_of_samples_spread_evenly_over_their_buckets() {
    let bounds = abi::TIME_BOUNDS_US;
    let mut slots = [0; abi::PENDULUM_TIME_SLOTS as usize];
    for (bucket, count) in [(0, 10), (2, 40), (3, 20), (7, 30)] {
        slots[bucket] = count;
    }
    let ends: Vec<f64> = slots
        .iter()
        .zip(bounds)
        .enumerate()
        .flat_map(|(bucket, (&count, bound))| {
            let lower = bucket.checked_sub(1).map_or(0.0, |below| f64::from(bounds[below]));
            let step = (f64::from(bound) - lower) / count.max(1) as f64;
            (1..=count).map(move |place| (lower + step * place as f64) / 1e6)
        })
        .collect();
    assert_eq!(ends.len(), 100);
    for percent in 1..=100 {
        let found = rtt_quantile(&slots, percent as f64 / 100.0);
        let expected = ends[percent - 1];
        assert!((found - expected).abs() < 1e-9, "{percent} %: {found}, not {expected}");
    }
}
