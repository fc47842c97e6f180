//! The shaper at one moment, for metrics and API.

use std::collections::BTreeMap;

use pendulum_model::autorate::Decision;
use pendulum_model::named;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{AbTest, Name, Shape, Shaped, TickAuto};

use crate::bpf::abi::pendulum_shape_counts;
use crate::config::AckFilter;

/// Action and reason of each `enum pendulum_ack_fate`, in its order.
pub use crate::bpf::abi::names::ACK_FATES as FATES;

named! {
    /// Whether the shaper works.
    #[derive(Default)]
    pub enum ShapeState {
        /// It is off.
        #[default]
        Off = "off",
        /// It counts and changes nothing.
        DryRun = "dry_run",
        /// It shapes.
        Enforcing = "enforcing",
        /// A turn of the comparison without shaping.
        Observing = "observing",
        /// It shapes, and a queue stands elsewhere all the same.
        Ineffective = "ineffective",
        /// `auto`: the comparison has shown no gain. Until the next one.
        Declined = "declined",
        /// It was asked for and cannot.
        Refused = "refused",
    }
}

impl ShapeState {
    /// Whether packets pass the shaper.
    pub const fn shapes(self) -> bool {
        matches!(self, Self::Enforcing | Self::Ineffective)
    }
}

/// The shaper at one moment.
#[derive(Clone, Debug, Default)]
pub struct ShapeSnapshot {
    /// Whether it works.
    pub state: ShapeState,
    /// Why it is ineffective, has declined or was refused.
    pub reason: Option<String>,
    /// The filter in use; `None` while it is off.
    pub ack_filter: Option<AckFilter>,
    /// δ in use.
    pub delta: u32,
    /// Directions that are shaped.
    pub shaped: PerDirection<Option<Shaped>>,
    /// Of each direction whose rate is found: how often each was decided, in the order of [`Decision::ALL`].
    pub decisions: PerDirection<Option<[u64; Decision::ALL.len()]>>,
    /// Packets sent to the first hop; `None` where it may not be asked.
    pub probes: Option<u64>,
    /// What was done.
    pub counts: pendulum_shape_counts,
    /// The comparison with and without.
    pub ab_test: Option<AbTest>,
    /// That shows no gain, or harm.
    pub is_doubted: bool,
}

impl ShapeSnapshot {
    /// Whether anything is counted.
    pub fn is_at_work(&self) -> bool {
        !matches!(self.state, ShapeState::Off | ShapeState::Refused)
    }

    /// What is found for a direction; `None` where nothing is looked for, and while packets do not pass the shaper.
    pub fn found(&self, direction: Direction) -> Option<TickAuto> {
        let shaped = self.shaped[direction].as_ref().filter(|_| self.state.shapes())?;
        let auto = shaped.auto.as_ref()?;
        Some(TickAuto {
            rate_bps: shaped.rate_bps,
            waits_behind_s: auto.waits_behind_s,
            decision: auto.decision.clone(),
        })
    }

    /// What is sent of it.
    pub fn sent(&self) -> Shape {
        let counts = Some(&self.counts).filter(|_| self.is_at_work());
        Shape {
            state: self.state.name().into(),
            reason: self.reason.clone(),
            ack_filter: self.ack_filter.map_or("off", AckFilter::name).into(),
            delta: counts.map(|_| self.delta),
            uplink: self.shaped.up.clone(),
            downlink: self.shaped.down.clone(),
            acks: counts.map(fates),
            held_acks: counts.map(held),
            held_bytes: counts.map(|counts| counts.held_bytes),
            ab_test: self.ab_test.clone(),
        }
    }
}

/// By action and reason; those that never happened are left out.
fn fates(counts: &pendulum_shape_counts) -> BTreeMap<Name, BTreeMap<Name, u64>> {
    let mut acks: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for ((action, reason), count) in FATES.into_iter().zip(counts.acks).filter(|(_, count)| *count > 0) {
        acks.entry(action.into()).or_default().insert(reason.into(), count);
    }
    acks
}

/// ACKs withheld: those whose action is `held`.
fn held(counts: &pendulum_shape_counts) -> u64 {
    FATES.iter().zip(counts.acks).filter(|((action, _), _)| *action == "held").map(|(_, n)| n).sum()
}
