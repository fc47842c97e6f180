//! The task of one link: keeps its programs on its device, reads them, publishes what they tell.

mod readings;
mod shaping;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::segment::{Direction, PerDirection};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

use super::judge::Judge;
use super::meter::Meter;
use super::programs::ProgramTotals;
use super::queues::Queues;
use super::report::{hooks, snapshot};
use super::samples::{Reading as Moment, Seen};
use super::sweep::Sweeper;
use super::unseen::Unseen;
use super::warnings::{Evictions, Retry};
use crate::bpf::{self, BpfError, LinkPrograms, LoadOptions, MapFill, ProgramStatus};
use crate::config::{Active, IngressHook, Link};
use crate::journal::Journal;
use crate::net::{Device, DeviceProblem, Devices, LinkLayer};
use crate::shape::{self, Shaper, Uplink};
use crate::snapshot::{DeviceState, Hooks, LinkSnapshot, Reading, ReadingHealth};

/// Rhythm of reading the counters.
const TICK: Duration = Duration::from_millis(100);
/// The flow table, programs and maps are read at every so many ticks.
const TICKS_PER_SWEEP: u64 = 10;
/// The nursery is only counted, to tell how full it is: at every so many sweeps.
const SWEEPS_PER_NURSERY: u64 = 5;

/// The task of one link.
pub(super) struct LinkTask {
    config: Link,
    active: watch::Receiver<Active>,
    devices: watch::Receiver<Arc<Devices>>,
    publish: watch::Sender<Arc<LinkSnapshot>>,
    loaded: Option<Loaded>,
    device: DeviceState,
    trouble: Option<Arc<str>>,
    retry: Retry,
    meter: Meter,
    sweeper: Sweeper,
    unseen: Unseen,
    queues: Queues,
    judge: Judge,
    shaper: Shaper,
    uplink_rate: Uplink,
    /// Whether the flow table was read since the detector last got it.
    swept: bool,
    evictions: Evictions,
    samples: u64,
    ticks: u64,
    readings: [ReadingHealth; Reading::ALL.len()],
    programs: Arc<[ProgramStatus]>,
    program_totals: ProgramTotals,
    maps: Arc<[MapFill]>,
}

/// Programs and maps in the kernel, attached or not.
struct Loaded {
    programs: LinkPrograms,
    link_layer: LinkLayer,
    hooks: Option<Hooks>,
}

impl LinkTask {
    /// A task that has touched nothing yet, and where its snapshots appear.
    pub(super) fn new(
        config: Link,
        journal: Journal,
        active: watch::Receiver<Active>,
        devices: watch::Receiver<Arc<Devices>>,
    ) -> (Self, watch::Receiver<Arc<LinkSnapshot>>) {
        let meter = Meter::new();
        let sweeper = Sweeper::new(active.borrow().config.flows.idle_timeout, Instant::now());
        let (publish, snapshots) = watch::channel(Arc::new(snapshot(&config, &meter, &sweeper)));
        let queues = Queues::start(&config.name);
        let shaper = Shaper::new(&config.name, active.borrow().config.shape.clone(), config.rates);
        let judge = Judge::new(&config.name, &config.wan, active.borrow().config.detector, journal);
        let task = Self {
            config,
            active,
            devices,
            publish,
            loaded: None,
            device: DeviceState::Missing,
            trouble: None,
            retry: Retry::default(),
            meter,
            sweeper,
            unseen: Unseen::default(),
            queues,
            judge,
            shaper,
            uplink_rate: Uplink::default(),
            swept: false,
            evictions: Evictions::default(),
            samples: 0,
            ticks: 0,
            readings: Default::default(),
            programs: Arc::new([]),
            program_totals: ProgramTotals::default(),
            maps: Arc::new([]),
        };
        (task, snapshots)
    }

