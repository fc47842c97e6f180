//! TCP options, and the marks that a segment of any class may carry.

use super::super::craft::{Tcp, down, flag, up};
use super::{Case, case};

const EOL: u8 = 0;
const NOP: u8 = 1;

pub(super) fn cases() -> Vec<Case> {
    [handshake_options(), lists(), malformed(), marks()].concat()
}

fn syn() -> Tcp {
    up().flags(flag::SYN).ack(0).seq(1000)
}

fn handshake_options() -> Vec<Case> {
    vec![
        case(
            "SYN with everything Linux sends",
            [syn().options(&[2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0, NOP, 3, 3, 7]).is("syn")],
        )
        .leaves(&[
            ("up.mss", 1460),
            ("up.wscale", 7),
            ("up.flag.wscale", 1),
            ("up.flag.sack_ok", 1),
            ("up.flag.ts", 1),
            ("up.flag.syn", 1),
            ("up.tsval_newest", 9),
            ("up.isn", 1000),
            ("up.seq_next", 1001),
            ("up.flag.ack", 0),
            ("counters.up.bytes.syn", 74),
        ]),
        case("a window scale above 14 counts as 14", [syn().options(&[3, 3, 15]).is("syn")])
            .leaves(&[("up.wscale", 14), ("up.flag.wscale", 1)]),
        case("a window scale of 0 is one", [syn().options(&[3, 3, 0]).is("syn")])
            .leaves(&[("up.wscale", 0), ("up.flag.wscale", 1)]),
        case(
            "MSS, window scale and SACK permitted count only on a SYN",
            [up().options(&[2, 4, 0x05, 0xb4, 4, 2, 3, 3, 7]).is("ack")],
        )
        .leaves(&[("up.mss", 0), ("up.wscale", 0), ("up.flag.wscale", 0), ("up.flag.sack_ok", 0)]),
        case(
            "a SYN-ACK offers options too",
            [down().flags(flag::SYN | flag::ACK).options(&[2, 4, 0x02, 0x18, 3, 3, 2]).is("syn")],
        )
        .leaves(&[("down.mss", 536), ("down.wscale", 2), ("down.flag.ack", 1)]),
        case(
            "a known kind with a wrong length is ignored, the rest counts",
            [syn().options(&[2, 3, 5, 3, 4, 7, 7, 4, 3, 0, 8, 8, 0, 0, 0, 0, 0, 0, 30, 2]).is("syn")],
        )
        .leaves(&[
            ("up.mss", 0),
            ("up.flag.wscale", 0),
            ("up.flag.sack_ok", 0),
            ("up.flag.ts", 0),
            ("up.flag.mptcp", 1),
        ]),
    ]
}

fn lists() -> Vec<Case> {
    let timestamps = [8, 10, 0, 0, 0, 77, 0, 0, 0, 66];
    vec![
        case("timestamps in the usual form", [up().ts(77, 66).is("ack")]).leaves(&[
            ("up.flag.ts", 1),
            ("up.tsval_newest", 77),
            ("counters.up.bytes.ack", 66),
        ]),
        case(
            "timestamps before the padding",
            [up().options(&[&timestamps[..], &[NOP, NOP]].concat()).is("ack")],
        )
        .leaves(&[("up.tsval_newest", 77)]),
        case("EOL ends the list: what follows may be anything", [up().options(&[EOL, 8, 1, 99]).is("ack")])
            .leaves(&[("up.flag.ts", 0)]),
        case(
            "unknown kinds are skipped by their length",
            [up().options(&[&[254, 6, 8, 10, 8, 10][..], &timestamps].concat()).is("ack")],
        )
        .leaves(&[("up.tsval_newest", 77)]),
        case(
            "a first timestamps option wins over a second",
            [up().options(&[&timestamps[..], &[8, 10, 0, 0, 0, 88, 0, 0, 0, 99]].concat()).is("ack")],
        )
        .leaves(&[("up.tsval_newest", 77)]),
        case("MPTCP", [up().options(&[30, 8, 0, 0, 0, 0, 0, 0]).is("ack")])
            .leaves(&[("up.flag.mptcp", 1), ("up.flag.accecn", 0)]),
        case("AccECN, first order", [up().counters(&[1, 1, 1]).is("ack")]).leaves(&[("up.flag.accecn", 1)]),
        case(
            "AE, which classic ECN has not, is no reason to take an ACK for another packet",
            [up().ace(4).is("ack")],
        ),
        case("AccECN, second order, shortest form", [up().options(&[174, 2]).is("ack")])
            .leaves(&[("up.flag.accecn", 1)]),
        case("forty bytes of NOP", [up().options(&[NOP; 40]).is("ack")])
            .leaves(&[("counters.up.bytes.ack", 94), ("counters.up.payload_bytes", 0)]),
        case("one option of forty bytes", [up().options(&[&[253, 40][..], &[7; 38]].concat()).is("ack")]),
        case(
            "four SACK blocks fill the list",
            [up().sack(&[(10, 20), (30, 40), (50, 60), (70, 80)]).is("sack")],
        )
        .leaves(&[("counters.up.marked_segments.sack", 1)]),
        case(
            "timestamps and SACK in the usual form",
            [up().ts(77, 66).sack(&[(10, 20), (30, 40)]).is("sack")],
        )
        .leaves(&[("up.tsval_newest", 77), ("counters.up.marked_segments.sack", 1)]),
        case(
            "an option behind timestamps and SACK is read, too",
            [up()
                .options(
                    &[
                        &[NOP, NOP][..],
                        &timestamps,
                        &[NOP, NOP, 5, 10, 0, 0, 0, 10, 0, 0, 0, 20],
                        &[30, 8, 0, 0, 0, 0, 0, 0],
                    ]
                    .concat(),
                )
                .is("sack")],
        )
        .leaves(&[
            ("up.tsval_newest", 77),
            ("up.flag.mptcp", 1),
            ("counters.up.marked_segments.sack", 1),
        ]),
        case(
            "timestamps and a SACK that is too long for its list",
            [up()
                .options(
                    &[&[NOP, NOP][..], &timestamps, &[NOP, NOP, 5, 18, 0, 0, 0, 10, 0, 0, 0, 20]].concat(),
                )
                .is("ack")
                .losing(&["tcp_options"])],
        )
        .leaves(&[("counters.up.marked_segments.sack", 0)]),
        case(
            "a SACK option without a whole block is none",
            [up().options(&[5, 9, 0, 0, 0, 1, 0, 0, 0, NOP, NOP, NOP]).is("ack")],
        )
        .leaves(&[("counters.up.marked_segments.sack", 0)]),
    ]
}

