//! Paper 002, Figures 4 to 9: slow start over a slow reverse channel, by the reference model. One transfer, its window, rate and acknowledged
//! segments under static thresholds and under delayed filtering.

use std::fmt::Write as _;
use std::time::Duration;

use pendulum_reference::policy::Policy;
use pendulum_reference::scenario::{ESTIMATOR_WINDOW, LINK, THRESHOLDS, reverse_channel, slow_start};
use pendulum_reference::simulation::Moment;
use serde_json::{Value, json};

use super::report::align_figures as align;
use super::{
    About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions, write_charts,
    write_file,
};
use crate::chart::{Chart, Colour, Form, Panel, Series};

/// See the module.
pub(super) struct AckThreshold;

const NAME: &str = "ack-threshold";
/// Rates are means over this time: "averaged over intervals of 200 ms" (002 §2.4).
const STEP: Duration = Duration::from_millis(200);

/// One curve of the figures.
struct Curve {
    name: String,
    label: String,
    delta: Option<usize>,
    says: &'static str,
    moments: Vec<Moment>,
}

impl Experiment for AckThreshold {
    fn about(&self) -> About {
        About {
            name: NAME,
            source: "002 Fig. 4-9",
            what: "window, rate and acknowledged segments of slow start for δ = 1, 3, 30, 500 and delayed filtering; simulated",
            usual: Duration::from_secs(12),
            quick: Duration::from_secs(8),
            shortest: Duration::from_secs(4),
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let end = self.about().total(options);
        progress(Progress { total: end, elapsed: Duration::ZERO, what: "simulating".into() });
        let curves = curves(end);
        if let Some(out) = &options.out {
            write_file(&out.join("curves.csv"), &csv(&curves))?;
            write_charts(&charts(&curves), out)?;
        }
        let cases = curves.iter().map(Curve::case).collect();
        Report::new(NAME, cases, table(&curves, end)).finish(options)
    }
}

fn curves(end: Duration) -> Vec<Curve> {
    let fixed = THRESHOLDS.map(|delta| Curve {
        name: format!("delta-{delta}"),
        label: format!("δ = {delta}"),
        delta: Some(delta),
        says: match delta {
            1 | 3 => "a δ less than δ_o slows the window growth",
            500 => "same window as δ_o, longer RTT until about 5 s",
            _ => "δ_o: the best performance",
        },
        moments: slow_start(Policy::threshold(delta), STEP, end),
    });
    let delayed = Curve {
        name: "delayed".into(),
        label: "delayed filtering".into(),
        delta: None,
        says: "slightly better than δ_o",
        moments: slow_start(Policy::delayed(ESTIMATOR_WINDOW), STEP, end),
    };
    fixed.into_iter().chain([delayed]).collect()
}

impl Curve {
    fn at(&self, seconds: f64) -> Option<&Moment> {
        self.moments.get((seconds / STEP.as_secs_f64()).round() as usize)
    }

    /// Segments per second sent in each step, at the step's end.
    fn rates(&self) -> impl Iterator<Item = (f64, f64)> {
        self.moments.windows(2).filter_map(|pair| match pair {
            [before, after] => {
                let sent = (after.sent_segments - before.sent_segments) as f64;
                Some((after.at.as_secs_f64(), sent / (after.at - before.at).as_secs_f64()))
            }
            _ => None,
        })
    }

    fn points(&self, figure: impl Fn(&Moment) -> f64) -> Vec<(f64, f64)> {
        self.moments.iter().map(|moment| (moment.at.as_secs_f64(), figure(moment))).collect()
    }

    fn case(&self) -> OwnCase {
        let last = self.moments.last();
        let bits = |moment: &Moment| moment.acked_segments as f64 * LINK.segment_bytes * 8.0;
        let goodput = last.map(|moment| bits(moment) / moment.at.as_secs_f64());
        let channel = reverse_channel();
        let params = json!({
            "delta": self.delta,
            "filter": if self.delta.is_some() { "static" } else { "delayed" },
            "forward_bps": LINK.forward_rate * 8.0,
            "reverse_bps": LINK.reverse_rate * 8.0,
            "base_rtt_s": LINK.base_rtt.as_secs_f64(),
            "source": "simulation",
        });
        let at = |seconds: f64, figure: fn(&Moment) -> f64| self.at(seconds).map(figure);
        OwnCase {
            name: self.name.clone(),
            params: params.as_object().cloned().unwrap_or_default(),
            paper: json!({"says": self.says}),
            predicted: json!({
                "optimum_delta": channel.optimum_threshold(),
                "window_growth_segments_per_s": channel.acks_per_second,
            }),
            measured: json!({
                "download_bps": goodput,
                "upload_bps": Value::Null,
                "ratio": Value::Null,
                "window_segments_at_2s": at(2.0, |moment| moment.window_segments),
                "window_segments_at_4s": at(4.0, |moment| moment.window_segments),
                "acked_segments_at_4s": at(4.0, |moment| moment.acked_segments as f64),
                "acked_segments": last.map(|moment| moment.acked_segments),
                "largest_ack_queue": self.moments.iter().map(|moment| moment.queued_acks).max(),
            }),
            ..OwnCase::default()
        }
    }
}

fn table(curves: &[Curve], end: Duration) -> String {
    let end = end.as_secs_f64();
    let last = format!("segments acked at {end:.0} s");
    let headings = ["case", "window at 2 s", "at 4 s", "segments acked at 4 s", &last, "ACKs queued at most"];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    rows.extend(curves.iter().map(|curve| {
        let at = |seconds, figure: fn(&Moment) -> f64| {
            curve.at(seconds).map_or_else(|| "–".to_owned(), |moment| format!("{:.0}", figure(moment)))
        };
        let acked: fn(&Moment) -> f64 = |moment| moment.acked_segments as f64;
        let window: fn(&Moment) -> f64 = |moment| moment.window_segments;
        let queued = curve.moments.iter().map(|moment| moment.queued_acks).max().unwrap_or(0);
        vec![
            curve.label.clone(),
            at(2.0, window),
            at(4.0, window),
            at(4.0, acked),
            at(end, acked),
            queued.to_string(),
        ]
    }));
    let mut text = align(&rows);
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "\nsimulated; δ_o = μ_r·T/(d+1) = {:.1} ACKs (002 Eq. 1)",
        reverse_channel().optimum_threshold()
    );
    text
}

