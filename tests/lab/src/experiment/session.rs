//! One scenario on a lab of its own: builds it, drives the traffic, observes.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use pendulum_model::segment::{Direction, PerDirection};

use super::options::{ExperimentError, RunOptions};
use super::phases::QueueSample;
use super::record::{Record, TransferSockets};
use super::report::CaseReport;
use super::results::ScenarioRun;
use super::scenario::{Scenario, TimedUdp};
use super::{evaluate, output};
use crate::agent::{Agent, Rates};
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LabError};
use crate::relay::Relay;
use crate::topology::{LAN_DEVICE, Role, WAN_DEVICE};
use crate::traffic::{Prepared, ReportError, TrafficError, Transfer, TransferReport, UdpFlow, UdpReport};
use crate::truth::{AckBursts, Capture, QueuePoller, QueueWatch, SocketReading, ack_bursts, read_sockets};

/// How often queues are read.
const QUEUE_INTERVAL: Duration = Duration::from_millis(20);
/// How often the main loop looks for what is due.
const TICK: Duration = Duration::from_millis(100);
/// Every how many ticks the sockets are read unless a scenario wants otherwise, and the agent.
const SOCKETS_EVERY: u32 = 5;
const AGENT_EVERY: u32 = 5;
/// How long iperf3 may take for its end exchange over full buffers.
const END_EXCHANGE: Duration = Duration::from_secs(10);
/// Bytes of each packet that captures keep: all headers with all options.
const SNAP_BYTES: u32 = 160;

/// Runs one scenario and evaluates its cases.
///
/// # Errors
/// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing is left behind.
pub fn run_scenario(
    scenario: &Scenario,
    options: &RunOptions,
    step: &dyn Fn(Duration, &str),
) -> Result<Vec<CaseReport>, ExperimentError> {
    let run = observe(scenario, "reno", options.seed, options, step)?;
    Ok(evaluate::cases(&run))
}

/// Runs one scenario on a lab of its own.
///
/// # Errors
/// As [`run_scenario`].
pub(super) fn observe(
    scenario: &Scenario,
    congestion_control: &str,
    seed: u64,
    options: &RunOptions,
    step: &dyn Fn(Duration, &str),
) -> Result<ScenarioRun, ExperimentError> {
    let scenario = scenario.varied(congestion_control, seed);
    scenario.check().map_err(ExperimentError::Scenario)?;
    step(Duration::ZERO, "building the lab");
    let lab = Lab::start(scenario.link)?;
    scenario.prepare.apply(&lab)?;
    let out = options
        .out
        .as_ref()
        .map(|out| out.join(output::directory(&scenario, congestion_control, seed, options)));
    let captures = captures(&lab, &scenario, out.as_deref())?;
    let agent = options.agent.as_deref();
    let rates = if scenario.rates_untold { Rates::Untold } else { Rates::Told };
    let mut agent = agent
        .map(|program| Agent::start_with(&lab, program, rates, &scenario.agent_arguments))
        .transpose()?;
    let relay = options.agent_listen.map(|address| start_relay(&lab, address)).transpose()?;
    let mut observer = Observer {
        lab: &lab,
        agent: agent.as_mut(),
        sockets_every: sockets_every(&scenario),
        record: Record::default(),
    };
    let (mut transfers, datagrams) = drive(&scenario, &mut observer, options, step)?;
    let record = observer.record;
    step(scenario.length, "waiting for the ends of the transfers");
    let reports = finish(&mut transfers, &options.interrupt)?;
    let ack_bursts = match captures {
        Some(captures) => captures.stop(&scenario, record.began)?,
        None => Vec::new(),
    };
    drop(relay);
    let with_agent = agent.is_some();
    if let Some(agent) = agent {
        agent.stop()?;
    }
    let run = ScenarioRun {
        scenario,
        congestion_control: congestion_control.to_owned(),
        seed,
        record,
        reports,
        datagrams,
        ack_bursts,
        with_agent,
    };
    if let Some(out) = out {
        output::write_run(&run, &out)?;
    }
    Ok(run)
}

