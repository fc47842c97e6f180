//! Operating points of two-way links for `model::simulate`: a seeded sample of rates, buffers, delays, congestion controls and numbers of flows.
//!
//! Points whose names begin with `c`, `p` or `b` are for calibration, all others are held out: the simulation is judged on them, and nothing in
//! it is chosen by them. Senders of `p` and `q` are paced. `b`, `e` and `f` use BBR, `r` reno, the others reno or CUBIC. On links of `s` several flows go
//! one way at least.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::{Direction, PerDirection};
use serde_json::json;

use super::figures::Claim;
use super::options::Wishes;
use super::pair::{empty, link, steady};
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::{Preparation, Scenario, TimedTransfer};
use super::{About, Experiment, prediction};
use crate::delay::Delays;
use crate::splitmix;
use crate::statistics::quantile;
use crate::traffic::TransferSpec;

pub(super) struct Points;

/// Points that share a purpose.
struct Set {
    letter: char,
    seed: u64,
    count: u32,
    senders: Senders,
    paced: bool,
    /// More than one transfer each way or one way, on each link; else on three links of ten.
    several_flows: bool,
}

impl Set {
    const fn new(letter: char, seed: u64, count: u32, senders: Senders) -> Self {
        Self { letter, seed, count, senders, paced: false, several_flows: false }
    }

    const fn paced(self) -> Self {
        Self { paced: true, ..self }
    }

    const fn several_flows(self) -> Self {
        Self { several_flows: true, ..self }
    }
}

/// What the senders of a set use.
#[derive(Clone, Copy)]
enum Senders {
    /// Reno or CUBIC, as the dice say.
    Either,
    /// The same on every link.
    All(&'static str),
}

const SETS: [Set; 9] = [
    Set::new('c', CALIBRATION, 52, Senders::Either),
    Set::new('p', CALIBRATION, 52, Senders::Either).paced(),
    Set::new('h', HELD_OUT, 112, Senders::Either),
    Set::new('q', HELD_OUT, 48, Senders::Either).paced(),
    Set::new('b', 0x5eed_bb01, 12, Senders::All("bbr")),
    Set::new('e', 0x5eed_bb02, 24, Senders::All("bbr")),
    Set::new('f', 0x5eed_bb03, 24, Senders::All("bbr")),
    Set::new('r', 0x5eed_4e02, 24, Senders::All("reno")),
    Set::new('s', 0x5eed_4e03, 48, Senders::Either).several_flows(),
];
/// Paced or not, a seed gives the same links.
const CALIBRATION: u64 = 0x5eed_ca11;
const HELD_OUT: u64 = 0x5eed_4e1d;
/// How often the sockets are read. Each reading starts four programs, which many labs at once would feel.
pub(super) const SOCKETS_EVERY: Duration = Duration::from_secs(2);
/// Parts of the steady stretch whose ratios tell how much it varies by itself.
const PARTS: u32 = 4;
const EACH: Duration = Duration::from_secs(300);
/// Points of all sets.
const TOTAL: u32 = {
    let (mut total, mut index) = (0, 0);
    while index < SETS.len() {
        total += SETS[index].count;
        index += 1;
    }
    total
};

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(splitmix::STEP);
        splitmix::mixed(self.0)
    }

    pub(super) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.next() % values.len() as u64) as usize]
    }

    /// From `low` to `high`, evenly on a logarithmic scale, in steps.
    pub(super) fn size(&mut self, low: f64, high: f64, step: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let size = low * (high / low).powf(part);
        ((size / step as f64).round() as u64).max(1) * step
    }
}

