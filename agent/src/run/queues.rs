//! The queues of a link and the windows of local sockets: keeps their programs, reads them, steps down where the kernel does
//! not offer them.
//!
//! The uplink's queue is the WAN device's root qdisc, if packets wait there; else it stands in a modem behind and is estimated. The
//! downlink's is that of the ifb that this machine shapes it with; without one it stands at the provider and is estimated.

mod drops;
mod elsewhere;
mod tracked;

use pendulum_model::link::{Known, Link, Provenance};
use pendulum_model::sample::MeasuredRate;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use self::drops::Drops;
pub(super) use self::elsewhere::Elsewhere;
use self::tracked::Tracked;
use super::estimate::Estimate;
use super::outflow::Look;
use super::predictor::Buffer;
use super::samples::Seen;
use crate::bpf::{BpfError, Cwnd, CwndSource, PassageReader, ProgramStatus, QueuePrograms};
use crate::config;
use crate::net::{Devices, ingress_redirect};
use crate::shape::{OwnLevel, RepliedTraffic};
use crate::snapshot::{FlowSweep, LinkSnapshot, QueueSnapshot, SILENT, SlotLosses};

/// Queues and windows of one link.
pub(super) struct Queues {
    programs: Option<QueuePrograms>,
    cwnd: Cwnd,
    cwnd_bytes: Option<u64>,
    /// Local queues.
    tracked: PerDirection<Option<Tracked>>,
    drops: PerDirection<Drops>,
    /// What was last known of a queue that is gone: its counters go on.
    gone: PerDirection<Option<QueueSnapshot>>,
    /// The buffers of others, while the link is measured.
    pub(super) elsewhere: Option<Elsewhere>,
    /// Of readers that are gone.
    slot_losses: SlotLosses,
    /// The WAN device while the programs are attached to it.
    wan: Option<u32>,
}

