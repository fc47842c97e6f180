//! What is known about a link at one moment: plain data between those who measure and those who show.
//!
//! A link's task publishes one [`LinkSnapshot`] for each sampling tick. Metrics, API and page read the newest one
//! and never the kernel.

#[cfg(test)]
pub(crate) mod example;
mod findings;
mod flows;
mod queue;
mod shape;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::link::Provenance;
use pendulum_model::named;
use pendulum_model::observer::Vantage;
use pendulum_model::rate::Rate;
use pendulum_model::sample::Composition;
use pendulum_model::segment::PerDirection;
use pendulum_wire::{BpfMap, Delay, Hooks, Tick, TopPort};
use tokio::sync::watch;

use crate::bpf::ProgramStatus;
use crate::bpf::abi;

pub use findings::{Findings, Unsent};
pub use flows::{FlowRow, FlowSweep, FlowTotals, HalfRow, SILENT};
pub use queue::QueueSnapshot;
pub use shape::{FATES, ShapeSnapshot, ShapeState};

/// A link that was not read for this long hangs. Readings are due ten times a second.
pub const HANGS: Duration = Duration::from_secs(10);

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
    /// When the counters were read last; `None` before the first time since the programs were attached.
    pub read_at: Option<Instant>,
    /// Both directions.
    pub directions: PerDirection<DirectionSnapshot>,
    /// Measurements lost by reason, then flow table life: `enum pendulum_stat`.
    pub stats: [u64; abi::PENDULUM_STATS as usize],
    /// The newest look at the flow table.
    pub flows: Arc<FlowSweep>,
    /// The BPF programs.
    pub programs: Arc<[ProgramStatus]>,
    /// The BPF maps.
    pub maps: Arc<[BpfMap]>,
    /// Where the windows of local sockets come from.
    pub cwnd_source: &'static str,
    /// The shaper.
    pub shape: ShapeSnapshot,
    /// How reading from the kernel goes; index with [`ReadingKind`].
    pub readings: [ReadingHealth; ReadingKind::ALL.len()],
    /// Where the uplink's buffer stands; `None` while the link is not measured.
    pub vantage: Option<Vantage>,
    /// Where the delay of the last second came from; nothing while the link is not measured.
    pub delay: Option<Arc<Delay>>,
    /// What the detector says; nothing while the link is not measured.
    pub findings: Option<Arc<Findings>>,
    /// The newest tick.
    pub tick: Tick,
    /// Its number: grows by one from tick to tick; 0 before the first.
    pub tick_number: u64,
    /// What was lost of the kernel's slots; `None` while the link is not measured.
    pub slot_losses: Option<SlotLosses>,
    /// What did not reach its reader.
    pub unsent: Arc<Unsent>,
    /// What is measured less well than it could be, and the remedy.
    pub degraded: Arc<[String]>,
}

impl LinkSnapshot {
    /// Age of the newest reading of what is attached. `None` if nothing is, or nothing was read yet.
    pub fn reading_age(&self, now: Instant) -> Option<Duration> {
        self.hooks.as_ref()?;
        Some(now.saturating_duration_since(self.read_at?))
    }

    /// Whether packets are being measured: attached, and read a moment ago.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.reading_age(now).is_some_and(|age| age < HANGS)
    }

    /// Whether it should be read and is not. A link whose device is gone needs no reading.
    pub fn hangs(&self, now: Instant) -> bool {
        self.reading_age(now).is_some_and(|age| age >= HANGS)
    }
}

/// What was lost between the kernel's slots of time and their reader, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotLosses {
    /// Slots that were overwritten before they were read.
    pub overwritten: u64,
    /// Answers that two CPUs had written at the same moment.
    pub torn_answers: u64,
}

impl std::ops::Add for SlotLosses {
    type Output = Self;

    fn add(self, more: Self) -> Self {
        Self {
            overwritten: self.overwritten + more.overwritten,
            torn_answers: self.torn_answers + more.torn_answers,
        }
    }
}

named! {
    /// The WAN device, as far as it is there.
    pub enum DeviceState {
        /// No device has the configured name.
        Missing = "missing",
        /// It is there, but not set up.
        Down = "down",
        /// It is there and set up.
        Up = "up",
    }
}

