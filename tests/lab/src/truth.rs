//! What the kernel itself says about the lab's traffic, to hold other measurements against: queues (`tc`), sockets (`ss`),
//! devices (`ip`) and captures (`tcpdump`).

mod bursts;
mod capture;
mod counter;
mod link;
mod poll;
mod queue;
mod socket;

pub use bursts::{AckBursts, ack_bursts};
pub use capture::{Capture, CaptureCounts};
pub use counter::counter;
pub use link::LinkCounters;
pub use poll::{QueueMoment, QueuePoller, QueueWatch};
pub use queue::{QueueReading, QueueSummary};
pub use socket::{SocketReading, read_sockets};

use crate::netns::NetnsError;
use crate::process::ProcessError;

/// Why the kernel's figures could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TruthError {
    /// The tool failed.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The capturing process could not be handled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The tool's JSON is not as expected.
    #[error("cannot read what `{tool}` says of {device}: {reason}; is iproute2 older than 5.0?")]
    Format {
        /// The tool.
        tool: &'static str,
        /// The device asked about.
        device: String,
        /// What is wrong.
        reason: String,
    },
    /// A capture cannot be read.
    #[error("cannot read the capture {}: {reason}", file.display())]
    File {
        /// The file.
        file: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// tcpdump did not start capturing.
    #[error("tcpdump does not capture on {device}: {message}")]
    Capture {
        /// The device.
        device: String,
        /// What tcpdump wrote.
        message: String,
    },
}
