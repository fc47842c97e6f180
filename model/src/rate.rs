//! Rates, sizes and durations as users write them, in the notation of `tc(8)`.
//!
//! One grammar for the command line, the config file and the output: a decimal number, then a unit, no space needed.
//! Arithmetic is exact (integers), so a value printed by one place is read back as the same value by another.

mod decimal;
mod size;
mod time;

use std::fmt;
use std::str::FromStr;

pub use decimal::ParseError;
pub use size::{BufferSize, Size};
pub use time::{Span, parse_duration};

use decimal::{Quantity, Unit, impl_text_serde};

/// A transmission rate, kept in bits per second because that is what users and `tc` write.
///
/// Never zero: a link without capacity is not a link. The model computes in bytes per second, see
/// [`Rate::bytes_per_second`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rate {
    bits_per_second: u64,
}

/// The suffixes of `tc(8)`, RATES: SI powers of ten, IEC powers of two with an `i`; `bit` counts bits, `bps` bytes.
/// Largest SI bit unit first: [`Rate`]'s `Display` picks the first that divides the value.
const RATE_UNITS: [Unit; 18] = [
    Unit { name: "tbit", factor: 1_000_000_000_000, divisor: 1 },
    Unit { name: "gbit", factor: 1_000_000_000, divisor: 1 },
    Unit { name: "mbit", factor: 1_000_000, divisor: 1 },
    Unit { name: "kbit", factor: 1_000, divisor: 1 },
    Unit { name: "bit", factor: 1, divisor: 1 },
    Unit { name: "tibit", factor: 1 << 40, divisor: 1 },
    Unit { name: "gibit", factor: 1 << 30, divisor: 1 },
    Unit { name: "mibit", factor: 1 << 20, divisor: 1 },
    Unit { name: "kibit", factor: 1 << 10, divisor: 1 },
    Unit { name: "tbps", factor: 8_000_000_000_000, divisor: 1 },
    Unit { name: "gbps", factor: 8_000_000_000, divisor: 1 },
    Unit { name: "mbps", factor: 8_000_000, divisor: 1 },
    Unit { name: "kbps", factor: 8_000, divisor: 1 },
    Unit { name: "bps", factor: 8, divisor: 1 },
    Unit { name: "tibps", factor: 1 << 43, divisor: 1 },
    Unit { name: "gibps", factor: 1 << 33, divisor: 1 },
    Unit { name: "mibps", factor: 1 << 23, divisor: 1 },
    Unit { name: "kibps", factor: 1 << 13, divisor: 1 },
];

const RATE: Quantity = Quantity {
    what: "rate",
    units: &RATE_UNITS,
    bare: Some(Unit { name: "", factor: 1, divisor: 1 }),
    example: "196kbit, 2.4mbit or 24500bps (bps counts bytes)",
};

impl Rate {
    /// A rate from bits per second; `None` for zero.
    pub const fn from_bits_per_second(bits_per_second: u64) -> Option<Self> {
        if bits_per_second == 0 { None } else { Some(Self { bits_per_second }) }
    }

    /// A rate from bytes per second, rounded to a whole bit per second; `None` if that is not a positive finite
    /// number of bits.
    pub fn from_bytes_per_second(bytes_per_second: f64) -> Option<Self> {
        let bits = (bytes_per_second * 8.0).round();
        // 2^63 is exact as f64, so the cast below cannot saturate.
        if (1.0..9_223_372_036_854_775_808.0).contains(&bits) {
            Self::from_bits_per_second(bits as u64)
        } else {
            None
        }
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.bits_per_second
    }

    /// Bytes per second, the unit of every capacity `C_x` in the model.
    pub fn bytes_per_second(self) -> f64 {
        self.bits_per_second as f64 / 8.0
    }
}

impl FromStr for Rate {
    type Err = ParseError;

    /// Reads `196kbit`, `2.4mbit`, `24500bps` (bytes per second), `1Mibit`, or bare bits per second.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.trim_end().ends_with('%') {
            return Err(RATE.error(text, "is a share of a device's speed, which is unknown here"));
        }
        let bits = RATE.parse(text)?;
        Self::from_bits_per_second(bits).ok_or_else(|| RATE.error(text, "is less than one bit per second"))
    }
}

/// A measured rate as people read it: three digits, SI prefixes.
pub fn in_words(bits_per_second: f64) -> String {
    let (mut value, mut unit) = (bits_per_second, "bit/s");
    for larger in ["kbit/s", "Mbit/s", "Gbit/s"] {
        // 999.5 would be written as 1000.
        if value.abs() < 999.5 {
            break;
        }
        (value, unit) = (value / 1e3, larger);
    }
    let digits = match value.abs() {
        _ if unit == "bit/s" => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

impl fmt::Display for Rate {
    /// As `tc` prints it: the largest SI unit that leaves a whole number.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unit in &RATE_UNITS {
            if self.bits_per_second.is_multiple_of(unit.factor) {
                return formatter.pad(&format!("{}{}", self.bits_per_second / unit.factor, unit.name));
            }
        }
        formatter.pad(&format!("{}bit", self.bits_per_second))
    }
}

