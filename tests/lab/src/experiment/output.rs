//! What `--out` gets: the report, everything observed as CSV, iperf3's reports, and the plots.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::{ExperimentError, RunOptions};
use super::report::Report;
use super::results::{Results, ScenarioRun};
use super::scenario::Scenario;
use super::{Experiment, plots, write_charts, write_file};
use crate::traffic::TransferReport;

/// Where a run's own files go: the scenario's name, with what tells it from the other runs.
pub(super) fn directory(
    scenario: &Scenario,
    congestion_control: &str,
    seed: u64,
    options: &RunOptions,
) -> String {
    let mut name = scenario.name.clone();
    if options.congestion_controls.len() > 1 || scenario.congestion_controls.len() > 1 {
        name = format!("{name}-{congestion_control}");
    }
    if options.repeat > 1 {
        name = format!("{name}-{seed}");
    }
    name
}

/// Writes what one run has observed.
pub(super) fn write_run(run: &ScenarioRun, out: &Path) -> Result<(), ExperimentError> {
    write_file(&out.join("queues.csv"), &queues_csv(run))?;
    write_file(&out.join("transfers.csv"), &transfers_csv(run))?;
    write_file(&out.join("flows.csv"), &flows_csv(run))?;
    write_file(&out.join("iperf3.json"), &iperf_json(&run.reports).to_string())?;
    if run.with_agent {
        let samples = run.record.agent.answers().iter();
        let lines =
            samples.map(|(at, link)| format!("{}\n", json!({"at_s": at.as_secs_f64(), "link": link})));
        write_file(&out.join("agent.jsonl"), &lines.collect::<String>())?;
    }
    write_charts(&plots::of_run(run), out)
}

/// Writes the cases and the experiment's own plots.
pub(super) fn write_report<E: Experiment + ?Sized>(
    experiment: &E,
    report: &Report,
    runs: &[ScenarioRun],
    out: &Path,
) -> Result<(), ExperimentError> {
    write_file(&out.join("cases.csv"), &cases_csv(report))?;
    write_charts(&experiment.plots(Results { report, runs }), out)
}

/// Rows of CSV below a heading. Writing to a String does not fail.
fn csv(heading: &str, rows: impl Iterator<Item = String>) -> String {
    rows.fold(format!("{heading}\n"), |mut text, row| {
        let _ = writeln!(text, "{row}");
        text
    })
}

fn seconds(at: Duration) -> String {
    format!("{:.3}", at.as_secs_f64())
}

fn queues_csv(run: &ScenarioRun) -> String {
    let rows = run.record.queues.iter().map(|sample| {
        let (up, down) = (&sample.queue.up, &sample.queue.down);
        format!(
            "{},{},{},{},{}",
            seconds(sample.at),
            up.backlog_bytes,
            down.backlog_bytes,
            up.dropped_packets,
            down.dropped_packets
        )
    });
    csv("time_s,uplink_bytes,downlink_bytes,uplink_drops,downlink_drops", rows)
}

fn transfers_csv(run: &ScenarioRun) -> String {
    let rows = run.record.transfers.iter().map(|sample| {
        format!(
            "{},{},{},{},{},{},{},{:.4},{:.4}",
            seconds(sample.at),
            sample.delivered.down,
            sample.delivered.up,
            sample.cwnd.down,
            sample.cwnd.up,
            sample.outstanding.down,
            sample.outstanding.up,
            sample.rtt.down.as_secs_f64(),
            sample.rtt.up.as_secs_f64()
        )
    });
    csv(
        "time_s,download_bytes,upload_bytes,download_cwnd_bytes,upload_cwnd_bytes,download_outstanding_bytes,\
         upload_outstanding_bytes,download_rtt_s,upload_rtt_s",
        rows,
    )
}

fn flows_csv(run: &ScenarioRun) -> String {
    let rows = run.record.flows.iter().map(|sample| {
        let spec = &run.scenario.transfers[sample.transfer].spec;
        format!(
            "{},{},{},{},{},{},{:.4},{}",
            seconds(sample.at),
            sample.transfer,
            spec.direction.name(),
            spec.ends.internet,
            sample.delivered,
            sample.cwnd,
            sample.rtt.as_secs_f64(),
            sample.retransmitted
        )
    });
    csv(
        "time_s,transfer,direction,internet_end,delivered_bytes,cwnd_bytes,rtt_s,retransmitted_segments",
        rows,
    )
}

fn cases_csv(report: &Report) -> String {
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    let rows = report.cases.iter().map(|case| {
        let text = |name: &str| match case.params.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
            None => String::new(),
        };
        let share = |name: &str| number(case.truth.pointer(name).and_then(Value::as_f64));
        let agent_share = |name: &str| number(case.agent.phase_share.get(name).and_then(Value::as_f64));
        let spread = case.measured.spread.and_then(|spread| spread.ratio);
        [
            format!("\"{}\"", case.name.replace('"', "'")),
            text("cc"),
            text("uplink_buffer"),
            text("downlink_buffer"),
            text("propagation_s"),
            number(case.paper.figures.ratio),
            number(case.predicted.paper.ratio),
            number(case.predicted.refined.ratio),
            number(case.measured.figures.download_bps),
            number(case.measured.figures.upload_bps),
            number(case.measured.figures.ratio),
            number(spread.map(|spread| spread.0)),
            number(spread.map(|spread| spread.1)),
            share("/phase_share/uplink_bound"),
            share("/phase_share/downlink_bound"),
            agent_share("uplink_bound"),
            agent_share("downlink_bound"),
            case.agent.verdict.as_str().unwrap_or_default().to_owned(),
        ]
        .join(",")
    });
    csv(
        "case,cc,uplink_buffer,downlink_buffer,propagation_s,paper_ratio,eq11_ratio,refined_ratio,download_bps,upload_bps,\
         ratio,ratio_min,ratio_max,kernel_uplink_bound,kernel_downlink_bound,agent_uplink_bound,agent_downlink_bound,verdict",
        rows,
    )
}

fn iperf_json(reports: &[Option<TransferReport>]) -> Value {
    let both =
        |report: &TransferReport| json!({"receiver": report.receiver.json, "sender": report.sender.json});
    reports.iter().map(|report| report.as_ref().map_or(Value::Null, both)).collect()
}
