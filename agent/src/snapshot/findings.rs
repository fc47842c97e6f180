//! What the detector says about a link at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pendulum_model::findings::{Phase, Verdict};
use pendulum_wire::Link;

/// Phase and verdict as of the newest tick, the rest as of the last second.
#[derive(Clone, Debug)]
pub struct Findings {
    /// End of the newest sample, on the kernel's monotonic clock.
    pub at: Duration,
    /// The case that holds, and since when.
    pub phase: Option<(Phase, Duration)>,
    /// The verdict.
    pub verdict: Verdict,
    /// Since when it has held.
    pub verdict_since: Duration,
    /// Time in each case since the start, seconds, in [`Phase`] order.
    pub phase_seconds: [f64; 4],
    /// Changes between cases since the start, `[from][to]` in [`Phase`] order.
    pub phase_transitions: [[u64; 4]; 4],
    /// Samples that the detector refused because they did not follow in time.
    pub rejected_samples: u64,
    /// Everything else, as it is sent.
    pub sent: Arc<Link>,
}

/// What was measured and then did not reach its reader; counted since the start.
#[derive(Debug, Default)]
pub struct Unsent {
    events: AtomicU64,
    ticks: AtomicU64,
}

impl Unsent {
    /// An event could not be written into the event log.
    pub fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    /// A reader of the stream was too slow for so many ticks.
    pub fn count_ticks(&self, ticks: u64) {
        self.ticks.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Events that could not be written.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Ticks that readers missed.
    pub fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}
