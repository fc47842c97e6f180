//! What is dropped, why, and what of it stood in the queue: the rules of `bpf/queue/queue.bpf.c` by figures worked out by hand.

use pendulum_model::segment::Direction;

use crate::bench::{AQM, Bench, CAKE, DRIFT, DROPS_INSIDE, EXACT, UNKNOWN_ACK, ack, data, events};
use crate::native::{Kind, mark};

// `SKB_DROP_REASON_…` (`bpf/common/kernel.h`).
const NOT_SPECIFIED: u32 = 2;
const QDISC_DROP: u32 = 3;
const OVERLIMIT: u32 = 4;
const CONGESTED: u32 = 5;
const BURST_DROP: u32 = 10;
/// Where the qdiscs' own reasons begin in the harness, 7.0.
const QDISCS: u32 = 0x40000;

/// Where each reason goes, by kernel: over the limit, AQM, ACK filter, other.
#[test]
fn drops_are_counted_by_reason() {
    // Kernel, kind of qdisc, reason, index of the count.
    let cases = [
        (14, "tbf", QDISC_DROP, 0),
        (14, "tbf", OVERLIMIT, 0),
        (14, "fq", 7, 0),
        (14, "fq", 9, 0),
        (14, "codel", CONGESTED, 1),
        (14, "cake", 6, 1),
        (14, "fq", 8, 1),
        (14, "tbf", 77, 3),
        // Before 6.14 an AQM gives no reason, and the numbers above mean other things.
        (1, "fq_codel", NOT_SPECIFIED, 1),
        (1, "tbf", NOT_SPECIFIED, 3),
        (1, "tbf", OVERLIMIT, 3),
        (1, "tbf", QDISC_DROP, 0),
        // From then on what gives none is not the AQM: the driver, say.
        (14, "fq_codel", NOT_SPECIFIED, 3),
        (20, "fq_codel", NOT_SPECIFIED, 3),
        // Too many wait for the qdisc's lock, 6.19.
        (18, "tbf", BURST_DROP, 3),
        (19, "tbf", BURST_DROP, 0),
        (20, "cake", BURST_DROP, 0),
        (20, "fq_codel", QDISCS + 1, 1),
        (20, "tbf", QDISCS + 1, 0),
        (20, "tbf", QDISCS + 2, 0),
        (20, "codel", QDISCS + 3, 1),
        (20, "fq", QDISCS + 4, 0),
        (20, "cake", QDISCS + 5, 1),
        (20, "fq", QDISCS + 6, 0),
        (20, "fq", QDISCS + 7, 1),
        (20, "fq", QDISCS + 8, 0),
        (20, "dualpi2", QDISCS + 9, 1),
    ];
    for (kernel, kind, reason, index) in cases {
        let Some(mut bench) = Bench::new("drops_are_counted_by_reason", kind) else { return };
        bench.say(format!("kernel {kernel}")).enqueue([100, 1], 100, data(1000));
        let shown = bench.say(format!("drop 0 700 {} {reason}", data(1000))).show();
        let mut expected = [0; 4];
        expected[index] = 1;
        assert_eq!(shown.queue.row::<4>("drops"), expected, "{kind}, reason {reason} of 6.{kernel}");
        assert_eq!(shown.queue.pair("dropped_bytes"), [700, 0]);
        assert_eq!(shown.queue.pair("dropped_packets"), [1, 0]);
    }
}

#[test]
fn drops_of_others_are_none_of_ours() {
    let Some(mut bench) = Bench::new("drops_of_others_are_none_of_ours", "tbf") else { return };
    bench.enqueue([100, 1], 100, data(1000));
    // Not marked; of the other direction; no device.
    bench.say(format!("drop 0 100 0 {QDISC_DROP}"));
    bench.say(format!("drop 0 100 {} {QDISC_DROP}", mark(Direction::Down, Kind::Data, 1_000_000_000)));
    bench.say(format!("drop -1 100 {} {QDISC_DROP}", data(1000)));
    let shown = bench.show();
    assert_eq!(shown.queue.row::<4>("drops"), [0; 4]);
    assert_eq!(shown.queue.pair("dropped_packets"), [0, 0]);
}

