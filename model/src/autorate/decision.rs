//! What the controller decides.

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
