//! Looking on at a run: every frame at both buffers, and every acknowledgement that reaches its sender.

use super::packet::Packet;
use crate::segment::Direction;

/// Who looks on at a run. Times are nanoseconds since the run began, and never go back.
pub trait Watch {
    /// A frame reaches the queue of a direction, which takes or drops it. Cake takes every frame; what it drops later is not reported.
    fn reached(&mut self, at: u64, direction: Direction, frame: &Packet, is_taken: bool);

    /// The link has sent a frame.
    fn left(&mut self, at: u64, direction: Direction, frame: &Packet);

    /// An acknowledgement reaches the sender of a flow. The round-trip time is that of the timestamp it echoes, seconds, to a millisecond.
    fn acknowledged(&mut self, at: u64, flow: usize, next: u32, round_trip_s: f64);
}

/// Nobody looks on.
impl Watch for () {
    fn reached(&mut self, _: u64, _: Direction, _: &Packet, _: bool) {}
    fn left(&mut self, _: u64, _: Direction, _: &Packet) {}
    fn acknowledged(&mut self, _: u64, _: usize, _: u32, _: f64) {}
}
