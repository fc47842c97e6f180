//! How long an end takes to answer, seen from the gateway: the delay that contains one queue.
//!
//! What the gateway hears from an end has waited in that end's queue towards it: answers from home in the uplink
//! buffer, answers from the remote end in the downlink buffer. The round-trip times of `docs/design/measurement.md` time data
//! only and let the receiver's delayed ACKs in; the queue estimate needs more samples and truer ones:
//!
//! * Data is timed until the ACK whose number is exactly its end: the segment that made the receiver answer, so the
//!   time for which it delayed the ACK of an earlier one does not count. A retransmission spoils what is in
//!   flight (Karn).
//! * A pure ACK with timestamps is timed until data with its TSval as TSecr: the ACK clock makes a bulk sender answer at
//!   once (RFC 7323 §4.3). So a download's remote end is timed although it acknowledges nothing.

use pendulum_model::segment::{Direction, PerDirection};

use super::packet::{ParsedSegment, flag};
use crate::bpf::abi;

/// Segments timed at once, for each half.
const MARKS: usize = abi::PENDULUM_QUESTIONS as usize;

/// Unanswered for this long, a mark may be used again; in microseconds. 2^23 ticks of the kernel side.
const LIFETIME_US: u32 = 34_359_738;

/// What an answer is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    /// The sequence number after data.
    #[default]
    End,
    /// The TSval of a pure ACK.
    Clock,
}

/// A packet whose answer is awaited.
#[derive(Clone, Copy, Debug, Default)]
struct Awaited {
    kind: Kind,
    key: u32,
    /// Microseconds, modulo 2^32; 0: free.
    at_us: u32,
    /// Link-layer length of the packet.
    bytes: u32,
}

/// How long an end took to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// From the question to the answer, microseconds.
    pub us: u32,
    /// Link-layer length of the question.
    pub question_bytes: u32,
}

impl Awaited {
    fn is_free(self, now_us: u32) -> bool {
        self.at_us == 0 || now_us.wrapping_sub(self.at_us) > LIFETIME_US
    }

    /// If it is marked with `key`, the answer to it. The mark is free then.
    fn answer(&mut self, kind: Kind, key: u32, now_us: u32) -> Option<Turn> {
        if self.kind != kind || self.key != key || self.is_free(now_us) {
            return None;
        }
        let us = now_us.wrapping_sub(std::mem::take(&mut self.at_us));
        Some(Turn { us, question_bytes: self.bytes })
    }
}

/// What one half awaits answers for.
#[derive(Clone, Copy, Debug, Default)]
struct AwaitedAnswers {
    marks: [Awaited; MARKS],
    newest_clock: Option<u32>,
    /// Newest of the other half's clock that this half has answered.
    answered_clock: Option<u32>,
    answered_end: Option<u32>,
}

/// The turnaround of both ends of one flow.
#[derive(Clone, Debug, Default)]
pub struct Turnaround {
    halves: PerDirection<AwaitedAnswers>,
}

fn slot_of_end(end: u32) -> usize {
    (end.wrapping_mul(0x9e37_79b1) >> 28) as usize % MARKS
}

fn slot_of_clock(clock: u32) -> usize {
    clock as usize % MARKS
}

