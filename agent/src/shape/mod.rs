//! Acting on the link: its queue is made here, a little below the link's rate, and managed by cake. docs/design/shaping.md.
//!
//! [`plan`] has the figures, [`takeover`] what is in the way, [`device`] makes the queue, [`trial`] asks whether it helps, [`behind`]
//! whether it works; the kernel side is `bpf/shape/shape.bpf.c`. All that is made can be recognised and is removed at the end, by the
//! next start, and by `pendulum run --cleanup`. Whatever fails, packets pass.

mod behind;
mod device;
mod error;
mod evidence;
mod follow;
mod leftovers;
mod plan;
mod rates;
mod readings;
mod takeover;
mod tell;
mod trial;
mod upkeep;

use std::io;
use std::time::Instant;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use crate::bpf::abi;
use crate::bpf::{self, ShapePrograms};
use crate::config::{ShapeConfig, ShapeMode};
use crate::net::cake::Cake;
use crate::net::clsact::{self, Clsact};
use crate::net::control::read_filters;
use crate::net::{Device, LinkLayer, QdiscTree, port_speed};
use crate::snapshot::{Comparison, Outcome, ShapeSnapshot, ShapeState};
use behind::Watch;
use device::Shaping;
use follow::Follower;
use plan::Port;
use takeover::Takeover;
use trial::Trial;

pub use behind::Behind;
pub use error::ShapeError;
pub use evidence::ShapeReading;
pub use follow::{OwnLevel, RateChange, Seen as Passing};
pub use leftovers::{remove_leftovers, remove_orphans, shaped_devices};
pub use plan::Measured;
pub use rates::{Seen, Uplink};

/// Of the redirecting filter: behind what the user has.
const FILTER_PRIORITY: u16 = 60_000;

/// The shaper of one link.
pub struct Shaper {
    link: String,
    settings: ShapeConfig,
    rates: [Option<Rate>; 2],
    measured: Measured,
    // The redirections in it go before the qdisc that they are attached to.
    active: Option<Active>,
    /// With `rate = "auto"`.
    follower: Option<Follower>,
    /// While we shape, or will as soon as a rate is known.
    clsact: Option<Clsact>,
    refused: Option<String>,
    /// Refused for now: no rate is known, or packets wait where none may.
    may_start_later: bool,
    /// What the comparison came to, until it has been passed on.
    news: Option<Comparison>,
    /// Whether the shaper works, if that has changed and was not yet passed on.
    effect: Option<Option<String>>,
}

/// A shaper at work.
struct Active {
    // Packets are sent elsewhere before the programs go, and another's shaper works again after that.
    shapings: PerDirection<Option<Shaping>>,
    programs: ShapePrograms,
    takeover: Takeover,
    wan: u32,
    port: Port,
    delta: u32,
    counts: abi::pendulum_shape_counts,
    trial: Option<Trial>,
    told: Outcome,
    watch: Watch,
    /// The last thing that could not be done, until it could.
    trouble: Option<String>,
}

impl Shaper {
    /// A shaper that does nothing yet.
    pub fn new(link: &str, settings: ShapeConfig, rates: [Option<Rate>; 2]) -> Self {
        Self {
            link: link.to_owned(),
            settings,
            rates,
            measured: Measured::default(),
            active: None,
            follower: None,
            clsact: None,
            refused: None,
            may_start_later: false,
            news: None,
            effect: None,
        }
    }

    /// Whether the settings differ from those in use: then [`Self::stop`] and [`Self::start`], unless only rates
    /// have changed and [`Self::set_rates`] is enough.
    pub fn differs(&self, settings: &ShapeConfig) -> bool {
        self.settings != *settings
    }

