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

/// Writes the rows. The first failure ends it and is reported at the end.
pub struct Series {
    path: PathBuf,
    out: BufWriter<File>,
    failed: Option<io::Error>,
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
        Ok(Self { path: path.to_owned(), out, failed: None })
    }

    /// Takes in a sample: a row for each 10 ms, stamped with its end.
    pub fn push(&mut self, sample: &Sample, detector: &Detector) {
        let rate = |x: Direction| {
            let known = detector.capacity(x).map(|known| known.value);
            known.or(sample.link[x].rate.map(|rate| rate.bytes_per_second)).map(|rate| rate * 8.0)
        };
        self.write(&Row {
            at_ns: sample.at.as_nanos() as u64,
            count: match (sample.span.as_nanos() as u64).div_ceil(INTERVAL_NS) {
                rows @ 1..=ROWS_MAX => rows,
                _ => 1,
            },
            queues: PerDirection::from_fn(|x| sample.link[x].queue),
            rates: PerDirection::from_fn(rate),
            phase: detector.phase().map_or("", |(phase, _)| phase.name()),
        });
    }

    /// A silence of minutes is one row at its end. What is not known stays empty. A row's level is the mean over the 10 ms that end at its time.
    fn write(&mut self, row: &Row) {
        for left in (0..row.count).rev() {
            let level = |x: Direction| {
                row.queues[x].map_or(",".to_owned(), |queue| {
                    format!("{:.0},{:.0}", queue.mean_bytes, queue.uncertainty_bytes)
                })
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
        let written = self.failed.map_or_else(|| self.out.flush(), Err);
        written.map_err(|source| SeriesError { path: self.path, source })
    }
}

#[cfg(test)]
mod tests {
    use pendulum_model::sample::QueueSource;

    use super::*;

    fn queue(min: f64, mean: f64, max: f64, uncertainty: f64) -> QueueSample {
        QueueSample {
            min_bytes: min,
            mean_bytes: mean,
            max_bytes: max,
            uncertainty_bytes: uncertainty,
            ..QueueSample::level(QueueSource::Capture, 0.0)
        }
    }

    /// The lines that a row gives, the uplink's buffer by itself.
    fn lines(count: u64, queue: Option<QueueSample>) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut series = Series::create(file.path()).unwrap();
        let row = Row {
            at_ns: 2_000_000_000,
            count,
            queues: PerDirection::from_fn(|x| queue.filter(|_| x == Direction::Up)),
            rates: PerDirection::from_fn(|x| (x == Direction::Down).then_some(2_400_000.4)),
            phase: "uplink_bound",
        };
        series.write(&row);
        series.out.flush().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn a_level_is_the_mean_of_its_own_interval() {
        let level = queue(500.0, 1_000.0, 3_000.0, 300.0);
        assert_eq!(lines(1, Some(level)), ["2.00,1000,300,,,,2400000,uplink_bound"]);
        assert_eq!(lines(1, None), ["2.00,,,,,,2400000,uplink_bound"], "it is not known");
    }

    /// A row for each 10 ms of a silence.
    #[test]
    fn a_silence_has_a_row_for_each_interval() {
        let expected = ["1.98,600,0", "1.99,600,0", "2.00,600,0"];
        let rest = ",,,,2400000,uplink_bound";
        let level = queue(600.0, 600.0, 600.0, 0.0);
        assert_eq!(lines(3, Some(level)), expected.map(|start| format!("{start}{rest}")));
    }
}
