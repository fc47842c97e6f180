//! Acting on the link: its queue is made here, a little below the link's rate, and managed by cake. docs/design/shaping.md.
//!
//! [`plan`] has the figures, [`desired`] what the kernel is to have and the next step to it, [`kernel`] looks and takes the steps,
//! [`conflict`] names what is in the way, [`trial`] asks whether shaping helps, [`behind`] whether it works; the kernel side is
//! `bpf/shape/shape.bpf.c`. Whatever fails, packets pass.

mod behind;
mod conflict;
mod desired;
mod error;
mod evidence;
mod follow;
mod kernel;
mod plan;
mod probe;
mod rates;
mod readings;
mod tell;
mod trial;
mod upkeep;

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use tracing::{info, warn};

use crate::bpf::{self, ShapePrograms, abi};
use crate::config::{LinkConfig, ShapeConfig, ShapeMode};
use crate::net::cake::Cake;
use crate::net::control::Filter;
use crate::net::qdisc::{self, ListedQdisc};
use crate::net::{Device, LinkLayer, QdiscTree, port_speed};
use behind::BehindWatch;
use desired::{Actual, Desired, Queue, ShapingStep};
use follow::Follower;
use kernel::{InPlace, Reconciler};
use probe::Prober;
use trial::Trial;

pub use behind::Behind;
pub use error::ShapeError;
pub use evidence::{Comparison, TrialOutcome, TrialTurn};
pub use follow::{OwnLevel, Passing, RateChange, RepliedTraffic};
pub use kernel::{remove_left, shaped_devices};
pub use plan::MeasuredTraffic;
pub use rates::{OtherRates, Uplink};

/// The verifier of a small machine takes seconds for a program: one that was refused is not tried each second.
const LOAD_AGAIN: Duration = Duration::from_secs(60);

/// The shaper of one link.
pub struct Shaper {
    link: String,
    wan: String,
    settings: ShapeConfig,
    rates: PerDirection<Option<Rate>>,
    measured: MeasuredTraffic,
    reconciler: Reconciler,
    active: Option<ActiveShaper>,
    /// With `rate = "auto"`.
    follower: Option<Follower>,
    /// With `probe`; what was not to be had is not tried again.
    prober: Option<Result<Prober, ()>>,
    /// As last looked at.
    in_place: PerDirection<Option<InPlace>>,
    /// Why it is not as wanted.
    problem: Option<String>,
    /// Nothing is wanted, and nothing is left.
    is_clean: bool,
    not_loaded: Option<(Instant, String)>,
    /// What the comparison came to, until it has been passed on.
    news: Option<Comparison>,
    /// Whether it was reported that the shaper does not work.
    told_ineffective: bool,
}

/// A shaper at work.
struct ActiveShaper {
    /// Of the ACK filter, while it is wanted.
    programs: Option<ShapePrograms>,
    delta: u32,
    counts: abi::pendulum_shape_counts,
    trial: Option<Trial>,
    reported: TrialOutcome,
    watch: BehindWatch,
}

/// What is to become of a link.
struct Wanted {
    state: Desired,
    /// Whether the shaper is at work then.
    works: bool,
    /// Why it will be of no use, if that is known.
    why: Option<ShapeError>,
}

impl Wanted {
    fn nothing(link: &str, why: Option<ShapeError>) -> Self {
        Self { state: Desired::nothing(link), works: false, why }
    }
}

impl Shaper {
    /// A shaper that does nothing yet.
    pub fn new(link: &LinkConfig, settings: ShapeConfig) -> Self {
        Self {
            link: link.name.clone(),
            wan: link.wan.clone(),
            follower: None,
            prober: None,
            settings,
            rates: link.rates,
            measured: MeasuredTraffic::default(),
            reconciler: Reconciler::default(),
            active: None,
            in_place: PerDirection::default(),
            problem: None,
            is_clean: false,
            not_loaded: None,
            news: None,
            told_ineffective: false,
        }
    }

