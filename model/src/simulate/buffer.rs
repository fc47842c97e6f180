//! A drop-tail buffer before a link.

use std::collections::VecDeque;

use super::packet::{Packet, SECOND, Time};
use crate::rate::BufferSize;

/// One direction of the link. The frame that the link works on is in the buffer, as with `tbf` and its leaf.
#[derive(Debug)]
pub(super) struct Buffer {
    limit: BufferSize,
    nanoseconds_per_byte: f64,
    /// How far the link may catch up after a pause (a token bucket); zero: a wire.
    credit: Time,
    /// When the link had sent all before the first frame, had it never paused for longer than the credit.
    sent_until: Time,
    frames: VecDeque<Packet>,
    bytes: u64,
    pub(super) dropped: u64,
}

impl Buffer {
    /// `rate` in bytes per second; `burst` in bytes.
    pub(super) fn new(rate: f64, burst: f64, limit: BufferSize) -> Self {
        let nanoseconds_per_byte = SECOND as f64 / rate;
        Self {
            limit,
            nanoseconds_per_byte,
            credit: (burst * nanoseconds_per_byte) as Time,
            sent_until: 0,
            frames: VecDeque::new(),
            bytes: 0,
            dropped: 0,
        }
    }

    /// Takes a frame, or drops it. When the link was idle: the moment at which this frame leaves.
    pub(super) fn push(&mut self, now: Time, frame: Packet) -> Option<Time> {
        let fits = match self.limit {
            BufferSize::Bytes(most) => self.bytes + u64::from(frame.bytes) <= most,
            BufferSize::Packets(most) => (self.frames.len() as u64) < most,
        };
        if !fits {
            self.dropped += 1;
            return None;
        }
        let idle = self.frames.is_empty();
        self.bytes += u64::from(frame.bytes);
        self.frames.push_back(frame);
        if idle { self.departure(now) } else { None }
    }

    /// Removes the first frame; also the moment at which the next one leaves.
    pub(super) fn pop(&mut self, now: Time) -> Option<(Packet, Option<Time>)> {
        let frame = self.frames.pop_front()?;
        self.bytes -= u64::from(frame.bytes);
        self.sent_until += self.duration(frame.bytes);
        Some((frame, self.departure(now)))
    }

    fn departure(&mut self, now: Time) -> Option<Time> {
        let bytes = self.frames.front()?.bytes;
        self.sent_until = self.sent_until.max(now.saturating_sub(self.credit));
        Some(now.max(self.sent_until + self.duration(bytes)))
    }

    fn duration(&self, bytes: u32) -> Time {
        (f64::from(bytes) * self.nanoseconds_per_byte) as Time
    }

    /// Bytes that wait.
    #[cfg(test)]
    fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How long a frame would wait that came to the present queue, seconds.
    pub(super) fn wait_seconds(&self) -> f64 {
        self.bytes as f64 * self.nanoseconds_per_byte / SECOND as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Content, Data, MILLISECOND};
    use super::*;

    fn frame(number: u32, bytes: u32) -> Packet {
        Packet { flow: 0, bytes, content: Content::Data(Data { number, stamp: 0, push: false }) }
    }

    #[test]
    fn frames_leave_in_order_at_the_rate_of_the_link() {
        // 1,000 bytes per millisecond: frame n of 1,000 bytes leaves at n + 1 ms.
        let mut buffer = Buffer::new(1e6, 0.0, BufferSize::Packets(10));
        let mut due = buffer.push(0, frame(0, 1000));
        for number in 1..5 {
            assert_eq!(buffer.push(0, frame(number, 1000)), None);
        }
        for number in 0..5 {
            let now = due.expect("a departure");
            assert_eq!(now, u64::from(number + 1) * MILLISECOND);
            let (left, next) = buffer.pop(now).expect("a frame");
            assert_eq!(left, frame(number, 1000));
            due = next;
        }
        assert_eq!((due, buffer.bytes()), (None, 0));
    }

    #[test]
    fn a_frame_that_does_not_fit_is_dropped() {
        let mut bytes = Buffer::new(1e6, 0.0, BufferSize::Bytes(2_500));
        for (number, size) in [(0, 1000), (1, 1000), (2, 1000), (3, 500), (4, 1)] {
            bytes.push(0, frame(number, size));
        }
        assert_eq!((bytes.bytes(), bytes.dropped), (2_500, 2));
        let mut packets = Buffer::new(1e6, 0.0, BufferSize::Packets(2));
        for number in 0..3 {
            packets.push(0, frame(number, 66));
        }
        assert_eq!((packets.bytes(), packets.dropped), (132, 1));
    }

    #[test]
    fn a_bucket_lets_its_burst_pass_after_a_pause_and_no_more() {
        // A bucket of two frames, full at 5 ms: two frames leave at once, the third 1 ms later.
        let mut buffer = Buffer::new(1e6, 2_000.0, BufferSize::Packets(10));
        let start = 5 * MILLISECOND;
        let mut due = buffer.push(start, frame(0, 1000));
        for number in 1..3 {
            buffer.push(start, frame(number, 1000));
        }
        for expected in [start, start, start + MILLISECOND] {
            assert_eq!(due, Some(expected));
            due = buffer.pop(expected).expect("a frame").1;
        }
    }

    #[test]
    fn what_a_link_has_not_finished_delays_the_next_frame() {
        // A wire: the first frame leaves at 1 ms, and one that comes at 1.5 ms a millisecond after it came. A bucket saves at most its burst.
        for (burst, expected) in [(0.0, 2_500_000), (250.0, 2_250_000), (5_000.0, 2_000_000)] {
            let mut buffer = Buffer::new(1e6, burst, BufferSize::Packets(10));
            buffer.sent_until = MILLISECOND;
            assert_eq!(buffer.push(1_500_000, frame(0, 1_000)), Some(expected), "{burst}");
        }
        let mut buffer = Buffer::new(1e6, 0.0, BufferSize::Packets(10));
        (0..3).for_each(|number| _ = buffer.push(0, frame(number, 500)));
        assert!((buffer.wait_seconds() - 1.5e-3).abs() < 1e-12);
    }
}
