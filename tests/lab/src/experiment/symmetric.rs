//! Paper 000, Fig. 3 to 5: a symmetric link. Equal delays and an ACK for each segment: in phase, with bursts of ACKs. With delayed ACKs the
//! bursts go; with unequal delays the pendulum swings.

use std::time::Duration;

use pendulum_model::rate::BufferSize;
use serde_json::Value;

use super::figures::Claim;
use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UNEQUAL_ACCESS, link, pair};
use super::report::CaseReport;
use super::results::{Results, ScenarioRun};
use super::scenario::{Preparation, Scenario};
use super::{About, Experiment, plots, prediction};
use crate::chart::Chart;
use crate::delay::Delays;

pub(super) struct Symmetric;
pub(super) struct Swing;

/// 20 full segments at both ends.
const BUFFER: BufferSize = BufferSize::Bytes(30_000);

const EQUAL_ACCESS: Delays = Delays {
    propagation: Duration::ZERO,
    d1_access: Duration::from_millis(1),
    u1_access: Duration::from_millis(1),
};

fn scenario(
    name: &str,
    case: &str,
    delays: Delays,
    length: Duration,
    delayed_acks: bool,
    paper: Claim,
) -> Scenario {
    let link = link((DOWNLINK_BPS, BUFFER), (DOWNLINK_BPS, BUFFER), delays);
    let mut scenario = pair(name, case, link, length, 1);
    scenario.ack_bursts = true;
    if !delayed_acks {
        scenario.prepare = Preparation::immediate_acks();
    }
    let predicted = prediction::download_beside_upload(&link, delayed_acks);
    let cases = std::mem::take(&mut scenario.cases).into_iter();
    scenario.cases = cases
        .map(|case| case.with("delayed_acks", delayed_acks).compared(paper.clone(), predicted))
        .collect();
    scenario
}

impl Experiment for Symmetric {
    fn about(&self) -> About {
        About {
            name: "symmetric",
            source: "000 Fig. 3, 4",
            what: "equal rates and delays: do the queues move in phase, and do ACKs come in bursts?",
            usual: Duration::from_secs(120),
            quick: Duration::from_secs(40),
            shortest: Duration::from_secs(20),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let each = wishes.total / 2;
        let compressed = Claim::says("in phase, bursts of 10–20 ACKs").and("verdict", "ack_compression");
        let delayed = Claim::says("in phase, no bursts");
        vec![
            scenario("every-segment", "an ACK for each segment", EQUAL_ACCESS, each, false, compressed),
            scenario("delayed-acks", "delayed ACKs", EQUAL_ACCESS, each, true, delayed),
        ]
    }

    fn judge(&self, case: &mut CaseReport, _index: usize, _run: &ScenarioRun) {
        add_queues_and_bursts(case);
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        zooms(results)
    }
}

impl Experiment for Swing {
    fn about(&self) -> About {
        About {
            name: "swing",
            source: "000 Fig. 5",
            what: "a symmetric link with unequal access delays: the queues alternate",
            usual: Duration::from_secs(90),
            quick: Duration::from_secs(25),
            shortest: Duration::from_secs(15),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let paper = Claim::says("alternating, period about 2 s")
            .and("swing_period_s", 2.0)
            .and("verdict", "swinging");
        vec![scenario("swing", "1 ms and 5 ms away", UNEQUAL_ACCESS, wishes.total, true, paper)]
    }

    fn judge(&self, case: &mut CaseReport, _index: usize, _run: &ScenarioRun) {
        add_queues_and_bursts(case);
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        zooms(results)
    }
}

/// What these experiments are about, from the kernel's readings: correlation and period of the queues, and the bursts.
pub(super) fn add_queues_and_bursts(case: &mut CaseReport) {
    for (name, pointer) in [
        ("queue_correlation", "/queue_correlation"),
        ("swing_period_s", "/swing_period_s"),
        ("uplink_ack_burst_mean", "/ack_burst/up/mean"),
        ("downlink_ack_burst_mean", "/ack_burst/down/mean"),
        ("uplink_acks_in_long_bursts", "/ack_burst/up/share_in_bursts_of_10"),
        ("downlink_acks_in_long_bursts", "/ack_burst/down/share_in_bursts_of_10"),
    ] {
        let value = case.truth.pointer(pointer).cloned().unwrap_or(Value::Null);
        case.measured.more.insert(name.into(), value);
    }
}

/// Both queues over a few seconds of each run's steady part (000 Fig. 3.2, 5.2).
fn zooms(results: Results<'_>) -> Vec<Chart> {
    const SECONDS: f64 = 6.0;
    let chart = |run: &ScenarioRun| {
        let from = run.scenario.length.as_secs_f64() * 0.5;
        Chart {
            name: format!("zoom-{}-{}-{}", run.scenario.name, run.congestion_control, run.seed),
            title: format!(
                "{} ({}): both queues, a part of the run",
                run.scenario.name, run.congestion_control
            ),
            panels: vec![plots::both_queues(run, Some((from, from + SECONDS)))],
        }
    };
    results.runs.iter().map(chart).collect()
}
