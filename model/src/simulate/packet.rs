//! What travels: full segments of data one way, acknowledgements the other.

use crate::segment::{Direction, FULL_FRAME_BYTES};

/// Nanoseconds since the run began.
pub(super) type Time = u64;

pub(super) const MICROSECOND: Time = 1_000;
pub(super) const MILLISECOND: Time = 1_000_000;
pub(super) const SECOND: Time = 1_000_000_000;

/// Payload of a full segment: 1,500 bytes of IP less 20 of IPv4 and 32 of TCP with timestamps.
pub const PAYLOAD_BYTES: u32 = 1_448;
/// The same segment as an Ethernet frame.
pub const DATA_FRAME_BYTES: u32 = FULL_FRAME_BYTES as u32;
/// An acknowledgement with timestamps as an Ethernet frame.
pub const ACK_FRAME_BYTES: u32 = 66;
/// Blocks that fit beside timestamps (RFC 2018, section 3).
pub(super) const MOST_SACKS: usize = 3;

/// Segments `from` to before `to`, counted from the connection's first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) from: u32,
    pub(super) to: u32,
}

/// Which of the three frames. The home's end opens every connection, whichever way its data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Syn,
    SynAck,
    Ack,
}

impl Stage {
    /// Which way it goes.
    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::Syn | Self::Ack => Direction::Up,
            Self::SynAck => Direction::Down,
        }
    }
}

/// A frame of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Greeting {
    pub(super) stage: Stage,
    /// When the SYN was sent, as timestamps tell the ends.
    pub(super) opened: Time,
    /// When it was answered.
    pub(super) answered: Time,
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The first segment that has not arrived.
    pub(super) next: u32,
    /// The sender's clock that it echoes, milliseconds (RFC 7323).
    pub(super) echo: u32,
    sacks: [Block; MOST_SACKS],
    count: u8,
    /// A segment that has arrived twice (RFC 2883).
    pub(super) twice: Option<u32>,
}

impl Ack {
    pub(super) fn new(next: u32, echo: u32, twice: Option<u32>, blocks: &[Block]) -> Self {
        let mut ack = Self { next, echo, twice, ..Self::default() };
        let room = MOST_SACKS - usize::from(twice.is_some());
        for (place, block) in ack.sacks.iter_mut().zip(blocks.iter().take(room)) {
            *place = *block;
            ack.count += 1;
        }
        ack
    }

    pub(super) fn sacks(&self) -> &[Block] {
        &self.sacks[..usize::from(self.count)]
    }

    /// Bytes on the link: two bytes of padding, two of option header, eight for each block.
    pub(super) fn frame_bytes(&self) -> u32 {
        match u32::from(self.count) + u32::from(self.twice.is_some()) {
            0 => ACK_FRAME_BYTES,
            blocks => ACK_FRAME_BYTES + 4 + 8 * blocks,
        }
    }
}

/// A full segment of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Counted from the connection's first.
    pub number: u32,
    /// The sender's clock, milliseconds.
    pub(super) stamp: u32,
    /// The PSH flag.
    pub(super) push: bool,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Data.
    Data(Data),
    /// An acknowledgement without data.
    Ack(Ack),
    /// Of a connection that begins.
    Greeting(Greeting),
    /// Of a flow that is no TCP.
    Datagram,
}

/// A frame in a buffer or under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which of the link's flows it belongs to.
    pub flow: u32,
    /// Its length, bytes of the frame.
    pub bytes: u32,
    /// What it carries.
    pub content: Content,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_grows_with_its_blocks() {
        // 66 bytes, and 2 + 2 + 8 bytes for each block: 78, 86, 94; a fourth does not fit.
        let blocks = [1, 3, 5, 7].map(|from| Block { from, to: from + 1 });
        let bytes = |count| Ack::new(0, 0, None, &blocks[..count]).frame_bytes();
        assert_eq!([0, 1, 2, 3, 4].map(bytes), [66, 78, 86, 94, 94]);
        let twice = Ack::new(0, 0, Some(9), &blocks);
        assert_eq!((twice.sacks().len(), twice.frame_bytes()), (2, 94));
    }
}