    /// Other settings, from the next [`Self::reconcile`] on: then a comparison begins anew, and rates are found anew.
    pub fn configure(&mut self, settings: &ShapeConfig) {
        if self.settings != *settings {
            self.settings.clone_from(settings);
            self.follower = Follower::of(settings, self.rates);
            self.prober = None;
            self.not_loaded = None;
            if let Some(active) = &mut self.active {
                active.trial = Trial::new(settings, Instant::now());
            }
        }
    }

    /// The link's rates are others now (configuration, or learnt). What was known holds while nothing is.
    pub fn set_rates(&mut self, rates: PerDirection<Option<Rate>>) {
        let is_active = self.active.is_some();
        self.rates = PerDirection::from_fn(|x| rates[x].or(self.rates[x].filter(|_| is_active)));
    }

    /// Whether a rate is of any use.
    pub fn is_wanted(&self) -> bool {
        self.settings.mode != ShapeMode::Off
    }

    /// Makes the kernel's state what is wanted; without a device that is nothing. What the kernel refuses is reported once, and tried again
    /// the next time. `mends`: nothing else was to be done than what somebody has undone.
    pub async fn reconcile(&mut self, device: Option<&Device>, mends: bool) {
        let device = device.filter(|_| self.is_wanted());
        if device.is_none() && self.is_clean {
            self.problem = None;
            return;
        }
        let was_active = self.active.is_some();
        let problem = self.attempt(device, mends).await.err().map(|error| crate::exit::chain(&error));
        if problem != self.problem {
            match &problem {
                Some(why) if self.redirects() => warn!(link = self.link, "shaping does not work: {why}"),
                Some(why) => warn!(link = self.link, "not shaped: {why}"),
                None if was_active => info!(link = self.link, "shaping works again"),
                None => {}
            }
            self.problem = problem;
        }
    }

    async fn attempt(&mut self, device: Option<&Device>, mends: bool) -> Result<(), ShapeError> {
        let failed = |source| ShapeError::kernel("look at the qdiscs and filters of", &self.wan, source);
        let listed = qdisc::list().map_err(failed)?;
        let mut found = self.reconciler.look(&listed).map_err(failed)?;
        let is_first = self.active.is_none();
        if is_first {
            self.follower = Follower::of(&self.settings, self.rates);
        }
        let decided = match device {
            Some(device) => self
                .want(device, &listed, &found)
                .and_then(|wanted| self.load_for(&wanted, device).map(|()| wanted)),
            None => Ok(Wanted::nothing(&self.wan, None)),
        };
        let Wanted { state: wanted, works, why } =
            decided.unwrap_or_else(|why| Wanted::nothing(&self.wan, Some(why)));
        let passes = |wanted: &Desired| wanted.queues.up.is_some_and(|queue| queue.redirects);
        if self.redirects() && !passes(&wanted) {
            // What is withheld now leaves with what stands in the queue.
            self.tell_kernel(false)?;
        }
        let cakes = PerDirection::from_fn(|x| wanted.queues[x].map(|queue| queue.cake));
        let adjusts = PerDirection::from_fn(|x| self.in_place[x].as_ref().map(|place| place.cake)) != cakes;
        let steps = self.reach(&wanted, &mut found, true).await?;
        if is_first {
            for step in steps.iter().filter(|step| step.removes()) {
                info!(link = self.link, "removed what an earlier run had left: {step}");
            }
            if why.is_none() && self.active.is_some() {
                self.announce();
            }
        } else if mends {
            let by_us = |step: &&ShapingStep| match step {
                ShapingStep::PutQueue { changes: true, .. } => adjusts,
                // Once nothing is withheld any more.
                ShapingStep::Detach => true,
                _ => false,
            };
            let mended: Vec<String> =
                steps.iter().filter(|step| !by_us(step)).map(ShapingStep::to_string).collect();
            if !mended.is_empty() && why.is_none() {
                warn!(
                    link = self.link,
                    "somebody has changed the shaper, it was mended: {}",
                    mended.join(", ")
                );
            }
        }
        if !works {
            self.end();
        }
        self.tell_kernel(true)?;
        if let Some(active) = &mut self.active {
            active.programs.take_if(|_| !wanted.program);
            active.counts = active.programs.as_ref().map_or(Ok(active.counts), ShapePrograms::counts)?;
        }
        why.map_or(Ok(()), Err)
    }

