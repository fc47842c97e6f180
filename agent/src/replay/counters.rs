//! The figures of one direction: `struct pendulum_counters` of `bpf/abi.h`, field by field.

use pendulum_model::sample::Composition;
use pendulum_model::segment::Class;

use super::packet::{Datagram, ParsedSegment, flag};

/// Upper bounds of the RTT histogram in microseconds, those of the kernel side. A sample belongs to the first bound that is not below it.
pub const TIME_BOUNDS_US: [u32; 46] = [
    122, 172, 244, 345, 488, 500, 690, 976, 1_000, 1_381, 1_953, 2_000, 2_762, 3_906, 5_000, 5_524, 7_812,
    10_000, 11_048, 15_625, 20_000, 22_097, 31_250, 44_194, 50_000, 62_500, 88_388, 100_000, 125_000,
    176_776, 200_000, 250_000, 353_553, 500_000, 707_106, 1_000_000, 1_414_213, 2_000_000, 2_828_427,
    4_000_000, 5_000_000, 5_656_854, 8_000_000, 10_000_000, 11_313_708, 16_000_000,
];

/// ACK burst lengths 1…63 are counted one by one, longer ones together in the last slot. Slot 0 is unused.
pub const BURST_SLOTS: usize = 65;

/// The bounds, and one slot for what lies above them.
const TIME_SLOTS: usize = TIME_BOUNDS_US.len() + 1;

/// The IP ECN codepoint "congestion experienced" (RFC 3168).
const ECN_CE: u8 = 3;

/// Properties a segment of any class may carry besides its class: `enum pendulum_mark`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// IP ECN codepoint "congestion experienced".
    Ce = 0,
    /// TCP ECE flag.
    Ece = 1,
    /// TCP CWR flag.
    Cwr = 2,
    /// At least one SACK block.
    Sack = 3,
}

/// Counters of one direction. Bytes are link-layer bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Segments, by [`Class`].
    pub segments: [u64; 12],
    /// Link-layer bytes, by [`Class`].
    pub bytes: [u64; 12],
    /// Of those of [`Class::NonTcp`], UDP.
    pub udp_bytes: u64,
    /// TCP payload in bytes, retransmissions included.
    pub payload_bytes: u64,
    /// Segments, by [`Mark`].
    pub marked_segments: [u64; 4],
    /// Segments with payload that had passed before.
    pub retransmitted_segments: u64,
    /// Segments with payload that filled a gap which had just opened.
    pub reordered_segments: u64,
    /// Sum of all burst lengths.
    pub burst_segments: u64,
    /// ACK bursts, by length.
    pub bursts: [u64; BURST_SLOTS],
    /// Sum of the RTT samples of what was sent in this direction, in microseconds.
    pub rtt_sum_us: u64,
    /// RTT samples, by [`TIME_BOUNDS_US`].
    pub rtt: [u64; TIME_SLOTS],
    /// ACK segments since the last data segment (`struct pendulum_burst`).
    pub burst_run: u64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            segments: [0; 12],
            bytes: [0; 12],
            udp_bytes: 0,
            payload_bytes: 0,
            marked_segments: [0; 4],
            retransmitted_segments: 0,
            reordered_segments: 0,
            burst_segments: 0,
            bursts: [0; BURST_SLOTS],
            rtt_sum_us: 0,
            rtt: [0; TIME_SLOTS],
            burst_run: 0,
        }
    }
}

impl Counters {
    /// Count a frame of which only the length is known.
    pub fn count_unread(&mut self, frame_bytes: u32, segments: u32) {
        self.add(Class::NonTcp, u64::from(segments), u64::from(frame_bytes));
    }

    /// Count a UDP datagram.
    pub fn count_udp(&mut self, datagram: &Datagram) {
        self.add(Class::NonTcp, u64::from(datagram.segments), datagram.wire_bytes);
        self.udp_bytes += datagram.wire_bytes;
    }

    /// The bytes by what carries them.
    pub fn composition(&self) -> Composition {
        Composition::of_classes(&self.bytes, self.udp_bytes)
    }

    /// Count a segment, its marks, and what it does to the ACK burst. Answers the length of the burst that it ended; 0:
    /// none.
    pub fn count_segment(&mut self, segment: &ParsedSegment, class: Class) -> u64 {
        let segments = u64::from(segment.segments);
        self.add(class, segments, segment.wire_bytes());
        self.payload_bytes += u64::from(segment.payload_bytes);
        let marks = [
            (Mark::Ce, segment.ecn == ECN_CE),
            (Mark::Ece, segment.has(flag::ECE)),
            (Mark::Cwr, segment.has(flag::CWR)),
            (Mark::Sack, segment.options.sack_blocks > 0),
        ];
        for (mark, _) in marks.into_iter().filter(|(_, carried)| *carried) {
            self.marked_segments[mark as usize] += segments;
        }
        if class.is_pure_ack() {
            self.burst_run += segments;
        }
        if class == Class::Data { self.end_burst() } else { 0 }
    }

    /// Count an RTT sample of what was sent in this direction.
    pub fn count_rtt(&mut self, us: u32) {
        self.rtt_sum_us += u64::from(us);
        self.rtt[TIME_BOUNDS_US.partition_point(|bound| *bound < us)] += 1;
    }

    fn add(&mut self, class: Class, segments: u64, bytes: u64) {
        self.segments[class as usize] += segments;
        self.bytes[class as usize] += bytes;
    }

    fn end_burst(&mut self) -> u64 {
        let run = std::mem::take(&mut self.burst_run);
        if run > 0 {
            self.burst_segments += run;
            let slot = usize::try_from(run).unwrap_or(usize::MAX).min(BURST_SLOTS - 1);
            self.bursts[slot] += 1;
        }
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rtt_belongs_to_the_first_bound_not_below_it() {
        let mut counters = Counters::default();
        for us in [1, 122, 123, 16_000_000, 16_000_001] {
            counters.count_rtt(us);
        }
        assert_eq!(counters.rtt[0], 2);
        assert_eq!(counters.rtt[1], 1);
        assert_eq!(counters.rtt[45], 1);
        assert_eq!(counters.rtt[46], 1);
        assert_eq!(counters.rtt.iter().sum::<u64>(), 5);
    }

    #[test]
    fn long_bursts_share_the_last_slot_and_keep_their_length_in_the_sum() {
        let mut counters = Counters { burst_run: 63, ..Counters::default() };
        counters.end_burst();
        counters.end_burst();
        counters.burst_run = 1000;
        counters.end_burst();
        assert_eq!(counters.bursts[63], 1);
        assert_eq!(counters.bursts[64], 1);
        assert_eq!(counters.burst_segments, 1063);
    }
}
