//! Every class, each by the rule that makes it, and the neighbours it must not be taken for.

use super::super::craft::{Tcp, down, flag, up};
use super::{Case, Step, case};

pub(super) fn cases() -> Vec<Case> {
    [flags(), acks(), keep_alives(), zero_window_probes(), bursts()].concat()
}

/// The remote end has sent bytes 1…100 and home has acknowledged them: then `steps`.
fn settled(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    let start = [down().payload(100).is("data"), up().ack(101).at(1000).is("ack")];
    case(name, start.into_iter().chain(steps))
}

/// The remote end has sent bytes 1…300, home has acknowledged 100 of them: then `steps`.
fn outstanding(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    let start = [
        down().payload(100).is("data"),
        down().seq(101).payload(200).at(500).is("data"),
        up().ack(101).at(1000).is("ack"),
    ];
    case(name, start.into_iter().chain(steps))
}

/// A segment of the settled conversation's home end.
fn reply() -> Tcp {
    up().ack(101).at(2000)
}

fn flags() -> Vec<Case> {
    vec![
        case(
            "handshake",
            [
                up().flags(flag::SYN).seq(1000).ack(0).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(1000).is("syn"),
                up().seq(1001).ack(5001).at(2000).is("ack"),
            ],
        )
        .leaves(&[
            ("up.isn", 1000),
            ("up.seq_next", 1001),
            ("down.isn", 5000),
            ("down.seq_next", 5001),
            ("down.ack_highest", 1001),
            ("up.ack_highest", 5001),
            ("up.ack_segments", 1),
            ("table.flows", 1),
            ("table.nursery", 0),
        ]),
        case("SYN with data (TCP fast open)", [up().flags(flag::SYN).seq(1000).payload(50).is("syn")])
            .leaves(&[("up.seq_next", 1051), ("counters.up.payload_bytes", 50)]),
        case("SYN and FIN", [up().flags(flag::SYN | flag::FIN).is("syn")]).leaves(&[("up.seq_next", 3)]),
        case("SYN and RST", [up().flags(flag::SYN | flag::RST).is("rst")]),
        case(
            "RST of an unknown flow creates nothing",
            [up().flags(flag::RST).is("rst"), down().flags(flag::RST | flag::ACK).at(1).is("rst")],
        )
        .leaves(&[("stats.nursed", 0), ("table.nursery", 0), ("counters.up.segments.rst", 1)]),
        settled("RST of a known flow", [reply().flags(flag::RST | flag::ACK).window(0).is("rst")]).leaves(&[
            ("up.flag.rst", 1),
            ("up.window_raw", 0),
            ("up.segments", 2),
        ]),
        settled("RST with a text in it", [reply().flags(flag::RST).payload(9).is("rst")])
            .leaves(&[("counters.up.segments.data", 0), ("counters.up.payload_bytes", 9)]),
        settled("FIN", [reply().flags(flag::FIN | flag::ACK).is("fin")]).leaves(&[
            ("up.flag.fin", 1),
            ("up.seq_next", 2),
            ("outstanding.up", 0),
        ]),
        case("FIN without ACK", [up().flags(flag::FIN).is("fin")]).leaves(&[("up.flag.ack", 0)]),
        settled("FIN with data is data", [reply().flags(flag::FIN | flag::ACK).payload(5).is("data")])
            .leaves(&[("up.seq_next", 7), ("counters.up.segments.fin", 0), ("outstanding.up", 5)]),
        case("no flag at all", [up().flags(0).is("other")]).leaves(&[("up.flag.window", 0)]),
        case("URG without ACK", [up().flags(flag::URG).is("other")]),
        case("data without ACK", [up().flags(0).payload(3).is("data")])
            .leaves(&[("up.flag.ack", 0), ("up.seq_next", 4)]),
    ]
}

