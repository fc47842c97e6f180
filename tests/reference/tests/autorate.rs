//! What the automatic rate reaches in closed loops, by seed.
#![expect(clippy::print_stdout, reason = "figures of a test that fails")]

use pendulum_model::autorate::Priority;
use pendulum_model::segment::Direction;
use pendulum_reference::autorate::patterns::{KINDS, Kind, crowd};
use pendulum_reference::autorate::tcp::Congestion;
use pendulum_reference::autorate::world::{NEAR, Says, Setting, Shaper, WorldConnection, run};
use pendulum_reference::autorate::{
    LINE, MIXES, Mix, Score, counts, far_case, mean_of, mean_of_mix, rows, single_case,
};

/// Both transfers run, one of them through a bottleneck of a tenth of the line beyond it: the line's rate stays, whatever the other host's
/// packets say, and whichever starts first.
#[test]
fn a_far_bottleneck_leaves_the_line_s_rate_alone() {
    for direction in Direction::ALL {
        for says in [Says::Both, Says::Acks, Says::Nothing] {
            for from in [(20.0_f64, 0.0_f64), (0.0, 20.0), (0.0, 0.0)] {
                let both = from.0.max(from.1);
                let outcome = far_case(direction, says, from, Some(LINE));
                let (least, mean, _) = outcome.rate(both + 0.2, both + 30.0);
                let what = format!("{direction:?} {says:?} {from:?}: {least:.0} {mean:.0}");
                assert!(least >= 0.95 * LINE && mean <= 1.05 * LINE, "{what}");
                let carried = outcome.throughput(both + 3.0, both + 4.0);
                assert!(carried >= 0.9 * LINE, "{what}: {carried:.0}");
            }
        }
    }
}

/// The line's rate is unknown, and the far transfer runs alone for 20 s: another one has the whole line within 3 s.
#[test]
fn a_rate_that_one_far_host_showed_is_left_within_three_seconds() {
    for direction in Direction::ALL {
        for says in [Says::Both, Says::Acks, Says::Nothing] {
            let outcome = far_case(direction, says, (0.0, 20.0), None);
            let carried = outcome.throughput(23.0, 24.0);
            assert!(carried >= 0.9 * LINE, "{direction:?} {says:?}: {carried:.0}");
        }
    }
}

/// One transfer, one host, nothing known: the host that measures is the one that uses the line, so what it shows is the line.
#[test]
fn one_transfer_alone_does_not_swing() {
    for congestion in [Congestion::Reno, Congestion::Cubic] {
        for line in [24.5e3, 98e3, 625e3, 2.5e6] {
            for direction in Direction::ALL {
                let outcome = single_case(direction, line, (1.2 * line).max(30e3), congestion);
                let (least, mean, most) = outcome.rate(10.0, 60.0);
                let used = outcome.used();
                let what = format!(
                    "{direction:?} {congestion:?} {line:.0}: {least:.0} {mean:.0} {most:.0}, {used:.2} used"
                );
                assert!((0.85..1.15).contains(&(mean / line)) && most < 1.35 * line, "{what}");
                // What is let in goes by whole packets, of which the slowest of these lines carries one in 62 ms.
                let (floor, least_used) = if direction == Direction::Up { (0.8, 0.95) } else { (0.5, 0.85) };
                assert!(least > floor * line && used > least_used, "{what}");
            }
        }
    }
}

/// A far transfer alone never uses the line up: the known rate stays.
#[test]
fn a_far_bottleneck_alone_lowers_nothing() {
    for says in [Says::Both, Says::Nothing] {
        let outcome = far_case(Direction::Down, says, (0.0, f64::INFINITY), Some(LINE));
        let (least, _, _) = outcome.rate(1.0, 30.0);
        assert!(least >= 0.92 * LINE, "{says:?}: {least:.0}");
    }
}

#[test]
fn held_out_seeds_are_better_than_the_reference() {
    let rows = rows(true);
    let [better, worse, like_oracle] = counts(&rows.iter().map(|(_, scores)| *scores).collect::<Vec<_>>());
    println!("of {}: {better} better, {worse} worse, {like_oracle} like the oracle", rows.len());
    assert!(10 * better >= 7 * rows.len() && worse == 0 && 10 * like_oracle >= 5 * rows.len());
}

