//! `[shape]`: how far the agent may act on the link, and how.

use std::fmt;
use std::time::Duration;

use pendulum_model::rate::{BufferSize, Rate, Span};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::check::Bounds;
use super::error::{ConfigError, Source};
use super::raw;

/// Share of the link rate that the shaper sends at, percent: below it no queue would form here, far below it the
/// link is wasted.
const PERCENT: Bounds<u32> = Bounds { least: 50, most: 100, default: 99 };
/// The downlink's queue forms behind the bottleneck: what the sender's bursts need has to be left free.
const DOWNLINK_PERCENT: Bounds<u32> = Bounds { least: 50, most: 100, default: 95 };
/// Less than ten seconds is one sawtooth of a long connection, which is chance.
const AB_TEST: Bounds<Duration> = Bounds {
    least: Duration::from_secs(5),
    most: Duration::from_secs(3_600),
    default: Duration::from_secs(60),
};
/// A leaf that holds less than a full frame passes nothing.
const BUFFER_LEAST: u64 = 1_600;
const BUFFER_MOST: u64 = 64 << 20;
/// ACKs of one connection; a thousand of them fill half a second of a 1 Mb/s uplink.
const DELTA_MOST: u32 = 1_000;

/// Shaping, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How far it goes.
    pub mode: ShapeMode,
    /// How the queue is brought here.
    pub arrangement: Arrangement,
    /// Share of the uplink rate that is sent at, percent.
    pub rate_percent: u32,
    /// Whether the downlink is shaped too.
    pub downlink: bool,
    /// Share of the downlink rate that is let in, percent.
    pub downlink_rate_percent: u32,
    /// When ACKs are withheld.
    pub ack_filter: AckFilter,
    /// ACKs of a connection that may be queued before filtering starts (`static`).
    pub delta: Delta,
    /// Whether an ACK may be withheld whose SACK blocks its connection's newest ACK covers.
    pub merge_sack: bool,
    /// Size of the data buffers.
    pub buffer: Buffer,
    /// Length of each half of the comparison with and without shaping; none: no comparison.
    pub ab_test: Option<Duration>,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            mode: ShapeMode::Off,
            arrangement: Arrangement::Ifb,
            rate_percent: PERCENT.default,
            downlink: false,
            downlink_rate_percent: DOWNLINK_PERCENT.default,
            ack_filter: AckFilter::Delayed,
            delta: Delta::Auto,
            merge_sack: false,
            buffer: Buffer::Auto,
            ab_test: None,
        }
    }
}

impl Shape {
    /// What the shaper sends at, for a link of this rate.
    pub fn uplink_rate(&self, link: Rate) -> Option<Rate> {
        percent_of(link, self.rate_percent)
    }

    /// What the shaper lets in, for a link of this rate.
    pub fn downlink_rate(&self, link: Rate) -> Option<Rate> {
        percent_of(link, self.downlink_rate_percent)
    }
}

fn percent_of(rate: Rate, percent: u32) -> Option<Rate> {
    let bits = u128::from(rate.bits_per_second()) * u128::from(percent) / 100;
    Rate::from_bits_per_second(u64::try_from(bits).ok()?)
}

/// How far shaping goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeMode {
    /// Nothing is changed.
    #[default]
    Off,
    /// Nothing is changed; what the ACK filter would withhold is counted.
    DryRun,
    /// The link's queue is made here and managed.
    Enforce,
}

impl ShapeMode {
    /// The name used in the file and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DryRun => "dry-run",
            Self::Enforce => "enforce",
        }
    }
}

/// How the queue is brought here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrangement {
    /// Packets are redirected to an ifb device, whose queue they leave towards the link.
    #[default]
    Ifb,
}

/// When ACKs are withheld; paper 002.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckFilter {
    /// Never.
    Off,
    /// Once δ ACKs of the connection are queued (§2).
    Static,
    /// Once the uplink is used up (§3).
    #[default]
    Delayed,
    /// Once the connection's ACKs take more than their fair share (§4).
    PerConnection,
}

impl AckFilter {
    /// The name used in the file and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Static => "static",
            Self::Delayed => "delayed",
            Self::PerConnection => "per-connection",
        }
    }
}

/// The filter's threshold δ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delta {
    /// δ_o of paper 002 Eq. 1, from what is measured.
    #[default]
    Auto,
    /// So many ACKs.
    Fixed(u32),
}

impl<'de> Deserialize<'de> for Delta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AutoOrNumber)
    }
}

struct AutoOrNumber;

impl Visitor<'_> for AutoOrNumber {
    type Value = Delta;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "\"auto\", or a whole number of ACKs from 1 to {DELTA_MOST}")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Delta, E> {
        if text == "auto" { Ok(Delta::Auto) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Delta, E> {
        match u32::try_from(number) {
            Ok(acks) if (1..=DELTA_MOST).contains(&acks) => Ok(Delta::Fixed(acks)),
            _ => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }
}

/// Size of a data buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Buffer {
    /// By the model, for the measured link.
    #[default]
    Auto,
    /// So many bytes.
    Bytes(u64),
}

pub(super) fn check(source: &Source<'_>, raw: raw::Shape) -> Result<Shape, ConfigError> {
    let ab_test = match raw.ab_test {
        None => None,
        Some(span) => {
            let bounds = Bounds {
                least: Span(AB_TEST.least),
                most: Span(AB_TEST.most),
                default: Span(AB_TEST.default),
            };
            if raw.mode != ShapeMode::Enforce {
                return Err(source.invalid(
                    span.span(),
                    "there is nothing to compare unless shaping is enforced",
                    "write mode = \"enforce\", or leave ab-test out",
                ));
            }
            Some(source.within(*span.get_ref(), &bounds, span.span())?.0)
        }
    };
    let buffer = match raw.buffer {
        None => Buffer::Auto,
        Some(buffer) if buffer.get_ref() == "auto" => Buffer::Auto,
        Some(buffer) => match buffer.get_ref().parse() {
            Ok(BufferSize::Bytes(bytes)) if (BUFFER_LEAST..=BUFFER_MOST).contains(&bytes) => {
                Buffer::Bytes(bytes)
            }
            _ => {
                return Err(source.invalid(
                    buffer.span(),
                    format!("`{}` is no size the shaper's buffers can have", buffer.get_ref()),
                    format!("write \"auto\", or {BUFFER_LEAST} to {BUFFER_MOST} bytes, for example \"9000\""),
                ));
            }
        },
    };
    Ok(Shape {
        mode: raw.mode,
        arrangement: raw.arrangement,
        rate_percent: source.number(raw.rate_percent, &PERCENT)?,
        downlink: raw.downlink.unwrap_or(false),
        downlink_rate_percent: source.number(raw.downlink_rate_percent, &DOWNLINK_PERCENT)?,
        ack_filter: raw.ack_filter,
        delta: raw.delta,
        merge_sack: raw.merge_sack,
        buffer,
        ab_test,
    })
}
