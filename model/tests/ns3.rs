//! The detector against an independent simulator (ns-3): true queues and round trips in, known answers out.
//!
//! tests/data/ns3 has the captures and how they were made.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pendulum_model::detector::{Config, Detector};
use pendulum_model::findings::{Phase, Verdict};
use pendulum_model::link::Link;
use pendulum_model::sample::{QueueSample, QueueSource, Sample};
use pendulum_model::segment::{Direction, PerDirection};

/// On the wire, for each payload byte of a full segment with timestamps: 1500/1448.
const WIRE_PER_PAYLOAD: f64 = 1500.0 / 1448.0;

/// Interval of the true series, seconds.
const STEP_S: f64 = 0.01;

struct Truth {
    samples: Vec<Sample>,
    /// Share of each case by the two threshold columns, in the order of `Phase::ALL`.
    shares: [[f64; 4]; 2],
    link: Link,
    summary: serde_json::Value,
}

fn directory(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3").join(name)
}

fn rows(path: &Path) -> Vec<Vec<f64>> {
    let file = std::fs::File::open(path).expect("a file of tests/data/ns3");
    let text = std::io::read_to_string(zstd::Decoder::new(file).expect("zstd")).expect("text");
    text.lines()
        .skip(1)
        .map(|line| line.split(',').map(|cell| cell.parse().unwrap_or(f64::NAN)).collect())
        .collect()
}