fn is_newer(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

impl Turnaround {
    /// A segment passes. `repeats`: it carries what passed before. If it answers one of the other half: how long that
    /// took.
    pub fn observe(
        &mut self,
        direction: Direction,
        now_ns: u64,
        segment: &ParsedSegment,
        repeats: bool,
    ) -> Option<Turn> {
        let now_us = ((now_ns / 1000) as u32).max(1);
        let (me, peer) = self.halves.own_and_other(direction);
        let sample = answer(me, peer, now_us, segment);
        await_answer(me, peer, now_us, segment, repeats);
        sample
    }
}

fn answer(
    me: &mut AwaitedAnswers,
    peer: &mut AwaitedAnswers,
    now_us: u32,
    segment: &ParsedSegment,
) -> Option<Turn> {
    if !segment.has(flag::ACK) {
        return None;
    }
    let mut sample = peer.marks[slot_of_end(segment.ack)].answer(Kind::End, segment.ack, now_us);
    if me.answered_end.is_none_or(|newest| is_newer(segment.ack, newest)) {
        me.answered_end = Some(segment.ack);
    }
    if let Some((_, tsecr)) = segment.options.timestamps {
        if segment.payload_bytes > 0 {
            let clock = peer.marks[slot_of_clock(tsecr)].answer(Kind::Clock, tsecr, now_us);
            sample = sample.or(clock);
        }
        if me.answered_clock.is_none_or(|newest| is_newer(tsecr, newest)) {
            me.answered_clock = Some(tsecr);
        }
    }
    sample
}

fn await_answer(
    me: &mut AwaitedAnswers,
    peer: &AwaitedAnswers,
    now_us: u32,
    segment: &ParsedSegment,
    repeats: bool,
) {
    let clock = segment.options.timestamps.map(|(tsval, _)| tsval);
    let is_new_clock =
        clock.is_some_and(|tsval| me.newest_clock.is_none_or(|newest| is_newer(tsval, newest)));
    if is_new_clock {
        me.newest_clock = clock;
    }
    if repeats {
        me.marks = [Awaited::default(); MARKS];
        return;
    }
    let occupies = segment.payload_bytes > 0 || segment.flags & (flag::SYN | flag::FIN) != 0;
    let (kind, key, slot) = match clock {
        _ if occupies => (Kind::End, segment.end(), slot_of_end(segment.end())),
        Some(tsval) if is_new_clock => (Kind::Clock, tsval, slot_of_clock(tsval)),
        _ => return,
    };
    let mark = &mut me.marks[slot];
    // The other half has answered something newer: no answer to this one will come.
    let was_skipped = match mark.kind {
        Kind::End => peer.answered_end.is_some_and(|newest| !is_newer(mark.key, newest)),
        Kind::Clock => peer.answered_clock.is_some_and(|newest| is_newer(newest, mark.key)),
    };
    if mark.is_free(now_us) || was_skipped {
        *mark = Awaited { kind, key, at_us: now_us, bytes: segment.frame_bytes };
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::{Frame, LinkType, Packet, parse};
    use super::super::tests::craft::{LinkLayer, Tcp, down, flag, up};
    use super::super::tests::direction;
    use super::*;

    /// Pass segments in order; answer the samples.
    fn samples(packets: &[Tcp]) -> Vec<Option<u32>> {
        let mut turnaround = Turnaround::default();
        let mut highest = PerDirection::<u32>::default();
        packets
            .iter()
            .map(|packet| {
                let crafted = packet.build(LinkLayer::RawIp);
                let direction = direction(crafted.direction);
                let Packet::Tcp(segment) = parse(&Frame::whole(LinkType::RawIp, &crafted.bytes)) else {
                    panic!("crafted as TCP")
                };
                let repeats = segment.payload_bytes > 0 && segment.end() <= highest[direction];
                highest[direction] = highest[direction].max(segment.end());
                turnaround.observe(direction, crafted.time_ns, &segment, repeats).map(|turn| turn.us)
            })
            .collect()
    }

    #[test]
    fn an_upload_is_timed_by_its_acknowledgements() {
        let data = |seq, at| up().seq(seq).payload(100).ts(at as u32 / 1000, 7).at(at);
        let answers = samples(&[
            data(1, 10_000),
            data(101, 60_000),
            // The ACK waited for the second segment: that is the one it answers, 20 ms ago.
            down().ack(201).ts(9, 10).at(80_000),
            down().ack(201).ts(9, 10).at(90_000),
        ]);
        assert_eq!(answers, [None, None, Some(20_000), None]);
    }

    #[test]
    fn a_download_is_timed_by_the_clock_of_its_acknowledgements() {
        let answers = samples(&[
            up().ts(10, 1).at(10_000),
            up().ts(10, 1).at(10_500),
            up().ts(11, 1).at(11_000),
            down().seq(1).payload(100).ts(500, 10).at(40_000),
            down().seq(101).payload(100).ts(500, 10).at(45_000),
            // A pure ACK with the same echo answers nothing.
            down().seq(201).ts(500, 11).at(46_000),
            down().seq(201).payload(100).ts(500, 11).at(51_000),
        ]);
        assert_eq!(answers, [None, None, None, Some(30_000), None, None, Some(40_000)]);
    }

    #[test]
    fn a_retransmission_spoils_what_is_in_flight() {
        let answers = samples(&[
            up().seq(1).payload(100).at(1_000),
            up().seq(101).payload(100).at(2_000),
            up().seq(1).payload(100).at(300_000),
            down().ack(201).at(320_000),
            up().seq(201).payload(100).at(321_000),
            down().ack(301).at(350_000),
        ]);
        assert_eq!(answers[3..], [None, None, Some(29_000)]);
    }

    #[test]
    fn the_handshake_times_both_ends() {
        let answers = samples(&[
            up().flags(flag::SYN).seq(1000).ack(0).at(1_000),
            down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(21_000),
            up().seq(1001).ack(5001).at(21_300),
        ]);
        assert_eq!(answers, [None, Some(20_000), Some(300)]);
    }

    #[test]
    fn unanswered_marks_expire() {
        let answers = samples(&[
            up().seq(1).payload(100).at(1_000),
            down().ack(101).at(34_361_000),
            up().seq(101).payload(100).at(34_362_000),
            down().ack(201).at(34_372_000),
        ]);
        assert_eq!(answers, [None, None, None, Some(10_000)]);
    }
}
