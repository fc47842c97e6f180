//! Acting on the link: its queue is made here, a little below the link's rate, and managed. docs/shaping.md.
//!
//! [`plan`] says how large everything is, [`guard`] whether there is room for it, [`device`] makes it, [`evidence`] judges it;
//! the kernel side is `bpf/shape.bpf.c`. All that is made can be recognised and is removed at the end, by the next start,
//! and by `pendulum run --cleanup`. Whatever fails, packets pass.

mod device;
mod error;
mod evidence;
mod guard;
mod leftovers;
mod plan;
mod rates;
mod readings;
mod snapshot;
mod upkeep;

use std::io;
use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;
use tracing::{info, warn};

use crate::bpf::abi::{self, pendulum_shape_control};
use crate::bpf::{self, BpfError, ShapeHook, ShapePrograms};
use crate::config::{AckFilter, Shape, ShapeMode};
use crate::net::clsact::Clsact;
use crate::net::control;
use crate::net::{Device, LinkLayer, QdiscTree};
use device::{LANE_PRIORITY, SPARSE_PRIORITY, Shaping, TURN_PRIORITY, Way};
use evidence::AbTest;

pub use error::ShapeError;
pub use evidence::{Comparison, Outcome, Reading, Turn};
pub use leftovers::{remove_leftovers, remove_orphans, shaped_devices};
pub use plan::Measured;
pub use rates::{Seen, Uplink};
pub use snapshot::{FATES, ShapeSnapshot, ShapeState};

/// A connection without an ACK for so long gives its place in the table to another.
const IDLE: Duration = Duration::from_secs(10);
/// ACKs withheld for one carrier: Linux' own GRO merges up to 44 full segments into one ACK.
const STRETCH: u32 = 32;
/// A connection is left alone until it has had so many bytes acknowledged since it was met: four round trips of slow
/// start from ten segments (RFC 6928), whose window grows with each ACK.
const SPARED_BYTES: u32 = 64 * 1024;
/// Delayed filtering: paper 002 §3 begins at 90 %; it ends where the link has room again.
const UPPER_PERMILLE: u32 = 900;
const LOWER_PERMILLE: u32 = 700;
/// Leaves are made anew, when the measured link asks for another size, no more often than this.
const RESIZE: Duration = Duration::from_secs(10);

/// The shaper of one link.
pub struct Shaper {
    link: String,
    settings: Shape,
    rates: [Option<Rate>; 2],
    measured: Measured,
    // The redirections in it go before the qdisc that they hang on.
    active: Option<Active>,
    /// While we shape, or will as soon as a rate is known.
    clsact: Option<Clsact>,
    refused: Option<String>,
    /// Refused for now: no rate is known, or packets wait where none may.
    may_start_later: bool,
    /// What the comparison came to, until it has been passed on.
    news: Option<Comparison>,
}

/// A shaper at work.
struct Active {
    // Packets are sent elsewhere before the programs go.
    downlink: Option<Shaping>,
    uplink: Option<Shaping>,
    programs: ShapePrograms,
    wan: u32,
    mtu: u32,
    filter: AckFilter,
    filter_trouble: Option<String>,
    delta: u32,
    counts: abi::pendulum_shape_counts,
    /// Connections whose ACKs left within the last second or two.
    acknowledging: u32,
    /// There was an upload for ACKs to take turns with.
    uploads: bool,
    resized: Instant,
    test: Option<AbTest>,
    told: Outcome,
}

impl Shaper {
    /// A shaper that does nothing yet.
    pub fn new(link: &str, settings: Shape, rates: [Option<Rate>; 2]) -> Self {
        Self {
            link: link.to_owned(),
            settings,
            rates,
            measured: Measured::default(),
            active: None,
            clsact: None,
            refused: None,
            may_start_later: false,
            news: None,
        }
    }

