//! Sequence space, outstanding data, retransmission and reordering, and the life of a flow.

use super::super::craft::{Tcp, down, flag, up};
use super::{Case, Step, case};

pub(super) fn cases() -> Vec<Case> {
    [life(), sequence(), late_segments(), acknowledgement()].concat()
}

fn syn(isn: u32) -> Tcp {
    up().flags(flag::SYN).seq(isn).ack(0)
}

fn life() -> Vec<Case> {
    vec![
        case(
            "a flow seen one way stays in the nursery",
            [syn(1000).is("syn"), syn(1000).at(1_000_000).is("syn")],
        )
        .leaves(&[
            ("stats.nursed", 1),
            ("stats.promoted", 0),
            ("stats.restarted", 0),
            ("table.nursery", 1),
            ("table.flows", 0),
            ("up.segments", 2),
            ("up.retransmitted_segments", 0),
            ("up.first_seen_ns", 0),
            ("up.last_seen_ns", 1_000_000_000),
        ]),
        case(
            "the other half's segment moves it to the table, with its state",
            [syn(1000).is("syn"), down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(1000).is("syn")],
        )
        .leaves(&[
            ("stats.nursed", 1),
            ("stats.promoted", 1),
            ("table.nursery", 0),
            ("table.flows", 1),
            ("up.isn", 1000),
            ("down.first_seen_ns", 1_000_000),
        ]),
        case(
            "a refused connection is no conversation, nor is the next attempt",
            [
                syn(1000).is("syn"),
                down().flags(flag::RST | flag::ACK).seq(0).ack(1001).at(1000).is("rst"),
                syn(1000).at(2000).is("syn"),
                down().flags(flag::RST | flag::ACK).seq(0).ack(1001).at(3000).is("rst"),
            ],
        )
        .leaves(&[
            ("stats.promoted", 0),
            ("table.nursery", 1),
            ("table.flows", 0),
            ("up.segments", 2),
            ("down.flag.rst", 1),
        ]),
        case(
            "a connection that is taken after a refusal is one",
            [
                syn(1000).is("syn"),
                down().flags(flag::RST | flag::ACK).seq(0).ack(1001).at(1000).is("rst"),
                syn(1000).at(2000).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(3000).is("syn"),
            ],
        )
        .leaves(&[("stats.promoted", 1), ("table.nursery", 0), ("table.flows", 1)]),
        case(
            "a flow met in its middle",
            [down().seq(70_000).payload(500).ack(9).is("data"), up().seq(9).ack(70_500).at(1000).is("ack")],
        )
        .leaves(&[("stats.promoted", 1), ("down.seq_next", 70_500), ("up.flag.seq", 0)]),
        case(
            "a new connection on the same tuple",
            [
                syn(1000).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(1000).is("syn"),
                up().seq(1001).ack(5001).payload(10).at(2000).is("data"),
                syn(77_000).at(9_000_000).is("syn"),
            ],
        )
        .leaves(&[
            ("stats.restarted", 1),
            ("stats.nursed", 1),
            ("table.flows", 1),
            ("up.isn", 77_000),
            ("up.seq_next", 77_001),
            ("up.segments", 1),
            ("up.payload_bytes", 0),
            ("up.first_seen_ns", 9_000_000_000),
            ("down.segments", 0),
            ("down.flags", 0),
        ]),
        case(
            "a SYN on a flow that was met in its middle",
            [up().seq(500).payload(10).is("data"), syn(77_000).at(1000).is("syn")],
        )
        .leaves(&[("stats.restarted", 1), ("up.isn", 77_000), ("up.payload_bytes", 0)]),
        case(
            "a SYN-ACK restarts nothing",
            [
                syn(1000).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(1000).is("syn"),
                down().flags(flag::SYN | flag::ACK).seq(5000).ack(1001).at(2000).is("syn"),
            ],
        )
        .leaves(&[("stats.restarted", 0), ("down.retransmitted_segments", 0), ("down.segments", 2)]),
        case(
            "an unknown half's first SYN restarts nothing",
            [up().seq(500).is("ack"), down().flags(flag::SYN).seq(900).ack(0).at(1000).is("syn")],
        )
        .leaves(&[("stats.restarted", 0), ("up.segments", 1), ("down.isn", 900)]),
        case("tuples are apart by port", [up().is("ack"), up().home_port(41_000).is("ack")]).leaves(&[
            ("stats.nursed", 2),
            ("table.nursery", 2),
            ("up.segments", 1),
        ]),
        case("IPv4 and IPv6 are apart", [up().is("ack"), up().v6().is("ack")]).leaves(&[("stats.nursed", 2)]),
    ]
}

