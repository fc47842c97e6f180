//! The pendulum where users have it: the uplink's buffer on the gateway or out of sight in a modem, filled by TCP or by UDP, its rate configured
//! to the agent or not. Each case has the agent's reading beside the kernel's.

use std::time::Duration;

use serde_json::Value;

use super::options::Wishes;
use super::pair::{DOWNLINK_BPS, UNEQUAL_ACCESS, empty, link, pair, steady};
use super::report::{CaseReport, align, number, percent, share};
use super::scenario::{Scenario, TimedTransfer, TimedUdp};
use super::{About, Experiment, prediction};
use crate::lab::LinkSpec;
use crate::topology::BufferPlace;
use crate::traffic::{TransferSpec, UdpSpec};
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;

pub(super) struct Field;

const CONGESTION_CONTROLS: [&str; 3] = ["reno", "cubic", "bbr"];
/// Runs of the short form: everything with reno, and the modem without rates with all three.
const QUICK_RUNS: u32 = 12;
/// Two links, two places, two kinds of upload, rates configured or not, three congestion controls.
const RUNS: u32 = 48;

/// What fills the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    /// One TCP connection.
    Tcp,
    /// Datagrams as of QUIC, at the link's rate.
    Udp,
}

/// One point: link, place of the uplink's buffer, upload, and whether the agent knows the rates.
#[derive(Clone, Copy, Debug)]
struct FieldPoint {
    link: (&'static str, LinkSpec),
    place: BufferPlace,
    upload: Upload,
    rates_told: bool,
}

fn points(quick: bool) -> Vec<FieldPoint> {
    let buffer = BufferSize::Bytes(30_000);
    let symmetric = link((DOWNLINK_BPS, buffer), (DOWNLINK_BPS, buffer), UNEQUAL_ACCESS);
    let mut links = vec![("paper", LinkSpec::FIG1)];
    if !quick {
        links.push(("symmetric", symmetric));
    }
    let mut points = Vec::new();
    for link in links {
        for place in [BufferPlace::Gateway, BufferPlace::Modem] {
            for upload in [Upload::Tcp, Upload::Udp] {
                points.extend([true, false].map(|rates_told| FieldPoint { link, place, upload, rates_told }));
            }
        }
    }
    points
}

impl Experiment for Field {
    fn about(&self) -> About {
        About {
            name: "field",
            source: "000 Fig. 1, 5 behind a modem",
            what: "uplink buffer on the gateway or in a modem, TCP or UDP upload, rates configured or not: the agent's reading beside the kernel's",
            usual: Duration::from_secs(60) * RUNS,
            quick: Duration::from_secs(30) * QUICK_RUNS,
            shortest: Duration::from_secs(20) * QUICK_RUNS,
        }
    }

    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario> {
        let each = wishes.total / if wishes.quick { QUICK_RUNS } else { RUNS };
        points(wishes.quick).into_iter().map(|point| scenario(point, wishes.quick, each)).collect()
    }

    fn jobs(&self) -> u32 {
        2
    }

