//! Links with TCP on them, by seed: what the controller uses and lets wait, beside rates that somebody told.

use super::tcp::Congestion;
use super::world::{Chance, Late, Outcome, PACKET, Rates, Traffic, run};
use super::*;

const SECONDS: f64 = 60.0;
/// Of what a cell gives, seconds.
const SLOT: f64 = 0.02;
/// Of who is told, seconds.
const TICK: f64 = 0.1;

/// As mobile links vary: the logarithm of the rate wanders by 0.6 and is drawn back within two seconds, each slot differs from it by a quarter,
/// and now and then there is nothing for half a second. Bytes per second of each slot.
fn cell(seed: u64, mean: f64) -> Vec<f64> {
    const BACK: f64 = SLOT / 2.0;
    let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut normal = move || (0..12).map(|_| chance.next()).sum::<f64>() - 6.0;
    let (mut level, mut out) = (0.0, 0.0);
    let slots = (SECONDS / SLOT) as usize + 300;
    let mut slot = || {
        level += 0.6 * (2.0 * BACK).sqrt() * normal() - BACK * level;
        out -= SLOT;
        if out <= 0.0 && normal() > 3.3 {
            out = 0.3 + 0.2 * normal().abs();
        }
        let fading: f64 = 0.25 * normal();
        if out > 0.0 { 0.0 } else { mean * (level - 0.18 + fading).exp() }
    };
    (0..slots).map(|_| slot()).collect()
}

fn on(direction: Direction, congestion: Congestion, mean: f64, told: Option<Rates>, link: Rates) -> Outcome {
    let traffic =
        Traffic { congestion, long: 2, burst: (0.5 * mean / PACKET) as usize, late: Late::default() };
    run(direction, traffic, SECONDS, mean, told, link)
}

const LAWS: [Congestion; 2] = [Congestion::Cubic, Congestion::Reno];

/// 1, 4 and 20 Mb/s. The uplink's rate is the link's, and what is used is what a told rate of 99 % would use. On the downlink that told rate
/// lets several times as much wait.
#[test]
fn a_constant_link_beside_one_whose_rate_is_told() {
    for (capacity, congestion) in [125e3, 500e3, 2.5e6].into_iter().flat_map(|it| LAWS.map(|law| (it, law))) {
        for direction in Direction::ALL {
            let nearly = |_| 0.99 * capacity;
            let ours = on(direction, congestion, capacity, None, &|_| capacity);
            let told = on(direction, congestion, capacity, Some(&nearly), &|_| capacity);
            let (mean, variation) = ours.rate();
            let what = format!(
                "{capacity} {direction:?} {congestion:?}: {:.4} of the rate, {variation:.3}; used {:.3}, told {:.3}; waits {:.3}, told {:.3}",
                mean / capacity,
                ours.used(),
                told.used(),
                ours.wait_p95(),
                told.wait_p95()
            );
            println!("{what}");
            match direction {
                Direction::Up => {
                    assert!((mean / capacity - 1.0).abs() <= 0.02 && variation <= 0.045, "{what}");
                    assert!(ours.used() >= told.used() - 0.005 && ours.wait_p95() <= 0.03, "{what}");
                }
                Direction::Down => {
                    assert!((0.87..1.0).contains(&(mean / capacity)) && variation <= 0.12, "{what}");
                    assert!(ours.used() >= 0.87 && ours.wait_p95() <= 0.8 * told.wait_p95(), "{what}");
                }
            }
        }
    }
}

/// Answers look later than they are, by seconds between these two, so many times a second up and down: the share of a constant link that is
/// used.
fn used_with_late_answers(least: f64, most: f64, turns: f64) -> f64 {
    let links = [500e3, 2.5e6].into_iter().flat_map(|it| LAWS.map(|law| (it, law)));
    let used = links.map(|(capacity, congestion)| {
        let late = Late { least, most, turns };
        let traffic = Traffic { congestion, long: 2, burst: (0.5 * capacity / PACKET) as usize, late };
        run(Direction::Up, traffic, SECONDS, capacity, None, &|_| capacity).used()
    });
    let used: Vec<f64> = used.collect();
    println!("answers {least:.3} to {most:.3} s late, {turns:.2} times a second: {used:.3?} used");
    used.into_iter().fold(1.0, f64::min)
}

