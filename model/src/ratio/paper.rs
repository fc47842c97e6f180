//! The ratio as paper 000 predicts it: Eq. 6–11.

use crate::constants::HALF;
use crate::segment::{Direction, PerDirection};

use super::cases::throughput;
use super::{Caveat, Confidence, Prediction, RatioError, Setting, refined};

/// Mean of a sawtooth between half its peak and its peak.
const SAWTOOTH_MEAN: f64 = 0.75;

/// The inverse of Eq. 11, `r = (γ − a)/(1 − a·γ)` with `a = 3/4·a'`, for buffer dimensioning: `γ = (r + a)/(1 + a·r)`.
pub fn gamma_of_ratio(ratio: f64, a: f64) -> f64 {
    (ratio + a) / (1.0 + a * ratio)
}

/// `a = 3/4·a'` of a setting.
pub fn a_of(setting: &Setting) -> f64 {
    SAWTOOTH_MEAN * setting.ack_bytes_per_data_byte()
}

/// `B_u` in bytes for the wanted ratio: `B_u = (B_d + P_d)/γ(r) − P_u`. May be below one segment or even negative:
/// then the data in flight on the uplink alone is too much.
///
/// # Errors
/// If `ratio` is not a positive finite number.
pub fn uplink_buffer_for(setting: &Setting, ratio: f64) -> Result<f64, RatioError> {
    if !(ratio > 0.0 && ratio.is_finite()) {
        return Err(RatioError::UnreachableRatio { wanted: ratio });
    }
    Ok(setting.room(Direction::Down) / gamma_of_ratio(ratio, a_of(setting))
        - setting.in_flight(Direction::Up))
}

/// Eq. 6–10 solved exactly: the four combinations of capped and uncapped windows are tried, and the consistent one is
/// kept.
///
/// At least one is always consistent (each window falls as the other grows, so their composition is monotone). If
/// two are, `TwoSolutions` is noted and the first of: none capped, both, upload only, download only is taken.
///
/// # Errors
/// If the ACKs leave a buffer no room for data.
pub fn predict(setting: &Setting) -> Result<Prediction, RatioError> {
    let none = PerDirection { up: false, down: false };
    let consistent: Vec<PerDirection<f64>> = [(false, false), (true, true), (true, false), (false, true)]
        .into_iter()
        .map(|(up, down)| PerDirection { up, down })
        .map(|capped| (capped, windows(setting, capped)))
        .filter(|(capped, window)| is_capped(setting, *window) == *capped)
        .map(|(_, window)| window)
        .collect();
    // Rounding at an exact tie can leave none; the uncapped solution is then right to within that rounding.
    let window = consistent.first().copied().unwrap_or_else(|| windows(setting, none));
    for direction in Direction::ALL {
        if window[direction] <= 0.0 {
            let acks = setting.ack_bytes_per_data_byte() * window[direction.opposite()].max(0.0);
            return Err(RatioError::NoRoomForData { direction, buffer: setting.buffer[direction], acks });
        }
    }
    let caveats = caveats(setting, consistent.len() > 1);
    Ok(Prediction {
        ratio: window.down / window.up,
        window,
        throughput: throughput(window, setting.capacity, 2.0 * setting.propagation),
        confidence: if caveats.is_empty() { Confidence::High } else { Confidence::Low },
        caveats,
    })
}

type Capped = PerDirection<bool>;

/// Both windows of Eq. 6 for one combination of caps.
fn windows(setting: &Setting, capped: Capped) -> PerDirection<f64> {
    let (cap, acks) = (setting.tcp_buffer, setting.ack_bytes_per_data_byte());
    let uncapped = |direction: Direction, other_window: f64| {
        SAWTOOTH_MEAN * (setting.room(direction) - acks * other_window)
    };
    match (capped.up, capped.down) {
        (true, true) => PerDirection { up: cap, down: cap },
        (true, false) => PerDirection { up: cap, down: uncapped(Direction::Down, cap) },
        (false, true) => PerDirection { up: uncapped(Direction::Up, cap), down: cap },
        // w_u = 3/4·Q_u − a·w_d and w_d = 3/4·Q_d − a·w_u, with Q = B + P: a 2×2 linear system.
        (false, false) => {
            let a = SAWTOOTH_MEAN * acks;
            let (up, down) = (setting.room(Direction::Up), setting.room(Direction::Down));
            let scale = SAWTOOTH_MEAN / (1.0 - a * a);
            PerDirection { up: scale * (up - a * down), down: scale * (down - a * up) }
        }
    }
}

