//! The provider's buffer from the kernel's own measurement: a simulator's capture through the real programs with its own
//! time, then the agent's estimator, against what the simulator logged.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use pendulum::replay::capture::Capture;
use pendulum::run::estimate::{Estimate, KnownLink, LinkEstimate};
use pendulum_model::observer::Vantage;
use pendulum_model::segment::PerDirection;

use crate::capture::{crafted, is_home};
use crate::craft::{Direction, LinkLayer};
use crate::kernel::Kernel;

/// Rhythm of the agent's reading.
const TICK_NS: u64 = 100_000_000;
/// When the simulator's time began, by its captures.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// Of the buckets and of the truth.
const BUCKET_NS: u64 = 10_000_000;
/// Two full segments.
const SEGMENTS_2: f64 = 3000.0;

/// How an estimate compares with the truth.
struct Agreement {
    correlation: f64,
    rms: f64,
    mean: [f64; 2],
    buckets: usize,
}

fn directory(scenario: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3").join(scenario)
}

fn text(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("truth");
    zstd::Decoder::new(file).and_then(|mut decoder| decoder.read_to_string(&mut text)).expect("truth");
    text
}

/// Time-weighted mean of the simulator's queue in each bucket.
fn truth(directory: &Path) -> Vec<f64> {
    let log = text(&directory.join("queue_R1_down.csv.zst"));
    let mut lines = log.lines();
    let header: Vec<&str> = lines.next().expect("header").split(',').collect();
    let place = |name: &str| header.iter().position(|column| *column == name).expect("a column");
    let (time, bytes) = (place("t_s"), place("bytes"));
    let bucket = BUCKET_NS as f64 / 1e9;
    let (mut means, mut at, mut level, mut integral) = (Vec::new(), 0.0_f64, 0.0, 0.0);
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let now: f64 = cells[time].parse().expect("a time");
        while (means.len() + 1) as f64 * bucket <= now {
            let end = (means.len() + 1) as f64 * bucket;
            means.push((integral + level * (end - at)) / bucket);
            (at, integral) = (end, 0.0);
        }
        integral += level * (now - at);
        (at, level) = (now, cells[bytes].parse().expect("bytes"));
    }
    means
}

fn agreement(estimate: &[Option<f64>], truth: &[f64]) -> Agreement {
    let pairs: Vec<[f64; 2]> =
        estimate.iter().zip(truth).filter_map(|(estimate, truth)| Some([(*estimate)?, *truth])).collect();
    let count = pairs.len() as f64;
    let mean = [0, 1].map(|i| pairs.iter().map(|pair| pair[i]).sum::<f64>() / count);
    let moment =
        |i: usize, j: usize| pairs.iter().map(|p| (p[i] - mean[i]) * (p[j] - mean[j])).sum::<f64>() / count;
    let rms = (pairs.iter().map(|[a, b]| (a - b).powi(2)).sum::<f64>() / count).sqrt();
    let correlation = moment(0, 1) / (moment(0, 0) * moment(1, 1)).sqrt();
    Agreement { correlation, rms, mean, buckets: pairs.len() }
}

fn down(link: &LinkEstimate) -> Estimate<'_> {
    link.of(pendulum_model::segment::Direction::Down).expect("the provider's is never our own")
}

/// The capture's packets through the kernel, the kernel's slots through the estimator.
fn estimate(directory: &Path, rate: f64, uplink_rate: f64) -> Vec<Option<f64>> {
    // TEST_RUN takes a time of 0 for none, and the first slot of the ring is never closed before it: begin later.
    const ORIGIN_NS: u64 = 1_000_000_000;
    let mut kernel = Kernel::new(LinkLayer::RawIp);
    let mut passages = kernel.programs().passages(ORIGIN_NS);
    // Taken behind the uplink's buffer: as if that were our own.
    let mut link = LinkEstimate::new(ORIGIN_NS, Vantage::OwnQueue);
    let rates = PerDirection { up: None, down: Some(rate) };
    link.tell(&KnownLink { rates, question_rate: Some(uplink_rate), repeated: 0.0 });
    let mut capture = Capture::open(&directory.join("wan.pcap.zst")).expect("a capture");
    let mut next_tick = ORIGIN_NS + TICK_NS;
    let mut buckets = Vec::new();
    let mut taken = down(&link).known_to();
    while capture.advance().expect("whole") {
        let record = capture.record().expect("advanced to it");
        let Some(mut frame) = crafted(&record, is_home) else { continue };
        frame.time_ns = frame.time_ns - EPOCH_NS + ORIGIN_NS;
        while frame.time_ns >= next_tick {
            let read_to = passages.read(next_tick, |passage| {
                // Taken behind the uplink's buffer: no question waited after it was seen.
                link.push(&passage, Some(0));
            });
            link.settle(read_to);
            let provider = down(&link);
            buckets.extend((taken..provider.known_to()).map(|n| provider.sample(n).map(|q| q.mean_bytes)));
            taken = provider.known_to();
            next_tick += TICK_NS;
        }
        assert!(frame.direction == Direction::Up || frame.direction == Direction::Down);
        kernel.observe(&frame).expect("a whole TCP frame is never refused");
    }
    assert_eq!(passages.lost(), 0);
    buckets
}

fn check(scenario: &str, rate: f64, uplink_rate: f64) {
    let directory = directory(scenario);
    let estimate = estimate(&directory, rate, uplink_rate);
    let of = agreement(&estimate, &truth(&directory));
    println!(
        "{scenario}: correlation {:.4}, RMS {:.0} B, mean {:.0} B (truth {:.0} B), {} of {} buckets known",
        of.correlation,
        of.rms,
        of.mean[0],
        of.mean[1],
        of.buckets,
        estimate.len()
    );
    assert!(of.correlation >= 0.9, "correlation {}", of.correlation);
    assert!(of.rms <= SEGMENTS_2, "RMS {} B", of.rms);
    assert!(of.buckets * 10 >= estimate.len() * 9, "{} of {} buckets known", of.buckets, estimate.len());
}

#[test]
fn provider_buffer_of_a_symmetric_link_is_estimated() {
    check("s3", 300_000.0, 300_000.0);
}

#[test]
fn provider_buffer_of_an_asymmetric_link_is_estimated() {
    check("s5", 300_000.0, 24_500.0);
}
