//! Paper 003: flows of different round-trip times through one bottleneck, in one direction.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;
use serde_json::Value;

use super::figures::Claim;
use super::options::Wishes;
use super::pair::{empty, link};
use super::report::CaseReport;
use super::results::{Results, ScenarioRun};
use super::scenario::{Case, Scenario, TimedTransfer};
use super::{About, Experiment, plots};
use crate::chart::{Chart, Colour, Series};
use crate::delay::Delays;
use crate::topology::Role;
use crate::traffic::{Ends, TransferSpec};

pub(super) struct RttCompetition;

/// The paper does not name its rate. Its queue adds "a maximum of an extra 25 ms", here 21 packets at 10 Mb/s.
const RATE_BPS: u64 = 10_000_000;
const SLOTS: u64 = 21;
/// One way: 30 ms and 100 ms there and back.
const NEAR: Duration = Duration::from_millis(15);
const FAR: Duration = Duration::from_millis(50);

/// Where a flow comes from: D1 is near, U1 far.
const NEAR_END: Role = Role::D1;
const FAR_END: Role = Role::U1;

/// Payload of a burst (003 §III-C: "1-3MB"), and how often one comes.
const BURST_BYTES: u64 = 1_000_000;
const BURST_EVERY: Duration = Duration::from_secs(4);

