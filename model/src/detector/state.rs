//! What the detector knows at one moment, for metrics, the API and reports.

use crate::bloat::Bufferbloat;
use crate::fairness::RttClasses;
use crate::findings::{Evidence, Phase, Verdict};
use crate::link::{Known, Provenance};
use crate::phase::PhaseSource;
use crate::ratio::{Prediction, refined};
use crate::segment::{Direction, PerDirection};

use super::Detector;

/// What takes a pass over the past. Base units; shares 0–1; `None` is "not known".
#[derive(Clone, Debug)]
pub struct DetectorState {
    /// What the case that holds was derived from.
    pub phase_source: Option<PhaseSource>,
    /// Share of the known time in each case within the horizon, in [`Phase`] order; `None` if the case was never known.
    pub phase_share: Option<[f64; 4]>,
    /// How far back shares and verdicts look, seconds.
    pub horizon_s: f64,
    /// Share of the intervals in which windows and queues agreed on the case (001 Eq. 5).
    pub window_agreement: Option<f64>,
    /// Why the verdict holds; `None` until there was evidence for any verdict.
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
    /// Newest round trip of the last [`MOMENT`](crate::constants::MOMENT), seconds.
    pub round_trip_s: Option<f64>,
    /// Each direction.
    pub directions: PerDirection<DirectionState>,
}

/// One direction's part of the [`DetectorState`].
#[derive(Clone, Debug)]
pub struct DirectionState {
    /// What even the luckiest packet waits in the buffer, seconds: mean within the horizon, of the time in which it is known.
    pub standing_delay_s: Option<f64>,
    /// The buffer does not drain.
    pub bufferbloat: Option<Bufferbloat>,
    /// Carries bulk data.
    pub bulk: bool,
    /// Near and far flows, if there are both (paper 003).
    pub round_trip_classes: Option<RttClasses>,
    /// Near flows take more than their part.
    pub unfair: bool,
}

impl Detector {
    /// The present state. Costs a pass over the horizon; meant for once in a while, not for every sample.
    pub fn state(&self) -> DetectorState {
        let horizon = self.thresholds.horizon(self.bounded_round_trip());
        let start = self.now().saturating_sub(horizon);
        let recent = self.history.since(start);
        DetectorState {
            phase_source: self.phases.current().and(self.phases.source()),
            phase_share: (recent.phase_seconds.iter().sum::<f64>() > 0.0)
                .then(|| Phase::ALL.map(|phase| recent.phase_share(phase))),
            horizon_s: horizon.as_secs_f64(),
            window_agreement: self.phases.agreement(),
            evidence: self.tracker.evidence(self.thresholds.verdict_dwell.0),
            verdict_seconds: self.tracker.held_seconds(),
            swing_period_s: self.swing.period_since(start),
            queue_correlation: recent.queues.correlation(),
            queue_lag_s: self.history.opposition_lag(start),
            throughput_ratio: recent.throughput_ratio().filter(|_| self.is_two_way()),
            round_trip_s: self.recent_round_trip(),
            directions: PerDirection::from_fn(|x| DirectionState {
                standing_delay_s: recent.delay[x].mean(),
                bufferbloat: self.findings.bufferbloat(x),
                bulk: self.activity[x].is_bulk(),
                round_trip_classes: self.findings.classes(x),
                unfair: self.findings.is_unfair(x),
            }),
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
}
