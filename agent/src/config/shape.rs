//! `[shape]`: how far the agent may act on the link, and how.

use std::fmt;
use std::time::Duration;

use pendulum_model::autorate::Priority;
use pendulum_model::named;
use pendulum_model::rate::Rate;
use pendulum_model::segment::PerDirection;
use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::bounds::Bounds;
use super::cake::CakeOptions;
use super::framing::Framing;

/// Share of the link rate that the shaper sends at, percent: below it no queue would form here, far below it the
/// link is wasted.
pub(super) const PERCENT: Bounds<u32> = Bounds { least: 50, most: 100, default: 99 };
/// The downlink's queue forms behind the bottleneck: what the sender's bursts need has to be left free.
pub(super) const DOWNLINK_PERCENT: Bounds<u32> = Bounds { least: 50, most: 100, default: 95 };
/// Less than ten seconds is one sawtooth of a long connection, which is chance.
pub(super) const AB_TEST: Bounds<Duration> = Bounds {
    least: Duration::from_secs(5),
    most: Duration::from_secs(3_600),
    default: Duration::from_secs(60),
};
/// Below it a full frame takes a fifth of a second, and no queue management keeps a voice call alive.
pub(crate) const LEAST_RATE: u64 = 64_000;
/// What tc takes.
pub(super) const OVERHEAD: Bounds<i16> = Bounds { least: -64, most: 256, default: 0 };
pub(super) const MPU: Bounds<u16> = Bounds { least: 0, most: 256, default: 0 };
/// ACKs of one connection; a thousand of them fill half a second of a 1 Mb/s uplink.
const DELTA_MOST: u32 = 1_000;

/// Shaping, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeConfig {
    /// How far it goes.
    pub mode: ShapeMode,
    /// How the rates are known.
    pub rate: ShapeRate,
    /// How an automatic rate balances use and delay.
    pub priority: Priority,
    /// Whom it may ask how long packets wait.
    pub probe: Probe,
    /// Bounds of an automatic rate, by direction.
    pub bounds: PerDirection<RateBounds>,
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
}

impl Default for ShapeConfig {
    fn default() -> Self {
        Self {
            mode: ShapeMode::Off,
            rate: ShapeRate::Configured,
            priority: Priority::default(),
            probe: Probe::default(),
            bounds: PerDirection::default(),
            rate_percent: PERCENT.default,
            downlink: false,
            downlink_rate_percent: DOWNLINK_PERCENT.default,
            ack_filter: AckFilter::Auto,
            delta: Delta::Auto,
            ab_test: None,
            framing: Framing::default(),
            cake: CakeOptions::default(),
        }
    }
}

impl ShapeConfig {
    /// Length of a turn with or without shaping, if both are to be compared.
    pub fn turns(&self) -> Option<Duration> {
        self.ab_test.or((self.mode == ShapeMode::Auto).then_some(AB_TEST.default))
    }

    /// Whether the agent's own ACK filter has something to do. In a queue that connections share, where cake drops ACKs, it would lose up to 32
    /// others with each of these.
    pub fn filters(&self) -> bool {
        self.ack_filter != AckFilter::Off && self.cake.isolation.separates_connections()
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

named! {
    /// How far shaping goes.
    #[derive(Default)]
    pub enum ShapeMode {
        /// Nothing is changed.
        #[default]
        Off = "off",
        /// Nothing is changed; what the ACK filter would withhold is counted.
        DryRun = "dry-run",
        /// The link's queue is made here and managed as long as a comparison shows that this helps.
        Auto = "auto",
        /// The link's queue is made here and managed.
        Enforce = "enforce",
    }
}

impl ShapeMode {
    /// Whether the link is acted on.
    pub const fn acts(self) -> bool {
        matches!(self, Self::Auto | Self::Enforce)
    }
}

/// How the rates of the shaper are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShapeRate {
    /// From the configuration, a qdisc, or what was measured without shaping. `told` is its name of earlier files.
    #[default]
    #[serde(alias = "told")]
    Configured,
    /// From the queue that stands behind the shaper, ten times a second.
    Auto,
}

named! {
    /// Whom an automatic rate may ask, if what passes does not tell how long packets wait.
    #[derive(Default)]
    pub enum Probe {
        /// Nobody.
        #[default]
        Off = "off",
        /// The provider's first hop that replies.
        FirstHop = "first-hop",
    }
}

/// Bounds of an automatic rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateBounds {
    /// Never less; none: what the shaper needs at least.
    pub least: Option<Rate>,
    /// Never more.
    pub most: Option<Rate>,
}

named! {
    /// When ACKs are withheld; paper 002.
    #[derive(Default)]
    pub enum AckFilter {
        /// As `delayed` where each connection has a queue of its own; else cake's own filter drops them.
        #[default]
        Auto = "auto",
        /// Never.
        Off = "off",
        /// Once δ ACKs of the connection are queued (§2).
        Static = "static",
        /// Once the uplink is used up (§3).
        Delayed = "delayed",
        /// Once the connection's ACKs take more than their fair share (§4).
        PerConnection = "per-connection",
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
        "shape.take-over" => {
            "another shaper is not suspended: stop it (the log has the command), and leave it out"
        }
        "shape.arrangement" => "there was one only: leave it out",
        "detector.short-flow" => "it is half of `activity`: leave it out",
        "detector.long-burst-share" => "it is one half: leave it out",
        _ => return None,
    })
}
