//! The local queue of a link and the windows of local sockets: keeps their programs, reads them, steps down where the
//! kernel does not offer them.

use std::time::Duration;

use pendulum_model::link::{Known, Link, Provenance};
use pendulum_model::sample::{QueueSample, QueueSource};
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use super::samples::Seen;
use crate::bpf::{
    self, BpfError, Cwnd, CwndSource, Interval, ProgramStatus, QueueMethod, QueuePrograms, RingReader, abi,
};
use crate::config;
use crate::net::QdiscTree;
use crate::snapshot::{FlowKey, FlowSweep, LinkRate, LinkSnapshot, QueueSnapshot, RateSource};

/// A socket that took no ACK for this long sends nothing: its window is no load.
const SOCKET_AGE: Duration = Duration::from_secs(10);
/// The queue was at rest if nothing happened for this long around a netlink reading.
const REST_NS: u64 = 20_000_000;

/// Queue and windows of one link.
pub(super) struct Queues {
    programs: Option<QueuePrograms>,
    cwnd: Cwnd,
    device: Option<Tracked>,
    snapshot: Option<QueueSnapshot>,
    cwnd_bytes: Option<u64>,
    /// Buckets that the detector has not got yet, oldest first.
    fresh: Vec<Interval>,
    bottleneck: Bottleneck,
}

/// The device whose root qdisc is the queue.
struct Tracked {
    ifindex: u32,
    reader: Option<RingReader>,
    tree: QdiscTree,
}

impl Queues {
    /// Load what this kernel takes. Never fails: netlink statistics and socket diagnostics are the last rungs.
    pub(super) fn start(link: &str) -> Self {
        let programs = match QueuePrograms::load() {
            Ok(programs) => Some(programs),
            Err(error) => {
                let reason = bpf::chain(&error);
                let reason = reason.lines().next().unwrap_or_default();
                warn!(link, "queues are read by netlink, ten times a second: {reason}");
                None
            }
        };
        let cwnd = Cwnd::start(CwndSource::Fexit);
        info!(link, source = cwnd.source().name(), "congestion windows of local sockets");
        Self {
            programs,
            cwnd,
            device: None,
            snapshot: None,
            cwnd_bytes: None,
            fresh: Vec::new(),
            bottleneck: Bottleneck::default(),
        }
    }

    /// Whether packets have to carry class and time.
    pub(super) fn want_marks(&self) -> bool {
        self.programs.is_some()
    }