impl Queues {
    /// Load what this kernel takes. Never fails: netlink statistics and socket diagnostics are the last fallbacks.
    pub(super) fn start(link: &str) -> Self {
        let programs = match QueuePrograms::load() {
            Ok(programs) => Some(programs),
            Err(error) => {
                let reason = crate::exit::chain(&error);
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
            cwnd_bytes: None,
            tracked: PerDirection::default(),
            drops: PerDirection::default(),
            gone: PerDirection::default(),
            elsewhere: None,
            slot_losses: SlotLosses::default(),
            wan: None,
        }
    }

    /// Whether packets have to carry class and time.
    pub(super) fn want_marks(&self) -> bool {
        self.programs.is_some()
    }

    /// The link's programs are attached to this device now.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the device cannot be registered.
    pub(super) fn attach(&mut self, ifindex: u32, passages: PassageReader) -> Result<(), BpfError> {
        let departures = self.programs.as_ref().map(QueuePrograms::departures);
        self.elsewhere = Some(Elsewhere::new(passages, departures));
        self.wan = Some(ifindex);
        self.cwnd.watch(self.wan)?;
        self.track(Direction::Up, ifindex)?;
        self.cwnd_bytes = Some(self.window_of(&FlowSweep::empty(std::time::Instant::now()))?);
        Ok(())
    }

    /// The uplink's queue stands on this device now: the shaper's, or the link's own again.
    ///
    /// # Errors
    /// [`BpfError::Map`] if the device cannot be registered.
    pub(super) fn move_uplink(&mut self, ifindex: u32) -> Result<(), BpfError> {
        if self.tracked.up.as_ref().is_none_or(|tracked| tracked.ifindex == ifindex) {
            return Ok(());
        }
        self.untrack(Direction::Up);
        self.track(Direction::Up, ifindex)
    }

    /// The device is gone, or no longer ours.
    pub(super) fn detach(&mut self) {
        self.wan = None;
        if let Some(elsewhere) = self.elsewhere.take() {
            self.slot_losses = self.slot_losses + elsewhere.slot_losses();
        }
        for direction in Direction::ALL {
            self.untrack(direction);
        }
    }

    /// Once a second: the device that this machine shapes the downlink with may have come or gone.
    pub(super) fn follow_shaper(&mut self, config: &config::LinkConfig, devices: &Devices) {
        let Some(wan) = self.wan else { return };
        let found = match &config.downlink_device {
            Some(name) => devices.by_name(name).map(|device| device.index),
            None => ingress_redirect(wan).unwrap_or_default().filter(|index| *index != wan),
        };
        if found == self.tracked.down.as_ref().map(|tracked| tracked.ifindex) {
            return;
        }
        self.untrack(Direction::Down);
        let Some(ifindex) = found else {
            info!(link = config.name, "the downlink is no longer shaped here");
            return;
        };
        match self.track(Direction::Down, ifindex) {
            Ok(()) => {
                info!(link = config.name, ifindex, "the downlink is shaped here: its queue is observed")
            }
            Err(error) => {
                warn!(
                    link = config.name,
                    "the downlink's queue is not measured: {}",
                    crate::exit::chain(&error)
                )
            }
        }
    }

    fn track(&mut self, direction: Direction, ifindex: u32) -> Result<(), BpfError> {
        let drops = &mut self.drops[direction];
        let lost = self.gone[direction].as_ref().map_or(0, |queue| queue.lost_buckets);
        let tracked = Tracked::new(self.programs.as_mut(), direction, ifindex, drops, lost)?;
        self.tracked[direction] = Some(tracked);
        Ok(())
    }

    fn untrack(&mut self, direction: Direction) {
        let Some(tracked) = self.tracked[direction].take() else { return };
        self.drops[direction].forget_qdisc();
        self.gone[direction] = Some(tracked.snapshot);
        if let Some(programs) = &mut self.programs
            && let Err(error) = programs.untrack(direction)
        {
            warn!("{}", crate::exit::chain(&error));
        }
    }

    /// Ten times a second: every bucket that is over, without a system call where the tracepoints work. `configured`: rates that the user
    /// gave, `capacity`: the uplink's as far as known, bytes per second. `repeated`: share of the uplink's bytes that repeat what passed before.
    pub(super) fn tick(
        &mut self,
        configured: PerDirection<Option<f64>>,
        capacity: Option<f64>,
        repeated: f64,
    ) {
        let programs = self.programs.as_ref();
        for tracked in self.tracked.both_mut().into_iter().flatten() {
            tracked.tick(programs);
        }
        if let Some(elsewhere) = &mut self.elsewhere {
            let up = self.tracked.up.as_ref().map(|up| (up, up.method(programs)));
            elsewhere.tick(up, configured, capacity, repeated);
        }
    }

    /// What waits behind the programs and what has left, at the newest [`Self::tick`].
    pub(super) fn uplink_look(&self) -> Option<Look> {
        self.tracked.up.as_ref().and_then(|up| up.look)
    }

    /// A direction's queue of this machine; `repeated`: share of its bytes that repeat what passed before; `asked`: what was sent and is replied to.
    pub(super) fn own_level(&self, direction: Direction, repeated: f64, asked: RepliedTraffic) -> OwnLevel {
        let Some(tracked) = &self.tracked[direction] else { return OwnLevel::default() };
        let queue = &tracked.snapshot;
        let (bytes, drops) = (f64::from(queue.peak_bytes.max(queue.bytes)), queue.drops.iter().sum());
        OwnLevel { bytes, drops, repeated, asked }
    }

    /// Whether the WAN device's queue is the uplink's buffer.
    pub(super) fn is_uplink_buffer(&self) -> bool {
        self.tracked.up.as_ref().is_some_and(Tracked::is_buffer)
    }

    /// What waits between the programs and the line, in bytes; as last read.
    pub(super) fn uplink_bytes(&self) -> u32 {
        self.tracked.up.as_ref().map_or(0, |queue| queue.snapshot.bytes)
    }

    /// A direction's queue since [`Self::forget_fresh`].
    pub(super) fn seen(&self, direction: Direction) -> Seen<'_> {
        match self.local(direction) {
            Some(tracked) => tracked.seen(self.programs.as_ref()),
            None => self.estimate(direction).map_or(Seen::Nothing, Seen::Estimate),
        }
    }

    /// Whether the direction's buffer is a queue of this machine.
    pub(super) fn is_local(&self, direction: Direction) -> bool {
        self.local(direction).is_some()
    }

    /// The queue of this machine that is the link's buffer. Packets that come in on the downlink's pass it in any case.
    fn local(&self, direction: Direction) -> Option<&Tracked> {
        let tracked = self.tracked[direction].as_ref();
        tracked.filter(|tracked| direction == Direction::Down || tracked.is_buffer())
    }