    /// Whether the settings differ from those in use: then [`Self::stop`] and [`Self::start`], unless only rates
    /// have changed and [`Self::set_rates`] is enough.
    pub fn differs(&self, settings: &Shape) -> bool {
        self.settings != *settings
    }

    /// Other settings from the next start on.
    pub fn configure(&mut self, settings: &Shape) {
        self.settings.clone_from(settings);
    }

    /// Whether it is worth while to call [`Self::start`] again once a rate is known.
    pub fn may_start_later(&self) -> bool {
        self.may_start_later
    }

    /// Whether a rate is of any use.
    pub fn is_wanted(&self) -> bool {
        self.settings.mode != ShapeMode::Off
    }

    /// The device's programs hang; shape it if that is wanted. A refusal is told once and kept for the snapshot.
    pub fn start(&mut self, device: &Device) {
        let refused_before = self.refused.take();
        self.may_start_later = false;
        if self.settings.mode == ShapeMode::Off || self.active.is_some() {
            return;
        }
        let patience = if refused_before.is_some() { Duration::ZERO } else { Clsact::PATIENCE };
        match self.build(device, patience) {
            Ok(active) => {
                let line = active.uplink.as_ref().map(|uplink| *uplink.line());
                info!(
                    link = self.link,
                    mode = self.settings.mode.name(),
                    ack_filter = active.filter.name(),
                    rate = line.map(|line| line.rate.to_string()),
                    buffer_bytes = line.map(|line| line.data_bytes),
                    downlink = active.downlink.is_some(),
                    "shaping"
                );
                if let Some(trouble) = &active.filter_trouble {
                    warn!(link = self.link, "no ACK is withheld: {trouble}");
                }
                self.active = Some(active);
                self.tell_kernel();
            }
            Err(error) => {
                let reason = bpf::chain(&error);
                if refused_before.as_ref() != Some(&reason) {
                    warn!(link = self.link, "not shaped: {reason}");
                }
                self.refused = Some(reason);
                self.may_start_later = error.may_pass();
                if !self.may_start_later {
                    self.clsact = None;
                }
            }
        }
    }

    fn build(&mut self, device: &Device, patience: Duration) -> Result<Active, ShapeError> {
        let enforce = self.settings.mode == ShapeMode::Enforce;
        let tree = QdiscTree::read(device.index).unwrap_or_default();
        // A rate is learnt while packets wait, and then it is too late for this one.
        if enforce && tree.has("hfsc") {
            self.put_clsact(device, patience)?;
        }
        let line = plan::uplink(&self.settings, self.rates, &self.measured, device.mtu)
            .ok_or(ShapeError::NoUplinkRate(error::UNLEARNT))?;
        let down = plan::downlink(&self.settings, self.rates, &self.measured, device.mtu);
        if enforce {
            let filters = control::read_filters(device.index);
            let facts = guard::Facts { device: &device.name, tree: &tree, filters: &filters };
            guard::check(&facts, &self.settings, line.rate)?;
            if self.settings.downlink && down.is_none() {
                return Err(ShapeError::NoDownlinkRate);
            }
        }
        let link_layer = match device.link_layer {
            LinkLayer::RawIp => bpf::LinkLayer::RawIp,
            LinkLayer::Ethernet | LinkLayer::Unknown(_) => bpf::LinkLayer::Ethernet,
        };
        let programs = ShapePrograms::load(link_layer, !enforce)?;
        let (filter, filter_trouble) = match programs.confirms_enqueue() {
            Ok(()) => (self.settings.ack_filter, None),
            Err(reason) if self.settings.ack_filter != AckFilter::Off => {
                (AckFilter::Off, Some(reason.to_owned()))
            }
            Err(_) => (AckFilter::Off, None),
        };
        let now = Instant::now();
        let mut active = Active {
            downlink: None,
            uplink: None,
            programs,
            wan: device.index,
            mtu: device.mtu,
            filter,
            filter_trouble,
            delta: plan::delta(&self.settings, line.rate, &self.measured),
            counts: abi::pendulum_shape_counts::default(),
            acknowledging: 0,
            uploads: false,
            resized: now,
            test: self.settings.ab_test.map(|length| AbTest::new(length, now)),
            told: Outcome::Undecided,
        };
        // Every error from here on takes back what was made, by dropping it.
        if enforce {
            active.uplink = Some(Shaping::build(Way::Uplink, device.index, &device.name, line)?);
            self.put_clsact(device, patience)?;
        }
        active.programs.attach(ShapeHook::Uplink, &device.name)?;
        if let Some(down) = down.filter(|_| enforce && self.settings.downlink) {
            active.downlink = Some(Shaping::build(Way::Downlink, device.index, &device.name, down)?);
            active.programs.attach(ShapeHook::Downlink, &device.name)?;
        }
        active.redirect(true).map_err(|source| ShapeError::Kernel {
            step: "redirect packets of",
            device: device.name.clone(),
            source,
        })?;
        Ok(active)
    }

