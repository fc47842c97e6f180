//! The throughput ratio against the buffers, as the papers plot it: 000 Fig. 10, 11, 12 and 001 Fig. 6, 7, 10. What the paper says, Eq. 11,
//! `model::simulate` and Linux are in one picture. Nothing is measured here: Linux' points are those of `tests/data/paper-grids`.

mod charts;
mod points;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use self::points::{PaperPoint, Simulated};
use super::report::align_figures as align;
use super::{
    About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions, write_charts,
    write_file,
};
use crate::statistics::quantile;

/// See the module.
pub(super) struct PaperFigures;

const NAME: &str = "paper-figures";
/// Runs of each point that differ in when the transfers start.
const SEEDS: u64 = 3;

/// A point of a figure, and what became of it.
struct PointOutcome {
    point: PaperPoint,
    /// Eq. 11; `None` for buffers in packets, and where it has no answer.
    equation: Option<f64>,
    simulated: Simulated,
    /// Mean of Linux' runs, and the smallest and largest, if it was measured.
    linux: Option<[f64; 3]>,
}

impl Experiment for PaperFigures {
    fn about(&self) -> About {
        About {
            name: NAME,
            source: "000 Fig. 10-12; 001 Fig. 6, 7, 10",
            what: "r against the buffers: the paper, Eq. 11, the simulation and Linux in one picture; seconds are simulated, for each point",
            usual: Duration::from_secs(1000),
            quick: Duration::from_secs(100),
            shortest: Duration::from_secs(20),
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let duration = self.about().total(options);
        let seeds = if options.quick { 1 } else { SEEDS };
        let points = points::all();
        let all = points.len() as u32;
        let linux = points::linux();
        let mut outcomes = Vec::new();
        for chunk in points.chunks(16) {
            let what = chunk.first().map_or_else(String::new, |point| point.figure.to_owned());
            progress(Progress { total: duration * all, elapsed: duration * outcomes.len() as u32, what });
            options.interrupt.sleep_until(Instant::now())?;
            outcomes.extend(simulate(chunk, duration, seeds, &linux));
        }
        if let Some(out) = &options.out {
            write_file(&out.join("points.csv"), &csv(&outcomes))?;
            write_charts(&charts::all(&outcomes), out)?;
        }
        let cases = outcomes.iter().map(|outcome| outcome.case(duration)).collect();
        Report::new(NAME, cases, table(&outcomes, duration)).finish(options)
    }
}

/// Some points side by side.
fn simulate(
    points: &[PaperPoint],
    duration: Duration,
    seeds: u64,
    linux: &[points::PaperRun],
) -> Vec<PointOutcome> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = points.len().div_ceil(workers).max(1);
    let one = |point: &PaperPoint| PointOutcome {
        equation: point.equation(),
        simulated: point.simulate(duration.as_secs_f64(), seeds),
        linux: points::of(linux, point),
        point: point.clone(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = points
            .chunks(share)
            .map(|part| scope.spawn(move || part.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let joined = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect()
    })
}

impl PointOutcome {
    fn case(&self, duration: Duration) -> OwnCase {
        let params = json!({
            "figure": self.point.figure,
            "downlink_buffer": self.point.buffer.down.to_string(),
            "uplink_buffer": self.point.buffer.up.to_string(),
            "propagation_ms": self.point.propagation_ms,
            "uploads": self.point.uploads,
            "tcp_buffer_bytes": self.point.tcp_buffer,
            "delayed_acks": self.point.delayed_acks,
            "cc": self.point.cc(),
            "paced": self.point.is_paced(),
            "simulated_s": duration.as_secs_f64(),
            "source": "simulation",
        });
        OwnCase {
            name: self.point.name(),
            params: params.as_object().cloned().unwrap_or_default(),
            paper: json!({ "ratio": self.point.stated() }),
            predicted: json!({ "paper": { "ratio": self.equation } }),
            measured: json!({
                "download_bps": self.simulated.goodput.down,
                "upload_bps": self.simulated.goodput.up,
                "ratio": self.simulated.ratio,
                "ratio_spread": self.simulated.spread,
            }),
            truth: json!({ "linux_ratio": self.linux }),
            ..OwnCase::default()
        }
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}"))
}

fn table(outcomes: &[PointOutcome], duration: Duration) -> String {
    let mut text = String::new();
    for group in outcomes.chunk_by(|a, b| a.point.figure == b.point.figure) {
        let Some(first) = group.first() else { continue };
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}: r, download over upload\n", first.point.figure);
        let head = ["point", "paper", "Eq. 11", "simulation", "Linux"].map(str::to_owned).to_vec();
        let rows = group.iter().map(|outcome| {
            vec![
                outcome.point.name(),
                ratio(outcome.point.stated()),
                ratio(outcome.equation),
                ratio(outcome.simulated.ratio),
                ratio(outcome.linux.map(|[mean, ..]| mean)),
            ]
        });
        text.push_str(&align(&std::iter::once(head).chain(rows).collect::<Vec<_>>()));
        text.push_str(&agreement(group));
        text.push('\n');
    }
    let _ = writeln!(text, "all: {}simulated, {} s each", agreement(outcomes), duration.as_secs());
    text
}

/// How far the simulation and Eq. 11 are from Linux, where that was measured.
fn agreement(outcomes: &[PointOutcome]) -> String {
    let mut text = String::new();
    let measured = || outcomes.iter().filter_map(|outcome| Some((outcome, outcome.linux?[0])));
    let errors: Vec<f64> = measured()
        .filter_map(|(outcome, linux)| Some((outcome.simulated.ratio? / linux - 1.0).abs()))
        .collect();
    if errors.is_empty() {
        return text;
    }
    let near = errors.iter().filter(|error| **error <= 0.2).count() as f64 / errors.len() as f64;
    // Writing to a String does not fail.
    let _ = writeln!(
        text,
        "{} links on Linux: the simulation is off by {:.1} % in the median, within 20 % at {:.0} % of them",
        errors.len(),
        100.0 * quantile(errors.clone(), 0.5).unwrap_or_default(),
        100.0 * near
    );
    for (propagation_ms, cc) in [(20, "reno"), (100, "reno"), (20, "cubic"), (100, "cubic")] {
        let factors: Vec<f64> = measured()
            .filter(|(outcome, _)| outcome.point.propagation_ms == propagation_ms && outcome.point.cc() == cc)
            .filter_map(|(outcome, linux)| Some(linux / outcome.equation?))
            .collect();
        if !factors.is_empty() {
            let median = quantile(factors, 0.5).unwrap_or_default();
            let _ =
                writeln!(text, "{propagation_ms} ms, {cc}: Linux is {median:.2} times Eq. 11 in the median");
        }
    }
    text
}

fn csv(outcomes: &[PointOutcome]) -> String {
    let mut text = String::from(
        "figure,propagation_ms,down_buffer,up_buffer,tcp_buffer,uploads,delayed_acks,cc,paced,paper,eq11,simulation,low,high,linux\n",
    );
    let cell = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    for PointOutcome { point, equation, simulated, linux } in outcomes {
        let spread = simulated.spread;
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            point.figure,
            point.propagation_ms,
            point.buffer.down,
            point.buffer.up,
            point.tcp_buffer.map_or_else(String::new, |bytes| bytes.to_string()),
            point.uploads,
            u8::from(point.delayed_acks),
            point.cc(),
            u8::from(point.is_paced()),
            cell(point.stated()),
            cell(*equation),
            cell(simulated.ratio),
            cell(spread.map(|[low, _]| low)),
            cell(spread.map(|[_, high]| high)),
            cell(linux.map(|[mean, ..]| mean)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use pendulum_model::segment::PerDirection;

    use super::*;

    #[test]
    fn the_distance_from_linux_is_of_those_links_that_were_measured() {
        let outcome = |equation, ratio, linux: Option<f64>| PointOutcome {
            point: points::all().remove(0),
            equation: Some(equation),
            simulated: Simulated { goodput: PerDirection::default(), ratio: Some(ratio), spread: None },
            linux: linux.map(|ratio| [ratio; 3]),
        };
        let outcomes = [
            outcome(5.0, 11.0, Some(10.0)),
            outcome(5.0, 13.0, Some(10.0)),
            outcome(4.0, 9.5, Some(10.0)),
            outcome(5.0, 99.0, None),
        ];
        let said = agreement(&outcomes);
        assert!(
            said.starts_with(
                "3 links on Linux: the simulation is off by 10.0 % in the median, within 20 % at 67 %"
            ),
            "{said}"
        );
        assert!(said.contains("20 ms, reno: Linux is 2.00 times Eq. 11 in the median"), "{said}");
        assert_eq!(agreement(&outcomes[3..]), "");
    }
}
