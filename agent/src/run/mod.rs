//! `pendulum run`: one task per noun.
//!
//! * one [`link`] task for each link owns its programs, reads them, and publishes a snapshot;
//! * the [device watch](crate::net::DeviceWatch) tells them which devices there are;
//! * the [HTTP server](crate::http) shows the snapshots.
//!
//! Each link has a [`thread`] of its own, which never keeps another link or the HTTP server waiting. All else runs on the agent's first
//! thread, where nothing takes long; files are read again and connection tracking is asked by tokio's blocking threads, the event log
//! ([`crate::journal`]) and simulations ([`predictor`]) have threads of their own. At the end every task is asked to end at once; whoever is late is
//! dropped, and dropping a link's programs takes them off the device too.

mod advisor;
mod cleanup;
mod delays;
mod detection;
mod entered;
pub mod estimate;
mod home_hosts;
mod instance;
mod link;
mod links;
mod meter;
mod outflow;
pub mod own_queue;
mod predictor;
mod preflight;
mod programs;
mod queues;
mod reload;
mod report;
mod samples;
mod second;
mod service;
mod sweep;
mod thread;
mod unseen;
mod warnings;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pendulum_model::segment::Direction;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tracing::{info, warn};

use crate::bpf::{self, Mechanism};
use crate::config::{Active, Config, EventsConfig, HttpConfig, LinkConfig, Probe, ShapeMode};
use crate::exit::{Exit, Failure};
use crate::http::{self, Access, App, Listener, Secrets};
use crate::incident::Store;
use crate::journal::Journal;
use crate::net::{DeviceWatch, Devices};
use crate::privileges;
pub use cleanup::clean_up;
use instance::Instance;
use links::{Ended, Links, Prepared};
pub(crate) use preflight::missing_capabilities;
pub(crate) use reload::Reload;

/// Time for all tasks to end: more than a link's thread has, which takes everything down before it ends.
const SHUTDOWN_DEADLINE: Duration = thread::DEADLINE.saturating_add(Duration::from_secs(3));
/// Time for what a blocking thread is at, such as a file on a disk that hangs.
const BLOCKING_DEADLINE: Duration = Duration::from_secs(1);

/// Watches the configured links until a signal ends it. `wait`: start although no device is there yet. `reload`: how
/// SIGHUP brings a new configuration.
///
/// # Errors
/// What stands against starting, found before anything is changed; or a task that died.
pub(crate) fn run(config: Config, wait: bool, reload: &Reload) -> Result<(), Failure> {
    // Capabilities are a thread's own: before there is a second one.
    privileges::use_what_is_permitted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the event loop: {error}; raise `ulimit -n`"))
    })?;
    let ended = runtime.block_on(supervise(config, wait, reload));
    runtime.shutdown_timeout(BLOCKING_DEADLINE);
    ended
}