fn acks() -> Vec<Case> {
    vec![
        case("the first ACK of a half is a plain one", [up().ack(500).is("ack")]),
        outstanding("an ACK that advances", [up().ack(301).at(2000).window(900).is("ack")]).leaves(&[
            ("up.acked_bytes", 200),
            ("up.advancing_acks", 1),
            ("outstanding.down", 0),
        ]),
        outstanding("an ACK older than the newest", [up().ack(51).at(2000).is("ack")])
            .leaves(&[("up.ack_highest", 101), ("up.advancing_acks", 0)]),
        outstanding(
            "the same ACK while data is outstanding",
            [up().ack(101).at(2000).is("dup_ack"), up().ack(101).at(3000).is("dup_ack")],
        )
        .leaves(&[("up.ack_segments", 3), ("counters.up.segments.dup_ack", 2)]),
        settled("the same ACK when nothing is outstanding", [reply().is("ack")]),
        outstanding(
            "SACK blocks make a duplicate ACK whatever the window",
            [up().ack(101).at(2000).window(7).sack(&[(201, 301)]).is("dup_ack")],
        )
        .leaves(&[("counters.up.marked_segments.sack", 1), ("counters.up.segments.sack", 0)]),
        outstanding(
            "SACK blocks on an ACK that advances",
            [up().ack(151).at(2000).sack(&[(201, 301)]).is("sack")],
        ),
        settled("SACK blocks when nothing is outstanding (D-SACK)", [reply().sack(&[(1, 51)]).is("sack")])
            .leaves(&[("counters.up.segments.sack", 1)]),
        settled("a new window, the same ACK", [reply().window(2000).is("window_update")])
            .leaves(&[("up.window_raw", 2000)]),
        outstanding(
            "a new window while data is outstanding",
            [up().ack(101).at(2000).window(2000).is("window_update")],
        ),
        settled(
            "a repeated SYN-ACK does not hide the window",
            [reply().window(2000).is("window_update"), reply().at(3000).window(2000).is("ack")],
        ),
        case(
            "the peer's FIN alone is not outstanding data",
            [
                down().payload(100).is("data"),
                up().ack(101).at(1000).is("ack"),
                down().flags(flag::FIN | flag::ACK).seq(101).at(2000).is("fin"),
                up().ack(101).at(3000).is("ack"),
                up().ack(102).at(4000).is("ack"),
            ],
        )
        .leaves(&[("outstanding.down", 0), ("up.ack_highest", 102)]),
        case(
            "ACK numbers compare modulo 2^32",
            [
                down().seq(0xffff_ff00).payload(0x200).is("data"),
                up().ack(0xffff_ff80).at(1000).is("ack"),
                up().ack(0x80).at(2000).is("ack"),
                up().ack(0x80).at(3000).is("dup_ack"),
                up().ack(0xffff_fff0).at(4000).is("ack"),
                up().ack(0x100).at(5000).is("ack"),
            ],
        )
        .leaves(&[("up.ack_highest", 0x100), ("up.acked_bytes", 0x180), ("up.advancing_acks", 2)]),
    ]
}

fn keep_alives() -> Vec<Case> {
    let data = |length| down().payload(length).is("data");
    let settled = |name, steps: Vec<Step>| {
        case(name, [data(100), up().ack(101).at(1000).is("ack")].into_iter().chain(steps))
    };
    vec![
        settled(
            "keep-alive without a byte",
            vec![down().seq(100).at(9_000_000).is("keep_alive"), up().ack(101).at(9_001_000).is("ack")],
        )
        .leaves(&[("down.seq_next", 101), ("counters.down.retransmitted_segments", 0)]),
        settled(
            "keep-alive with one garbage byte",
            vec![down().seq(100).payload(1).at(9_000_000).is("keep_alive")],
        )
        .leaves(&[
            ("down.seq_next", 101),
            ("down.retransmitted_segments", 0),
            ("down.data_segments", 1),
            ("counters.down.payload_bytes", 101),
        ]),
        case(
            "the last byte again while it is outstanding is a retransmission",
            [data(100), up().ack(51).at(1000).is("ack"), down().seq(100).payload(1).at(9_000_000).is("data")],
        )
        .leaves(&[("down.retransmitted_segments", 1)]),
        settled("two bytes are no keep-alive", vec![down().seq(99).payload(2).at(9_000_000).is("data")])
            .leaves(&[("down.retransmitted_segments", 1)]),
        settled(
            "a FIN is no keep-alive",
            vec![down().flags(flag::FIN | flag::ACK).seq(100).at(9_000_000).is("fin")],
        ),
        case(
            "keep-alive at the wrap of the sequence space",
            [
                down().seq(0xffff_fff6).payload(10).is("data"),
                up().ack(0).at(1000).is("ack"),
                down().seq(0xffff_ffff).at(9_000_000).is("keep_alive"),
            ],
        )
        .leaves(&[("down.seq_next", 0)]),
        case(
            "no keep-alive before a sequence number is known",
            [down().seq(0).is("ack"), down().seq(0).at(1000).is("ack")],
        )
        .leaves(&[("down.flag.seq", 0)]),
    ]
}

