//! Looking on at a run: every frame at both buffers, and every acknowledgement that reaches its sender.

use super::packet::{Content, Packet};
use crate::segment::Direction;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Which of the link's flows it belongs to.
    pub flow: usize,
    /// Its length, bytes of the frame.
    pub bytes: u32,
    /// What it carries.
    pub content: FrameContent,
}

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameContent {
    /// A full segment of TCP.
    Segment {
        /// Counted from the connection's first.
        number: u32,
    },
    /// A TCP acknowledgement without data, or a frame of a handshake.
    Ack {
        /// The first segment that has not arrived.
        next: u32,
    },
    /// No TCP.
    Datagram,
}

/// Who looks on at a run. Times are nanoseconds since the run began, and never go back.
pub trait Watch {
    /// A frame reaches the queue of a direction, which takes or drops it. Cake takes every frame; what it drops later is not reported.
    fn reached(&mut self, at: u64, direction: Direction, frame: &Frame, is_taken: bool);

    /// The link has sent a frame.
    fn left(&mut self, at: u64, direction: Direction, frame: &Frame);

    /// An acknowledgement reaches the sender of a flow. The round-trip time is that of the timestamp it echoes, seconds, to a millisecond.
    fn acknowledged(&mut self, at: u64, flow: usize, next: u32, round_trip_s: f64);
}

/// Nobody looks on.
impl Watch for () {
    fn reached(&mut self, _: u64, _: Direction, _: &Frame, _: bool) {}
    fn left(&mut self, _: u64, _: Direction, _: &Frame) {}
    fn acknowledged(&mut self, _: u64, _: usize, _: u32, _: f64) {}
}

impl From<&Packet> for Frame {
    fn from(packet: &Packet) -> Self {
        let content = match packet.content {
            Content::Data(data) => FrameContent::Segment { number: data.number },
            Content::Ack(ack) => FrameContent::Ack { next: ack.next },
            Content::Greeting(_) => FrameContent::Ack { next: 0 },
            Content::Datagram => FrameContent::Datagram,
        };
        Self { flow: packet.flow as usize, bytes: packet.bytes, content }
    }
}