    fn want(&self, device: &Device, listed: &[ListedQdisc], found: &Actual) -> Result<Wanted, ShapeError> {
        let (wan, name) = (device.index, device.name.as_str());
        let acts = self.settings.mode.acts();
        let failed = |source| ShapeError::kernel("list the classes of", name, source);
        let tree = QdiscTree::of(wan, listed).map_err(failed)?;
        let mut wanted = Desired { wan: Some(wan), ..Desired::nothing(&self.wan) };
        let up = match self.cake(Direction::Up) {
            // A rate is learnt while packets wait in it, and then it is too late for a clsact.
            Err(why @ ShapeError::NoUplinkRate) if acts && tree.has("hfsc") => {
                let cake = plan::cake_at(&self.settings, Direction::Up, None);
                wanted.queues.up = Some(Queue { cake, redirects: false });
                return Ok(Wanted { state: wanted, works: false, why: Some(why) });
            }
            up => up?,
        };
        // A driver that does not tell its speed is no reason to refuse, and those of tunnels tell what is not so (tun: 10 Mbit/s). A rate that
        // is found is what passes.
        let has_port = device.link_layer == LinkLayer::Ethernet && self.follower.is_none();
        let speed = has_port.then(|| port_speed(name).ok().flatten()).flatten();
        plan::fits(name, speed, Direction::Up, &up)?;
        wanted.program = self.wants_program()?;
        if !acts {
            return Ok(Wanted { state: wanted, works: true, why: None });
        }
        let redirects = self.active.as_ref().is_none_or(ActiveShaper::shapes);
        wanted.queues.up = Some(Queue { cake: up, redirects });
        if self.settings.downlink {
            let cake = self.cake(Direction::Down)?;
            plan::fits(name, speed, Direction::Down, &cake)?;
            wanted.queues.down = Some(Queue { cake, redirects });
        }
        let rate = up.rate.ok_or(ShapeError::NoUplinkRate)?;
        match conflict::found(name, &tree, &others(wan, found), self.settings.downlink, rate) {
            Some(why) if self.active.is_none() => Err(why),
            why => Ok(Wanted { state: wanted, works: true, why }),
        }
    }

    /// Turned off, the ACK filter stays for one more look: what it has withheld leaves meanwhile.
    fn wants_program(&self) -> Result<bool, ShapeError> {
        let programs = self.active.as_ref().and_then(|active| active.programs.as_ref());
        let withholds = programs.map_or(Ok(false), ShapePrograms::withholds)?;
        Ok(withholds || self.settings.filters())
    }

    /// The queue of one direction by what is known now.
    fn cake(&self, direction: Direction) -> Result<Cake, ShapeError> {
        if let Some(rate) = self.follower.as_ref().and_then(|follower| follower.rate(direction)) {
            return Ok(plan::cake_at(&self.settings, direction, Some(rate)));
        }
        let unknown = || match direction {
            Direction::Up => ShapeError::NoUplinkRate,
            Direction::Down => ShapeError::NoDownlinkRate,
        };
        plan::cake(&self.settings, direction, self.rates[direction].ok_or_else(unknown)?)
    }

    fn load_for(&mut self, wanted: &Wanted, device: &Device) -> Result<(), ShapeError> {
        if !wanted.works {
            return Ok(());
        }
        let now = Instant::now();
        let is_loaded = self.active.as_ref().is_some_and(|active| active.programs.is_some());
        let programs = match wanted.state.program && !is_loaded {
            true => Some(self.load(now, device)?),
            false => None,
        };
        let active = self.active.get_or_insert_with(|| ActiveShaper {
            programs: None,
            delta: 0,
            counts: abi::pendulum_shape_counts::default(),
            trial: Trial::new(&self.settings, now),
            reported: TrialOutcome::Undecided,
            watch: BehindWatch::default(),
        });
        active.programs = programs.or(active.programs.take());
        Ok(())
    }

