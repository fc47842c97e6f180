//! Runs scenarios on labs and observes them.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pendulum_model::segment::{Direction, PerDirection};
use serde_json::{Value, json};

use super::record::Record;
use super::report::{CaseReport, Report};
use super::scenario::{Case, Scenario};
use super::{About, Experiment};
use crate::agent::{Agent, AgentError};
use crate::interrupt::{Interrupt, Interrupted};
use crate::lab::{Lab, LabError};
use crate::relay::Relay;
use crate::topology::{LAN_DEVICE, LINK_DEVICE, Role, WAN_DEVICE};
use crate::traffic::{Prepared, ReportError, TrafficError, Transfer, TransferReport};
use crate::truth::{Capture, QueueReading, TruthError, read_sockets};

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The user stopped it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The lab could not be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The traffic failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The kernel's figures could not be had.
    #[error(transparent)]
    Truth(#[from] TruthError),
    /// The agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A result could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The agent's page could not be offered outside the lab.
    #[error("cannot listen on {address} for the agent's page: {source}; choose another with --agent-listen")]
    Relay {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// An experiment is defined wrongly.
    #[error("{0}")]
    Scenario(String),
}

/// How to run an experiment.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Traffic time; the experiment's usual one if not given.
    pub total: Option<Duration>,
    /// Where to write everything observed.
    pub out: Option<PathBuf>,
    /// The agent to run beside it.
    pub agent: Option<PathBuf>,
    /// Where to offer the agent's page outside the lab.
    pub agent_listen: Option<std::net::SocketAddr>,
    /// Stops the run.
    pub interrupt: Interrupt,
}

/// Where a run stands.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Traffic time of the whole experiment.
    pub total: Duration,
    /// Of it, gone.
    pub elapsed: Duration,
    /// What is going on.
    pub what: String,
}

/// How often queues are read.
const QUEUE_INTERVAL: Duration = Duration::from_millis(100);
/// Every how many readings of the queues the sockets, and the agent, are read as well.
const SOCKETS_EVERY: u32 = 5;
const AGENT_EVERY: u32 = 10;
/// How long iperf3 may take for its end exchange over full buffers.
const END_EXCHANGE: Duration = Duration::from_secs(10);
/// Bytes of each packet that captures keep: all headers with all options.
const SNAP_BYTES: u32 = 160;

/// Runs all scenarios of an experiment and evaluates them.
///
/// # Errors
/// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing is left behind.
pub fn run(
    experiment: &dyn Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
) -> Result<Report, ExperimentError> {
    let About { name, usual, shortest, .. } = experiment.about();
    let scenarios = experiment.scenarios(options.total.unwrap_or(usual).max(shortest));
    let total = scenarios.iter().map(|scenario| scenario.length).sum();
    let mut report = Report::new(name);
    let mut before = Duration::ZERO;
    for scenario in &scenarios {
        scenario.check().map_err(ExperimentError::Scenario)?;
        let step = |elapsed: Duration, what: &str| {
            progress(Progress { total, elapsed: before + elapsed, what: what.to_owned() });
        };
        report.cases.extend(run_scenario(scenario, options, &step)?);
        before += scenario.length;
    }
    if let Some(out) = &options.out {
        write(&out.join("report.json"), &report.to_json())?;
    }
    Ok(report)
}

/// Runs one scenario on a lab of its own.
///
/// # Errors
/// As [`run`].
pub fn run_scenario(
    scenario: &Scenario,
    options: &RunOptions,
    step: &dyn Fn(Duration, &str),
) -> Result<Vec<CaseReport>, ExperimentError> {
    step(Duration::ZERO, "building the lab");
    let lab = Lab::start(scenario.link)?;
    let out = options.out.as_ref().map(|out| out.join(&scenario.name));
    let captures = out.as_deref().map(|out| start_captures(&lab, out)).transpose()?;
    let agent = options.agent.as_deref().map(|program| Agent::start(&lab, program)).transpose()?;
    let relay = options.agent_listen.map(|address| start_relay(&lab, address)).transpose()?;
    let mut observer = Observer { lab: &lab, agent: agent.as_ref(), record: Record::default() };
    let mut transfers = drive(scenario, &mut observer, options, step)?;
    step(scenario.length, "waiting for the ends of the transfers");
    let reports = finish(&mut transfers, &options.interrupt)?;
    let record = observer.record;
    for capture in captures.into_iter().flatten() {
        capture.stop()?;
    }
    drop(relay);
    if let Some(agent) = agent {
        agent.stop()?;
    }
    if let Some(out) = out {
        write(&out.join("queues.csv"), &record.queues_csv())?;
        write(&out.join("transfers.csv"), &record.transfers_csv())?;
        write(&out.join("iperf3.json"), &iperf_json(&reports).to_string())?;
    }
    Ok(scenario.cases.iter().map(|case| evaluate(case, scenario, &record, &reports, options)).collect())
}

/// The main loop: starts what is due and observes, ten times a second.
fn drive(
    scenario: &Scenario,
    observer: &mut Observer<'_>,
    options: &RunOptions,
    step: &dyn Fn(Duration, &str),
) -> Result<Vec<Transfer>, ExperimentError> {
    let mut waiting = Vec::new();
    for timed in &scenario.transfers {
        waiting.push((timed.at, Some(Prepared::new(observer.lab, timed.spec.clone())?)));
    }
    let mut running: Vec<(Duration, Transfer)> = Vec::new();
    let start = Instant::now();
    for tick in 0.. {
        let now = start.elapsed();
        for (at, prepared) in waiting.iter_mut().filter(|(at, _)| *at <= now) {
            if let Some(prepared) = prepared.take() {
                running.push((*at, prepared.start()?));
            }
        }
        observer.observe(tick, start)?;
        for (at, transfer) in &mut running {
            if start.elapsed() < *at + transfer.spec().duration && transfer.client_has_ended()? {
                transfer.report()?;
            }
        }
        if now >= scenario.length {
            break;
        }
        step(now, what_runs(scenario, now));
        options.interrupt.sleep_until(start + QUEUE_INTERVAL * (tick + 1))?;
    }
    Ok(running.into_iter().map(|(_, transfer)| transfer).collect())
}

