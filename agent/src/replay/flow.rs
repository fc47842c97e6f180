//! One conversation as the gateway sees it: `docs/design/measurement.md`, "Flow state". The numbered
//! steps there are the functions here, in the same order.

use pendulum_model::segment::{Class, Direction, PerDirection};

use super::classify::classify;
use super::packet::{Lost, ParsedSegment, flag};
use super::probe::{match_probe, record_probe, ticks};
use super::sequence::{Sequence, distance};
use crate::bpf::abi::{self, pendulum_half};

/// Further apart than this, two sequence numbers cannot belong to one window (RFC 7323 §2.3).
const SEQUENCE_SPAN: u32 = 1 << 30;

/// Reordering is distinguished from retransmission by time; this long, in microseconds, where no RTT is known yet.
const REORDER_WINDOW_DEFAULT_US: u64 = 3_000;

/// A flow's identity, the same for both directions: "home" is the end behind the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// IPv4 mapped into IPv6, network byte order.
    pub home_addr: [u8; 16],
    /// The other end, likewise.
    pub remote_addr: [u8; 16],
    /// TCP port of the home end.
    pub home_port: u16,
    /// TCP port of the remote end.
    pub remote_port: u16,
}

impl FlowKey {
    /// The key of a segment that travels in `direction`.
    pub fn of(segment: &ParsedSegment, direction: Direction) -> Self {
        let ports = [segment.source_port, segment.destination_port];
        Self::between([segment.source, segment.destination], ports, direction)
    }

    /// The key of a packet from the first end to the second that travels in `direction`.
    pub fn between(addresses: [[u8; 16]; 2], ports: [u16; 2], direction: Direction) -> Self {
        let (home, remote) = direction.pick((0, 1), (1, 0));
        Self {
            home_addr: addresses[home],
            remote_addr: addresses[remote],
            home_port: ports[home],
            remote_port: ports[remote],
        }
    }

    /// The address of the end that sends in this direction.
    pub const fn sender(&self, direction: Direction) -> [u8; 16] {
        direction.pick(self.home_addr, self.remote_addr)
    }
}

/// One conversation: `struct pendulum_flow`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// What the home end sent (`Direction::Up`) and what the remote end sent.
    pub halves: PerDirection<pendulum_half>,
}

/// What one segment did to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What the segment is.
    pub class: Class,
    /// It carries payload that had passed before.
    pub retransmitted: bool,
    /// It carries payload that fills a gap which just opened.
    pub reordered: bool,
    /// Bytes of the other half's data that it newly acknowledges.
    pub acked_bytes: u32,
    /// Round-trip time in microseconds of a segment of the *other* direction, which this one answers.
    pub rtt_us: Option<u32>,
    /// A new connection on a tuple in use: both halves were zeroed first.
    pub restarted: bool,
    /// A jump of the sequence number; then of the acknowledgement number; then an ACK for data that never passed.
    pub lost: [Option<Lost>; 3],
}

#[derive(Clone, Copy, Debug, Default)]
struct Acknowledgement {
    /// By how many bytes `ack_highest` moved on.
    advanced: u32,
    lost: [Option<Lost>; 2],
}

const fn beyond_span(distance: i32) -> bool {
    distance.unsigned_abs() > SEQUENCE_SPAN
}

impl pendulum_half {
    pub(super) const fn set(&mut self, flag: u32) {
        self.flags |= flag as u16;
    }

    const fn clear(&mut self, flag: u32) {
        self.flags &= !(flag as u16);
    }

    /// Nothing that is in flight can be timed any more.
    fn forget_probes(&mut self) {
        for probe in &mut self.probes {
            probe.at = 0;
        }
    }
}

impl Flow {
    /// Outstanding data of one half in bytes: sent, and not yet acknowledged.
    pub fn outstanding(&self, direction: Direction) -> u32 {
        self.halves[direction].outstanding(&self.halves[direction.opposite()])
    }

