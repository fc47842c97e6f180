//! The three cases of the data pendulum: paper 000, Eq. 4 and 5.

use crate::segment::PerDirection;

/// Eq. 4 and 5: the time the link needs to carry a window, `cwnd_x/C_x`, seconds. The direction that needs longer
/// holds the queue (001 Eq. 5), and its time is the RTT.
pub fn transfer_time(window: PerDirection<f64>, capacity: PerDirection<f64>) -> PerDirection<f64> {
    PerDirection::from_fn(|direction| window[direction] / capacity[direction])
}

/// Throughput of both directions, bytes per second, from the windows: `X_x = cwnd_x/RTT`, where RTT is the longer of
/// both transfer times and of the round trip without queues (`2·T_p`), seconds.
///
/// In case 1 this is `X_u = C_u`, `X_d = C_u·cwnd_d/cwnd_u`, in case 2 the mirror image, in case 3 both capacities.
/// Zero windows over a zero round trip give zero.
pub fn throughput(
    window: PerDirection<f64>,
    capacity: PerDirection<f64>,
    base_round_trip: f64,
) -> PerDirection<f64> {
    let time = transfer_time(window, capacity);
    let round_trip = time.up.max(time.down).max(base_round_trip);
    if round_trip <= 0.0 {
        return PerDirection::default();
    }
    PerDirection::from_fn(|direction| window[direction] / round_trip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 2.4 Mb/s down, 196 kb/s up, in bytes per second.
    const LINK: PerDirection<f64> = PerDirection { up: 24_500.0, down: 300_000.0 };

    #[test]
    fn case_1_starves_the_download() {
        // Equal windows of 22,500: the uplink needs 0.918 s, the downlink 0.075 s. X_u = C_u and X_d = C_u: r = 1,
        // the collapse of 000 Fig. 1.
        let equal = PerDirection { up: 22_500.0, down: 22_500.0 };
        let rates = throughput(equal, LINK, 0.0);
        assert!((rates.up - 24_500.0).abs() < 1e-9 && (rates.down - 24_500.0).abs() < 1e-9);
    }

    #[test]
    fn case_2_slows_the_upload() {
        // Windows 30,000 and 1,225: 0.1 s against 0.05 s. X_d = C_d, X_u = C_d · 1,225/30,000 = 12,250.
        let rates = throughput(PerDirection { up: 1_225.0, down: 30_000.0 }, LINK, 0.0);
        assert!((rates.down - 300_000.0).abs() < 1e-6 && (rates.up - 12_250.0).abs() < 1e-6);
    }

    #[test]
    fn without_queues_the_propagation_time_counts() {
        // 3,000 B each over 2 s: 1,500 B/s, although the link could do more.
        let rates = throughput(PerDirection { up: 3_000.0, down: 3_000.0 }, LINK, 2.0);
        assert_eq!(rates, PerDirection { up: 1_500.0, down: 1_500.0 });
        assert_eq!(throughput(PerDirection::default(), LINK, 0.0), PerDirection::default());
    }

    proptest! {
        /// Eq. 4 and 5 follow from Eq. 1–3: both windows take exactly one RTT to transfer.
        #[test]
        fn both_windows_take_one_round_trip(up in 0.0..1e6, down in 0.0..1e6, c_up in 1.0..1e9, c_down in 1.0..1e9) {
            // Eq. 2 and 3: a window is its own data in its own buffer, and what its ACKs in the other buffer stand for.
            let windows: PerDirection<f64> = PerDirection { up: up + down * c_up / c_down, down: down + up * c_down / c_up };
            let time = transfer_time(windows, PerDirection { up: c_up, down: c_down });
            // Eq. 1.
            let expected: f64 = down / c_down + up / c_up;
            prop_assert!((time.up - expected).abs() <= 1e-9 * expected.max(1e-9));
            prop_assert!((time.down - expected).abs() <= 1e-9 * expected.max(1e-9));
        }
    }
}
