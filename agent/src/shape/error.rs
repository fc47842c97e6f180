//! Why a link is not shaped.

use std::io;

use thiserror::Error;

use crate::bpf::BpfError;

/// Why no rate is learnt.
pub(super) const UNLEARNT: &str = "the WAN device's qdisc does not shape, and its queue has not stood for long enough (a second, and 32 full frames)";

/// Why a link is not shaped.
#[derive(Debug, Error)]
pub enum ShapeError {
    /// The rate is not known.
    #[error("the link's uplink rate is not known yet: {0}; give uplink-rate for this link")]
    NoUplinkRate(&'static str),
    /// The rate is not known.
    #[error("the link's downlink rate is not known; give downlink-rate for this link")]
    NoDownlinkRate,
    /// Something else shapes or redirects.
    #[error("{reason}; {remedy}")]
    InTheWay {
        /// What.
        reason: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// Nothing to hang a redirection on.
    #[error("cannot add a clsact qdisc to {device}: {source}")]
    Clsact {
        /// The device.
        device: String,
        /// What the kernel says, or what speaks against it.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses a step.
    #[error(
        "cannot {step} {device}: {source}; the kernel needs ifb, sch_htb, sch_tbf, cls_u32 and act_mirred, and this \
         process CAP_NET_ADMIN"
    )]
    Kernel {
        /// What was tried.
        step: &'static str,
        /// The device.
        device: String,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The kernel refuses the programs.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

impl ShapeError {
    /// Whether another attempt may succeed with nothing changed by the user.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::NoUplinkRate(_) => true,
            Self::Clsact { source, .. } => source.kind() == io::ErrorKind::ResourceBusy,
            Self::NoDownlinkRate | Self::InTheWay { .. } | Self::Kernel { .. } | Self::Bpf(_) => false,
        }
    }
}
