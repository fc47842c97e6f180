//! The pictures.

use pendulum_model::rate::BufferSize;

use super::PointOutcome;
use super::points::{
    DOWNLINK_BYTES, FIG_6_OF_001, FIG_7_OF_001, FIG_10, FIG_10_OF_001, FIG_11, FIG_12, RENO, SENDERS, Sender,
    TCP_BUFFERS,
};
use crate::chart::{Chart, Colour, Form, Panel, Series};

/// A ratio above this many k is drawn at the upper end: a starved upload's would flatten all others.
const MOST_K: f64 = 2.5;

/// All figures.
pub(super) fn all(outcomes: &[PointOutcome]) -> Vec<Chart> {
    let mut charts: Vec<Chart> = [20, 100].map(|propagation| bytes(outcomes, propagation)).into();
    charts.extend([FIG_11, FIG_12, FIG_10_OF_001].map(|figure| packets(outcomes, figure)));
    charts.extend([FIG_6_OF_001, FIG_7_OF_001].map(|figure| estimates(outcomes, figure)));
    charts
}

/// `000 Fig. 10` as the name of a file.
fn file(figure: &str) -> String {
    figure.replace(" Fig. ", "-fig")
}

fn bytes(outcomes: &[PointOutcome], propagation_ms: u64) -> Chart {
    let panels = DOWNLINK_BYTES.map(|down| {
        let those: Vec<&PointOutcome> = outcomes
            .iter()
            .filter(|outcome| {
                let point = &outcome.point;
                point.figure == FIG_10
                    && point.propagation_ms == propagation_ms
                    && point.buffer.down == BufferSize::Bytes(down)
            })
            .collect();
        panel(&those, "uplink buffer, kB", 1000.0, &format!("r, downlink buffer {:.1} kB", down as f64 / 1e3))
    });
    Chart {
        name: format!("{}-tp{propagation_ms}", file(FIG_10)),
        title: format!("{FIG_10}: r against the uplink buffer, propagation {propagation_ms} ms"),
        panels: panels.into(),
    }
}

fn packets(outcomes: &[PointOutcome], figure: &str) -> Chart {
    let panels = [true, false].into_iter().filter_map(|delayed| {
        let of_panel =
            |outcome: &&PointOutcome| outcome.point.figure == figure && outcome.point.delayed_acks == delayed;
        let those: Vec<&PointOutcome> = outcomes.iter().filter(of_panel).collect();
        let acks = if delayed { "delayed ACKs" } else { "an ACK for each segment" };
        (!those.is_empty()).then(|| panel(&those, "uplink buffer, packets", 1.0, &format!("r, {acks}")))
    });
    Chart {
        name: file(figure),
        title: format!("{figure}: r against the uplink buffer, downlink 50 packets"),
        panels: panels.collect(),
    }
}

/// Ratios against the uplink buffer.
fn panel(those: &[&PointOutcome], x: &str, unit: f64, y: &str) -> Panel {
    let Some(first) = those.first() else { return Panel::new(x, y, Vec::new()) };
    let k = first.point.k();
    let at = |outcome: &PointOutcome| outcome.point.uplink() / unit;
    let drawn = |ratio: f64| ratio.min(MOST_K * k);
    let of_sender =
        |sender: Sender| those.iter().copied().filter(move |outcome| outcome.point.sender == sender);
    let reno = || of_sender(RENO);
    let points = |ratio: &dyn Fn(&PointOutcome) -> Option<f64>| -> Vec<(f64, f64)> {
        reno().filter_map(|outcome| Some((at(outcome), drawn(ratio(outcome)?)))).collect()
    };
    let mut series = vec![
        Series::line("paper's text", Colour::Paper, points(&|outcome| outcome.point.stated()))
            .drawn(Form::Marks),
        Series::line("Eq. 11", Colour::Paper, points(&|outcome| outcome.equation)).drawn(Form::Dashes),
    ];
    for (index, sender) in SENDERS.into_iter().enumerate() {
        let (colour, name) = (Colour::of_family(index), sender.name);
        let simulated = of_sender(sender)
            .filter_map(|outcome| Some((at(outcome), drawn(outcome.simulated.ratio?))))
            .collect();
        let spread = of_sender(sender)
            .filter_map(|outcome| Some((at(outcome), outcome.simulated.spread?)))
            .flat_map(|(x, [low, high])| [(x, drawn(low)), (x, drawn(high))])
            .collect();
        let measured = || of_sender(sender).filter_map(|outcome| Some((at(outcome), outcome.linux?)));
        let linux = measured().map(|(x, [mean, ..])| (x, drawn(mean))).collect();
        let linux_spread =
            measured().flat_map(|(x, [_, low, high])| [(x, drawn(low)), (x, drawn(high))]).collect();
        series.push(Series::line(&format!("simulation, {name}"), colour, simulated));
        series.push(Series::line("", colour, spread).drawn(Form::Spread));
        series.push(Series::line(&format!("Linux, {name}"), colour, linux).drawn(Form::Circles));
        series.push(Series::line("", colour, linux_spread).drawn(Form::Spread));
    }
    let sizes = || those.iter().map(|outcome| at(outcome));
    let (low, high) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    series.push(Series::line("k", Colour::Limit, vec![(low, k), (high, k)]));
    series.retain(|series| series.label.is_empty() || !series.points.is_empty());
    let mut panel = Panel::new(x, y, series);
    let margin = (high - low) * 0.04;
    panel.range.x = Some((low - margin, high + margin));
    // Room for the legend.
    let highest =
        panel.series.iter().flat_map(|series| &series.points).map(|point| point.1).fold(k, f64::max);
    panel.range.y = Some((0.0, 1.7 * highest));
    panel
}

