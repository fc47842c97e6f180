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
    fn lines(count: u64, now: Option<QueueSample>, after: Option<QueueSample>) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut series = Series::create(file.path()).unwrap();
        let only_up = |x, queue| if x == Direction::Up { queue } else { None };
        let row = Row {
            at_ns: 2_000_000_000,
            count,
            queues: PerDirection::from_fn(|x| only_up(x, now)),
            rates: PerDirection::from_fn(|x| (x == Direction::Down).then_some(2_400_000.4)),
            phase: "uplink_bound",
        };
        series.write(&row, Some(&PerDirection::from_fn(|x| only_up(x, after))));
        series.out.flush().unwrap();
        let text = std::fs::read_to_string(file.path()).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// By hand: the mean of 1,000 and 2,000 bytes; from 500 to 4,000 bytes it moves by 1,750 to each side, and √(1,750² + 400²) = 1,795.
    #[test]
    fn a_level_is_the_mean_of_both_sides_and_may_be_as_far_off_as_it_moves() {
        let [now, after] = [queue(500.0, 1_000.0, 3_000.0, 300.0), queue(1_500.0, 2_000.0, 4_000.0, 400.0)];
        assert_eq!(lines(1, Some(now), Some(after)), ["2.00,1500,1795,,,,2400000,uplink_bound"]);
        // Without a next one it holds: (3,000 − 500) / 2 = 1,250, and √(1,250² + 300²) = 1,285.
        assert_eq!(lines(1, Some(now), None), ["2.00,1000,1285,,,,2400000,uplink_bound"]);
        assert_eq!(lines(1, None, Some(after)), ["2.00,,,,,,2400000,uplink_bound"], "it is not known");
    }

    /// A row for each 10 ms of a silence; the next sample is a neighbour of the last one only.
    #[test]
    fn a_silence_has_a_row_for_each_interval() {
        let [now, after] = [600.0, 800.0].map(|level| queue(level, level, level, 0.0));
        let expected = ["1.98,600,0", "1.99,600,0", "2.00,700,100"];
        let rest = ",,,,2400000,uplink_bound";
        assert_eq!(lines(3, Some(now), Some(after)), expected.map(|start| format!("{start}{rest}")));
    }
}
