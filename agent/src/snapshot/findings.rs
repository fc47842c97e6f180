//! What the detector says about a link at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pendulum_model::degree::Degree;
use pendulum_model::detector::DetectorState;
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::segment::Direction;
use pendulum_wire::Advice;

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
    /// Samples that the detector refused because they did not follow in time.
    pub rejected_samples: u64,
    /// Everything else the detector knows.
    pub state: Arc<DetectorState>,
    /// Download over upload throughput as the model predicts it for this link.
    pub predicted_ratio: Option<f64>,
    /// Buffer sizes for this link, once its rates and its round trip are known, and what the simulation says of them.
    pub advice: Option<Arc<Advice>>,
}

impl Findings {
    /// What the verdict costs.
    pub fn degree(&self) -> Degree {
        let delay = |x| self.state.directions[x].bufferbloat.map(|bloat| bloat.delay_s);
        let longest = Direction::ALL.into_iter().filter_map(delay).reduce(f64::max);
        Degree::of(self.verdict, self.state.evidence.as_ref(), longest)
    }

    /// Capacity of a direction that it cannot use because the other buffer never empties, bytes per second; 0 unless
    /// the verdict says so, `None` if it does and the capacity is not known.
    pub fn lost(&self, direction: Direction) -> Option<f64> {
        let losing = match self.verdict {
            Verdict::LockedUplink => Direction::Down,
            Verdict::LockedDownlink => Direction::Up,
            _ => return Some(0.0),
        };
        if losing != direction {
            return Some(0.0);
        }
        self.state.evidence.as_ref()?.figure("lost_bytes_per_second")
    }
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
