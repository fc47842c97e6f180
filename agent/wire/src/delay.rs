//! Where the delay comes from.

use std::collections::BTreeMap;

use pendulum_model::delay;
use serde::{Deserialize, Serialize};

use crate::Name;

/// Where the delay of the last second's packets came from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delay {
    /// Where packets waited longest in most of the last five seconds: a segment's name, `nowhere`, or `unknown`.
    pub place: Name,
    /// What packets are known to wait in all segments together; `null` if nothing is known.
    pub queue_s: Option<f64>,
    /// `home` (LAN, Wi-Fi, hosts), `gateway` (its own queues), `uplink` and `downlink` (the line's buffers), `beyond` (route and far hosts).
    pub segments: BTreeMap<Name, DelaySegment>,
    /// `null` unless packets wait at home for long, longer than `bufferbloat-delay`.
    pub home_bloat: Option<SegmentBloat>,
    /// The same beyond the line, while other far hosts reply at once.
    pub beyond_bloat: Option<SegmentBloat>,
    /// `null` unless a bulk transfer gets less than half of the rate for long, packets wait nowhere, and its sender pauses.
    pub sender_limited: Option<TransferLimit>,
    /// The same where the receiver's window allows no more.
    pub receiver_limited: Option<TransferLimit>,
}

/// A transfer is slow for long, and the line is not why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransferLimit {
    /// Since when, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Mean goodput over the last 20 s, bits per second.
    pub goodput_bps: f64,
}

/// Packets wait in a segment for long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SegmentBloat {
    /// Since when, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Mean wait over the last 20 s.
    pub delay_s: f64,
}

/// One segment of the delay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelaySegment {
    /// Delay without queues; that of the line is part of `beyond`.
    pub base_s: Option<f64>,
    /// What packets wait on top of it.
    pub queue_s: Option<f64>,
    /// The true wait lies within this much of `queue_s`.
    pub uncertainty_s: Option<f64>,
    /// In `home` and `beyond`: the host that waits that long, of all of the second: its name in the leases of dnsmasq, else its address. Absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why the figures are `null`: `no_replies`, `no_base`, `one_end`, `undivided`, `too_few`, `not_read`; absent if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Name>,
}

impl Delay {
    /// Of a budget, and the place of the last seconds.
    pub fn of(budget: &delay::Budget, place: delay::Place) -> Self {
        let segment = |segment: delay::Segment| (segment.name().into(), budget.part(segment).into());
        Self {
            place: place.name().into(),
            queue_s: budget.queue_s(),
            segments: delay::Segment::ALL.into_iter().map(segment).collect(),
            ..Self::default()
        }
    }
}

impl From<delay::Part> for DelaySegment {
    fn from(part: delay::Part) -> Self {
        match part {
            Ok(delay) => Self {
                base_s: Some(delay.base_s),
                queue_s: Some(delay.queue_s),
                uncertainty_s: Some(delay.uncertainty_s),
                ..Self::default()
            },
            Err(why) => Self { unknown: Some(why.name().into()), ..Self::default() },
        }
    }
}
