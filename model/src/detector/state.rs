//! What the detector knows at one moment, for metrics, the API and reports.

use serde::Serialize;

use crate::bloat::Bufferbloat;
use crate::fairness::RttClasses;
use crate::findings::{Evidence, Phase, Verdict};
use crate::link::{Known, Provenance};
use crate::phase::PhaseSource;
use crate::ratio::{Prediction, refined};
use crate::sample::{Composition, MeasuredRate};
use crate::segment::{Direction, PerDirection};

use super::Detector;

/// A snapshot. Base units; shares and utilisations 0–1; `None` is "not known".
#[derive(Clone, Debug, Serialize)]
pub struct DetectorState {
    /// Time of the latest sample, seconds.
    pub at_s: f64,
    /// Samples taken in.
    pub samples: u64,
    /// Samples rejected because they did not follow in time.
    pub rejected_samples: u64,
    /// The case that holds.
    pub phase: Option<Phase>,
    /// Since when, seconds.
    pub phase_since_s: Option<f64>,
    /// What it was derived from.
    pub phase_source: Option<PhaseSource>,
    /// Time in each case since the start, seconds, in [`Phase`] order.
    pub phase_seconds: [f64; 4],
    /// Share of the known time in each case within the horizon, in [`Phase`] order; `None` if the case was never known.
    pub phase_share: Option<[f64; 4]>,
    /// How far back shares and verdicts look, seconds.
    pub horizon_s: f64,
    /// Changes between cases since the start, `[from][to]` in [`Phase`] order.
    pub phase_transitions: [[u64; 4]; 4],
    /// Share of the intervals in which windows and queues agreed on the case (001 Eq. 5).
    pub window_agreement: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Why; `None` until there was evidence for any verdict.
    pub evidence: Option<Evidence>,
    /// Time each verdict has held, seconds, in [`Verdict`] order.
    pub verdict_seconds: [f64; Verdict::ALL.len()],
    /// Period of the swing within the horizon, seconds.
    pub swing_period_s: Option<f64>,
    /// Correlation of both queues within the horizon.
    pub queue_correlation: Option<f64>,
    /// Lag at which the queues are most opposed (001 Fig. 9), seconds, to 0.1 s: positive if the downlink follows.
    pub queue_lag_s: Option<f64>,
    /// `r = X_d/X_u` within the horizon, while bulk data goes both ways: of one-way traffic it says nothing.
    pub throughput_ratio: Option<f64>,
    /// Round-trip time, seconds.
    pub round_trip_s: Option<f64>,
    /// The same without queues, seconds.
    pub base_round_trip_s: Option<f64>,
    /// That was measured while both buffers were empty for certain; otherwise a queue may be part of it.
    pub base_round_trip_proven: bool,
    /// Each direction.
    pub directions: PerDirection<DirectionState>,
}

/// One direction's part of the [`DetectorState`].
#[derive(Clone, Debug, Serialize)]
pub struct DirectionState {
    /// `C_x`, bytes per second.
    pub capacity: Option<Known>,
    /// The rate as measured from the traffic, whether or not another is configured.
    pub measured_rate: Option<MeasuredRate>,
    /// `d_x`, bytes.
    pub standing_bytes: Option<f64>,
    /// Highest level since the start, bytes.
    pub peak_bytes: f64,
    /// Data throughput over the last 300 ms, bytes per second.
    pub throughput: f64,
    /// What even the luckiest packet waits in the buffer, seconds: mean within the horizon, of the time in which it is known.
    pub standing_delay_s: Option<f64>,
    /// What entered the buffer within the horizon, bytes by kind; all zero if the kinds are not known.
    pub composition: Composition,
    /// The buffer does not drain.
    pub bufferbloat: Option<Bufferbloat>,
    /// Part of the capacity used within the horizon, all bytes.
    pub utilization: Option<f64>,
    /// Mean window within the horizon, bytes.
    pub window_bytes: f64,
    /// Carries bulk data.
    pub bulk: bool,
    /// Share of ACKs in bursts of ten or more within the horizon.
    pub long_burst_share: f64,
    /// Near and far flows, if there are both (paper 003).
    pub round_trip_classes: Option<RttClasses>,
    /// Near flows take more than their part.
    pub unfair: bool,
}

