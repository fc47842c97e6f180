//! What the shaper wants of the kernel, what is there, and the next step from the one to the other. No side effects.
//!
//! ```text
//! WAN egress  ─ redirect ─► pdl-up… ─ cake ─► WAN egress, second pass ─► its own qdisc
//! WAN ingress ─ redirect ─► pdl-dn… ─ cake ─► up the stack
//! ```
//!
//! Nobody keeps what was done: start, turn, reload, end, the start after a crash and `--cleanup` all look and take the next step until there
//! is none. The order is always the same: a redirection goes before the device that it leads to, and what stands in the queue leaves before
//! the redirection goes, so that no packet overtakes it.

use std::collections::BTreeSet;
use std::fmt;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};

use crate::net::cake::Cake;
use crate::net::control::{ClsactSide, Filter, Ifb};

/// An unusual number: packets may carry a priority of the user's, which chooses a class where its major is the qdisc's.
pub(super) const HANDLE: u32 = 0x7e0d_0000;
/// In front of the name of the device that is shaped.
const ALIAS: &str = "pendulum shaper of ";
/// Of the redirecting filters, the first one: behind what the user has. Both have one of their own: u32 lists the filters of both sides of a
/// clsact qdisc as those of either, if their priority is the same.
const PRIORITY: u16 = 60_000;

/// The hook of the WAN device that its packets pass.
pub(super) const fn side(direction: Direction) -> ClsactSide {
    direction.pick(ClsactSide::Egress, ClsactSide::Ingress)
}

fn device_name(direction: Direction, wan: u32) -> String {
    match direction {
        Direction::Up => format!("pdl-up{wan}"),
        Direction::Down => format!("pdl-dn{wan}"),
    }
}

/// What a link wants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    /// The WAN device's name in the configuration.
    pub(super) link: String,
    /// Its ifindex; none: nothing is wanted.
    pub(super) wan: Option<u32>,
    /// Whether the ACK filter's program is to be there.
    pub(super) program: bool,
    pub(super) queues: PerDirection<Option<Queue>>,
}

/// A queue that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Queue {
    pub(super) cake: Cake,
    /// Whether packets are to pass it.
    pub(super) redirects: bool,
}

/// What is there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Actual {
    /// Devices that shapers have made, of any link.
    pub(super) queues: Vec<Standing>,
    /// On all devices.
    pub(super) filters: Vec<Filter>,
    /// Devices with a clsact qdisc.
    pub(super) clsact: BTreeSet<u32>,
    /// Of those the ones that go with us.
    pub(super) own_clsact: BTreeSet<u32>,
    /// Whether the ACK filter's program is on the WAN device.
    pub(super) program: bool,
}

/// A shaping device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Standing {
    pub(super) ifb: Ifb,
    /// Options and rate of our cake on it.
    pub(super) cake: Option<(Vec<u8>, Option<Rate>)>,
    /// Packets that wait.
    pub(super) backlog: u32,
}

impl Standing {
    /// The name that its link's WAN device had; empty if it was left before it could be noted.
    pub(super) fn wan_name(&self) -> &str {
        let noted = self.ifb.alias.strip_prefix(ALIAS).unwrap_or_default();
        // No device's name contains a blank.
        noted.split(' ').next().unwrap_or_default()
    }
}