    /// The buffer that is not of this machine.
    fn estimate(&self, direction: Direction) -> Option<Estimate<'_>> {
        let elsewhere = self.elsewhere.as_ref().filter(|_| self.local(direction).is_none());
        elsewhere.and_then(|elsewhere| elsewhere.link().of(direction))
    }

    /// The rate of a direction whose buffer is estimated, measured while it held a queue.
    pub(super) fn rate(&self, direction: Direction) -> Option<MeasuredRate> {
        self.estimate(direction).and_then(|estimate| estimate.rate())
    }

    /// Level of a queue of this machine, bytes, whether or not it is the link's buffer; `None` if there is none.
    pub(super) fn own_bytes(&self, direction: Direction) -> Option<u32> {
        self.tracked[direction].as_ref().map(|tracked| tracked.snapshot.bytes)
    }

    /// Level of a buffer elsewhere and its uncertainty, bytes.
    pub(super) fn hidden_bytes(&self, direction: Direction) -> Option<(f64, f64)> {
        let elsewhere = self.elsewhere.as_ref().filter(|_| self.local(direction).is_none())?;
        let queue = elsewhere.snapshot(direction)?;
        Some((queue.bytes.into(), queue.uncertainty_bytes?))
    }

    /// What is known of the link beside its traffic.
    pub(super) fn link(&self, config: &config::LinkConfig) -> Link {
        let buffer = |x: Direction| {
            self.tracked[x].as_ref().filter(|tracked| tracked.is_buffer()).map(|tracked| &tracked.snapshot)
        };
        Link {
            capacity: PerDirection::from_fn(|x| {
                config.rate(x).map(|rate| Known::config(rate.bytes_per_second()))
            }),
            shaped: PerDirection::from_fn(|x| Some(buffer(x)?.rate?.bytes_per_second())),
            buffer: PerDirection::from_fn(|x| {
                let value = buffer(x)?.limit_bytes? as f64;
                Some(Known { value, provenance: Provenance::ShapingQdisc })
            }),
            propagation: None,
        }
    }

    /// Both buffers, as far as this machine can tell.
    pub(super) fn buffers(&self) -> PerDirection<Buffer> {
        PerDirection::from_fn(|x| {
            let tracked = self.tracked[x].as_ref().filter(|tracked| tracked.is_buffer());
            tracked.map_or(Buffer::Elsewhere, Tracked::buffer)
        })
    }

    /// The detector has got all buckets.
    pub(super) fn forget_fresh(&mut self) {
        self.tracked.both_mut().into_iter().flatten().for_each(Tracked::forget_fresh);
    }

    /// Once a second: what the qdiscs are and say themselves, histograms, windows.
    ///
    /// # Errors
    /// [`BpfError::Map`] if a map cannot be read.
    pub(super) fn sweep(&mut self, flows: &FlowSweep) -> Result<(), BpfError> {
        self.cwnd_bytes = Some(self.window_of(flows)?);
        for direction in Direction::ALL {
            if let Some(tracked) = &mut self.tracked[direction] {
                tracked.sweep(self.programs.as_mut(), &mut self.drops[direction])?;
            }
        }
        Ok(())
    }

    /// The windows of local sockets whose packets pass this link, together, bytes.
    fn window_of(&mut self, flows: &FlowSweep) -> Result<u64, BpfError> {
        let mut sockets = self.cwnd.sockets(SILENT)?;
        // Rows are in the order of their keys.
        sockets.retain(|(key, _)| flows.rows.binary_search_by(|row| row.key.cmp(key)).is_ok());
        self.cwnd.attach_for(&sockets)?;
        Ok(sockets.iter().map(|(_, socket)| u64::from(socket.snd_cwnd) * u64::from(socket.mss)).sum())
    }

    /// The tracepoint programs.
    pub(super) fn programs(&self) -> Vec<ProgramStatus> {
        self.programs.as_ref().map(QueuePrograms::programs).unwrap_or_default()
    }

    /// Put all of it into the link's snapshot.
    pub(super) fn show(&self, snapshot: &mut LinkSnapshot) {
        for x in Direction::ALL {
            let direction = &mut snapshot.directions[x];
            let local = self.local(x).map(|tracked| &tracked.snapshot);
            let estimated = || self.elsewhere.as_ref().and_then(|elsewhere| elsewhere.snapshot(x));
            direction.queue = local.or_else(estimated).cloned();
            if local.is_none() {
                // A device's queue that is not the link's buffer drops and counts all the same.
                let other = self.tracked[x].as_ref().map(|tracked| &tracked.snapshot);
                direction.other_queue = other.or(self.gone[x].as_ref()).cloned();
            }
        }
        snapshot.vantage = self.elsewhere.as_ref().map(|elsewhere| elsewhere.link().vantage);
        snapshot.slot_losses =
            self.elsewhere.as_ref().map(|elsewhere| self.slot_losses + elsewhere.slot_losses());
        snapshot.directions.up.cwnd_bytes = self.cwnd_bytes;
        snapshot.cwnd_source = self.cwnd.source().name();
    }
}

#[cfg(test)]
mod tests {
    use pendulum_model::rate::BufferSize;

    use super::super::samples::tests::bucket;
    use super::tracked::tests::root;
    use super::*;
    use crate::snapshot::example;

