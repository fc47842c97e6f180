//! The throughput ratio against the uplink buffer: in bytes (000 Fig. 10; 001 Fig. 6, 7) and in packets (000 Fig. 11, 12; 001 Fig. 10).

use std::time::Duration;

use pendulum_model::rate::BufferSize;

use super::figures::{Claim, Figures};
use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UNEQUAL_ACCESS, UPLINK_BPS, link, pair};
use super::points::{SOCKETS_EVERY, queues_and_parts};
use super::report::{CaseReport, Report};
use super::results::{Results, ScenarioRun};
use super::scenario::{Preparation, Scenario};
use super::{About, Experiment, prediction};
use crate::chart::{Chart, Colour, Form, Panel, Series};
use crate::delay::Delays;

pub(super) struct BytesGrid;
pub(super) struct PacketsGrid;

/// `k` of the link.
const K: f64 = DOWNLINK_BPS as f64 / UPLINK_BPS as f64;

/// Rates of 000 §4 and of 001 §3.1, bit/s: down, up.
const RATES_000: (u64, u64) = (DOWNLINK_BPS, UPLINK_BPS);
pub(super) const RATES_001: (u64, u64) = (2_000_000, 192_000);
/// Buffers of 000 Fig. 10 and 001 Fig. 6 and 7, bytes.
pub(super) const DOWNLINK_BYTES: [u64; 3] = [22_500, 37_500, 75_000];
pub(super) const UPLINK_BYTES: [u64; 4] = [6_000, 9_000, 15_000, 30_000];

/// A link of these grids and its traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct GridPoint {
    /// bit/s: down, up.
    pub(super) rates: (u64, u64),
    /// `T_p`, one way.
    pub(super) propagation_ms: u64,
    /// Buffers: down, up.
    pub(super) buffers: (BufferSize, BufferSize),
    pub(super) uploads: u32,
    /// `B_TCP`, bytes; `None`: more than the windows want.
    pub(super) tcp_buffer: Option<u64>,
    pub(super) delayed_acks: bool,
}

impl GridPoint {
    /// 000 Fig. 10.
    pub(super) const fn in_bytes(propagation_ms: u64, down: u64, up: u64) -> Self {
        let buffers = (BufferSize::Bytes(down), BufferSize::Bytes(up));
        Self { rates: RATES_000, propagation_ms, buffers, uploads: 1, tcp_buffer: None, delayed_acks: true }
    }

    /// One scenario with one case. Senders are not paced, as those of the papers; a run of minutes is read less often.
    pub(super) fn scenario(&self, name: &str, case: &str, each: Duration) -> Scenario {
        let delays = Delays { propagation: Duration::from_millis(self.propagation_ms), ..UNEQUAL_ACCESS };
        let link = link((self.rates.0, self.buffers.0), (self.rates.1, self.buffers.1), delays);
        let mut scenario = pair(name, case, link, each, self.uploads);
        scenario.prepare = Preparation::sockets_begin_with("reno");
        if !self.delayed_acks {
            scenario.prepare = scenario.prepare.then(Preparation::immediate_acks());
        }
        if let Some(bytes) = self.tcp_buffer {
            scenario.prepare = scenario.prepare.then(Preparation::largest_window(bytes));
        }
        let length_s = scenario.length.as_secs();
        if scenario.length >= LONG {
            scenario.sockets_every = SOCKETS_EVERY;
        }
        let (BufferSize::Bytes(size) | BufferSize::Packets(size)) = self.buffers.1;
        let predicted = prediction::beside_upload(&link, self.delayed_acks, self.tcp_buffer);
        let cases = std::mem::take(&mut scenario.cases).into_iter().map(|case| {
            let case = case.with("propagation_ms", self.propagation_ms).with("uplink_buffer_size", size);
            let case = case.with("delayed_acks", self.delayed_acks).with("tcp_buffer_bytes", self.tcp_buffer);
            case.with("paced", false).with("length_s", length_s).compared(Claim::default(), predicted)
        });
        scenario.cases = cases.collect();
        scenario
    }
}

/// From here on a stretch is long enough for readings of the sockets some seconds apart.
const LONG: Duration = Duration::from_secs(60);

