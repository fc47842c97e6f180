//! Takes in what a replay tells, in bounded memory, and makes the report of it.

use std::collections::BTreeMap;
use std::time::Duration;

use pendulum_model::constants::HALF;
use pendulum_model::degree::Degree;
use pendulum_model::detector::Detector;
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Evidence, FindingKind, Phase, Verdict};
use pendulum_model::link::{Known, Provenance};
use pendulum_model::sample::{MeasuredRate, QueueSource, Sample};
use pendulum_model::segment::{Class, Direction, PerDirection};
use pendulum_model::window::SlidingMinimum;
use pendulum_wire::{AckBurst, Ratio};

use super::super::flow::FlowKey;
use super::super::packet::Lost;
use super::super::series::Series;
use super::super::session::{Audience, Outcome};
use super::super::tally::{InFlight, Tally};
use super::conclusion::conclude;
use super::flows::{FlowReport, ROWS_MAX};
use super::{BurstReport, DirectionReport, LinkReport, Packets, QueueReport, Report};
use crate::bpf::abi::pendulum_counters;

/// Collects the figures of one replay. `on_event`: is given each phase change and finding at once.
pub struct Collector<'a> {
    queues: PerDirection<QueueTotals>,
    round_trip_s: f64,
    rows: Vec<FlowReport>,
    flows_total: u64,
    delivered_bytes: PerDirection<u64>,
    on_event: &'a mut dyn FnMut(&Event),
    series: Option<Series>,
    rates: PerDirection<Option<MeasuredRate>>,
    /// Why each verdict was given last.
    evidence: [Option<Evidence>; Verdict::ALL.len()],
    /// The longest standing delay of a bufferbloat.
    bloat_s: Option<f64>,
}

#[derive(Default)]
struct QueueTotals {
    source: Option<QueueSource>,
    /// What passed, and what of it while the level was known.
    bytes: u64,
    known_bytes: u64,
    seconds: f64,
    integral: f64,
    standing_integral: f64,
    uncertainty_integral: f64,
    max: f64,
    minimum: SlidingMinimum,
}

impl QueueTotals {
    fn add(&mut self, sample: &Sample, direction: Direction, round_trip_s: f64) {
        let wire_bytes = sample.link[direction].traffic.wire_bytes;
        self.bytes += wire_bytes;
        let Some(queue) = sample.link[direction].queue else { return };
        self.known_bytes += wire_bytes;
        let seconds = sample.span.as_secs_f64();
        self.source = Some(queue.source);
        self.seconds += seconds;
        self.integral += queue.mean_bytes * seconds;
        self.uncertainty_integral += queue.uncertainty_bytes * seconds;
        self.max = self.max.max(queue.max_bytes);
        self.minimum.push(sample.at, queue.min_bytes);
        let window = Duration::try_from_secs_f64(round_trip_s).unwrap_or_default();
        let standing = self.minimum.since(sample.at.saturating_sub(window)).unwrap_or(0.0);
        self.standing_integral += standing * seconds;
    }

    /// `None` if what most bytes met is not known: the level while little passed says nothing of it.
    fn mean(&self, integral: f64) -> Option<f64> {
        let is_known = self.seconds > 0.0 && self.known_bytes as f64 >= HALF * self.bytes as f64;
        is_known.then(|| integral / self.seconds)
    }
}

