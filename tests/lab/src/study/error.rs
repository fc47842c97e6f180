//! What can go wrong in a study.

use std::io;
use std::path::PathBuf;

use crate::agent::AgentError;
use crate::capacity::TraceError;
use crate::chart::ChartError;
use crate::interrupt::Interrupted;
use crate::lab::LabError;
use crate::netns::NetnsError;
use crate::process::ProcessError;
use crate::traffic::TrafficError;
use crate::truth::TruthError;

/// Why a study has no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
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
    /// `--only` names something that the study does not have.
    #[error("--only: `{name}` is neither of {known}")]
    UnknownPart {
        /// As given.
        name: String,
        /// What there is.
        known: String,
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
}