fn bytes_points(quick: bool) -> Vec<GridPoint> {
    let (propagations, downlinks, uplinks): (&[u64], &[u64], &[u64]) = if quick {
        (&[20], &[22_500, 75_000], &[6_000, 15_000, 30_000])
    } else {
        (&[20, 100], &DOWNLINK_BYTES, &UPLINK_BYTES)
    };
    let mut points = Vec::new();
    for &propagation in propagations {
        for &downlink in downlinks {
            points.extend(uplinks.iter().map(|&uplink| GridPoint::in_bytes(propagation, downlink, uplink)));
        }
    }
    if !quick {
        let ten = |&uplink: &u64| GridPoint { uploads: 10, ..GridPoint::in_bytes(20, 75_000, uplink) };
        points.extend(uplinks.iter().map(ten));
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
        points.into_iter().map(|point| bytes_scenario(&point, each)).collect()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        queues_and_parts(case, index, run);
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

/// A point whose buffers are in bytes.
pub(super) fn bytes_scenario(point: &GridPoint, each: Duration) -> Scenario {
    let GridPoint { propagation_ms, buffers: (down, up), uploads, tcp_buffer, .. } = *point;
    let several = if uploads > 1 { format!(", {uploads} uploads") } else { String::new() };
    let window = tcp_buffer.map_or_else(String::new, |bytes| format!(", B_TCP {bytes} B"));
    let bytes = |size| match size {
        BufferSize::Bytes(count) | BufferSize::Packets(count) => count,
    };
    let (down, up) = (bytes(down), bytes(up));
    let suffix = tcp_buffer.map_or_else(String::new, |bytes| format!("-tcp{bytes}"));
    let name = format!("tp{propagation_ms}-down{down}-up{up}-x{uploads}{suffix}");
    let case = format!("{up} B up, {down} B down, {propagation_ms} ms{window}{several}");
    let mut scenario = point.scenario(&name, &case, each);
    for case in &mut scenario.cases {
        case.paper = Claim::says("Eq. 11 fits fairly well");
    }
    scenario
}

/// Slots of the downlink buffer (000 §4.1).
const DOWNLINK_SLOTS: u64 = 50;

/// A curve of a figure: its prefix in names, what its link has, and with which ACKs it is measured.
type GridCurve = (&'static str, &'static str, GridPoint, &'static [bool]);

fn packets_curves(quick: bool) -> Vec<GridCurve> {
    let buffers = (BufferSize::Packets(DOWNLINK_SLOTS), BufferSize::Packets(DOWNLINK_SLOTS));
    let of_000 = GridPoint { buffers, ..GridPoint::in_bytes(20, 0, 0) };
    let mut curves: Vec<GridCurve> = vec![("", "", of_000, &[true, false])];
    if !quick {
        // 000 Fig. 12 was measured with routers on one Ethernet: no propagation to speak of.
        curves.push(("tp0-", ", 0 ms", GridPoint { propagation_ms: 0, ..of_000 }, &[true]));
        let of_001 = GridPoint { rates: RATES_001, tcp_buffer: Some(64 * 1024), ..of_000 };
        curves.push(("report-", ", 2 Mb/s / 192 kb/s, B_TCP 64 kB", of_001, &[true, false]));
    }
    curves
}

impl Experiment for PacketsGrid {
    fn about(&self) -> About {
        About {
            name: "packets-grid",
            source: "000 Fig. 11, 12; 001 Fig. 10",
            what: "r against an uplink buffer of 5 to 50 packets, with and without delayed ACKs; downlink 50 packets",
            usual: Duration::from_secs(50 * 60),
            quick: Duration::from_secs(6 * 15),
            shortest: Duration::from_secs(6 * 10),
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let slots: Vec<u64> = if wishes.quick { vec![5, 25, 50] } else { (1..=10).map(|i| 5 * i).collect() };
        let mut points = Vec::new();
        for (prefix, link, point, acks) in packets_curves(wishes.quick) {
            for &delayed_acks in acks {
                points.extend(slots.iter().map(|&up| {
                    let buffers = (point.buffers.0, BufferSize::Packets(up));
                    (prefix, link, up, GridPoint { buffers, delayed_acks, ..point })
                }));
            }
        }
        let each = wishes.total / points.len() as u32;
        points
            .into_iter()
            .map(|(prefix, link, up, point)| packets_scenario(prefix, link, up, &point, each))
            .collect()
    }

    fn judge(&self, case: &mut CaseReport, index: usize, run: &ScenarioRun) {
        queues_and_parts(case, index, run);
    }

    fn plots(&self, results: Results<'_>) -> Vec<Chart> {
        groups(results.report, &["downlink_rate_bps", "propagation_ms", "cc"])
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

fn packets_scenario(prefix: &str, link: &str, slots: u64, point: &GridPoint, each: Duration) -> Scenario {
    let delayed = point.delayed_acks;
    let acks = if delayed { "delayed ACKs" } else { "an ACK for each segment" };
    let name = format!("{prefix}up{slots}-{}", if delayed { "delayed" } else { "every" });
    let mut scenario = point.scenario(&name, &format!("{slots} packets up, {acks}{link}"), each);
    for case in &mut scenario.cases {
        case.paper = claim(slots, delayed);
    }
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