    /// The link's programs hang on this device now.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the device cannot be registered.
    pub(super) fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let tree = QdiscTree::read(ifindex).unwrap_or_default();
        let mut reader = None;
        if let Some(programs) = &mut self.programs {
            programs.track(Direction::Up, ifindex, bpf::flags_of(&tree))?;
            reader = Some(programs.reader(Direction::Up));
        }
        self.device = Some(Tracked { ifindex, reader, tree });
        self.sweep(&FlowSweep::empty(std::time::Instant::now()))
    }

    /// The device is gone, or no longer ours.
    pub(super) fn detach(&mut self) {
        self.device = None;
        self.snapshot = None;
        self.fresh.clear();
        self.bottleneck = Bottleneck::default();
        if let Some(programs) = &mut self.programs
            && let Err(error) = programs.untrack(Direction::Up)
        {
            warn!("{}", bpf::chain(&error));
        }
    }

    /// Ten times a second: every bucket that is over, without a system call where the tracepoints work.
    pub(super) fn tick(&mut self) {
        let Some(device) = &mut self.device else { return };
        let Some(snapshot) = &mut self.snapshot else { return };
        let method = device.method(self.programs.as_ref());
        match (&mut device.reader, method) {
            (Some(reader), QueueMethod::Tracepoint) => {
                let mut peak = 0;
                let mut minimum = u32::MAX;
                reader.read(|interval| {
                    peak = peak.max(interval.max_bytes);
                    minimum = minimum.min(interval.min_bytes);
                    self.fresh.push(interval);
                });
                let level = reader.level();
                (snapshot.bytes, snapshot.packets) = (level.bytes, level.packets);
                snapshot.ack_bytes = Some(level.ack_bytes);
                snapshot.ack_packets = Some(level.ack_packets);
                if minimum != u32::MAX {
                    (snapshot.peak_bytes, snapshot.lowest_bytes) = (peak, minimum);
                }
                snapshot.lost_buckets = reader.lost();
            }
            _ => {
                if let Ok(tree) = QdiscTree::read(device.ifindex) {
                    device.tree = tree;
                }
                let root = device.tree.root();
                snapshot.bytes = root.map_or(0, |root| root.backlog_bytes);
                snapshot.packets = root.map_or(0, |root| root.backlog_packets);
                (snapshot.ack_bytes, snapshot.ack_packets) = (None, None);
                (snapshot.peak_bytes, snapshot.lowest_bytes) = (snapshot.bytes, snapshot.bytes);
            }
        }
        snapshot.source = method.name();
        self.bottleneck.note(snapshot);
    }

    /// Whether the device's queue is the uplink's buffer. A device that does not shape and never holds anything stands
    /// in front of a modem that does, and its empty queue says nothing about the modem's.
    pub(super) fn is_uplink_buffer(&self) -> bool {
        let shapes = self.device.as_ref().is_some_and(|device| device.tree.rate().is_some());
        shapes || self.bottleneck.has_stood()
    }

    /// The device's queue since [`Self::forget_fresh`].
    pub(super) fn seen(&self) -> Seen<'_> {
        let (Some(device), Some(snapshot)) = (&self.device, &self.snapshot) else { return Seen::Nothing };
        if device.tree.root().is_none() {
            return Seen::Nothing;
        }
        match device.method(self.programs.as_ref()) {
            QueueMethod::Tracepoint => Seen::Buckets(&self.fresh),
            QueueMethod::Netlink => {
                Seen::Level(QueueSample::level(QueueSource::Netlink, snapshot.bytes.into()))
            }
        }
    }

    /// What is known of the link beside its traffic: the user's word first, then the qdisc's.
    pub(super) fn link(&self, config: &config::Link) -> Link {
        let queue = self.snapshot.as_ref().filter(|_| self.is_uplink_buffer());
        let set = |value| Known { value, provenance: Provenance::ShapingQdisc };
        let told = |x| config.rate(x).map(|rate| Known::config(rate.bytes_per_second()));
        let shaped = queue.and_then(|queue| queue.rate).map(|rate| set(rate.bytes_per_second()));
        let limit = queue.and_then(|queue| queue.limit_bytes).map(|bytes| set(bytes as f64));
        Link {
            capacity: PerDirection { up: told(Direction::Up).or(shaped), down: told(Direction::Down) },
            buffer: PerDirection { up: limit, down: None },
            propagation: None,
        }
    }

    /// The detector has got all buckets.
    pub(super) fn forget_fresh(&mut self) {
        self.fresh.clear();
    }

    /// Once a second: what the qdisc is and says itself, histograms, windows.
    ///
    /// # Errors
    /// [`BpfError::Map`] if a map cannot be read.
    pub(super) fn sweep(&mut self, flows: &FlowSweep) -> Result<(), BpfError> {
        self.cwnd_bytes = Some(self.window_of(flows)?);
        let Some(device) = &mut self.device else { return Ok(()) };
        let rest = self.programs.as_ref().map(|programs| programs.state(Direction::Up).last_ns);
        if let Ok(tree) = QdiscTree::read(device.ifindex) {
            device.tree = tree;
        }
        let mut snapshot = self.snapshot.take().unwrap_or_default();
        snapshot.qdisc = device.tree.root().map_or("noqueue", |root| root.kind.as_str()).into();
        snapshot.limit_bytes = device.tree.limit_bytes();
        snapshot.rate = device.tree.rate().map(|(rate, _)| rate);
        let root_drops = device.tree.root().map_or(0, |root| root.drops);
        if let Some(programs) = &mut self.programs {
            programs.track(Direction::Up, device.ifindex, bpf::flags_of(&device.tree))?;
            let state = programs.state(Direction::Up);
            snapshot.drops = state.drops;
            snapshot.events = state.events;
            snapshot.sojourns = programs.sojourns()?[Direction::Up as usize];
            if programs.traces_drops().is_err() {
                snapshot.drops[abi::PENDULUM_DROP_OTHER as usize] = root_drops.into();
            }
            device.reconcile(rest == Some(state.last_ns), state.last_ns, &mut self.fresh);
        } else {
            snapshot.drops[abi::PENDULUM_DROP_OTHER as usize] = root_drops.into();
        }
        snapshot.repaired = device.reader.as_ref().map_or(0, RingReader::repaired);
        self.snapshot = Some(snapshot);
        Ok(())
    }

    /// The windows of local sockets whose packets pass this link, together, bytes.
    fn window_of(&self, flows: &FlowSweep) -> Result<u64, BpfError> {
        let mut sum = 0;
        for (key, socket) in self.cwnd.sockets(SOCKET_AGE)? {
            // Rows are in the order of their keys.
            if flows.rows.binary_search_by(|row| row.key.cmp(&FlowKey(key))).is_ok() {
                sum += u64::from(socket.snd_cwnd) * u64::from(socket.mss);
            }
        }
        Ok(sum)
    }

    /// The tracepoint programs.
    pub(super) fn programs(&self) -> Vec<ProgramStatus> {
        self.programs.as_ref().map(QueuePrograms::programs).unwrap_or_default()
    }

    /// Put all of it into the link's snapshot. A rate that the user gave is left alone.
    pub(super) fn show(&self, snapshot: &mut LinkSnapshot) {
        let up = &mut snapshot.directions[Direction::Up as usize];
        let shaped = self.snapshot.as_ref().and_then(|queue| queue.rate);
        up.rate = up.rate.or(shaped.map(|rate| LinkRate { rate, source: RateSource::Qdisc }));
        up.queue.clone_from(&self.snapshot);
        up.cwnd_bytes = self.cwnd_bytes;
        snapshot.cwnd_source = self.cwnd.source().name();
    }
}

