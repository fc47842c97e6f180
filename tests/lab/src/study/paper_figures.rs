//! The throughput ratio against the buffers, as the papers plot it: 000 Fig. 10, 11, 12 and 001 Fig. 6, 7, 10. What the paper says, Eq. 11,
//! `model::simulate` and Linux are in one picture. Nothing is measured here: Linux' points are those of `tests/data/paper-grids`.

mod charts;
mod points;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use self::points::{Point, Simulated};
use super::report::align;
use super::{Study, StudyCase, StudyError, StudyOptions, StudyReport, write_charts, write_file};
use crate::experiment::{About, Progress};

/// See the module.
pub(super) struct PaperFigures;

const NAME: &str = "paper-figures";
/// Runs of each point that differ in when the transfers start.
const SEEDS: u64 = 3;

/// A point of a figure, and what became of it.
struct Outcome {
    point: Point,
    /// Eq. 11; `None` for buffers in packets, and where it has no answer.
    equation: Option<f64>,
    simulated: Simulated,
    /// Mean of Linux' runs, and the smallest and largest, if it was measured.
    linux: Option<[f64; 3]>,
}

impl Study for PaperFigures {
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

    fn run(&self, options: &StudyOptions, progress: &dyn Fn(Progress)) -> Result<StudyReport, StudyError> {
        let about = self.about();
        let usual = if options.quick { about.quick } else { about.usual };
        let duration = options.total.unwrap_or(usual).max(about.shortest);
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
        Ok(StudyReport::new(NAME, cases, table(&outcomes, duration)))
    }
}

/// Some points side by side.
fn simulate(points: &[Point], duration: Duration, seeds: u64, linux: &[points::Measured]) -> Vec<Outcome> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let share = points.len().div_ceil(workers).max(1);
    let one = |point: &Point| Outcome {
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

impl Outcome {
    fn case(&self, duration: Duration) -> StudyCase {
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
        StudyCase {
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
            ..StudyCase::default()
        }
    }
}

fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}"))
}

fn table(outcomes: &[Outcome], duration: Duration) -> String {
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
        text.push('\n');
    }
    let _ = writeln!(text, "simulated, {} s each", duration.as_secs());
    text
}

fn csv(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "figure,propagation_ms,down_buffer,up_buffer,tcp_buffer,uploads,delayed_acks,cc,paced,paper,eq11,simulation,low,high,linux\n",
    );
    let cell = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.3}"));
    for Outcome { point, equation, simulated, linux } in outcomes {
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
