//! The throughput ratio against the uplink buffer: in bytes (000 Fig. 10; 001 Fig. 6, 7) and in packets (000 Fig. 11, 12; 001 Fig. 10).

use std::time::Duration;

use pendulum_model::rate::BufferSize;

use super::figures::{Claim, Figures};
use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UNEQUAL_ACCESS, UPLINK_BPS, link, pair};
use super::report::{CaseReport, Report};
use super::results::Results;
use super::scenario::{Preparation, Scenario};
use super::{About, Experiment, prediction};
use crate::chart::{Chart, Colour, Form, Panel, Series};
use crate::delay::Delays;

pub(super) struct BytesGrid;
pub(super) struct PacketsGrid;

/// `k` of the link.
const K: f64 = DOWNLINK_BPS as f64 / UPLINK_BPS as f64;

/// One point: `T_p` in ms, both buffers in bytes, uploads.
type BytesPoint = (u64, u64, u64, u32);

fn bytes_points(quick: bool) -> Vec<BytesPoint> {
    let (propagations, downlinks, uplinks): (&[u64], &[u64], &[u64]) = if quick {
        (&[20], &[22_500, 75_000], &[6_000, 15_000, 30_000])
    } else {
        (&[20, 100], &[22_500, 37_500, 75_000], &[6_000, 9_000, 15_000, 30_000])
    };
    let mut points = Vec::new();
    for &propagation in propagations {
        for &downlink in downlinks {
            points.extend(uplinks.iter().map(|&uplink| (propagation, downlink, uplink, 1)));
        }
    }
    if !quick {
        points.extend(uplinks.iter().map(|&uplink| (20, 75_000, uplink, 10)));
    }
    points
}

