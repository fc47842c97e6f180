//! Why a link is not shaped.

use std::io;

use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use thiserror::Error;

use crate::bpf::BpfError;

/// Why a link is not shaped.
#[derive(Debug, Error)]
pub enum ShapeError {
    /// The rate is not known.
    #[error(
        "the link's uplink rate is unknown: the WAN device's qdisc does not shape, and no queue there or behind it lasted long \
         enough to show it; give uplink-rate for this link"
    )]
    NoUplinkRate,
    /// The rate is not known.
    #[error("the link's downlink rate is unknown; give downlink-rate for this link")]
    NoDownlinkRate,
    /// A full frame takes too long.
    #[error(
        "a link of {link} is too slow to be shaped: less than 64kbit would be left, where a full frame takes 0.2 s; \
         correct the rate (bps counts bytes, and a number without unit bits per second)"
    )]
    TooSlow {
        /// The link's rate.
        link: Rate,
    },
    /// The device can never send so fast.
    #[error(
        "the {} is to be shaped to {rate}, but {device} is a port of {speed}: packets would never wait in the shaper; \
         correct the rate (bps counts bytes)",
        direction.pick("uplink", "downlink")
    )]
    TooFast {
        /// Of the link.
        direction: Direction,
        /// What was asked for.
        rate: Rate,
        /// The device.
        device: String,
        /// What it was negotiated to.
        speed: Rate,
    },
    /// The kernel has no sch_cake.
    #[error(
        "this kernel has no sch_cake; load or install it: every linux-image package of Debian but the cloud kernel's has \
         it, OpenWrt has kmod-sched-cake"
    )]
    NoCake,
    /// Something else shapes or redirects.
    #[error("{reason}; {remedy}")]
    InTheWay {
        /// What.
        reason: String,
        /// What the user can do.
        remedy: String,
    },
    /// Nothing to attach a redirection to.
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
        "cannot {step} {device}: {source}; the kernel needs ifb, sch_cake, cls_u32 and act_mirred, and this process \
         CAP_NET_ADMIN"
    )]
    Kernel {
        /// What was tried.
        step: String,
        /// The device.
        device: String,
        /// What the kernel says.
        #[source]
        source: io::Error,
    },
    /// The kernel has refused the program, and is asked again later.
    #[error("{0}")]
    NotLoaded(String),
    /// A program or a map.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

impl ShapeError {
    pub(super) fn kernel(step: &str, device: &str, source: io::Error) -> Self {
        Self::Kernel { step: step.to_owned(), device: device.to_owned(), source }
    }
}
