//! What paper 002 says about its Figures 4 to 12, asked of the reference models.
//!
//! The project has the paper's words and not its curves, so these are orders and moments, with bands around the figures that the text names.

use std::time::Duration;

use pendulum_reference::policy::Policy;
use pendulum_reference::scenario::{
    ESTIMATOR_WINDOW, LINK, ManyFiles, ManyOutcome, SMALL_BUFFER, Strategy, many_files, reverse_channel,
    slow_start,
};
use pendulum_reference::simulation::Moment;

const STEP: Duration = Duration::from_millis(200);

fn run(policy: Policy, seconds: u64) -> Vec<Moment> {
    slow_start(policy, STEP, Duration::from_secs(seconds))
}

fn at(moments: &[Moment], seconds: f64) -> &Moment {
    &moments[(seconds / STEP.as_secs_f64()).round() as usize]
}

/// Segments per second sent in the step before a moment.
fn rate(moments: &[Moment], seconds: f64) -> f64 {
    let sent = at(moments, seconds).sent_segments - at(moments, seconds - STEP.as_secs_f64()).sent_segments;
    sent as f64 / STEP.as_secs_f64()
}

#[test]
fn figure_4_filtering_below_the_optimum_slows_the_window() {
    let window = |delta: usize, seconds| at(&run(Policy::threshold(delta), 10), seconds).window_segments;
    for seconds in [2.0, 4.0, 8.0] {
        assert!(window(1, seconds) < window(3, seconds), "{seconds}");
        assert!(window(3, seconds) < 0.95 * window(30, seconds), "{seconds}");
        // "The other values of δ give the same window increase."
        assert!((window(30, seconds) / window(500, seconds) - 1.0).abs() < 0.02, "{seconds}");
    }
}

#[test]
fn figure_4_the_window_grows_at_most_by_the_channels_acks() {
    let moments = run(Policy::threshold(30), 10);
    let growth = (at(&moments, 8.0).window_segments - at(&moments, 4.0).window_segments) / 4.0;
    assert!((growth / reverse_channel().acks_per_second - 1.0).abs() < 0.01, "{growth}");
}

#[test]
fn the_window_follows_section_2_3_until_the_channel_is_full() {
    // The closed form starts filtering with whole bursts and has no transmission times: a band, not equality.
    for delta in [1_usize, 3] {
        let moments = run(Policy::threshold(delta), 4);
        let channel = reverse_channel();
        let before = channel.rounds_before_filtering(delta as f64);
        let full = channel.bandwidth_delay_acks() / delta as f64 - 2.0;
        for round in (2..full as u32).step_by(3) {
            let seconds = (before + f64::from(round)) * LINK.base_rtt.as_secs_f64();
            if seconds > 3.0 {
                break;
            }
            let expected = channel.filtered_growth(delta as f64, round).window_segments;
            let ratio = at(&moments, seconds).window_segments / expected;
            assert!((0.5..2.0).contains(&ratio), "δ = {delta}, round {round}: {ratio}");
        }
    }
}

#[test]
fn figure_5_a_long_queue_of_acks_holds_the_rate_down() {
    let (optimum, long) = (run(Policy::threshold(30), 12), run(Policy::threshold(500), 12));
    let channel = reverse_channel().acks_per_second;
    // While the queue grows the source sends two segments for each ACK of slow start: window and RTT grow alike.
    for seconds in [2.0, 3.0, 4.0] {
        assert!((rate(&long, seconds) / (2.0 * channel) - 1.0).abs() < 0.1, "{seconds}");
        assert!(rate(&optimum, seconds) > 1.4 * rate(&long, seconds), "{seconds}");
    }
    // "The stabilization of RTT takes a long time for large δ (around 5s for δ = 500)."
    assert!(at(&long, 5.0).queued_acks >= 498);
    assert!(rate(&long, 6.0) > 1.3 * rate(&long, 4.0));
}

#[test]
fn figure_6_the_optimum_acknowledges_most() {
    let acked = |delta: usize| at(&run(Policy::threshold(delta), 10), 10.0).acked_segments;
    let optimum = acked(reverse_channel().optimum_threshold() as usize);
    // "While increasing δ, the overall performance improves until δ = δ_o then worsens."
    assert!(acked(1) < acked(3) && acked(3) < acked(30));
    assert!(acked(30) > acked(100) && acked(100) > acked(500));
    assert!((acked(30) as f64 / optimum as f64 - 1.0).abs() < 0.01);
}

#[test]
fn figures_7_and_9_delayed_filtering_is_as_good_as_the_right_threshold() {
    let (delayed, fixed) = (run(Policy::delayed(ESTIMATOR_WINDOW), 10), run(Policy::threshold(30), 10));
    for seconds in [4.0, 6.0, 8.0, 10.0] {
        let gain = at(&delayed, seconds).acked_segments as f64 / at(&fixed, seconds).acked_segments as f64;
        // "It outperforms slightly the case of static filtering with δ = δ_o."
        assert!((1.0..1.15).contains(&gain), "{seconds}: {gain}");
    }
    // Figures 8 and 9: bursts are let in at first; later static filtering keeps δ ACKs and delayed filtering one.
    let most = |moments: &[Moment]| moments.iter().map(|moment| moment.queued_acks).max();
    assert!(most(&delayed).is_some_and(|most| most > 10));
    assert!(at(&delayed, 8.0).queued_acks <= 1 && at(&fixed, 8.0).queued_acks >= 29);
}

fn many(sources: usize, strategy: Strategy, reverse_capacity: Option<usize>) -> f64 {
    outcome(sources, strategy, reverse_capacity).mean_file_bps
}

fn outcome(sources: usize, strategy: Strategy, reverse_capacity: Option<usize>) -> ManyOutcome {
    let duration = Duration::from_secs(40);
    many_files(&ManyFiles { sources, strategy, reverse_capacity, duration, seed: 2 })
}

#[test]
fn figure_11_no_filtering_is_worst_and_round_robin_best() {
    for sources in [1, 4, 10] {
        let rates = Strategy::ALL.map(|strategy| many(sources, strategy, None));
        let [none, classical, delayed, fifo, fair] = rates;
        for filtered in [classical, delayed, fifo, fair] {
            assert!(none < 0.8 * filtered, "{sources}: {rates:?}");
            assert!(fair > 0.97 * filtered, "{sources}: {rates:?}");
        }
        // "Too aggressive so it does not give the best performance especially for small number of connections."
        assert!(classical < 0.95 * fair, "{sources}: {rates:?}");
    }
}

#[test]
fn figure_11_without_round_robin_unfiltered_connections_delay_the_others() {
    let (fifo, fair) = (Strategy::PerConnectionFifo, Strategy::PerConnectionRoundRobin);
    assert!(many(8, fifo, None) < 0.7 * many(8, fair, None));
}

#[test]
fn figure_12_a_small_buffer_is_served_best_by_round_robin() {
    for sources in [4, 12] {
        let total = |strategy| outcome(sources, strategy, Some(SMALL_BUFFER)).total_bps;
        let totals = Strategy::ALL.map(total);
        let [none, classical, delayed, fifo, fair] = totals;
        // A full buffer without a filter loses the ACKs of small windows.
        assert!(none < 0.7 * fair, "{sources}: {totals:?}");
        for other in [classical, delayed, fifo] {
            assert!(fair > 0.97 * other, "{sources}: {totals:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_outcome() {
    let outcome = || outcome(4, Strategy::PerConnectionFifo, Some(SMALL_BUFFER));
    assert_eq!(outcome(), outcome());
}
