//! The shaper's part of the kernel: looked at anew each time, and changed step by step.

use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;
use tracing::{debug, warn};

use super::ShapeError;
use super::desired::{Actual, Desired, HANDLE, ShapingStep, Standing, is_shaper};
use crate::bpf::ShapePrograms;
use crate::net::cake::{self, Cake};
use crate::net::clsact;
use crate::net::control::{self, read_filters};
use crate::net::qdisc::{self, ListedQdisc};

/// A queue without limit leaves within this time, or is given up.
const DRAIN: Duration = Duration::from_millis(800);
/// From nothing to two queues it takes twelve; more than this is a fight with somebody.
const MOST_STEPS: usize = 40;

/// The way from what is there to what is wanted. What it keeps cannot be looked at: which qdiscs it has added itself.
#[derive(Debug, Default)]
pub(super) struct Reconciler {
    own_clsact: Option<BTreeSet<u32>>,
    /// For a clsact qdisc that could not be added it was waited once.
    has_waited: bool,
}

impl Reconciler {
    /// Looks at the kernel. Filters first: a shaper that another link makes meanwhile has its device before its filter.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn look(&self, listed: &[ListedQdisc]) -> io::Result<Actual> {
        let holders = listed.iter().filter(|one| one.holds_filters());
        let clsact = holders.clone().filter(|one| one.qdisc.kind == "clsact").map(|one| one.ifindex);
        let filters: io::Result<Vec<_>> = holders.map(|one| read_filters(one.ifindex)).collect();
        let queues = control::list_ifbs()?.into_iter().filter(is_shaper).map(|ifb| {
            let root = listed.iter().find(|one| one.ifindex == ifb.index && one.qdisc.handle == HANDLE);
            let cake = root.filter(|root| root.qdisc.kind == "cake");
            Standing {
                cake: cake.map(|cake| (cake.options.clone(), cake.qdisc.rate)),
                backlog: root.map_or(0, |root| root.qdisc.backlog_packets),
                ifb,
            }
        });
        let own = self.own_clsact.iter().flatten().copied();
        Ok(Actual {
            queues: queues.collect(),
            filters: filters?.concat(),
            own_clsact: own.filter(|device| clsact.clone().any(|one| one == *device)).collect(),
            clsact: clsact.collect(),
            program: false,
        })
    }

    /// Takes steps until all is as wanted; `found` is what is there, and is there then. Answers the steps that made a difference. `patient`: waits,
    /// for less than two seconds, for moments in which no packet is lost; otherwise it waits for nothing.
    ///
    /// # Errors
    /// A step that the kernel refuses. What was done before it stays, and is seen by who looks next.
    pub(super) async fn reach(
        &mut self,
        wanted: &Desired,
        found: &mut Actual,
        mut programs: Option<&mut ShapePrograms>,
        patient: bool,
    ) -> Result<Vec<ShapingStep>, ShapeError> {
        let failed = |step: &str, source| ShapeError::kernel(step, &wanted.link, source);
        let mut taken = Vec::new();
        let mut drain_ends = patient.then(|| Instant::now() + DRAIN);
        if self.own_clsact.is_none() {
            found.own_clsact = wanted.left_clsact(found);
            self.own_clsact = Some(found.own_clsact.clone());
        }
        loop {
            found.program = programs.as_deref().is_some_and(|programs| match wanted.program {
                true => programs.is_on(&wanted.link, &found.filters),
                false => programs.is_attached(),
            });
            let drains = drain_ends.is_some_and(|end| Instant::now() < end);
            let Some(step) = wanted.next(found, drains) else { return Ok(taken) };
            if taken.last() == Some(&step) {
                let source =
                    io::Error::other(format!("the kernel accepts the {step}, and then shows another"));
                return Err(failed("keep the shaper of", source));
            }
            if taken.len() == MOST_STEPS {
                let source = io::Error::other("another program undoes each change");
                return Err(failed("keep the shaper of", source));
            }
            debug!(link = wanted.link, ?step, "the shaper's next step");
            match &step {
                ShapingStep::Wait => tokio::time::sleep(Duration::from_millis(5)).await,
                ShapingStep::AddClsact(device) | ShapingStep::RemoveClsact(device)
                    if patient && !self.has_waited =>
                {
                    clsact::quiet_moment(*device).await;
                    self.has_waited = true;
                }
                _ => {}
            }
            match self.carry_out(&step, wanted, programs.as_deref_mut()) {
                Err(error) if matches!(step, ShapingStep::Unlimit(_)) => {
                    let why = crate::exit::chain(&error);
                    warn!(link = wanted.link, "packets in the shaper leave at its rate, or are lost: {why}");
                    drain_ends = None;
                }
                done => done?,
            }
            if !matches!(step, ShapingStep::Unlimit(_) | ShapingStep::Wait) {
                self.has_waited = false;
                taken.push(step);
            }
            *found = qdisc::list()
                .and_then(|listed| self.look(&listed))
                .map_err(|source| failed("look at the qdiscs and filters of", source))?;
        }
    }

    fn carry_out(
        &mut self,
        step: &ShapingStep,
        wanted: &Desired,
        programs: Option<&mut ShapePrograms>,
    ) -> Result<(), ShapeError> {
        let link = &wanted.link;
        let own = self.own_clsact.get_or_insert_default();
        let done = match step {
            ShapingStep::RemoveFilter { filter, is_last } => control::remove_filter(filter, *is_last),
            ShapingStep::DeleteDevice(ifb) => control::delete_device(ifb.index),
            ShapingStep::AddDevice(name) => control::add_ifb(name),
            ShapingStep::SetUp { ifindex, alias, .. } => control::set_up(*ifindex, alias),
            ShapingStep::PutQueue { ifindex, cake, changes: true, .. } => cake.change(*ifindex, HANDLE),
            ShapingStep::PutQueue { ifindex, cake, .. } => match cake.replace(*ifindex, HANDLE) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(ShapeError::NoCake),
                other => other,
            },
            ShapingStep::AddClsact(device) => {
                let added = clsact::add(*device).map(|is_new| is_new && own.insert(*device));
                return added.map(drop).map_err(|source| ShapeError::Clsact { device: link.clone(), source });
            }
            ShapingStep::RemoveClsact(device) => {
                clsact::remove(*device).inspect(|()| own.retain(|one| one != device))
            }
            ShapingStep::Attach => match programs {
                Some(programs) => return programs.attach(&wanted.link).map_err(ShapeError::Bpf),
                None => Ok(()),
            },
            ShapingStep::Detach => {
                programs.into_iter().for_each(ShapePrograms::detach);
                Ok(())
            }
            ShapingStep::Redirect { wan, side, priority, to } => {
                control::add_redirection(*wan, *side, *priority, *to)
            }
            ShapingStep::Unlimit(ifindex) => cake::unlimit(*ifindex, HANDLE),
            ShapingStep::Wait => Ok(()),
        };
        let verb = if step.removes() { "remove" } else { "set up" };
        done.map_err(|source| ShapeError::kernel(&format!("{verb} the {step} for"), link, source))
    }
}

