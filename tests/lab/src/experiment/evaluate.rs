//! From what was observed to what a case reports.

use pendulum_model::segment::{Direction, PerDirection};
use serde_json::{Value, json};

use super::figures::{Figures, Measured};
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::Case;
use super::verdict;
use crate::traffic::UdpReport;
use crate::truth::AckBursts;

/// A burst this long counts as ACK compression (000 §2.1: "large bursts of 10 to 20").
const LONG_BURST: u32 = 10;

/// All cases of one run.
pub(super) fn cases(run: &ScenarioRun) -> Vec<CaseReport> {
    run.scenario.cases.iter().enumerate().map(|(index, case)| evaluate(index, case, run)).collect()
}

fn evaluate(index: usize, case: &Case, run: &ScenarioRun) -> CaseReport {
    let measurement = run.record.measure(case.from, case.to);
    let datagrams = PerDirection::from_fn(|direction| datagram_bps(direction, case, run));
    let by_iperf = |direction| iperf_bps(direction, case, run);
    let mut truth = json!(measurement);
    truth["iperf3"] =
        json!({"download_bps": by_iperf(Direction::Down), "upload_bps": by_iperf(Direction::Up)});
    truth["standing_share"] = json!(measurement.phases.standing_share());
    if !run.datagrams.is_empty() {
        let flow = |report: &UdpReport| json!({"report": report, "lost_share": report.lost_share()});
        truth["udp"] = run.datagrams.iter().map(flow).collect();
    }
    let figures = with_datagrams(measurement.figures, datagrams);
    let told = verdict::of(&measurement.phases, figures, run);
    truth["verdict"] = json!(told.verdict);
    truth["verdict_reason"] = json!(told.reason);
    if let Some(bursts) = run.ack_bursts.get(index) {
        truth["ack_burst"] = json!(PerDirection::from_fn(|direction| burst_summary(&bursts[direction])));
    }
    CaseReport {
        name: case.name.clone(),
        params: case.params.clone(),
        paper: case.paper.clone(),
        predicted: case.predicted,
        measured: Measured { figures, ..Measured::default() },
        truth,
        agent: run.record.agent.summary(case.from, case.to),
    }
}

/// UDP payload that arrived within a stretch, bit/s, over all flows of a direction; `None` if there is no such flow.
fn datagram_bps(direction: Direction, case: &Case, run: &ScenarioRun) -> Option<f64> {
    let flows = run.scenario.datagrams.iter().zip(&run.datagrams);
    let rates = flows.filter(|(timed, _)| timed.spec.direction == direction).filter_map(|(timed, report)| {
        let since = |moment: std::time::Duration| moment.as_secs_f64() - timed.at.as_secs_f64();
        report.mean_bps(since(case.from), since(case.to))
    });
    rates.reduce(|sum, bps| sum + bps)
}

/// Goodput of TCP and UDP together.
fn with_datagrams(tcp: Figures, udp: PerDirection<Option<f64>>) -> Figures {
    let sum = |tcp: Option<f64>, udp: Option<f64>| match (tcp, udp) {
        (Some(tcp), Some(udp)) => Some(tcp + udp),
        (tcp, udp) => tcp.or(udp),
    };
    match (sum(tcp.download_bps, udp.down), sum(tcp.upload_bps, udp.up)) {
        (Some(download), Some(upload)) => Figures::new(download, upload),
        (download_bps, upload_bps) => Figures { download_bps, upload_bps, ratio: None },
    }
}

fn burst_summary(bursts: &AckBursts) -> Value {
    json!({
        "mean": bursts.mean(),
        "share_in_bursts_of_10": bursts.share_in_bursts_of(LONG_BURST),
        "histogram": bursts.histogram,
    })
}

/// What the receivers' iperf3 says of a stretch. Its clock starts when it has connected, up to a second after the transfer's start.
fn iperf_bps(direction: Direction, case: &Case, run: &ScenarioRun) -> Option<f64> {
    let active: Vec<f64> = run
        .transfers(direction)
        .filter_map(|index| {
            let timed = run.scenario.transfers.get(index).filter(|timed| timed.at < case.to)?;
            let since = |moment: std::time::Duration| moment.as_secs_f64() - timed.at.as_secs_f64();
            run.reports.get(index)?.as_ref()?.receiver.mean_bps(since(case.from), since(case.to))
        })
        .collect();
    (!active.is_empty()).then(|| active.iter().sum())
}

/// One entry for several repetitions of a case: means of what was measured, truth and agent of the first, all single values beside.
pub(super) fn merge(repetitions: &[(u64, CaseReport)]) -> Option<CaseReport> {
    let ((_, first), rest) = repetitions.split_first()?;
    let mut merged = first.clone();
    if rest.is_empty() {
        return Some(merged);
    }
    let measured: Vec<Measured> = repetitions.iter().map(|(_, case)| case.measured.clone()).collect();
    merged.measured = Measured::over(&measured);
    merged.truth["repetitions"] = repetitions
        .iter()
        .map(|(seed, case)| {
            json!({"seed": seed, "measured": case.measured, "phase_share": case.truth["phase_share"],
                   "agent": {"verdict": case.agent.verdict, "phase_share": case.agent.phase_share}})
        })
        .collect();
    Some(merged)
}