    /// Classify a segment and apply it.
    pub fn observe(&mut self, direction: Direction, now_ns: u64, segment: &ParsedSegment) -> Observed {
        let restarted = self.restart_if_new(direction, segment);
        let (me, peer) = self.halves.own_and_other(direction);
        let class = classify(me, peer, segment);
        count(me, segment, class, now_ns);

        let mut sequence = Sequence::default();
        if !repeats_byte(me, segment, class) {
            sequence = apply_sequence(me, peer, segment, now_ns);
            if sequence.retransmitted {
                me.retransmitted_segments = me.retransmitted_segments.wrapping_add(segment.segments);
            }
            if sequence.reordered {
                me.reordered_segments = me.reordered_segments.wrapping_add(segment.segments);
            }
        }
        let acknowledgement = apply_acknowledgement(me, peer, segment);
        if segment.flags & (flag::ACK | flag::SYN) != 0 {
            me.window_raw = segment.window;
            me.set(abi::PENDULUM_HALF_WINDOW);
        }
        let tick = ticks(now_ns);
        let rtt_us = match_probe(me, peer, segment, acknowledgement.advanced > 0, tick);
        record_probe(me, peer, segment, &sequence, tick);
        apply_flags(me, peer, segment);
        if sequence.moved {
            me.in_flight_max_bytes = me.in_flight_max_bytes.max(me.outstanding(peer));
        }

        let [ack_jump, unseen] = acknowledgement.lost;
        Observed {
            class,
            retransmitted: sequence.retransmitted,
            reordered: sequence.reordered,
            acked_bytes: acknowledgement.advanced,
            rtt_us,
            restarted,
            lost: [sequence.lost, ack_jump, unseen],
        }
    }

    /// A SYN with a new initial sequence number on a tuple in use begins a new connection.
    fn restart_if_new(&mut self, direction: Direction, segment: &ParsedSegment) -> bool {
        let me = &self.halves[direction];
        let opens = segment.flags & (flag::SYN | flag::ACK | flag::RST) == flag::SYN;
        let repeated = me.has(abi::PENDULUM_HALF_SYN) && me.isn == segment.seq;
        let restarts = opens && me.has(abi::PENDULUM_HALF_SEQ) && !repeated;
        if restarts {
            *self = Self::default();
        }
        restarts
    }
}

/// A keep-alive or zero-window probe repeats a byte on purpose; only a zero-window probe may carry a new one.
fn repeats_byte(me: &pendulum_half, segment: &ParsedSegment, class: Class) -> bool {
    matches!(class, Class::KeepAlive | Class::ZeroWindowProbe)
        && !(segment.payload_bytes == 1 && segment.seq == me.seq_next)
}

fn count(me: &mut pendulum_half, segment: &ParsedSegment, class: Class, now_ns: u64) {
    if me.segments == 0 {
        me.first_seen_ns = now_ns;
    }
    me.last_seen_ns = now_ns;
    let segments = u64::from(segment.segments);
    me.segments += segments;
    me.wire_bytes += segment.wire_bytes();
    me.payload_bytes += u64::from(segment.payload_bytes);
    if class == Class::Data {
        me.data_segments += segments;
    } else if class.is_pure_ack() {
        me.ack_segments += segments;
    }
}

/// Step 1: the sequence range of the segment.
fn apply_sequence(
    me: &mut pendulum_half,
    peer: &pendulum_half,
    segment: &ParsedSegment,
    now_ns: u64,
) -> Sequence {
    let (seq, end) = (segment.seq, segment.end());
    let mut result = Sequence::default();
    if end == seq {
        return result;
    }
    if !me.has(abi::PENDULUM_HALF_SEQ) {
        me.set(abi::PENDULUM_HALF_SEQ);
        me.seq_next = end;
        return Sequence { moved: true, fresh: true, first: true, ..result };
    }

    let ahead = distance(end, me.seq_next);
    let gap = distance(seq, me.seq_next);
    if beyond_span(ahead) {
        me.seq_next = end;
        me.clear(abi::PENDULUM_HALF_HOLE);
        me.forget_probes();
        result.lost = Some(Lost::SequenceJump);
        return result;
    }
    if gap < 0 {
        let has_payload = segment.payload_bytes > 0;
        if fills_hole(me, peer, segment, now_ns) {
            result.reordered = has_payload;
        } else {
            result.retransmitted = has_payload;
            // Karn: an answer would not tell which of the two copies it answers.
            if !me.has(abi::PENDULUM_HALF_TS) {
                me.forget_probes();
            }
        }
        result.moved = ahead > 0;
    } else {
        if gap > 0 {
            me.set(abi::PENDULUM_HALF_HOLE);
            me.hole_start = me.seq_next;
            me.hole_end = seq;
            me.hole_at_ns = now_ns;
        }
        result.moved = true;
        result.fresh = true;
    }
    if result.moved {
        me.seq_next = end;
    }
    result
}