fn sequence() -> Vec<Case> {
    vec![
        case(
            "outstanding data and its maximum",
            [
                up().seq(1).ack(1).payload(1000).is("data"),
                down().seq(1).ack(1).at(1000).is("ack"),
                up().seq(1001).payload(1000).at(2000).is("data"),
                up().seq(2001).payload(1000).at(3000).is("data"),
                down().ack(2001).at(4000).is("ack"),
                up().seq(3001).payload(500).at(5000).is("data"),
            ],
        )
        .leaves(&[
            ("up.seq_next", 3501),
            ("up.in_flight_max_bytes", 3000),
            ("outstanding.up", 1500),
            ("down.acked_bytes", 2000),
        ]),
        case(
            "the sequence space wraps",
            [
                up().seq(0xffff_ff9c).payload(200).is("data"),
                down().ack(0xffff_ff9c).at(1000).is("ack"),
                up().seq(100).payload(200).at(2000).is("data"),
            ],
        )
        .leaves(&[
            ("up.seq_next", 300),
            ("up.retransmitted_segments", 0),
            ("up.in_flight_max_bytes", 400),
            ("outstanding.up", 400),
        ]),
        case(
            "a FIN counts in the sequence space, not in flight",
            [
                up().seq(1).payload(100).is("data"),
                down().ack(1).at(1000).is("ack"),
                up().flags(flag::FIN | flag::ACK).seq(101).payload(50).at(2000).is("data"),
            ],
        )
        .leaves(&[("up.seq_next", 152), ("up.in_flight_max_bytes", 150), ("outstanding.up", 150)]),
        case(
            "a jump of more than 2^30 starts anew",
            [
                up().seq(1).payload(100).is("data"),
                up().seq(201).payload(100).at(1).is("data"),
                up().seq(0x4000_0200).payload(100).at(2).is("data").losing(&["sequence_jump"]),
                up().seq(0x4000_0264).payload(100).at(3).is("data"),
            ],
        )
        .leaves(&[
            ("up.seq_next", 0x4000_02c8),
            ("up.flag.hole", 0),
            ("up.retransmitted_segments", 0),
            ("up.segments", 4),
        ]),
        case(
            "a jump of 2^30 is still a gap",
            [up().seq(1).payload(100).is("data"), up().seq(0x4000_0001).payload(100).at(1).is("data")],
        )
        .leaves(&[("up.seq_next", 0x4000_0065), ("up.flag.hole", 1)]),
        case(
            "a jump backwards starts anew, too",
            [
                up().seq(0x8000_0000).payload(100).is("data"),
                up().seq(1).payload(100).at(1).is("data").losing(&["sequence_jump"]),
            ],
        )
        .leaves(&[("up.seq_next", 101), ("up.retransmitted_segments", 0)]),
    ]
}

/// Bytes 1…100 and 201…300 have passed; 101…200 are missing since 1 ms.
fn with_hole(name: &'static str, steps: impl IntoIterator<Item = Step>) -> Case {
    let start = [up().payload(100).is("data"), up().seq(201).payload(100).at(1000).is("data")];
    case(name, start.into_iter().chain(steps))
}

