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

#[test]
fn bursts_have_a_mean_and_a_95th_percentile() {
    let mut counters = abi::pendulum_counters::zero();
    assert!(ack_burst(&counters).is_none());
    counters.bursts[1] = 94;
    counters.bursts[20] = 6;
    counters.burst_segments = 94 + 120;
    let burst = ack_burst(&counters).expect("there were bursts");
    assert_eq!((burst.p95, burst.mean), (20, 2.14));
    assert_eq!(burst.histogram, BTreeMap::from([(1, 94), (20, 6)]));
}

/// So many ACKs that at least 95 of 100 bursts have no more: of 19 and 20 bursts the 19th, of 21 the 20th.
#[test]
fn the_95th_percentile_counts_bursts() {
    for (bursts, place) in [(1, 1), (2, 2), (19, 19), (20, 19), (21, 20), (40, 38)] {
        let mut counters = abi::pendulum_counters::zero();
        // Short ones first; the one in question is the only one of its length.
        counters.bursts[1] = place - 1;
        counters.bursts[2] = 1;
        counters.bursts[3] = bursts - place;
        assert_eq!(ack_burst(&counters).map(|burst| burst.p95), Some(2), "{bursts}");
    }
}
