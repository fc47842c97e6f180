//! What is known about a link at one moment: plain data between those who measure and those who show.
//!
//! A link's task publishes one [`LinkSnapshot`] for each sampling tick. Metrics, API and page read the newest one
//! and never the kernel.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use tokio::sync::watch;

use crate::bpf::abi;
use crate::bpf::{MapFill, ProgramStatus};

/// A link at one moment.
#[derive(Clone, Debug)]
pub struct LinkSnapshot {
    /// The link's name, the value of the label `link`.
    pub name: Arc<str>,
    /// The WAN device's name.
    pub wan: Arc<str>,
    /// The WAN device, as far as it is there.
    pub device: DeviceState,
    /// Where the programs hang; none while they do not.
    pub hooks: Option<Hooks>,
    /// Why the programs are not attached, although they should be.
    pub trouble: Option<Arc<str>>,
    /// Successful counter readings since the start.
    pub samples: u64,
    /// Both directions; index with [`Direction`].
    pub directions: [DirectionSnapshot; 2],
    /// Measurements lost by reason, then flow table life: `enum pendulum_stat`.
    pub stats: [u64; abi::PENDULUM_STATS as usize],
    /// The newest look at the flow table.
    pub flows: Arc<FlowSweep>,
    /// The BPF programs.
    pub programs: Arc<[ProgramStatus]>,
    /// The BPF maps.
    pub maps: Arc<[MapFill]>,
    /// How reading from the kernel goes; index with [`Reading`].
    pub readings: [ReadingHealth; Reading::ALL.len()],
}

impl LinkSnapshot {
    /// Whether packets are being measured: attached, and read at least once.
    pub fn is_ready(&self) -> bool {
        self.hooks.is_some() && self.samples > 0
    }

    /// One direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSnapshot {
        &self.directions[direction as usize]
    }
}

/// The WAN device, as far as it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// No device has the configured name.
    Missing,
    /// It is there, but not set up.
    Down,
    /// It is there and set up.
    Up,
}

impl DeviceState {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Down => "down",
            Self::Up => "up",
        }
    }
}

/// Where the programs of a link hang.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hooks {
    /// The device's ifindex.
    pub ifindex: u32,
    /// `ethernet` or `raw-ip`.
    pub link_layer: &'static str,
    /// `tcx` or `clsact`.
    pub egress: &'static str,
    /// `tcx`, `clsact`, `xdp-native` or `xdp-generic`.
    pub ingress: &'static str,
}

/// One direction of a link.
#[derive(Clone, Debug, Default)]
pub struct DirectionSnapshot {
    /// Everything counted since the agent started, over re-attachments.
    pub counters: abi::pendulum_counters,
    /// Link-layer bytes per second, moving over 300 ms.
    pub throughput: f64,
    /// RTT samples of what went in this direction, over the last ten seconds.
    pub rtt: RecentRtt,
    /// The link's capacity, if known.
    pub rate: Option<LinkRate>,
}

/// A distribution of RTT samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentRtt {
    /// Sum of all samples, microseconds.
    pub sum_us: u64,
    /// Samples in each slot of the histogram, bounds in [`abi::RTT_BOUNDS_US`].
    pub slots: [u64; abi::PENDULUM_RTT_SLOTS as usize],
}

impl DirectionSnapshot {
    /// Throughput over capacity, if the capacity is known.
    pub fn utilization(&self) -> Option<f64> {
        self.rate.map(|known| self.throughput / known.rate.bytes_per_second())
    }
}

/// A link's capacity and how it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRate {
    /// The capacity.
    pub rate: Rate,
    /// How it is known.
    pub source: RateSource,
}

/// How a link's capacity is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The user said so.
    Config,
}

impl RateSource {
    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "config",
        }
    }
}

/// What is read from the kernel, each with its own rhythm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Counters and losses, ten times a second.
    Counters = 0,
    /// The flow table, once a second.
    Flows = 1,
    /// Programs and maps, once a second.
    Programs = 2,
}

impl Reading {
    /// All of them, in index order.
    pub const ALL: [Self; 3] = [Self::Counters, Self::Flows, Self::Programs];

    /// The name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counters => "counters",
            Self::Flows => "flows",
            Self::Programs => "programs",
        }
    }
}

/// How one kind of reading goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadingHealth {
    /// Failures since the start.
    pub failures: u64,
    /// Whether the newest attempt succeeded.
    pub ok: bool,
    /// How long the newest attempt took.
    pub took: Duration,
}

/// One look at the flow table.
#[derive(Clone, Debug)]
pub struct FlowSweep {
    /// When it was taken.
    pub at: Instant,
    /// Every flow, ordered by key.
    pub rows: Vec<FlowRow>,
    /// Totals of each direction.
    pub totals: [FlowTotals; 2],
    /// Flows that the kernel pushed out of a full table since the start.
    pub evicted: u64,
    /// Flows that the agent removed, because they had ended or were idle, since the start.
    pub expired: u64,
}

