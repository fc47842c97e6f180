//! What one packet adds to the figures of its direction.

use pendulum_model::segment::Class;

use super::packet::{Datagram, ParsedSegment, flag};
use crate::bpf::abi::{self, pendulum_counters};

/// The IP ECN codepoint "congestion experienced" (RFC 3168).
const ECN_CE: u8 = 3;

impl pendulum_counters {
    /// Count a frame of which only the length is known.
    pub(super) fn count_unread(&mut self, frame_bytes: u32, segments: u32) {
        self.count(Class::NonTcp, u64::from(segments), u64::from(frame_bytes));
    }

    /// Count a UDP datagram.
    pub(super) fn count_udp(&mut self, datagram: &Datagram) {
        self.count(Class::NonTcp, u64::from(datagram.segments), datagram.wire_bytes);
        self.udp_bytes += datagram.wire_bytes;
    }

    /// Count a segment, its marks, and what it does to the ACK burst; `run` is ACKs since the last data segment. Answers the
    /// length of the burst that it ended; 0: none.
    pub(super) fn count_segment(&mut self, segment: &ParsedSegment, class: Class, run: &mut u64) -> u64 {
        let segments = u64::from(segment.segments);
        self.count(class, segments, segment.wire_bytes());
        self.payload_bytes += u64::from(segment.payload_bytes);
        let marks = [
            (abi::PENDULUM_MARK_CE, segment.ecn == ECN_CE),
            (abi::PENDULUM_MARK_ECE, segment.has(flag::ECE)),
            (abi::PENDULUM_MARK_CWR, segment.has(flag::CWR)),
            (abi::PENDULUM_MARK_SACK, segment.options.sack_blocks > 0),
        ];
        for (mark, _) in marks.into_iter().filter(|(_, carried)| *carried) {
            self.marked_segments[mark as usize] += segments;
        }
        if class.is_pure_ack() {
            *run += segments;
        }
        if class == Class::Data { self.end_burst(std::mem::take(run)) } else { 0 }
    }

    /// Count an RTT sample of what was sent in this direction.
    pub(super) fn count_rtt(&mut self, us: u32) {
        self.rtt_sum_us += u64::from(us);
        self.rtt[abi::time_slot(us)] += 1;
    }

    fn count(&mut self, class: Class, segments: u64, bytes: u64) {
        self.segments[class as usize] += segments;
        self.bytes[class as usize] += bytes;
    }

    fn end_burst(&mut self, run: u64) -> u64 {
        if run > 0 {
            self.burst_segments += run;
            let slot = usize::try_from(run).unwrap_or(usize::MAX).min(self.bursts.len() - 1);
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
        let mut counters = pendulum_counters::default();
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
        let mut counters = pendulum_counters::default();
        for run in [63, 0, 1000] {
            counters.end_burst(run);
        }
        assert_eq!(counters.bursts[63], 1);
        assert_eq!(counters.bursts[64], 1);
        assert_eq!(counters.burst_segments, 1063);
    }
}