/// A wait of up to 20 ms that is none takes no more than a fifth of the use, however fast it changes; a longer one that changes slowly takes a part.
#[test]
fn answers_that_only_look_late_do_not_take_the_rate_away() {
    let mut chance = Chance(1207);
    for _ in 0..6 {
        let most = 0.02 * chance.next();
        let used = used_with_late_answers(most * chance.next(), most, 0.05 * 100f64.powf(chance.next()));
        assert!(used >= 0.8, "{used:.3}");
    }
    for (least, most, turns) in
        [(0.0, 0.02, 1.0), (0.0, 0.02, 4.0), (0.02, 0.02, 1.0), (0.05, 0.05, 1.0), (0.1, 0.1, 1.0)]
    {
        let used = used_with_late_answers(least, most, turns);
        assert!(used >= 0.8, "{used:.3}");
    }
    for (least, most, turns) in
        [(0.01, 0.05, 0.27), (0.025, 0.065, 0.27), (0.04, 0.08, 0.27), (0.0, 0.1, 0.1)]
    {
        let used = used_with_late_answers(least, most, turns);
        assert!(used >= 0.4, "{used:.3}");
    }
    // What looks like a queue that grows and drains. The least rate is a fiftieth.
    for (most, turns) in [(0.05, 1.0), (0.1, 4.0)] {
        let used = used_with_late_answers(0.0, most, turns);
        assert!(used >= 0.09, "{used:.3}");
    }
}

/// A link that slows down, by chance: a queue that stands there is not taken for one of which nothing is known.
#[test]
fn a_link_that_fades_keeps_no_queue() {
    let mut chance = Chance(4242);
    let (mut used, mut waits) = (0.0, 0.0);
    for number in 0..20 {
        let mean = 150e3 * 20f64.powf(chance.next());
        let (from, time, depth) =
            (6.0 + 6.0 * chance.next(), 5.0 + 45.0 * chance.next(), 0.2 + 0.6 * chance.next());
        let link = |at: f64| mean * (1.0 - depth * ((at - from) / time).clamp(0.0, 1.0));
        let traffic = Traffic { congestion: LAWS[number % 2], long: 2, burst: 0, late: Late::default() };
        let outcome = run(Direction::Up, traffic, SECONDS, mean, None, &link);
        used += outcome.used() / 20.0;
        waits += outcome.wait_p95() / 20.0;
    }
    println!("links that fade: {used:.3} used, {waits:.4} s");
    assert!(used >= 0.98 && waits <= 0.045, "{used:.3} {waits:.4}");
}

/// What is sent who knows at any time how fast the link was in the tenth of a second before: 98 % of that.
fn known_late(slots: &[f64]) -> impl Fn(f64) -> f64 {
    const BEFORE: usize = 5;
    move |at| {
        let tick = (at / TICK) as usize * BEFORE;
        let before = &slots[tick.saturating_sub(BEFORE)..tick.max(1)];
        (0.98 * before.iter().sum::<f64>() / before.len() as f64).max(8_000.0)
    }
}

/// A rate that stays the same and uses as much lets more wait, whichever it is; and so does one that is told each tenth of a second how fast the
/// link just was.
#[test]
fn no_constant_rate_does_better_on_a_link_of_a_cell() {
    for direction in Direction::ALL {
        let (mut ours, mut late) = ([0.0; 2], [0.0; 2]);
        let seeds = 1..=8u64;
        let note = |sum: &mut [f64; 2], outcome: &Outcome| {
            sum[0] += outcome.used() / 8.0;
            sum[1] += outcome.wait_p95() / 8.0;
        };
        for seed in seeds {
            let mean = [150e3, 600e3, 1.2e6, 3e6][seed as usize % 4];
            let slots = cell(seed, mean);
            let link = |at: f64| slots[((at / SLOT) as usize).min(slots.len() - 1)];
            let law = LAWS[seed as usize / 4 % 2];
            let found = on(direction, law, mean, None, &link);
            let [used, waits] = [found.used(), found.wait_p95()];
            let what = format!("{direction:?}, seed {seed}: used {used:.3}, waits {waits:.3} s");
            println!("{what}");
            for share in [0.4, 0.6, 0.8, 1.0] {
                let told = on(direction, law, mean, Some(&|_| share * mean), &link);
                let is_better = told.used() >= used && told.wait_p95() <= waits;
                assert!(!is_better, "{what}; {share}: {:.3}, {:.3} s", told.used(), told.wait_p95());
            }
            note(&mut ours, &found);
            note(&mut late, &on(direction, law, mean, Some(&known_late(&slots)), &link));
        }
        let what = format!(
            "{direction:?}: {:.3} used, {:.3} s; known late: {:.3} used, {:.3} s",
            ours[0], ours[1], late[0], late[1]
        );
        println!("{what}");
        assert!(ours[0] >= 0.68 && ours[1] <= 0.09 && ours[1] < late[1], "{what}");
    }
}