impl FlowSweep {
    /// A look at nothing.
    pub fn empty(at: Instant) -> Self {
        Self { at, rows: Vec::new(), totals: Default::default(), evicted: 0, expired: 0 }
    }
}

/// Sums over the flows of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowTotals {
    /// Outstanding data of all live flows, bytes.
    pub in_flight_bytes: u64,
    /// Flows that carried payload in this direction within the last seconds.
    pub active: u32,
    /// Payload acknowledged by the receivers, bytes per second over the last sweep interval.
    pub goodput: f64,
}

/// A flow's identity, orderable. Addresses and ports in network byte order, as the kernel side keeps them.
#[derive(Clone, Copy, Debug)]
pub struct FlowKey(pub abi::pendulum_flow_key);

impl FlowKey {
    fn parts(&self) -> (&[u32; 4], &[u32; 4], u16, u16) {
        (&self.0.home_addr, &self.0.remote_addr, self.0.home_port, self.0.remote_port)
    }

    /// The end behind the gateway.
    pub fn home(&self) -> SocketAddr {
        socket_address(&self.0.home_addr, self.0.home_port)
    }

    /// The other end.
    pub fn remote(&self) -> SocketAddr {
        socket_address(&self.0.remote_addr, self.0.remote_port)
    }
}

fn socket_address(words: &[u32; 4], port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    for (chunk, word) in octets.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), u16::from_be(port))
}

impl PartialEq for FlowKey {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for FlowKey {}

impl Ord for FlowKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for FlowKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One flow at a sweep.
#[derive(Clone, Debug)]
pub struct FlowRow {
    /// Who talks to whom.
    pub key: FlowKey,
    /// What each end has sent; index with [`Direction`].
    pub halves: [HalfRow; 2],
    /// When a segment of either end was last noticed, to the sweep.
    pub changed_at: Instant,
    /// Whether the connection has ended.
    pub is_closed: bool,
}

/// What one end of a flow has sent, and what that tells.
#[derive(Clone, Debug, Default)]
pub struct HalfRow {
    /// Link-layer bytes.
    pub wire_bytes: u64,
    /// Payload bytes, retransmissions included.
    pub payload_bytes: u64,
    /// Segments of any class.
    pub segments: u64,
    /// Segments with payload.
    pub data_segments: u64,
    /// Payload bytes of this end that the other one acknowledged.
    pub delivered_bytes: u64,
    /// Segments of the other end that acknowledged something new.
    pub acknowledgements: u64,
    /// Monotonic time of the first segment, nanoseconds; 0 if there was none.
    pub first_seen_ns: u64,
    /// Monotonic time of the newest segment, nanoseconds.
    pub last_seen_ns: u64,
    /// Sum of the RTT samples, microseconds.
    pub rtt_sum_us: u64,
    /// RTT samples: from the gateway to the other end and back.
    pub rtt_samples: u32,
    /// Smallest RTT sample, microseconds.
    pub rtt_min_us: u32,
    /// Newest RTT sample, microseconds.
    pub rtt_last_us: u32,
    /// Segments sent again.
    pub retransmitted_segments: u32,
    /// Segments that arrived out of order.
    pub reordered_segments: u32,
    /// Sent and not yet acknowledged, bytes.
    pub in_flight_bytes: u32,
    /// The most that was ever outstanding, bytes.
    pub in_flight_max_bytes: u32,
    /// Whether its SYN was seen.
    pub opened: bool,
    /// Link-layer bytes per second over the last sweep interval.
    pub wire_rate: f32,
    /// Delivered bytes per second over the last sweep interval.
    pub goodput: f32,
    /// When payload was last noticed, to the sweep.
    pub data_at: Option<Instant>,
}

impl HalfRow {
    /// Mean RTT, seconds.
    pub fn rtt_mean_s(&self) -> Option<f64> {
        (self.rtt_samples > 0).then(|| self.rtt_sum_us as f64 / f64::from(self.rtt_samples) / 1e6)
    }

    /// Data segments for each ACK that acknowledged something new: `d` of paper 002.
    pub fn segments_per_ack(&self) -> Option<f64> {
        if self.acknowledgements == 0 || self.data_segments == 0 || self.payload_bytes == 0 {
            return None;
        }
        let segment_bytes = self.payload_bytes as f64 / self.data_segments as f64;
        Some(self.delivered_bytes as f64 / self.acknowledgements as f64 / segment_bytes)
    }
}

/// The newest snapshot of every link: what a reader needs.
#[derive(Clone, Debug)]
pub struct Board {
    links: Vec<watch::Receiver<Arc<LinkSnapshot>>>,
}

impl Board {
    /// A board over the links' channels.
    pub fn new(links: Vec<watch::Receiver<Arc<LinkSnapshot>>>) -> Self {
        Self { links }
    }

    /// The newest snapshot of every link.
    pub fn snapshots(&self) -> Vec<Arc<LinkSnapshot>> {
        self.links.iter().map(|link| Arc::clone(&link.borrow())).collect()
    }
}
