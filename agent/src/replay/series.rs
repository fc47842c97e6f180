//! `--series FILE`: both queues over time as CSV, a row each 10 ms, for people's own plots.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use pendulum_model::detector::Detector;
use pendulum_model::observer::level::INTERVAL_NS;
use pendulum_model::sample::{QueueSample, Sample};
use pendulum_model::segment::{Direction, PerDirection};

/// The first line.
const HEADER: &str = "t_s,queue_up_bytes,queue_up_uncertainty_bytes,queue_down_bytes,queue_down_uncertainty_bytes,rate_up_bps,\
                      rate_down_bps,phase";

/// A sample that stands for more intervals than this is one row.
const ROWS_MAX: u64 = 6_000;

/// Why a series could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the series {}: {source}; is the directory there, and is there room?", path.display())]
pub struct SeriesError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the rows. The first failure ends it and is told at the end.
pub struct Series {
    path: PathBuf,
    out: BufWriter<File>,
    failed: Option<io::Error>,
    /// The newest: the one after it is needed to write it.
    pending: Option<Row>,
}

/// One sample.
#[derive(Clone, Copy)]
struct Row {
    at_ns: u64,
    /// Intervals that it stands for.
    count: u64,
    queues: PerDirection<Option<QueueSample>>,
    /// Bits per second.
    rates: PerDirection<Option<f64>>,
    phase: &'static str,
}

impl Series {
    /// A new file with the first line in it.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> Result<Self, SeriesError> {
        let fail = |source| SeriesError { path: path.to_owned(), source };
        let mut out = BufWriter::new(File::create(path).map_err(fail)?);
        writeln!(out, "{HEADER}").map_err(fail)?;
        Ok(Self { path: path.to_owned(), out, failed: None, pending: None })
    }

    /// Takes in a sample: a row for each 10 ms, stamped with its end.
    pub fn push(&mut self, sample: &Sample, detector: &Detector) {
        let rate = |x: Direction| {
            let known = detector.capacity(x).map(|known| known.value);
            known.or(sample.link[x].rate.map(|rate| rate.bytes_per_second)).map(|rate| rate * 8.0)
        };
        let row = Row {
            at_ns: sample.at.as_nanos() as u64,
            count: match (sample.span.as_nanos() as u64).div_ceil(INTERVAL_NS) {
                rows @ 1..=ROWS_MAX => rows,
                _ => 1,
            },
            queues: PerDirection::from_fn(|x| sample.link[x].queue),
            rates: PerDirection::from_fn(rate),
            phase: detector.phase().map_or("", |(phase, _)| phase.name()),
        };
        if let Some(before) = self.pending.replace(row) {
            self.write(&before, Some(&row.queues));
        }
    }

    /// A silence of minutes is one row at its end. What is not known stays empty. The level at a row's moment is the mean of the 10 ms before and those `after` it.
    fn write(&mut self, row: &Row, after: Option<&PerDirection<Option<QueueSample>>>) {
        for left in (0..row.count).rev() {
            let level = |x: Direction| {
                let Some(queue) = row.queues[x] else { return ",".to_owned() };
                let next = after.and_then(|queues| queues[x]).filter(|_| left == 0).unwrap_or(queue);
                let mean = f64::midpoint(queue.mean_bytes, next.mean_bytes);
                // A row is a moment: what moves within the 20 ms adds to how far off the means may be.
                let most = queue.max_bytes.max(next.max_bytes);
                let moves = (most - queue.min_bytes.min(next.min_bytes)) / 2.0;
                let off = queue.uncertainty_bytes.max(next.uncertainty_bytes).hypot(moves);
                format!("{mean:.0},{off:.0}")
            };
            let rate = |x: Direction| row.rates[x].map_or(String::new(), |rate| format!("{rate:.0}"));
            let (up, down) = (Direction::Up, Direction::Down);
            let at_s = row.at_ns.saturating_sub(left * INTERVAL_NS) as f64 / 1e9;
            let written = writeln!(
                self.out,
                "{at_s:.2},{},{},{},{},{}",
                level(up),
                level(down),
                rate(up),
                rate(down),
                row.phase
            );
            if let Err(error) = written {
                self.failed.get_or_insert(error);
                return;
            }
        }
    }

    /// All is written.
    ///
    /// # Errors
    /// If anything could not be.
    pub fn finish(mut self) -> Result<(), SeriesError> {
        if let Some(row) = self.pending.take() {
            self.write(&row, None);
        }
        let written = self.failed.map_or_else(|| self.out.flush(), Err);
        written.map_err(|source| SeriesError { path: self.path, source })
    }
}
