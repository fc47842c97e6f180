//! When a link can send: mahimahi's trace files (K. Winstein, A. Sivaraman, H. Balakrishnan, NSDI 2013; `LinkQueue` of mahimahi).

use std::path::{Path, PathBuf};
use std::time::Duration;

/// What one opportunity carries, bytes of IP packets: one full packet, or as many smaller ones as fit, as in mahimahi.
pub const OPPORTUNITY_BYTES: u64 = 1500;

/// Whole milliseconds at which a link can send [`OPPORTUNITY_BYTES`], from the trace's begin, in order; several of one time are as many
/// opportunities. It lasts until its last one and then begins again: that one's time is added to all, as mahimahi does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    at_ms: Vec<u64>,
}

/// Why something is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be read, or is no zstd file where its name says so.
    #[error("cannot read the trace {}: {source}", path.display())]
    Read {
        /// Where from.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No opportunity at all.
    #[error(
        "the trace has no line: a link that never sends; each line is a time in milliseconds at which one packet can leave"
    )]
    Empty,
    /// A line that is no number.
    #[error("line {line} of the trace, `{text}`, is not a whole number of milliseconds")]
    NoNumber {
        /// Its number, from one.
        line: usize,
        /// What it says.
        text: String,
    },
    /// Time runs backwards.
    #[error("line {line} of the trace goes back from {before} to {after} ms; sort it with `sort -n`")]
    Unsorted {
        /// Its number, from one.
        line: usize,
        /// The time before it.
        before: u64,
        /// Its time.
        after: u64,
    },
    /// Everything at time zero.
    #[error("the trace ends at 0 ms, so it cannot be repeated; its last line must be a later time")]
    NoLength,
    /// Something is wrong within a file.
    #[error("{}: {source}", path.display())]
    InFile {
        /// Which.
        path: PathBuf,
        /// What.
        source: Box<TraceError>,
    },
}

