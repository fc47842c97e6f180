//! What the detector says about a link at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pendulum_model::degree::Degree;
use pendulum_model::detector::DetectorState;
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::sample::QueueSource;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{Advice, Predicted, Recommended};

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
    /// Standing queues, bytes; `None` for a buffer that cannot be seen.
    pub standing_bytes: PerDirection<Option<f64>>,
    /// Time in each case since the start, seconds, in [`Phase`] order.
    pub phase_seconds: [f64; 4],
    /// Samples that the detector refused because they did not follow in time.
    pub rejected_samples: u64,
    /// Everything else the detector knows.
    pub state: Arc<DetectorState>,
    /// Download over upload throughput as the model predicts it for this link.
    pub predicted_ratio: Option<f64>,
    /// Buffer sizes for this link, once its rates and its round trip are known.
    pub advice: Option<Arc<Advice>>,
    /// What the simulation says beside the advice; `None` as long as there is no advice.
    pub prediction: Option<Arc<Prediction>>,
}

impl Findings {
    /// What the verdict costs.
    pub fn degree(&self) -> Degree {
        let delay = |x| self.state.directions[x].bufferbloat.map(|bloat| bloat.delay_s);
        let longest = Direction::ALL.into_iter().filter_map(delay).reduce(f64::max);
        Degree::of(self.verdict, self.state.evidence.as_ref(), longest)
    }
}

/// What the simulation says of the link, or why it says nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// What was simulated; `None` if nothing was.
    pub link: Option<SimulatedLink>,
    /// What transfers get with the buffers as they are.
    pub present: Result<Predicted, String>,
    /// What transfers get with the buffers of the advice.
    pub as_advised: Result<Predicted, String>,
    /// The best uplink buffer, that of the downlink as it is.
    pub recommended: Result<Recommended, String>,
}

impl Prediction {
    /// Nothing is known, for this reason.
    pub fn unknown(reason: String) -> Self {
        Self {
            link: None,
            present: Err(reason.clone()),
            as_advised: Err(reason.clone()),
            recommended: Err(reason),
        }
    }
}

/// The link as it was when it was simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedLink {
    /// `C_x`.
    pub rate: PerDirection<Rate>,
    /// The round trip without queues.
    pub round_trip: Duration,
    /// The buffers as they are, if both are known.
    pub buffer: Option<PerDirection<BufferSize>>,
}

impl Findings {
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
        let mut figures = self.state.evidence.iter().flat_map(|evidence| &evidence.figures);
        figures.find(|figure| figure.name == "lost_bytes_per_second").map(|figure| figure.value)
    }
}

/// What has passed since the tick before, in steps of a bucket: for those who draw it as it happens.
#[derive(Clone, Debug, Default)]
pub struct Tick {
    /// Grows by one from tick to tick; 0 before the first.
    pub number: u64,
    /// End of the newest step, on the kernel's monotonic clock.
    pub at: Duration,
    /// Both directions.
    pub directions: PerDirection<TickDirection>,
}

/// One direction in a [`Tick`].
#[derive(Clone, Debug, Default)]
pub struct TickDirection {
    /// Mean bytes in the queue in each step, oldest first; `None` if the queue cannot be seen.
    pub queue_bytes: Option<Vec<f64>>,
    /// How far each of these may be off; 0: it was read.
    pub queue_uncertainty_bytes: Option<Vec<f64>>,
    /// Of these, pure ACKs; `None` if they cannot be known.
    pub queue_ack_bytes: Option<Vec<f64>>,
    /// How the queue is seen.
    pub source: Option<QueueSource>,
    /// Round trip from the gateway to the end this direction leads to and back, seconds: mean of the newest tick in
    /// which one was measured, if that is not long ago.
    pub round_trip_s: Option<f64>,
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
