//! What passes the point of observation, where that lies, and how far what is seen there can be trusted.

use super::End;

named! {
    /// Where the point of observation lies.
    pub enum Vantage {
        /// The uplink's buffer is the gateway's own and is read from its qdisc.
        OwnQueue = "own_queue",
        /// Packets pass before they enter the uplink's buffer: it stands in a modem behind.
        BeforeUplinkBuffer = "before_uplink_buffer",
        /// Packets pass when they leave the uplink's buffer.
        BehindUplinkBuffer = "behind_uplink_buffer",
        /// Two points: one on each side of the uplink's buffer.
        Both = "both",
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
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// Who answered.
    pub end: End,
    /// From the packet that it answers to itself.
    pub delay_ns: u64,
    /// Link-layer length of the packet that it answers.
    pub question_bytes: u32,
    /// Bytes that passed ahead of that packet, but were reported as one with it.
    pub ahead_bytes: u32,
    /// Of the delay, what the question is known to have spent in the gateway's own queue.
    pub own_queue_ns: u64,
}

named! {
    /// Whether the delay without queue, under an estimate, can be relied on.
    pub enum Trust {
        /// It was measured while the buffer was empty.
        Confirmed = "confirmed",
        /// The link has been full ever since its ends were first heard: the delay may contain a standing queue, and the
        /// estimate is then too low by it.
        NeverEmpty = "never_empty",
        /// It was confirmed, but the link has been full for minutes since: a longer route would look like a queue.
        Stale = "stale",
    }
}