impl Audience for Collector<'_> {
    fn sample(&mut self, sample: &Sample, detector: &Detector) {
        if let Some(seconds) = sample.round_trip {
            self.round_trip_s = seconds.max(detector.thresholds.shortest_round_trip.seconds());
        }
        for direction in Direction::ALL {
            self.queues[direction].add(sample, direction, self.round_trip_s);
            self.rates[direction] = sample.link[direction].rate.or(self.rates[direction]);
        }
        if let Some(series) = &mut self.series {
            series.push(sample, detector);
        }
    }

    fn event(&mut self, event: &Event) {
        if let Change::Verdict { to, .. } = event.change {
            self.evidence[to as usize] = Some(event.evidence.clone());
        }
        if let Change::Finding { finding: FindingKind::Bufferbloat, .. } = event.change {
            let delays = event.evidence.figures.iter().filter(|figure| figure.name.ends_with("_delay_s"));
            self.bloat_s = delays.map(|figure| figure.value).chain(self.bloat_s).reduce(f64::max);
        }
        (self.on_event)(event);
    }

    fn flow(&mut self, key: &FlowKey, tally: &Tally, at_lan: Option<&InFlight>) {
        self.flows_total += 1;
        for direction in Direction::ALL {
            self.delivered_bytes[direction] += tally.delivered_bytes(direction);
        }
        self.rows.push(FlowReport::new(key, tally, at_lan));
        if self.rows.len() >= 2 * ROWS_MAX {
            self.keep_largest();
        }
    }
}

impl<'a> Collector<'a> {
    /// Nothing yet.
    pub fn new(on_event: &'a mut dyn FnMut(&Event), series: Option<Series>) -> Self {
        Self {
            queues: PerDirection::default(),
            round_trip_s: 0.0,
            rows: Vec::new(),
            flows_total: 0,
            delivered_bytes: PerDirection::default(),
            on_event,
            series,
            rates: PerDirection::default(),
            evidence: Default::default(),
            bloat_s: None,
        }
    }

    fn keep_largest(&mut self) {
        self.rows.sort_by(FlowReport::order);
        self.rows.truncate(ROWS_MAX);
    }

    /// The report, and the series if there is one.
    pub fn finish(mut self, outcome: &Outcome) -> (Report, Option<Series>) {
        let series = self.series.take();
        (self.report(outcome), series)
    }

    fn report(mut self, outcome: &Outcome) -> Report {
        self.keep_largest();
        let detector = &outcome.detector;
        let totals = detector.run();
        let learnt = |x: Direction| {
            self.rates[x].map(|rate| Known { value: rate.bytes_per_second, provenance: Provenance::Learnt })
        };
        let capacity = PerDirection::from_fn(|x| detector.capacity(x).or_else(|| learnt(x)));
        let goodput =
            PerDirection::from_fn(|x| self.delivered_bytes[x] as f64 / outcome.duration_s.max(1e-9));
        let both = goodput.up > 0.0 && goodput.down > 0.0;
        let state = detector.state();
        let held = state.verdict_seconds;
        if let Some(evidence) = &state.evidence {
            self.evidence[detector.verdict() as usize] = Some(evidence.clone());
        }
        let of = |verdict: Verdict| self.evidence[verdict as usize].as_ref();
        let (verdict, verdict_reason) =
            conclude(outcome, |verdict| of(verdict).map(|evidence| evidence.reason.clone()));
        let degree = Degree::of(verdict, of(verdict), self.bloat_s);
        let lost = Lost::ALL.into_iter().map(|reason| (reason.name(), outcome.meter.stats[reason as usize]));
        Report {
            duration_s: outcome.duration_s,
            packets: Packets {
                wan: outcome.frames.0,
                lan: outcome.frames.1,
                used: outcome.account.used(),
                left_out: outcome.account.left_out(),
            },
            vantage: outcome.detected.vantage,
            vantage_by: outcome.detected.by,
            link: link_report(&capacity),
            directions: PerDirection::from_fn(|x| self.direction(x, outcome, goodput[x], capacity[x])),
            phase_share: Phase::ALL.map(|phase| totals.phase_share(phase)).into(),
            phase_known_s: totals.phase_seconds.iter().sum(),
            phase_transitions: detector.transitions().iter().flatten().sum(),
            verdict: verdict.name(),
            verdict_reason,
            degree,
            verdict_seconds: Verdict::ALL
                .into_iter()
                .map(|verdict| (verdict.name(), held[verdict as usize]))
                .filter(|(_, seconds)| *seconds > 0.0)
                .collect(),
            swing_period_s: detector.run_swing_period(),
            queue_correlation: totals.queues.correlation(),
            throughput_ratio: Ratio {
                measured: both.then(|| goodput.down / goodput.up),
                predicted: predicted(verdict, detector),
            },
            flows: self.rows,
            flows_total: self.flows_total,
            home_by: outcome.evidence,
            lost: lost.filter(|(_, count)| *count > 0).collect(),
            warnings: outcome.warnings.clone(),
        }
    }

