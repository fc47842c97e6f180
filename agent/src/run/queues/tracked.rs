//! One local queue: the root qdisc of a device that the link's packets leave through.

use pendulum_model::sample::{QueueSample, QueueSource};
use pendulum_model::segment::Direction;
use tracing::info;

use super::super::outflow::Look;
use super::super::predictor::Buffer;
use super::super::samples::Seen;
use super::drops::Drops;
use crate::bpf::{self, BpfError, QueueInterval, QueuePrograms, RingReader};
use crate::net::QdiscTree;
use crate::snapshot::QueueSnapshot;

/// The queue was at rest if nothing happened for this long before a netlink reading, nor during it.
const REST_NS: u64 = 20_000_000;

/// The device whose root qdisc is the queue.
pub(super) struct Tracked {
    direction: Direction,
    pub(super) ifindex: u32,
    reader: Option<RingReader>,
    tree: QdiscTree,
    pub(super) snapshot: QueueSnapshot,
    /// Buckets that the detector has not got yet, oldest first.
    pub(super) fresh: Vec<QueueInterval>,
    bottleneck: Bottleneck,
    /// Buckets lost by the queue that was tracked before.
    lost_before: u64,
    pub(super) look: Option<Look>,
}

impl Tracked {
    /// Measure from now on.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the device cannot be registered.
    pub(super) fn new(
        programs: Option<&mut QueuePrograms>,
        direction: Direction,
        ifindex: u32,
        drops: &mut Drops,
        lost_before: u64,
    ) -> Result<Self, BpfError> {
        let tree = QdiscTree::read(ifindex).unwrap_or_default();
        let mut reader = None;
        let mut programs = programs;
        if let Some(programs) = programs.as_deref_mut() {
            programs.track(direction, ifindex, bpf::flags_of(&tree))?;
            reader = Some(programs.reader(direction));
        }
        let mut tracked = Self {
            direction,
            ifindex,
            reader,
            tree,
            snapshot: QueueSnapshot { uncertainty_bytes: Some(0.0), ..QueueSnapshot::default() },
            fresh: Vec::new(),
            bottleneck: Bottleneck::default(),
            lost_before,
            look: None,
        };
        tracked.sweep(programs, drops)?;
        Ok(tracked)
    }

    /// How its level is known now.
    pub(super) fn method(&self, programs: Option<&QueuePrograms>) -> QueueSource {
        programs.map_or(QueueSource::Netlink, |programs| {
            bpf::source_of(&self.tree, &programs.state(self.direction))
        })
    }

    /// Ten times a second: every bucket that is over, without a system call where the tracepoints work.
    pub(super) fn tick(&mut self, programs: Option<&QueuePrograms>) {
        let method = self.method(programs);
        // First: it is compared with counters that have just been read.
        self.look =
            programs.filter(|_| method == QueueSource::Tracepoint).map(|programs| self.traced(programs));
        let snapshot = &mut self.snapshot;
        match (&mut self.reader, method) {
            (Some(reader), QueueSource::Tracepoint) => {
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
                snapshot.lost_buckets = self.lost_before + reader.lost();
            }
            _ => {
                if let Ok(tree) = QdiscTree::read(self.ifindex) {
                    self.tree = tree;
                }
                let root = self.tree.root();
                self.look = root
                    .map(|root| Look::Netlink { qdisc: (root.handle, self.ifindex), sent: root.sent_bytes });
                snapshot.bytes = root.map_or(0, |root| root.backlog_bytes);
                snapshot.packets = root.map_or(0, |root| root.backlog_packets);
                (snapshot.ack_bytes, snapshot.ack_packets) = (None, None);
                (snapshot.peak_bytes, snapshot.lowest_bytes) = (snapshot.bytes, snapshot.bytes);
            }
        }
        snapshot.source = method;
        self.bottleneck.note(snapshot);
    }

    fn traced(&self, programs: &QueuePrograms) -> Look {
        let state = programs.state(self.direction);
        Look::Traced {
            qdisc: state.qdisc,
            last_ns: state.last_ns,
            level: state.level.bytes,
            left: state.totals.dequeued_bytes.iter().sum(),
            dropped: state.totals.dropped_bytes.iter().sum(),
        }
    }

