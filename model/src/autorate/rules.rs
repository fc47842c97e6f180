//! All figures that the controller depends on.

use crate::constants::FEW;
use crate::segment::FULL_FRAME_BYTES;

/// Times in seconds, shares of 1.
pub(super) struct Rules {
    /// Some ticks. See [`Rules::span_at`].
    pub(super) span: f64,
    /// A measured rate rests on so many bytes: the answer at one end may be held back, and of packets that passed together all are counted with the first one.
    pub(super) enough: f64,
    /// The floor of a fall that a used-up link shows, and what is sent in an outage: enough to hear of its end.
    pub(super) least: f64,
    /// A wait that grew by no more than this is noise; each further one of this length explains a fall by one more part: the shortest usual
    /// round trip.
    pub(super) explains: f64,
    /// How far above what just passed a raise may go: what a queue of some packets shows.
    pub(super) above: f64,
    /// More lost packets than TCP causes by itself: a policer.
    pub(super) lost: f64,
}

impl Rules {
    /// The rate is measured over this time, and a queue drained within it, seconds: some ticks, and on a slow link some packets. `rate`: bytes per second.
    pub(super) fn span_at(&self, rate: f64) -> f64 {
        self.span.max(2.0 * FEW as f64 * FULL_FRAME_BYTES / rate.max(1.0))
    }
}

/// The figures.
pub(super) const RULES: Rules =
    Rules { span: 0.2, enough: 24.0 * FULL_FRAME_BYTES, least: 0.05, explains: 0.02, above: 1.2, lost: 0.03 };

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