/// Whether a shaper has made this device.
pub(super) fn is_shaper(ifb: &Ifb) -> bool {
    let numbered = ["pdl-up", "pdl-dn"].iter().find_map(|prefix| ifb.name.strip_prefix(prefix));
    ifb.alias.starts_with(ALIAS)
        || ifb.alias.is_empty() && numbered.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ShapingStep {
    RemoveFilter {
        filter: Filter,
        /// Whether it is the last one of its list, which goes too: an empty list would stay at its priority.
        is_last: bool,
    },
    /// What stands in the queue leaves at once.
    Unlimit(u32),
    /// Until it has left.
    Wait,
    DeleteDevice(Ifb),
    AddDevice(String),
    SetUp {
        ifindex: u32,
        name: String,
        alias: String,
    },
    PutQueue {
        ifindex: u32,
        name: String,
        cake: Cake,
        /// Whether ours stands there already: what is queued stays.
        changes: bool,
    },
    AddClsact(u32),
    RemoveClsact(u32),
    Attach,
    Detach,
    Redirect {
        wan: u32,
        side: ClsactSide,
        priority: u16,
        to: u32,
    },
}

impl fmt::Display for ShapingStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoveFilter { filter, .. } => {
                write!(
                    f,
                    "redirection of packets that pass device {} ({})",
                    filter.device,
                    filter.side.name()
                )
            }
            Self::DeleteDevice(ifb) => write!(f, "device {}", ifb.name),
            Self::AddDevice(name) | Self::SetUp { name, .. } => write!(f, "device {name}"),
            Self::PutQueue { name, .. } => write!(f, "cake of {name}"),
            Self::AddClsact(device) | Self::RemoveClsact(device) => {
                write!(f, "clsact qdisc of device {device}")
            }
            Self::Attach | Self::Detach => f.write_str("program of the ACK filter"),
            Self::Redirect { wan, side, .. } => {
                write!(f, "redirection of packets that pass device {wan} ({})", side.name())
            }
            Self::Unlimit(_) | Self::Wait => f.write_str("packets in the queue"),
        }
    }
}

impl ShapingStep {
    /// Whether it takes something away that somebody may want to know of.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::RemoveFilter { .. } | Self::DeleteDevice(_) | Self::RemoveClsact(_))
    }
}

impl Desired {
    /// Nothing of this link.
    pub(super) fn nothing(link: &str) -> Self {
        Self { link: link.to_owned(), wan: None, program: false, queues: PerDirection::default() }
    }

    /// Whether a shaping device belongs to this link.
    pub(super) fn owns(&self, queue: &Standing) -> bool {
        queue.wan_name() == self.link || self.direction_of(queue).is_some()
    }

    /// Which of this link's queues it is.
    fn direction_of(&self, queue: &Standing) -> Option<Direction> {
        let wan = self.wan?;
        Direction::ALL.into_iter().find(|x| device_name(*x, wan) == queue.ifb.name)
    }

    fn wants(&self, queue: &Standing) -> Option<(Direction, Queue)> {
        let direction = self.direction_of(queue)?;
        Some((direction, self.queues[direction]?))
    }

    /// Which clsact qdiscs an agent of this link has left that was killed: those that hold its redirections, and nothing of others. It had made
    /// them, or had found them empty; in both cases nobody misses them.
    pub(super) fn left_clsact(&self, found: &Actual) -> BTreeSet<u32> {
        let leads = |filter: &Filter| {
            let queue = found.queues.iter().find(|queue| filter.to == Some(queue.ifb.index));
            filter.is_ours && queue.is_none_or(|queue| self.owns(queue))
        };
        let is_left = |device: &u32| {
            let mut filters = found.filters.iter().filter(|filter| filter.device == *device);
            filters.clone().any(leads) && filters.all(Filter::is_of_this_program)
        };
        found.clsact.iter().copied().filter(is_left).collect()
    }

