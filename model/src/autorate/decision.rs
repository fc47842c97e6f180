//! What the controller decides, and why.

use serde::Serialize;

/// What the controller did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Nothing says that the rate is wrong, or nothing is known.
    #[default]
    Hold,
    /// Our own queue stands and no other.
    Raise,
    /// Packets wait behind the shaper, or are lost.
    Lower,
    /// Many packets wait behind: far less, until they are gone.
    Drain,
    /// Nobody replies.
    Outage,
}

impl Decision {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Hold, Self::Raise, Self::Lower, Self::Drain, Self::Outage];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Raise => "raise",
            Self::Lower => "lower",
            Self::Drain => "drain",
            Self::Outage => "outage",
        }
    }

    /// Why, in words.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Hold => "nothing says that it is wrong",
            Self::Raise => "packets wait here and nowhere else",
            Self::Lower => "packets wait behind the shaper, or are lost",
            Self::Drain => "many packets wait behind the shaper",
            Self::Outage => "nobody replies",
        }
    }
}