async fn supervise(config: Config, wait: bool, reload: &Reload) -> Result<(), Failure> {
    let mut signals = Signals::catch().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot catch signals: {error}; raise `ulimit -n`"))
    })?;
    preflight::kernel()?;
    preflight::capabilities()?;
    let (device_watch, devices) = DeviceWatch::start().await?;
    check_devices(&config, &devices.borrow(), wait)?;
    let claims = config.links.iter().map(|link| Instance::claim(&link.wan)).collect::<Result<Vec<_>, _>>()?;
    let listener = Listener::bind_or_retry(config.listen).await.secured(config.http.tls.as_ref())?;
    let access = Access::new(&config.http, listener.address.ip())?;
    let secrets = Secrets::of(&listener, &access);

    // From here on the kernel's state changes; every error takes back what was done, by dropping it.
    let known = devices.borrow().clone();
    cleanup::clean_up_others(&config.links, &known).await;
    // Asking needs CAP_SYS_ADMIN, which the unit withholds on purpose: nothing to warn of.
    let statistics = config.bpf_statistics.then(bpf::enable_statistics).transpose().unwrap_or_else(|error| {
        info!("{error}");
        None
    });
    let journal = Journal::keeping(config.events.log.as_deref(), incidents(&config.events));
    let configured = config.links.clone();
    let shape = ToShape::of(&config);
    let (configure, active) = Active::start(config);
    let mut links = Links::new(journal.clone(), active.clone(), devices.clone());
    let types = bpf::KernelTypes::keep();
    // The verifier may take longer than a service manager waits for the end. Dropping what was prepared takes it back.
    let prepared = tokio::select! {
        prepared = prepare(&links, &configured, claims) => prepared?,
        name = signals.stop() => {
            info!(signal = name, "stopping before anything was measured");
            return Ok(());
        }
    };
    drop(types);
    bpf::release_load_memory();
    let kept = privileges::drop_unneeded(
        active.borrow().config.privileges,
        privileges::StillToDo {
            attach: prepared.iter().any(|link| link.mechanisms.is_empty()),
            shape: shape == ToShape::Later,
            probe: active.borrow().config.shape.probe == Probe::FirstHop,
            take_down: shape != ToShape::Nothing
                || prepared.iter().flat_map(|link| &link.mechanisms).any(|one| *one == Mechanism::Clsact),
        },
    );

    let (stop, stopping) = watch::channel(false);
    let mut tasks = JoinSet::new();
    links.follow(prepared, Some(&kept), &mut tasks);
    tasks.spawn(ended(follow_devices(device_watch, stopping.clone())));
    let http = active.borrow().config.http.clone();
    let board = links.board.clone();
    tasks.spawn(ended(service::watchdog(board.clone(), stopping.clone())));
    let app = Arc::new(App::new(board, journal, active, statistics.is_some(), stopping.clone()));
    tasks.spawn(ended(http::remember(Arc::clone(&app), stopping.clone())));
    tasks.spawn(ended(serve(http, listener, app, access, stopping)));
    service::ready();

    let ended = loop {
        tokio::select! {
            signal = signals.next() => match signal {
                Asked::Reload => {
                    service::reloading(reload.carry_out(&configure, &secrets, &mut links, &mut tasks)).await;
                }
                Asked::Stop(name) => {
                    info!(signal = name, "stopping");
                    break Ok(());
                }
            },
            Some(ended) = tasks.join_next() => match ended {
                // A link that the configuration no longer has.
                Ok(Ended::AsAsked) => {}
                ended => break Err(died(ended)),
            },
        }
    };
    service::stopping();
    let _ = stop.send(true);
    links.stop();
    drain(tasks).await;
    ended
}

/// Where incidents are kept: in the state directory that the service manager gives.
fn incidents(config: &EventsConfig) -> Option<Store> {
    if !config.incidents {
        return None;
    }
    // systemd may name several, with colons between them.
    let state = std::env::var("STATE_DIRECTORY").unwrap_or_default();
    let state = state.split(':').next().filter(|path| Path::new(path).is_absolute());
    if state.is_none() {
        info!("incidents are not kept: there is no state directory; set STATE_DIRECTORY to one");
    }
    Some(Store::start(Path::new(state?).join("incidents"), config.incident_hosts))
}

/// A task of the agent itself, which ends with it.
async fn ended(task: impl Future<Output = ()>) -> Ended {
    task.await;
    Ended::Early
}

/// Attaches all links.
async fn prepare(
    links: &Links,
    configured: &[LinkConfig],
    claims: Vec<Instance>,
) -> Result<Vec<Prepared>, Failure> {
    let mut prepared = Vec::new();
    for (link, claim) in configured.iter().zip(claims) {
        prepared.push(links.prepare(link, claim).await?);
    }
    Ok(prepared)
}

/// Answers requests, from the moment at which the address can be bound.
async fn serve(
    http: HttpConfig,
    listener: Listener,
    app: Arc<App>,
    access: Access,
    mut stopping: watch::Receiver<bool>,
) {
    let listener = tokio::select! {
        listener = listener.bound() => listener,
        _ = stopping.wait_for(|stop| *stop) => return,
    };
    announce(&http, &listener, &access);
    http::serve(listener, http::router(app, access), stopping).await;
}

/// What the shaper still has to load after the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToShape {
    /// It is off.
    Nothing,
    /// The rate of every uplink is known: the filter is loaded at the start.
    AtOnce,
    /// The filter is loaded once a rate is known.
    Later,
}