fn csv(curves: &[Curve]) -> String {
    let mut text = String::from("case,time_s,window_segments,sent_segments,acked_segments,queued_acks\n");
    for curve in curves {
        for moment in &curve.moments {
            let _ = writeln!(
                text,
                "{},{:.1},{:.2},{},{},{}",
                curve.name,
                moment.at.as_secs_f64(),
                moment.window_segments,
                moment.sent_segments,
                moment.acked_segments,
                moment.queued_acks
            );
        }
    }
    text
}

fn charts(curves: &[Curve]) -> Vec<Chart> {
    let (fixed, all): (Vec<_>, Vec<_>) =
        (curves.iter().filter(|c| c.delta.is_some()).collect(), curves.iter().collect());
    let best: Vec<&Curve> = curves.iter().filter(|c| c.delta.is_none_or(|delta| delta == 30)).collect();
    let window = |curve: &Curve| curve.points(|moment| moment.window_segments);
    let rate = |curve: &Curve| curve.rates().collect();
    let acked = |curve: &Curve| curve.points(|moment| moment.acked_segments as f64);
    let queued = |curve: &Curve| curve.points(|moment| moment.queued_acks as f64);
    let seconds = "time, s";
    vec![
        chart(
            "fig4-window",
            "002 Fig. 4: TCP window",
            vec![panel(seconds, "window, segments", &fixed, &window)],
        ),
        chart(
            "fig5-rate",
            "002 Fig. 5: transmission rate",
            vec![panel(seconds, "segments/s", &fixed, &rate)],
        ),
        chart(
            "fig6-acked",
            "002 Fig. 6: last acknowledged segment",
            vec![panel(seconds, "segments", &fixed, &acked)],
        ),
        chart(
            "fig7-delayed",
            "002 Fig. 7: delayed filtering beside static thresholds",
            vec![panel(seconds, "segments acknowledged", &all, &acked)],
        ),
        chart(
            "fig8-9-queue",
            "002 Fig. 8 and 9: reverse buffer",
            vec![panel(seconds, "ACKs queued", &best, &queued)],
        ),
    ]
}

fn chart(name: &str, title: &str, panels: Vec<Panel>) -> Chart {
    Chart { name: name.into(), title: title.into(), panels }
}

fn panel(x: &str, y: &str, curves: &[&Curve], points: &dyn Fn(&Curve) -> Vec<(f64, f64)>) -> Panel {
    let series = curves.iter().enumerate().map(|(index, curve)| {
        // A fifth curve has no colour of its own in the family; it is the one drawn in dashes.
        let (colour, form) = match curve.delta {
            Some(_) => (Colour::of_family(index), Form::Line),
            None => (Colour::Paper, Form::Dashes),
        };
        Series::line(&curve.label, colour, points(curve)).drawn(form)
    });
    Panel::new(x, y, series.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_case_of_the_optimum_acknowledges_most_of_the_static_ones() {
        let curves = curves(Duration::from_secs(4));
        let acked = |name: &str| {
            let case = curves.iter().find(|curve| curve.name == name).unwrap().case();
            case.measured["acked_segments"].as_u64().unwrap()
        };
        for other in ["delta-1", "delta-3", "delta-500"] {
            assert!(acked("delta-30") > acked(other), "{other}");
        }
        assert!(acked("delayed") >= acked("delta-30"));
    }

    #[test]
    fn every_figure_has_its_curves() {
        let curves = curves(Duration::from_secs(1));
        let charts = charts(&curves);
        let counts: Vec<usize> = charts.iter().map(|chart| chart.panels[0].series.len()).collect();
        assert_eq!(counts, [4, 4, 4, 5, 2]);
        assert!(csv(&curves).lines().count() > 5 * 5);
    }
}
