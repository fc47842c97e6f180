//! What the detector says, as part of a link in `/api/v1/state`.

use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{Link, Ratio, Source};

use crate::snapshot::{Findings, LinkSnapshot};

/// These fields of the link; `null` while it is not measured.
pub(super) fn detected(link: &LinkSnapshot) -> Link {
    let findings = link.findings.as_deref();
    let state = findings.map(|findings| &*findings.state);
    let since = |findings: &Findings, then| findings.at.saturating_sub(then).as_secs_f64();
    let phase = findings.and_then(|findings| findings.phase);
    let directions = state.map(|state| &state.directions);
    let transitions =
        |state: &pendulum_model::detector::DetectorState| state.phase_transitions.iter().flatten().sum();
    let degree = findings.map(Findings::degree);
    Link {
        phase: phase.map(|(phase, _)| phase.name().into()),
        phase_for_s: findings.zip(phase).map(|(findings, (_, then))| since(findings, then)),
        phase_source: state.and_then(|state| state.phase_source).map(|source| source.name().into()),
        phase_share: state.and_then(|state| state.phase_share).map(Into::into),
        horizon_s: state.map(|state| state.horizon_s),
        phase_seconds: findings.map(|findings| findings.phase_seconds.into()),
        phase_transitions: state.map(transitions),
        verdict: findings.map(|findings| findings.verdict.name().into()),
        verdict_for_s: findings.map(|findings| since(findings, findings.verdict_since)),
        lost_ratio: degree.and_then(|degree| degree.lost_ratio),
        severity: degree.map(|degree| degree.severity.name().into()),
        evidence: state.and_then(|state| state.evidence.clone()),
        swing_period_s: state.and_then(|state| state.swing_period_s),
        queue_correlation: state.and_then(|state| state.queue_correlation),
        queue_lag_s: state.and_then(|state| state.queue_lag_s),
        throughput_ratio: Some(Ratio {
            measured: state.and_then(|state| state.throughput_ratio),
            predicted: findings.and_then(|findings| findings.predicted_ratio),
        }),
        round_trip_s: state.and_then(|state| state.round_trip_s),
        base_round_trip_s: state.and_then(|state| state.base_round_trip_s),
        base_round_trip_proven: state
            .filter(|state| state.base_round_trip_s.is_some())
            .map(|state| state.base_round_trip_proven),
        standing_delay_s: PerDirection::from_fn(|x| directions.and_then(|both| both[x].standing_delay_s)),
        bufferbloat: PerDirection::from_fn(|x| Some(directions?[x].bufferbloat?.into())),
        bulk: directions.map(|both| PerDirection::from_fn(|x| both[x].bulk)),
        unfair: directions.map(|both| PerDirection::from_fn(|x| both[x].unfair)),
        round_trip_classes: PerDirection::from_fn(|x| directions?[x].round_trip_classes),
        advice: findings.and_then(|findings| findings.advice.as_deref().cloned()),
        sources: sources(link),
        degraded: link.degraded.to_vec(),
        ..Link::default()
    }
}

/// Where each figure comes from, as far as it is known at all.
fn sources(link: &LinkSnapshot) -> Vec<Source> {
    let mut sources = Vec::new();
    for direction in Direction::ALL {
        let known = &link.directions[direction];
        let has_rtt = known.rtt.slots.iter().any(|count| *count > 0);
        for (what, source) in [
            ("queue", known.queue.as_ref().map(|queue| queue.source.name())),
            ("cwnd", known.cwnd_bytes.map(|_| link.cwnd_source)),
            ("rate", known.rate.map(|rate| rate.source.name())),
            ("rtt", has_rtt.then_some("packets")),
        ] {
            sources.extend(source.map(|source| Source {
                what: what.into(),
                direction: Some(direction.name().into()),
                source: source.into(),
            }));
        }
    }
    sources
}