    /// Once a second: what the qdisc is and says itself, histograms, drops.
    ///
    /// # Errors
    /// [`BpfError::Map`] if a map cannot be read.
    pub(super) fn sweep(
        &mut self,
        programs: Option<&mut QueuePrograms>,
        drops: &mut Drops,
    ) -> Result<(), BpfError> {
        let traced = |programs: &QueuePrograms| {
            programs.traces_drops().is_ok().then(|| programs.state(self.direction).drops)
        };
        let began_ns = bpf::monotonic_ns();
        let dropped_before = programs.as_deref().and_then(traced);
        if let Ok(tree) = QdiscTree::read(self.ifindex) {
            self.tree = tree;
        }
        let dropped = programs.as_deref().and_then(traced);
        drops.observe(dropped_before, self.tree.root(), dropped);
        let snapshot = &mut self.snapshot;
        snapshot.qdisc = self.tree.root().map_or("noqueue", |root| root.kind.as_str()).into();
        snapshot.limit_bytes = self.tree.limit_bytes();
        snapshot.rate = self.tree.rate().map(|(rate, _)| rate);
        snapshot.drops = drops.by_kind();
        if let Some(programs) = programs {
            programs.track(self.direction, self.ifindex, bpf::flags_of(&self.tree))?;
            let state = programs.state(self.direction);
            snapshot.events = state.events;
            snapshot.sojourns = programs.sojourns()?[self.direction];
            if was_at_rest(state.last_ns, began_ns) {
                self.reconcile();
            }
        }
        Ok(())
    }

    /// What it holds, if it drops what does not fit.
    pub(super) fn buffer(&self) -> Buffer {
        match self.tree.drop_tail() {
            Ok(size) => Buffer::DropTail(size),
            Err(kind) => Buffer::Other(kind.into()),
        }
    }

    /// Whether this queue is the link's buffer. A device that does not shape and never holds anything stands in front of a
    /// modem that does, and its empty queue says nothing about the modem's.
    pub(super) fn is_buffer(&self) -> bool {
        self.tree.rate().is_some() || self.bottleneck.has_stood()
    }

    /// The queue since [`Self::forget_fresh`].
    pub(super) fn seen(&self, programs: Option<&QueuePrograms>) -> Seen<'_> {
        if self.tree.root().is_none() {
            return Seen::Nothing;
        }
        match self.method(programs) {
            QueueSource::Tracepoint => Seen::Buckets(&self.fresh),
            source => Seen::Level(QueueSample::level(source, self.snapshot.bytes.into())),
        }
    }

    /// The detector has got all buckets.
    pub(super) fn forget_fresh(&mut self) {
        self.fresh.clear();
    }

    /// Take the level over from the qdisc's own figures.
    fn reconcile(&mut self) {
        let (Some(reader), Some(root)) = (&mut self.reader, self.tree.root()) else { return };
        reader.read(|interval| self.fresh.push(interval));
        if reader.repair(root.backlog_bytes, root.backlog_packets) {
            info!(qdisc = root.kind, "the queue's level was set right from the qdisc's own statistics");
        }
    }
}

/// Whether nothing happened while figures were read since `began_ns`, nor just before. `last_ns`: the newest event, known afterwards.
fn was_at_rest(last_ns: u64, began_ns: u64) -> bool {
    began_ns.saturating_sub(last_ns) > REST_NS
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::net::Qdisc;
    use crate::net::qdisc::ListedQdisc;

    /// A root qdisc that is read by netlink, as last read. It shapes if it has a rate.
    pub(in super::super) fn root(direction: Direction, kind: &str, snapshot: QueueSnapshot) -> Tracked {
        let qdisc = Qdisc {
            handle: 0x1_0000,
            parent: u32::MAX,
            kind: kind.to_owned(),
            sent_bytes: 0,
            sent_packets: 0,
            backlog_bytes: snapshot.bytes,
            backlog_packets: snapshot.packets,
            drops: 0,
            limit_bytes: snapshot.limit_bytes,
            limit_packets: None,
            rate: snapshot.rate,
        };
        let listed = ListedQdisc { ifindex: 7, qdisc, options: Vec::new() };
        Tracked {
            direction,
            ifindex: 7,
            reader: None,
            tree: QdiscTree::of(7, &[listed]).unwrap(),
            snapshot,
            fresh: Vec::new(),
            bottleneck: Bottleneck::default(),
            lost_before: 0,
            look: None,
        }
    }

    #[test]
    fn a_queue_is_at_rest_when_its_last_event_is_long_before_the_reading() {
        let began_ns = 10 * REST_NS;
        for (last_ns, rests) in [
            (0, true),
            (began_ns - REST_NS - 1, true),
            (began_ns - REST_NS, false),
            (began_ns, false),
            (began_ns + 2 * REST_NS, false),
        ] {
            assert_eq!(was_at_rest(last_ns, began_ns), rests, "{last_ns}");
        }
    }

    #[test]
    fn a_queue_that_never_falls_to_one_segment_is_the_link_s_buffer_for_a_minute() {
        let ticks_after = |lowest_bytes| {
            let mut bottleneck = Bottleneck::default();
            bottleneck.note(&QueueSnapshot { lowest_bytes, ..QueueSnapshot::default() });
            let empty = QueueSnapshot::default();
            (0..1_000)
                .take_while(|_| {
                    bottleneck.has_stood() && {
                        bottleneck.note(&empty);
                        true
                    }
                })
                .count()
        };
        assert_eq!(ticks_after(1_500), 0, "a segment on its way");
        assert_eq!(ticks_after(1_501), 600);
    }
}
