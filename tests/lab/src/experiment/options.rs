//! How to run an experiment, and what can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::agent::AgentError;
use crate::chart::ChartError;
use crate::interrupt::{Interrupt, Interrupted};
use crate::lab::LabError;
use crate::netns::NetnsError;
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
    /// The lab could not be prepared.
    #[error("cannot prepare the lab: {0}")]
    Prepare(#[from] NetnsError),
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
    /// The experiment has no scenario of the wanted name.
    #[error("there is no scenario `{wanted}`; there are: {known}")]
    UnknownScenario {
        /// The name.
        wanted: String,
        /// All names.
        known: String,
    },
    /// A thread could not be started.
    #[error("cannot watch the queues: {0}")]
    Watch(io::Error),
}

/// How to run an experiment.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Traffic time of one repetition; the experiment's usual one if not given.
    pub total: Option<Duration>,
    /// The short form: fewer points, and the short time unless another is given.
    pub quick: bool,
    /// Of the experiment's scenarios the one of this name only; it takes no more time than its share.
    pub only: Option<String>,
    /// Congestion controls; everything is repeated for each. None: those that the experiment is meant for.
    pub congestion_controls: Vec<String>,
    /// The first repetition's seed. It shifts the starts of the transfers by up to 200 ms; 0 does not.
    pub seed: u64,
    /// Repetitions, each with the next seed.
    pub repeat: u32,
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

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            total: None,
            quick: false,
            only: None,
            congestion_controls: Vec::new(),
            seed: 0,
            repeat: 1,
            jobs: None,
            out: None,
            agent: None,
            agent_listen: None,
            interrupt: Interrupt::default(),
        }
    }
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