    /// The device of a queue that is wanted.
    pub(super) fn standing<'a>(&self, found: &'a Actual, direction: Direction) -> Option<&'a Standing> {
        found.queues.iter().find(|queue| self.direction_of(queue) == Some(direction))
    }

    /// The filter that leads packets of one direction to their queue.
    pub(super) fn redirection<'a>(&self, found: &'a Actual, direction: Direction) -> Option<&'a Filter> {
        let to = self.standing(found, direction)?.ifb.index;
        found.filters.iter().find(|filter| {
            let is_there = Some(filter.device) == self.wan && filter.side == side(direction);
            filter.is_ours && is_there && filter.to == Some(to)
        })
    }

    /// The next step; none if all is as it is wanted. Not `patient`: what stands in a queue is not waited for any longer.
    pub(super) fn next(&self, found: &Actual, patient: bool) -> Option<ShapingStep> {
        self.take_away(found, patient).or_else(|| self.make(found)).or_else(|| self.finish(found))
    }

    /// What must not be there.
    fn take_away(&self, found: &Actual, patient: bool) -> Option<ShapingStep> {
        let target = |filter: &Filter| found.queues.iter().find(|queue| filter.to == Some(queue.ifb.index));
        // A redirection of ours that leads nowhere loses every packet: whoever sees it takes it away, whosever it is.
        let nowhere = |filter: &&Filter| filter.is_ours && target(filter).is_none();
        if let Some(filter) = found.filters.iter().find(nowhere) {
            return Some(remove(filter, found));
        }
        for filter in &found.filters {
            let Some(queue) = target(filter).filter(|queue| self.owns(queue)) else { continue };
            let is_wanted = match self.wants(queue) {
                // Another's, into our device: that is his to say.
                Some(_) if !filter.is_ours => true,
                Some((direction, wanted)) => {
                    wanted.redirects && self.redirection(found, direction) == Some(filter)
                }
                None => false,
            };
            if !is_wanted {
                return Some(drain(queue, patient).unwrap_or_else(|| remove(filter, found)));
            }
        }
        let unwanted = |queue: &&Standing| self.owns(queue) && self.wants(queue).is_none();
        let queue = found.queues.iter().find(unwanted)?;
        Some(drain(queue, patient).unwrap_or_else(|| ShapingStep::DeleteDevice(queue.ifb.clone())))
    }

    /// What is missing, from the end of a packet's path to its beginning.
    fn make(&self, found: &Actual) -> Option<ShapingStep> {
        let wan = self.wan?;
        let wanted = Direction::ALL.into_iter().filter_map(|x| Some((x, self.queues[x]?)));
        for (direction, queue) in wanted.clone() {
            let name = device_name(direction, wan);
            let Some(Standing { ifb, cake, .. }) = self.standing(found, direction) else {
                return Some(ShapingStep::AddDevice(name));
            };
            let (ifindex, alias) = (ifb.index, format!("{ALIAS}{}", self.link));
            if !ifb.up || ifb.alias != alias {
                return Some(ShapingStep::SetUp { ifindex, name, alias });
            }
            if !cake.as_ref().is_some_and(|(options, _)| queue.cake.is(options)) {
                return Some(ShapingStep::PutQueue {
                    ifindex,
                    name,
                    cake: queue.cake,
                    changes: cake.is_some(),
                });
            }
        }
        if wanted.clone().next().is_some() && !found.clsact.contains(&wan) {
            return Some(ShapingStep::AddClsact(wan));
        }
        if self.program && !found.program {
            return Some(ShapingStep::Attach);
        }
        wanted
            .filter(|(direction, queue)| queue.redirects && self.redirection(found, *direction).is_none())
            .find_map(|(direction, _)| {
                let (side, to) = (side(direction), self.standing(found, direction)?.ifb.index);
                let there = found.filters.iter().filter(|filter| filter.device == wan);
                let is_taken = |priority: &u16| there.clone().any(|filter| filter.priority() == *priority);
                let priority = (PRIORITY..=u16::MAX).find(|priority| !is_taken(priority))?;
                Some(ShapingStep::Redirect { wan, side, priority, to })
            })
    }

    /// Behind the queues: packets that stood there pass the program once more.
    fn finish(&self, found: &Actual) -> Option<ShapingStep> {
        if found.program && !self.program {
            return Some(ShapingStep::Detach);
        }
        let is_needed =
            |device: &u32| Some(*device) == self.wan && self.queues.up.or(self.queues.down).is_some();
        let is_empty = |device: &u32| found.filters.iter().all(|filter| filter.device != *device);
        let idle = found.own_clsact.iter().find(|device| !is_needed(device) && is_empty(device))?;
        Some(ShapingStep::RemoveClsact(*idle))
    }
}

fn remove(filter: &Filter, found: &Actual) -> ShapingStep {
    let is_beside =
        |one: &&Filter| (one.device, one.side, one.info) == (filter.device, filter.side, filter.info);
    let is_last = found.filters.iter().filter(is_beside).count() == 1;
    ShapingStep::RemoveFilter { filter: filter.clone(), is_last }
}