    /// By netlink alone, not attached yet.
    fn queues(up: Tracked, down: Option<Tracked>) -> Queues {
        Queues {
            programs: None,
            cwnd: Cwnd::start(CwndSource::SockDiag),
            cwnd_bytes: None,
            tracked: PerDirection { up: Some(up), down },
            drops: PerDirection::default(),
            gone: PerDirection::default(),
            elsewhere: None,
            slot_losses: SlotLosses::default(),
            wan: Some(7),
        }
    }

    fn holding(bytes: u32, peak_bytes: u32) -> QueueSnapshot {
        QueueSnapshot { bytes, peak_bytes, lost_buckets: 5, drops: [1, 2, 3, 4], ..QueueSnapshot::default() }
    }

    fn shaping(bytes: u32) -> QueueSnapshot {
        let rate = Some("1mbit".parse().unwrap());
        QueueSnapshot { rate, limit_bytes: Some(30_000), ..holding(bytes, bytes) }
    }

    #[test]
    fn a_queue_that_neither_shapes_nor_stands_is_not_the_uplink_s_buffer_but_is_the_downlink_s() {
        let idle = |direction| root(direction, "fq_codel", holding(900, 1_000));
        let both = queues(idle(Direction::Up), Some(idle(Direction::Down)));
        assert!(!both.is_uplink_buffer());
        let mut shown = example::link("dsl");
        both.show(&mut shown);
        let bytes = |queue: &Option<QueueSnapshot>| queue.as_ref().map(|queue| queue.bytes);
        let of = shown.directions.map(|way| (bytes(&way.queue), bytes(&way.other_queue)));
        assert_eq!(of, PerDirection { up: (None, Some(900)), down: (Some(900), None) });
        assert!(matches!(both.seen(Direction::Up), Seen::Nothing));
        assert!(matches!(both.seen(Direction::Down), Seen::Level(level) if level.mean_bytes == 900.0));
        assert_eq!(both.buffers(), PerDirection::default());
        assert_eq!(both.link(&config::LinkConfig::new("wan0")).buffer.up, None);
    }

    #[test]
    fn a_queue_that_shapes_is_the_uplink_s_buffer() {
        let shaped = queues(root(Direction::Up, "tbf", shaping(900)), None);
        assert!(shaped.is_uplink_buffer());
        assert_eq!((shaped.uplink_bytes(), shaped.own_bytes(Direction::Up)), (900, Some(900)));
        let buffer = Buffer::DropTail(BufferSize::Bytes(30_000));
        assert_eq!(shaped.buffers(), PerDirection { up: buffer, down: Buffer::Elsewhere });
        let mut config = config::LinkConfig::new("wan0");
        config.rates.down = Some("8mbit".parse().unwrap());
        let link = shaped.link(&config);
        assert_eq!(link.shaped, PerDirection { up: Some(125_000.0), down: None });
        assert_eq!(link.capacity.down.map(|rate| rate.value), Some(1e6));
        assert_eq!(link.buffer.up.map(|bytes| bytes.value), Some(30_000.0));
        assert!(matches!(shaped.seen(Direction::Up), Seen::Level(level) if level.mean_bytes == 900.0));
    }

    #[test]
    fn a_shaper_is_told_of_the_most_that_stood_and_of_all_drops() {
        let asked = RepliedTraffic { segments: 30, ..RepliedTraffic::default() };
        let queue = queues(root(Direction::Up, "fq", holding(900, 1_000)), None);
        let level = queue.own_level(Direction::Up, 0.25, asked);
        assert_eq!((level.bytes, level.drops, level.repeated), (1_000.0, 10, 0.25));
        assert_eq!(level.asked, asked);
        let nothing = queue.own_level(Direction::Down, 0.25, asked);
        assert_eq!(nothing, OwnLevel::default());
    }

    #[test]
    fn what_the_detector_has_got_is_not_kept() {
        let mut queues = queues(root(Direction::Up, "tbf", shaping(900)), None);
        queues.tracked.up.as_mut().unwrap().fresh.push(bucket(100, 900, [0; 2]));
        queues.forget_fresh();
        assert!(queues.tracked.up.unwrap().fresh.is_empty());
    }

    #[test]
    fn the_counters_of_a_queue_that_is_gone_go_on() {
        let mut queues = queues(root(Direction::Up, "tbf", shaping(900)), None);
        queues.detach();
        assert_eq!((queues.uplink_bytes(), queues.own_bytes(Direction::Up)), (0, None));
        let mut shown = example::link("dsl");
        queues.show(&mut shown);
        assert!(shown.directions.up.queue.is_none());
        let gone = shown.directions.up.other_queue.expect("remembered");
        assert_eq!((gone.drops, gone.lost_buckets), ([1, 2, 3, 4], 5));
    }
}
