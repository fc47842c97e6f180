//! Eq. 5 of paper 001, Eq. 11 of paper 000 and the refined ratio against the simulation.

use pendulum_model::rate::BufferSize;
use pendulum_model::ratio::{Setting, paper, refined};
use pendulum_model::segment::PerDirection;

use super::simulator::Scenario;
use super::{bytes, detect, papers_link};

/// 001 Eq. 5: the direction whose window takes longer holds the queue. `docs/design/detector.md` has what this prints.
#[test]
fn windows_tell_which_buffer_stands() {
    // Agreement of windows and queues on nine links.
    let compare = |buffers: &[PerDirection<BufferSize>]| {
        let mut all = Vec::new();
        for (down_bps, up_bps) in [(2.4e6, 196e3), (2.4e6, 2.4e6), (10e6, 2e6)] {
            for propagation_ms in [0.0, 20.0, 100.0] {
                for &buffer in buffers {
                    let scenario = Scenario { down_bps, up_bps, propagation_ms, buffer, ..papers_link() };
                    let (detector, _) = detect(&scenario);
                    all.extend(detector.state().window_agreement);
                }
            }
        }
        all
    };
    let packets = |down, up| PerDirection { up: BufferSize::Packets(up), down: BufferSize::Packets(down) };
    for (name, all) in [
        ("bytes", compare(&[bytes(22_500, 6_000), bytes(30_000, 30_000), bytes(75_000, 15_000)])),
        ("bytes, an uplink of two segments", compare(&[bytes(22_500, 3_000), bytes(75_000, 3_000)])),
        ("packets", compare(&[packets(50, 10), packets(50, 25), packets(50, 50)])),
    ] {
        let least = all.iter().copied().fold(1.0, f64::min);
        println!("{name}: {} links, agreement from {least:.2}", all.len());
        assert!(all.len() > 10 && least > 0.75, "{name}: {least}");
    }
}

/// Root mean square of the error of ln r, as a factor.
fn error_factor(pairs: &[(f64, f64)]) -> f64 {
    let squares: f64 = pairs.iter().map(|(predicted, measured)| (predicted / measured).ln().powi(2)).sum();
    (squares / pairs.len() as f64).sqrt().exp()
}

/// Predicted and simulated ratio by Eq. 11 and by the refined model, of 36 pairs of buffers and propagation delays on each link.
fn ratios(links: &[(f64, f64)]) -> [Vec<(f64, f64)>; 2] {
    let (mut by_paper, mut by_refined) = (Vec::new(), Vec::new());
    let buffers = [22_500, 37_500, 75_000].map(|down| [6_000, 9_000, 15_000, 30_000].map(|up| (down, up)));
    for &(down_bps, up_bps) in links {
        for propagation_ms in [0.0, 20.0, 100.0] {
            for &(down, up) in buffers.as_flattened() {
                let buffer = bytes(down, up);
                let scenario =
                    Scenario { down_bps, up_bps, propagation_ms, buffer, duration_s: 300.0, ..papers_link() };
                let measured = scenario.ratio(30.0).expect("an upload");
                let capacity = PerDirection { up: up_bps / 8.0, down: down_bps / 8.0 };
                let buffer = PerDirection { up: up as f64, down: down as f64 };
                // The remote ends are 3 ms away on average, which belongs to the round trip as much as the link.
                let setting =
                    Setting::new(capacity, buffer, (propagation_ms + 1.5) / 1e3).expect("a valid link");
                by_paper.push((paper::predict(&setting).expect("a ratio").ratio, measured));
                by_refined.push((refined::predict(&setting).ratio, measured));
            }
        }
    }
    [by_paper, by_refined]
}

/// What `docs/design/detector.md` says of both formulas. The refined one was fitted to the first three links, with another TCP.
#[test]
fn the_refined_ratio_is_nearer_than_equation_11_on_the_links_it_was_fitted_to() {
    let fitted = ratios(&[(2.4e6, 196e3), (2e6, 192e3), (20e6, 1e6)]);
    let others = ratios(&[(1e6, 128e3), (8e6, 1e6), (10e6, 2e6)]);
    let slowest = others.each_ref().map(|pairs| pairs[..36].to_vec());
    for (links, pairs) in [("fitted", &fitted), ("others", &others), ("1 Mb/s / 128 kb/s", &slowest)] {
        for (formula, pairs) in ["Eq. 11", "refined"].into_iter().zip(pairs) {
            let mut errors: Vec<f64> =
                pairs.iter().map(|(predicted, measured)| predicted / measured).collect();
            errors.sort_by(f64::total_cmp);
            println!(
                "{links}, {formula}: {} points, error factor {:.2}, {:.2} … {:.2} … {:.2}",
                errors.len(),
                error_factor(pairs),
                errors[0],
                errors[errors.len() / 2],
                errors[errors.len() - 1]
            );
        }
    }
    assert!(error_factor(&fitted[1]) < error_factor(&fitted[0]));
}