    /// Other settings from the next start on.
    pub fn configure(&mut self, settings: &ShapeConfig) {
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

    /// The rate of a cake on the device that ours has put out of use.
    pub fn taken_over(&self) -> Option<Rate> {
        self.active.as_ref()?.takeover.rate()
    }

    /// The device's programs are attached; shape it if that is wanted. A refusal is told once and kept for the snapshot.
    pub async fn start(&mut self, device: &Device) {
        let refused_before = self.refused.take();
        self.may_start_later = false;
        if self.settings.mode == ShapeMode::Off || self.active.is_some() {
            return;
        }
        // Asked again each second, it waits no more.
        if self.settings.mode.acts() && self.clsact.is_none() && refused_before.is_none() {
            clsact::quiet_moment(device.index).await;
        }
        self.follower = Follower::of(&self.settings, self.rates);
        match self.build(device) {
            Ok(active) => {
                let rate = active.shapings.up.as_ref().and_then(|uplink| uplink.cake().rate);
                info!(
                    link = self.link,
                    mode = self.settings.mode.name(),
                    ack_filter = self.settings.ack_filter.name(),
                    rate = rate.map(|rate| rate.to_string()),
                    downlink = active.shapings.down.is_some(),
                    "shaping"
                );
                self.active = Some(active);
                self.tell_kernel();
            }
            Err(error) => {
                let reason = crate::exit::chain(&error);
                if refused_before.as_ref() != Some(&reason) {
                    warn!(link = self.link, "not shaped: {reason}");
                }
                self.refused = Some(reason);
                self.may_start_later = error.may_pass();
                if !self.may_start_later && self.clsact.is_some() {
                    clsact::quiet_moment(device.index).await;
                    self.clsact = None;
                }
            }
        }
    }

    fn build(&mut self, device: &Device) -> Result<Active, ShapeError> {
        let (wan, name) = (device.index, device.name.as_str());
        let failed =
            |step: &'static str| move |source| ShapeError::Kernel { step, device: name.to_owned(), source };
        let acts = self.settings.mode.acts();
        let tree = QdiscTree::read(wan).map_err(failed("list the qdiscs of"))?;
        // A rate is learnt while packets wait, and then it is too late for this one.
        if acts && tree.has("hfsc") {
            self.put_clsact(device)?;
        }
        // A driver that does not tell its speed is no reason to refuse, and those of tunnels tell what is not so (tun: 10 Mbit/s). A rate that
        // is found is what passes.
        let has_port = device.link_layer == LinkLayer::Ethernet && self.follower.is_none();
        let speed = has_port.then(|| port_speed(name).ok().flatten()).flatten();
        let port = Port { device: name.to_owned(), speed };
        let up = self.wanted(Direction::Up)?;
        port.fits(Direction::Up, &up)?;
        let mut down = None;
        let mut takeover = Takeover::default();
        if acts {
            if self.settings.downlink {
                let cake = self.wanted(Direction::Down)?;
                port.fits(Direction::Down, &cake)?;
                down = Some(cake);
            }
            let filters = read_filters(wan).map_err(failed("list the filters of"))?;
            let rate = up.rate.ok_or(ShapeError::NoUplinkRate(error::UNLEARNT))?;
            takeover = Takeover::plan(wan, name, &tree, &filters, &self.settings, rate)?;
            self.put_clsact(device)?;
        }
        let link_layer = match device.link_layer {
            LinkLayer::RawIp => bpf::LinkLayer::RawIp,
            LinkLayer::Ethernet | LinkLayer::Unknown(_) => bpf::LinkLayer::Ethernet,
        };
        let now = Instant::now();
        let mut active = Active {
            shapings: PerDirection::default(),
            programs: ShapePrograms::load(link_layer)?,
            takeover,
            wan,
            port,
            delta: 0,
            counts: abi::pendulum_shape_counts::default(),
            trial: Trial::new(&self.settings, now),
            told: Outcome::Undecided,
            watch: Watch::default(),
            trouble: None,
        };
        // Every error from here on takes back what was made, by dropping it.
        let build = |way, cake: Cake, active: &Active| Shaping::build(way, wan, name, cake, &active.takeover);
        if acts {
            active.shapings.up = Some(build(Direction::Up, up, &active)?);
        }
        if let Some(down) = down {
            active.shapings.down = Some(build(Direction::Down, down, &active)?);
        }
        active.programs.attach(name)?;
        active.takeover.carry_out().map_err(failed("take the limit from the cake of"))?;
        active.redirect(true).map_err(failed("redirect packets of"))?;
        Ok(active)
    }

    /// What is to be built for one direction, by what is known now.
    fn wanted(&self, direction: Direction) -> Result<Cake, ShapeError> {
        if let Some(rate) = self.follower.as_ref().and_then(|follower| follower.rate(direction)) {
            return Ok(plan::cake_at(&self.settings, direction, rate));
        }
        let unknown = || match direction {
            Direction::Up => ShapeError::NoUplinkRate(error::UNLEARNT),
            Direction::Down => ShapeError::NoDownlinkRate,
        };
        plan::cake(&self.settings, direction, self.rates[direction as usize].ok_or_else(unknown)?)
    }

    fn put_clsact(&mut self, device: &Device) -> Result<(), ShapeError> {
        if self.clsact.is_none() {
            let failed = |source| ShapeError::Clsact { device: device.name.clone(), source };
            self.clsact = Some(Clsact::on(device.index).map_err(failed)?);
        }
        Ok(())
    }

    /// Takes everything down. What stands in the queues leaves first, for at most a second.
    pub async fn stop(&mut self) {
        let clsact = self.clsact.take();
        let Some(mut active) = self.active.take() else { return };
        active.quiesce(&self.settings, &self.measured).await;
        // What was said about it is over.
        self.effect = active.watch.why().map(|_| None);
        self.news = active
            .trial
            .as_ref()
            .map(|trial| Comparison { outcome: Outcome::Undecided, ..trial.comparison() });
        let wan = active.wan;
        drop(active);
        if clsact.as_ref().is_some_and(Clsact::is_ours) {
            clsact::quiet_moment(wan).await;
        }
        drop(clsact);
        info!(link = self.link, "shaping ended; the device is as it was");
    }

    fn tell_kernel(&mut self) {
        let Some(active) = &mut self.active else { return };
        let told = active.tell_kernel(&self.settings, self.rates[0], &self.measured, true);
        active.report(
            &self.link,
            "the ACK filter is not told",
            told.map_err(|error| crate::exit::chain(&error)),
        );
    }

    /// The shaping device, from which uplink packets come a second time; none if there is none.
    pub fn device(&self) -> Option<u32> {
        Some(self.active.as_ref()?.shapings.up.as_ref()?.ifindex)
    }

    /// The device whose root qdisc is the uplink's queue, if it is one of ours.
    pub fn queue_device(&self) -> Option<u32> {
        let active = self.active.as_ref()?;
        active.shapes().then_some(active.shapings.up.as_ref()?.ifindex)
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
        let rate = |shaping: &Option<Shaping>| {
            shaping.as_ref().and_then(|shaping| shaping.cake().rate).map(Rate::bits_per_second)
        };
        ShapeSnapshot {
            state: active.state(self.settings.mode),
            ack_filter: self.settings.ack_filter.name(),
            delta: active.delta,
            rates_bps: Direction::ALL.map(|x| rate(&active.shapings[x])),
            rate_source: None,
            followed: Direction::ALL.map(|x| {
                active.shapings[x].as_ref()?;
                self.follower.as_ref().map(|follower| follower.followed(x).clone())
            }),
            counts: active.counts,
            comparison: active.trial.as_ref().map(Trial::comparison),
        }
    }
}

impl Active {
    /// Whether this turn shapes; always, without a comparison.
    fn shapes(&self) -> bool {
        self.trial.as_ref().is_none_or(Trial::shapes)
    }

