//! `[shape]`: how far the agent may act on the link, and how.

use std::fmt;
use std::time::Duration;

use pendulum_model::rate::{Rate, Span};
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use toml::Spanned;

use super::cake::CakeOptions;
use super::check::Bounds;
use super::error::{ConfigError, Source};
use super::framing::{Framing, Preset};
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
/// Below it a full frame takes a fifth of a second, and no queue management keeps a voice call alive.
pub(crate) const LEAST_RATE: u64 = 64_000;
/// What tc takes.
const OVERHEAD: Bounds<i16> = Bounds { least: -64, most: 256, default: 0 };
const MPU: Bounds<u16> = Bounds { least: 0, most: 256, default: 0 };
/// ACKs of one connection; a thousand of them fill half a second of a 1 Mb/s uplink.
const DELTA_MOST: u32 = 1_000;

/// Shaping, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How far it goes.
    pub mode: ShapeMode,
    /// How the rates are known.
    pub rate: ShapeRate,
    /// Bounds of a rate that is found, by direction.
    pub bounds: [RateBounds; 2],
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
    /// Length of each half of the comparison with and without shaping; none: no comparison, or the usual length with `auto`.
    pub ab_test: Option<Duration>,
    /// What a packet takes on the line.
    pub framing: Framing,
    /// How the queue is shared out.
    pub cake: CakeOptions,
    /// Whether a shaper that is there already is put out of use for as long as ours works.
    pub take_over: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            mode: ShapeMode::Off,
            rate: ShapeRate::Told,
            bounds: [RateBounds::default(); 2],
            rate_percent: PERCENT.default,
            downlink: false,
            downlink_rate_percent: DOWNLINK_PERCENT.default,
            ack_filter: AckFilter::Delayed,
            delta: Delta::Auto,
            ab_test: None,
            framing: Framing::default(),
            cake: CakeOptions::default(),
            take_over: false,
        }
    }
}

impl Shape {
    /// Length of a turn with or without shaping, if both are to be compared.
    pub fn turns(&self) -> Option<Duration> {
        self.ab_test.or((self.mode == ShapeMode::Auto).then_some(AB_TEST.default))
    }

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
    /// The link's queue is made here and managed as long as a comparison shows that this helps.
    Auto,
    /// The link's queue is made here and managed.
    Enforce,
}

impl ShapeMode {
    /// The name used in the file and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::DryRun => "dry-run",
            Self::Auto => "auto",
            Self::Enforce => "enforce",
        }
    }

    /// Whether the link is acted on.
    pub const fn acts(self) -> bool {
        matches!(self, Self::Auto | Self::Enforce)
    }
}

/// How the rates of the shaper are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeRate {
    /// From the configuration, a qdisc, or what was measured without shaping.
    #[default]
    Told,
    /// From the queue that stands behind the shaper, ten times a second.
    Auto,
}

impl ShapeRate {
    /// The name used in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Auto => "auto",
        }
    }
}

/// Bounds of a rate that is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateBounds {
    /// Never less; none: what the shaper needs at least.
    pub least: Option<Rate>,
    /// Never more.
    pub most: Option<Rate>,
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

