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

use pendulum_model::rate::{BufferSize, Rate};

use crate::netns::{Host, NetnsError};

/// Bytes of a full Ethernet frame, as the queue counts it (the frame check sequence does not exist here).
pub const FULL_FRAME_BYTES: u64 = 1514;

/// Why a link cannot have a given buffer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShaperError {
    /// Nothing would ever pass.
    #[error(
        "a buffer of {0} cannot hold one full frame of {FULL_FRAME_BYTES} bytes; give at least {FULL_FRAME_BYTES}, or 1p"
    )]
    TooSmall(BufferSize),
}

/// One direction of the bottleneck: its rate and the buffer before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaper {
    /// Link rate, of link-layer frames.
    pub rate: Rate,
    /// The buffer before the link; bytes are those of link-layer frames.
    pub buffer: BufferSize,
}

impl Shaper {
    /// Refuses a buffer that would pass nothing.
    ///
    /// # Errors
    /// [`ShaperError::TooSmall`].
    pub fn check(&self) -> Result<(), ShaperError> {
        match self.buffer {
            BufferSize::Bytes(bytes) if bytes < FULL_FRAME_BYTES => Err(ShaperError::TooSmall(self.buffer)),
            BufferSize::Packets(0) => Err(ShaperError::TooSmall(self.buffer)),
            _ => Ok(()),
        }
    }

    /// The most bytes the buffer can hold.
    pub const fn buffer_bytes(&self) -> u64 {
        match self.buffer {
            BufferSize::Bytes(bytes) => bytes,
            BufferSize::Packets(packets) => packets * FULL_FRAME_BYTES,
        }
    }

    /// Bytes that pass at full speed after a pause (see the module's head).
    pub const fn burst_bytes(&self) -> u64 {
        // tc turns the size into time and back; the round trip may lose a few bytes of a bucket of exactly one frame.
        const ROUNDING: u64 = 86;
        FULL_FRAME_BYTES + ROUNDING + self.rate.bits_per_second() / 8 / 1000
    }

    /// Puts the shaper on `device` of `host`, which must have no root qdisc yet.
    ///
    /// # Errors
    /// If tc refuses, for example because the kernel has no tbf.
    pub(crate) fn install(&self, host: &Host, device: &str) -> Result<(), NetnsError> {
        let commands = format!("{}\n{}\n", self.root_command(device), self.leaf_command("add", device));
        host.run_with_input("tc", &["-batch", "-"], &commands).map(|_| ())
    }

    /// Puts cake at the same rate into its place, with these words after the bandwidth (tc-cake(8)). Cake then is the link: all waits there.
    ///
    /// # Errors
    /// If tc refuses, for example because the kernel has no cake.
    pub(crate) fn replace_by_cake(&self, host: &Host, device: &str, words: &str) -> Result<(), NetnsError> {
        host.run("tc", &["qdisc", "del", "dev", device, "root"])?;
        let command = self.cake_command(device, words);
        host.run_with_input("tc", &["-batch", "-"], &command).map(|_| ())
    }

    fn cake_command(&self, device: &str, words: &str) -> String {
        let rate = self.rate.bits_per_second();
        format!("qdisc replace dev {device} root handle 1: cake bandwidth {rate}bit {words}\n")
    }

    fn root_command(&self, device: &str) -> String {
        // The limit given here sizes a default leaf that is replaced at once.
        format!(
            "qdisc add dev {device} root handle 1: tbf rate {}bit burst {} limit {}",
            self.rate.bits_per_second(),
            self.burst_bytes(),
            self.buffer_bytes()
        )
    }

    fn leaf_command(&self, action: &str, device: &str) -> String {
        let leaf = match self.buffer {
            BufferSize::Bytes(bytes) => format!("bfifo limit {bytes}"),
            BufferSize::Packets(packets) => format!("pfifo limit {packets}"),
        };
        format!("qdisc {action} dev {device} parent 1:1 handle 10: {leaf}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(buffer: BufferSize) -> Shaper {
        Shaper { rate: Rate::from_bits_per_second(196_000).unwrap(), buffer }
    }

    #[test]
    fn buffers_that_pass_nothing_are_refused() {
        for buffer in [BufferSize::Bytes(1513), BufferSize::Packets(0)] {
            assert_eq!(slow(buffer).check(), Err(ShaperError::TooSmall(buffer)));
        }
        for buffer in [BufferSize::Bytes(1514), BufferSize::Packets(1)] {
            assert_eq!(slow(buffer).check(), Ok(()));
        }
    }

    #[test]
    fn the_bucket_holds_little_more_than_a_frame() {
        let burst = slow(BufferSize::Bytes(30_000)).burst_bytes();
        assert!((FULL_FRAME_BYTES..FULL_FRAME_BYTES + 200).contains(&burst), "{burst}");
    }

    #[test]
    fn cake_has_the_link_s_rate_and_the_words_asked_for() {
        let command = slow(BufferSize::Packets(1)).cake_command("wan0", "ack-filter dual-srchost");
        assert_eq!(
            command,
            "qdisc replace dev wan0 root handle 1: cake bandwidth 196000bit ack-filter dual-srchost\n"
        );
    }

    #[test]
    fn the_leaf_has_the_unit_and_size_asked_for() {
        let leaf = slow(BufferSize::Bytes(30_000)).leaf_command("add", "wan0");
        assert!(leaf.ends_with("dev wan0 parent 1:1 handle 10: bfifo limit 30000"), "{leaf}");
        let leaf = slow(BufferSize::Packets(20)).leaf_command("add", "wan0");
        assert!(leaf.ends_with("pfifo limit 20"), "{leaf}");
    }
}
