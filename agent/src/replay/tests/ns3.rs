//! Simulated captures with known truth (`tests/data/ns3`): what the replay says of them against
//! what the simulator logged.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use pendulum_model::rate::Rate;
use serde_json::Value;

use crate::replay::cli::{ReplayArgs, ReportFormat, answer};

fn data(scenario: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/ns3").join(scenario)
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(path).expect("truth");
    zstd::Decoder::new(file).and_then(|mut decoder| decoder.read_to_string(&mut text)).expect("truth");
    text
}

/// Columns of a CSV file by name, as numbers where they are.
fn columns<const N: usize>(path: &Path, names: [&str; N]) -> Vec<[f64; N]> {
    let text = unpacked(path);
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("header").split(',').collect();
    let places = names.map(|name| header.iter().position(|column| *column == name).expect(name));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            places.map(|place| cells[place].parse().expect("a number"))
        })
        .collect()
}

/// Time-weighted means of a queue log over its first `count` intervals of 10 ms.
fn means(log: &Path, count: usize) -> Vec<f64> {
    const STEP_S: f64 = 0.01;
    let mut means = vec![0.0; count];
    let (mut at, mut level) = (0.0_f64, 0.0);
    for [time, bytes] in columns(log, ["t_s", "bytes"]).into_iter().chain([[count as f64 * STEP_S, 0.0]]) {
        while at < time {
            let interval = (at / STEP_S + 1e-9) as usize;
            let end = time.min((interval + 1) as f64 * STEP_S);
            if let Some(mean) = means.get_mut(interval) {
                *mean += level * (end - at) / STEP_S;
            }
            at = end;
        }
        level = bytes;
    }
    means
}

/// Time-weighted mean and maximum of a queue log up to `end` seconds.
fn queue_truth(directory: &Path, file: &str, end: f64) -> (f64, f64) {
    let (mut integral, mut highest, mut at, mut level) = (0.0, 0.0_f64, 0.0, 0.0);
    for [time, bytes] in columns(&directory.join(file), ["t_s", "bytes"]) {
        if time > end {
            break;
        }
        integral += level * (time - at);
        (at, level) = (time, bytes);
        highest = highest.max(bytes);
    }
    ((integral + level * (end - at)) / end, highest)
}

/// Shares of time in the cases 1 (up), 2 (down), 3 (both), 0 (neither), by both thresholds of the truth.
fn share_truth(directory: &Path) -> [[f64; 2]; 4] {
    let rows = columns(&directory.join("truth.csv.zst"), ["case_eps_mtu", "case_eps_0"]);
    [1.0, 2.0, 3.0, 0.0].map(|case| {
        [0, 1].map(|column| rows.iter().filter(|row| row[column] == case).count() as f64 / rows.len() as f64)
    })
}

/// Correlation and root mean square of the difference.
fn compare(pairs: &[(f64, f64)]) -> (f64, f64) {
    let count = pairs.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
    let (a, b) = (mean(&|pair| pair.0), mean(&|pair| pair.1));
    let covariance = mean(&|pair| (pair.0 - a) * (pair.1 - b));
    let deviations = (mean(&|pair| (pair.0 - a).powi(2)) * mean(&|pair| (pair.1 - b).powi(2))).sqrt();
    (covariance / deviations, mean(&|pair| (pair.0 - pair.1).powi(2)).sqrt())
}

/// The capture from before the uplink's buffer alone, as any gateway in front of a modem gives it: verdict, place, and both queues
/// within two segments of the truth, after 20 s. Rates given, and found out to 5 %.
#[test]
fn one_point_before_the_uplink_buffer_shows_both_queues() {
    for (scenario, verdict, vantage_by) in
        [("s3", "swinging", "answers_from_outside"), ("s5", "locked_uplink", "answers_from_outside")]
    {
        for told in [true, false] {
            let directory = data(scenario);
            let text = std::fs::read_to_string(directory.join("summary.json")).expect("summary");
            let summary: Value = serde_json::from_str(&text).expect("summary");
            let bits = |name: &str| summary["parameters"][name].as_u64().expect("a rate");
            let rate = |name: &str| Rate::from_bits_per_second(bits(name)).filter(|_| told);
            let scratch = tempfile::TempDir::new().expect("temporary directory");
            let series = scratch.path().join("series.csv");
            let args = ReplayArgs {
                wan: Some(directory.join("lan.pcap.zst")),
                incident: None,
                lan: None,
                uplink_rate: rate("cu"),
                downlink_rate: rate("cd"),
                home: Vec::new(),
                series: Some(series.clone()),
                format: ReportFormat::Json,
            };
            let mut out = Vec::new();
            answer(&args, &mut out).expect("replays");
            let report: Value = serde_json::from_slice(&out).expect("JSON");
            assert_eq!(report["verdict"], verdict, "{scenario} {told}");
            assert_eq!(report["vantage"], "before_uplink_buffer", "{scenario} {told}");
            assert_eq!(report["vantage_by"], vantage_by, "{scenario} {told}");
            for (pointer, name) in [("uplink_rate_bps", "cu"), ("downlink_rate_bps", "cd")] {
                let found = report["link"][pointer].as_f64().expect("a rate") / bits(name) as f64;
                assert!(
                    (0.95..=1.05).contains(&found),
                    "{scenario} {told}: {pointer} is {found} of the truth"
                );
            }
            let text = std::fs::read_to_string(&series).expect("the series");
            let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
            for (file, place) in [("queue_R2_up.csv.zst", 1), ("queue_R1_down.csv.zst", 3)] {
                // A row is the mean of the 10 ms that end at its time, and so is the truth.
                let truth = means(&directory.join(file), rows.len());
                let pairs: Vec<(f64, f64)> = truth
                    .iter()
                    .zip(&rows)
                    .skip(2_000)
                    .map(|(mean, cells)| (*mean, cells[place].parse().expect("a level")))
                    .collect();
                assert!(pairs.len() > 1_000, "{scenario} {told}: {} rows", pairs.len());
                let (correlation, rms) = compare(&pairs);
                assert!(
                    correlation >= 0.95 && rms <= 3_000.0,
                    "{scenario} {told} {file}: correlation {correlation}, RMS {rms}"
                );
            }
        }
    }
}

