//! The task of one link: keeps its programs on its device, reads them, publishes what they tell.

mod attachment;
mod readings;
mod shaping;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pendulum_model::link::Known;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{BpfMap, Hooks};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::delays::Delays;
use super::detection::Detection;
use super::entered::EnteredMeter;
use super::home_hosts::HomeHosts;
use super::meter::KernelMeter;
use super::programs::ProgramTotals;
use super::queues::Queues;
use super::report::snapshot;
use super::samples::LinkReading;
use super::second::Second;
use super::sweep::Sweeper;
use super::unseen::Unseen;
use super::warnings::{Evictions, Retry};
use crate::bpf::{self, LinkPrograms, ProgramStatus};
use crate::config::{Active, LinkConfig};
use crate::journal::Journal;
use crate::net::{Devices, LinkLayer};
use crate::shape::{Shaper, Uplink};
use crate::snapshot::{DeviceState, LinkSnapshot, ReadingHealth, ReadingKind};

/// Rhythm of reading the counters.
const TICK: Duration = Duration::from_millis(100);
/// The flow table, programs and maps are read at every so many ticks.
const TICKS_PER_SWEEP: u64 = 10;
/// The nursery is only counted, to tell how full it is: at every so many sweeps.
const SWEEPS_PER_NURSERY: u64 = 5;