    fn state(&self, mode: ShapeMode) -> ShapeState {
        if !mode.acts() {
            return ShapeState::DryRun;
        }
        if let Some(why) = self.trial.as_ref().and_then(Trial::declined) {
            return ShapeState::Declined(why.into());
        }
        if !self.shapes() {
            return ShapeState::Observing;
        }
        self.watch
            .why()
            .or(self.trouble.as_deref())
            .map_or(ShapeState::Enforcing, |why| ShapeState::Ineffective(why.into()))
    }

    fn redirect(&mut self, on: bool) -> io::Result<()> {
        let PerDirection { up, down } = &mut self.shapings;
        [up, down].into_iter().flatten().try_for_each(|shaping| shaping.redirect(on))
    }

    /// What could not be done is told once, and shown until it can be.
    fn report(&mut self, link: &str, what: &'static str, result: Result<(), String>) {
        match result.map_err(|error| format!("{what}: {error}")) {
            Ok(()) => {
                if self.trouble.as_ref().is_some_and(|trouble| trouble.starts_with(what)) {
                    self.trouble = None;
                }
            }
            Err(trouble) if self.trouble.as_ref() == Some(&trouble) => {}
            Err(trouble) => {
                warn!(link, "{trouble}");
                self.trouble = Some(trouble);
            }
        }
    }

    /// No ACK is withheld any more, no packet comes in, and what stands in the queues leaves: with it go the numbers
    /// of the last ones withheld.
    async fn quiesce(&mut self, settings: &ShapeConfig, measured: &Measured) {
        let quiet = self.tell_kernel(settings, None, measured, false).map_err(|e| crate::exit::chain(&e));
        let stopped = self.redirect(false).map_err(|e| e.to_string());
        if let Err(error) = quiet.and(stopped) {
            warn!("while shaping ends: {error}");
        }
        for shaping in [&self.shapings.up, &self.shapings.down].into_iter().flatten() {
            shaping.drain().await;
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        // Packets that stand in the queue pass the program a second time: it goes after the queue.
        self.shapings = PerDirection::default();
        self.programs.detach();
    }
}
