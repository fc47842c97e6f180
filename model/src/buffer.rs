//! A buffer that nobody here can look into, such as the provider's: its level from packets behind it, by Eq. 1.
//!
//! [`DelayQueue`] takes what came out of the buffer and which of it was an answer to what; [`LevelTrack`] gives the
//! level in equal intervals. Captures and live traffic go the same way.

mod base;
mod clock;
mod delay;
pub mod level;
mod standing;

use serde::Serialize;

pub use delay::DelayQueue;
pub use level::{LevelTrack, Levels};
pub use standing::Standing;

/// Who answers: an IP address (IPv4 mapped into IPv6), or any number that stands for one.
pub type End = [u8; 16];

/// A packet as it comes out.
#[derive(Clone, Copy, Debug)]
pub struct Passing {
    /// When it passed.
    pub at_ns: u64,
    /// Link-layer length.
    pub bytes: u32,
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
