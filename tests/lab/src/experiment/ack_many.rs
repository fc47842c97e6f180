//! Paper 002, Figures 11 and 12: many sources of short files whose ACKs share one slow channel, by the reference model. No filtering, classical,
//! delayed, and per-connection filtering with FIFO and round robin, before a large and a small buffer.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use pendulum_reference::scenario::{
    MOST_SOURCES, ManyFiles, ManyOutcome, SMALL_BUFFER, Strategy, many_files,
};
use serde_json::{Value, json};

use super::report::align_figures as align;
use super::{
    About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions, write_charts,
    write_file,
};
use crate::chart::{Chart, Colour, Form, Panel, Series};

/// See the module.
pub(super) struct AckMany;

const NAME: &str = "ack-many";
/// Numbers of sources in the short form.
const FEW: [usize; 5] = [1, 2, 5, 10, 20];
/// Repetitions with other files and delays.
const SEEDS: u64 = 3;

/// A figure of the paper: the size of the reverse buffer.
#[derive(Clone, Copy)]
struct ReverseBuffer {
    name: &'static str,
    figure: &'static str,
    capacity: Option<usize>,
}

const BUFFERS: [ReverseBuffer; 2] = [
    ReverseBuffer { name: "large", figure: "002 Fig. 11", capacity: None },
    ReverseBuffer { name: "small", figure: "002 Fig. 12", capacity: Some(SMALL_BUFFER) },
];

/// All repetitions of one point of a figure.
struct AckPoint {
    buffer: ReverseBuffer,
    sources: usize,
    strategy: Strategy,
    outcomes: Vec<ManyOutcome>,
}

impl Experiment for AckMany {
    fn about(&self) -> About {
        About {
            name: NAME,
            source: "002 Fig. 11, 12",
            what: "throughput of files against the number of sources, for each ACK filter, large and small buffer; simulated seconds",
            usual: Duration::from_secs(1000),
            quick: Duration::from_secs(40),
            shortest: Duration::from_secs(20),
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let duration = self.about().total(options);
        let numbers: Vec<usize> = if options.quick { FEW.to_vec() } else { (1..=MOST_SOURCES).collect() };
        let seeds = if options.quick { 1 } else { SEEDS };
        let all = (BUFFERS.len() * numbers.len()) as u32;
        let mut points = Vec::new();
        for buffer in BUFFERS {
            for &sources in &numbers {
                let done = (points.len() / Strategy::ALL.len()) as u32;
                let what = format!("{} buffer, {sources} sources", buffer.name);
                progress(Progress { total: duration * all, elapsed: duration * done, what });
                options.interrupt.sleep_until(Instant::now())?;
                points.extend(simulate(buffer, sources, duration, seeds));
            }
        }
        if let Some(out) = &options.out {
            write_file(&out.join("points.csv"), &csv(&points))?;
            write_charts(&charts(&points), out)?;
        }
        let cases = points.iter().map(|point| point.case(duration)).collect();
        Report::new(NAME, cases, table(&points, duration)).finish(options)
    }
}

/// All strategies at one number of sources, side by side.
fn simulate(buffer: ReverseBuffer, sources: usize, duration: Duration, seeds: u64) -> Vec<AckPoint> {
    let run = |strategy, seed| {
        many_files(&ManyFiles { sources, strategy, reverse_capacity: buffer.capacity, duration, seed })
    };
    std::thread::scope(|scope| {
        let threads = Strategy::ALL.map(|strategy| {
            scope.spawn(move || (0..seeds).map(|seed| run(strategy, seed)).collect::<Vec<_>>())
        });
        let joined = Strategy::ALL.into_iter().zip(threads).map(|(strategy, thread)| {
            let outcomes = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            AckPoint { buffer, sources, strategy, outcomes }
        });
        joined.collect()
    })
}

impl AckPoint {
    fn mean(&self, figure: impl Fn(&ManyOutcome) -> f64) -> f64 {
        self.outcomes.iter().map(figure).sum::<f64>() / self.outcomes.len().max(1) as f64
    }

    fn mean_file_bps(&self) -> f64 {
        self.mean(|outcome| outcome.mean_file_bps)
    }