/// One direction of a link.
#[derive(Clone, Debug, Default)]
pub struct DirectionSnapshot {
    /// Everything counted since the agent started, over re-attachments.
    pub counters: abi::pendulum_counters,
    /// What has entered the direction's buffer over the last ten seconds.
    pub entered: Entered,
    /// Link-layer bytes per second, moving over 300 ms.
    pub throughput: f64,
    /// Over the last second; `None` until one was measured.
    pub second: Option<Passed>,
    /// RTT samples of what went in this direction, over the last ten seconds.
    pub rtt: RecentRtt,
    /// The link's capacity, if known.
    pub rate: Option<LinkRate>,
    /// The buffer in front of the link, as far as it is known.
    pub queue: Option<QueueSnapshot>,
    /// A queue of this machine that is not the link's buffer, or what was last known of one whose device is gone: its counters go on.
    pub other_queue: Option<QueueSnapshot>,
    /// Congestion windows of this machine's own sockets that send in this direction, together, bytes.
    pub cwnd_bytes: Option<u64>,
    /// Share of the device's bytes of the last ten seconds that the programs did not see, 0 to 1; `None` where too little was
    /// carried to tell.
    pub unseen_ratio: Option<f64>,
}

/// What entered one direction of the link over the last ten seconds: what its buffer is filled with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entered {
    /// Link-layer bytes by what carries them. Nothing: nothing entered, or it was not read.
    pub composition: Composition,
    /// What is no TCP and carries most, if anything.
    pub top_port: Option<TopPort>,
}

/// Both over the same second, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Passed {
    /// On the link layer.
    pub throughput: f64,
    /// Payload that receivers acknowledged: at most the TCP payload in it, the rest in later seconds.
    pub goodput: f64,
}

impl Passed {
    /// At the rate of the link, if little is above it: a packet counts whole when it leaves. More is a rate that is known too low.
    pub fn within(self, rate: Option<f64>) -> Self {
        let above = rate.filter(|rate| (*rate..1.1 * rate).contains(&self.throughput));
        let part = above.map_or(1.0, |rate| rate / self.throughput);
        Self { throughput: above.unwrap_or(self.throughput), goodput: self.goodput * part }
    }
}

/// A distribution of RTT samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentRtt {
    /// Sum of all samples, microseconds.
    pub sum_us: u64,
    /// Samples in each slot of the histogram, bounds in [`abi::TIME_BOUNDS_US`].
    pub slots: [u64; abi::PENDULUM_TIME_SLOTS as usize],
}

impl Default for RecentRtt {
    fn default() -> Self {
        Self { sum_us: 0, slots: [0; abi::PENDULUM_TIME_SLOTS as usize] }
    }
}

impl DirectionSnapshot {
    /// The queue of this machine that has counted, whether or not it is there now.
    pub fn counting_queue(&self) -> Option<&QueueSnapshot> {
        self.queue.as_ref().filter(|queue| queue.trust.is_none()).or(self.other_queue.as_ref())
    }

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
    pub source: Provenance,
}

named! {
    /// What is read from the kernel, each with its own rhythm.
    pub enum ReadingKind {
        /// Counters and losses, ten times a second.
        Counters = "counters",
        /// The flow table, once a second.
        Flows = "flows",
        /// Programs and maps, once a second.
        Programs = "programs",
        /// Queues and windows, once a second.
        Queues = "queues",
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

/// The newest snapshot of every link: what a reader needs. Links come and go while the agent runs.
#[derive(Clone, Debug)]
pub struct Board {
    links: Arc<watch::Sender<Channels>>,
}

/// Where the snapshots of each link appear.
pub type Channels = Vec<watch::Receiver<Arc<LinkSnapshot>>>;

impl Board {
    /// A board over the links' channels.
    pub fn new(links: Channels) -> Self {
        Self { links: Arc::new(watch::Sender::new(links)) }
    }

    /// Shows these links from now on.
    pub fn show(&self, links: Channels) {
        self.links.send_replace(links);
    }

    /// The channel of every link, and the news that there are others.
    pub fn links(&self) -> watch::Receiver<Channels> {
        self.links.subscribe()
    }

    /// The newest snapshot of every link.
    pub fn snapshots(&self) -> Vec<Arc<LinkSnapshot>> {
        self.links.borrow().iter().map(|link| Arc::clone(&link.borrow())).collect()
    }
}
