//! The provider's buffer, which nobody here can look into, from outside round trips by Eq. 1:
//!
//! ```text
//! d_d = (RTT_outside − base RTT − own uplink sojourn) · C_d
//! ```
//!
//! All depends on the base RTT. It is learnt where the downlink buffer is known to be empty, not merely from the
//! smallest RTT: a standing queue that never drains would otherwise hide in it, and a route that becomes longer would
//! look like a queue for ever. Two facts reveal an empty buffer without looking into it:
//!
//! * the downlink carried little during the last round trip;
//! * a stretch of time in which the downlink was not full: a queue that never emptied would have kept it full, so the
//!   smallest RTT of the stretch met an empty buffer.

use std::time::Duration;

use serde::Serialize;

use crate::sample::sane;
use crate::window::{SlidingMinimum, SlidingSum};

/// Below this part of the capacity over a round trip the buffer counts as empty.
const LIGHT: f64 = 0.3;

/// Below this part of the capacity over a stretch the buffer has been empty in between.
const NOT_FULL: f64 = 0.85;

/// Length of a stretch.
const STRETCH: Duration = Duration::from_secs(10);

/// The base is the smallest round trip of this long a light stretch: long enough to reach back before a burst that has
/// just begun and does not show in the rate yet.
const LIGHT_STRETCH: Duration = Duration::from_secs(1);

/// Round trips needed in it: one alone may have met a burst.
const LIGHT_PROBES: u64 = 5;

/// Busy for this long without an empty buffer: the route may have changed unseen.
const STALE: Duration = Duration::from_secs(300);

/// One measured round trip from the gateway to the outside and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// When the answer came in.
    pub at: Duration,
    /// Round-trip time from the gateway outwards, seconds.
    pub round_trip: f64,
    /// The part of it that the probe itself spent in the gateway's uplink buffer, seconds; 0 if it was timed from the
    /// moment it left.
    pub uplink_sojourn: f64,
}

/// Whether the base RTT under an estimate can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The base was measured while the buffer was empty.
    Confirmed,
    /// The downlink has been full ever since the start: the base may contain a standing queue, and the estimate is then
    /// too low by it.
    NeverEmpty,
    /// It was confirmed, but the downlink has been full for minutes since: a longer route would look like a queue.
    Stale,
}

/// What the buffer held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// When it did: the answer waited in it just before it came in. Seconds.
    pub at_s: f64,
    /// Bytes in the buffer.
    pub bytes: f64,
    /// The base RTT it rests on, seconds.
    pub base_round_trip_s: f64,
    /// How far to rely on that.
    pub trust: Trust,
}

/// Estimates the downlink buffer.
#[derive(Clone, Debug)]
pub struct DownlinkEstimator {
    capacity: f64,
    limit: f64,
    traffic: SlidingSum,
    base: Option<f64>,
    confirmed: Option<Duration>,
    light: SlidingMinimum,
    light_probes: SlidingSum,
    light_since: Option<Duration>,
    observed_since: Option<Duration>,
    stretch: Smallest,
    stretch_began: Option<Duration>,
    stretch_bytes: u64,
}

/// Smallest of some probes.
#[derive(Clone, Copy, Debug, Default)]
struct Smallest {
    count: u32,
    seconds: f64,
}

impl Smallest {
    fn add(&mut self, seconds: f64) {
        self.seconds = if self.count == 0 { seconds } else { self.seconds.min(seconds) };
        self.count = self.count.saturating_add(1);
    }
}

impl DownlinkEstimator {
    /// For a downlink of `capacity` bytes per second; `buffer` in bytes bounds the estimate if it is known.
    pub fn new(capacity: f64, buffer: Option<f64>) -> Self {
        Self {
            capacity: sane(capacity).unwrap_or(0.0),
            limit: buffer.and_then(sane).unwrap_or(f64::INFINITY),
            traffic: SlidingSum::default(),
            base: None,
            confirmed: None,
            light: SlidingMinimum::default(),
            light_probes: SlidingSum::default(),
            light_since: None,
            observed_since: None,
            stretch: Smallest::default(),
            stretch_began: None,
            stretch_bytes: 0,
        }
    }

