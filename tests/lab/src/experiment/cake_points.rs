//! Operating points of two-way links with cake before the uplink, for `model::simulate`: the sample of [`super::points`] with another queue.
//!
//! Points whose names begin with `k` are for looking at, those with `l` are held out: the simulation is judged on them, and nothing in it is chosen by
//! them. A datagram of 16 bytes each quarter of a second tells what cake makes a flow wait that has no queue of its own.

use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::Direction;

use super::options::Wishes;
use super::pair::{empty, link, steady};
use super::points::{Dice, SOCKETS_EVERY, delays, drawn, queues_and_parts, transfers};
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::{Preparation, Scenario, TimedUdp};
use super::{About, Experiment};
use crate::topology::WAN_DEVICE;
use crate::traffic::UdpSpec;

pub(super) struct CakePoints;

const LOOKED_AT: u32 = 10;
const HELD_OUT: u32 = 20;
const TOTAL: u32 = LOOKED_AT + HELD_OUT;
const EACH: Duration = Duration::from_secs(120);
/// Words after cake's bandwidth (tc-cake(8)).
const ACK_FILTERS: [&str; 4] = ["no-ack-filter", "no-ack-filter", "ack-filter", "ack-filter-aggressive"];
const ISOLATIONS: [&str; 2] = ["dual-srchost", "triple-isolate"];
/// The probe's frames: 14 + 20 + 8 + 16 bytes, four a second.
const PROBE_BYTES: u16 = 16;
const PROBE_BPS: u64 = 58 * 8 * 4;

impl Experiment for CakePoints {
    fn about(&self) -> About {
        About {
            name: "cake-points",
            source: "–",
            what: "a seeded sample of two-way links with cake before the uplink, to judge the simulation's cake",
            usual: EACH * TOTAL,
            quick: Duration::from_secs(60) * TOTAL,
            shortest: Duration::from_secs(10) * TOTAL,
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let each = wishes.total / TOTAL;
        let set = |letter, seed, count| drawn(letter, seed, count, move |name, dice| point(name, dice, each));
        set('k', 0x5eed_ca4e, LOOKED_AT).chain(set('l', 0x5eed_ca4f, HELD_OUT)).collect()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        queues_and_parts(case, index, run);
    }
}

/// One point: the order of the draws is part of the recipe.
fn point(name: &str, dice: &mut Dice, each: Duration) -> Scenario {
    let down = dice.one_of(&[1_000_000, 2_000_000, 2_400_000, 4_000_000, 6_000_000, 8_000_000]);
    let up = dice.one_of(&[200_000, 256_000, 384_000, 512_000, 768_000, 1_000_000]);
    let downlink_buffer = if dice.next() % 10 < 4 {
        BufferSize::Packets(dice.size(10.0, 70.0, 1))
    } else {
        BufferSize::Bytes(dice.size(10_000.0, 100_000.0, 500))
    };
    let delays = delays(dice);
    let congestion_control = dice.one_of(&["reno", "cubic"]);
    let several = dice.next() % 10 < 4;
    let flows = if several { dice.one_of(&[(2, 1), (1, 2), (2, 2), (3, 1), (1, 4), (4, 4)]) } else { (1, 1) };
    let delayed_acks = dice.next() % 100 >= 15;
    let words = format!("{} {}", dice.one_of(&ACK_FILTERS), dice.one_of(&ISOLATIONS));
    // The uplink's buffer is replaced by cake.
    let link = link((down, downlink_buffer), (up, BufferSize::Packets(1)), delays);
    let mut scenario = empty(name, link, each);
    let length = scenario.length;
    scenario.transfers = transfers(length, flows);
    scenario.congestion_controls = vec![congestion_control];
    scenario.sockets_every = SOCKETS_EVERY;
    scenario.prepare = Preparation::sockets_begin_with("reno").then(cake(&words));
    if !delayed_acks {
        scenario.prepare = scenario.prepare.then(Preparation::immediate_acks());
    }
    let case = steady(name, &scenario)
        .with("downloads", flows.0)
        .with("uploads", flows.1)
        .with("delayed_acks", delayed_acks)
        .with("cake", words)
        .with("length_s", length.as_secs());
    scenario.datagrams = probe(case.from, case.to - case.from);
    scenario.cases = vec![case];
    scenario
}

fn cake(words: &str) -> Preparation {
    let words = words.to_owned();
    Preparation::new(move |lab| lab.spec().uplink.replace_by_cake(&lab.gateway(), WAN_DEVICE, &words))
}

/// From the home to the internet, over the steady stretch.
fn probe(at: Duration, duration: Duration) -> Vec<TimedUdp> {
    let rate = Rate::from_bits_per_second(PROBE_BPS);
    let spec = rate
        .map(|rate| UdpSpec { payload_bytes: PROBE_BYTES, ..UdpSpec::quic(Direction::Up, rate, duration) });
    spec.map(|spec| TimedUdp { at, spec }).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_out_is_not_looked_at() {
        let scenarios = CakePoints.scenarios(Wishes { total: EACH * TOTAL, quick: false });
        assert_eq!(scenarios.len(), TOTAL as usize);
        let links = |letter: char| scenarios.iter().filter(move |point| point.name.starts_with(letter));
        assert!(links('l').all(|held| links('k').all(|known| known.link != held.link)));
        assert!(scenarios.iter().all(|point| point.datagrams.len() == 1));
    }
}