/// The condition of Eq. 6: `B*_x + P_x > B_TCP`.
fn is_capped(setting: &Setting, window: PerDirection<f64>) -> Capped {
    let acks = setting.ack_bytes_per_data_byte();
    PerDirection::from_fn(|direction| {
        setting.room(direction) - acks * window[direction.opposite()] > setting.tcp_buffer
    })
}

/// Where the paper's model is known to leave the simulation.
fn caveats(setting: &Setting, two_solutions: bool) -> Vec<Caveat> {
    let mut caveats = Vec::new();
    if setting.gamma() < HALF * setting.k() {
        caveats.push(Caveat::AcksStandUpstream);
    }
    caveats.extend(refined::caveats(setting));
    if two_solutions {
        caveats.push(Caveat::TwoSolutions);
    }
    caveats
}

#[cfg(test)]
mod tests {
    use super::super::setting::tests::link;
    use super::*;
    use proptest::prelude::*;

    fn ratio(setting: &Setting) -> f64 {
        predict(setting).expect("a ratio").ratio
    }

    #[test]
    fn equal_buffers_give_equal_shares() {
        // 000 Fig. 1: 30,000 B at both ends, T_p = 0: γ = 1, so r = (1 − a)/(1 − a) = 1, whatever k is.
        // w = 3/4·(30,000 − w/60) → w = 22,500/(1 + 1/80) = 22,222.2
        let prediction = predict(&link("2400kbit", "196kbit", 30_000.0, 30_000.0, 0.0)).expect("a ratio");
        assert!((prediction.ratio - 1.0).abs() < 1e-12);
        assert!((prediction.window.up - 22_222.222).abs() < 1e-3);
        // Case 1: X_u = C_u = 24,500 B/s = 196 kb/s, and the download falls to the same.
        assert!((prediction.throughput.up - 24_500.0).abs() < 1e-9);
        assert!((prediction.throughput.down - 24_500.0).abs() < 1e-9);
        assert_eq!(prediction.caveats, [Caveat::AcksStandUpstream]);
    }

    #[test]
    fn report_001_finds_a_ratio_of_about_ten() {
        // 001 §3.1: 2 Mb/s / 192 kb/s, t_p = 20 ms, B_u = 9,000, B_d = 75,000, TCP buffers ≥ 64 kB: r ≈ 10.
        // P_d = 2·250,000·0.02 = 10,000; P_u = 2·24,000·0.02 = 960; γ = 85,000/9,960 = 8.53414.
        // a = 3/4·1/60 = 0.0125: r = 8.52164/(1 − 0.106677) = 9.5392.
        let setting = link("2mbit", "192kbit", 75_000.0, 9_000.0, 20.0);
        assert!((ratio(&setting) - 9.5392).abs() < 1e-3, "{}", ratio(&setting));
        // Without delayed ACKs a = 0.025: r = 8.50914/(1 − 0.213354) = 10.8170.
        let immediate = setting.with_delayed_acks(false);
        assert!((ratio(&immediate) - 10.8170).abs() < 1e-3, "{}", ratio(&immediate));
        // B_TCP = 131,072 is above both buffers and changes nothing. With 65,536: the download is capped
        // (85,000 − small > 65,536), w_d = 65,536; w_u = 3/4·(9,960 − 65,536/60) = 3/4·8,867.73 = 6,650.80; r = 9.8539.
        assert!((ratio(&setting.with_tcp_buffer(131_072.0)) - 9.5392).abs() < 1e-3);
        let capped = predict(&setting.with_tcp_buffer(65_536.0)).expect("a ratio");
        assert!((capped.ratio - 9.8539).abs() < 1e-3, "{}", capped.ratio);
        assert_eq!(capped.window.down, 65_536.0);
    }

    #[test]
    fn both_windows_capped() {
        // 16,384 B sockets below 30,000 and 75,000 B buffers: both windows are 16,384, r = 1.
        let setting = link("2mbit", "192kbit", 75_000.0, 30_000.0, 20.0).with_tcp_buffer(16_384.0);
        let prediction = predict(&setting).expect("a ratio");
        assert_eq!(prediction.window, PerDirection { up: 16_384.0, down: 16_384.0 });
    }

    #[test]
    fn only_the_upload_capped() {
        // B_u = 30,000 > 20,000 = B_TCP > B_d = 15,000, T_p = 0: w_u = 20,000,
        // w_d = 3/4·(15,000 − 20,000/60) = 3/4·14,666.67 = 11,000; r = 0.55.
        let setting = link("2400kbit", "196kbit", 15_000.0, 30_000.0, 0.0).with_tcp_buffer(20_000.0);
        let prediction = predict(&setting).expect("a ratio");
        assert!((prediction.window.down - 11_000.0).abs() < 1e-6);
        assert!((prediction.ratio - 0.55).abs() < 1e-9);
    }