    fn put_clsact(&mut self, device: &Device, patience: Duration) -> Result<(), ShapeError> {
        if self.clsact.is_none() {
            let failed = |source| ShapeError::Clsact { device: device.name.clone(), source };
            self.clsact = Some(Clsact::on(device.index, patience).map_err(failed)?);
        }
        Ok(())
    }

    /// Takes everything down. What stands in the queues leaves first, for at most a second.
    pub fn stop(&mut self) {
        let clsact = self.clsact.take();
        let Some(mut active) = self.active.take() else { return };
        active.quiesce(&self.settings, &self.measured);
        // What was said about it is over.
        self.news =
            active.test.as_ref().map(|test| Comparison { outcome: Outcome::Undecided, ..test.comparison() });
        drop(active);
        drop(clsact);
        info!(link = self.link, "shaping ended; the device is as it was");
    }

    fn tell_kernel(&mut self) {
        let Some(active) = &mut self.active else { return };
        if let Err(error) = active.tell_kernel(&self.settings, self.rates, &self.measured, active.filter) {
            warn!(link = self.link, "{}", bpf::chain(&error));
        }
    }

    /// The shaping device, from which uplink packets come a second time; none if there is none.
    pub fn device(&self) -> Option<u32> {
        Some(self.active.as_ref()?.uplink.as_ref()?.ifindex)
    }

    /// The device whose root qdisc is the uplink's queue, if it is one of ours.
    pub fn queue_device(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        active.shapes().then_some(active.uplink.as_ref()?.ifindex)
    }

    /// The device whose root qdisc is the downlink's queue, if it is one of ours.
    pub fn downlink_device(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        active.shapes().then_some(active.downlink.as_ref()?.ifindex)
    }

    /// The programs, for metrics.
    pub fn programs(&self) -> Vec<bpf::ProgramStatus> {
        self.active.as_ref().map(|active| active.programs.programs()).unwrap_or_default()
    }

    /// What readers see.
    pub fn snapshot(&self) -> ShapeSnapshot {
        let Some(active) = &self.active else {
            let state =
                self.refused.as_deref().map_or(ShapeState::Off, |why| ShapeState::Refused(why.into()));
            return ShapeSnapshot { state, ..ShapeSnapshot::default() };
        };
        let line = |shaping: &Option<Shaping>| {
            shaping.as_ref().map(|shaping| (shaping.line().rate.bits_per_second(), shaping.line().data_bytes))
        };
        ShapeSnapshot {
            state: match self.settings.mode {
                ShapeMode::Enforce if active.shapes() => ShapeState::Enforcing,
                ShapeMode::Enforce => ShapeState::Observing,
                ShapeMode::DryRun | ShapeMode::Off => ShapeState::DryRun,
            },
            ack_filter: active.filter.name(),
            filter_trouble: active.filter_trouble.as_deref().map(Into::into),
            delta: active.delta,
            lines: [line(&active.uplink), line(&active.downlink)],
            rate_source: None,
            counts: active.counts,
            comparison: active.test.as_ref().map(AbTest::comparison),
        }
    }
}

