//! Durations.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use super::ParseError;
use super::decimal::{Quantity, Unit, impl_text_serde};

/// A duration as users write it. A newtype because the standard `Duration` has neither `FromStr` nor `Display`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// The units of `tc(8)`, TIMES, and beyond them minutes, hours and nanoseconds. The first name of a value is printed.
const TIME_UNITS: [Unit; 16] = [
    Unit { name: "h", factor: 3_600_000_000_000, divisor: 1 },
    Unit { name: "m", factor: 60_000_000_000, divisor: 1 },
    Unit { name: "s", factor: 1_000_000_000, divisor: 1 },
    Unit { name: "ms", factor: 1_000_000, divisor: 1 },
    Unit { name: "us", factor: 1_000, divisor: 1 },
    Unit { name: "ns", factor: 1, divisor: 1 },
    Unit { name: "min", factor: 60_000_000_000, divisor: 1 },
    Unit { name: "sec", factor: 1_000_000_000, divisor: 1 },
    Unit { name: "secs", factor: 1_000_000_000, divisor: 1 },
    Unit { name: "msec", factor: 1_000_000, divisor: 1 },
    Unit { name: "msecs", factor: 1_000_000, divisor: 1 },
    Unit { name: "usec", factor: 1_000, divisor: 1 },
    Unit { name: "usecs", factor: 1_000, divisor: 1 },
    Unit { name: "µs", factor: 1_000, divisor: 1 },
    Unit { name: "nsec", factor: 1, divisor: 1 },
    Unit { name: "nsecs", factor: 1, divisor: 1 },
];

/// No bare numbers: `tc` takes them for microseconds, most other programs for seconds, and a wrong guess is silent.
const TIME: Quantity =
    Quantity { what: "duration", units: &TIME_UNITS, bare: None, example: "40ms, 1.5s or 10m (minutes)" };

impl Span {
    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl FromStr for Span {
    type Err = ParseError;

    /// Reads `40ms`, `1.5s`, `60s`, `10m`; zero needs no unit.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.trim() == "0" {
            return Ok(Self::default());
        }
        Ok(Self(Duration::from_nanos(TIME.parse(text)?)))
    }
}

impl fmt::Display for Span {
    /// The largest unit that leaves a whole number: `40ms`, `1500ms`, `10m`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.as_nanos();
        if nanoseconds == 0 {
            return formatter.pad("0s");
        }
        for unit in &TIME_UNITS[..6] {
            if nanoseconds.is_multiple_of(u128::from(unit.factor)) {
                return formatter.pad(&format!("{}{}", nanoseconds / u128::from(unit.factor), unit.name));
            }
        }
        Ok(())
    }
}

impl_text_serde!(Span, "a duration such as \"40ms\"");

/// Reads a duration as [`Span`] does; for command-line parsers that want the plain type.
pub fn parse_duration(text: &str) -> Result<Duration, ParseError> {
    text.parse::<Span>().map(|span| span.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_durations() {
        for (text, milliseconds) in [
            ("40ms", 40),
            ("1.5s", 1_500),
            ("60s", 60_000),
            ("10m", 600_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
            ("1000us", 1),
            ("1000 µs", 1),
            ("3secs", 3_000),
            ("0", 0),
        ] {
            assert_eq!(parse_duration(text).expect(text), Duration::from_millis(milliseconds), "{text}");
        }
    }

    #[test]
    fn a_bare_number_is_refused_with_a_remedy() {
        let error = parse_duration("40").expect_err("no unit").to_string();
        assert_eq!(
            error,
            "\"40\" is not a duration: it has no unit; write for example 40ms, 1.5s or 10m (minutes)"
        );
    }

    #[test]
    fn prints_the_largest_whole_unit() {
        for text in ["40ms", "1500ms", "10m", "1h", "61s", "7us", "1ns", "0s"] {
            assert_eq!(text.parse::<Span>().expect(text).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(nanoseconds in 0u64..1_000_000_000_000_000_000) {
            let span = Span(Duration::from_nanos(nanoseconds));
            prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Span>();
        }
    }
}