impl_text_serde!(Rate, "a rate such as \"196kbit\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bits(text: &str) -> u64 {
        text.parse::<Rate>().expect(text).bits_per_second()
    }

    #[test]
    fn a_measured_rate_has_three_digits() {
        let words = [0.0, 999.4, 999.6, 195_400.0, 2_151_000.0, 16_600_000.0, 999_600.0, 1e10].map(in_words);
        let wanted = [
            "0 bit/s",
            "999 bit/s",
            "1.00 kbit/s",
            "195 kbit/s",
            "2.15 Mbit/s",
            "16.6 Mbit/s",
            "1.00 Mbit/s",
            "10.0 Gbit/s",
        ];
        assert_eq!(words, wanted);
    }

    #[test]
    fn reads_every_suffix_of_tc() {
        // tc(8), RATES. bps counts bytes: 1 bps = 8 bit/s; IEC units are powers of 1024.
        for (text, expected) in [
            ("196kbit", 196_000),
            ("2400kbit", 2_400_000),
            ("2.4mbit", 2_400_000),
            ("1gbit", 1_000_000_000),
            ("1tbit", 1_000_000_000_000),
            ("5bit", 5),
            ("196000", 196_000),
            ("24500bps", 196_000),
            ("24.5kbps", 196_000),
            ("1mbps", 8_000_000),
            ("1gbps", 8_000_000_000),
            ("1tbps", 8_000_000_000_000),
            ("1kibit", 1_024),
            ("1Mibit", 1_048_576),
            ("1gibit", 1_073_741_824),
            ("1tibit", 1_099_511_627_776),
            ("1kibps", 8_192),
            ("1mibps", 8_388_608),
            ("1gibps", 8_589_934_592),
            ("1tibps", 8_796_093_022_208),
            ("196Kbit", 196_000),
            ("2.4Mbit", 2_400_000),
            (" 1 mbit ", 1_000_000),
            (".5kbit", 500),
            ("0.1gbit", 100_000_000),
        ] {
            assert_eq!(bits(text), expected, "{text}");
        }
    }

    #[test]
    fn refuses_what_it_cannot_mean() {
        for (text, reason) in [
            ("", "is empty"),
            ("kbit", "has no number"),
            ("fast", "has no number"),
            ("-1kbit", "has no number"),
            ("196kB", "unit"),
            ("1.2.3mbit", "unit"),
            ("5%", "share"),
            ("0", "less than one bit"),
            ("0.4bit", "less than one bit"),
            ("99999999999999tbit", "too large"),
            ("99999999999999999999999999999999999999gbit", "too large"),
            ("0.000000000000000000001mbit", "too many digits"),
            ("1e3", "unit"),
            ("nan", "has no number"),
            ("inf", "has no number"),
        ] {
            let error = text.parse::<Rate>().expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.contains("196kbit"), "the remedy is missing: {error}");
        }
    }

    #[test]
    fn prints_as_tc_does() {
        for text in ["196kbit", "2400kbit", "2mbit", "1gbit", "1bit", "1500bit", "1048576bit"] {
            assert_eq!(text.parse::<Rate>().expect(text).to_string(), text);
        }
        // 2,400,000 = 2400 · 1000, and 1,000,000 does not divide it.
        assert_eq!("2.4mbit".parse::<Rate>().expect("rate").to_string(), "2400kbit");
        assert_eq!(format!("{:>9}", "2mbit".parse::<Rate>().expect("rate")), "    2mbit");
    }

    #[test]
    fn converts_to_bytes_and_back() {
        // 196 kbit/s = 24,500 bytes/s: the uplink of paper 000.
        let rate: Rate = "196kbit".parse().expect("rate");
        assert_eq!(rate.bytes_per_second(), 24_500.0);
        assert_eq!(Rate::from_bytes_per_second(24_500.0), Some(rate));
        for useless in [0.0, -1.0, 0.01, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Rate::from_bytes_per_second(useless), None, "{useless}");
        }
    }

    #[test]
    fn travels_through_serde_as_text() {
        let rate: Rate = serde_json::from_str("\"2.4mbit\"").expect("rate");
        assert_eq!(serde_json::to_string(&rate).expect("json"), "\"2400kbit\"");
        let error = serde_json::from_str::<Rate>("2400000").expect_err("a number has no unit").to_string();
        assert!(error.contains("a rate such as \"196kbit\""), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value in 1u64..) {
            let rate = Rate::from_bits_per_second(value).expect("not zero");
            prop_assert_eq!(rate.to_string().parse::<Rate>(), Ok(rate));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Rate>();
        }

        #[test]
        fn no_number_makes_it_panic(text in "[0-9]{0,30}\\.?[0-9]{0,30}[a-zA-Z]{0,6}") {
            let _ = text.parse::<Rate>();
        }
    }
}
