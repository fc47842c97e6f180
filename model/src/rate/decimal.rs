//! Exact reading of `<decimal number><unit>`, shared by rates, sizes and durations.

use thiserror::Error;

/// Why a text is not a rate, size or duration: the text, the reason, and what to write instead.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("\"{text}\" is not a {what}: it {reason}; write for example {example}")]
pub struct ParseError {
    what: &'static str,
    text: String,
    reason: String,
    example: &'static str,
}

/// A unit and what it is worth in the quantity's base unit: `factor / divisor`.
pub(super) struct Unit {
    pub(super) name: &'static str,
    pub(super) factor: u64,
    pub(super) divisor: u64,
}

/// One kind of value: its name, its units, and the unit of a bare number, if that has a meaning.
pub(super) struct Quantity {
    pub(super) what: &'static str,
    pub(super) units: &'static [Unit],
    pub(super) bare: Option<Unit>,
    pub(super) example: &'static str,
}

/// Digits accepted in one number: enough for every `u64`, and 10^20 · the largest factor still fits 128 bits.
const MAX_DIGITS: usize = 20;

impl Quantity {
    /// A refusal of `text`; `reason` continues the sentence "it …".
    pub(super) fn error(&self, text: &str, reason: impl Into<String>) -> ParseError {
        // A pasted file must not become an error message.
        let text = text.chars().take(60).collect();
        ParseError { what: self.what, text, reason: reason.into(), example: self.example }
    }

    /// The value in base units, rounded to the nearest whole one.
    pub(super) fn parse(&self, text: &str) -> Result<u64, ParseError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(self.error(text, "is empty"));
        }
        let number_length = trimmed
            .find(|character: char| !character.is_ascii_digit() && character != '.')
            .unwrap_or(trimmed.len());
        let (number, suffix) = trimmed.split_at(number_length);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() {
            return Err(self.error(text, "has no number in front"));
        }
        let unit = self.unit(text, fraction, suffix.trim_start())?;
        let fraction = fraction.trim_end_matches('0');
        let digits = format!("{}{fraction}", whole.trim_start_matches('0'));
        if digits.len() > MAX_DIGITS || fraction.len() > MAX_DIGITS {
            return Err(self.error(text, "is too large or has too many digits"));
        }
        let mantissa: u128 =
            if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u128::from(u64::MAX)) };
        let divisor = 10u128.pow(fraction.len() as u32) * u128::from(unit.divisor);
        let value = (mantissa * u128::from(unit.factor) + divisor / 2) / divisor;
        u64::try_from(value).map_err(|_| self.error(text, "is too large or has too many digits"))
    }

    fn unit(&self, text: &str, fraction: &str, suffix: &str) -> Result<&Unit, ParseError> {
        if fraction.contains('.') {
            return Err(self.error(text, "has a second decimal point before its unit"));
        }
        if suffix.is_empty() {
            return self.bare.as_ref().ok_or_else(|| self.error(text, "has no unit"));
        }
        self.units.iter().find(|unit| unit.name.eq_ignore_ascii_case(suffix)).ok_or_else(|| {
            let known: Vec<&str> = self.units.iter().map(|unit| unit.name).collect();
            self.error(text, format!("has an unknown unit (known: {})", known.join(", ")))
        })
    }
}

/// `Serialize` as `Display` writes it and `Deserialize` as `FromStr` reads it.
macro_rules! impl_text_serde {
    ($type:ty, $expected:literal) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str($expected)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}
pub(super) use impl_text_serde;