    #[test]
    fn two_solutions_are_said() {
        // Q = 30,000 both ways, a' = 1/60, B_TCP = 29,550. Upload capped: the download's room is 30,000 − 492.5 =
        // 29,507.5 < 29,550, uncapped, w_d = 22,130.6; the upload's room 30,000 − 368.8 = 29,631.2 > 29,550. Consistent,
        // and by symmetry so is the mirror image.
        let setting = link("2400kbit", "2400kbit", 30_000.0, 30_000.0, 0.0).with_tcp_buffer(29_550.0);
        let prediction = predict(&setting).expect("a ratio");
        assert!(prediction.caveats.contains(&Caveat::TwoSolutions));
        assert_eq!(prediction.window.up, 29_550.0);
        assert!((prediction.window.down - 22_130.625).abs() < 1e-6);
    }

    #[test]
    fn acks_can_fill_a_small_uplink_buffer() {
        // γ = 100 > 1/a = 80: the download's ACKs take more than B_u.
        let error = predict(&link("2400kbit", "196kbit", 300_000.0, 3_000.0, 0.0)).expect_err("starved");
        assert!(matches!(error, RatioError::NoRoomForData { direction: Direction::Up, .. }));
        assert!(error.to_string().contains("up buffer of 3000 bytes"), "{error}");
        // w_d = 3/4·(300,000 − 0.0125·3,000)/(1 − 0.0125²) = 225,007.0, of whose bytes a sixtieth are ACKs.
        let RatioError::NoRoomForData { acks, buffer, .. } = error else { panic!("{error}") };
        assert!((acks - 225_007.0 / 60.0).abs() < 0.01, "{acks}");
        assert_eq!(buffer, 3_000.0);
    }

    #[test]
    fn sizing_is_the_inverse() {
        // 000's link, T_p = 20 ms, B_d = 30,000, r = k = 12.244898: a = 0.0125,
        // γ = (12.244898 + 0.0125)/(1 + 0.153061) = 12.257398/1.153061 = 10.63031; B_u = 42,000/10.63031 − 980 = 2,970.97.
        let setting = link("2400kbit", "196kbit", 30_000.0, 0.0, 20.0);
        let buffer = uplink_buffer_for(&setting, setting.k()).expect("a buffer");
        assert!((buffer - 2_970.97).abs() < 0.05, "{buffer}");
        let sized = setting.with_buffer(Direction::Up, buffer);
        assert!((ratio(&sized) - setting.k()).abs() < 1e-9);
        for wanted in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(uplink_buffer_for(&setting, wanted).is_err());
        }
    }

    proptest! {
        #[test]
        fn closed_form_and_inverse_agree(r in 0.05..60.0, a in 0.0..0.03) {
            let gamma = gamma_of_ratio(r, a);
            // Eq. 11.
            let back = (gamma - a) / (1.0 - a * gamma);
            prop_assert!((back - r).abs() < 1e-6 * r);
        }

        #[test]
        fn the_exact_solution_satisfies_equation_6(
            up in 3_000.0..100_000.0, down in 3_000.0..100_000.0, tp in 0.0..100.0, cap in 5_000.0..200_000.0,
            delayed: bool,
        ) {
            let setting = link("2400kbit", "196kbit", down, up, tp).with_tcp_buffer(cap).with_delayed_acks(delayed);
            if let Ok(prediction) = predict(&setting) {
                for x in Direction::ALL {
                    let room = setting.room(x)
                        - setting.ack_bytes_per_data_byte() * prediction.window[x.opposite()];
                    let expected = if room > cap { cap } else { 0.75 * room };
                    prop_assert!((prediction.window[x] - expected).abs() < 1e-6 * expected.max(1.0));
                }
            }
        }

        /// Bytes against kilobytes, seconds against milliseconds: the ratio has no unit.
        #[test]
        fn scale_invariant(up in 3_000.0..100_000.0, down in 3_000.0..100_000.0, scale in 0.01..100.0) {
            let capacity = PerDirection { up: 24_500.0, down: 300_000.0 };
            let buffer = PerDirection { up, down };
            let plain = Setting::new(capacity, buffer, 0.02).expect("valid");
            let scaled = Setting::new(
                PerDirection::from_fn(|x| capacity[x] * scale),
                PerDirection::from_fn(|x| buffer[x] * scale),
                0.02,
            )
            .expect("valid");
            match (predict(&plain), predict(&scaled)) {
                (Ok(one), Ok(two)) => prop_assert!((one.ratio - two.ratio).abs() < 1e-9 * one.ratio),
                (one, two) => prop_assert!(one.is_err() && two.is_err()),
            }
        }
    }
}