impl Trace {
    /// Of opportunities at these milliseconds.
    ///
    /// # Errors
    /// If there is none, or they are not in order, or the last one is at zero.
    pub fn new(at_ms: Vec<u64>) -> Result<Self, TraceError> {
        if let Some(at) = at_ms.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::Unsorted { line: at + 2, before: at_ms[at], after: at_ms[at + 1] });
        }
        match at_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoLength),
            Some(_) => Ok(Self { at_ms }),
        }
    }

    /// Reads the lines of a file in mahimahi's format. Empty lines at the end are no lines.
    ///
    /// # Errors
    /// As [`Trace::new`], or if a line is no number.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let number = |(index, line): (usize, &str)| {
            let text = line.trim();
            text.parse().map_err(|_| TraceError::NoNumber { line: index + 1, text: text.into() })
        };
        Self::new(text.trim_end().lines().enumerate().map(number).collect::<Result<_, _>>()?)
    }

    /// Reads a file; one whose name ends in `.zst` is unpacked.
    ///
    /// # Errors
    /// If it cannot be read or is no trace; the file is named.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Read { path: path.into(), source };
        let bytes = std::fs::read(path).map_err(failed)?;
        let bytes = match path.extension() {
            Some(extension) if extension == "zst" => zstd::decode_all(bytes.as_slice()).map_err(failed)?,
            _ => bytes,
        };
        Self::parse(&String::from_utf8_lossy(&bytes))
            .map_err(|source| TraceError::InFile { path: path.into(), source: Box::new(source) })
    }

    /// Time after which it begins again, milliseconds: never zero.
    fn period_ms(&self) -> u64 {
        self.at_ms.last().copied().unwrap_or(1)
    }

    /// Time after which it begins again.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Opportunities of one pass.
    pub fn count(&self) -> u64 {
        self.at_ms.len() as u64
    }

    /// When opportunity number `index` is, from zero, in all passes.
    pub fn at(&self, index: u64) -> Duration {
        let (pass, within) = (index / self.count(), (index % self.count()) as usize);
        // `within` is below the count.
        Duration::from_millis(pass * self.period_ms() + self.at_ms.get(within).copied().unwrap_or(0))
    }

    /// How many opportunities there are up to and including a time, in all passes.
    pub fn count_until(&self, time: Duration) -> u64 {
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let (pass, within) = (time_ms / self.period_ms(), time_ms % self.period_ms());
        // The last ones of a pass, and those at zero of the next, share a time.
        pass * self.count() + self.at_ms.partition_point(|at| *at <= within) as u64
    }

    /// Mean capacity of its first `length`, bit/s; past its end it repeats.
    pub fn mean_bps(&self, length: Duration) -> f64 {
        let bits = (self.count_until(length) * OPPORTUNITY_BYTES * 8) as f64;
        if length.is_zero() { 0.0 } else { bits / length.as_secs_f64() }
    }

    /// Capacity of each of the first whole seconds, bit/s, the smallest first: at least one second.
    pub fn seconds_bps(&self, length: Duration) -> Vec<f64> {
        let seconds = length.as_secs().max(1);
        let until = |second| self.count_until(Duration::from_secs(second));
        let mut rates: Vec<f64> = (0..seconds)
            .map(|second| ((until(second + 1) - until(second)) * OPPORTUNITY_BYTES * 8) as f64)
            .collect();
        rates.sort_by(f64::total_cmp);
        rates
    }

    /// Opportunities at even distances from a capacity in bit/s for each millisecond.
    ///
    /// # Errors
    /// If that is not enough for one opportunity.
    pub(super) fn of_rates(rates_bps: impl IntoIterator<Item = f64>) -> Result<Self, TraceError> {
        const BITS: f64 = (OPPORTUNITY_BYTES * 8) as f64;
        let (mut at_ms, mut bits) = (Vec::new(), 0.0);
        for (millisecond, rate) in rates_bps.into_iter().enumerate() {
            bits += rate / 1000.0;
            while bits >= BITS {
                bits -= BITS;
                at_ms.push(millisecond as u64 + 1);
            }
        }
        Self::new(at_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn lines_are_opportunities_and_repeat_from_the_last_one_on() {
        let trace = Trace::parse("0\n5\n5\n10\n").unwrap();
        let at: Vec<u64> = (0..9).map(|index| trace.at(index).as_millis() as u64).collect();
        assert_eq!(at, [0, 5, 5, 10, 10, 15, 15, 20, 20]);
        assert_eq!((trace.count(), trace.period()), (4, millis(10)));
        let counts = [0, 4, 5, 9, 10, 15].map(|time| trace.count_until(millis(time)));
        assert_eq!(counts, [1, 1, 3, 3, 5, 7]);
        // Three of 12,000 bits in each 10 ms after the first.
        assert_eq!(Trace::parse("5\n5\n10").unwrap().mean_bps(Duration::from_secs(10)), 3_600_000.0);
    }

    #[test]
    fn what_is_no_trace_is_named_with_its_line() {
        let refusal = |text| Trace::parse(text).unwrap_err().to_string();
        for nothing in ["", "\n\n"] {
            assert!(refusal(nothing).contains("no line"), "{nothing:?}");
        }
        assert!(refusal("3\n2\n").contains("line 2") && refusal("3\n2\n").contains("sort -n"));
        assert!(refusal("1\n-2\n").contains("`-2`") && refusal("1\n\n2").contains("line 2"));
        assert!(refusal("1.5").contains("whole number"));
        assert!(refusal("0\n0\n").contains("0 ms"));
    }

    #[test]
    fn files_may_be_packed_and_errors_name_them() {
        let directory = tempfile::tempdir().unwrap();
        let (plain, packed) = (directory.path().join("a.up"), directory.path().join("a.up.zst"));
        std::fs::write(&plain, "1\n7\n").unwrap();
        std::fs::write(&packed, zstd::encode_all(&b"1\n7\n"[..], 3).unwrap()).unwrap();
        assert_eq!(Trace::read(&plain).unwrap(), Trace::read(&packed).unwrap());
        std::fs::write(&packed, "1\n7\n").unwrap();
        std::fs::write(&plain, "7\n1\n").unwrap();
        for path in [plain, packed, directory.path().join("nowhere.up")] {
            let error = Trace::read(&path).unwrap_err().to_string();
            assert!(error.contains(path.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn seconds_are_sorted() {
        let trace = Trace::of_rates((0..3000).map(|ms| if ms < 1000 { 2.4e6 } else { 1.2e6 })).unwrap();
        assert_eq!(trace.seconds_bps(Duration::from_secs(3)), [1.2e6, 1.2e6, 2.4e6]);
    }

    proptest! {
        #[test]
        fn what_parses_counts_what_it_has(mut at in proptest::collection::vec(0_u64..5000, 1..200), time in 0_u64..20_000) {
            at.sort_unstable();
            prop_assume!(at.last() != Some(&0));
            let trace = Trace::new(at).unwrap();
            let count = trace.count_until(millis(time));
            // Exactly those whose time has come.
            prop_assert!(count == 0 || trace.at(count - 1) <= millis(time));
            // At a pass's end its last ones and the next one's first ones share a time.
            prop_assert!(trace.at(count) > millis(time));
            prop_assert!((0..count).all(|index| trace.at(index) <= trace.at(index + 1)));
        }

        #[test]
        fn any_text_is_a_trace_or_refused(text in "[0-9 \\-a\n]{0,60}") {
            if let Ok(trace) = Trace::parse(&text) {
                prop_assert!(trace.count() > 0 && !trace.period().is_zero());
            }
        }
    }
}