/// An ACK that found no room was never in the queue, nor was what an egress filter or the driver drops (77: a reason that is no
/// qdisc's); one that is dropped inside was.
#[test]
fn an_ack_dropped_inside_leaves_the_level() {
    for (kernel, kind, reason, stay) in [
        (14, "tbf", QDISC_DROP, 2),
        (14, "tbf", 77, 2),
        (14, "codel", 77, 2),
        (14, "cake", 77, 2),
        (14, "fq_codel", NOT_SPECIFIED, 2),
        (19, "cake", BURST_DROP, 2),
        (20, "fq_codel", NOT_SPECIFIED, 2),
        (20, "tbf", QDISCS + 1, 2),
        (20, "sfq", QDISCS + 1, 1),
        (14, "codel", CONGESTED, 1),
        (1, "codel", NOT_SPECIFIED, 1),
        (14, "sfq", QDISC_DROP, 1),
    ] {
        let Some(mut bench) = Bench::new("an_ack_dropped_inside…", kind) else { return };
        bench.say(format!("kernel {kernel}")).enqueue([66, 1], 66, ack(1000)).enqueue(
            [132, 2],
            66,
            ack(1000),
        );
        bench.say(format!("drop 0 66 {} {reason}", ack(1000))).clock(1001);
        // The next event: a packet of data comes.
        let left = stay * 66;
        let shown = bench.enqueue([left + 1000, stay + 1], 1000, data(1001)).show();
        let stay = u64::from(stay);
        assert_eq!(
            shown.queue.level(),
            [u64::from(left) + 1000, stay + 1, stay * 66, stay],
            "{kind} {reason}"
        );
        assert_eq!(shown.queue.pair("dropped_bytes"), [0, 66]);
        assert_eq!(shown.queue.pair("dropped_packets"), [0, 1]);
    }
}

/// What an AQM dropped between two events has come as well: nothing comes twice, and nothing less than what an event reported.
#[test]
fn what_an_aqm_drops_inside_still_came() {
    let Some(mut bench) = Bench::new("what_an_aqm_drops_inside_still_came", "codel") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).enqueue([2000, 2], 1000, data(1000));
    bench.say(format!("drop 0 1000 {} {CONGESTED}", data(1000))).clock(1001);
    let shown = bench.enqueue([2000, 2], 1000, data(1001)).show();
    assert_eq!(shown.queue.pair("enqueued_bytes"), [3000, 0]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [3, 0]);
    assert_eq!(events(&shown)[DRIFT], 0);
    // At a dequeue nothing came.
    let Some(mut bench) = Bench::new("what_an_aqm_drops_inside_still_came", "codel") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).enqueue([2000, 2], 1000, data(1000)).clock(1001);
    let shown = bench.dequeue([0, 0], [1000, 1], &[(1000, data(1000))]).show();
    assert_eq!(shown.queue.pair("enqueued_bytes"), [2000, 0]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [2, 0]);
}

/// CAKE's ACK filter: an ACK comes, the length stays, nothing was sent; an older one went without a trace.
#[test]
fn cakes_ack_filter_shows_by_the_length() {
    let Some(mut bench) = Bench::new("cakes_ack_filter_shows_by_the_length", "cake") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).enqueue([1066, 2], 66, ack(1000));
    // The one of 66 bytes makes way for one of 78.
    let shown = bench.clock(1001).enqueue([1078, 2], 78, ack(1001)).show();
    assert_eq!(shown.queue.row::<4>("drops"), [0, 0, 1, 0]);
    assert_eq!(shown.queue.pair("dropped_bytes"), [0, 66]);
    assert_eq!(shown.queue.pair("dropped_packets"), [0, 1]);
    assert_eq!(shown.queue.level(), [1078, 2, 78, 1]);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [1000, 144]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [1, 2]);
    // All of what came is there, and something else has gone: no ACK was filtered.
    let Some(mut bench) = Bench::new("cakes_ack_filter…", "cake") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).enqueue([1066, 2], 66, ack(1000));
    let shown = bench.clock(1001).enqueue([1144, 2], 78, ack(1001)).show();
    assert_eq!(shown.queue.row::<4>("drops"), [0; 4]);
    // No other qdisc does that.
    let Some(mut bench) = Bench::new("cakes_ack_filter…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).enqueue([1066, 2], 66, ack(1000));
    let shown = bench.clock(1001).enqueue([1078, 2], 78, ack(1001)).show();
    assert_eq!(shown.queue.row::<4>("drops"), [0; 4]);
}

/// Data of the connection makes an older ACK go as well (`cake_ack_filter` of net/sched/sch_cake.c asks for the ACK flag only).
#[test]
fn data_triggers_cakes_ack_filter() {
    let Some(mut bench) = Bench::new("data_triggers_cakes_ack_filter", "cake") else { return };
    bench.enqueue([66, 1], 66, ack(1000)).enqueue([132, 2], 66, ack(1000));
    let shown = bench.clock(1001).enqueue([66 + 1514, 2], 1514, data(1001)).show();
    assert_eq!(shown.queue.row::<4>("drops"), [0, 0, 1, 0]);
    assert_eq!(shown.queue.pair("dropped_bytes"), [0, 66]);
    assert_eq!(shown.queue.level(), [66 + 1514, 2, 66, 1]);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [1514, 132]);
    assert_eq!(events(&shown)[DRIFT], 0);
    // A whole packet of another flow made way, or something short where no ACK stands: the memory limit, which is traced.
    for (standing, word) in [((1000, ack(1000)), data(1001)), ((66, data(1000)), data(1001))] {
        let Some(mut bench) = Bench::new("data_triggers_cakes_ack_filter", "cake") else { return };
        bench.enqueue([standing.0, 1], standing.0, standing.1);
        let shown = bench.clock(1001).enqueue([1514, 1], 1514, word).show();
        assert_eq!(shown.queue.row::<4>("drops"), [0; 4], "{standing:?}");
    }
}