    fn case(&self, duration: Duration) -> OwnCase {
        let total: fn(&ManyOutcome) -> f64 = |outcome| outcome.total_bps;
        let spread = |pick: fn(f64, f64) -> f64| {
            self.outcomes.iter().map(|outcome| outcome.mean_file_bps).reduce(pick)
        };
        let params = json!({
            "sources": self.sources,
            "buffer": self.buffer.name,
            "buffer_acks": self.buffer.capacity,
            "strategy": self.strategy.name(),
            "simulated_s": duration.as_secs_f64(),
            "source": "simulation",
        });
        OwnCase {
            name: format!("{}, N = {}, {}", self.buffer.name, self.sources, self.strategy.name()),
            params: params.as_object().cloned().unwrap_or_default(),
            paper: json!({"says": says(self.buffer, self.strategy)}),
            measured: json!({
                "download_bps": self.mean(total),
                "upload_bps": Value::Null,
                "ratio": Value::Null,
                "file_bps": self.mean_file_bps(),
                "file_bps_spread": [spread(f64::min), spread(f64::max)],
                "files": self.mean(|outcome| outcome.files as f64),
                "acks_erased": self.mean(|outcome| outcome.acks.erased as f64),
                "acks_dropped": self.mean(|outcome| outcome.acks.dropped as f64),
            }),
            ..OwnCase::default()
        }
    }
}

fn says(buffer: ReverseBuffer, strategy: Strategy) -> &'static str {
    match (buffer.capacity, strategy) {
        (_, Strategy::PerConnectionRoundRobin) => "the best",
        (None, Strategy::None) => "the worst: a long queue of ACKs",
        (None, Strategy::Classical) => "too aggressive with few sources, close to the best with many",
        (_, Strategy::Delayed) => "classical beyond a small number of sources",
        (_, Strategy::PerConnectionFifo) => "worse than round robin",
        (Some(_), Strategy::None) => "above classical with more sources than places",
        (Some(_), Strategy::Classical) => "protects new connections while there are fewer than places",
    }
}

fn table(points: &[AckPoint], duration: Duration) -> String {
    let mut text = String::new();
    for buffer in BUFFERS {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{}, {} buffer: kb/s during a file, mean of all files | kb/s of all sources together\n",
            buffer.figure, buffer.name
        );
        let names = Strategy::ALL.map(|strategy| strategy.name().to_owned());
        let mut rows = vec![["N".to_owned()].into_iter().chain(names).collect::<Vec<_>>()];
        let of_buffer: Vec<&AckPoint> =
            points.iter().filter(|point| point.buffer.name == buffer.name).collect();
        rows.extend(of_buffer.chunk_by(|a, b| a.sources == b.sources).map(|group| {
            let cells = group.iter().map(|point| {
                let total = point.mean(|outcome| outcome.total_bps);
                format!("{:.0} | {:.0}", point.mean_file_bps() / 1e3, total / 1e3)
            });
            let sources = group.first().map_or(0, |point| point.sources);
            [sources.to_string()].into_iter().chain(cells).collect()
        }));
        text.push_str(&align(&rows));
        text.push('\n');
    }
    let _ = writeln!(text, "simulated, {} s each", duration.as_secs());
    text
}

fn csv(points: &[AckPoint]) -> String {
    let mut text = String::from("buffer,sources,strategy,seed,file_bps,total_bps,files,erased,dropped\n");
    for point in points {
        for (seed, outcome) in point.outcomes.iter().enumerate() {
            let ManyOutcome { mean_file_bps, total_bps, files, acks } = outcome;
            let _ = writeln!(
                text,
                "{},{},\"{}\",{seed},{mean_file_bps:.0},{total_bps:.0},{files},{},{}",
                point.buffer.name,
                point.sources,
                point.strategy.name(),
                acks.erased,
                acks.dropped
            );
        }
    }
    text
}

fn charts(points: &[AckPoint]) -> Vec<Chart> {
    let chart = |buffer: ReverseBuffer| {
        let series = Strategy::ALL.into_iter().enumerate().map(|(index, strategy)| {
            let of_one = points.iter().filter(|p| p.buffer.name == buffer.name && p.strategy == strategy);
            let line = of_one.map(|point| (point.sources as f64, point.mean_file_bps() / 1e6)).collect();
            let (colour, form) = match strategy {
                Strategy::None => (Colour::Limit, Form::Dashes),
                _ => (Colour::of_family(index), Form::MarkedLine),
            };
            Series::line(strategy.name(), colour, line).drawn(form)
        });
        Chart {
            name: format!("{}-buffer", buffer.name),
            title: format!("{}: many connections and a {} buffer", buffer.figure, buffer.name),
            panels: vec![Panel::new("sources", "throughput during a file, Mb/s", series.collect())],
        }
    };
    BUFFERS.map(chart).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_has_every_strategy_and_its_figures() {
        let points = simulate(BUFFERS[1], 2, Duration::from_secs(20), 2);
        assert_eq!(points.len(), Strategy::ALL.len());
        assert!(points.iter().all(|point| point.outcomes.len() == 2 && point.mean_file_bps() > 0.0));
        let case = points[0].case(Duration::from_secs(20));
        assert_eq!(case.name, "small, N = 2, no filtering");
        assert!(case.measured["acks_dropped"].as_f64().unwrap() > 0.0);
        assert_eq!(charts(&points)[1].panels[0].series.len(), Strategy::ALL.len());
        assert!(table(&points, Duration::from_secs(20)).contains("round robin"));
    }
}