/// The task of one link.
pub(super) struct LinkTask {
    config: LinkConfig,
    active: watch::Receiver<Active>,
    devices: watch::Receiver<Arc<Devices>>,
    publish: watch::Sender<Arc<LinkSnapshot>>,
    loaded: Option<Loaded>,
    device: DeviceState,
    trouble: Option<Arc<str>>,
    retry: Retry,
    meter: KernelMeter,
    sweeper: Sweeper,
    second: PerDirection<Second>,
    unseen: Unseen,
    entered: EnteredMeter,
    queues: Queues,
    delays: Delays,
    detection: Detection,
    shaper: Shaper,
    uplink_rate: Uplink,
    /// Bytes and TCP payload of the uplink at the shaper's last reading.
    counted_up: Option<(u64, u64)>,
    /// Whether the flow table was read since the detector last got it.
    swept: bool,
    evictions: Evictions,
    read_at: Option<Instant>,
    ticks: u64,
    readings: [ReadingHealth; ReadingKind::ALL.len()],
    programs: Arc<[ProgramStatus]>,
    program_totals: ProgramTotals,
    maps: Arc<[BpfMap]>,
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
        config: LinkConfig,
        journal: Journal,
        active: watch::Receiver<Active>,
        devices: watch::Receiver<Arc<Devices>>,
    ) -> (Self, watch::Receiver<Arc<LinkSnapshot>>) {
        let meter = KernelMeter::default();
        let sweeper = Sweeper::new(active.borrow().config.flows.idle_timeout, Instant::now());
        let (publish, snapshots) = watch::channel(Arc::new(snapshot(&config, &meter, &sweeper)));
        let queues = Queues::start(&config.name);
        let shaper = Shaper::new(&config, active.borrow().config.shape.clone());
        let detection = Detection::new(&config.name, &config.wan, active.borrow().config.detector, journal);
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
            second: PerDirection::default(),
            unseen: Unseen::default(),
            entered: EnteredMeter::default(),
            queues,
            delays: Delays::default(),
            detection,
            shaper,
            uplink_rate: Uplink::default(),
            counted_up: None,
            swept: false,
            evictions: Evictions::default(),
            read_at: None,
            ticks: 0,
            readings: Default::default(),
            programs: Arc::new([]),
            program_totals: ProgramTotals::default(),
            maps: Arc::new([]),
        };
        (task, snapshots)
    }

    /// Runs until asked to stop; then nothing of it is left on the device.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut tick = tokio::time::interval(TICK);
        // A late tick is not made up for: readings carry their own time.
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                () = asked_to_stop(&mut stopping) => break,
                changed = self.devices.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.follow_device_or_retry().await;
                    // A shaping device may be the one that has changed.
                    self.shape(true).await;
                }
                changed = self.active.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    self.follow_config().await;
                }
                _ = tick.tick() => {
                    if self.retry.is_due() {
                        self.follow_device_or_retry().await;
                    }
                    self.sample().await;
                }
            }
        }
        self.detach("the agent stops").await;
        self.publish();
    }

    /// Takes over what a reload has changed. A link that a new file no longer names is still in the one in use.
    async fn follow_config(&mut self) {
        let shape = {
            let active = self.active.borrow_and_update();
            let links = &active.config.links;
            if let Some(link) = links.iter().find(|link| link.name == self.config.name) {
                self.config.clone_from(link);
            }
            self.sweeper.idle_timeout = active.config.flows.idle_timeout;
            self.detection.detector.thresholds = active.config.detector;
            active.config.shape.clone()
        };
        self.shaper.configure(&shape);
        self.shape(false).await;
    }

    async fn follow_device_or_retry(&mut self) {
        match self.follow_device().await {
            Ok(()) => self.retry = Retry::default(),
            Err(error) => {
                let reason = crate::exit::chain(&error);
                warn!(
                    link = self.config.name,
                    retry_s = self.retry.pause.as_secs(),
                    "not attached: {reason}"
                );
                self.trouble = Some(reason.into());
                self.retry.postpone();
            }
        }
        self.publish();
    }

    /// One tick: counters each time, the rest more rarely.
    async fn sample(&mut self) {
        let read = self.read_counters();
        let configured = PerDirection::from_fn(|x| self.config.rate(x).map(|rate| rate.bytes_per_second()));
        let capacity = self.detection.detector.capacity(Direction::Up).map(|known| known.value);
        let repeated = self.meter.repeated_uplink();
        if let Some(elsewhere) = &mut self.queues.elsewhere {
            elsewhere.want_seen(self.shaper.follows());
        }
        self.queues.tick(configured, capacity, repeated);
        if let Some(at) = read {
            self.meter.observe_uplink(at, self.queues.uplink_look());
        }
        let first_hop = self.shaper.first_hop();
        self.delays.tick(bpf::monotonic(), &self.queues, self.meter.throughput(), first_hop);
        self.follow_passing(repeated);
        if self.ticks.is_multiple_of(TICKS_PER_SWEEP) {
            self.keep_attached().await;
            self.read_device();
            self.read_flows();
            self.read_queues();
            self.read_shaper().await;
            self.read_programs();
        }
        if self.swept {
            let rates = PerDirection::from_fn(|x| self.line_rate(x));
            let threshold_s = self.active.borrow().config.detector.bufferbloat_delay.seconds();
            let now = bpf::monotonic();
            let hidden = PerDirection::from_fn(|x| self.queues.hidden_bytes(x));
            let flows = self.sweeper.latest();
            let news = self.delays.take(now, &flows, HomeHosts::look(), hidden, rates, threshold_s);
            news.into_iter().for_each(|news| self.detection.note_delay(news, now));
            let detector = &mut self.detection.detector;
            detector.line_most_s = self.delays.line_most_s();
            let may_be_beyond = |x| !self.queues.is_local(x) && self.delays.may_be_beyond(x);
            detector.may_be_beyond = PerDirection::from_fn(may_be_beyond);
        }
        self.detect();
        self.ticks += 1;
        self.publish();
    }

    /// What the line carries: where the shaper looks for that, its own rate is not it.
    fn line_rate(&self, direction: Direction) -> Option<Known> {
        let known = self.detection.detector.capacity(direction)?;
        let value = self.shaper.found(direction).unwrap_or(Some(known.value))?;
        Some(Known { value, ..known })
    }

    /// Gives the detector what was read at this tick.
    fn detect(&mut self) {
        if self.attached_to().is_none() || self.read_at.is_none() {
            return;
        }
        self.detection.detector.link = self.queues.link(&self.config);
        if self.swept {
            self.detection.advisor.buffers = self.queues.buffers();
            self.detection.recorder.set_shaper(self.shaper.state().0.name());
        }
        let (sweep, totals) = (self.sweeper.latest(), self.meter.totals());
        let elsewhere = self.queues.elsewhere.as_ref();
        self.detection.tick(&LinkReading {
            at: bpf::monotonic(),
            counters: &totals.counters,
            queues: PerDirection::from_fn(|x| self.queues.seen(x)),
            rates: PerDirection::from_fn(|x| self.queues.rate(x)),
            base_round_trip: elsewhere.and_then(|elsewhere| elsewhere.link().observer.base_round_trip()),
            answered_s: elsewhere.and_then(|elsewhere| elsewhere.answered_s),
            flows: std::mem::take(&mut self.swept).then_some(&*sweep),
        });
        self.queues.forget_fresh();
    }

    fn publish(&self) {
        let mut snapshot = LinkSnapshot {
            device: self.device,
            hooks: self.loaded.as_ref().and_then(|loaded| loaded.hooks.clone()),
            trouble: self.trouble.clone(),
            read_at: self.read_at,
            programs: Arc::clone(&self.programs),
            maps: Arc::clone(&self.maps),
            readings: self.readings,
            ..snapshot(&self.config, &self.meter, &self.sweeper)
        };
        let is_attached = self.attached_to().is_some();
        for direction in Direction::ALL {
            let shown = &mut snapshot.directions[direction];
            shown.second = self.second[direction].latest.filter(|_| is_attached);
            shown.unseen_ratio = self.unseen.ratio(direction);
            shown.entered = self.entered.recent(direction, Instant::now());
        }
        self.queues.show(&mut snapshot);
        snapshot.delay = self.delays.latest();
        snapshot.shape = self.shaper.snapshot(self.uplink_rate.source());
        self.detection.show(&mut snapshot);
        self.publish.send_replace(Arc::new(snapshot));
    }
}

/// Returns when the task is to end, and keeps nothing borrowed.
async fn asked_to_stop(stopping: &mut watch::Receiver<bool>) {
    // The sender is gone where the whole agent ends.
    let _ = stopping.wait_for(|stop| *stop).await;
}