/// The filter does not say which ACK it took out, and the oldest is taken for it. If that one leaves after all, one of the next second stays in
/// the account until the queue is empty: a drift, which the count of unknown ACKs explains. 1073 ms and 1074 ms are in two seconds of 2^30 ns.
#[test]
fn an_ack_filtered_in_another_second_is_counted_as_unknown() {
    for (last, unknown, drift) in [(1073, 0, 0), (1074, 1, 1)] {
        let Some(mut bench) = Bench::new("an_ack_filtered_in_another_second…", "cake") else { return };
        bench.clock(1070).enqueue([66, 1], 66, ack(1070));
        bench.clock(last).enqueue([132, 2], 66, ack(last)).enqueue([132, 2], 66, ack(last));
        bench.clock(1080).dequeue([66, 1], [66, 1], &[(66, ack(1070))]);
        bench.clock(1081).dequeue([0, 0], [132, 2], &[(66, ack(last))]);
        let shown = bench.show();
        assert_eq!(shown.queue.row::<4>("drops"), [0, 0, 1, 0]);
        assert_eq!(
            [events(&shown)[UNKNOWN_ACK], events(&shown)[DRIFT]],
            [unknown, drift],
            "last at {last} ms"
        );
        assert_eq!(shown.queue.level(), [0; 4]);
    }
}

/// A second of which no ACK is left does not make an ACK unknown.
#[test]
fn an_ack_dropped_behind_an_empty_second_is_known() {
    let Some(mut bench) = Bench::new("an_ack_dropped_behind_an_empty_second…", "codel") else { return };
    bench.clock(1070).enqueue([66, 1], 66, ack(1070));
    bench.clock(1074).enqueue([132, 2], 66, ack(1074)).enqueue([198, 3], 66, ack(1074));
    bench.clock(1080).dequeue([132, 2], [66, 1], &[(66, ack(1070))]);
    bench.say(format!("drop 0 66 {} {CONGESTED}", ack(1074)));
    let shown = bench.clock(1081).dequeue([0, 0], [132, 2], &[(66, ack(1074))]).show();
    assert_eq!([events(&shown)[UNKNOWN_ACK], events(&shown)[DRIFT]], [0, 0]);
    assert_eq!(shown.queue.level(), [0; 4]);
}

#[test]
fn what_a_qdisc_does_inside_is_known_by_its_kind() {
    let kinds = [
        ("tbf", EXACT),
        ("bfifo", EXACT),
        ("cake", EXACT | CAKE | DROPS_INSIDE | AQM),
        ("fq_codel", EXACT | DROPS_INSIDE | AQM),
        ("sfq", EXACT | DROPS_INSIDE),
        ("codel", EXACT | AQM),
        ("pie", EXACT | AQM),
    ];
    for (kind, flags) in kinds {
        let Some(mut bench) = Bench::new("what_a_qdisc_does_inside…", kind) else { return };
        assert_eq!(bench.enqueue([100, 1], 100, data(1000)).show().queue.get("flags"), flags, "{kind}");
    }
    // And by what the agent found below the root.
    let Some(mut bench) = Bench::new("what_a_qdisc_does_inside…", "htb") else { return };
    bench.say(format!("register 0 7 4026531840 {AQM}"));
    assert_eq!(bench.enqueue([100, 1], 100, data(1000)).show().queue.get("flags"), EXACT | AQM);
}

/// What was dropped inside the qdisc before takes nothing off the one in its place.
#[test]
fn an_ack_dropped_inside_belongs_to_its_qdisc() {
    let Some(mut bench) = Bench::new("an_ack_dropped_inside_belongs_to_its_qdisc", "codel") else { return };
    bench.enqueue([66, 1], 66, ack(1000)).say(format!("drop 0 66 {} {CONGESTED}", ack(1000)));
    bench.say("qdisc 1 codel 0xffffffff 0").clock(1001);
    bench.say("holds 1 78 1").say(format!("enqueue 1 0 78 {}", ack(1001)));
    bench.clock(1002).say("holds 1 156 2").say(format!("enqueue 1 0 78 {}", ack(1002)));
    assert_eq!(bench.show().queue.level(), [156, 2, 156, 2]);
}

/// If the event of one that came was left out, more ACKs may be dropped than are known to stand there.
#[test]
fn no_more_acks_leave_than_stand_there() {
    let Some(mut bench) = Bench::new("no_more_acks_leave_than_stand_there", "codel") else { return };
    bench.enqueue([66, 1], 66, ack(1000));
    for _ in 0..2 {
        bench.say(format!("drop 0 66 {} {CONGESTED}", ack(1000)));
    }
    let shown = bench.clock(1001).enqueue([2000, 2], 1000, data(1001)).show();
    assert_eq!(shown.queue.level(), [2000, 2, 0, 0]);
}
