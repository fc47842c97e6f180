//! The shaper at one moment, for metrics and API.

use std::sync::Arc;

use pendulum_model::autorate::Decision;
use pendulum_model::segment::Direction;

use crate::bpf::abi::pendulum_shape_counts;
use crate::config::RateBounds;
use pendulum_model::link::Provenance;

/// Action and reason of each `enum pendulum_ack_fate`, in its order.
pub use crate::bpf::abi::names::ACK_FATES as FATES;

/// Whether the shaper works.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ShapeState {
    /// It is off.
    #[default]
    Off,
    /// It counts and changes nothing.
    DryRun,
    /// It shapes.
    Enforcing,
    /// A turn of the comparison without shaping.
    Observing,
    /// It shapes, and a queue stands elsewhere all the same: why, and what would do.
    Ineffective(Arc<str>),
    /// `auto`: the comparison has shown no gain; what it came to. Until the next one.
    Declined(Arc<str>),
    /// It was asked for and cannot, and why.
    Refused(Arc<str>),
}

impl ShapeState {
    /// The name used in JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DryRun => "dry_run",
            Self::Enforcing => "enforcing",
            Self::Observing => "observing",
            Self::Ineffective(_) => "ineffective",
            Self::Declined(_) => "declined",
            Self::Refused(_) => "refused",
        }
    }

    /// Why it is so, where that needs a word.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Ineffective(reason) | Self::Declined(reason) | Self::Refused(reason) => Some(reason),
            Self::Off | Self::DryRun | Self::Enforcing | Self::Observing => None,
        }
    }

    /// Whether packets pass the shaper.
    pub const fn shapes(&self) -> bool {
        matches!(self, Self::Enforcing | Self::Ineffective(_))
    }
}

/// One direction in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Followed {
    /// What was decided last.
    pub decision: Decision,
    /// What it is based on.
    pub reason: String,
    /// How often each was decided, in the order of [`Decision::ALL`].
    pub decisions: [u64; Decision::ALL.len()],
    /// The link's rate as measured, bytes per second.
    pub capacity: Option<f64>,
    /// How long packets wait behind, seconds.
    pub wait: Option<f64>,
    /// The configured bounds.
    pub bounds: RateBounds,
}

/// The mean of one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialTurn {
    /// Uplink and downlink, bytes per second.
    pub goodput: [f64; 2],
    /// Seconds.
    pub round_trip: Option<f64>,
}

/// What the comparison comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// Too few turns, or too little traffic.
    Undecided,
    /// The interval lies above zero; or packets wait less, and the score has not suffered much.
    Helps,
    /// It includes zero, and enough turns have been seen.
    NoDifference,
    /// It lies below zero; or packets wait longer.
    Hurts,
}

impl TrialOutcome {
    /// Whether enough was seen to say that shaping does not earn its keep.
    pub const fn speaks_against(self) -> bool {
        matches!(self, Self::NoDifference | Self::Hurts)
    }

    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Undecided => "undecided",
            Self::Helps => "helps",
            Self::NoDifference => "no_difference",
            Self::Hurts => "hurts",
        }
    }
}

/// The comparison so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Pairs of turns.
    pub pairs: usize,
    /// Mean with shaping.
    pub with: TrialTurn,
    /// Mean without.
    pub without: TrialTurn,
    /// Change of the score by shaping, and half the width of its 95 % interval; none with fewer than two pairs. The
    /// score is download over its mean plus upload over its mean: 2 on average.
    pub change: Option<(f64, f64)>,
    /// Change of the round trip as a share of the mean without shaping, and half the width of its 95 % interval; none with fewer than
    /// two pairs in which it was measured.
    pub delay: Option<(f64, f64)>,
    /// What that comes to.
    pub outcome: TrialOutcome,
}

/// A rate that is found, while packets pass the shaper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FoundRate {
    /// Bits per second sent, or let in.
    pub rate_bps: u64,
    /// How long packets wait behind the shaper, seconds; `None`: not known.
    pub waits_behind_s: Option<f64>,
    /// What was decided last.
    pub decision: Decision,
}

/// The shaper at one moment.
#[derive(Clone, Debug)]
pub struct ShapeSnapshot {
    /// Whether it works.
    pub state: ShapeState,
    /// The filter in use.
    pub ack_filter: &'static str,
    /// δ in use.
    pub delta: u32,
    /// Of each direction that is shaped: rate in bit/s.
    pub rates_bps: [Option<u64>; 2],
    /// How the uplink's rate is known.
    pub rate_source: Option<Provenance>,
    /// Of each direction whose rate is found: how.
    pub followed: [Option<Followed>; 2],
    /// What was done.
    pub counts: pendulum_shape_counts,
    /// The comparison with and without.
    pub comparison: Option<Comparison>,
}

impl Default for ShapeSnapshot {
    fn default() -> Self {
        Self {
            state: ShapeState::Off,
            ack_filter: "off",
            delta: 0,
            rates_bps: [None, None],
            rate_source: None,
            followed: [None, None],
            counts: pendulum_shape_counts::default(),
            comparison: None,
        }
    }
}

impl ShapeSnapshot {
    /// Whether anything is counted.
    pub fn is_at_work(&self) -> bool {
        !matches!(self.state, ShapeState::Off | ShapeState::Refused(_))
    }

    /// What is found for a direction; `None` where nothing is looked for, and while packets do not pass the shaper.
    pub fn found(&self, direction: Direction) -> Option<FoundRate> {
        let followed = self.followed[direction as usize].as_ref().filter(|_| self.state.shapes())?;
        let rate_bps = self.rates_bps[direction as usize]?;
        Some(FoundRate { rate_bps, waits_behind_s: followed.wait, decision: followed.decision })
    }

    /// ACKs withheld: those whose action is `held`.
    pub fn held(&self) -> u64 {
        FATES.iter().zip(self.counts.acks).filter(|((action, _), _)| *action == "held").map(|(_, n)| n).sum()
    }
}