/// What stands in a queue leaves first, in order, and with it go the numbers that ACKs carry.
fn drain(queue: &Standing, patient: bool) -> Option<ShapingStep> {
    let (_, rate) = queue.cake.as_ref().filter(|_| patient)?;
    match rate {
        Some(_) => Some(ShapingStep::Unlimit(queue.ifb.index)),
        None => (queue.backlog > 0).then_some(ShapingStep::Wait),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::{CakeOptions, Framing};

    const RATE: &str = "10mbit";
    const DEVICES: [u32; 3] = [3, 4, 9];

    fn cake(rate: Option<Rate>) -> Cake {
        Cake {
            rate,
            framing: Framing::default(),
            options: CakeOptions::default(),
            ack_filter: false,
            ingress: false,
        }
    }

    fn ifb(index: u32, name: &str, alias: &str) -> Ifb {
        Ifb { index, name: name.to_owned(), alias: alias.to_owned(), up: true, sent: [0; 2] }
    }

    fn filter(device: u32, side: ClsactSide, priority: u16, to: Option<u32>, is_ours: bool) -> Filter {
        let (kind, program) = ("u32".to_owned(), None);
        let handle = 0x8000_0800 + u32::from(priority);
        Filter { device, side, info: u32::from(priority) << 16, handle, kind, program, to, is_ours }
    }

    fn enforcing(redirects: bool) -> Desired {
        let queue = Queue { cake: cake(RATE.parse().ok()), redirects };
        Desired {
            link: "wan0".to_owned(),
            wan: Some(3),
            program: true,
            queues: PerDirection { up: Some(queue), down: Some(queue) },
        }
    }

    /// By its alias, or, before it has one, by a name that only a shaper gives.
    #[test]
    fn a_shaper_s_device_is_known_and_others_are_not() {
        let noted = format!("{ALIAS}wan0");
        for (name, alias, ours) in [
            ("ifb7", noted.as_str(), true),
            ("pdl-up3", "", true),
            ("pdl-dn12", "", true),
            ("pdl-up3", "somebody's", false),
            ("pdl-upper", "", false),
            ("ifb0", "", false),
        ] {
            assert_eq!(is_shaper(&ifb(5, name, alias)), ours, "{name} '{alias}'");
        }
    }

    /// What the kernel makes of a step.
    fn carry_out(step: &ShapingStep, found: &mut Actual, number: u32) {
        let of =
            |found: &mut Actual, index: u32| found.queues.iter().position(|q| q.ifb.index == index).unwrap();
        match step {
            ShapingStep::RemoveFilter { filter: gone, is_last } => {
                let at = found.filters.iter().position(|one| one == gone).unwrap();
                found.filters.remove(at);
                let list = |one: &Filter| (one.device, one.side, one.info);
                assert_eq!(*is_last, found.filters.iter().all(|one| list(one) != list(gone)), "{step:?}");
            }
            ShapingStep::Unlimit(index) => {
                let at = of(found, *index);
                found.queues[at].cake = Some((cake(None).options(), None));
            }
            ShapingStep::Wait => found.queues.iter_mut().for_each(|queue| {
                if queue.cake.as_ref().is_some_and(|(_, rate)| rate.is_none()) {
                    queue.backlog = queue.backlog.saturating_sub(7);
                }
            }),
            ShapingStep::DeleteDevice(ifb) => {
                let at = of(found, ifb.index);
                found.queues.remove(at);
                // The kernel's own word for a device that is gone.
                found
                    .filters
                    .iter_mut()
                    .filter(|one| one.to == Some(ifb.index))
                    .for_each(|one| one.to = Some(0));
            }
            ShapingStep::AddDevice(name) => {
                assert!(found.queues.iter().all(|queue| queue.ifb.name != *name), "{name} is there already");
                let new = Ifb { up: false, ..ifb(1_000 + number, name, "") };
                found.queues.push(Standing { ifb: new, cake: None, backlog: 0 });
            }
            ShapingStep::SetUp { ifindex, alias, .. } => {
                let at = of(found, *ifindex);
                (found.queues[at].ifb.up, found.queues[at].ifb.alias) = (true, alias.clone());
            }
            ShapingStep::PutQueue { ifindex, cake, changes, .. } => {
                let at = of(found, *ifindex);
                assert_eq!(*changes, found.queues[at].cake.is_some());
                found.queues[at].cake = Some((cake.options(), cake.rate));
            }
            ShapingStep::AddClsact(device) => {
                found.clsact.insert(*device);
                found.own_clsact.insert(*device);
            }
            ShapingStep::RemoveClsact(device) => {
                assert!(found.filters.iter().all(|one| one.device != *device), "filters go with it");
                found.clsact.remove(device);
                found.own_clsact.remove(device);
            }
            ShapingStep::Attach => found.program = true,
            ShapingStep::Detach => found.program = false,
            ShapingStep::Redirect { wan, side, priority, to } => {
                assert!(found.clsact.contains(wan));
                let new = filter(*wan, *side, *priority, Some(*to), true);
                let is_free = |one: &Filter| (one.device, one.priority()) != (*wan, *priority);
                assert!(found.filters.iter().all(is_free), "{step:?}");
                found.filters.push(new);
            }
        }
    }

    fn dangling(found: &Actual) -> usize {
        let leads = |one: &&Filter| found.queues.iter().any(|queue| one.to == Some(queue.ifb.index));
        found.filters.iter().filter(|one| one.is_ours && !leads(one)).count()
    }

    /// Takes steps until there is none; none of them leads packets nowhere, and those that were led there are freed first of all.
    fn converge(wanted: &Desired, found: &mut Actual, patient: bool) -> Vec<ShapingStep> {
        let mut steps = Vec::new();
        while let Some(step) = wanted.next(found, patient) {
            let before = dangling(found);
            assert!(
                before == 0 || matches!(step, ShapingStep::RemoveFilter { .. }),
                "{step:?} comes first: {found:?}"
            );
            carry_out(&step, found, steps.len() as u32);
            assert!(dangling(found) <= before, "{step:?} leads packets nowhere: {found:?}");
            steps.push(step);
            assert!(steps.len() < 300, "no end: {steps:?}");
        }
        assert_eq!(dangling(found), 0);
        steps
    }

    fn actual() -> impl Strategy<Value = Actual> {
        let name =
            prop_oneof![Just("pdl-up3"), Just("pdl-dn3"), Just("pdl-up4"), Just("sqm0"), Just("pdl-up7")];
        let alias = prop_oneof![
            Just(""),
            Just("pendulum shaper of wan0"),
            Just("pendulum shaper of wan0 cake=8001:20"),
            Just("pendulum shaper of lte0"),
        ];
        let standing = (name, alias, any::<bool>(), 0..3, 0..40u32);
        let side = prop_oneof![Just(ClsactSide::Egress), Just(ClsactSide::Ingress)];
        let on = (prop::sample::select(&DEVICES), side, 59_999..60_003u16);
        let filters = prop::collection::vec((on, prop::option::of(98..106u32), any::<bool>()), 0..8);
        let sets =
            (prop::collection::btree_set(prop::sample::select(&DEVICES), 0..3), any::<bool>(), any::<bool>());
        (prop::collection::vec(standing, 0..5), filters, sets).prop_map(
            |(queues, filters, (clsact, owns, program))| {
                let mut found = Actual { program, ..Actual::default() };
                for (at, (name, alias, up, queue, backlog)) in (100..).zip(queues) {
                    let one = Ifb { up, ..ifb(at, name, alias) };
                    let rate = (queue == 2).then(|| RATE.parse().unwrap());
                    let is_twice = found.queues.iter().any(|queue: &Standing| queue.ifb.name == one.name);
                    if is_shaper(&one) && !is_twice {
                        let cake = (queue > 0).then(|| (cake(rate).options(), rate));
                        found.queues.push(Standing { ifb: one, cake, backlog });
                    }
                }
                for (handle, ((device, side, priority), to, is_ours)) in (1..).zip(filters) {
                    let new = filter(device, side, priority, to, is_ours && to.is_some());
                    found.filters.push(Filter { handle, ..new });
                }
                found.clsact = clsact.into_iter().chain(found.filters.iter().map(|one| one.device)).collect();
                found.own_clsact =
                    if owns { found.clsact.clone() } else { enforcing(true).left_clsact(&found) };
                found
            },
        )
    }

    proptest! {
        #[test]
        fn from_anything_to_what_is_wanted_and_no_packet_is_led_nowhere(start in actual(), patient: bool, redirects: bool) {
            let shapes = enforcing(redirects);
            let dry = Desired { queues: PerDirection::default(), ..enforcing(true) };
            for wanted in [&shapes, &dry, &Desired::nothing("wan0")] {
                let mut found = start.clone();
                converge(wanted, &mut found, patient);
                prop_assert_eq!(found.program, wanted.program);
                for x in Direction::ALL {
                    let standing = wanted.standing(&found, x);
                    prop_assert_eq!(standing.is_some(), wanted.queues[x].is_some());
                    prop_assert_eq!(wanted.redirection(&found, x).is_some(), wanted.queues[x].is_some_and(|q| q.redirects));
                }
                prop_assert!(wanted.wan.is_some() || found.queues.iter().all(|queue| queue.wan_name() != "wan0"));
                // What is another's is as it was, but what led into a device that is gone.
                for one in start.filters.iter().filter(|one| !one.is_ours) {
                    let leads_to_ours = start.queues.iter().any(|queue| one.to == Some(queue.ifb.index));
                    prop_assert!(leads_to_ours || found.filters.contains(one), "{:?}", one);
                }
                for queue in start.queues.iter().filter(|queue| !wanted.owns(queue)) {
                    prop_assert!(found.queues.contains(queue) || queue.backlog > 0, "{:?}", queue);
                }
                // And back to nothing.
                converge(&Desired::nothing("wan0"), &mut found, patient);
                prop_assert!(!found.program && found.queues.iter().all(|queue| queue.wan_name() != "wan0"));
            }
        }
    }

    #[test]
    fn it_begins_at_the_end_of_the_path_and_ends_at_its_beginning() {
        let mut found = Actual::default();
        let names = |steps: &[ShapingStep]| {
            let word = |step: &ShapingStep| format!("{step:?}").split(['(', ' ']).next().unwrap().to_owned();
            steps.iter().map(word).collect::<Vec<_>>().join(" ")
        };
        let up = Desired { queues: PerDirection { down: None, ..enforcing(true).queues }, ..enforcing(true) };
        let start = converge(&up, &mut found, true);
        assert_eq!(names(&start), "AddDevice SetUp PutQueue AddClsact Attach Redirect");
        assert!(converge(&up, &mut found, true).is_empty());
        // A turn without it: what waits leaves while packets still come in, and the rate is that of the next turn.
        found.queues[0].backlog = 9;
        let pause = Desired { queues: PerDirection { down: None, ..enforcing(false).queues }, ..up.clone() };
        assert_eq!(names(&converge(&pause, &mut found, true)), "Unlimit Wait Wait RemoveFilter PutQueue");
        assert_eq!(names(&converge(&up, &mut found, true)), "Redirect");
        // Another's filter keeps the qdisc.
        let mut shared = found.clone();
        shared.filters.push(filter(3, ClsactSide::Egress, 7, None, false));
        let end = converge(&Desired::nothing("wan0"), &mut shared, true);
        assert_eq!(names(&end), "Unlimit RemoveFilter DeleteDevice Detach");
        assert!(
            converge(&Desired::nothing("wan0"), &mut found, true).contains(&ShapingStep::RemoveClsact(3))
        );
        assert_eq!(found, Actual::default());
    }

    #[test]
    fn what_others_do_to_it_is_mended() {
        let mut shaped = Actual::default();
        converge(&enforcing(true), &mut shaped, true);
        type Deed = fn(&mut Actual);
        let deeds: [(Deed, usize); 6] = [
            // The device is deleted; the filter that led there goes before another is made.
            (|found| carry_out(&ShapingStep::DeleteDevice(found.queues[0].ifb.clone()), found, 0), 5),
            (|found| (found.filters, found.clsact) = Default::default(), 3),
            (|found| found.queues[0].ifb.up = false, 1),
            (|found| found.queues[0].cake = None, 1),
            (|found| found.queues[0].cake = Some((cake(None).options(), None)), 1),
            // Twice in the queue would be half the rate.
            (|found| found.filters.push(Filter { handle: 1, ..found.filters[0].clone() }), 3),
        ];
        for (number, (deed, steps)) in deeds.into_iter().enumerate() {
            let mut found = shaped.clone();
            deed(&mut found);
            assert_eq!(converge(&enforcing(true), &mut found, true).len(), steps, "deed {number}");
        }
    }
}
