//! Amounts of data and buffer limits.

use std::fmt;
use std::str::FromStr;

use super::ParseError;
use super::decimal::{Quantity, Unit, impl_text_serde};

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
}

/// The suffixes of `tc(8)`, SIZES. Unlike rates, `k`, `m` and `g` are powers of 1024 here: that is what `tc` does.
const SIZE_UNITS: [Unit; 10] = [
    Unit { name: "gb", factor: 1 << 30, divisor: 1 },
    Unit { name: "mb", factor: 1 << 20, divisor: 1 },
    Unit { name: "kb", factor: 1 << 10, divisor: 1 },
    Unit { name: "b", factor: 1, divisor: 1 },
    Unit { name: "g", factor: 1 << 30, divisor: 1 },
    Unit { name: "m", factor: 1 << 20, divisor: 1 },
    Unit { name: "k", factor: 1 << 10, divisor: 1 },
    Unit { name: "gbit", factor: 1 << 30, divisor: 8 },
    Unit { name: "mbit", factor: 1 << 20, divisor: 8 },
    Unit { name: "kbit", factor: 1 << 10, divisor: 8 },
];

const SIZE: Quantity = Quantity {
    what: "size",
    units: &SIZE_UNITS,
    bare: Some(Unit { name: "", factor: 1, divisor: 1 }),
    example: "30000 (bytes) or 64k (1k = 1024 bytes)",
};

const PACKETS: Quantity = Quantity {
    what: "buffer size",
    units: &[Unit { name: "p", factor: 1, divisor: 1 }],
    bare: None,
    example: "30000 (bytes), 64k (1k = 1024 bytes) or 50p (packets)",
};

impl FromStr for Size {
    type Err = ParseError;

    /// Reads `30000`, `30000b`, `64k`, `64kb`, `1m`, `8kbit` (1024 bytes), as `tc(8)` defines them.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self { bytes: SIZE.parse(text)? })
    }
}

impl fmt::Display for Size {
    /// As `tc` prints it: the largest of `gb`, `mb`, `kb`, `b` that leaves a whole number.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for unit in &SIZE_UNITS[..3] {
            if self.bytes != 0 && self.bytes.is_multiple_of(unit.factor) {
                return formatter.pad(&format!("{}{}", self.bytes / unit.factor, unit.name));
            }
        }
        formatter.pad(&format!("{}b", self.bytes))
    }
}

impl_text_serde!(Size, "a size such as \"30000\" or \"64k\"");

/// The limit of a buffer: an array of bytes or an array of packets (000 §4 and §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferSize {
    /// Counted in bytes, as `bfifo` does.
    Bytes(u64),
    /// Counted in packets whatever their size, as `pfifo` does.
    Packets(u64),
}

impl FromStr for BufferSize {
    type Err = ParseError;

    /// Reads a [`Size`], or packets with the suffix `p`: `50p`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.trim_end().ends_with(['p', 'P']) {
            return Ok(Self::Packets(PACKETS.parse(text)?));
        }
        Ok(Self::Bytes(text.parse::<Size>()?.bytes))
    }
}

impl fmt::Display for BufferSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => Size { bytes: *bytes }.fmt(formatter),
            Self::Packets(packets) => formatter.pad(&format!("{packets}p")),
        }
    }
}

impl_text_serde!(BufferSize, "a buffer size such as \"30000\" (bytes) or \"50p\" (packets)");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_the_sizes_of_tc() {
        // tc(8), SIZES: k is 1024; bits divide by 8.
        for (text, expected) in [
            ("0", 0),
            ("30000", 30_000),
            ("30000b", 30_000),
            ("30kb", 30_720),
            ("30k", 30_720),
            ("1.5k", 1_536),
            ("1mb", 1_048_576),
            ("1M", 1_048_576),
            ("1g", 1_073_741_824),
            ("8kbit", 1_024),
            ("8mbit", 1_048_576),
        ] {
            assert_eq!(text.parse::<Size>().expect(text).bytes, expected, "{text}");
        }
        for text in ["", "k", "10p", "10 packets", "-1", "1kib"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn packets_only_where_asked() {
        assert_eq!("50p".parse(), Ok(BufferSize::Packets(50)));
        assert_eq!("30000".parse(), Ok(BufferSize::Bytes(30_000)));
        assert_eq!("64k".parse(), Ok(BufferSize::Bytes(65_536)));
        let error = "50pp".parse::<BufferSize>().expect_err("two suffixes").to_string();
        assert!(error.contains("50p (packets)"), "{error}");
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value in 0u64..1 << 50) {
            let size = Size { bytes: value };
            prop_assert_eq!(size.to_string().parse::<Size>(), Ok(size));
            let packets = BufferSize::Packets(value);
            prop_assert_eq!(packets.to_string().parse::<BufferSize>(), Ok(packets));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<BufferSize>();
        }
    }
}
