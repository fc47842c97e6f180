//! The kernel side as the agent sees it: load, attach, read, detach. The only home of aya and of `unsafe`.
//!
//! Everything the kernel holds for us belongs to file descriptors of this process (programs, maps, TCX and XDP links): when
//! it dies, even by `kill -9`, the kernel takes all of it down. The one exception is a clsact filter on kernels
//! before 6.6, which [`remove_leftovers`] of the next start removes.

pub mod abi;
mod arrivals;
mod attach;
mod batch;
mod clsact;
mod cwnd;
mod flow_key;
mod foreign;
mod history;
mod loader;
mod ports;
mod probe;
mod programs;
mod queue;
mod shape;
mod socket_diag;
mod statistics;

pub use arrivals::{Answered, Arrival, Departures, Egress, Passage, PassageReader};
pub use attach::{AttachReport, Hook, Mechanism, remove_leftovers};
pub use cwnd::{Cwnd, CwndSource};
pub use flow_key::address_number;
pub use foreign::tcx_programs;
pub use history::{BUCKET, QueueInterval, RingReader};
pub(crate) use history::{monotonic, monotonic_ns};
pub use loader::KernelTypes;
pub use ports::PortCounts;
pub use probe::{CheckStatus, KernelCheck, OLDEST_KERNEL, probe};
pub use programs::{LinkPrograms, LoadOptions, ProgramStatus};
pub use queue::{QueuePrograms, Sojourns, flags_of, source_of};
pub use shape::ShapePrograms;
pub use socket_diag::read_sockets;
pub use statistics::{RunStatistics, enable_statistics};

use crate::exit::{Classified, Exit};

/// The compiled object, `bpf/packet/packet.bpf.c`.
pub static PACKET_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/packet.bpf.o"));

/// The compiled object, `bpf/queue/queue.bpf.c`.
pub static QUEUE_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/queue.bpf.o"));

/// The compiled object, `bpf/cwnd/cwnd_fentry.bpf.c`.
pub static CWND_FENTRY_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/cwnd_fentry.bpf.o"));

/// The compiled object, `bpf/cwnd/cwnd_probe.bpf.c`.
pub static CWND_PROBE_OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/cwnd_probe.bpf.o"));

/// The compiled object, `bpf/shape/shape.bpf.c`.
pub static SHAPE_OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/shape.bpf.o"));

/// Its program, on TC egress of the WAN device: both passes of the uplink.
const SHAPE_PROGRAM: &str = "pendulum_shape";

/// Why the kernel side could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The object as a whole was refused.
    #[error("the kernel refused the BPF object: {source}; `pendulum doctor` names the cause")]
    Load {
        /// What aya says.
        #[source]
        source: Box<aya::EbpfError>,
    },
    /// One program was refused, usually by the verifier.
    #[error("the kernel refused the BPF program {program}: {source}; `pendulum doctor` names the cause")]
    Program {
        /// Its name in the object.
        program: &'static str,
        /// What aya says, with the verifier's log.
        #[source]
        source: Box<aya::programs::ProgramError>,
    },
    /// A program could not be attached to a device.
    #[error("cannot attach {program} to {device}: {reason}; {remedy}")]
    Attach {
        /// Its name in the object.
        program: &'static str,
        /// The device's name.
        device: String,
        /// What the kernel says.
        reason: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// A map could not be read or written.
    #[error("cannot {action} the BPF map {map}: {source}")]
    Map {
        /// read, write or delete from.
        action: &'static str,
        /// Its name in the object.
        map: &'static str,
        /// What the kernel says.
        #[source]
        source: std::io::Error,
    },
    /// The object lacks a part that this agent needs: they are not of one build.
    #[error("the BPF object has no {what} {name}: agent and object are not of one build; build again")]
    Missing {
        /// program or map.
        what: &'static str,
        /// Its name.
        name: &'static str,
    },
    /// The kernel does not count runs of programs.
    #[error(
        "the kernel does not count runs of BPF programs for this agent ({reason}), so pendulum_bpf_program_run* are not \
         exported; if you want them, set kernel.bpf_stats_enabled = 1 before the agent starts"
    )]
    Statistics {
        /// What the kernel says.
        reason: String,
    },
    /// A traffic-control request over netlink failed.
    #[error("cannot {action} the clsact qdisc of {device}: {source}")]
    Clsact {
        /// add, list filters of, or remove.
        action: &'static str,
        /// The device's name.
        device: String,
        /// What the kernel says.
        #[source]
        source: std::io::Error,
    },
}

/// What an access to a map failed with.
fn map_error(action: &'static str, map: &'static str, error: aya::maps::MapError) -> BpfError {
    let source = match error {
        aya::maps::MapError::SyscallError(error) => error.io_error,
        other => std::io::Error::other(other),
    };
    BpfError::Map { action, map, source }
}

impl Classified for BpfError {
    /// What the kernel answered decides: a missing permission is another matter than a missing ability.
    fn exit(&self) -> Exit {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let answer = error.downcast_ref::<std::io::Error>().and_then(crate::net::message::code);
            if matches!(answer, Some(libc::EPERM | libc::EACCES)) {
                return Exit::NoPermission;
            }
            cause = error.source();
        }
        match self {
            Self::Missing { .. } => Exit::Software,
            _ => Exit::Unavailable,
        }
    }
}

/// Give back to the system what loading took for a moment: the kernel's types and the objects, some 40 MB, which glibc
/// would keep for allocations that never come.
pub fn release_load_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches the allocator's free memory only.
    unsafe {
        libc::malloc_trim(0);
    }
}