/// Keys that there were, and what to do instead.
pub(super) fn removed(key: &str) -> Option<&'static str> {
    Some(match key {
        "shape.buffer" => "cake manages its queue by time, not by size: leave it out",
        "shape.merge-sack" => "ACKs with SACK are merged always: leave it out",
        "shape.arrangement" => "there was one only: leave it out",
        _ => return None,
    })
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
            if !raw.mode.acts() {
                return Err(source.invalid(
                    span.span(),
                    "there is nothing to compare unless shaping is enforced",
                    "write mode = \"enforce\", or leave ab-test out",
                ));
            }
            Some(source.within(*span.get_ref(), &bounds, span.span())?.0)
        }
    };
    let framing = raw.preset.map(Preset::framing);
    let overhead = raw.overhead.map(|it| source.within(*it.get_ref(), &OVERHEAD, it.span())).transpose()?;
    let mpu = raw.mpu.map(|it| source.within(*it.get_ref(), &MPU, it.span())).transpose()?;
    let layer = raw.link_layer;
    // Cells and least sizes are of the whole packet: without a word on its overhead it has none beside IP.
    let is_framed = framing.is_some() || overhead.is_some() || mpu.is_some() || layer.is_some();
    let base = framing.unwrap_or_default();
    let bounds = [
        rate_bounds(source, raw.rate, [raw.minimum_uplink_rate, raw.maximum_uplink_rate])?,
        rate_bounds(source, raw.rate, [raw.minimum_downlink_rate, raw.maximum_downlink_rate])?,
    ];
    if raw.rate == ShapeRate::Auto
        && let Some(percent) = raw.rate_percent.as_ref().or(raw.downlink_rate_percent.as_ref())
    {
        let reason =
            "a rate that is found follows the queue behind the shaper, there is no share of it to send at";
        return Err(source.invalid(percent.span(), reason, "leave it out, or leave rate = \"auto\" out"));
    }
    Ok(Shape {
        mode: raw.mode,
        rate: raw.rate,
        bounds,
        rate_percent: source.number(raw.rate_percent, &PERCENT)?,
        downlink: raw.downlink.unwrap_or(false),
        downlink_rate_percent: source.number(raw.downlink_rate_percent, &DOWNLINK_PERCENT)?,
        ack_filter: raw.ack_filter,
        delta: raw.delta,
        ab_test,
        framing: Framing {
            overhead: overhead.or(base.overhead).or(is_framed.then_some(OVERHEAD.default)),
            mpu: mpu.unwrap_or(base.mpu),
            layer: layer.unwrap_or(base.layer),
        },
        cake: raw.cake.map_or(Ok(CakeOptions::default()), |words| cake(source, &words))?,
        take_over: raw.take_over,
    })
}

/// In order, not below what the shaper takes, and only where a rate is found.
fn rate_bounds(
    source: &Source<'_>,
    rate: ShapeRate,
    [least, most]: [Option<Spanned<Rate>>; 2],
) -> Result<RateBounds, ConfigError> {
    for bound in [&least, &most].into_iter().flatten() {
        if rate == ShapeRate::Told {
            let reason = "there are bounds only of a rate that is found";
            return Err(source.invalid(
                bound.span(),
                reason,
                "write rate = \"auto\" below [shape], or leave it out",
            ));
        }
        if bound.get_ref().bits_per_second() < LEAST_RATE {
            let reason =
                format!("{} is too slow: a full packet would take a fifth of a second", bound.get_ref());
            return Err(source.invalid(bound.span(), reason, "write 64kbit or more"));
        }
    }
    if let (Some(least), Some(most)) = (&least, &most)
        && least.get_ref() > most.get_ref()
    {
        let reason = format!("{} is more than the maximum, {}", least.get_ref(), most.get_ref());
        return Err(source.invalid(
            least.span(),
            reason,
            "write a minimum below the maximum, or leave one of them out",
        ));
    }
    let rate = |bound: Option<Spanned<Rate>>| bound.map(Spanned::into_inner);
    Ok(RateBounds { least: rate(least), most: rate(most) })
}

fn cake(source: &Source<'_>, words: &Spanned<String>) -> Result<CakeOptions, ConfigError> {
    CakeOptions::parse(words.get_ref()).map_err(|misfit| {
        // Where the text stands in the file as it is meant, without escapes.
        let written = &source.text[words.span()];
        let start = words.span().start + written.find(words.get_ref().as_str()).unwrap_or(0);
        let at = start + misfit.at.start;
        let column = source.column(at);
        source.invalid(
            at..start + misfit.at.end,
            format!("{} (column {column})", misfit.reason),
            misfit.remedy,
        )
    })
}