struct Replayed {
    directory: PathBuf,
    report: Value,
    summary: Value,
}

fn replayed(scenario: &str, with_lan: bool) -> Replayed {
    replayed_if_configured(scenario, with_lan, true)
}

fn replayed_if_configured(scenario: &str, with_lan: bool, rates_told: bool) -> Replayed {
    let directory = data(scenario);
    let text = std::fs::read_to_string(directory.join("summary.json")).expect("summary");
    let summary: Value = serde_json::from_str(&text).expect("summary");
    let rate = |name: &str| {
        let bits = summary["parameters"][name].as_u64().expect("a rate");
        Rate::from_bits_per_second(bits).filter(|_| rates_told)
    };
    let args = ReplayArgs {
        wan: Some(directory.join("wan.pcap.zst")),
        incident: None,
        lan: with_lan.then(|| directory.join("lan.pcap.zst")),
        uplink_rate: rate("cu"),
        downlink_rate: rate("cd"),
        home: Vec::new(),
        series: None,
        format: ReportFormat::Json,
    };
    let mut out = Vec::new();
    answer(&args, &mut out).expect("replays");
    Replayed { report: serde_json::from_slice(&out).expect("JSON"), directory, summary }
}

impl Replayed {
    fn figure(&self, pointer: &str) -> f64 {
        self.report
            .pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{pointer} is no figure"))
    }

    fn truth(&self, pointer: &str) -> f64 {
        self.summary
            .pointer(pointer)
            .and_then(Value::as_f64)
            .unwrap_or_else(|| panic!("{pointer} is no figure"))
    }

    /// The figure is within `tolerance` (a fraction of the truth) of the truth.
    fn close(&self, pointer: &str, truth: f64, tolerance: f64) {
        let figure = self.figure(pointer);
        assert!((figure - truth).abs() <= tolerance * truth.abs(), "{pointer} is {figure}, truth {truth}");
    }

    /// Phase shares lie in the band that the truth's two thresholds span, ± 0.05.
    fn check_shares(&self) {
        let names = ["uplink_bound", "downlink_bound", "balanced", "idle"];
        for (name, truth) in names.into_iter().zip(share_truth(&self.directory)) {
            let share = self.figure(&format!("/phase_share/{name}"));
            let (low, high) = (truth[0].min(truth[1]), truth[0].max(truth[1]));
            assert!((low - 0.05..=high + 0.05).contains(&share), "{name} is {share}, truth {truth:?}");
        }
    }

    /// The uplink queue of both captures is the simulator's own.
    fn check_uplink_queue(&self) {
        let (mean, highest) = queue_truth(&self.directory, "queue_R2_up.csv.zst", self.figure("/duration_s"));
        assert_eq!(self.report["directions"]["up"]["queue"]["source"], "capture");
        self.close("/directions/up/queue/mean_bytes", mean, 0.01);
        assert_eq!(self.figure("/directions/up/queue/max_bytes"), highest);
    }

    fn check_downlink_queue(&self, tolerance: f64) {
        let (mean, highest) =
            queue_truth(&self.directory, "queue_R1_down.csv.zst", self.figure("/duration_s"));
        assert_eq!(self.report["directions"]["down"]["queue"]["source"], "estimate");
        self.close("/directions/down/queue/mean_bytes", mean, tolerance);
        self.close("/directions/down/queue/max_bytes", highest, 0.1);
    }

    /// Retransmissions are the sender's own count; what was dropped before the WAN capture shows by its repetition.
    fn check_retransmissions(&self) {
        for flow in self.summary["sim"]["flows"].as_array().expect("flows") {
            let direction = if flow["dir"] == "D" { "down" } else { "up" };
            let pointer = format!("/directions/{direction}/retransmitted_segments");
            assert_eq!(self.figure(&pointer), flow["retx"].as_f64().expect("a count"), "{pointer}");
        }
    }

