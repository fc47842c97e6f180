//! What the detector says: phases, verdicts, findings, and the evidence for each.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Name;
use crate::autorate::Decision;
use crate::segment::Direction;

named! {
    /// The three cases of 000 §3 and their absence.
    pub enum Phase {
        /// Case 1: only the uplink buffer holds a standing queue.
        UplinkBound = "uplink_bound",
        /// Case 2: only the downlink buffer does.
        DownlinkBound = "downlink_bound",
        /// Case 3: both do.
        Balanced = "balanced",
        /// Neither does: the traffic is limited elsewhere, or there is none.
        Idle = "idle",
    }
}

impl Phase {
    /// Only this direction's buffer holds a standing queue.
    pub const fn alone(direction: Direction) -> Self {
        direction.pick(Self::UplinkBound, Self::DownlinkBound)
    }

    /// Whether this direction's buffer holds a standing queue.
    pub fn stands(self, direction: Direction) -> bool {
        self == Self::Balanced || self == Self::alone(direction)
    }

    /// From which buffers hold a standing queue.
    pub const fn of(uplink_stands: bool, downlink_stands: bool) -> Self {
        match (uplink_stands, downlink_stands) {
            (true, false) => Self::UplinkBound,
            (false, true) => Self::DownlinkBound,
            (true, true) => Self::Balanced,
            (false, false) => Self::Idle,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

named! {
    /// What is going on, over many round trips.
    pub enum Verdict {
        /// Data pendulum: cases 1 and 2 alternate.
        Swinging = "swinging",
        /// Two-way bulk traffic, the uplink buffer never empties, downloads starve (000 Fig. 8).
        LockedUplink = "locked_uplink",
        /// The mirror image.
        LockedDownlink = "locked_downlink",
        /// Both queues move in phase and ACKs come in long bursts (000 Fig. 3): rare and harmless.
        AckCompression = "ack_compression",
        /// Bulk data in one direction only: a standing queue is then normal.
        OneWay = "one_way",
        /// Two-way bulk traffic that is neither locked nor swings.
        Balanced = "balanced",
        /// No bulk traffic.
        Clear = "clear",
        /// Bulk data goes both ways, and what is known of the buffers does not suffice to judge it: the evidence names what
        /// is missing.
        Unknown = "unknown",
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One figure that a rule looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Figure {
    /// Its name, as `uplink_bound_share`.
    pub name: Name,
    /// Its value in base units (seconds, bytes, bytes per second, ratios 0 to 1).
    pub value: f64,
    /// The threshold it was compared with, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
}

impl Figure {
    /// A figure that only informs.
    pub const fn new(name: &'static str, value: f64) -> Self {
        Self { name: Name::Borrowed(name), value, threshold: None }
    }

    /// A figure that decided.
    pub const fn against(name: &'static str, value: f64, threshold: f64) -> Self {
        Self { name: Name::Borrowed(name), value, threshold: Some(threshold) }
    }
}

named! {
    /// Evidence that a rule would have needed, or needs to be certain.
    pub enum Missing {
        /// The level of the uplink's buffer is not known, or not well enough.
        UplinkQueue = "uplink_queue",
        /// The same of the downlink's.
        DownlinkQueue = "downlink_queue",
        /// The uplink's rate.
        UplinkRate = "uplink_rate",
        /// The downlink's rate.
        DownlinkRate = "downlink_rate",
        /// Round trips.
        RoundTrip = "round_trip",
        /// The round trip without queues, measured while both buffers were empty.
        BaseRoundTrip = "base_round_trip",
        /// Whether the upload would send more if it could: datagrams at a rate that nothing was seen to hold back.
        UploadDemand = "upload_demand",
        /// The same of the download.
        DownloadDemand = "download_demand",
    }
}

impl Missing {
    /// For a sentence that begins with "not known:".
    pub const fn words(self) -> &'static str {
        match self {
            Self::UplinkQueue => "the level of the uplink's buffer",
            Self::DownlinkQueue => "the level of the downlink's buffer",
            Self::UplinkRate => "the uplink's rate",
            Self::DownlinkRate => "the downlink's rate",
            Self::RoundTrip => "the round-trip time",
            Self::BaseRoundTrip => "the round-trip time without queues",
            Self::UploadDemand => "whether the upload's datagrams are held back",
            Self::DownloadDemand => "whether the download's datagrams are held back",
        }
    }

    pub(crate) const fn queue(direction: Direction) -> Self {
        direction.pick(Self::UplinkQueue, Self::DownlinkQueue)
    }

    pub(crate) const fn rate(direction: Direction) -> Self {
        direction.pick(Self::UplinkRate, Self::DownlinkRate)
    }

    pub(crate) const fn demand(direction: Direction) -> Self {
        direction.pick(Self::UploadDemand, Self::DownloadDemand)
    }
}

/// The reason of a statement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// Short name of the rule, stable, for programs.
    pub rule: Name,
    /// One sentence for people.
    pub reason: String,
    /// What the rule looked at.
    pub figures: Vec<Figure>,
    // The samples' clock, which is this one in the agent.
    /// When the condition began to hold, on the kernel's monotonic clock.
    pub since_s: f64,
    /// Since when hysteresis alone keeps the verdict; absent while it does not need to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_since_s: Option<f64>,
    /// Missing evidence that could change or confirm it; absent if none is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Name>,
}

impl Evidence {
    /// Of what hysteresis does not hold, and with nothing missing.
    pub fn new(rule: &'static str, reason: impl Into<String>, figures: Vec<Figure>, since_s: f64) -> Self {
        Self { rule: rule.into(), reason: reason.into(), figures, since_s, ..Self::default() }
    }

    /// The value of the figure of this name, if the rule looked at it.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

named! {
    /// A named observation beside the verdict.
    pub enum FindingKind {
        /// Flows with a short RTT take more than their part from flows with a long one (paper 003, Fig. 5).
        RttUnfairness = "rtt_unfairness",
        /// A far flow's window collapsed while near flows burst (paper 003, Fig. 6 and 8).
        FarFlowKnockedBack = "far_flow_knocked_back",
        /// The shaper's comparison of turns with and without it shows no gain, or harm (docs/guide/shaping.md).
        ShapingNotHelping = "shaping_not_helping",
        /// Packets wait behind the shaper all the same: its rate or its framing is not the line's (docs/guide/shaping.md).
        ShapingIneffective = "shaping_ineffective",
        /// A buffer never drains: even the luckiest packet waits longer than `bufferbloat-delay`, whoever fills it.
        Bufferbloat = "bufferbloat",
        /// Packets wait between the gateway and the hosts at home: LAN, Wi-Fi or the host (`crate::delay`).
        HomeBloat = "home_bloat",
        /// Packets wait beyond the line: the route or far hosts. Nothing to shape here.
        BeyondBloat = "beyond_bloat",
        /// A bulk transfer is slow although packets wait nowhere: its sender pauses.
        SenderLimited = "sender_limited",
        /// The same, and its receiver's window allows no more.
        ReceiverLimited = "receiver_limited",
    }
}

/// What an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Change {
    /// Another case holds. `None`: not known yet.
    Phase {
        /// The case before.
        from: Option<Phase>,
        /// The case now.
        to: Phase,
        /// How long the case before held, seconds.
        dwell_s: f64,
    },
    /// Another verdict.
    Verdict {
        /// The verdict before.
        from: Verdict,
        /// The verdict now.
        to: Verdict,
    },
    /// A finding begins to hold, or happened once.
    Finding {
        /// Which.
        finding: FindingKind,
        /// The direction it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// A finding no longer holds.
    FindingEnded {
        /// Which.
        finding: FindingKind,
        /// The direction it was about.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// A shaper that finds its rate by itself has another one, by more than 10 %.
    ShapeRate {
        /// The direction that it shapes.
        direction: Direction,
        /// Bits per second before.
        from_bps: f64,
        /// Bits per second now.
        to_bps: f64,
        /// Why it changed.
        decision: Decision,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_json_and_are_read_again() {
        for (index, verdict) in Verdict::ALL.into_iter().enumerate() {
            let json = serde_json::to_string(&verdict).expect("json");
            assert_eq!((&*json, verdict as usize), (&*format!("\"{verdict}\""), index));
            assert_eq!(serde_json::from_str::<Verdict>(&json).expect("a verdict"), verdict);
        }
        let refused = serde_json::from_str::<Phase>("\"none\"").unwrap_err().to_string();
        assert!(refused.contains("expected one of `uplink_bound`, `downlink_bound`"), "{refused}");
    }

    #[test]
    fn each_direction_misses_its_own() {
        assert_eq!(Missing::queue(Direction::Up), Missing::UplinkQueue);
        assert_eq!(Missing::rate(Direction::Down), Missing::DownlinkRate);
        assert_eq!(Missing::demand(Direction::Down), Missing::DownloadDemand);
    }
}