impl Experiment for Points {
    fn about(&self) -> About {
        About {
            name: "points",
            source: "–",
            what: "a seeded sample of two-way links, to calibrate and to judge the simulation: rates, buffers, delays, flows",
            usual: EACH * TOTAL,
            quick: Duration::from_secs(60) * TOTAL,
            shortest: Duration::from_secs(10) * TOTAL,
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let each = wishes.total / TOTAL;
        let points = |set: Set| {
            drawn(set.letter, set.seed, set.count, move |name, dice| point(name, dice, each, &set))
        };
        SETS.into_iter().flat_map(points).collect()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        queues_and_parts(case, index, run);
    }
}

/// The points of a set, each of dice of its own: a set that grows keeps its links.
pub(super) fn drawn(
    letter: char,
    seed: u64,
    count: u32,
    point: impl Fn(&str, &mut Dice) -> Scenario,
) -> impl Iterator<Item = Scenario> {
    (0..count).map(move |index| {
        point(&format!("{letter}{index:03}"), &mut Dice(seed.wrapping_add(u64::from(index) << 32)))
    })
}

/// Adds what the queues made packets wait, and the goodput of each part of the stretch.
pub(super) fn queues_and_parts(case: &mut CaseReport, index: usize, run: &ScenarioRun) {
    let Some(stretch) = run.scenario.cases.get(index) else { return };
    let more = &mut case.measured.more;
    more.insert("queues".into(), waits(run, stretch.from, stretch.to));
    let part = (stretch.to - stretch.from) / PARTS;
    let figures = (0..PARTS).map(|count| {
        let from = stretch.from + part * count;
        run.record.measure(from, from + part).figures
    });
    more.insert("parts".into(), figures.map(|figures| json!(figures)).collect());
}

/// The link's and the hosts' delays, each drawn by itself.
pub(super) fn delays(dice: &mut Dice) -> Delays {
    let millis = Duration::from_millis;
    Delays {
        propagation: millis(dice.one_of(&[0, 2, 5, 10, 20, 30])),
        d1_access: millis(dice.one_of(&[0, 1, 5])),
        u1_access: millis(dice.one_of(&[0, 2, 5])),
    }
}

/// So many downloads and uploads, from the begin to the end.
pub(super) fn transfers(length: Duration, flows: (u32, u32)) -> Vec<TimedTransfer> {
    let of = |(direction, streams)| {
        let spec = TransferSpec { streams, ..TransferSpec::new(direction, length) };
        TimedTransfer::new(Duration::ZERO, spec)
    };
    [(Direction::Down, flows.0), (Direction::Up, flows.1)].map(of).into()
}

/// One point: the order of the draws is part of the recipe.
fn point(name: &str, dice: &mut Dice, each: Duration, set: &Set) -> Scenario {
    let down = dice
        .one_of(&[1_000_000, 1_500_000, 2_000_000, 2_400_000, 3_000_000, 4_000_000, 6_000_000, 8_000_000]);
    let up = dice.one_of(&[200_000, 256_000, 384_000, 512_000, 768_000, 1_000_000]);
    let in_packets = dice.next() % 10 < 4;
    let buffers = if in_packets {
        [dice.size(10.0, 70.0, 1), dice.size(8.0, 60.0, 1)].map(BufferSize::Packets)
    } else {
        [dice.size(10_000.0, 100_000.0, 500), dice.size(8_000.0, 80_000.0, 500)].map(BufferSize::Bytes)
    };
    let delays = delays(dice);
    let drawn = dice.one_of(&["reno", "cubic"]);
    let congestion_control = match set.senders {
        Senders::Either => drawn,
        Senders::All(same) => same,
    };
    let paced = set.paced;
    let several = dice.next() % 10 < 3 || set.several_flows;
    let flows = if several { dice.one_of(&[(2, 1), (1, 2), (2, 2), (3, 1), (1, 4), (4, 4)]) } else { (1, 1) };
    let delayed_acks = dice.next() % 100 >= 15;
    let link = link((down, buffers[0]), (up, buffers[1]), delays);
    let mut scenario = empty(name, link, each);
    let length = scenario.length;
    scenario.transfers = transfers(length, flows);
    scenario.congestion_controls = vec![congestion_control];
    scenario.sockets_every = SOCKETS_EVERY;
    scenario.prepare = Preparation::sockets_begin_with(if paced { "bbr" } else { "reno" });
    if !delayed_acks {
        scenario.prepare = scenario.prepare.then(Preparation::immediate_acks());
    }
    let case = steady(name, &scenario)
        .with("downloads", flows.0)
        .with("uploads", flows.1)
        .with("delayed_acks", delayed_acks)
        .with("paced", paced)
        .with("length_s", length.as_secs());
    let case = case.compared(Claim::default(), prediction::download_beside_upload(&link, delayed_acks));
    scenario.cases = vec![case];
    scenario
}

/// What each buffer, and both together, made a packet wait, had it come at the moment of a reading: mean and 95th percentile, seconds.
fn waits(run: &ScenarioRun, from: Duration, to: Duration) -> serde_json::Value {
    let link = run.scenario.link;
    let rate = PerDirection { up: link.uplink.rate, down: link.downlink.rate };
    let within = run.record.queues.iter().filter(|sample| (from..=to).contains(&sample.at));
    let waits: Vec<PerDirection<f64>> = within
        .map(|sample| {
            PerDirection::from_fn(|direction| {
                sample.queue[direction].backlog_bytes as f64 / rate[direction].bytes_per_second()
            })
        })
        .collect();
    let summary = |wait: fn(&PerDirection<f64>) -> f64| {
        let all: Vec<f64> = waits.iter().map(wait).collect();
        json!({"mean_s": all.iter().sum::<f64>() / all.len() as f64, "p95_s": quantile(all, 0.95)})
    };
    json!({"down": summary(|wait| wait.down), "up": summary(|wait| wait.up), "both": summary(|wait| wait.down + wait.up)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_is_the_same_each_time_and_its_sets_differ() {
        let wishes = Wishes { total: EACH * TOTAL, quick: false };
        let (one, two) = (Points.scenarios(wishes), Points.scenarios(wishes));
        assert!(one.iter().zip(&two).all(|(a, b)| a.link == b.link && a.name == b.name));
        assert_eq!(one.len(), TOTAL as usize);
        let of = |letters: &'static [char]| one.iter().filter(move |point| point.name.starts_with(letters));
        assert!(
            of(&['h', 'q', 'e', 'f', 'r', 's'])
                .all(|held| of(&['c', 'p', 'b']).all(|known| known.link != held.link))
        );
        assert!(of(&['b', 'e', 'f']).all(|point| point.congestion_controls == ["bbr"]));
        assert!(of(&['r']).all(|point| point.congestion_controls == ["reno"]));
        assert!(of(&['s']).all(|point| point.transfers.iter().any(|timed| timed.spec.streams > 1)));
    }
}
