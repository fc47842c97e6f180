//! What passes the point of observation, where that lies, and how far what is seen there can be trusted.

use serde::Serialize;

use super::End;

/// Where the point of observation lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Vantage {
    /// The uplink's buffer is the gateway's own and is read from its qdisc.
    OwnQueue,
    /// Packets pass before they enter the uplink's buffer: it stands in a modem behind.
    BeforeUplinkBuffer,
    /// Packets pass when they leave the uplink's buffer.
    BehindUplinkBuffer,
    /// Two points: one on each side of the uplink's buffer.
    Both,
}

impl Vantage {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OwnQueue => "own_queue",
            Self::BeforeUplinkBuffer => "before_uplink_buffer",
            Self::BehindUplinkBuffer => "behind_uplink_buffer",
            Self::Both => "both",
        }
    }
}

/// A packet as it passes the point.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passing {
    /// When it passed.
    pub at_ns: u64,
    /// Link-layer length.
    pub bytes: u32,
    /// Of those, bytes that repeat what passed before.
    pub repeated_bytes: u32,
    /// Number of its flow and its TSval, if it has both.
    pub clock: Option<(u64, u32)>,
}

/// What makes a packet an answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Who answered.
    pub end: End,
    /// From the packet that it answers to itself.
    pub delay_ns: u64,
    /// Link-layer length of the packet that it answers.
    pub question_bytes: u32,
    /// Of the delay, what the question is known to have spent in the gateway's own queue.
    pub own_queue_ns: u64,
}

/// Whether the delay without queue, under an estimate, can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// It was measured while the buffer was empty.
    Confirmed,
    /// The link has been full ever since its ends were first heard: the delay may contain a standing queue, and the
    /// estimate is then too low by it.
    NeverEmpty,
    /// It was confirmed, but the link has been full for minutes since: a longer route would look like a queue.
    Stale,
}

impl Trust {
    /// The name used in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::NeverEmpty => "never_empty",
            Self::Stale => "stale",
        }
    }
}