fn zero_window_probes() -> Vec<Case> {
    let closed = |name, steps: Vec<Step>| {
        let start = [down().payload(100).is("data"), up().ack(101).window(0).at(1000).is("ack")];
        case(name, start.into_iter().chain(steps))
    };
    vec![
        closed(
            "probe with the next byte",
            vec![
                down().seq(101).payload(1).at(300_000).is("zero_window_probe"),
                up().ack(101).window(0).at(301_000).is("dup_ack"),
                up().ack(102).window(500).at(500_000).is("ack"),
            ],
        )
        .leaves(&[
            ("down.seq_next", 102),
            ("down.data_segments", 1),
            ("down.retransmitted_segments", 0),
        ]),
        closed(
            "probe with an old sequence number and no byte",
            vec![
                down().seq(100).at(300_000).is("zero_window_probe"),
                up().ack(101).window(500).at(301_000).is("window_update"),
            ],
        )
        .leaves(&[("down.seq_next", 101), ("up.window_raw", 500)]),
        closed(
            "probe with the last byte again",
            vec![down().seq(100).payload(1).at(300_000).is("zero_window_probe")],
        )
        .leaves(&[("down.seq_next", 101), ("down.retransmitted_segments", 0)]),
        closed("more than a byte is data", vec![down().seq(101).payload(2).at(300_000).is("data")]),
        closed("an ACK with the next sequence number is an ACK", vec![down().seq(101).at(300_000).is("ack")]),
        closed(
            "the probe again counts no retransmission",
            vec![
                down().seq(101).payload(1).at(300_000).is("zero_window_probe"),
                down().seq(101).payload(1).at(600_000).is("zero_window_probe"),
            ],
        )
        .leaves(&[("down.seq_next", 102), ("counters.down.retransmitted_segments", 0)]),
        case(
            "a window never seen is not closed",
            [down().payload(100).is("data"), down().seq(101).payload(1).at(1000).is("data")],
        ),
    ]
}

fn bursts() -> Vec<Case> {
    let burst = |name, acks: u32| {
        let acks = (0..acks).map(|i| up().ack(1 + i).at(u64::from(i)).is("ack"));
        case(name, acks.chain([up().payload(10).at(10_000).is("data")]))
    };
    vec![
        case(
            "ACKs between data, over all flows of a direction",
            [
                up().payload(10).is("data"),
                up().seq(11).payload(10).at(1).is("data"),
                up().seq(21).at(2).is("ack"),
                up().home_port(41_000).at(3).is("ack"),
                up().home_port(41_000).at(4).window(9).is("window_update"),
                up().seq(21).payload(10).at(5).is("data"),
                up().seq(31).ack(2).at(6).is("ack"),
                up().home_port(41_000).payload(1).at(7).is("data"),
                up().seq(31).ack(3).at(8).is("ack"),
            ],
        )
        .leaves(&[
            ("counters.up.bursts.1", 1),
            ("counters.up.bursts.2", 0),
            ("counters.up.bursts.3", 1),
            ("counters.up.burst_segments", 4),
        ]),
        case(
            "other classes neither count nor end a burst",
            [
                up().at(1).is("ack"),
                up().home_port(41_000).flags(flag::SYN).at(2).is("syn"),
                up().home_port(42_000).flags(flag::FIN | flag::ACK).at(3).is("fin"),
                up().protocol(17).at(4).is("non_tcp"),
                up().ack(2).at(5).is("ack"),
                up().payload(10).at(6).is("data"),
            ],
        )
        .leaves(&[("counters.up.bursts.2", 1), ("counters.up.burst_segments", 2)]),
        case(
            "the directions are apart",
            [
                up().at(1).is("ack"),
                down().payload(10).at(2).is("data"),
                up().ack(11).at(3).is("ack"),
                up().payload(10).ack(11).at(4).is("data"),
            ],
        )
        .leaves(&[("counters.up.bursts.2", 1), ("counters.down.burst_segments", 0)]),
        burst("a burst of 63 has its own slot", 63).leaves(&[("counters.up.bursts.63", 1)]),
        burst("a burst of 64 goes to the last slot", 64).leaves(&[("counters.up.bursts.64", 1)]),
        burst("so does one of 70, which keeps its length in the sum", 70)
            .leaves(&[("counters.up.bursts.64", 1), ("counters.up.burst_segments", 70)]),
    ]
}
