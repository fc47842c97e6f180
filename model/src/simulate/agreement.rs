//! Whether simulated runs say the same.
//!
//! BBR takes the largest of ten rounds' rates and the shortest of ten seconds' round trips, so a jitter of milliseconds, which busy hosts and radio links have, moves
//! its share. Where runs with and without it disagree, no figure is better than another.

use super::Outcome;

/// What a host may add to a frame's way, seconds: interrupts that are gathered, other programs. Without it flows keep step with each other for minutes, which real
/// ones do not (Floyd and Jacobson, "On traffic phase effects in packet-switched gateways", 1992).
pub const HOST_JITTER_S: f64 = 5e-4;
/// What a busy host or a radio link may add to a frame's way, seconds.
pub const BUSY_JITTER_S: f64 = 5e-3;
/// Runs agree whose ratios differ by no more than this factor.
pub const AGREED_FACTOR: f64 = 1.2;

/// Smallest and largest ratio of the runs; `None` if some run has none.
pub fn ratio_range(outcomes: &[Outcome]) -> Option<[f64; 2]> {
    let ratios: Option<Vec<f64>> = outcomes.iter().map(Outcome::ratio).collect();
    let ratios = ratios.filter(|ratios| !ratios.is_empty())?;
    Some([ratios.iter().copied().fold(f64::INFINITY, f64::min), ratios.into_iter().fold(0.0, f64::max)])
}

/// Whether the runs agree.
pub fn agree(outcomes: &[Outcome]) -> bool {
    ratio_range(outcomes).is_some_and(|[low, high]| high <= AGREED_FACTOR * low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::PerDirection;

    fn outcome(ratio: f64) -> Outcome {
        Outcome { goodput_bps: PerDirection { up: 1e6, down: ratio * 1e6 }, ..Outcome::default() }
    }

    #[test]
    fn runs_agree_within_a_fifth() {
        let of = |ratios: &[f64]| ratios.iter().map(|ratio| outcome(*ratio)).collect::<Vec<_>>();
        assert!(agree(&of(&[2.0, 2.1, 2.39])));
        assert!(!agree(&of(&[2.0, 2.1, 2.41])));
        assert_eq!(ratio_range(&of(&[3.0, 2.0])), Some([2.0, 3.0]));
        assert!(!agree(&[]));
    }
}