fn poller(lab: &Lab, direction: Direction) -> Result<QueuePoller, ExperimentError> {
    let (host, device) = lab.queue(direction);
    Ok(QueuePoller::open(&host, device)?)
}

fn pollers(lab: &Lab) -> Result<PerDirection<QueuePoller>, ExperimentError> {
    Ok(PerDirection { up: poller(lab, Direction::Up)?, down: poller(lab, Direction::Down)? })
}

/// The main loop: starts what is due and observes, ten times a second.
fn drive(
    scenario: &Scenario,
    observer: &mut Observer<'_>,
    options: &RunOptions,
    step: &dyn Fn(Duration, &str),
) -> Result<(Vec<Transfer>, Vec<UdpReport>), ExperimentError> {
    let mut waiting = Vec::new();
    for timed in &scenario.transfers {
        waiting.push((timed.at, Some(Prepared::new(observer.lab, timed.spec.clone())?)));
    }
    let mut running: Vec<(usize, Duration, Transfer)> = Vec::new();
    let mut datagrams: Vec<(&TimedUdp, Option<UdpFlow>)> =
        scenario.datagrams.iter().map(|timed| (timed, None)).collect();
    let pollers = pollers(observer.lab)?;
    let start = Instant::now();
    let watch = QueueWatch::start(pollers, start, QUEUE_INTERVAL).map_err(ExperimentError::Watch)?;
    observer.record.began = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    for tick in 0.. {
        let now = start.elapsed();
        for (index, (at, prepared)) in waiting.iter_mut().enumerate().filter(|(_, (at, _))| *at <= now) {
            if let Some(prepared) = prepared.take() {
                running.push((index, *at, prepared.start()?));
            }
        }
        for (timed, flow) in datagrams.iter_mut().filter(|(timed, _)| timed.at <= now) {
            if flow.is_none() {
                *flow = Some(UdpFlow::start(observer.lab, timed.spec.clone())?);
            }
        }
        observer.observe(tick, start, &running)?;
        observer.lab.check().map_err(LabError::from)?;
        for (_, at, transfer) in &mut running {
            let spec = transfer.spec();
            let due = *at + spec.duration;
            if spec.bytes.is_none() && start.elapsed() < due && transfer.client_has_ended()? {
                transfer.report()?;
            }
        }
        if now >= scenario.length {
            break;
        }
        step(now, what_runs(scenario, now));
        options.interrupt.sleep_until(start + TICK * (tick + 1))?;
    }
    let queues = watch.finish().into_iter();
    observer.record.queues = queues.map(|(at, queue)| QueueSample { at, queue }).collect();
    running.sort_by_key(|(index, _, _)| *index);
    let reports = datagrams.iter().filter_map(|(_, flow)| Some(flow.as_ref()?.report()));
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    Ok((running.into_iter().map(|(_, _, transfer)| transfer).collect(), reports))
}

fn what_runs(scenario: &Scenario, now: Duration) -> &str {
    let case = scenario.cases.iter().find(|case| now < case.to);
    case.map_or("", |case| case.name.as_str())
}

fn sockets_every(scenario: &Scenario) -> u32 {
    match scenario.sockets_every.as_millis() / TICK.as_millis() {
        0 => SOCKETS_EVERY,
        ticks => ticks.try_into().unwrap_or(SOCKETS_EVERY),
    }
}

/// Takes all readings of one lab but the queues'.
struct Observer<'a> {
    lab: &'a Lab,
    agent: Option<&'a mut Agent>,
    /// In ticks.
    sockets_every: u32,
    record: Record,
}