impl Detector {
    /// The present state. Costs a pass over the horizon; meant for once in a while, not for every sample.
    pub fn state(&self) -> DetectorState {
        let now = self.now();
        let horizon = self.thresholds.horizon(self.bounded_round_trip());
        let start = now.saturating_sub(horizon);
        let recent = self.history.since(start);
        let current = self.phases.current();
        let directions = PerDirection::from_fn(|x| self.direction_state(x, &recent));
        DetectorState {
            at_s: now.as_secs_f64(),
            samples: self.samples,
            rejected_samples: self.rejected,
            phase: current.map(|(phase, _)| phase),
            phase_since_s: current.map(|(_, since)| since.as_secs_f64()),
            phase_source: current.and(self.phases.source()),
            phase_seconds: self.run().phase_seconds,
            phase_share: (recent.phase_seconds.iter().sum::<f64>() > 0.0)
                .then(|| Phase::ALL.map(|phase| recent.phase_share(phase))),
            horizon_s: horizon.as_secs_f64(),
            phase_transitions: self.transitions,
            window_agreement: self.phases.agreement(),
            verdict: self.verdict(),
            evidence: self.tracker.evidence(self.thresholds.verdict_dwell.0),
            verdict_seconds: self.tracker.held_seconds(),
            swing_period_s: self.swing.period_since(start),
            queue_correlation: recent.queues.correlation(),
            queue_lag_s: self.history.opposition_lag(start),
            throughput_ratio: recent.throughput_ratio().filter(|_| self.is_two_way()),
            round_trip_s: self.round_trip,
            base_round_trip_s: self.base_round_trip().map(|base| base.seconds),
            base_round_trip_proven: self.base_round_trip().is_some_and(|base| base.is_proven),
            directions,
        }
    }

    /// The ratio the refined model predicts for this link, for comparison with the measured one.
    ///
    /// A buffer that is not configured counts as the highest level seen in it, an unknown propagation time as the smallest RTT
    /// seen. `None` while a capacity or a buffer is unknown. Takes a fraction of a millisecond.
    pub fn predicted_ratio(&self) -> Option<Prediction> {
        let mut link = self.link;
        for x in Direction::ALL {
            link.capacity[x] = self.capacity(x);
            let peak = Some(self.passed[x].peak_queue).filter(|peak| *peak > 0.0);
            let learnt = peak.map(|value| Known { value, provenance: Provenance::Learnt });
            link.buffer[x] = link.buffer[x].or(learnt);
        }
        let base = self.base_round_trip();
        link.propagation = link
            .propagation
            .or(base.map(|base| Known { value: base.seconds / 2.0, provenance: Provenance::Learnt }));
        link.setting()?.ok().map(|setting| refined::predict(&setting))
    }

    fn is_two_way(&self) -> bool {
        Direction::ALL.into_iter().all(|x| self.activity[x].is_bulk())
    }

    fn direction_state(&self, x: Direction, recent: &crate::history::Totals) -> DirectionState {
        let capacity = self.capacity(x);
        DirectionState {
            capacity,
            measured_rate: self.measured_rate(x),
            standing_bytes: self.phases.standing()[x],
            peak_bytes: self.passed[x].peak_queue,
            throughput: self.passed[x].throughput,
            standing_delay_s: recent.delay[x].mean(),
            composition: recent.composition[x],
            bufferbloat: self.findings.bufferbloat(x),
            utilization: capacity.map(|known| recent.wire_rate(x) / known.value),
            window_bytes: recent.mean_window(x),
            bulk: self.activity[x].is_bulk(),
            long_burst_share: recent.long_burst_share(x),
            round_trip_classes: self.findings.classes(x),
            unfair: self.findings.is_unfair(x),
        }
    }
}