/// The true queues and RTT of every 10 ms, with the receivers' bytes.
fn load(name: &str) -> Truth {
    let directory = directory(name);
    let text = std::fs::read_to_string(directory.join("summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let truth = rows(&directory.join("truth.csv.zst"));
    let senders = rows(&directory.join("tcp_senders.csv.zst"));
    let mut data = received_by_time(&senders, &summary);
    let down = buckets(&rows(&directory.join("queue_R1_down.csv.zst")), truth.len());
    let up = buckets(&rows(&directory.join("queue_R2_up.csv.zst")), truth.len());
    // The bucket before a row of the table ends where the row is.
    let queues = up.into_iter().zip(down).map(|(up, down)| PerDirection { up, down });
    let samples = truth
        .iter()
        .skip(1)
        .zip(queues)
        .map(|(row, queue)| sample(row, queue, data.remove(&key(row[0]))))
        .collect();
    let rate = |name: &str| summary["parameters"][name].as_f64().expect(name) / 8.0;
    let link = Link::with_capacity(rate("cu"), rate("cd"));
    Truth { samples, shares: [shares(&truth, 6), shares(&truth, 7)], link, summary }
}

fn key(seconds: f64) -> u64 {
    (seconds * 100.0).round() as u64
}

/// Received bytes per direction, by 10 ms step.
fn received_by_time(rows: &[Vec<f64>], summary: &serde_json::Value) -> HashMap<u64, PerDirection<f64>> {
    let flows = summary["sim"]["flows"].as_array().expect("a list of flows");
    let direction = |flow: f64| match flows[flow as usize]["dir"].as_str() {
        Some("D") => Direction::Down,
        _ => Direction::Up,
    };
    let mut received: HashMap<u64, f64> = HashMap::new();
    let mut by_time: HashMap<u64, PerDirection<f64>> = HashMap::new();
    for row in rows {
        let [at, flow, total] = [row[0], row[1], row[7]];
        let before = received.insert(flow as u64, total).unwrap_or(0.0);
        by_time.entry(key(at)).or_default()[direction(flow)] += total - before;
    }
    by_time
}

/// Every change of a buffer's level as the router logged it, summed up by 10 ms buckets as the kernel side does: the
/// table of true levels has one point in each and misses what happens between two.
fn buckets(changes: &[Vec<f64>], count: usize) -> Vec<QueueSample> {
    let mut buckets = Vec::with_capacity(count);
    let mut changes = changes.iter().peekable();
    let mut level = 0.0;
    for index in 0..count {
        let (begin, end) = (index as f64 * STEP_S, (index + 1) as f64 * STEP_S);
        let (mut min, mut max, mut area, mut at): (f64, f64, f64, f64) = (level, level, 0.0, begin);
        while let Some(change) = changes.next_if(|change| change[0] < end) {
            area += level * (change[0] - at);
            (at, level) = (change[0], change[1]);
            (min, max) = (min.min(level), max.max(level));
        }
        area += level * (end - at);
        let source = QueueSource::Capture;
        buckets.push(QueueSample {
            source,
            min_bytes: min,
            mean_bytes: area / STEP_S,
            max_bytes: max,
            uncertainty_bytes: 0.0,
        });
    }
    buckets
}

fn sample(row: &[f64], queue: PerDirection<QueueSample>, received: Option<PerDirection<f64>>) -> Sample {
    let mut sample = Sample {
        at: Duration::from_secs_f64(row[0]),
        span: Duration::from_millis(10),
        round_trip: Some(row[5]),
        ..Sample::default()
    };
    sample.link.down.queue = Some(queue.down);
    sample.link.up.queue = Some(queue.up);
    let received = received.unwrap_or_default();
    for x in Direction::ALL {
        let bytes = (received[x] * WIRE_PER_PAYLOAD) as u64;
        sample.link[x].traffic.data_bytes = bytes;
        sample.link[x].traffic.wire_bytes = bytes;
        sample.link[x].traffic.data_segments = bytes / 1500;
    }
    sample
}

/// The simulator's cases 1, 2, 3, 0 in the order of `Phase::ALL`.
fn shares(truth: &[Vec<f64>], column: usize) -> [f64; 4] {
    [1.0, 2.0, 3.0, 0.0]
        .map(|case| truth.iter().filter(|row| row[column] == case).count() as f64 / truth.len() as f64)
}

/// The same with the levels of `truth.csv` only: one instant per 10 ms, minima in between unseen.
fn instants(name: &str) -> Truth {
    let mut truth = load(name);
    let rows = rows(&directory(name).join("truth.csv.zst"));
    for (sample, row) in truth.samples.iter_mut().zip(rows.iter().skip(1)) {
        sample.link.down.queue = Some(QueueSample::level(QueueSource::Netlink, row[1]));
        sample.link.up.queue = Some(QueueSample::level(QueueSource::Netlink, row[2]));
    }
    truth
}

fn detect(truth: &Truth) -> Detector {
    let mut detector = Detector::new(Config { link: truth.link, ..Config::default() });
    for sample in &truth.samples {
        detector.push(sample);
    }
    detector
}

fn check(name: &str, verdict: Verdict) -> (Detector, Truth) {
    check_truth(name, load(name), verdict)
}

fn check_truth(name: &str, truth: Truth, verdict: Verdict) -> (Detector, Truth) {
    let detector = detect(&truth);
    for phase in Phase::ALL {
        let [mtu, zero] = [truth.shares[0][phase as usize], truth.shares[1][phase as usize]];
        let share = detector.run().phase_share(phase);
        println!("{name} {phase}: {share:.3}, truth {mtu:.3} (one segment) {zero:.3} (any byte)");
        assert!(share >= mtu.min(zero) - 0.05 && share <= mtu.max(zero) + 0.05, "{name} {phase}: {share}");
    }
    println!("{name}: {} {:?}", detector.overall_verdict(), detector.state().evidence);
    assert_eq!(detector.overall_verdict(), verdict, "{name}");
    assert_eq!(detector.verdict(), verdict, "{name}, at the end");
    (detector, truth)
}

#[test]
fn s3_swings() {
    let (detector, truth) = check("s3", Verdict::Swinging);
    let period = detector.run_swing_period().expect("it swings");
    // Two independent readings of the simulator's own truth.
    for path in ["/steady/alternation/mean_cycle_s", "/steady/period_autocorr/period_s"] {
        let expected = truth.summary.pointer(path).and_then(serde_json::Value::as_f64).expect(path);
        println!("s3 period {period:.3}, truth {expected:.3} ({path})");
        assert!((period - expected).abs() <= 0.1 * expected, "{path}: {period} against {expected}");
    }
    let lag = detector.state().queue_lag_s.expect("opposed");
    println!("s3 lag {lag} s");
    assert!(lag.abs() <= 0.1, "truth: 0.03 s, to the 0.1 s of a slot: {lag}");
    let correlation = detector.run().queues.correlation().expect("both queues move");
    println!("s3 correlation {correlation:.3}");
    let expected = truth.summary.pointer("/steady/xcorr_queue/lag0").and_then(serde_json::Value::as_f64);
    assert!((correlation - expected.expect("a correlation")).abs() <= 0.1);
}

#[test]
fn s5_is_locked() {
    let (detector, _) = check("s5", Verdict::LockedUplink);
    assert_eq!(detector.run_swing_period(), None);
    let measured = detector.run().throughput_ratio().expect("uploads");
    let predicted = detector.predicted_ratio().expect("both buffers were seen").ratio;
    println!("s5 ratio {measured:.2}, predicted {predicted:.2}");
    assert!((predicted / measured).ln().abs() < 1.5f64.ln(), "{predicted} against {measured}");
}

#[test]
fn s9a_is_one_way() {
    let (detector, _) = check("s9a_download_only", Verdict::OneWay);
    assert_eq!(detector.run_swing_period(), None);
}

/// Levels at instants are enough for shares and verdicts. For the period they are not: a swing that shows only in the
/// minima is missed, and it comes out up to 12 % too long, so it is printed and not asserted.
#[test]
fn levels_at_instants_give_the_same_verdicts() {
    for (name, verdict) in
        [("s3", Verdict::Swinging), ("s5", Verdict::LockedUplink), ("s9a_download_only", Verdict::OneWay)]
    {
        let (detector, _) = check_truth(name, instants(name), verdict);
        println!("{name}, instants: period {:?}", detector.run_swing_period());
    }
}
