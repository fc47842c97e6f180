//! One real drop-tail buffer in front of a slow link.
//!
//! The arrangement is `tbf` with a `bfifo` or `pfifo` leaf, on the device that feeds the link:
//!
//! * All waiting happens in the leaf. `tbf` keeps no packet of its own: the one it looks at while it waits for tokens still
//!   counts in the leaf (net/sched/sch_tbf.c `tbf_dequeue`, `qdisc_peek_dequeued`), so the leaf's backlog is the whole
//!   queue and its limit the whole buffer.
//! * The token bucket is a credit, not a queue: after a pause it lets [`Shaper::burst_bytes`] pass at full speed. It is kept
//!   at one full frame plus a millisecond of the rate, which is what timer latency needs. A real link differs in that the first packet after a pause
//!   also takes its transmission time.
//! * `htb` is not used for the plain link: unclassified packets go to its direct queue, a second buffer counted in packets.
//! * Nothing else may queue. veth has no transmit queue (`noqueue`) and, with GRO off, no receive ring; see
//!   [`crate::lab::LinkSpec::offloads`].

use std::fmt;
use std::str::FromStr;

use crate::netns::{Host, NetnsError};

/// Bytes of a full Ethernet frame, as the queue counts it (the frame check sequence does not exist here).
pub const FULL_FRAME_BYTES: u64 = 1514;

/// Size of a drop-tail buffer, in the unit it counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Counted in bytes of link-layer frames (`bfifo`).
    Bytes(u64),
    /// Counted in packets of whatever size (`pfifo`).
    Packets(u64),
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Packets(packets) => write!(f, "{packets}p"),
        }
    }
}

/// Why a buffer size cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BufferError {
    /// Neither form.
    #[error("`{0}` is no buffer size; write bytes as 30000 or 30kB, packets as 20p")]
    Syntax(String),
    /// Nothing would ever pass.
    #[error(
        "a buffer of {0} cannot hold one full frame of {FULL_FRAME_BYTES} bytes; give at least that, or 1p"
    )]
    TooSmall(Buffer),
}

impl FromStr for Buffer {
    type Err = BufferError;

    fn from_str(text: &str) -> Result<Self, BufferError> {
        let lower = text.trim().to_ascii_lowercase();
        let number = |digits: &str, factor: u64| {
            let value = digits.trim().parse::<u64>().ok().and_then(|value| value.checked_mul(factor));
            value.ok_or_else(|| BufferError::Syntax(text.to_owned()))
        };
        let buffer = match lower.strip_suffix('p') {
            Some(packets) => Self::Packets(number(packets, 1)?),
            None => Self::Bytes(match lower.strip_suffix("kb") {
                Some(kilobytes) => number(kilobytes, 1000)?,
                None => number(lower.strip_suffix('b').unwrap_or(&lower), 1)?,
            }),
        };
        buffer.check()
    }
}

impl Buffer {
    fn check(self) -> Result<Self, BufferError> {
        match self {
            Self::Bytes(bytes) if bytes < FULL_FRAME_BYTES => Err(BufferError::TooSmall(self)),
            Self::Packets(0) => Err(BufferError::TooSmall(self)),
            _ => Ok(self),
        }
    }

    /// The most bytes it can hold.
    pub const fn capacity_bytes(self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(packets) => packets * FULL_FRAME_BYTES,
        }
    }
}

/// One direction of the bottleneck: its rate and the buffer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// Link rate, in bits per second of link-layer frames.
    pub rate_bps: u64,
    /// The buffer before the link.
    pub buffer: Buffer,
}

impl Shaper {
    /// Bytes that pass at full speed after a pause (see the module's head).
    pub const fn burst_bytes(&self) -> u64 {
        // tc turns the size into time and back; the round trip may lose a few bytes of a bucket of exactly one frame.
        const ROUNDING: u64 = 86;
        FULL_FRAME_BYTES + ROUNDING + self.rate_bps / 8 / 1000
    }

    /// Puts the shaper on `device` of `host`, which must have no root qdisc yet.
    ///
    /// # Errors
    /// If tc refuses, for example because the kernel has no tbf.
    pub(crate) fn install(&self, host: &Host, device: &str) -> Result<(), NetnsError> {
        let commands = format!("{}\n{}\n", self.root_command(device), self.leaf_command("add", device));
        host.run_with_input("tc", &["-batch", "-"], &commands).map(|_| ())
    }

    fn root_command(&self, device: &str) -> String {
        // The limit given here sizes a default leaf that is replaced at once.
        format!(
            "qdisc add dev {device} root handle 1: tbf rate {}bit burst {} limit {}",
            self.rate_bps,
            self.burst_bytes(),
            self.buffer.capacity_bytes().max(FULL_FRAME_BYTES)
        )
    }

    fn leaf_command(&self, deed: &str, device: &str) -> String {
        let leaf = match self.buffer {
            Buffer::Bytes(bytes) => format!("bfifo limit {bytes}"),
            Buffer::Packets(packets) => format!("pfifo limit {packets}"),
        };
        format!("qdisc {deed} dev {device} parent 1:1 handle 10: {leaf}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_read_as_people_write_them() {
        assert_eq!("30000".parse(), Ok(Buffer::Bytes(30_000)));
        assert_eq!("30kB".parse(), Ok(Buffer::Bytes(30_000)));
        assert_eq!("6000B".parse(), Ok(Buffer::Bytes(6_000)));
        assert_eq!("20p".parse(), Ok(Buffer::Packets(20)));
        assert_eq!(Buffer::Packets(20).to_string().parse(), Ok(Buffer::Packets(20)));
    }

    #[test]
    fn buffers_that_pass_nothing_are_refused() {
        assert_eq!("1000".parse::<Buffer>(), Err(BufferError::TooSmall(Buffer::Bytes(1000))));
        assert_eq!("0p".parse::<Buffer>(), Err(BufferError::TooSmall(Buffer::Packets(0))));
        for text in ["", "x", "-1", "1.5", "99999999999999999999", "99999999999999999kb"] {
            assert_eq!(text.parse::<Buffer>(), Err(BufferError::Syntax(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_bucket_holds_little_more_than_a_frame() {
        let slow = Shaper { rate_bps: 196_000, buffer: Buffer::Bytes(30_000) };
        assert!((FULL_FRAME_BYTES..FULL_FRAME_BYTES + 200).contains(&slow.burst_bytes()));
    }

    #[test]
    fn the_leaf_has_the_buffer_s_unit_and_size() {
        let bytes = Shaper { rate_bps: 196_000, buffer: Buffer::Bytes(30_000) };
        assert!(bytes.leaf_command("add", "wan0").ends_with("parent 1:1 handle 10: bfifo limit 30000"));
        let packets = Shaper { buffer: Buffer::Packets(20), ..bytes };
        assert!(packets.leaf_command("add", "wan0").ends_with("pfifo limit 20"));
    }
}
