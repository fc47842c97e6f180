//! Made-up links in samples of 10 ms, and what the detector says of them.

use std::time::Duration;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::event::Event;
use pendulum_model::findings::{Change, Evidence, FindingKind, Verdict};
use pendulum_model::link::Link;
use pendulum_model::sample::{
    BaseRoundTrip, Composition, DirectionSample, QueueSample, QueueSource, Sample, Traffic,
};
use pendulum_model::segment::{Direction, PerDirection};

/// 2 Mbit/s up, 20 Mbit/s down.
pub(crate) const UP: f64 = 250_000.0;
pub(crate) const DOWN: f64 = 2_500_000.0;

/// 10 ms of one direction: bytes per second by kind, bytes in its buffer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Half {
    pub(crate) tcp: f64,
    pub(crate) ack: f64,
    pub(crate) udp: f64,
    pub(crate) queue: f64,
}

pub(crate) fn tcp(rate: f64) -> Half {
    Half { tcp: rate, ..Half::default() }
}

pub(crate) fn udp(rate: f64) -> Half {
    Half { udp: rate, ..Half::default() }
}

pub(crate) fn acks(rate: f64) -> Half {
    Half { ack: rate, ..Half::default() }
}

impl Half {
    pub(crate) fn behind(self, queue: f64) -> Self {
        Self { queue, ..self }
    }

    /// What the queue of a full link makes wait.
    pub(crate) fn full(self, seconds: f64) -> Self {
        self.behind((self.tcp + self.ack + self.udp) * seconds)
    }
}

pub(crate) fn sample(step: u64, up: Half, down: Half, round_trip: f64) -> Sample {
    let part = |rate: f64| (rate * 0.01).round() as u64;
    let direction = |half: Half| {
        let composition =
            Composition { tcp_data: part(half.tcp), ack: part(half.ack), udp: part(half.udp), other: 0 };
        DirectionSample {
            queue: Some(QueueSample::level(QueueSource::Tracepoint, half.queue)),
            traffic: Traffic {
                wire_bytes: composition.total(),
                data_bytes: composition.tcp_data,
                data_segments: composition.tcp_data / 1_400,
                ..Traffic::default()
            },
            composition,
            ..DirectionSample::default()
        }
    };
    Sample {
        at: Duration::from_millis(10 * step),
        span: Duration::from_millis(10),
        link: PerDirection { up: direction(up), down: direction(down) },
        round_trip: Some(round_trip),
        base_round_trip: Some(BaseRoundTrip { seconds: 0.03, is_proven: true }),
        flows: Vec::new(),
    }
}

/// A stream of so many seconds; the RTT is that of the queues (000 Eq. 1) and 30 ms.
pub(crate) fn stream(seconds: u64, halves: impl Fn(f64) -> (Half, Half)) -> Vec<Sample> {
    (1..=seconds * 100)
        .map(|step| {
            let (up, down) = halves(step as f64 / 100.0);
            sample(step, up, down, 0.03 + up.queue / UP + down.queue / DOWN)
        })
        .collect()
}

pub(crate) fn detector() -> Detector {
    Detector::new(Config { link: Link::with_capacity(UP, DOWN), ..Config::default() })
}

pub(crate) fn run(samples: &[Sample]) -> (Detector, Vec<Event>) {
    let mut detector = detector();
    let events = samples.iter().flat_map(|sample| detector.push(sample)).collect();
    (detector, events)
}

pub(crate) fn verdicts(events: &[Event]) -> Vec<(f64, Verdict)> {
    let verdict = |event: &Event| match event.change {
        Change::Verdict { to, .. } => Some((event.at_s, to)),
        _ => None,
    };
    events.iter().filter_map(verdict).collect()
}

/// Beginnings and ends of bufferbloat.
pub(crate) fn bloats(events: &[Event]) -> Vec<(f64, bool, Direction)> {
    let found = |event: &Event| match event.change {
        Change::Finding { finding: FindingKind::Bufferbloat, direction } => {
            Some((event.at_s, true, direction?))
        }
        Change::FindingEnded { finding: FindingKind::Bufferbloat, direction } => {
            Some((event.at_s, false, direction?))
        }
        _ => None,
    };
    events.iter().filter_map(found).collect()
}

pub(crate) fn figure(evidence: &Evidence, name: &str) -> Option<f64> {
    evidence.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
}

pub(crate) fn evidence(detector: &Detector) -> Evidence {
    detector.state().evidence.expect("a verdict")
}
