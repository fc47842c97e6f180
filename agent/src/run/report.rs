//! What a link's task knows, in the form readers get it.

use std::sync::Arc;

use pendulum_model::degree::Degree;
use pendulum_model::detector::Detector;
use pendulum_model::link::Provenance;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{Advice, Hooks, Link, Ratio, Tick};

use super::meter::KernelMeter;
use super::sweep::Sweeper;
use crate::bpf::{AttachReport, Hook};
use crate::config::LinkConfig;
use crate::net::{Device, LinkLayer};
use crate::snapshot::{DeviceState, DirectionSnapshot, LinkRate, LinkSnapshot, ShapeSnapshot};

/// What the counters and the flow table tell; a link of which nothing else is known.
pub(super) fn snapshot(config: &LinkConfig, meter: &KernelMeter, sweeper: &Sweeper) -> LinkSnapshot {
    let counted = meter.totals();
    let throughput = meter.throughput();
    let rtt = meter.recent_rtt();
    LinkSnapshot {
        name: config.name.as_str().into(),
        wan: config.wan.as_str().into(),
        device: DeviceState::Missing,
        hooks: None,
        trouble: None,
        read_at: None,
        directions: PerDirection::from_fn(|direction| DirectionSnapshot {
            counters: counted.counters[direction],
            throughput: throughput[direction],
            rtt: rtt[direction],
            rate: config.rate(direction).map(|rate| LinkRate { rate, source: Provenance::Config }),
            ..DirectionSnapshot::default()
        }),
        stats: counted.stats,
        flows: sweeper.latest(),
        programs: Arc::new([]),
        maps: Arc::new([]),
        cwnd_source: "unknown",
        shape: ShapeSnapshot::default(),
        readings: Default::default(),
        vantage: None,
        delay: None,
        findings: None,
        tick: Tick::default(),
        tick_number: 0,
        slot_losses: None,
        unsent: Arc::default(),
        degraded: Arc::new([]),
    }
}

/// What the detector says beside phase and verdict, which change with each tick.
pub(super) fn detected(detector: &Detector, predicted: Option<f64>, advice: Option<Advice>) -> Link {
    let state = detector.state();
    let of = &state.directions;
    let base = detector.base_round_trip();
    let delay = |x: Direction| of[x].bufferbloat.as_ref().map(|bloat| bloat.delay_s);
    let longest = Direction::ALL.into_iter().filter_map(delay).reduce(f64::max);
    let degree = Degree::of(detector.verdict(), state.evidence.as_ref(), longest);
    Link {
        phase_source: state.phase_source.map(|source| source.name().into()),
        phase_share: state.phase_share.map(Into::into),
        horizon_s: Some(state.horizon_s),
        lost_ratio: degree.lost_ratio,
        severity: Some(degree.severity.name().into()),
        evidence: state.evidence,
        swing_period_s: state.swing_period_s,
        queue_correlation: state.queue_correlation,
        queue_lag_s: state.queue_lag_s,
        throughput_ratio: Some(Ratio { measured: state.throughput_ratio, predicted }),
        round_trip_s: state.round_trip_s,
        base_round_trip_s: base.map(|base| base.seconds),
        base_round_trip_proven: base.map(|base| base.is_proven),
        bulk: Some(PerDirection::from_fn(|x| of[x].bulk)),
        unfair: Some(PerDirection::from_fn(|x| of[x].unfair)),
        standing_delay_s: PerDirection::from_fn(|x| of[x].standing_delay_s),
        bufferbloat: PerDirection::from_fn(|x| of[x].bufferbloat.clone()),
        round_trip_classes: PerDirection::from_fn(|x| of[x].round_trip_classes),
        advice,
        ..Link::default()
    }
}

