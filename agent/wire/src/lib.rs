//! What the agent sends over HTTP (docs/reference/api.md): the agent writes these structures, its clients read them, and the
//! page's types and the tables of the documentation are written from them.
//!
//! A reader takes what is missing as the default, so it understands agents of another version. A name that stands for one
//! of several things is a [`Name`]: a reader may meet one that it does not know.

mod delay;
mod direction;
mod events;
mod findings;
mod flows;
mod history;
mod incidents;
mod link;
#[cfg(feature = "schema")]
pub mod schema;
mod shape;
mod stream;
#[cfg(test)]
mod tests;

use pendulum_model::findings::Phase;
use serde::{Deserialize, Serialize};

pub use pendulum_model::Name;
pub use pendulum_model::bloat::Bufferbloat;
pub use pendulum_model::fairness::RttClasses;
pub use pendulum_model::findings::{Evidence, Figure};
pub use pendulum_model::sizing::Recommended;
pub use pendulum_model::traffic_mix::Cause;

pub use delay::{Delay, DelaySegment, SegmentBloat, TransferLimit};
pub use direction::{AckBurst, Direction, Queue, Rtt, TopPort};
pub use events::{Events, JournalEvent};
pub use findings::{Advice, Predicted, PredictedInputs, Ratio, Source};
pub use flows::{Flow, FlowHalf, Flows};
pub use history::{History, Step, StepAuto, StepHalf};
pub use incidents::{Incident, Incidents};
pub use link::{BpfMap, BpfProgram, FlowTable, Hooks, Link, Rates, Reloads, State};
pub use shape::{AbTest, Auto, Shape, Shaped, Turn};
pub use stream::{Dropped, Tick, TickAuto, TickHalf};

/// One figure for each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerPhase {
    /// The uplink's buffer holds a standing queue.
    pub uplink_bound: f64,
    /// The downlink's buffer holds a standing queue.
    pub downlink_bound: f64,
    /// Both hold one.
    pub balanced: f64,
    /// Neither holds one.
    pub idle: f64,
}

impl PerPhase {
    /// That of a phase.
    pub fn of(self, phase: Phase) -> f64 {
        <[f64; 4]>::from(self)[phase as usize]
    }
}

impl From<[f64; 4]> for PerPhase {
    /// In the order of `Phase::ALL`.
    fn from([uplink_bound, downlink_bound, balanced, idle]: [f64; 4]) -> Self {
        Self { uplink_bound, downlink_bound, balanced, idle }
    }
}

impl From<PerPhase> for [f64; 4] {
    /// In the order of `Phase::ALL`.
    fn from(figures: PerPhase) -> Self {
        [figures.uplink_bound, figures.downlink_bound, figures.balanced, figures.idle]
    }
}

/// A request that was not answered as asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// Why, and what to do.
    pub error: Refusal,
}

/// Why a request was refused.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// Why, one sentence.
    pub reason: String,
    /// What to do about it.
    pub remedy: String,
}