    /// What the applications received, but for what was under way at the end.
    fn check_goodput(&self, tolerance: f64) {
        for flow in self.summary["sim"]["flows"].as_array().expect("flows") {
            let direction = if flow["dir"] == "D" { "down" } else { "up" };
            let received = flow["rx"].as_f64().expect("bytes") * 8.0 / self.figure("/duration_s");
            self.close(&format!("/directions/{direction}/goodput_bps"), received, tolerance);
        }
    }
}

#[test]
fn s3_swings() {
    let run = replayed("s3", true);
    assert_eq!(run.report["verdict"], "swinging");
    run.check_shares();
    run.close("/swing_period_s", run.truth("/steady/alternation/mean_cycle_s"), 0.1);
    run.check_uplink_queue();
    run.check_downlink_queue(0.02);
    run.check_retransmissions();
    run.check_goodput(0.005);
    run.close("/directions/down/ack_burst/mean", run.truth("/steady/ack_burst_R1_down/mean_nonzero"), 0.02);
    run.close("/directions/up/ack_burst/mean", run.truth("/steady/ack_burst_R2_up/mean_nonzero"), 0.02);
    run.close("/throughput_ratio/measured", run.truth("/steady/r"), 0.02);
    assert!(run.figure("/queue_correlation") < -0.6);
}

#[test]
fn s3_swings_by_the_wan_capture_alone() {
    for told in [true, false] {
        let run = replayed_if_configured("s3", false, told);
        assert_eq!(run.report["verdict"], "swinging", "{told}");
        assert_eq!(run.report["vantage"], "behind_uplink_buffer", "{told}");
        assert_eq!(run.report["vantage_by"], "answers_from_home", "{told}");
        run.check_shares();
        let (mean, _) = queue_truth(&run.directory, "queue_R2_up.csv.zst", run.figure("/duration_s"));
        run.close("/directions/up/queue/mean_bytes", mean, 0.02);
        run.check_downlink_queue(0.02);
    }
}

#[test]
fn s5_is_locked_by_the_wan_capture_alone() {
    for told in [true, false] {
        let run = replayed_if_configured("s5", false, told);
        assert_eq!(run.report["verdict"], "locked_uplink", "{told}");
        assert_eq!(run.report["vantage"], "behind_uplink_buffer", "{told}");
        run.check_shares();
    }
}

#[test]
fn s5_is_locked() {
    let run = replayed("s5", true);
    assert_eq!(run.report["verdict"], "locked_uplink");
    run.check_shares();
    run.check_uplink_queue();
    run.check_retransmissions();
    run.check_downlink_queue(0.05);
    run.check_goodput(0.02);
    run.close("/directions/up/utilization", run.truth("/steady/util_up"), 0.01);
    run.close("/directions/up/ack_burst/mean", run.truth("/steady/ack_burst_R2_up/mean_nonzero"), 0.05);
}

#[test]
fn s9a_is_one_way() {
    let run = replayed("s9a_download_only", true);
    assert_eq!(run.report["verdict"], "one_way");
    run.check_shares();
    run.check_uplink_queue();
    run.check_downlink_queue(0.02);
    run.check_retransmissions();
    run.check_goodput(0.005);
    assert_eq!(run.report["throughput_ratio"]["measured"], Value::Null);
}

/// Counted over the whole capture, not only the summary's steady stretch: what leaves R2 is what the WAN capture shows.
#[test]
fn class_counts_are_those_of_the_routers() {
    for scenario in ["s3", "s5", "s9a_download_only"] {
        let run = replayed(scenario, true);
        for (direction, file) in [("up", "queue_R2_up.csv.zst"), ("down", "queue_R1_down.csv.zst")] {
            let end = run.figure("/duration_s");
            let text = unpacked(&run.directory.join(file));
            // Dequeued packets: time, size, and whether they carry data.
            let left: Vec<bool> = text
                .lines()
                .skip(1)
                .map(|line| line.split(',').collect::<Vec<_>>())
                .filter(|cells| cells[4] == "D" && cells[0].parse::<f64>().is_ok_and(|time| time <= end))
                .map(|cells| cells[6] == "1")
                .collect();
            let data = left.iter().filter(|is_data| **is_data).count() as f64;
            let segments = &run.report["directions"][direction]["segments"];
            let all: u64 = segments.as_object().expect("classes").values().filter_map(Value::as_u64).sum();
            let counted = segments["data"].as_u64().expect("a count") as f64;
            // A packet or two may be between the router and the capture at the end.
            assert!(
                (counted - data).abs() <= 2.0,
                "{scenario} {direction}: {counted} data segments, truth {data}"
            );
            assert!((all as f64 - left.len() as f64).abs() <= 3.0, "{scenario} {direction}: {all} segments");
        }
    }
}
