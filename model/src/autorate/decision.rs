//! What the controller decides, and why.

named! {
    /// What the controller did.
    #[derive(Default)]
    pub enum Decision {
        /// Nothing says that the rate is wrong, or nothing is known.
        #[default]
        Hold = "hold",
        /// Our own queue stands and no other.
        Raise = "raise",
        /// Packets wait behind the shaper, or are lost.
        Lower = "lower",
        /// Many packets wait behind: far less, until they are gone.
        Drain = "drain",
        /// Nobody replies.
        Outage = "outage",
    }
}

impl Decision {
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