impl Experiment for BytesGrid {
    fn about(&self) -> About {
        About {
            name: "bytes-grid",
            source: "000 Fig. 10; 001 Fig. 6, 7",
            what: "r against the uplink buffer in bytes for three downlink buffers, T_p 20 and 100 ms; also ten uploads",
            usual: Duration::from_secs(28 * 60),
            quick: Duration::from_secs(6 * 15),
            shortest: Duration::from_secs(6 * 10),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let points = bytes_points(wishes.quick);
        let each = wishes.total / points.len() as u32;
        points.into_iter().map(|point| bytes_scenario(point, each)).collect()
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        let groups = groups(results.report, &["propagation_ms", "uploads", "cc"]);
        let chart = |(name, cases): (String, Vec<&CaseReport>)| Chart {
            name: format!("ratio-{name}"),
            title: format!("r against the uplink buffer (T_p in ms, uploads, cc: {name})"),
            panels: vec![panel(&cases, "downlink_buffer", "B_d", "uplink buffer, kB", 1000.0)],
        };
        groups.into_iter().map(chart).collect()
    }
}

fn bytes_scenario((propagation, downlink, uplink, uploads): BytesPoint, each: Duration) -> Scenario {
    let delays = Delays { propagation: Duration::from_millis(propagation), ..UNEQUAL_ACCESS };
    let link =
        link((DOWNLINK_BPS, BufferSize::Bytes(downlink)), (UPLINK_BPS, BufferSize::Bytes(uplink)), delays);
    let several = if uploads > 1 { format!(", {uploads} uploads") } else { String::new() };
    let name = format!("tp{propagation}-down{downlink}-up{uplink}-x{uploads}");
    let case = format!("{uplink} B up, {downlink} B down, {propagation} ms{several}");
    let mut scenario = pair(&name, &case, link, each, uploads);
    let predicted = prediction::download_and_upload(&link);
    let cases = std::mem::take(&mut scenario.cases).into_iter();
    scenario.cases = cases
        .map(|case| {
            let case = case.with("propagation_ms", propagation).with("uplink_buffer_size", uplink);
            case.compared(Claim::says("Eq. 11 fits fairly well"), predicted)
        })
        .collect();
    scenario
}

/// Slots of the downlink buffer (000 §4.1).
const DOWNLINK_SLOTS: u64 = 50;

impl Experiment for PacketsGrid {
    fn about(&self) -> About {
        About {
            name: "packets-grid",
            source: "000 Fig. 11, 12; 001 Fig. 10",
            what: "r against an uplink buffer of 5 to 50 packets, with and without delayed ACKs; downlink 50 packets",
            usual: Duration::from_secs(20 * 60),
            quick: Duration::from_secs(6 * 15),
            shortest: Duration::from_secs(6 * 10),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let slots: Vec<u64> = if wishes.quick { vec![5, 25, 50] } else { (1..=10).map(|i| 5 * i).collect() };
        let points: Vec<(u64, bool)> = [true, false]
            .into_iter()
            .flat_map(|acks| slots.iter().map(move |&slots| (slots, acks)))
            .collect();
        let each = wishes.total / points.len() as u32;
        points.into_iter().map(|(slots, delayed)| packets_scenario(slots, delayed, each)).collect()
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        groups(results.report, &["cc"])
            .into_iter()
            .map(|(name, cases)| Chart {
                name: format!("ratio-{name}"),
                title: format!(
                    "r against the uplink buffer in packets ({name}); downlink {DOWNLINK_SLOTS} packets"
                ),
                panels: vec![panel(&cases, "delayed_acks", "delayed ACKs", "uplink buffer, packets", 1.0)],
            })
            .collect()
    }
}

fn packets_scenario(slots: u64, delayed: bool, each: Duration) -> Scenario {
    let delays = Delays { propagation: Duration::from_millis(20), ..UNEQUAL_ACCESS };
    let link = link(
        (DOWNLINK_BPS, BufferSize::Packets(DOWNLINK_SLOTS)),
        (UPLINK_BPS, BufferSize::Packets(slots)),
        delays,
    );
    let acks = if delayed { "delayed ACKs" } else { "an ACK for each segment" };
    let name = format!("up{slots}-{}", if delayed { "delayed" } else { "every" });
    let mut scenario = pair(&name, &format!("{slots} packets up, {acks}"), link, each, 1);
    if !delayed {
        scenario.prepare = Preparation::immediate_acks();
    }
    let predicted = prediction::download_beside_upload(&link, delayed);
    let cases = std::mem::take(&mut scenario.cases).into_iter();
    scenario.cases = cases
        .map(|case| {
            let case = case.with("delayed_acks", delayed).with("uplink_buffer_size", slots);
            case.compared(claim(slots, delayed), predicted)
        })
        .collect();
    scenario
}

/// 000 §4.1: "it can obtain significant throughput only when there is enough room in the buffer for most of ACKs, that is for 25 slots with
/// delayed ACKs or 50 otherwise"; there r is about k.
fn claim(slots: u64, delayed: bool) -> Claim {
    let needed = if delayed { 25 } else { 50 };
    match slots.cmp(&needed) {
        std::cmp::Ordering::Less => Claim::says("the upload starves: r above k"),
        std::cmp::Ordering::Equal => Figures::of_ratio(K).into(),
        std::cmp::Ordering::Greater => Claim::says("the download suffers: r below k"),
    }
}

/// Cases with the same parameters, each group under a name made of them.
fn groups<'a>(report: &'a Report, params: &[&str]) -> Vec<(String, Vec<&'a CaseReport>)> {
    let mut groups: Vec<(String, Vec<&CaseReport>)> = Vec::new();
    for case in &report.cases {
        let values = params.iter().filter_map(|name| case.params.get(*name)).map(text);
        let name = values.collect::<Vec<_>>().join("-");
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, members)) => members.push(case),
            None => groups.push((name, vec![case])),
        }
    }
    groups
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Measured ratios as marks, the refined model as a line and Eq. 11 as dashes, in one colour for each value of `family`.
fn panel(cases: &[&CaseReport], family: &str, label: &str, x: &str, unit: f64) -> Panel {
    let size = |case: &CaseReport| case.params["uplink_buffer_size"].as_f64().unwrap_or_default() / unit;
    let mut families: Vec<String> =
        cases.iter().filter_map(|case| case.params.get(family).map(text)).collect();
    families.dedup();
    let mut series = Vec::new();
    for (index, member) in families.iter().enumerate() {
        let colour = Colour::of_family(index);
        let those: Vec<&&CaseReport> =
            cases.iter().filter(|case| case.params.get(family).map(text).as_ref() == Some(member)).collect();
        let points = |ratio: &dyn Fn(&CaseReport) -> Option<f64>| -> Vec<(f64, f64)> {
            those.iter().filter_map(|case| Some((size(case), ratio(case)?))).collect()
        };
        let spread: Vec<(f64, f64)> = those
            .iter()
            .filter_map(|case| Some((size(case), case.measured.spread?.ratio?)))
            .flat_map(|(x, (low, high))| [(x, low), (x, high)])
            .collect();
        let name = format!("{label} {member}");
        series.push(
            Series::line(&name, colour, points(&|case| case.measured.figures.ratio)).drawn(Form::Marks),
        );
        series.push(Series::line("", colour, spread).drawn(Form::Spread));
        series.push(Series::line("", colour, points(&|case| case.predicted.refined.ratio)));
        series.push(Series::line("", colour, points(&|case| case.predicted.paper.ratio)).drawn(Form::Dashes));
    }
    let sizes = || cases.iter().map(|case| size(case));
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    series.push(Series::line("k", Colour::Limit, vec![(low, K), (high, K)]));
    series.push(Series::line("refined model", Colour::Paper, Vec::new()));
    series.push(Series::line("Eq. 11", Colour::Paper, Vec::new()).drawn(Form::Dashes));
    let mut panel = Panel::new(x, "r = download / upload", series);
    let margin = (high - low) * 0.04;
    panel.range.x = Some((low - margin, high + margin));
    // A starved upload has a ratio in the hundreds, which would flatten all others.
    let ratios = cases.iter().filter_map(|case| case.measured.figures.ratio).filter(|ratio| *ratio < 3.0 * K);
    panel.range.y = Some((0.0, ratios.fold(1.3 * K, f64::max) * 1.08));
    panel
}