    /// Runs until told to stop; then nothing of it is left on the device.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut tick = tokio::time::interval(TICK);
        // A late tick is not made up for: readings carry their own time.
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => break,
                changed = self.devices.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.follow_device_or_retry();
                }
                changed = self.active.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.follow_config();
                }
                _ = tick.tick() => {
                    if self.retry.is_due() {
                        self.follow_device_or_retry();
                    }
                    self.sample();
                }
            }
        }
        self.detach("the agent stops");
        self.publish();
    }

    /// Takes over what a reload has changed. A link that a new file no longer names is still in the one in use.
    fn follow_config(&mut self) {
        let active = self.active.borrow_and_update();
        let links = &active.config.links;
        if let Some(link) = links.iter().find(|link| link.name == self.config.name) {
            self.config.clone_from(link);
        }
        self.sweeper.set_idle_timeout(active.config.flows.idle_timeout);
        self.judge.set_thresholds(active.config.detector);
        let shape = active.config.shape.clone();
        drop(active);
        if let Some(wan) = self.attached_to() {
            self.follow_rates(wan);
        }
        if self.shaper.differs(&shape) {
            self.unshape();
            self.shaper.configure(&shape);
            let devices = self.devices.borrow().clone();
            if let Some(device) =
                devices.by_name(&self.config.wan).filter(|device| self.is_attached_to(device))
            {
                self.shape(device);
            }
        }
    }

    fn follow_device_or_retry(&mut self) {
        match self.follow_device() {
            Ok(()) => self.retry = Retry::default(),
            Err(error) => {
                let reason = crate::bpf::chain(&error);
                warn!(
                    link = self.config.name,
                    retry_s = self.retry.pause().as_secs(),
                    "not attached: {reason}"
                );
                self.trouble = Some(reason.into());
                self.retry.postpone();
            }
        }
        self.publish();
    }

    /// Makes attachment follow the device as it is now: it may have come, gone, or been made anew.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(super) fn follow_device(&mut self) -> Result<(), BpfError> {
        let devices = Arc::clone(&self.devices.borrow_and_update());
        let device = match devices.usable(&self.config.wan) {
            Ok(device) => {
                self.device = DeviceState::Up;
                device
            }
            Err(DeviceProblem::Down { .. }) => {
                self.device = DeviceState::Down;
                match devices.by_name(&self.config.wan) {
                    // Attached while it is down, nothing is missed when it goes up.
                    Some(device) => device,
                    None => return Ok(()),
                }
            }
            Err(problem) => {
                self.lose_device(&problem);
                return Ok(());
            }
        };
        if self.is_attached_to(device) {
            return Ok(());
        }
        self.detach("its device was made anew");
        self.attach(device)
    }

    /// How the programs hang on the device; none while they do not.
    pub(super) fn mechanisms(&self) -> Option<[&'static str; 2]> {
        let hooks = self.loaded.as_ref()?.hooks.as_ref()?;
        Some([hooks.egress, hooks.ingress])
    }

    fn lose_device(&mut self, problem: &DeviceProblem) {
        self.device = match problem {
            DeviceProblem::Unknown { .. } => DeviceState::Missing,
            DeviceProblem::Down { .. } => DeviceState::Down,
            DeviceProblem::Port { .. } | DeviceProblem::LinkLayer { .. } => DeviceState::Up,
        };
        self.trouble = Some(problem.to_string().into());
        if self.loaded.as_ref().is_some_and(|loaded| loaded.hooks.is_some()) {
            // What passed until now is in the maps still.
            let _ = self.read_counters();
            warn!(link = self.config.name, "{problem}; waiting for it");
            self.detach("its device cannot be used");
        }
    }

    fn is_attached_to(&self, device: &Device) -> bool {
        self.loaded.as_ref().is_some_and(|loaded| {
            loaded.link_layer == device.link_layer
                && loaded.hooks.as_ref().is_some_and(|hooks| hooks.ifindex == device.index)
        })
    }

    fn attach(&mut self, device: &Device) -> Result<(), BpfError> {
        for leftover in bpf::remove_leftovers(&device.name, device.index)? {
            info!(link = self.config.name, "removed what an earlier run had left: {leftover}");
        }
        match shape::remove_leftovers(device) {
            Ok(removed) => removed.iter().for_each(|leftover| {
                info!(link = self.config.name, "removed what an earlier run had left: {leftover}");
            }),
            Err(error) => warn!(link = self.config.name, "{}", crate::bpf::chain(&error)),
        }
        let mut loaded = match self.loaded.take() {
            Some(loaded) if loaded.link_layer == device.link_layer => loaded,
            _ => self.load(device)?,
        };
        let hooks = loaded.programs.attach(&device.name, device.index).map(|report| hooks(device, &report));
        if let Ok(hooks) = &hooks {
            info!(
                link = self.config.name,
                event = "attached",
                device = device.name,
                ifindex = hooks.ifindex,
                link_layer = hooks.link_layer,
                egress = hooks.egress,
                ingress = hooks.ingress,
                qdisc = device.qdisc,
                "attached"
            );
            loaded.hooks = Some(hooks.clone());
            self.trouble = None;
            let arrivals = loaded.programs.arrivals(bpf::monotonic_ns());
            if let Err(error) = self.queues.attach(hooks.ifindex, arrivals) {
                warn!(link = self.config.name, "the queue is not measured: {}", crate::bpf::chain(&error));
            }
        }
        self.loaded = Some(loaded);
        hooks.map(|_| self.shape(device))
    }

    /// Loads programs for the device's link layer; they count from zero.
    fn load(&mut self, device: &Device) -> Result<Loaded, BpfError> {
        let programs = LinkPrograms::load(&LoadOptions {
            link_layer: match device.link_layer {
                LinkLayer::RawIp => bpf::LinkLayer::RawIp,
                LinkLayer::Ethernet | LinkLayer::Unknown(_) => bpf::LinkLayer::Ethernet,
            },
            max_flows: self.config.max_flows,
            nursery: self.config.nursery,
            queue_mark: self.queues.want_marks(),
            xdp_ingress: self.config.ingress_hook == IngressHook::Xdp,
            ..LoadOptions::default()
        })?;
        self.meter.restart();
        self.program_totals.restart(&programs.programs());
        self.sweeper.restart(Instant::now());
        Ok(Loaded { programs, link_layer: device.link_layer, hooks: None })
    }

    fn detach(&mut self, why: &str) {
        self.shaper.stop();
        let Some(loaded) = &mut self.loaded else { return };
        if let Some(hooks) = loaded.hooks.take() {
            loaded.programs.detach();
            self.queues.detach();
            self.unseen.restart();
            self.judge.suspend();
            let packet_programs = loaded.programs.programs();
            self.programs =
                self.program_totals.observe(packet_programs.into_iter().chain(self.queues.programs()));
            info!(link = self.config.name, event = "detached", ifindex = hooks.ifindex, "detached: {why}");
        }
    }

    /// One tick: counters each time, the rest more rarely.
    fn sample(&mut self) {
        let read = self.read_counters();
        self.queues.tick(PerDirection::from_fn(|x| self.judge.capacity(x).map(|known| known.value)));
        if let Some(at) = read {
            self.meter.observe_uplink(at, self.queues.uplink_look());
        }
        if self.ticks.is_multiple_of(TICKS_PER_SWEEP) {
            self.read_device();
            self.read_flows();
            self.read_queues();
            self.read_shaper();
            self.read_programs();
        }
        self.judge();
        self.ticks += 1;
        self.publish();
    }

    /// Gives the detector what was read at this tick.
    fn judge(&mut self) {
        if self.loaded.as_ref().is_none_or(|loaded| loaded.hooks.is_none()) || self.samples == 0 {
            return;
        }
        self.judge.set_link(self.queues.link(&self.config));
        let (sweep, totals) = (self.sweeper.latest(), self.meter.totals());
        let shown = PerDirection::from_fn(|x| self.queues.seen(x));
        let up = if self.queues.is_uplink_buffer() { shown.up } else { Seen::Nothing };
        self.judge.tick(&Moment {
            at: bpf::monotonic(),
            counters: &totals.counters,
            queues: PerDirection { up, ..shown },
            shown,
            flows: std::mem::take(&mut self.swept).then_some(&*sweep),
        });
        self.queues.forget_fresh();
    }

    fn publish(&self) {
        let mut snapshot = LinkSnapshot {
            device: self.device,
            hooks: self.loaded.as_ref().and_then(|loaded| loaded.hooks.clone()),
            trouble: self.trouble.clone(),
            samples: self.samples,
            programs: Arc::clone(&self.programs),
            maps: Arc::clone(&self.maps),
            readings: self.readings,
            ..snapshot(&self.config, &self.meter, &self.sweeper)
        };
        for direction in Direction::ALL {
            snapshot.directions[direction as usize].unseen_ratio = self.unseen.ratio(direction);
        }
        self.queues.show(&mut snapshot);
        self.judge.show(&mut snapshot);
        snapshot.shape = self.shaper.snapshot();
        snapshot.shape.rate_source = self.uplink_rate.source();
        self.publish.send_replace(Arc::new(snapshot));
    }
}