fn late_segments() -> Vec<Case> {
    let fill = |us| up().seq(101).payload(100).at(us).is("data");
    vec![
        case("a repeated segment", [up().payload(100).is("data"), up().payload(100).at(300_000).is("data")])
            .leaves(&[
                ("counters.up.retransmitted_segments", 1),
                ("counters.up.reordered_segments", 0),
                ("up.retransmitted_segments", 1),
                ("up.seq_next", 101),
                ("up.payload_bytes", 200),
                ("up.data_segments", 2),
            ]),
        case(
            "a repeated segment that brings new bytes",
            [up().payload(100).is("data"), up().seq(51).payload(100).at(1000).is("data")],
        )
        .leaves(&[("up.retransmitted_segments", 1), ("up.seq_next", 151)]),
        case(
            "a repeated FIN is no retransmitted data",
            [
                up().payload(100).is("data"),
                up().flags(flag::FIN | flag::ACK).seq(101).at(1000).is("fin"),
                up().flags(flag::FIN | flag::ACK).seq(101).at(900_000).is("fin"),
            ],
        )
        .leaves(&[("up.retransmitted_segments", 0), ("up.seq_next", 102)]),
        with_hole("a gap", []).leaves(&[
            ("up.flag.hole", 1),
            ("up.hole_start", 101),
            ("up.hole_end", 201),
            ("up.hole_at_ns", 1_000_000),
            ("up.seq_next", 301),
            ("up.retransmitted_segments", 0),
        ]),
        with_hole("filled within 3 ms: reordered", [fill(3_999)]).leaves(&[
            ("up.reordered_segments", 1),
            ("counters.up.reordered_segments", 1),
            ("up.retransmitted_segments", 0),
            ("up.seq_next", 301),
        ]),
        with_hole("filled after 3 ms: retransmitted", [fill(4_000)])
            .leaves(&[("up.reordered_segments", 0), ("up.retransmitted_segments", 1)]),
        with_hole(
            "filled in two pieces",
            [up().seq(101).payload(50).at(1500).is("data"), up().seq(151).payload(50).at(1600).is("data")],
        )
        .leaves(&[("up.reordered_segments", 2)]),
        with_hole("a segment that reaches beyond the gap", [up().seq(150).payload(100).at(1500).is("data")])
            .leaves(&[("up.reordered_segments", 0), ("up.retransmitted_segments", 1)]),
        with_hole("a segment that starts before the gap", [up().seq(90).payload(20).at(1500).is("data")])
            .leaves(&[("up.retransmitted_segments", 1)]),
        with_hole(
            "only the newest gap is remembered",
            [
                up().seq(401).payload(100).at(1500).is("data"),
                fill(1600),
                up().seq(301).payload(100).at(1700).is("data"),
            ],
        )
        .leaves(&[
            ("up.reordered_segments", 1),
            ("up.retransmitted_segments", 1),
            ("up.hole_start", 301),
            ("up.hole_end", 401),
        ]),
        // RTT of the home end's segment: 12,800 µs. Half of it is the window: 6,400 µs.
        case(
            "where an RTT is known, half of it is the window",
            [
                up().ts(10, 0).payload(100).at(1_280).is("data"),
                down().ts(90, 10).ack(101).at(14_080).is("ack"),
                up().ts(20, 90).seq(201).payload(100).at(20_000).is("data"),
                up().ts(20, 90).seq(101).payload(50).at(26_399).is("data"),
                up().ts(20, 90).seq(151).payload(50).at(26_400).is("data"),
            ],
        )
        .leaves(&[
            ("up.rtt_min_us", 12_800),
            ("up.reordered_segments", 1),
            ("up.retransmitted_segments", 1),
        ]),
    ]
}

fn acknowledgement() -> Vec<Case> {
    vec![
        case(
            "delayed ACKs: bytes over advancing ACKs",
            [
                down().payload(1000).is("data"),
                down().seq(1001).payload(1000).at(1).is("data"),
                up().ack(1).at(2).is("ack"),
                up().ack(2001).at(3).is("ack"),
                down().seq(2001).payload(1000).at(4).is("data"),
                up().ack(3001).payload(10).at(5).is("data"),
            ],
        )
        .leaves(&[
            ("up.acked_bytes", 3000),
            ("up.advancing_acks", 2),
            ("up.ack_segments", 2),
            ("up.ack_highest", 3001),
        ]),
        case(
            "an ACK of data that never passed",
            [
                down().payload(100).is("data"),
                up().ack(101).at(1).is("ack"),
                up().ack(501).at(2).is("ack").losing(&["ack_of_unseen"]),
            ],
        )
        .leaves(&[("down.seq_next", 501), ("up.ack_highest", 501), ("outstanding.down", 0)]),
        case(
            "the first ACK of a half may be of unseen data, too",
            [down().payload(100).is("data"), up().ack(301).at(1).is("ack").losing(&["ack_of_unseen"])],
        )
        .leaves(&[("down.seq_next", 301), ("up.advancing_acks", 0)]),
        case(
            "an ACK jump of more than 2^30",
            [up().ack(1).is("ack"), up().ack(0x6000_0000).at(1).is("ack").losing(&["sequence_jump"])],
        )
        .leaves(&[("up.ack_highest", 0x6000_0000), ("up.acked_bytes", 0), ("up.advancing_acks", 0)]),
        case(
            "sequence and ACK may jump in one segment",
            [
                up().seq(1).ack(1).payload(10).is("data"),
                up().seq(0x6000_0000)
                    .ack(0x6000_0000)
                    .payload(10)
                    .at(1)
                    .is("data")
                    .losing(&["sequence_jump", "sequence_jump"]),
            ],
        )
        .leaves(&[("up.seq_next", 0x6000_000a), ("up.ack_highest", 0x6000_0000)]),
        case(
            "without the ACK flag the number means nothing",
            [up().ack(1).is("ack"), up().flags(0).ack(0x7000_0000).at(1).is("other")],
        )
        .leaves(&[("up.ack_highest", 1)]),
    ]
}
