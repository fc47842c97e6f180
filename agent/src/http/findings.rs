//! What the detector says, as part of a link in `/api/v1/state`. The structures here are the schema.

use std::collections::BTreeMap;

use pendulum_model::bloat::Bufferbloat;
use pendulum_model::fairness::Classes;
use pendulum_model::findings::{Evidence, Phase, Verdict};
use pendulum_model::phase::PhaseSource;
use pendulum_model::ratio::Confidence;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::sizing::{Predicted, Recommended, SenderControl, Traffic};
use serde::Serialize;

use crate::snapshot::{Findings, LinkSnapshot, Prediction};

/// All `null` while the link is not measured.
#[derive(Serialize)]
pub(super) struct FindingsReport {
    phase: Option<Phase>,
    phase_for_s: Option<f64>,
    phase_source: Option<PhaseSource>,
    phase_share: Option<PerPhase>,
    horizon_s: Option<f64>,
    phase_seconds: Option<PerPhase>,
    phase_transitions: Option<u64>,
    verdict: Option<Verdict>,
    verdict_for_s: Option<f64>,
    evidence: Option<Evidence>,
    swing_period_s: Option<f64>,
    queue_correlation: Option<f64>,
    queue_lag_s: Option<f64>,
    throughput_ratio: Ratio,
    round_trip_s: Option<f64>,
    base_round_trip_s: Option<f64>,
    base_round_trip_proven: Option<bool>,
    bulk: Option<PerDirection<bool>>,
    unfair: Option<PerDirection<bool>>,
    standing_delay_s: PerDirection<Option<f64>>,
    bufferbloat: PerDirection<Option<Bufferbloat>>,
    round_trip_classes: PerDirection<Option<Classes>>,
    advice: Option<AdviceReport>,
    sources: Vec<SourceReport>,
    degraded: Vec<String>,
}

type PerPhase = BTreeMap<&'static str, f64>;

#[derive(Default, Serialize)]
struct Ratio {
    measured: Option<f64>,
    predicted: Option<f64>,
}

#[derive(Serialize)]
struct AdviceReport {
    uplink_buffer_bytes: u64,
    uplink_buffer_packets: u64,
    downlink_buffer_bytes: u64,
    wanted_ratio: f64,
    expected_ratio: Option<f64>,
    download_bps: u64,
    upload_bps: u64,
    max_queue_delay_s: f64,
    commands: Vec<String>,
    confidence: Confidence,
    /// What was simulated; `null` if nothing was.
    predicted_inputs: Option<PredictedInputs>,
    /// With the buffers as they are.
    predicted: Option<Predicted>,
    predicted_reason: Option<String>,
    /// With the buffers of the advice.
    predicted_as_advised: Option<Predicted>,
    predicted_as_advised_reason: Option<String>,
    recommended: Option<Recommended>,
    recommended_reason: Option<String>,
}

/// The link and the transfers that were simulated.
#[derive(Serialize)]
struct PredictedInputs {
    downlink_rate_bps: u64,
    uplink_rate_bps: u64,
    rtt_s: f64,
    /// In bytes (`30000b`) or packets (`50p`).
    downlink_buffer: Option<String>,
    uplink_buffer: Option<String>,
    congestion_control: SenderControl,
    downloads: u32,
    uploads: u32,
}

#[derive(Serialize)]
struct SourceReport {
    what: &'static str,
    direction: &'static str,
    source: &'static str,
}

fn per_phase(figures: [f64; 4]) -> PerPhase {
    Phase::ALL.map(Phase::name).into_iter().zip(figures).collect()
}