/// Whether a queue that does not shape is the narrowest place all the same, as at a slow modem driven by this machine.
#[derive(Debug, Default)]
struct Bottleneck {
    /// Ticks since it held more than a segment for a whole tick.
    ticks: Option<u32>,
}

impl Bottleneck {
    /// Less than a full segment may be the one that waits its turn.
    const SEGMENT: u32 = 1500;
    /// A minute.
    const MEMORY: u32 = 600;

    fn note(&mut self, queue: &QueueSnapshot) {
        self.ticks = if queue.lowest_bytes > Self::SEGMENT {
            Some(0)
        } else {
            self.ticks.map(|ticks| ticks + 1).filter(|ticks| *ticks < Self::MEMORY)
        };
    }

    fn has_stood(&self) -> bool {
        self.ticks.is_some()
    }
}

impl Tracked {
    fn method(&self, programs: Option<&QueuePrograms>) -> QueueMethod {
        programs.map_or(QueueMethod::Netlink, |programs| {
            QueueMethod::of(&self.tree, &programs.state(Direction::Up))
        })
    }

    /// Compare with the qdisc's own figures if nothing happened while they were read, nor just before.
    fn reconcile(&mut self, undisturbed: bool, last_ns: u64, fresh: &mut Vec<Interval>) {
        let (Some(reader), Some(root)) = (&mut self.reader, self.tree.root()) else { return };
        if undisturbed && bpf::monotonic_ns().saturating_sub(last_ns) > REST_NS {
            reader.read(|interval| fresh.push(interval));
            if reader.repair(root.backlog_bytes, root.backlog_packets) {
                info!(qdisc = root.kind, "the queue's level was set right from the qdisc's own statistics");
            }
        }
    }
}