/// Eq. 11 against the ratio that came about, as 001 has it: on the diagonal they agree.
fn estimates(outcomes: &[PointOutcome], figure: &str) -> Chart {
    let those: Vec<&PointOutcome> =
        outcomes.iter().filter(|outcome| outcome.point.figure == figure).collect();
    let panels = [20, 100].map(|propagation_ms| {
        let k = those.first().map_or(1.0, |outcome| outcome.point.k());
        let end = 1.5 * k;
        let of_buffer = |bytes: u64, ratio: &dyn Fn(&PointOutcome) -> Option<f64>| -> Vec<(f64, f64)> {
            let those = those.iter().filter(|outcome| {
                outcome.point.tcp_buffer == Some(bytes) && outcome.point.propagation_ms == propagation_ms
            });
            those.filter_map(|outcome| Some((ratio(outcome)?.min(end), outcome.equation?.min(end)))).collect()
        };
        let mut series = Vec::new();
        for (index, &bytes) in TCP_BUFFERS.iter().enumerate() {
            let (colour, name) = (Colour::of_family(index), format!("B_TCP {} kB", bytes / 1024));
            let simulated = of_buffer(bytes, &|outcome| outcome.simulated.ratio);
            let linux = of_buffer(bytes, &|outcome| outcome.linux.map(|[mean, ..]| mean));
            series.push(Series::line(&format!("simulation, {name}"), colour, simulated).drawn(Form::Marks));
            if !linux.is_empty() {
                series.push(Series::line(&format!("Linux, {name}"), colour, linux).drawn(Form::Circles));
            }
        }
        let stated = those.iter().filter_map(|outcome| {
            let is_one = outcome.point.propagation_ms == propagation_ms;
            is_one.then_some((outcome.point.stated()?, outcome.equation?))
        });
        let stated: Vec<(f64, f64)> = stated.collect();
        if !stated.is_empty() {
            series.push(Series::line("paper's text", Colour::Paper, stated).drawn(Form::Marks));
        }
        series.push(
            Series::line("Eq. 11 agrees", Colour::Paper, vec![(0.0, 0.0), (end, end)]).drawn(Form::Dashes),
        );
        series.push(Series::line("k", Colour::Limit, vec![(k, 0.0), (k, end)]).drawn(Form::Spread));
        let y = format!("r by Eq. 11, propagation {propagation_ms} ms");
        let mut panel = Panel::new("r, simulated or measured", &y, series);
        // The legend stands to the right of all points.
        panel.range.x = Some((0.0, 1.4 * end));
        panel.range.y = Some((0.0, 1.1 * end));
        panel
    });
    Chart {
        name: file(figure),
        title: format!("{figure}: Eq. 11 against the ratio, simulated and on Linux, reno"),
        panels: panels.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{points, simulate};
    use super::*;
    use std::time::Duration;

    #[test]
    fn each_figure_is_drawn_with_what_there_is() {
        let few: Vec<_> = points::all()
            .into_iter()
            .filter(|point| point.uplink() == 6_000.0 || point.uplink() == 25.0)
            .collect();
        let outcomes = simulate(&few, Duration::from_secs(20), 1, &points::linux());
        assert_eq!(outcomes.len(), few.len());
        let charts = all(&outcomes);
        let names: Vec<&str> = charts.iter().map(|chart| chart.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "000-fig10-tp20",
                "000-fig10-tp100",
                "000-fig11",
                "000-fig12",
                "001-fig10",
                "001-fig6",
                "001-fig7"
            ]
        );
        let labels = |chart: &Chart| -> Vec<String> {
            chart.panels[0].series.iter().map(|series| series.label.clone()).collect()
        };
        for part in ["Eq. 11", "simulation, reno", "simulation, CUBIC", "Linux, reno", "Linux, CUBIC", "k"] {
            assert!(labels(&charts[0]).iter().any(|label| label == part), "{part}");
        }
        assert!(labels(&charts[2]).iter().any(|label| label == "paper's text"));
        assert!(labels(&charts[5]).iter().any(|label| label == "Linux, B_TCP 64 kB"));
        assert_eq!(charts.iter().map(|chart| chart.panels.len()).collect::<Vec<_>>(), [3, 3, 2, 1, 2, 2, 2]);
    }
}