/// Where the programs hang, in the names readers see.
pub(super) fn hooks(device: &Device, report: &AttachReport) -> Hooks {
    let mechanism = |wanted: &[Hook]| {
        let found = report.hooks.iter().find(|(hook, _)| wanted.contains(hook));
        found.map_or("none", |(_, mechanism)| mechanism.name()).into()
    };
    Hooks {
        ifindex: device.index,
        link_layer: if device.link_layer == LinkLayer::RawIp { "raw-ip" } else { "ethernet" }.into(),
        egress: mechanism(&[Hook::Egress]),
        ingress: mechanism(&[Hook::Ingress, Hook::Xdp]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pendulum_model::detector::Config;
    use pendulum_model::sample::{BaseRoundTrip, QueueSample, QueueSource, Sample, Traffic};
    use pendulum_wire::PerPhase;

    use super::*;

    /// Ten seconds of 250,000 bytes per second into a buffer of 50,000; of the other direction only ACKs are seen.
    fn full(busy: Direction, is_proven: bool) -> Detector {
        let mut detector = Detector::new(Config::default());
        for step in 1..=1_000 {
            let span = Duration::from_millis(10);
            let mut sample = Sample { at: span * step, span, round_trip: Some(0.25), ..Sample::default() };
            sample.base_round_trip = Some(BaseRoundTrip { seconds: 0.04, is_proven });
            for x in Direction::ALL {
                let bytes = if x == busy { 50_000.0 } else { 0.0 };
                sample.link[x].queue = Some(QueueSample::level(QueueSource::Tracepoint, bytes));
            }
            sample.link[busy].traffic =
                Traffic { wire_bytes: 2_500, data_bytes: 2_400, data_segments: 2, ..Traffic::default() };
            sample.link[busy.opposite()].traffic.wire_bytes = 66;
            detector.push(&sample);
        }
        detector
    }

    #[test]
    fn what_the_detector_says_belongs_to_its_direction() {
        for (busy, is_proven) in Direction::ALL.into_iter().zip([true, false]) {
            let found = detected(&full(busy, is_proven), Some(1.5), Some(Advice::default()));
            let only_busy = PerDirection::from_fn(|x| x == busy);
            assert_eq!((found.bulk, found.unfair), (Some(only_busy), Some(PerDirection::default())));
            for x in Direction::ALL {
                let delay_s = if x == busy { 0.2 } else { 0.0 };
                assert!((found.standing_delay_s[x].expect("known") - delay_s).abs() < 1e-9, "{busy:?} {x:?}");
                let bloat_s = found.bufferbloat[x].as_ref().map(|bloat| (bloat.delay_s * 1e3).round());
                assert_eq!(bloat_s, (x == busy).then_some(200.0));
                assert!(found.round_trip_classes[x].is_none());
            }
            let mut share = [0.0; 4];
            share[busy as usize] = 1.0;
            assert_eq!(found.phase_share, Some(PerPhase::from(share)));
            assert_eq!((found.phase_source.as_deref(), found.horizon_s), (Some("queues"), Some(15.0)));
            assert_eq!(
                (found.base_round_trip_s, found.base_round_trip_proven),
                (Some(0.04), Some(is_proven))
            );
            assert_eq!(found.evidence.map(|evidence| evidence.rule).as_deref(), Some("bulk_data_one_way"));
            // By the delay; one-way traffic loses nothing and has no ratio.
            assert_eq!((found.severity.as_deref(), found.lost_ratio), (Some("warning"), None));
            let ratio = found.throughput_ratio.map(|ratio| (ratio.measured, ratio.predicted));
            assert_eq!((ratio, found.advice.is_some()), (Some((None, Some(1.5))), true));
        }
    }

    #[test]
    fn a_detector_that_has_just_begun_knows_nothing() {
        let found = detected(&Detector::new(Config::default()), None, None);
        assert_eq!(
            (found.base_round_trip_s, found.base_round_trip_proven, found.round_trip_s),
            (None, None, None)
        );
        assert!(found.evidence.is_none() && found.phase_share.is_none() && found.phase_source.is_none());
        assert_eq!(found.standing_delay_s, PerDirection::default());
    }
}
