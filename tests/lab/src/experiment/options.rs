//! How to run an experiment, and what can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::agent::AgentError;
use crate::capacity::TraceError;
use crate::chart::ChartError;
use crate::interrupt::{Interrupt, Interrupted};
use crate::lab::LabError;
use crate::netns::NetnsError;
use crate::process::ProcessError;
use crate::traffic::TrafficError;
use crate::truth::TruthError;

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The user stopped it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// The lab could not be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A machine of the lab refused.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// A program could not be handled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The traffic failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The kernel's figures could not be had.
    #[error(transparent)]
    Truth(#[from] TruthError),
    /// The agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A plot could not be drawn.
    #[error(transparent)]
    Chart(#[from] ChartError),
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
    /// `--only` names something that the experiment does not have.
    #[error("--only: there is no `{name}`; there are: {known}")]
    UnknownPart {
        /// As given.
        name: String,
        /// What there is.
        known: String,
    },
    /// A sender used another congestion control than the one asked for.
    #[error(
        "the sender used congestion control `{used}`, not `{wanted}`; load tcp_{wanted}, or leave it out with --only"
    )]
    CongestionControl {
        /// What was asked for.
        wanted: String,
        /// What ss shows.
        used: String,
    },
    /// No bulk data was seen.
    #[error("{case}: the transfer sent nothing; is iperf3 working?")]
    NoTraffic {
        /// The case.
        case: String,
    },
    /// The reference's probes, or a ping, cannot be sent.
    #[error("cannot probe the link: {source}")]
    Probe {
        /// What the system said.
        source: io::Error,
    },
    /// A trace cannot be had.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A directory has no traces.
    #[error("{} has no pair of traces NAME.up and NAME.down (also .zst)", path.display())]
    NoTraces {
        /// The directory.
        path: PathBuf,
    },
    /// A trace of one direction has no companion.
    #[error("{} has no trace {missing} (or {missing}.zst): both directions are needed", path.display())]
    NoPair {
        /// The directory.
        path: PathBuf,
        /// The name it would have.
        missing: String,
    },
    /// A directory cannot be listed.
    #[error("cannot read {}: {source}", path.display())]
    List {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error("cannot watch the queues: {0}")]
    Watch(io::Error),
}

/// How to run an experiment. What an experiment has no use for is ignored.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Traffic time of one repetition; the experiment's usual one if not given.
    pub total: Option<Duration>,
    /// The short form: fewer points, and the short time unless another is given.
    pub quick: bool,
    /// Names of what to run, where not everything: scenarios, which take no more time than their share; links, congestion controls, cases.
    pub only: Vec<String>,
    /// Congestion controls; everything is repeated for each. None: those that the experiment is meant for.
    pub congestion_controls: Vec<String>,
    /// The first repetition's seed. It shifts the starts of the transfers by up to 200 ms; 0 does not.
    pub seed: u64,
    /// Repetitions, each with the next seed; one if 0.
    pub repeat: u32,
    /// Of `where`: how many cases.
    pub cases: Option<u32>,
    /// Of `autorate`: a directory of traces.
    pub traces: Option<PathBuf>,
    /// Runs at the same time, each on a lab of its own; the experiment's own number if not given. They share the processors: with too
    /// many, timing suffers.
    pub jobs: Option<u32>,
    /// Where to write everything observed, and the plots.
    pub out: Option<PathBuf>,
    /// The agent to run beside it.
    pub agent: Option<PathBuf>,
    /// Where to offer the agent's page outside the lab.
    pub agent_listen: Option<std::net::SocketAddr>,
    /// Stops the run.
    pub interrupt: Interrupt,
}

/// What an experiment makes its scenarios from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Traffic time of all scenarios together, about.
    pub total: Duration,
    /// Fewer points.
    pub quick: bool,
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
