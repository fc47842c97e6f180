//! Samples per second through the detector: two-way traffic that swings, in samples of 10 ms.

use std::fmt;
use std::time::{Duration, Instant};

use pendulum_model::detector::{Config, Detector};
use pendulum_model::link::Link;
use pendulum_model::sample::{DirectionSample, QueueSample, QueueSource, Sample, Traffic};
use pendulum_model::segment::PerDirection;
use serde::Serialize;

/// Three hours of one link.
const SAMPLES: u32 = 1_080_000;
const STEP: Duration = Duration::from_millis(10);
/// Of the swing, in samples.
const PERIOD: u32 = 250;

#[derive(Serialize)]
pub(crate) struct DetectorReport {
    samples: u32,
    samples_per_second: f64,
    /// Share of one core that the detector of one link takes while the agent runs.
    live_share: f64,
    /// What it found, so that the work cannot be left out.
    verdict: &'static str,
}

pub(crate) fn run() -> DetectorReport {
    let mut detector =
        Detector::new(Config { link: Link::with_capacity(24_500.0, 300_000.0), ..Config::default() });
    let start = Instant::now();
    for number in 1..=SAMPLES {
        std::hint::black_box(detector.push(&sample(number)));
    }
    let seconds = start.elapsed().as_secs_f64();
    let samples_per_second = f64::from(SAMPLES) / seconds;
    DetectorReport {
        samples: SAMPLES,
        samples_per_second,
        live_share: 1.0 / STEP.as_secs_f64() / samples_per_second,
        verdict: detector.verdict().name(),
    }
}

fn sample(number: u32) -> Sample {
    let at = number % PERIOD;
    let is_up = at < PERIOD / 2;
    let level = f64::from(at % (PERIOD / 2)) * 100.0 + 2_000.0;
    let direction = |stands: bool, full: u64| DirectionSample {
        queue: Some(QueueSample::level(QueueSource::Tracepoint, if stands { level } else { 0.0 })),
        traffic: Traffic {
            wire_bytes: if stands { full } else { full / 2 },
            data_bytes: if stands { full } else { full / 2 },
            data_segments: 1,
            ..Traffic::default()
        },
        ..DirectionSample::default()
    };
    Sample {
        at: STEP * number,
        span: STEP,
        link: PerDirection { up: direction(is_up, 245), down: direction(!is_up, 3_000) },
        round_trip: number.is_multiple_of(10).then_some(0.3 + level / 60_000.0),
        ..Sample::default()
    }
}

impl fmt::Display for DetectorReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "detector: {:.0} samples/s ({} of 10 ms, verdict {}); live that is {:.3} % of one core for each link",
            self.samples_per_second,
            self.samples,
            self.verdict,
            self.live_share * 100.0
        )
    }
}