impl Experiment for RttCompetition {
    fn about(&self) -> About {
        About {
            name: "rtt-competition",
            source: "003 Fig. 3–11",
            what: "near (30 ms) and far (100 ms) downloads share a link: who gets how much?",
            usual: Duration::from_secs(6 * 50),
            quick: Duration::from_secs(6 * 16),
            shortest: Duration::from_secs(6 * 12),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let length = Duration::from_secs((wishes.total / 6).as_secs());
        let third = Duration::from_secs(length.as_secs() / 3);
        let start = Duration::ZERO;
        let long = |end, at| flow(end, at, length - at, None);
        let bursts = |end| {
            let count = length.as_secs().saturating_sub(third.as_secs() + 2) / BURST_EVERY.as_secs();
            (0..=count)
                .map(move |i| flow(end, third + BURST_EVERY * i as u32, BURST_EVERY, Some(BURST_BYTES)))
        };
        let near_far = "near about 80 %, far about 20 %";
        vec![
            scenario("equal", length, "50/50", vec![long(NEAR_END, start), long(NEAR_END, start)], start),
            scenario(
                "staggered",
                length,
                "50/50 once both run",
                vec![long(NEAR_END, start), long(NEAR_END, third)],
                third,
            ),
            scenario("near-far", length, near_far, vec![long(NEAR_END, start), long(FAR_END, start)], start),
            scenario(
                "near-joins-far",
                length,
                "the far flow falls back to slow start, then about 1/10",
                vec![long(FAR_END, start), long(NEAR_END, third)],
                third,
            ),
            scenario(
                "far-bursts",
                length,
                "minor impact on the near flow",
                [long(NEAR_END, start)].into_iter().chain(bursts(FAR_END)).collect(),
                third,
            ),
            scenario(
                "near-bursts",
                length,
                "significant disruption of the far flow",
                [long(FAR_END, start)].into_iter().chain(bursts(NEAR_END)).collect(),
                third,
            ),
        ]
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        let Some(stretch) = run.scenario.cases.get(index) else { return };
        let rate = |transfer| run.record.flow_bps(transfer, stretch.from, stretch.to).unwrap_or_default();
        let of = |end: Role| -> f64 {
            let flows = run
                .scenario
                .transfers
                .iter()
                .enumerate()
                .filter(|(_, timed)| timed.spec.ends.internet == end);
            // Bursts are shorter than the stretch: the time they ran is not the time they count for.
            flows
                .map(|(transfer, timed)| match timed.spec.bytes {
                    Some(bytes) if timed.at < stretch.to => {
                        bytes as f64 * 8.0 / (stretch.to - stretch.from).as_secs_f64()
                    }
                    Some(_) => 0.0,
                    None => rate(transfer),
                })
                .sum()
        };
        let (near, far) = (of(NEAR_END), of(FAR_END));
        let more = &mut case.measured.more;
        if far > 0.0 && near > 0.0 {
            more.insert("near_bps".into(), near.into());
            more.insert("far_bps".into(), far.into());
            more.insert("near_share".into(), (near / (near + far)).into());
        } else {
            more.insert("first_share".into(), (rate(0) / (rate(0) + rate(1))).into());
        }
        // What the first flow had while it was alone.
        let alone = run.scenario.transfers.get(1).map(|second| second.at).filter(|at| !at.is_zero());
        if let Some(alone) = alone {
            more.insert("first_before_bps".into(), run.record.flow_bps(0, alone.mul_f64(0.4), alone).into());
            more.insert("first_bps".into(), rate(0).into());
        }
        let retransmitted = case.truth.pointer("/retransmitted_segments/down").cloned();
        more.insert("retransmitted_segments".into(), retransmitted.unwrap_or(Value::Null));
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        results.runs.iter().map(chart).collect()
    }
}

fn flow(end: Role, at: Duration, length: Duration, bytes: Option<u64>) -> TimedTransfer {
    // The two near flows of one scenario, or a near and a far one, go to different machines at home.
    let home = if end == NEAR_END { Role::D2 } else { Role::U2 };
    let spec = TransferSpec {
        ends: Ends { internet: end, home },
        bytes,
        ..TransferSpec::new(Direction::Down, length)
    };
    TimedTransfer::new(at, spec)
}

/// `settled`: when all that compete have begun.
fn scenario(
    name: &str,
    length: Duration,
    says: &str,
    transfers: Vec<TimedTransfer>,
    settled: Duration,
) -> Scenario {
    let buffer = BufferSize::Packets(SLOTS);
    let delays = Delays { d1_access: NEAR, u1_access: FAR, ..Delays::NONE };
    let mut scenario = empty(name, link((RATE_BPS, buffer), (RATE_BPS, buffer), delays), length);
    let from = settled + (scenario.length - settled).mul_f64(0.2);
    let case = Case::new(name.replace('-', " "), from, scenario.length, &scenario.link);
    scenario.cases = vec![case.with("downloads", transfers.len()).with("uploads", 0)];
    scenario.cases[0].paper = Claim::says(says);
    scenario.transfers = transfers;
    scenario.sockets_every = Duration::from_millis(200);
    scenario
}

/// Throughput, windows, and queue over time (003 Fig. 3–11).
fn chart(run: &ScenarioRun) -> Chart {
    let colour = |end| if end == NEAR_END { Colour::Third } else { Colour::Fourth };
    let mut throughput = Vec::new();
    let mut windows = Vec::new();
    let mut named: Vec<String> = Vec::new();
    for (transfer, timed) in run.scenario.transfers.iter().enumerate() {
        let end = timed.spec.ends.internet;
        let kind = if end == NEAR_END { "near, 30 ms" } else { "far, 100 ms" };
        // Once in the legend, however many bursts there are; of two alike the second is the other colour.
        let second =
            run.scenario.transfers[..transfer].iter().any(|earlier| earlier.spec.ends.internet == end)
                && timed.spec.bytes.is_none();
        let (colour, name) =
            if second { (Colour::Fourth, format!("{kind}, second")) } else { (colour(end), kind.to_owned()) };
        let label = if named.contains(&name) { String::new() } else { name.clone() };
        named.push(name);
        let samples: Vec<_> = run.record.flows.iter().filter(|sample| sample.transfer == transfer).collect();
        let rates = samples.windows(3).filter_map(|three| {
            let seconds = (three[2].at - three[0].at).as_secs_f64();
            let bits = three[2].delivered.saturating_sub(three[0].delivered) as f64 * 8.0;
            (seconds > 0.0).then(|| (three[2].at.as_secs_f64(), bits / 1e6 / seconds))
        });
        throughput.push(Series::line(&label, colour, rates.collect()));
        let cwnd = samples.iter().map(|sample| (sample.at.as_secs_f64(), sample.cwnd as f64 / 1000.0));
        windows.push(Series::line(&label, colour, cwnd.collect()));
    }
    Chart {
        name: format!("flows-{}-{}-{}", run.scenario.name, run.congestion_control, run.seed),
        title: format!(
            "{} ({}): throughput over 0.4 s, windows, queue",
            run.scenario.name, run.congestion_control
        ),
        panels: vec![
            plots::timed(run, "throughput, Mbit/s", throughput),
            plots::timed(run, "cwnd, kB", windows),
            plots::both_queues(run, None),
        ],
    }
}