fn fills_hole(me: &pendulum_half, peer: &pendulum_half, segment: &ParsedSegment, now_ns: u64) -> bool {
    me.has(abi::PENDULUM_HALF_HOLE)
        && distance(segment.seq, me.hole_start) >= 0
        && distance(me.hole_end, segment.end()) >= 0
        && now_ns.wrapping_sub(me.hole_at_ns) < reorder_window_ns(me, peer)
}

/// How long a late segment still counts as reordered; compare RFC 8985 §6.2, which takes a quarter of the RTT.
fn reorder_window_ns(a: &pendulum_half, b: &pendulum_half) -> u64 {
    match u64::from(a.rtt_min_us) + u64::from(b.rtt_min_us) {
        0 => REORDER_WINDOW_DEFAULT_US * 1000,
        rtt_us => rtt_us / 2 * 1000,
    }
}

/// Step 2: the acknowledgement number.
fn apply_acknowledgement(
    me: &mut pendulum_half,
    peer: &mut pendulum_half,
    segment: &ParsedSegment,
) -> Acknowledgement {
    let mut result = Acknowledgement::default();
    if !segment.has(flag::ACK) {
        return result;
    }
    let ahead = distance(segment.ack, me.ack_highest);
    if !me.has(abi::PENDULUM_HALF_ACK) {
        me.set(abi::PENDULUM_HALF_ACK);
        me.ack_highest = segment.ack;
    } else if beyond_span(ahead) {
        me.ack_highest = segment.ack;
        result.lost[0] = Some(Lost::SequenceJump);
    } else if ahead > 0 {
        me.acked_bytes += u64::from(ahead.unsigned_abs());
        me.advancing_acks += 1;
        me.ack_highest = segment.ack;
        result.advanced = ahead.unsigned_abs();
    }
    if peer.has(abi::PENDULUM_HALF_SEQ) && distance(me.ack_highest, peer.seq_next) > 0 {
        peer.seq_next = me.ack_highest;
        result.lost[1] = Some(Lost::AckOfUnseen);
    }
    result
}

/// What the flags and the options tell about a half, and a refusal about its peer.
fn apply_flags(me: &mut pendulum_half, peer: &mut pendulum_half, segment: &ParsedSegment) {
    let options = &segment.options;
    for (flag, holds) in [
        (abi::PENDULUM_HALF_MPTCP, options.mptcp),
        (abi::PENDULUM_HALF_ACCECN, options.accecn),
        (abi::PENDULUM_HALF_FIN, segment.has(flag::FIN)),
        (abi::PENDULUM_HALF_RST, segment.has(flag::RST)),
    ] {
        if holds {
            me.set(flag);
        }
    }
    if !segment.has(flag::SYN) {
        return;
    }
    // The peer had offered timestamps and will send none: RFC 7323 §3.2.
    if segment.has(flag::ACK) && options.timestamps.is_none() && peer.has(abi::PENDULUM_HALF_TS) {
        peer.clear(abi::PENDULUM_HALF_TS);
        peer.forget_probes();
    }
    me.isn = segment.seq;
    me.set(abi::PENDULUM_HALF_SYN);
    if options.sack_ok {
        me.set(abi::PENDULUM_HALF_SACK_OK);
    }
    if let Some(shift) = options.wscale {
        me.set(abi::PENDULUM_HALF_WSCALE);
        me.wscale = shift;
    }
    if let Some(mss) = options.mss {
        me.mss = mss;
    }
}
