//! Why a demo has not come to its end.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::agent::AgentError;
use crate::cleanup::CleanupError;
use crate::interrupt::Interrupted;
use crate::lab::LabError;
use crate::prometheus::PrometheusError;
use crate::traffic::TrafficError;
use crate::truth::TruthError;

/// Why a demo has not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The user stopped it.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// There is no agent to show.
    #[error(
        "there is no agent at {}; build it with `cargo build --release -p pendulum`, or use `./dev demo`, which does",
        path.display()
    )]
    NoAgent {
        /// Where it should be.
        path: PathBuf,
    },
    /// The lab could not be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The agent failed.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent has ended in the middle.
    #[error("the agent ended by itself ({status}): {source}")]
    AgentEnded {
        /// How.
        status: std::process::ExitStatus,
        /// With its last words.
        source: AgentError,
    },
    /// Prometheus failed.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// The traffic failed.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A transfer has ended although it should still run.
    #[error("an iperf3 transfer ended {seconds} s after its start without saying why; try again")]
    EarlyEnd {
        /// Since the transfer's start.
        seconds: u64,
    },
    /// The kernel's figures could not be had.
    #[error(transparent)]
    Truth(#[from] TruthError),
    /// The agent's page could not be offered outside the lab.
    #[error("cannot listen on {address} for the agent's page: {source}; choose another with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The standard output is gone.
    #[error("cannot write to the standard output: {0}")]
    Output(#[from] io::Error),
    /// Something of the lab is left.
    #[error("some of the lab is left ({0}); the next start, or `pendulum-lab cleanup`, tries again")]
    Cleanup(#[from] CleanupError),
}