fn what_runs(scenario: &Scenario, now: Duration) -> &str {
    let case = scenario.cases.iter().find(|case| now < case.to);
    case.map_or("", |case| case.name.as_str())
}

/// Takes all readings of one lab.
struct Observer<'a> {
    lab: &'a Lab,
    agent: Option<&'a Agent>,
    record: Record,
}

impl Observer<'_> {
    fn observe(&mut self, tick: u32, start: Instant) -> Result<(), ExperimentError> {
        let queue = PerDirection {
            up: QueueReading::take(&self.lab.gateway(), WAN_DEVICE)?,
            down: QueueReading::take(&self.lab.host(Role::R1), LINK_DEVICE)?,
        };
        self.record.note_queues(start.elapsed(), queue);
        if tick.is_multiple_of(SOCKETS_EVERY) {
            let sockets = |role| read_sockets(&self.lab.host(role));
            let receivers = PerDirection { up: sockets(Role::U1)?, down: sockets(Role::D2)? };
            let at = start.elapsed();
            let senders = PerDirection { up: sockets(Role::U2)?, down: sockets(Role::D1)? };
            self.record.note_sockets(at, &receivers, &senders);
        }
        if let Some(agent) = self.agent.filter(|_| tick.is_multiple_of(AGENT_EVERY)) {
            self.record.agent.push((start.elapsed(), agent.read()?));
        }
        Ok(())
    }
}

/// Waits for the end exchanges, then reads what iperf3 says. A transfer whose end exchange does not get through is `None`: the goodput does
/// not rest on it.
fn finish(
    transfers: &mut [Transfer],
    interrupt: &Interrupt,
) -> Result<Vec<Option<TransferReport>>, ExperimentError> {
    let deadline = Instant::now() + END_EXCHANGE;
    let mut reports = Vec::new();
    for transfer in transfers {
        while !transfer.is_finished()? && Instant::now() < deadline {
            interrupt.sleep_until(Instant::now() + QUEUE_INTERVAL)?;
        }
        reports.push(match transfer.report() {
            Ok(report) => Some(report),
            Err(TrafficError::Report { source: ReportError::Json(_) | ReportError::Iperf(_), .. }) => None,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(reports)
}

fn evaluate(
    case: &Case,
    scenario: &Scenario,
    record: &Record,
    reports: &[Option<TransferReport>],
    options: &RunOptions,
) -> CaseReport {
    let measurement = record.measure(case.from, case.to);
    let by_iperf = |direction| iperf_bps(direction, case, scenario, reports);
    let mut truth = json!(measurement);
    truth["iperf3"] =
        json!({"download_bps": by_iperf(Direction::Down), "upload_bps": by_iperf(Direction::Up)});
    CaseReport {
        name: case.name.clone(),
        params: case.params.clone(),
        paper: case.paper,
        predicted: case.predicted,
        measured: measurement.figures,
        truth,
        agent: options
            .agent
            .as_ref()
            .map_or_else(Default::default, |_| record.agent_reading(case.from, case.to)),
    }
}

/// What the receivers' iperf3 says of a stretch. Its clock starts when it has connected, up to a second after the transfer's start.
fn iperf_bps(
    direction: Direction,
    case: &Case,
    scenario: &Scenario,
    reports: &[Option<TransferReport>],
) -> Option<f64> {
    let active: Vec<f64> = scenario
        .transfers
        .iter()
        .zip(reports)
        .filter(|(timed, _)| timed.spec.direction == direction && timed.at < case.to)
        .filter_map(|(timed, report)| {
            let since = |moment: Duration| moment.as_secs_f64() - timed.at.as_secs_f64();
            report.as_ref()?.receiver.mean_bps(since(case.from), since(case.to))
        })
        .collect();
    (!active.is_empty()).then(|| active.iter().sum())
}

fn start_captures(lab: &Lab, out: &Path) -> Result<[Capture; 2], ExperimentError> {
    std::fs::create_dir_all(out).map_err(|source| ExperimentError::Write { path: out.into(), source })?;
    let gateway = lab.gateway();
    let start = |device, file| Capture::start(&gateway, device, &out.join(file), SNAP_BYTES);
    Ok([start(WAN_DEVICE, "wan.pcap")?, start(LAN_DEVICE, "lan.pcap")?])
}

fn start_relay(lab: &Lab, address: std::net::SocketAddr) -> Result<Relay, ExperimentError> {
    Relay::start(address, lab.gateway(), Agent::ADDRESS)
        .map_err(|source| ExperimentError::Relay { address, source })
}

fn iperf_json(reports: &[Option<TransferReport>]) -> Value {
    let both =
        |report: &TransferReport| json!({"receiver": report.receiver.json, "sender": report.sender.json});
    reports.iter().map(|report| report.as_ref().map_or(Value::Null, both)).collect()
}

fn write(path: &Path, text: &str) -> Result<(), ExperimentError> {
    std::fs::write(path, text).map_err(|source| ExperimentError::Write { path: path.into(), source })
}
