//! Round-trip times. Moments are multiples of 128 µs, which are 125 ticks of 1,024 ns: the samples are exact.

use super::super::craft::{Tcp, down, flag, up};
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    [timestamps(), slots(), sequence_numbers(), samples()].concat()
}

/// A moment in units of 128 µs.
const fn t(units: u64) -> u64 {
    units * 128
}

fn data(seq: u32, tsval: u32) -> Tcp {
    up().seq(seq).payload(100).ts(tsval, 500)
}

fn answer(ack: u32, tsval: u32, tsecr: u32) -> Tcp {
    down().ack(ack).ts(tsval, tsecr)
}

fn timestamps() -> Vec<Case> {
    vec![
        case(
            "the WAN side by timestamps",
            [data(1, 10).at(t(10)).is("data"), answer(101, 600, 10).at(t(110)).is("ack")],
        )
        .leaves(&[
            ("up.rtt_samples", 1),
            ("up.rtt_last_us", 12_800),
            ("up.rtt_min_us", 12_800),
            ("up.rtt_sum_us", 12_800),
            ("down.rtt_samples", 0),
            ("counters.up.rtt_sum_us", 12_800),
            ("counters.up.rtt.19", 1),
            ("counters.down.rtt_sum_us", 0),
            ("up.tsval_newest", 10),
            ("down.tsecr_newest", 10),
            ("down.flag.tsecr", 1),
        ]),
        case(
            "the LAN side by timestamps",
            [
                down().payload(100).ts(600, 10).at(t(10)).is("data"),
                up().ack(101).ts(20, 600).at(t(11)).is("ack"),
            ],
        )
        .leaves(&[("down.rtt_last_us", 128), ("counters.down.rtt.1", 1), ("up.rtt_samples", 0)]),
        case(
            "handshake by timestamps: both sides",
            [
                up().flags(flag::SYN).ack(0).ts(10, 0).at(t(10)).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(1000).ack(2).ts(600, 10).at(t(110)).is("syn"),
                up().seq(2).ack(1001).ts(20, 600).at(t(120)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_last_us", 12_800), ("down.rtt_last_us", 1_280), ("up.tsecr_newest", 600)]),
        case(
            "only the first answer counts",
            [
                data(1, 10).at(t(10)).is("data"),
                data(101, 10).at(t(20)).is("data"),
                answer(101, 600, 10).at(t(110)).is("ack"),
                answer(201, 600, 10).at(t(210)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_sum_us", 12_800)]),
        case(
            "a pure ACK is not timed, yet its clock counts",
            [
                up().ts(10, 500).at(t(10)).is("ack"),
                data(1, 10).at(t(20)).is("data"),
                answer(101, 600, 10).at(t(110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 0), ("up.tsval_newest", 10)]),
        case(
            "a segment with an older clock is not timed",
            [
                data(1, 10).at(t(10)).is("data"),
                data(101, 9).at(t(20)).is("data"),
                answer(201, 600, 9).at(t(110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 0), ("up.tsval_newest", 10)]),
        case(
            "a retransmission has a new clock and may be timed",
            [
                data(1, 10).at(t(10)).is("data"),
                data(1, 20).at(t(1000)).is("data"),
                answer(101, 600, 20).at(t(1100)).is("ack"),
            ],
        )
        .leaves(&[
            ("up.retransmitted_segments", 1),
            ("up.rtt_samples", 1),
            ("up.rtt_last_us", 12_800),
        ]),
        case(
            "the clock wraps",
            [
                data(1, 0xffff_ffff).at(t(10)).is("data"),
                data(101, 1).at(t(20)).is("data"),
                answer(101, 600, 0xffff_ffff).at(t(110)).is("ack"),
                answer(201, 600, 1).at(t(140)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 2), ("up.rtt_last_us", 15_360), ("down.tsecr_newest", 1)]),
        case(
            "TSecr without the ACK flag means nothing",
            [data(1, 10).at(t(10)).is("data"), answer(101, 600, 10).flags(0).at(t(110)).is("other")],
        )
        .leaves(&[("up.rtt_samples", 0), ("down.flag.tsecr", 0)]),
        case(
            "a FIN is timed",
            [
                up().flags(flag::FIN | flag::ACK).ts(10, 500).at(t(10)).is("fin"),
                answer(2, 600, 10).at(t(110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_last_us", 12_800)]),
        case(
            "answers may ride on data",
            [
                data(1, 10).at(t(10)).is("data"),
                answer(101, 600, 10).payload(50).at(t(110)).is("data"),
                up().seq(101).ack(51).ts(30, 600).at(t(115)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_last_us", 12_800), ("down.rtt_last_us", 640)]),
    ]
}

fn slots() -> Vec<Case> {
    vec![
        case("eight segments are timed at once; a ninth leaves the oldest alone", {
            let sent = (0..9).map(|i| data(1 + 100 * i, 8 + i).at(t(10 + u64::from(i))).is("data"));
            let answered =
                (0..9).map(|i| answer(101 + 100 * i, 600, 8 + i).at(t(110 + u64::from(i))).is("ack"));
            sent.chain(answered).collect::<Vec<_>>()
        })
        .leaves(&[("up.rtt_samples", 8), ("up.rtt_sum_us", 8 * 12_800), ("up.rtt_min_us", 12_800)]),
        case(
            "a slot whose segment the peer has passed over is free",
            [
                data(1, 8).at(t(10)).is("data"),
                data(101, 9).at(t(20)).is("data"),
                answer(201, 600, 9).at(t(120)).is("ack"),
                data(201, 16).at(t(130)).is("data"),
                answer(301, 600, 16).at(t(230)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 2), ("up.rtt_sum_us", 25_600)]),
        case(
            "a slot whose very segment the peer last answered is free",
            [
                data(1, 8).at(t(10)).is("data"),
                answer(101, 600, 8).at(t(110)).is("ack"),
                data(101, 16).at(t(130)).is("data"),
                answer(201, 600, 16).at(t(230)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 2)]),
        // 16 s are 125,000 units.
        case(
            "an answer after 16 s is still one",
            [data(1, 8).at(t(10)).is("data"), answer(101, 600, 8).at(t(125_010)).is("ack")],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 16_000_000), ("counters.up.rtt.45", 1)]),
        case(
            "an answer after more than 16 s is none",
            [data(1, 8).at(t(10)).is("data"), answer(101, 600, 8).at(t(125_011)).is("ack")],
        )
        .leaves(&[("up.rtt_samples", 0), ("counters.up.rtt_sum_us", 0)]),
        case(
            "after 16 s a slot is free again",
            [
                data(1, 8).at(t(10)).is("data"),
                data(101, 16).at(t(125_011)).is("data"),
                answer(201, 600, 16).at(t(125_111)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 12_800)]),
    ]
}

/// A conversation without timestamps: the home end's handshake at 0, then its bytes from 1001 on.
fn opened() -> [super::Step; 3] {
    [
        up().flags(flag::SYN).seq(1000).ack(0).at(t(10)).is("syn"),
        down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(t(110)).is("syn"),
        up().seq(1001).ack(5001).at(t(120)).is("ack"),
    ]
}

fn sequence_numbers() -> Vec<Case> {
    let plain = |seq: u32| up().seq(seq).ack(5001).payload(100);
    let ack = |ack: u32| down().seq(5001).ack(ack);
    let talk = |name, steps: Vec<super::Step>| case(name, opened().into_iter().chain(steps));
    vec![
        // The SYN-ACK is the first ACK of its half: it sets ack_highest and advances nothing.
        talk("the SYN-ACK's first ACK number advances nothing", vec![]).leaves(&[
            ("up.rtt_samples", 0),
            ("down.rtt_samples", 0),
            ("up.flag.ts", 0),
        ]),
        talk(
            "an ACK of exactly the segment's end",
            vec![plain(1001).at(t(200)).is("data"), ack(1101).at(t(300)).is("ack")],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 12_800), ("counters.up.rtt.19", 1)]),
        talk(
            "an ACK of two segments answers the second",
            vec![
                plain(1001).at(t(200)).is("data"),
                plain(1101).at(t(210)).is("data"),
                ack(1201).at(t(300)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 11_520)]),
        talk(
            "an ACK in the middle of a segment answers nothing",
            vec![plain(1001).at(t(200)).is("data"), ack(1051).at(t(300)).is("ack")],
        )
        .leaves(&[("up.rtt_samples", 0)]),
        talk(
            "a duplicate ACK answers nothing",
            vec![
                plain(1001).at(t(200)).is("data"),
                ack(1101).at(t(300)).is("ack"),
                plain(1101).at(t(310)).is("data"),
                ack(1101).at(t(400)).is("dup_ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1)]),
        talk(
            "a retransmission spoils all that is in flight (Karn)",
            vec![
                plain(1001).at(t(200)).is("data"),
                plain(1101).at(t(210)).is("data"),
                plain(1001).at(t(100_000)).is("data"),
                ack(1101).at(t(100_100)).is("ack"),
                ack(1201).at(t(100_110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 0), ("up.retransmitted_segments", 1)]),
        talk(
            "after a retransmission new data is timed again",
            vec![
                plain(1001).at(t(200)).is("data"),
                plain(1001).at(t(100_000)).is("data"),
                plain(1101).at(t(100_010)).is("data"),
                ack(1201).at(t(100_110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 12_800)]),
        talk(
            "reordering spoils nothing",
            vec![
                plain(1101).at(t(200)).is("data"),
                plain(1001).at(t(201)).is("data"),
                ack(1201).at(t(300)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 12_800), ("up.reordered_segments", 1)]),
        case(
            "the first segment of a flow met in its middle is not timed",
            [
                up().payload(100).at(t(10)).is("data"),
                down().ack(1).at(t(20)).is("ack"),
                down().ack(101).at(t(110)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 0), ("down.advancing_acks", 1)]),
        talk(
            "a jump of the sequence number forgets what is in flight",
            vec![
                plain(1001).at(t(200)).is("data"),
                plain(0x7000_0000).at(t(210)).is("data").losing(&["sequence_jump"]),
                ack(1101).at(t(300)).is("ack"),
            ],
        )
        .leaves(&[("up.rtt_samples", 0)]),
    ]
}

fn samples() -> Vec<Case> {
    vec![
        case(
            "minimum, newest and sum",
            [
                data(1, 10).at(t(10)).is("data"),
                answer(101, 600, 10).at(t(110)).is("ack"),
                data(101, 20).at(t(200)).is("data"),
                answer(201, 700, 20).at(t(250)).is("ack"),
                data(201, 30).at(t(300)).is("data"),
                answer(301, 800, 30).at(t(375)).is("ack"),
            ],
        )
        .leaves(&[
            ("up.rtt_samples", 3),
            ("up.rtt_min_us", 6_400),
            ("up.rtt_last_us", 9_600),
            ("up.rtt_sum_us", 28_800),
            ("counters.up.rtt_sum_us", 28_800),
            ("counters.up.rtt.16", 1),
            ("counters.up.rtt.17", 1),
            ("counters.up.rtt.19", 1),
        ]),
        case(
            "an answer within one tick is 1 µs, for 0 means no sample",
            [data(1, 10).at(t(10)).is("data"), answer(101, 600, 10).at(t(10)).is("ack")],
        )
        .leaves(&[("up.rtt_samples", 1), ("up.rtt_min_us", 1), ("counters.up.rtt.0", 1)]),
        // 3 µs later is 2 or 3 ticks, by where they fall: (1,283,000 >> 10) − (1,280,000 >> 10) = 1,252 − 1,250.
        case(
            "ticks of 1,024 ns are cut to whole microseconds",
            [data(1, 10).at(1_280).is("data"), answer(101, 600, 10).at(1_283).is("ack")],
        )
        .leaves(&[("up.rtt_last_us", 2)]),
        case(
            "timestamps offered and refused: sequence numbers time the flow",
            [
                up().at(t(10)).flags(flag::SYN).seq(0).ts(10, 0).is("syn"),
                down().at(t(20)).flags(flag::SYN | flag::ACK).seq(0).ack(1).is("syn"),
                up().at(t(30)).seq(1).ack(1).payload(100).is("data"),
                down().at(t(130)).seq(1).ack(101).is("ack"),
            ],
        )
        .leaves(&[("up.flag.ts", 0), ("up.rtt_samples", 1), ("up.rtt_last_us", 12_800)]),
        case(
            "timestamps offered and accepted: they time the flow",
            [
                up().at(t(10)).flags(flag::SYN).seq(0).ts(10, 0).is("syn"),
                down().at(t(20)).flags(flag::SYN | flag::ACK).seq(0).ack(1).ts(500, 10).is("syn"),
                up().at(t(30)).seq(1).ack(1).ts(20, 500).payload(100).is("data"),
                down().at(t(130)).seq(1).ack(101).ts(600, 20).is("ack"),
            ],
        )
        .leaves(&[("up.flag.ts", 1), ("up.rtt_samples", 2), ("up.rtt_last_us", 12_800)]),
        case(
            "both ends open, one with timestamps: no refusal, for it answers nothing",
            [
                up().at(t(10)).flags(flag::SYN).seq(0).ack(0).ts(10, 0).is("syn"),
                down().at(t(20)).flags(flag::SYN).seq(0).ack(0).is("syn"),
            ],
        )
        .leaves(&[("up.flag.ts", 1), ("down.flag.ts", 0)]),
        case("time 0 is a time", [data(1, 10).at(0).is("data"), answer(101, 600, 10).at(t(100)).is("ack")])
            .leaves(&[("up.rtt_samples", 1), ("up.rtt_last_us", 12_798)]),
    ]
}