impl ToShape {
    fn of(config: &Config) -> Self {
        if config.shape.mode == ShapeMode::Off {
            return Self::Nothing;
        }
        let is_known = |link: &LinkConfig| link.rate(Direction::Up).is_some();
        if config.links.iter().all(is_known) { Self::AtOnce } else { Self::Later }
    }
}

async fn follow_devices(devices: DeviceWatch, mut stopping: watch::Receiver<bool>) {
    tokio::select! {
        never = devices.follow() => match never {},
        _ = stopping.wait_for(|stop| *stop) => {}
    }
}

fn died(ended: Result<Ended, JoinError>) -> Failure {
    let reason = match ended {
        Ok(_) => "it returned".to_owned(),
        Err(error) => error.to_string(),
    };
    Failure::new(Exit::Software, format!("a task ended early: {reason}; this is a defect: please report it"))
}

async fn drain(mut tasks: JoinSet<Ended>) {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                warn!("while stopping: {error}");
            }
        }
    };
    if tokio::time::timeout(SHUTDOWN_DEADLINE, all).await.is_err() {
        warn!("a task did not stop in {} s and is cut off", SHUTDOWN_DEADLINE.as_secs());
    }
}

/// Refuses what cannot be measured. A device that is not there yet, or down, only matters if no other one is usable.
fn check_devices(config: &Config, devices: &Devices, wait: bool) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for link in &config.links {
        match devices.usable(&link.wan) {
            Ok(_) => {}
            Err(problem) if problem.can_pass() => problems.push(problem),
            Err(problem) => return Err(problem.into()),
        }
        for lan in link.lan.iter().filter(|lan| devices.by_name(lan).is_none()) {
            warn!(link = link.name, "LAN device `{lan}` does not exist");
        }
    }
    if !wait && problems.len() == config.links.len() && !problems.is_empty() {
        return Err(problems.swap_remove(0).into());
    }
    for problem in problems {
        warn!("{problem}; waiting for it");
    }
    Ok(())
}

fn announce(http: &HttpConfig, listener: &Listener, access: &Access) {
    for exposed in http.exposed_files() {
        warn!("{exposed}");
    }
    let address = listener.address;
    let scheme = listener.scheme();
    info!("listening on {scheme}://{address}/");
    if address.ip().is_loopback() {
        return;
    }
    if !access.has_token() {
        warn!(
            "{address} can be reached from other hosts, without a token: anyone there sees every connection of your \
             hosts in /api/v1/flows and on the page, and the link's load in /metrics; set http.token-file, or listen on \
             127.0.0.1"
        );
    }
    if scheme == "http" {
        warn!(
            "data sent from {address} is not encrypted{}; set http.tls-certificate and http.tls-key",
            if access.has_token() { ", and the token can be overheard" } else { "" }
        );
    }
}

/// What a signal asks for.
enum Asked {
    /// SIGHUP: read the configuration again.
    Reload,
    /// End; the signal's name.
    Stop(&'static str),
}

/// The signals that mean something.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The signal that asks for the end.
    async fn stop(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::Stop("SIGTERM"),
            _ = self.interrupt.recv() => Asked::Stop("SIGINT"),
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_loaded_later_while_the_rate_of_one_link_is_unknown() {
        let to_shape = |mode: &str, rates: [&str; 2]| {
            let link = |name: &str, rate: &str| format!("[[link]]\nwan = \"{name}\"\n{rate}\n");
            let text = format!("{}{}[shape]\nmode = \"{mode}\"\n", link("a", rates[0]), link("b", rates[1]));
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), text).unwrap();
            ToShape::of(&Config::load(file.path()).unwrap())
        };
        let known = "uplink-rate = \"10mbit\"";
        assert_eq!(to_shape("off", ["", ""]), ToShape::Nothing);
        assert_eq!(to_shape("enforce", [known, known]), ToShape::AtOnce);
        assert_eq!(to_shape("enforce", [known, ""]), ToShape::Later);
        assert_eq!(to_shape("dry-run", ["", ""]), ToShape::Later);
    }
}
