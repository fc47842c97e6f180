//! What has passed in one direction, and what its buffer has held at most.

use std::time::Duration;

use crate::capacity::CapacityLearner;
use crate::sample::{DirectionSample, MeasuredRate, QueueSample, sane};
use crate::window::SlidingSum;

/// One direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    learner: CapacityLearner,
    measured: Option<MeasuredRate>,
    /// What was measured until then was the rate of a queue elsewhere.
    elsewhere_until: Option<Duration>,
    load: SlidingSum,
    last_load: Option<Duration>,
    /// What enters the buffer is reported by kind.
    kinds_known: bool,
    /// The highest level of the buffer, bytes.
    pub(super) peak_queue: f64,
}

impl Passed {
    /// The link's rate as a source measured it; `is_elsewhere`: of a queue that is not the link's, as all that was measured until then.
    pub(super) fn note_rate(&mut self, rate: MeasuredRate, is_elsewhere: bool) {
        if is_elsewhere {
            self.elsewhere_until = Some(rate.measured_at);
        }
        let is_usable = sane(rate.bytes_per_second).is_some_and(|value| value > 0.0);
        if is_usable && Some(rate.measured_at) > self.elsewhere_until {
            self.measured = Some(rate);
        }
    }

    /// The newest of that rate and the one learnt here.
    pub(super) fn rate(&self) -> Option<MeasuredRate> {
        self.measured.into_iter().chain(self.learner.rate()).max_by_key(|rate| rate.measured_at)
    }

    /// Bytes that are no pure ACKs, whatever carries them; where the kinds are not distinguished, TCP data. What entered the buffer in one
    /// interval may leave it in the next, and counts once.
    pub(super) fn load_of(&self, seen: &DirectionSample) -> u64 {
        if self.kinds_known {
            seen.composition.total() - seen.composition.ack
        } else {
            seen.traffic.data_bytes
        }
    }

    /// Takes in what came until `at`. Returns what passed since `since`, bytes.
    pub(super) fn push_load(&mut self, at: Duration, since: Duration, seen: &DirectionSample) -> f64 {
        self.kinds_known |= seen.composition.total() > 0;
        self.load.push(at, self.load_of(seen));
        self.load.since(since) as f64
    }

    /// Takes in an interval that ends at `at`. `stands`: its traffic left a queue that shows the link's rate. `has_load`: bulk was under way.
    pub(super) fn push(
        &mut self,
        at: Duration,
        seen: &DirectionSample,
        queue: Option<QueueSample>,
        stands: bool,
        has_load: bool,
    ) {
        if has_load {
            self.last_load = Some(at);
        }
        self.learner.push(at, seen.traffic.wire_bytes, stands);
        if let Some(peak) = queue.and_then(|queue| sane(queue.max_bytes)) {
            self.peak_queue = self.peak_queue.max(peak);
        }
    }

    /// Whether bulk was under way within `span` before `at`.
    pub(super) fn is_active(&self, at: Duration, span: Duration) -> bool {
        self.last_load.is_some_and(|last| at.saturating_sub(last) <= span)
    }
}