    fn load(&mut self, now: Instant, device: &Device) -> Result<ShapePrograms, ShapeError> {
        if let Some((at, why)) = &self.not_loaded
            && now.duration_since(*at) < LOAD_AGAIN
        {
            return Err(ShapeError::NotLoaded(why.clone()));
        }
        ShapePrograms::load(device.link_layer).map_err(|error| {
            let why = crate::exit::chain(&error);
            self.not_loaded = Some((now, why.clone()));
            ShapeError::NotLoaded(why)
        })
    }

    async fn reach(
        &mut self,
        wanted: &Desired,
        found: &mut Actual,
        patient: bool,
    ) -> Result<Vec<ShapingStep>, ShapeError> {
        let programs = self.active.as_mut().and_then(|active| active.programs.as_mut());
        let reached = self.reconciler.reach(wanted, found, programs, patient).await;
        // What was done before a step failed is there too.
        self.in_place = PerDirection::from_fn(|x| InPlace::of(wanted, found, x));
        self.is_clean = reached.is_ok() && *wanted == Desired::nothing(&self.wan);
        reached
    }

    fn announce(&self) {
        let rate = self.rate(Direction::Up).map(|rate| rate.to_string());
        info!(
            link = self.link,
            mode = self.settings.mode.name(),
            ack_filter = self.settings.ack_filter.name(),
            rate,
            downlink = self.in_place.down.is_some(),
            "shaping"
        );
    }

    /// Nothing of it is in the kernel any more.
    fn end(&mut self) {
        let Some(active) = self.active.take() else { return };
        // The device may be another one the next time.
        self.prober = None;
        let undecided = |trial: Trial| Comparison { outcome: TrialOutcome::Undecided, ..trial.comparison() };
        self.news = active.trial.map(undecided);
        info!(link = self.link, "shaping ended; the device is as it was");
    }

    /// The rate of a direction that is shaped.
    fn rate(&self, direction: Direction) -> Option<Rate> {
        self.in_place[direction].as_ref()?.cake.rate
    }

    /// Whether packets pass the uplink's queue.
    fn redirects(&self) -> bool {
        self.in_place.up.as_ref().is_some_and(|place| place.redirects)
    }

    /// The shaping device, from which uplink packets come a second time, and whether they pass it at present; none if there is none.
    pub fn device(&self) -> Option<(u32, bool)> {
        self.in_place.up.as_ref().map(|place| (place.ifindex, place.redirects))
    }

    /// The programs, for metrics.
    pub fn programs(&self) -> Vec<bpf::ProgramStatus> {
        let programs = self.active.as_ref().and_then(|active| active.programs.as_ref());
        programs.map(ShapePrograms::programs).unwrap_or_default()
    }
}

impl ActiveShaper {
    /// Whether this turn shapes; always, without a comparison.
    fn shapes(&self) -> bool {
        self.trial.as_ref().is_none_or(Trial::shapes)
    }
}

/// Filters of a device that no agent has made.
fn others(wan: u32, found: &Actual) -> Vec<&Filter> {
    let is_other = |filter: &&Filter| {
        let to_us = found.queues.iter().any(|queue| filter.to == Some(queue.ifb.index));
        filter.device == wan && !filter.is_of_this_program() && !to_us
    };
    found.filters.iter().filter(is_other).collect()
}

impl Drop for Shaper {
    fn drop(&mut self) {
        // Nobody waits any more; what [`Self::reconcile`] has reached in time is not done again.
        if (self.active.is_some() || self.in_place.up.is_some())
            && let Ok(mut found) = qdisc::list().and_then(|listed| self.reconciler.look(&listed))
        {
            let nothing = Desired::nothing(&self.wan);
            if let Some(Err(error)) = self.reach(&nothing, &mut found, false).now_or_never() {
                warn!(link = self.link, "{}; the next start tries again", crate::exit::chain(&error));
            }
        }
    }
}