/// What stands of a link's queue in one direction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InPlace {
    pub(super) ifindex: u32,
    /// As it was wanted.
    pub(super) cake: Cake,
    /// Packets and bytes that have left it.
    pub(super) sent: [u64; 2],
    pub(super) redirects: bool,
}

impl InPlace {
    pub(super) fn of(wanted: &Desired, found: &Actual, direction: Direction) -> Option<Self> {
        let (standing, queue) = (wanted.standing(found, direction)?, wanted.queues[direction]?);
        let redirects = wanted.redirection(found, direction).is_some();
        Some(Self { ifindex: standing.ifb.index, cake: queue.cake, sent: standing.ifb.sent, redirects })
    }
}

/// Takes away what shapers of a link have left, on whatever device. Answers what it was.
///
/// # Errors
/// The kernel refuses.
pub async fn remove_left(link: &str) -> Result<Vec<String>, ShapeError> {
    let mut reconciler = Reconciler::default();
    let failed = |source| ShapeError::kernel("look for shapers of", link, source);
    let mut found = qdisc::list().and_then(|listed| reconciler.look(&listed)).map_err(failed)?;
    let taken = reconciler.reach(&Desired::nothing(link), &mut found, None, true).await?;
    Ok(taken.iter().map(ShapingStep::to_string).collect())
}

/// On what shapers and programs of ours stand, running or left behind: names that WAN devices had, and devices with filters.
///
/// # Errors
/// Route netlink does not answer.
pub fn shaped_devices() -> io::Result<(BTreeSet<String>, BTreeSet<u32>)> {
    let found = qdisc::list().and_then(|listed| Reconciler::default().look(&listed))?;
    let names = found.queues.iter().map(|queue| queue.wan_name().to_owned()).collect();
    let ours = found.filters.iter().filter(|filter| filter.is_of_this_program());
    Ok((names, ours.map(|filter| filter.device).collect()))
}