/// Sums over all links of use and delay, of each of these mixes.
fn sums_of<const N: usize>(mixes: [Mix; N], is_known: bool) -> [Score; N] {
    let sums = mixes.map(|mix| {
        let links = KINDS.into_iter().flat_map(|kind| Direction::ALL.map(|x| (kind, x)));
        let scores = links.map(|(kind, x)| mean_of_mix(kind, x, is_known, mix));
        scores.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    });
    println!("{sums:?}");
    sums
}

/// Half of the traffic, or all but one long transfer, is QUIC, which says nothing: where the rate is configured, the delay stays about as short.
#[test]
fn one_tcp_transfer_among_quic_is_enough_for_a_configured_rate() {
    let [tcp, half, most, ..] = MIXES;
    let waits = sums_of([tcp, half, most], true).map(|it| it.1);
    assert!(waits[1] <= 1.2 * waits[0] && waits[2] <= 1.2 * waits[0], "{waits:?}");
}

/// Nothing but QUIC passes, and the rate is unknown: the first hop, which is asked four times a second, takes nine tenths of the delay away.
#[test]
fn the_first_hop_tells_where_nobody_else_does() {
    let [tcp, _, _, quic, asked] = MIXES;
    let [tcp, quic, asked] = sums_of([tcp, quic, asked], false);
    assert!(asked.1 <= 0.15 * quic.1 && asked.0 >= 0.98 * tcp.0, "{tcp:?} {quic:?} {asked:?}");
}

#[test]
fn the_priority_moves_use_and_delay() {
    for direction in Direction::ALL {
        let [latency, balanced, throughput] = [Priority::Latency, Priority::Balanced, Priority::Throughput]
            .map(|priority| mean_of(Kind::Constant, direction, priority));
        println!("{direction:?}: {latency:.3?} {balanced:.3?} {throughput:.3?}");
        let what = format!("{latency:?} {balanced:?} {throughput:?}");
        assert!(latency.1 <= balanced.1 + 0.001 && 1.3 * balanced.1 < throughput.1, "{what}");
        assert!(latency.0 <= balanced.0 && balanced.0 <= throughput.0, "{what}");
    }
}

/// Replies look later than they are, by seconds between these two, so many times a second up and down: the share of a constant link that
/// is used.
fn used_with_late_replies(least: f64, most: f64, turns: f64) -> f64 {
    let cases =
        [500e3, 2.5e6].into_iter().flat_map(|it| [Congestion::Cubic, Congestion::Reno].map(|law| (it, law)));
    let used = cases.map(|(capacity, congestion)| {
        let late =
            |at: f64| least + (most - least) * (0.5 + 0.5 * (std::f64::consts::TAU * turns * at).sin());
        let mut sources = crowd(0, capacity, 60.0);
        sources.iter_mut().for_each(|source: &mut WorldConnection| source.congestion = congestion);
        let setting = Setting {
            direction: Direction::Up,
            capacity: &|_| capacity,
            buffer: capacity,
            drops_at_head: false,
            late: &late,
            sources,
            remotes: vec![NEAR; 3],
            handshakes: false,
            first_hop: false,
            seconds: 60.0,
        };
        run(&setting, Shaper::ours(Direction::Up, None, Priority::Balanced)).used()
    });
    let used = used.fold(1.0, f64::min);
    println!("replies {least:.3} to {most:.3} s late, {turns:.2} times a second: {used:.3} used");
    used
}

/// All hosts look late at once, which no evidence tells from a queue. A small or steady false wait costs little; one that swings fast costs use,
/// down to the floor.
#[test]
fn replies_that_only_look_late_do_not_take_the_rate_away() {
    for (least, most, turns) in [(0.0, 0.005, 1.0), (0.02, 0.02, 1.0), (0.05, 0.05, 1.0), (0.1, 0.1, 1.0)] {
        let used = used_with_late_replies(least, most, turns);
        assert!(used >= 0.8, "{used:.3}");
    }
    for (least, most, turns) in [(0.0, 0.02, 1.0), (0.0, 0.02, 4.0), (0.01, 0.05, 0.27), (0.0, 0.1, 0.1)] {
        let used = used_with_late_replies(least, most, turns);
        assert!(used >= 0.4, "{used:.3}");
    }
    for (most, turns) in [(0.05, 1.0), (0.1, 4.0)] {
        let used = used_with_late_replies(0.0, most, turns);
        assert!(used >= 0.05, "{used:.3}");
    }
}