impl Observer<'_> {
    fn observe(
        &mut self,
        tick: u32,
        start: Instant,
        running: &[(usize, Duration, Transfer)],
    ) -> Result<(), ExperimentError> {
        if tick.is_multiple_of(self.sockets_every) {
            let read = |role| Ok::<_, ExperimentError>((role, read_sockets(&self.lab.host(role))?));
            let receivers = [read(Role::D2)?, read(Role::U1)?];
            // The goodput rests on the senders: their moment counts.
            let at = start.elapsed();
            let senders = [read(Role::D1)?, read(Role::U2)?];
            let sockets = [receivers, senders];
            let of = |role: Role, port: u16| -> Vec<SocketReading> {
                let readings =
                    sockets.iter().flatten().filter(|(owner, _)| *owner == role).flat_map(|(_, all)| all);
                readings.filter(|socket| socket.has_port(port)).cloned().collect()
            };
            let transfers: Vec<TransferSockets> = running
                .iter()
                .map(|(index, _, transfer)| TransferSockets {
                    transfer: *index,
                    direction: transfer.spec().direction,
                    sender: of(transfer.spec().sender(), transfer.port()),
                    receiver: of(transfer.spec().receiver(), transfer.port()),
                })
                .collect();
            self.record.note_transfers(at, &transfers);
        }
        if let Some(agent) = self.agent.as_mut().filter(|_| tick.is_multiple_of(AGENT_EVERY)) {
            match agent.json("/api/v1/state") {
                Ok(state) => self.record.agent.note(start.elapsed(), &state),
                // On a busy machine an answer may come too late: one sample less.
                Err(error) if agent.ended()?.is_some() => return Err(error.into()),
                Err(_) => {}
            }
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
            interrupt.sleep_until(Instant::now() + TICK)?;
        }
        reports.push(match transfer.report() {
            Ok(report) => Some(report),
            Err(TrafficError::Report { source: ReportError::Json(_) | ReportError::Iperf(_), .. }) => None,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(reports)
}

/// Captures of both sides of the gateway.
struct Captures {
    wan: Capture,
    lan: Option<Capture>,
}

/// Both sides are captured into `out`; without it the WAN side alone, for the ACK bursts, where it goes with the lab.
fn captures(lab: &Lab, scenario: &Scenario, out: Option<&Path>) -> Result<Option<Captures>, ExperimentError> {
    let gateway = lab.gateway();
    if let Some(out) = out {
        std::fs::create_dir_all(out).map_err(|source| ExperimentError::Write { path: out.into(), source })?;
        let wan = Capture::start(&gateway, WAN_DEVICE, &out.join("wan.pcap"), SNAP_BYTES)?;
        let lan = Capture::start(&gateway, LAN_DEVICE, &out.join("lan.pcap"), SNAP_BYTES)?;
        return Ok(Some(Captures { wan, lan: Some(lan) }));
    }
    if !scenario.ack_bursts {
        return Ok(None);
    }
    let wan = Capture::start(&gateway, WAN_DEVICE, &lab.directory().join("wan.pcap"), SNAP_BYTES)?;
    Ok(Some(Captures { wan, lan: None }))
}

impl Captures {
    /// Ends them and counts the ACK bursts of each case, if they are wanted.
    fn stop(
        self,
        scenario: &Scenario,
        began: Duration,
    ) -> Result<Vec<PerDirection<AckBursts>>, ExperimentError> {
        let file = self.wan.file().to_owned();
        self.wan.stop()?;
        if let Some(lan) = self.lan {
            lan.stop()?;
        }
        if !scenario.ack_bursts {
            return Ok(Vec::new());
        }
        let home = [Role::D2, Role::U2].map(|role| role.address(crate::topology::IpVersion::V4));
        let is_home = |address| home.contains(&Some(address));
        let count = |case: &super::Case| ack_bursts(&file, began + case.from, began + case.to, is_home);
        Ok(scenario.cases.iter().map(count).collect::<Result<_, _>>()?)
    }
}

fn start_relay(lab: &Lab, address: std::net::SocketAddr) -> Result<Relay, ExperimentError> {
    Relay::start(address, lab.gateway(), Agent::ADDRESS)
        .map_err(|source| ExperimentError::Relay { address, source })
}

impl ScenarioRun {
    /// The transfers of one direction, by their places in the scenario's list.
    pub fn transfers(&self, direction: Direction) -> impl Iterator<Item = usize> {
        let all = self.scenario.transfers.iter().enumerate();
        all.filter(move |(_, timed)| timed.spec.direction == direction).map(|(index, _)| index)
    }
}