impl Active {
    /// Whether this turn shapes; always, without a comparison.
    fn shapes(&self) -> bool {
        self.test.as_ref().is_none_or(AbTest::shapes)
    }

    fn redirect(&mut self, on: bool) -> io::Result<()> {
        [&mut self.uplink, &mut self.downlink]
            .into_iter()
            .flatten()
            .try_for_each(|shaping| shaping.redirect(on))
    }

    /// No ACK is withheld any more, no packet comes in, and what stands in the queues leaves: with it go the numbers
    /// of the last ones withheld.
    fn quiesce(&mut self, settings: &Shape, measured: &Measured) {
        let quiet =
            self.tell_kernel(settings, [None, None], measured, AckFilter::Off).map_err(|e| bpf::chain(&e));
        let stopped = self.redirect(false).map_err(|e| e.to_string());
        if let Err(error) = quiet.and(stopped) {
            warn!("while shaping ends: {error}");
        }
        for shaping in [&self.uplink, &self.downlink].into_iter().flatten() {
            shaping.drain();
        }
    }

    fn tell_kernel(
        &mut self,
        settings: &Shape,
        rates: [Option<Rate>; 2],
        measured: &Measured,
        filter: AckFilter,
    ) -> Result<(), BpfError> {
        let line = match &self.uplink {
            Some(uplink) => Some(*uplink.line()),
            None => plan::uplink(settings, rates, measured, self.mtu),
        };
        let Some(line) = line else {
            return self.programs.control(pendulum_shape_control::default());
        };
        let uplink = self.uplink.as_ref().map_or(0, |uplink| uplink.ifindex);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.delta = plan::delta(settings, line.rate, measured);
        // Without redirection the packet meets a qdisc that knows nothing of our classes.
        let classes = uplink != 0 && self.shapes();
        let (sparse_bytes, silence) = plan::sparse(&line);
        self.programs.control(pendulum_shape_control {
            channel_bytes_per_s: line.rate.bytes_per_second() as u64,
            window_ns: nanoseconds(plan::window(&line, measured)),
            carrier_ns: nanoseconds(plan::carrier_age(&line)),
            idle_ns: nanoseconds(IDLE),
            mode: match settings.mode {
                ShapeMode::Off => abi::PENDULUM_SHAPE_OFF,
                ShapeMode::DryRun => abi::PENDULUM_SHAPE_DRY_RUN,
                ShapeMode::Enforce => abi::PENDULUM_SHAPE_ENFORCE,
            },
            filter: match if self.shapes() { filter } else { AckFilter::Off } {
                AckFilter::Off => abi::PENDULUM_FILTER_OFF,
                AckFilter::Static => abi::PENDULUM_FILTER_STATIC,
                AckFilter::Delayed => abi::PENDULUM_FILTER_DELAYED,
                AckFilter::PerConnection => abi::PENDULUM_FILTER_PER_CONNECTION,
            },
            delta: self.delta,
            stretch: STRETCH,
            spared_bytes: SPARED_BYTES,
            upper_permille: UPPER_PERMILLE,
            lower_permille: LOWER_PERMILLE,
            uplink_ifindex: uplink,
            queue_ifindex: if uplink == 0 { self.wan } else { uplink },
            netns: 0,
            lane_priority: if classes { LANE_PRIORITY } else { 0 },
            turn_priority: if classes && self.turn(settings).is_some() { TURN_PRIORITY } else { 0 },
            merge_sack: settings.merge_sack.into(),
            sparse_priority: if classes { SPARSE_PRIORITY } else { 0 },
            sparse_bytes,
            sparse_idle_ns: nanoseconds(silence),
            ..pendulum_shape_control::default()
        })
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.programs.detach();
        self.downlink = None;
        self.uplink = None;
    }
}
