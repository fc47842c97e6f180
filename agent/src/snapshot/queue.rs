//! A queue at one moment.

use std::sync::Arc;

use pendulum_model::observer::Trust;
use pendulum_model::rate::Rate;
use pendulum_model::sample::QueueSource;

use crate::bpf::{Sojourns, abi};

/// The root qdisc of a device: what stands in it, and what has become of packets in it. Or a buffer of another machine, the modem's or
/// the provider's: then only its level is known, by estimate.
#[derive(Clone, Debug, Default)]
pub struct QueueSnapshot {
    /// How its level is known.
    pub source: QueueSource,
    /// Its kind; empty if it is no qdisc of this machine.
    pub qdisc: Arc<str>,
    /// Bytes in it.
    pub bytes: u32,
    /// Packets in it.
    pub packets: u32,
    /// Of its bytes, pure ACKs; unknown by netlink.
    pub ack_bytes: Option<u32>,
    /// Of its packets, pure ACKs; unknown by netlink.
    pub ack_packets: Option<u32>,
    /// Most bytes since the reading before.
    pub peak_bytes: u32,
    /// Fewest bytes since the reading before.
    pub lowest_bytes: u32,
    /// The true level lies within this many bytes of [`Self::bytes`]; 0: that is exact; `None`: it is not known how exact it is.
    pub uncertainty_bytes: Option<f64>,
    /// Bytes that have stood in it for a whole round trip (`d_x` of 000 Eq. 1).
    pub standing_bytes: Option<f64>,
    /// Bytes it can hold, if it counts bytes.
    pub limit_bytes: Option<u64>,
    /// The rate it shapes to.
    pub rate: Option<Rate>,
    /// What an estimate rests on; `None` for a queue of this machine.
    pub trust: Option<Trust>,
    /// Packets dropped, by `enum pendulum_drop`.
    pub drops: [u64; abi::PENDULUM_DROPS as usize],
    /// `enum pendulum_queue_event`.
    pub events: [u64; abi::PENDULUM_QUEUE_EVENTS as usize],
    /// Buckets of the history ring that were overwritten before they were read.
    pub lost_buckets: u64,
    /// Time in it, data and pure ACKs.
    pub sojourns: Sojourns,
}