impl FindingsReport {
    pub(super) fn of(link: &LinkSnapshot) -> Self {
        let findings = link.findings.as_deref();
        let state = findings.map(|findings| &*findings.state);
        let since = |findings: &Findings, then| findings.at.saturating_sub(then).as_secs_f64();
        let phase = findings.and_then(|findings| findings.phase);
        let directions = state.map(|state| &state.directions);
        let transitions =
            |state: &pendulum_model::detector::State| state.phase_transitions.iter().flatten().sum();
        Self {
            phase: phase.map(|(phase, _)| phase),
            phase_for_s: findings.zip(phase).map(|(findings, (_, then))| since(findings, then)),
            phase_source: state.and_then(|state| state.phase_source),
            phase_share: state.and_then(|state| state.phase_share).map(per_phase),
            horizon_s: state.map(|state| state.horizon_s),
            phase_seconds: findings.map(|findings| per_phase(findings.phase_seconds)),
            phase_transitions: state.map(transitions),
            verdict: findings.map(|findings| findings.verdict),
            verdict_for_s: findings.map(|findings| since(findings, findings.verdict_since)),
            evidence: state.and_then(|state| state.evidence.clone()),
            swing_period_s: state.and_then(|state| state.swing_period_s),
            queue_correlation: state.and_then(|state| state.queue_correlation),
            queue_lag_s: state.and_then(|state| state.queue_lag_s),
            throughput_ratio: Ratio {
                measured: state.and_then(|state| state.throughput_ratio),
                predicted: findings.and_then(|findings| findings.predicted_ratio),
            },
            round_trip_s: state.and_then(|state| state.round_trip_s),
            base_round_trip_s: state.and_then(|state| state.base_round_trip_s),
            base_round_trip_proven: state
                .filter(|state| state.base_round_trip_s.is_some())
                .map(|state| state.base_round_trip_proven),
            standing_delay_s: PerDirection::from_fn(|x| directions.and_then(|both| both[x].standing_delay_s)),
            bufferbloat: PerDirection::from_fn(|x| directions.and_then(|both| both[x].bufferbloat)),
            bulk: directions.map(|both| PerDirection::from_fn(|x| both[x].bulk)),
            unfair: directions.map(|both| PerDirection::from_fn(|x| both[x].unfair)),
            round_trip_classes: PerDirection::from_fn(|x| {
                directions.and_then(|both| both[x].round_trip_classes)
            }),
            advice: findings.and_then(advice),
            sources: sources(link),
            degraded: link.degraded.to_vec(),
        }
    }
}

fn advice(findings: &Findings) -> Option<AdviceReport> {
    let advice = findings.advice.as_deref()?;
    let prediction = findings.prediction.as_deref().cloned();
    let prediction =
        prediction.unwrap_or_else(|| Prediction::unknown("nothing has been simulated yet".to_owned()));
    let (predicted, predicted_reason) = or_reason(prediction.present);
    let (predicted_as_advised, predicted_as_advised_reason) = or_reason(prediction.as_advised);
    let (recommended, recommended_reason) = or_reason(prediction.recommended);
    Some(AdviceReport {
        uplink_buffer_bytes: advice.uplink_buffer_bytes,
        uplink_buffer_packets: advice.uplink_buffer_packets,
        downlink_buffer_bytes: advice.downlink_buffer_bytes,
        wanted_ratio: advice.wanted_ratio,
        expected_ratio: (advice.upload_bps > 0.0).then(|| advice.download_bps / advice.upload_bps),
        download_bps: advice.download_bps.round() as u64,
        upload_bps: advice.upload_bps.round() as u64,
        max_queue_delay_s: advice.max_queue_delay_s,
        commands: advice.commands.clone(),
        confidence: advice.explanation.confidence,
        predicted_inputs: prediction.link.map(|link| {
            let transfers = Traffic::default();
            PredictedInputs {
                downlink_rate_bps: link.rate.down.bits_per_second(),
                uplink_rate_bps: link.rate.up.bits_per_second(),
                rtt_s: link.round_trip.as_secs_f64(),
                downlink_buffer: link.buffer.map(|buffer| buffer.down.to_string()),
                uplink_buffer: link.buffer.map(|buffer| buffer.up.to_string()),
                congestion_control: transfers.congestion_control,
                downloads: transfers.downloads,
                uploads: transfers.uploads,
            }
        }),
        predicted,
        predicted_reason,
        predicted_as_advised,
        predicted_as_advised_reason,
        recommended,
        recommended_reason,
    })
}

fn or_reason<T>(answer: Result<T, String>) -> (Option<T>, Option<String>) {
    match answer {
        Ok(figures) => (Some(figures), None),
        Err(reason) => (None, Some(reason)),
    }
}

/// Where each figure comes from, as far as it is known at all.
fn sources(link: &LinkSnapshot) -> Vec<SourceReport> {
    let mut sources = Vec::new();
    for direction in Direction::ALL {
        let known = link.direction(direction);
        let has_rtt = known.rtt.slots.iter().any(|count| *count > 0);
        for (what, source) in [
            ("queue", known.queue.as_ref().map(|queue| queue.source)),
            ("cwnd", known.cwnd_bytes.map(|_| link.cwnd_source)),
            ("rate", known.rate.map(|rate| rate.source.name())),
            ("rtt", has_rtt.then_some("packets")),
        ] {
            sources.extend(source.map(|source| SourceReport { what, direction: direction.name(), source }));
        }
    }
    sources
}
