//! What a segment is: `docs/design/measurement.md`, "Classes". The rules see the flow as it was before the segment.

use pendulum_model::segment::Class;

use super::packet::{ParsedSegment, flag};
use super::sequence::distance;
use crate::bpf::abi::{self, pendulum_half};

/// The class of a segment that `me` sent to `peer`.
pub(super) fn classify(me: &pendulum_half, peer: &pendulum_half, segment: &ParsedSegment) -> Class {
    if segment.has(flag::RST) {
        Class::Rst
    } else if segment.has(flag::SYN) {
        Class::Syn
    } else if let Some(probe) = classify_probe(me, peer, segment) {
        probe
    } else if segment.payload_bytes > 0 {
        Class::Data
    } else if segment.has(flag::FIN) {
        Class::Fin
    } else if !segment.has(flag::ACK) {
        Class::Other
    } else {
        classify_ack(me, peer, segment)
    }
}

/// Rules 3 and 4: segments that only ask for an answer.
fn classify_probe(me: &pendulum_half, peer: &pendulum_half, segment: &ParsedSegment) -> Option<Class> {
    if segment.has(flag::FIN) || segment.payload_bytes > 1 || !me.has(abi::PENDULUM_HALF_SEQ) {
        return None;
    }
    let ahead = distance(segment.seq, me.seq_next);
    let window_closed = peer.has(abi::PENDULUM_HALF_WINDOW) && peer.window_raw == 0;
    if window_closed && (ahead == -1 || (ahead == 0 && segment.payload_bytes == 1)) {
        Some(Class::ZeroWindowProbe)
    } else if ahead == -1 && (segment.payload_bytes == 0 || me.outstanding(peer) == 0) {
        Some(Class::KeepAlive)
    } else {
        None
    }
}

/// Rules 8 to 11: ACKs without payload.
fn classify_ack(me: &pendulum_half, peer: &pendulum_half, segment: &ParsedSegment) -> Class {
    let has_sack = segment.options.sack_blocks > 0;
    let repeats = me.has(abi::PENDULUM_HALF_ACK) && segment.ack == me.ack_highest;
    let same_window = me.has(abi::PENDULUM_HALF_WINDOW) && segment.window == me.window_raw;
    if repeats && (has_sack || same_window) && peer.outstanding(me) > 0 {
        Class::DupAck
    } else if has_sack {
        Class::Sack
    } else if repeats && me.has(abi::PENDULUM_HALF_WINDOW) && !same_window {
        Class::WindowUpdate
    } else {
        Class::Ack
    }
}