fn malformed() -> Vec<Case> {
    let broken = |name, options: &[u8]| {
        case(name, [up().payload(10).options(options).is("data").losing(&["tcp_options"])]).leaves(&[
            ("counters.up.segments.data", 1),
            ("counters.up.payload_bytes", 10),
            ("counters.up.marked_segments.sack", 0),
            ("up.flag.ts", 0),
            ("up.flag.mptcp", 0),
            ("up.seq_next", 11),
        ])
    };
    vec![
        broken("option of length 0", &[30, 4, 0, 0, 8, 0, 0, 0]),
        broken("option of length 1", &[30, 1, NOP, NOP]),
        broken("option that ends beyond the header", &[30, 5, 0, 0]),
        broken("an option's kind in the last byte", &[NOP, NOP, NOP, 30]),
        broken("what stood before the broken option is ignored too", {
            &[8, 10, 0, 0, 0, 1, 0, 0, 0, 1, 30, 4, 0, 0, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2, NOP, NOP, 7, 0]
        }),
        broken("timestamps cut in the form that is read at once", &[NOP, NOP, 8, 11, 0, 0, 0, 1, 0, 0, 0, 1]),
    ]
}

fn marks() -> Vec<Case> {
    vec![
        case("congestion experienced, IPv4", [down().payload(10).ecn(3).is("data")])
            .leaves(&[("counters.down.marked_segments.ce", 1)]),
        case("congestion experienced, IPv6", [down().v6().payload(10).ecn(3).is("data")])
            .leaves(&[("counters.down.marked_segments.ce", 1)]),
        case(
            "ECN-capable is no mark",
            [down().payload(10).ecn(1).is("data"), down().payload(10).seq(11).ecn(2).v6().is("data")],
        )
        .leaves(&[("counters.down.marked_segments.ce", 0)]),
        case(
            "ECE and CWR",
            [
                up().flags(flag::ACK | flag::ECE).is("ack"),
                up().flags(flag::ACK | flag::CWR).payload(1).is("data"),
                syn().flags(flag::SYN | flag::ECE | flag::CWR).home_port(41_000).is("syn"),
            ],
        )
        .leaves(&[("counters.up.marked_segments.ece", 2), ("counters.up.marked_segments.cwr", 2)]),
        case(
            "marks count the segments of a super-packet",
            [down().payload(300).ecn(3).flags(flag::ACK | flag::ECE | flag::CWR).gso(3, 100).is("data")],
        )
        .leaves(&[
            ("counters.down.marked_segments.ce", 3),
            ("counters.down.marked_segments.ece", 3),
            ("counters.down.marked_segments.cwr", 3),
        ]),
        case("SACK blocks on data are a mark, not a class", [up().payload(10).sack(&[(5, 6)]).is("data")])
            .leaves(&[("counters.up.marked_segments.sack", 1), ("counters.up.segments.sack", 0)]),
    ]
}