    fn text(&self, cases: &[CaseReport]) -> String {
        text(cases)
    }
}

fn scenario(point: FieldPoint, quick: bool, each: Duration) -> Scenario {
    let FieldPoint { link: (link_name, link), place, upload, rates_told } = point;
    let link = LinkSpec { uplink_buffer_at: place, ..link };
    let (upload_name, told) =
        (if upload == Upload::Tcp { "tcp" } else { "udp" }, if rates_told { "told" } else { "untold" });
    let name = format!("{link_name}-{place}-{upload_name}-{told}");
    let mut scenario = match upload {
        Upload::Tcp => pair(&name, &name, link, each, 1),
        Upload::Udp => beside_datagrams(&name, link, each),
    };
    for case in &mut scenario.cases {
        case.params.extend([
            ("link".to_owned(), link_name.into()),
            ("upload".to_owned(), upload_name.into()),
            ("rates_told".to_owned(), rates_told.into()),
        ]);
        if upload == Upload::Tcp {
            case.predicted = prediction::download_beside_upload(&link, true);
        }
    }
    scenario.rates_untold = !rates_told;
    let all = !quick || (place == BufferPlace::Modem && !rates_told);
    scenario.congestion_controls = if all { CONGESTION_CONTROLS.to_vec() } else { vec!["reno"] };
    scenario
}

/// One TCP download beside datagrams at the uplink's rate.
fn beside_datagrams(name: &str, link: LinkSpec, length: Duration) -> Scenario {
    let mut scenario = empty(name, link, length);
    let length = scenario.length;
    let download = TransferSpec::new(Direction::Down, length);
    scenario.transfers.push(TimedTransfer::new(Duration::ZERO, download));
    let spec = UdpSpec::quic(Direction::Up, link.uplink.rate, length);
    scenario.datagrams.push(TimedUdp { at: Duration::ZERO, spec });
    scenario.cases = vec![steady(name, &scenario)];
    scenario
}

const HEADINGS: [&str; 8] = [
    "case",
    "kb/s down / up",
    "uplink queue, mean B",
    "downlink queue, mean B",
    "standing up / down",
    "alone up / down",
    "verdict",
    "said after s, changes",
];

/// One table: every figure as the kernel has it, and as the agent read it.
fn text(cases: &[CaseReport]) -> String {
    let rows = cases.iter().map(row);
    let headings = HEADINGS.map(str::to_owned);
    let table = align(&[headings].into_iter().chain(rows).collect::<Vec<_>>());
    let known = cases.iter().filter(|case| !case.truth["verdict"].is_null());
    let agreeing = known.clone().filter(|case| case.truth["verdict"] == case.agent.verdict).count();
    format!(
        "kernel | agent; ± is what the agent itself says of its level\n\n{table}\nverdicts agree in {agreeing} of {} cases\n",
        known.count()
    )
}

fn row(case: &CaseReport) -> [String; 8] {
    let cc = case.params.get("cc").and_then(Value::as_str).unwrap_or_default();
    let kilobits = |bps: Option<f64>| number(bps.map(|bps| Value::from(bps / 1e3)).as_ref(), 0);
    let figures = &case.measured.figures;
    let kernel = |pointer: &str| number(case.truth.pointer(pointer), 0);
    let agent = |direction: Direction| {
        let level = case.agent.queue_mean_bytes[direction].map(Value::from);
        let band = case.agent.queue_uncertainty_bytes[direction].map(Value::from);
        let band = band.map(|band| format!(" ± {}", number(Some(&band), 0))).unwrap_or_default();
        let source = case.agent.queue_source[direction]["source"].as_str();
        let source = source.map(|source| format!(" ({source})")).unwrap_or_default();
        format!("{}{band}{source}", number(level.as_ref(), 0))
    };
    let standing = |name: &str| percent(case.truth["standing_share"][name].as_f64());
    let verdict = |value: &Value| value.as_str().unwrap_or("–").to_owned();
    [
        format!("{}, {cc}", case.name),
        format!("{} / {}", kilobits(figures.download_bps), kilobits(figures.upload_bps)),
        format!("{} | {}", kernel("/uplink_queue/mean_bytes"), agent(Direction::Up)),
        format!("{} | {}", kernel("/downlink_queue/mean_bytes"), agent(Direction::Down)),
        format!("{} / {}", standing("up"), standing("down")),
        format!("{} | {}", share(case.truth.get("phase_share")), share(Some(&case.agent.phase_share))),
        format!("{} | {}", verdict(&case.truth["verdict"]), verdict(&case.agent.verdict)),
        format!(
            "{}, {}",
            number(case.agent.found_at_s().map(Value::from).as_ref(), 1),
            case.agent.changes_of_mind()
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::agent_log::AgentSummary;
    use super::super::figures::{Claim, Figures, Measured, Predicted};
    use super::*;
    use pendulum_model::segment::PerDirection;
    use serde_json::{Map, json};

    fn scenarios(quick: bool) -> Vec<Scenario> {
        Field.scenarios(Wishes { total: Field.about().quick, quick })
    }

    #[test]
    fn every_combination_is_there_and_the_short_form_has_each_of_its_sides() {
        let runs = |all: &[Scenario]| {
            all.iter().map(|scenario| scenario.congestion_controls.len() as u32).sum::<u32>()
        };
        let (short, full) = (scenarios(true), scenarios(false));
        assert_eq!((runs(&short), runs(&full)), (QUICK_RUNS, RUNS));
        for name in ["buffer_at", "upload", "rates_told"] {
            let values = short.iter().map(|scenario| scenario.cases[0].params[name].to_string());
            assert_eq!(values.collect::<std::collections::BTreeSet<_>>().len(), 2, "{name}");
        }
        for cc in CONGESTION_CONTROLS {
            let sides = short.iter().filter(|scenario| scenario.takes(cc));
            let uploads = sides.map(|scenario| scenario.datagrams.len());
            assert_eq!(uploads.collect::<std::collections::BTreeSet<_>>().len(), 2, "{cc}");
        }
    }

    #[test]
    fn the_upload_is_of_the_kind_that_the_case_says() {
        for scenario in scenarios(true) {
            let udp = scenario.cases[0].params["upload"] == "udp";
            assert_eq!(
                (scenario.datagrams.len(), scenario.transfers.len()),
                if udp { (1, 1) } else { (0, 2) }
            );
            assert_eq!(scenario.rates_untold, scenario.cases[0].params["rates_told"] == false);
            assert_eq!(scenario.cases[0].params["buffer_at"], scenario.link.uplink_buffer_at.name());
        }
    }

    #[test]
    fn the_table_has_both_readings_and_counts_the_verdicts_that_agree() {
        let agent = AgentSummary {
            verdict: json!("locked_uplink"),
            queue_mean_bytes: PerDirection { up: Some(28_100.0), down: None },
            queue_uncertainty_bytes: PerDirection { up: Some(400.0), down: None },
            queue_source: PerDirection { up: json!({"source": "estimate"}), down: Value::Null },
            ..AgentSummary::default()
        };
        let case = CaseReport {
            name: "paper-modem-udp-told".into(),
            params: Map::from_iter([("cc".to_owned(), "bbr".into())]),
            paper: Claim::default(),
            predicted: Predicted::default(),
            measured: Measured { figures: Figures::new(400_000.0, 180_000.0), ..Measured::default() },
            truth: json!({"verdict": "locked_uplink", "uplink_queue": {"mean_bytes": 28_000.0},
                "standing_share": {"up": 0.97, "down": 0.02}}),
            agent,
        };
        let other = CaseReport { truth: json!({"verdict": "balanced"}), ..case.clone() };
        let unknown = CaseReport { truth: json!({"verdict": null}), ..case.clone() };
        let text = text(&[case, other, unknown]);
        assert!(text.contains("paper-modem-udp-told, bbr"), "{text}");
        assert!(text.contains("28000 | 28100 ± 400 (estimate)"), "{text}");
        assert!(text.contains("97% / 2%") && text.contains("locked_uplink | locked_uplink"), "{text}");
        assert!(text.ends_with("verdicts agree in 1 of 2 cases\n"), "{text}");
    }
}