    fn direction(
        &self,
        direction: Direction,
        outcome: &Outcome,
        goodput: f64,
        capacity: Option<Known>,
    ) -> DirectionReport {
        let (detector, counters) = (&outcome.detector, &outcome.meter.counters[direction]);
        let bytes = counters.bytes.iter().sum::<u64>();
        let queue = &self.queues[direction];
        let dropped =
            outcome.crossings.filter(|_| direction == Direction::Up).map(|crossings| crossings.dropped);
        DirectionReport {
            segments: Class::ALL.into_iter().map(|c| (c.name(), counters.segments[c as usize])).collect(),
            bytes,
            goodput_bps: goodput * 8.0,
            utilization: capacity
                .filter(|_| outcome.duration_s > 0.0)
                .map(|known| bytes as f64 / outcome.duration_s / known.value),
            retransmitted_segments: counters.retransmitted_segments,
            reordered_segments: counters.reordered_segments,
            queue: QueueReport {
                source: queue.source.unwrap_or_default().name(),
                mean_bytes: queue.mean(queue.integral),
                max_bytes: queue.mean(queue.integral).map(|_| queue.max),
                standing_mean_bytes: queue.mean(queue.standing_integral),
                uncertainty_bytes: queue.mean(queue.uncertainty_integral),
                composition: detector.run().composition[direction].shares().map(BTreeMap::from),
                dropped_packets: dropped,
            },
            ack_burst: burst_report(counters),
        }
    }
}

fn link_report(capacity: &PerDirection<Option<Known>>) -> LinkReport {
    let bps = |x| capacity[x].map(|known| known.value * 8.0);
    let mut known = Direction::ALL.into_iter().filter_map(|x| capacity[x]);
    let is_learnt = known.clone().any(|rate| rate.provenance != Provenance::Config);
    LinkReport {
        uplink_rate_bps: bps(Direction::Up),
        downlink_rate_bps: bps(Direction::Down),
        rate_source: known.next().map(|_| if is_learnt { "learnt" } else { "config" }),
    }
}

/// The model's ratio for buffers as large as the longest queues seen. Only where there is a ratio to predict.
fn predicted(verdict: Verdict, detector: &Detector) -> Option<f64> {
    if matches!(verdict, Verdict::OneWay | Verdict::Clear | Verdict::Unknown) {
        return None;
    }
    detector.predicted_ratio().map(|prediction| prediction.ratio).filter(|ratio| ratio.is_finite())
}