    /// Tells a capacity that was learnt meanwhile, bytes per second.
    pub fn set_capacity(&mut self, capacity: f64) {
        self.capacity = sane(capacity).unwrap_or(self.capacity);
    }

    /// Tells what came in through the downlink in the interval ending at `at`, bytes on the wire.
    pub fn push_traffic(&mut self, at: Duration, wire_bytes: u64) {
        self.observed_since.get_or_insert(at);
        self.traffic.push(at, wire_bytes);
        self.stretch_bytes = self.stretch_bytes.saturating_add(wire_bytes);
        let began = *self.stretch_began.get_or_insert(at);
        let length = at.saturating_sub(began);
        if length < STRETCH {
            return;
        }
        let full = self.stretch_bytes as f64 >= NOT_FULL * self.capacity * length.as_secs_f64();
        // Few probes may all have met a queue that came and went.
        if !full && self.stretch.count >= 10 {
            self.base = Some(self.stretch.seconds);
            self.confirmed = Some(at);
        }
        self.stretch = Smallest::default();
        self.stretch_began = Some(at);
        self.stretch_bytes = 0;
    }

    /// Takes in one round trip and says what the downlink buffer held; `None` if the probe or the capacity is useless.
    pub fn push(&mut self, probe: &Probe) -> Option<Estimate> {
        let round_trip = sane(probe.round_trip).filter(|seconds| *seconds > 0.0)?;
        let outside = round_trip - sane(probe.uplink_sojourn)?.min(round_trip);
        if self.capacity <= 0.0 {
            return None;
        }
        self.stretch.add(outside);
        self.note_light(probe.at, outside);
        // An RTT below the base proves the base too long, whatever else.
        let base = self.base.map_or(outside, |base| base.min(outside));
        self.base = Some(base);
        let delay = outside - base;
        let waited = Duration::try_from_secs_f64(delay).unwrap_or_default();
        Some(Estimate {
            at_s: probe.at.saturating_sub(waited).as_secs_f64(),
            bytes: (delay * self.capacity).min(self.limit),
            base_round_trip_s: base,
            trust: self.trust(probe.at),
        })
    }

    /// The base RTT, seconds.
    pub fn base_round_trip(&self) -> Option<f64> {
        self.base
    }

    /// Whether the base RTT can be relied on at a moment.
    pub fn trust(&self, now: Duration) -> Trust {
        match self.confirmed {
            None => Trust::NeverEmpty,
            Some(at) if now.saturating_sub(at) > STALE => Trust::Stale,
            Some(_) => Trust::Confirmed,
        }
    }

