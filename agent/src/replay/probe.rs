//! Round-trip time from the gateway to one end and back; `docs/design/measurement.md`, "RTT".

use super::packet::{ParsedSegment, flag};
use super::sequence::{Sequence, distance};
use crate::bpf::abi::{self, pendulum_half, pendulum_probe};

const PROBES: usize = abi::PENDULUM_PROBES as usize;

/// 16 s in ticks of 1024 ns: an answer that comes later is no measurement.
const LIFETIME_TICKS: u32 = 16_000_000 / 1024 * 1000;

const fn has_expired(probe: &pendulum_probe, tick: u32) -> bool {
    probe.at == 0 || tick.wrapping_sub(probe.at) > LIFETIME_TICKS
}

/// Time in the unit of [`pendulum_probe::at`]; never 0.
pub const fn ticks(now_ns: u64) -> u32 {
    let ticks = (now_ns >> 10) as u32;
    if ticks == 0 { 1 } else { ticks }
}

const fn slot_of_tsval(tsval: u32) -> usize {
    tsval as usize % PROBES
}

const fn slot_of_sequence(end: u32) -> usize {
    (end.wrapping_mul(0x9e37_79b1) >> 29) as usize
}

/// If `segment` of `me` answers one that `peer` had timed: the round-trip time in microseconds, recorded with `peer`.
pub(super) fn match_probe(
    me: &mut pendulum_half,
    peer: &mut pendulum_half,
    segment: &ParsedSegment,
    acked: bool,
    tick: u32,
) -> Option<u32> {
    if !segment.has(flag::ACK) {
        return None;
    }
    let (key, slot) = if peer.has(abi::PENDULUM_HALF_TS) {
        let (_, tsecr) = segment.options.timestamps?;
        if !me.has(abi::PENDULUM_HALF_TSECR) || distance(tsecr, me.tsecr_newest) > 0 {
            me.set(abi::PENDULUM_HALF_TSECR);
            me.tsecr_newest = tsecr;
        }
        (tsecr, slot_of_tsval(tsecr))
    } else if acked {
        (segment.ack, slot_of_sequence(segment.ack))
    } else {
        return None;
    };
    let probe = &mut peer.probes[slot];
    if probe.key != key || has_expired(probe, tick) {
        return None;
    }
    let elapsed = tick.wrapping_sub(probe.at);
    probe.at = 0;
    Some(record_sample(peer, elapsed))
}

fn record_sample(sender: &mut pendulum_half, elapsed_ticks: u32) -> u32 {
    // Within LIFETIME_TICKS the product fits 64 bits and the quotient 32; 0 would read as "no sample".
    let us = ((u64::from(elapsed_ticks) * 1024 / 1000) as u32).max(1);
    sender.rtt_last_us = us;
    if sender.rtt_min_us == 0 || us < sender.rtt_min_us {
        sender.rtt_min_us = us;
    }
    sender.rtt_sum_us += u64::from(us);
    sender.rtt_samples = sender.rtt_samples.wrapping_add(1);
    us
}

/// Start timing `segment` of `me`, if it can be timed and its slot is free.
pub(super) fn record_probe(
    me: &mut pendulum_half,
    peer: &pendulum_half,
    segment: &ParsedSegment,
    sequence: &Sequence,
    tick: u32,
) {
    let (key, slot, answered) = if let Some((tsval, _)) = segment.options.timestamps {
        if me.has(abi::PENDULUM_HALF_TS) && distance(tsval, me.tsval_newest) <= 0 {
            return;
        }
        me.set(abi::PENDULUM_HALF_TS);
        me.tsval_newest = tsval;
        if segment.payload_bytes == 0 && segment.flags & (flag::SYN | flag::FIN) == 0 {
            return;
        }
        let slot = slot_of_tsval(tsval);
        (
            tsval,
            slot,
            peer.has(abi::PENDULUM_HALF_TSECR) && distance(me.probes[slot].key, peer.tsecr_newest) < 0,
        )
    } else {
        // The first segment of a half may itself be a retransmission, unless it opens the connection.
        let certain = sequence.fresh && (!sequence.first || segment.has(flag::SYN));
        if me.has(abi::PENDULUM_HALF_TS) || !certain {
            return;
        }
        let slot = slot_of_sequence(segment.end());
        let answered =
            peer.has(abi::PENDULUM_HALF_ACK) && distance(me.probes[slot].key, peer.ack_highest) <= 0;
        (segment.end(), slot, answered)
    };
    let probe = &mut me.probes[slot];
    if has_expired(probe, tick) || answered {
        *probe = pendulum_probe { key, at: tick };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zero_is_not_a_free_slot() {
        assert_eq!(ticks(0), 1);
        assert_eq!(ticks(1023), 1);
        assert_eq!(ticks(2048), 2);
        assert_eq!(ticks(1 << 42), 1, "the tick counter wraps after 4398 s");
    }

    #[test]
    fn slots_stay_inside_the_table() {
        for end in (0..u32::MAX).step_by(9_999_991) {
            assert!(slot_of_sequence(end) < PROBES);
            assert!(slot_of_tsval(end) < PROBES);
        }
    }

    #[test]
    fn a_probe_lives_sixteen_seconds_across_the_wrap() {
        let probe = pendulum_probe { key: 0, at: u32::MAX - 5 };
        assert!(!has_expired(&probe, LIFETIME_TICKS.wrapping_add(u32::MAX - 5)));
        assert!(has_expired(&probe, LIFETIME_TICKS.wrapping_add(u32::MAX - 4)));
    }
}