fn burst_report(counters: &pendulum_counters) -> BurstReport {
    AckBurst::of(&counters.bursts, counters.burst_segments).map_or_else(BurstReport::default, |bursts| {
        BurstReport { mean: Some(bursts.mean), p95: Some(bursts.p95), histogram: bursts.histogram }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    mod rows;

    fn report(bursts: &[(usize, u64)]) -> BurstReport {
        let mut counters = pendulum_counters::default();
        for &(length, count) in bursts {
            counters.bursts[length] = count;
            counters.burst_segments += length as u64 * count;
        }
        burst_report(&counters)
    }

    /// By nearest rank: of twenty bursts the nineteenth.
    #[test]
    fn ninety_five_percent_of_the_bursts_are_no_longer() {
        for (bursts, p95, mean) in [
            (&[(1, 19), (5, 1)][..], 1, 1.2),
            (&[(1, 18), (5, 2)], 5, 1.4),
            (&[(3, 1)], 3, 3.0),
            (&[(1, 19), (2, 1), (3, 1)], 2, 24.0 / 21.0),
            (&[(2, 10), (4, 9), (64, 1)], 4, 6.0),
        ] {
            let found = report(bursts);
            assert_eq!((found.p95, found.mean), (Some(p95), Some(mean)), "{bursts:?}");
            let histogram = bursts.iter().map(|&(length, count)| (length as u64, count)).collect();
            assert_eq!(found.histogram, histogram);
        }
        let none = report(&[]);
        assert_eq!((none.p95, none.mean, none.histogram.len()), (None, None, 0));
    }

    #[test]
    fn one_learnt_rate_makes_the_rates_learnt() {
        let known = |value, provenance| Some(Known { value, provenance });
        for (up, down, source) in [
            (Provenance::Config, Provenance::Config, "config"),
            (Provenance::Config, Provenance::Learnt, "learnt"),
            (Provenance::Learnt, Provenance::Config, "learnt"),
            (Provenance::Learnt, Provenance::Learnt, "learnt"),
        ] {
            let capacity = PerDirection { up: known(1_000.0, up), down: known(2_000.0, down) };
            let found = link_report(&capacity);
            assert_eq!((found.uplink_rate_bps, found.downlink_rate_bps), (Some(8_000.0), Some(16_000.0)));
            assert_eq!(found.rate_source, Some(source));
        }
        let half = link_report(&PerDirection { up: None, down: known(2_000.0, Provenance::Config) });
        assert_eq!((half.uplink_rate_bps, half.rate_source), (None, Some("config")));
        assert_eq!(link_report(&PerDirection::default()).rate_source, None);
    }

    fn sample(at_ms: u64, queues: [Option<(f64, f64, f64)>; 2]) -> Sample {
        let mut sample =
            Sample { at: Duration::from_millis(at_ms), span: Duration::from_millis(10), ..Sample::default() };
        for (x, queue) in Direction::ALL.into_iter().zip(queues) {
            sample.link[x].queue =
                queue.map(|(min_bytes, mean_bytes, max_bytes)| pendulum_model::sample::QueueSample {
                    source: QueueSource::Capture,
                    min_bytes,
                    mean_bytes,
                    max_bytes,
                    uncertainty_bytes: mean_bytes / 10.0,
                });
        }
        sample
    }

    /// Mean, highest and standing level, each of its own direction and weighed with time.
    #[test]
    fn levels_are_those_of_the_samples() {
        let mut totals = QueueTotals::default();
        // A round trip of 20 ms holds two samples: the lower one stands.
        let levels =
            [(100.0, 200.0, 400.0), (300.0, 400.0, 500.0), (600.0, 700.0, 900.0), (500.0, 550.0, 600.0)];
        for (i, level) in levels.into_iter().enumerate() {
            let other = Some((7.0, 7.0, 7.0));
            totals.add(&sample(10 * (i as u64 + 1), [Some(level), other]), Direction::Up, 0.02);
        }
        assert_eq!(totals.max, 900.0);
        let near = |found: Option<f64>, expected: f64| (found.expect("a mean") - expected).abs() < 1e-9;
        assert!(near(totals.mean(totals.integral), 462.5));
        assert!(near(totals.mean(totals.uncertainty_integral), 46.25));
        // 100, 100, 300, 500.
        assert!(near(totals.mean(totals.standing_integral), 250.0));
        let mut unseen = QueueTotals::default();
        unseen.add(&sample(10, [None, Some((7.0, 7.0, 7.0))]), Direction::Up, 0.02);
        assert_eq!((unseen.mean(unseen.integral), unseen.source), (None, None));
    }

    /// Nine samples with a few bytes each before a buffer that is known to be empty; then the whole transfer, one sample long.
    #[test]
    fn a_level_is_unknown_if_most_bytes_passed_without_it() {
        for (bytes, mean) in [(900, Some(0.0)), (901, None)] {
            let mut totals = QueueTotals::default();
            for i in 1..=10 {
                let level = (i < 10).then_some((0.0, 0.0, 0.0));
                let mut sample = sample(10 * i, [level, None]);
                sample.link.up.traffic.wire_bytes = if i < 10 { 100 } else { bytes };
                totals.add(&sample, Direction::Up, 0.02);
            }
            assert_eq!(totals.mean(totals.integral), mean, "{bytes}");
        }
    }
}