    fn note_light(&mut self, at: Duration, outside: f64) {
        // What came in during the round trip and a little before: the tail of a burst may still have been queued.
        let window =
            Duration::try_from_secs_f64(outside).unwrap_or_default().max(Duration::from_millis(100)) * 2;
        let bytes = self.traffic.since(at.saturating_sub(window)) as f64;
        if bytes > LIGHT * self.capacity * window.as_secs_f64() {
            self.light.clear();
            self.light_since = None;
            return;
        }
        // What came in before the first sample is not known to have been little.
        if self.observed_since.is_none_or(|since| at.saturating_sub(since) < window) {
            return;
        }
        self.light.push(at, outside);
        self.light_probes.push(at, 1);
        let since = *self.light_since.get_or_insert(at);
        let stretch = at.saturating_sub(LIGHT_STRETCH);
        if at.saturating_sub(since) < LIGHT_STRETCH || self.light_probes.since(stretch) < LIGHT_PROBES {
            return;
        }
        if let Some(smallest) = self.light.since(stretch) {
            self.base = Some(smallest);
            self.confirmed = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAPACITY: f64 = 300_000.0;

    /// A probe every 10 ms over `seconds`, with the downlink at `load` of its capacity.
    fn run(
        estimator: &mut DownlinkEstimator,
        from: u64,
        seconds: u64,
        load: f64,
        round_trip: impl Fn(f64) -> f64,
    ) -> Vec<Estimate> {
        let mut estimates = Vec::new();
        for step in from * 100..(from + seconds) * 100 {
            let at = Duration::from_millis(10 * (step + 1));
            estimator.push_traffic(at, (load * CAPACITY / 100.0) as u64);
            let round_trip = round_trip(at.as_secs_f64());
            estimates.extend(estimator.push(&Probe { at, round_trip, uplink_sojourn: 0.0 }));
        }
        estimates
    }

    #[test]
    fn equation_1_by_hand() {
        let mut estimator = DownlinkEstimator::new(CAPACITY, None);
        run(&mut estimator, 0, 2, 0.0, |_| 0.04);
        // 0.64 s, of which 0.5 s in the own uplink and 0.04 s base: 0.1 s · 300,000 B/s = 30,000 B, 0.1 s before.
        let at = Duration::from_secs(3);
        let estimate = estimator.push(&Probe { at, round_trip: 0.64, uplink_sojourn: 0.5 }).expect("a probe");
        assert!((estimate.bytes - 30_000.0).abs() < 1e-6 && (estimate.at_s - 2.9).abs() < 1e-6);
        assert_eq!(estimate.trust, Trust::Confirmed);
        let mut bounded = DownlinkEstimator::new(CAPACITY, Some(20_000.0));
        run(&mut bounded, 0, 2, 0.0, |_| 0.04);
        let estimate = bounded.push(&Probe { at, round_trip: 0.64, uplink_sojourn: 0.5 }).expect("a probe");
        assert_eq!(estimate.bytes, 20_000.0);
    }

    #[test]
    fn a_queue_that_never_drains_is_not_believed() {
        let mut estimator = DownlinkEstimator::new(CAPACITY, None);
        let estimates = run(&mut estimator, 0, 60, 1.0, |time| 0.09 + 0.05 * (time % 2.0) / 2.0);
        assert!(estimates.iter().all(|estimate| estimate.trust == Trust::NeverEmpty));
        // A pause reveals the base, and from then on the estimate counts from it.
        run(&mut estimator, 60, 2, 0.0, |_| 0.04);
        let after = run(&mut estimator, 62, 2, 1.0, |_| 0.09);
        let last = after.last().expect("estimates");
        assert_eq!(last.trust, Trust::Confirmed);
        assert!((last.bytes - 15_000.0).abs() < 1.0, "{}", last.bytes);
    }

    #[test]
    fn a_longer_route_is_noticed() {
        let mut estimator = DownlinkEstimator::new(CAPACITY, None);
        run(&mut estimator, 0, 5, 0.1, |_| 0.04);
        // Idle: at once. 40 ms → 70 ms is no queue of 9,000 B.
        let light = run(&mut estimator, 5, 5, 0.1, |_| 0.07);
        assert!(light.last().expect("estimates").bytes < 1.0);
        // Busy but not full: after a stretch, for a standing queue would have filled the link.
        let busy = run(&mut estimator, 10, 25, 0.7, |time| 0.1 + 0.02 * (time % 1.0));
        assert!(busy[0].bytes > 5_000.0);
        let last = busy.last().expect("estimates");
        assert!(last.bytes < 0.025 * CAPACITY && (last.base_round_trip_s - 0.1).abs() < 0.001, "{last:?}");
        // Full for more than five minutes: said.
        let full = run(&mut estimator, 40, 320, 1.0, |_| 0.15);
        assert_eq!(full.last().expect("estimates").trust, Trust::Stale);
    }

    #[test]
    fn a_shorter_route_is_noticed_at_once() {
        let mut estimator = DownlinkEstimator::new(CAPACITY, None);
        run(&mut estimator, 0, 5, 1.0, |_| 0.1);
        let estimates = run(&mut estimator, 5, 1, 1.0, |_| 0.06);
        assert!((estimates[0].base_round_trip_s - 0.06).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn never_a_useless_figure(values in proptest::collection::vec((any::<f64>(), any::<f64>(), any::<u32>()), 0..50)) {
            let mut estimator = DownlinkEstimator::new(CAPACITY, None);
            for (index, (round_trip, uplink_sojourn, bytes)) in values.into_iter().enumerate() {
                let at = Duration::from_millis(10 * index as u64);
                estimator.push_traffic(at, u64::from(bytes));
                if let Some(estimate) = estimator.push(&Probe { at, round_trip, uplink_sojourn }) {
                    prop_assert!(estimate.bytes.is_finite() && estimate.bytes >= 0.0);
                    prop_assert!(estimate.at_s.is_finite() && estimate.base_round_trip_s >= 0.0);
                }
            }
        }
    }
}
