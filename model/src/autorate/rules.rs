//! All figures that the controller depends on.

/// Times in seconds, shares of 1.
pub(super) struct Rules {
    /// Fewer packets say nothing: single ones get lost, or are held back.
    pub(super) few: u32,
    /// The rate is measured over this time, and a queue drained within it: some ticks.
    pub(super) span: f64,
    /// What was within this time explains what is seen: several round trips.
    pub(super) recent: f64,
    /// What passed within this time may pass again, so that the way back after a fade is short.
    pub(super) peak: f64,
    /// After so long without a reply nobody may be there; in an outage TCP sends little by then.
    pub(super) given_up: f64,
    /// The rate is used up if this share of it passes: TCP's windows and ticks leave gaps.
    pub(super) used: f64,
    /// A majority of bytes, and, where the rate is known, half of that; waits that differ by less are the same one; the floor of a fall that two hosts report of a link that is not used up;
    /// and of what is let in while a queue before the downlink drains, since its senders are a round trip away.
    pub(super) half: f64,
    /// The floor of a fall that a used-up link shows, and what is sent in an outage: enough to hear of its end.
    pub(super) least: f64,
    /// A wait that grew by no more than this is noise; each further one of this length explains a fall by one more part: the shortest usual
    /// round trip.
    pub(super) explains: f64,
    /// The first of several raises.
    pub(super) raise: f64,
    /// How far above what just passed a raise may go: what a queue of some packets shows.
    pub(super) above: f64,
    /// More lost packets than TCP causes by itself: a policer.
    pub(super) lost: f64,
}

/// The figures.
pub(super) const RULES: Rules = Rules {
    few: 3,
    span: 0.2,
    recent: 1.0,
    peak: 10.0,
    given_up: 3.0,
    used: 0.9,
    half: 0.5,
    least: 0.05,
    explains: 0.02,
    raise: 0.1,
    above: 1.2,
    lost: 0.03,
};

named! {
    /// What matters more: use of the link, or short delays.
    #[derive(Default)]
    pub enum Priority {
        /// Calls and games.
        Latency = "latency",
        /// Both.
        #[default]
        Balanced = "balanced",
        /// Transfers.
        Throughput = "throughput",
    }
}

impl Priority {
    /// The queue that may stand behind the shaper, seconds, and the share that the downlink leaves unused, so that its queue forms on the
    /// gateway.
    pub(super) fn wants(self) -> (f64, f64) {
        match self {
            Self::Latency => (0.005, 0.08),
            Self::Balanced => (0.015, 0.03),
            Self::Throughput => (0.05, 0.01),
        }
    }
}
