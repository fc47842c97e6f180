//! What the controller decides, and why.

use serde::Serialize;

/// What the controller did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// No demand, or nobody answers: the rate is held.
    #[default]
    Idle,
    /// There is demand, and nothing says that the rate is wrong.
    Hold,
    /// Our own queue stands and no other.
    Raise,
    /// A queue stands behind: what really passes.
    Lower,
    /// The same, and it is big: far less, until it is gone.
    Drain,
    /// Packets are lost and no queue stands.
    Policed,
    /// What looked like a queue does not drain: a longer route.
    Route,
}

impl Decision {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Idle, Self::Hold, Self::Raise, Self::Lower, Self::Drain, Self::Policed, Self::Route];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Hold => "hold",
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Drain => "drain",
            Self::Policed => "policed",
            Self::Route => "route",
        }
    }

    /// Why, in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Idle => "there is no demand, or nobody answers",
            Self::Hold => "nothing says that it is wrong",
            Self::Raise => "packets wait here and nowhere else",
            Self::Lower => "packets wait behind the shaper",
            Self::Drain => "many packets wait behind the shaper",
            Self::Policed => "packets are lost although none wait",
            Self::Route => "the round trip has become longer; what looked like a queue does not drain",
        }
    }
}
