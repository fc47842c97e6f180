//! The rules of `bpf/queue/queue.h` and `bpf/queue/queue.bpf.c`, one by one, on a qdisc that the test makes up (`native/harness.c`): figures
//! worked out by hand.

use pendulum::bpf::abi::TIME_BOUNDS_US;
use pendulum_model::segment::Direction;

use crate::account::{JIFFY_NS, NEAR_JIFFIES};
use crate::bench::{ADOPTED, Bench, DRIFT, EXACT, LONG_CHAIN, REQUEUED, ROOT, UNMARKED, ack, data, events};
use crate::native::{Kind, Shown, TICK_NS, mark};

/// `SKB_DROP_REASON_QDISC_DROP`.
const QDISC_DROP: u32 = 3;

#[test]
fn what_stood_before_the_first_event_is_level_and_not_traffic() {
    let Some(mut bench) = Bench::new("what_stood_before_the_first_event…", "tbf") else { return };
    // Three packets of 1000 bytes stood there; the fourth's event is the first one we get.
    let shown = bench.say("has_sent 0 70000 70").enqueue([4000, 4], 1000, data(1000)).show();
    assert_eq!(shown.queue.level(), [4000, 4, 0, 0]);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [1000, 0]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [1, 0]);
    assert_eq!(shown.queue.pair("dequeued_bytes"), [0, 0], "what it sent before is not counted");
    assert_eq!((shown.queue.get("min_bytes"), shown.queue.get("max_bytes")), (3000, 4000));
    assert_eq!((shown.queue.get("min_packets"), shown.queue.get("max_packets")), (3, 4));
    assert_eq!(shown.queue.get("flags"), EXACT);
    assert_eq!(events(&shown)[ADOPTED], 1);
    assert_eq!(events(&shown)[DRIFT], 0);
}

#[test]
fn a_dequeue_as_the_first_event_only_shows_the_qdisc() {
    let Some(mut bench) = Bench::new("a_dequeue_as_the_first_event…", "tbf") else { return };
    let shown = bench.dequeue([2000, 2], [1000, 1], &[(1000, data(1000))]).show();
    assert_eq!(shown.queue.level(), [2000, 2, 0, 0]);
    assert_eq!(shown.queue.pair("dequeued_bytes"), [0, 0]);
    assert_eq!(shown.queue.get("sent_bytes"), 1000);
}

#[test]
fn all_that_a_qdisc_did_that_took_anothers_place_is_counted() {
    let Some(mut bench) = Bench::new("all_that_a_qdisc_did_that_took…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, ack(1000));
    // It goes with what stood in it; the new one has sent two packets past us, and holds the one of this event.
    bench.say("qdisc 1 bfifo 0xffffffff 0").clock(1010);
    bench.say("holds 1 500 1").say("has_sent 1 3000 2").say(format!("enqueue 1 0 500 {}", data(1010)));
    let shown = bench.show();
    assert_eq!(shown.queue.level(), [500, 1, 0, 0]);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [500 + 3000, 1000]);
    assert_eq!(shown.queue.pair("dequeued_bytes"), [3000, 0]);
    assert_eq!(shown.queue.pair("dequeued_packets"), [2, 0]);
    assert_eq!(events(&shown)[ADOPTED], 2);
    assert_eq!(events(&shown)[DRIFT], 1, "what was sent unseen");
}

/// What is known of one by its kind is not known of the next.
#[test]
fn a_qdisc_of_another_kind_is_judged_anew() {
    let Some(mut bench) = Bench::new("a_qdisc_of_another_kind_is_judged_anew", "cake") else { return };
    bench.enqueue([100, 1], 100, data(1000)).say("qdisc 1 tbf 0xffffffff 0").clock(1001);
    let shown = bench.say("holds 1 100 1").say(format!("enqueue 1 0 100 {}", data(1001))).show();
    assert_eq!(shown.queue.get("flags"), EXACT);
}

/// At the same address, of the same kind.
#[test]
fn a_qdisc_that_has_sent_less_than_before_is_another_one() {
    let Some(mut bench) = Bench::new("a_qdisc_that_has_sent_less…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, data(1000));
    bench.clock(1001).dequeue([0, 0], [1000, 1], &[(1000, data(1000))]);
    bench.clock(1002).say("has_sent 0 0 0").enqueue([700, 1], 700, data(1002));
    let shown = bench.show();
    assert_eq!(events(&shown)[ADOPTED], 2);
    assert_eq!(shown.queue.level(), [700, 1, 0, 0]);
    assert_eq!(shown.queue.pair("dequeued_bytes"), [1000, 0]);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [1700, 0]);
}

/// At the same addresses as the registered one and its qdisc had.
#[test]
fn another_device_in_its_place_does_not_count() {
    let Some(mut bench) = Bench::new("another_device_in_its_place…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, data(1000)).say("device 0 8 4026531840");
    let shown = bench.clock(1001).enqueue([1700, 2], 700, data(1001)).show();
    assert_eq!(shown.queue.level(), [1000, 1, 0, 0]);
}

#[test]
fn only_the_registered_device_of_that_namespace_counts() {
    let Some(mut bench) = Bench::new("only_the_registered_device…", "tbf") else { return };
    // Another device, and one of the same number in another namespace.
    bench.say("device 1 8 4026531840").say("device 2 7 4026531841").say("holds 0 100 1");
    for device in [1, 2] {
        bench.say(format!("enqueue 0 {device} 100 {}", data(1000)));
        bench.say(format!("drop {device} 100 {} {QDISC_DROP}", data(1000)));
    }
    let shown = bench.show();
    assert_eq!(events(&shown), [0; 6]);
    assert_eq!(shown.queue.row::<4>("drops"), [0; 4]);
}

/// The shaping ifb of the downlink has a queue of its own.
#[test]
fn each_direction_has_its_own_account() {
    let Some(mut bench) = Bench::new("each_direction_has_its_own_account", "tbf") else { return };
    bench.say("device 1 9 4026531840").say("register 1 9 4026531840 0").say("qdisc 1 tbf 0xffffffff 0");
    bench.enqueue([100, 1], 100, data(1000));
    let down = mark(Direction::Down, Kind::Ack, 1_000_000_000);
    bench.say("holds 1 60 1").say(format!("enqueue 1 1 60 {down}"));
    bench.clock(1002).say("holds 1 0 0").say("has_sent 1 60 1").say(format!("dequeue 1 1 1 60 {down}"));
    bench.say("show 0").say("show 1");
    let [up, down] = bench.0.run().try_into().expect("two were shown");
    assert_eq!(up.queue.level(), [100, 1, 0, 0]);
    assert_eq!(down.queue.level(), [0; 4]);
    assert_eq!(up.queue.pair("enqueued_bytes"), [100, 0]);
    assert_eq!(down.queue.pair("enqueued_bytes"), [0, 60]);
    // 244140 and 244628 are the ticks of 1 s and 1.002 s: 488 of 4.096 µs.
    assert_eq!(down.queue.pair("sojourn_sum_us"), [0, 488 * TICK_NS / 1000]);
    assert_eq!(up.sojourns[1].get("sum_us"), 0);
    assert_eq!(down.sojourns[1].get("sum_us"), 488 * TICK_NS / 1000);
}

/// A packet that was redirected to the ifb on its way in carries the other direction's word when it leaves by the uplink.
#[test]
fn a_word_of_the_other_direction_is_none() {
    let Some(mut bench) = Bench::new("a_word_of_the_other_direction_is_none", "tbf") else { return };
    let foreign = mark(Direction::Down, Kind::Ack, 1_000_000_000);
    bench.enqueue([60, 1], 60, foreign);
    bench.clock(1005).dequeue([0, 0], [60, 1], &[(60, foreign)]);
    let shown = bench.show();
    assert_eq!(shown.queue.pair("enqueued_packets"), [1, 0], "what is not marked is data");
    assert_eq!(shown.queue.pair("dequeued_packets"), [1, 0]);
    assert_eq!(shown.queue.pair("sojourn_packets"), [0, 0]);
    assert_eq!(events(&shown)[UNMARKED], 1);
    // Its time is the clock's.
    assert_eq!(shown.queue.get("bytes_ns"), 60 * 5_000_000);
    // Neither is one whose magic is another's, by a bit.
    let Some(mut bench) = Bench::new("a_word_of_the_other_direction_is_none", "tbf") else { return };
    let shown = bench.enqueue([60, 1], 60, ack(1000) ^ 1 << 26).show();
    assert_eq!(shown.queue.pair("enqueued_packets"), [1, 0]);
}

#[test]
fn a_packet_given_back_by_the_driver_is_sent_once() {
    let Some(mut bench) = Bench::new("a_packet_given_back_by_the_driver…", "tbf") else { return };
    bench.enqueue([66, 1], 66, ack(1000));
    bench.clock(1001).dequeue([0, 0], [66, 1], &[(66, ack(1000))]);
    // It stands in the queue again, and leaves a second time.
    bench.clock(1003).dequeue([66, 1], [66, 1], &[]);
    bench.clock(1004).dequeue([0, 0], [66, 1], &[(66, ack(1000))]);
    let shown = bench.show();
    assert_eq!(events(&shown)[REQUEUED], 1);
    assert_eq!(shown.queue.pair("dequeued_packets"), [0, 1]);
    assert_eq!(shown.queue.pair("dequeued_bytes"), [0, 66]);
    assert_eq!(shown.queue.pair("sojourn_packets"), [0, 1]);
    assert_eq!(shown.queue.level(), [0; 4]);
}

/// One that comes meanwhile finds the packet back in the queue, which looks as if two had come; that is taken back.
#[test]
fn a_packet_given_back_has_not_come_twice() {
    let Some(mut bench) = Bench::new("a_packet_given_back_has_not_come_twice", "tbf") else { return };
    bench.enqueue([66, 1], 66, ack(1000));
    bench.clock(1001).dequeue([0, 0], [66, 1], &[(66, ack(1000))]);
    bench.clock(1003).enqueue([166, 2], 100, data(1003));
    // In the next bucket.
    let shown = bench.clock(1013).dequeue([100, 1], [66, 1], &[(66, ack(1000))]).show();
    assert_eq!(events(&shown)[REQUEUED], 1);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [100, 66]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [1, 1]);
    assert_eq!(shown.queue.pair("dequeued_packets"), [0, 1]);
    assert_eq!(shown.queue.level(), [100, 1, 0, 0]);
    assert_eq!((shown.queue.get("min_bytes"), shown.queue.get("max_bytes")), (100, 166));
    assert_eq!((shown.queue.get("min_packets"), shown.queue.get("max_packets")), (1, 2));
}

#[test]
fn acks_are_never_more_than_there_is() {
    // What stands there after the qdisc lost something unseen, and what of it may still be ACKs: of two, 132 bytes.
    for (holds, acks) in [([1000, 1], [132, 1]), ([100, 2], [100, 2]), ([132, 2], [132, 2]), ([0, 0], [0, 0])]
    {
        let Some(mut bench) = Bench::new("acks_are_never_more_than_there_is", "tbf") else { return };
        bench.enqueue([66, 1], 66, ack(1000)).enqueue([132, 2], 66, ack(1000)).enqueue(
            [1132, 3],
            1000,
            data(1000),
        );
        let shown = bench.clock(1002).dequeue(holds, [0, 0], &[]).show();
        assert_eq!(shown.queue.level()[2..], acks, "of {holds:?}");
    }
}

/// The kernel says how many have left; what hangs behind them stays.
#[test]
fn a_chain_ends_where_the_event_says() {
    for (qdisc_flags, counted) in [(0, [1, 0]), (0x100, [0, 0])] {
        let test = "a_chain_ends_where_the_event_says";
        let Some(mut bench) = Bench::with(test, "tbf", ROOT, qdisc_flags) else { return };
        bench.enqueue([100, 1], 100, data(1000)).enqueue([166, 2], 66, ack(1000));
        bench.clock(1002).say("holds 0 66 1").say("has_sent 0 100 1");
        let shown = bench.say(format!("dequeue 0 0 1 100 {} 66 {}", data(1000), ack(1000))).show();
        assert_eq!(shown.queue.pair("sojourn_packets"), counted);
        assert_eq!(shown.sojourns.iter().map(|s| s.get("sum_us")).collect::<Vec<_>>(), [1998, 0]);
    }
}

#[test]
fn a_chain_is_looked_at_to_its_64th_packet() {
    let Some(mut bench) = Bench::new("a_chain_is_looked_at…", "tbf") else { return };
    bench.enqueue([100, 1], 100, data(1000));
    for i in 2..=70 {
        bench.enqueue([i * 100, i], 100, data(1000));
    }
    let chain = [(100, data(1000)); 64];
    let shown = bench.clock(1004).dequeue([600, 6], [6400, 64], &chain).show();
    assert_eq!(shown.queue.pair("sojourn_packets"), [64, 0]);
    assert_eq!(events(&shown)[LONG_CHAIN], 0, "64 are looked at");
    let Some(mut bench) = Bench::new("a_chain_is_looked_at…", "tbf") else { return };
    for i in 1..=70 {
        bench.enqueue([i * 100, i], 100, data(1000));
    }
    let chain = [(100, data(1000)); 65];
    let shown = bench.clock(1004).dequeue([500, 5], [6500, 65], &chain).show();
    assert_eq!(shown.queue.pair("sojourn_packets"), [64, 0]);
    assert_eq!(shown.queue.pair("dequeued_packets"), [65, 0], "all are counted as sent");
    assert_eq!(events(&shown)[LONG_CHAIN], 1);
}

#[test]
fn what_no_event_shows_is_drift_and_data() {
    let Some(mut bench) = Bench::new("what_no_event_shows_is_drift_and_data", "tbf") else { return };
    bench.enqueue([66, 1], 66, ack(1000));
    // Two packets more stand there than one event reported.
    let shown = bench.clock(1001).enqueue([66 + 3000, 3], 1000, data(1001)).show();
    assert_eq!(events(&shown)[DRIFT], 1);
    assert_eq!(shown.queue.pair("enqueued_bytes"), [3000, 66]);
    assert_eq!(shown.queue.pair("enqueued_packets"), [2, 1]);
    assert_eq!(shown.queue.level(), [3066, 3, 66, 1]);
}

/// The qdisc was flushed, which no tracepoint tells: the next time it is asked for a packet and has none, it shows.
#[test]
fn a_dequeue_that_finds_nothing_still_shows_the_level() {
    let Some(mut bench) = Bench::new("a_dequeue_that_finds_nothing…", "tbf") else { return };
    bench.enqueue([66, 1], 66, ack(1000)).clock(1001).enqueue([1066, 2], 1000, data(1001));
    let shown = bench.clock(1004).dequeue([0, 0], [0, 0], &[]).show();
    assert_eq!(shown.queue.level(), [0; 4], "ACKs cannot be more than there is");
    assert_eq!(shown.queue.get("min_bytes"), 0);
    // At rest there is nothing to say: the time of the newest event stays.
    let last = shown.queue.get("last_ns");
    let shown = bench_again(&["time 1009000000", "dequeue 0 0 0"]);
    assert_eq!(shown.queue.get("last_ns"), last);
}

/// A longer packet made way for a shorter one.
#[test]
fn a_dequeue_that_finds_as_many_packets_but_fewer_bytes_shows_it() {
    let Some(mut bench) = Bench::new("a_dequeue_that_finds_as_many_packets…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, data(1000));
    let shown = bench.clock(1002).dequeue([900, 1], [0, 0], &[]).show();
    assert_eq!(shown.queue.level(), [900, 1, 0, 0]);
    let Some(mut bench) = Bench::new("a_dequeue_that_finds_as_many_packets…", "tbf") else { return };
    bench.enqueue([1000, 1], 1000, data(1000));
    let shown = bench.clock(1002).dequeue([1000, 2], [0, 0], &[]).show();
    assert_eq!(shown.queue.level(), [1000, 2, 0, 0]);
}

fn bench_again(more: &[&str]) -> Shown {
    let mut bench = Bench::new("a_dequeue_that_finds_nothing…", "tbf").expect("as before");
    bench.enqueue([66, 1], 66, ack(1000)).clock(1001).enqueue([1066, 2], 1000, data(1001));
    bench.clock(1004).dequeue([0, 0], [0, 0], &[]);
    for command in more {
        bench.say(command);
    }
    bench.show()
}

/// Of a qdisc that keeps its level per CPU, and of a child of mq, only the time in it is known.
#[test]
fn a_queue_without_a_level_of_its_own_has_sojourns_only() {
    for (parent, qdisc_flags) in [(ROOT, 0x100), (ROOT, 0x20), ("0x10001", 0)] {
        let test = "a_queue_without_a_level_of_its_own…";
        let Some(mut bench) = Bench::with(test, "pfifo_fast", parent, qdisc_flags) else { return };
        bench.enqueue([100, 1], 100, data(1000));
        let shown = bench.clock(1002).dequeue([0, 0], [166, 2], &[(100, data(1000)), (66, ack(1000))]).show();
        assert_eq!(shown.queue.get("flags") & EXACT, 0);
        assert_eq!(shown.queue.pair("enqueued_packets"), [0, 0]);
        assert_eq!(shown.sojourns.iter().map(|s| s.get("sum_us")).collect::<Vec<_>>(), [1998, 1998]);
    }
}

/// mq: its children have one event each, in turn. The device is reported once, and again when another qdisc takes all their places.
#[test]
fn children_of_mq_are_one_queue() {
    let test = "children_of_mq_are_one_queue";
    let Some(mut bench) = Bench::with(test, "fq_codel", "0x10001", 0) else { return };
    bench.say("qdisc 1 tbf 0x10002 0");
    for i in 0..10 {
        let child = i % 2;
        bench.clock(1000 + i).say(format!("holds {child} 100 1"));
        bench.say(format!("enqueue {child} 0 100 {}", data(1000 + i)));
        bench.say(format!("has_sent {child} {} {}", 100 * (i + 1), i + 1)).say(format!("holds {child} 0 0"));
        bench.say(format!("dequeue {child} 0 1 100 {}", data(1000 + i)));
    }
    bench.say("show 0");
    // A root with a level, and mq again.
    bench.say("qdisc 2 bfifo 0xffffffff 0").say("holds 2 300 1");
    bench.say(format!("enqueue 2 0 300 {}", data(1010))).say("show 0");
    bench.say(format!("enqueue 0 0 100 {}", data(1010))).say(format!("enqueue 1 0 100 {}", data(1010)));
    bench.say("show 0");
    let [children, root, again] = bench.0.run().try_into().expect("three were shown");
    assert_eq!(events(&children)[ADOPTED], 1);
    assert_eq!(children.queue.get("flags") & EXACT, 0);
    assert_eq!(children.sojourns[0].row::<15>("slots")[0], 10, "each packet's time is measured");
    assert_eq!((events(&root)[ADOPTED], root.queue.get("flags")), (2, EXACT));
    assert_eq!(root.queue.level(), [300, 1, 0, 0]);
    assert_eq!((events(&again)[ADOPTED], again.queue.get("flags") & EXACT), (3, 0));
}

/// The clock of a mark comes round after 2^24 ticks, 68.7 s; a sojourn is known across it.
#[test]
fn a_sojourn_is_reported_across_the_turn_of_the_marks_clock() {
    const TURN: u64 = 1 << 24;
    let Some(mut bench) = Bench::new("a_sojourn_is_told_across…", "tbf") else { return };
    let came = (3 * TURN - 100) * TICK_NS;
    let word = mark(Direction::Up, Kind::Data, came);
    bench.say(format!("time {came}")).enqueue([100, 1], 100, word);
    bench.say(format!("time {}", came + 1100 * TICK_NS));
    let shown = bench.dequeue([0, 0], [100, 1], &[(100, word)]).show();
    assert_eq!(shown.queue.pair("sojourn_sum_us"), [1100 * TICK_NS / 1000, 0]);
    assert_eq!(shown.queue.get("sojourn_max_us.data"), 4505);
}

/// A time belongs to the first slot whose bound is not below it, and the next tick, of 4.096 µs, to the slot above: for each bound that the
/// mark of a packet without another event reaches.
#[test]
fn each_bound_parts_two_slots() {
    let bounds = TIME_BOUNDS_US
        .map(u64::from)
        .into_iter()
        .take_while(|bound| *bound < (NEAR_JIFFIES - 1) * JIFFY_NS / 1000);
    for (slot, bound) in bounds.enumerate() {
        let last = (bound + 1) * 1000 / TICK_NS - u64::from((bound + 1) * 1000 % TICK_NS == 0);
        for (ticks, slot) in [(last, slot), (last + 1, slot + 1)] {
            let Some(mut bench) = Bench::new("each_bound_parts_two_slots", "tbf") else { return };
            bench.enqueue([100, 1], 100, data(1000));
            let left = (1_000_000_000 / TICK_NS + ticks) * TICK_NS;
            let shown =
                bench.say(format!("time {left}")).dequeue([0, 0], [100, 1], &[(100, data(1000))]).show();
            let mut slots = [0; 47];
            slots[slot] = 1;
            assert_eq!(shown.sojourns[0].row("slots"), slots, "{bound} us, {ticks} ticks");
        }
    }
}

/// A time on a bound belongs to its slot: 4,883 ticks are 20,000.8 µs, cut to 20,000; a tick less, and a tick more, are not on it.
#[test]
fn a_sojourn_on_a_bound_belongs_to_its_slot() {
    for (ticks, us, slot) in [(4_882, 19_996, 20), (4_883, 20_000, 20), (4_884, 20_004, 21)] {
        let Some(mut bench) = Bench::new("a_sojourn_on_a_bound_belongs_to_its_slot", "tbf") else { return };
        bench.enqueue([100, 1], 100, data(1000));
        let left = (1_000_000_000 / TICK_NS + ticks) * TICK_NS;
        let shown = bench.say(format!("time {left}")).dequeue([0, 0], [100, 1], &[(100, data(1000))]).show();
        let mut slots = [0; 47];
        slots[slot] = 1;
        assert_eq!((shown.sojourns[0].get("sum_us"), shown.sojourns[0].row("slots")), (us, slots));
    }
}

/// Bucket 102 is [1.02 s, 1.03 s).
#[test]
fn a_bucket_ends_where_the_next_one_begins() {
    for (ns, number) in [(1_029_999_999_u64, 102), (1_030_000_000, 103)] {
        let Some(mut bench) = Bench::new("a_bucket_ends_where_the_next_one_begins", "tbf") else { return };
        bench.clock(1021).enqueue([100, 1], 100, 0);
        let shown = bench.say(format!("time {ns}")).enqueue([200, 2], 100, 0).show();
        assert_eq!(shown.queue.get("number"), number, "{ns}");
    }
    let Some(mut bench) = Bench::new("a_bucket_ends_where_the_next_one_begins", "tbf") else { return };
    let shown = bench.clock(1015).enqueue([100, 1], 100, 0).clock(1020).enqueue([200, 2], 100, 0).show();
    assert_eq!(shown.queue.get("number"), 102);
    let [before] = shown.ring.as_slice() else { panic!("{:?}", shown.ring) };
    assert_eq!((before.get("number"), before.get("max_bytes")), (101, 100));
    assert_eq!((shown.queue.get("min_bytes"), shown.queue.get("bytes_ns")), (100, 0));
}

/// The mark's time is the middle of its tick. What happened in the second half of that tick was not after it.
#[test]
fn time_does_not_run_backwards() {
    let Some(mut bench) = Bench::new("time_does_not_run_backwards", "tbf") else { return };
    let tick = 250_000 * TICK_NS;
    let word = |ns: u64| mark(Direction::Up, Kind::Data, ns);
    bench.say(format!("time {}", tick + 3000)).enqueue([100, 1], 100, 0);
    bench.enqueue([200, 2], 100, word(tick));
    let shown = bench.say(format!("time {}", tick + 5000)).enqueue([300, 3], 100, 0).show();
    assert_eq!(shown.queue.get("last_ns"), tick + 5000);
    assert_eq!(shown.queue.get("bytes_ns"), 200 * 2000, "none of it before the first event");
}

/// A mark tells when a packet came as long as it is near the event before: a second after it, or of a packet that stood
/// elsewhere first, it does not.
#[test]
fn a_mark_of_long_ago_is_not_taken_for_the_time() {
    let Some(mut bench) = Bench::new("a_mark_of_long_ago…", "tbf") else { return };
    bench.enqueue([100, 1], 100, data(1000));
    // The mark is older than the event before: as if a turn of its clock ahead.
    bench.say("time 1002000000").enqueue([200, 2], 100, data(990));
    let shown = bench.show();
    assert_eq!(shown.queue.get("last_ns"), 1_002_000_000);
    assert_eq!(shown.queue.get("bytes_ns"), 100 * 2_000_000);
}

/// Under load the kernel does not deliver some events. In a queue that never empties, nothing else corrects the ACKs: a link of one packet each 10 ms
/// with 100 packets waiting, every other one an ACK, for ten minutes.
#[test]
fn acks_whose_events_are_missing_do_not_add_up() {
    for (missing, what) in [(7, "departures"), (7, "arrivals"), (11, "both")] {
        let Some(mut bench) = Bench::new("acks_whose_events_are_missing_do_not_add_up", "tbf") else {
            return;
        };
        let size = |place: u32| if place.is_multiple_of(2) { 66 } else { 1000 };
        let kind = |place: u32, ms| if place.is_multiple_of(2) { ack(ms) } else { data(ms) };
        let (mut sent, mut waiting) = ([0, 0], 0);
        let came = |place: u32| 1000 + 10 * u64::from(place);
        for place in 0..60_000u32 {
            waiting += size(place);
            bench.clock(came(place));
            let holds = [waiting, place + 1 - sent[1]];
            if (place / 2).is_multiple_of(missing) && what != "departures" {
                bench.say(format!("holds 0 {} {}", holds[0], holds[1]));
            } else {
                bench.enqueue(holds, size(place), kind(place, came(place)));
            }
            let Some(leaves) = place.checked_sub(100) else { continue };
            waiting -= size(leaves);
            sent = [sent[0] + size(leaves), sent[1] + 1];
            let holds = [waiting, place + 1 - sent[1]];
            if (leaves / 2 + 3).is_multiple_of(missing) && what != "arrivals" {
                bench.say(format!("holds 0 {} {}", holds[0], holds[1]));
                bench.say(format!("has_sent 0 {} {}", sent[0], sent[1]));
            } else {
                bench.dequeue(holds, sent, &[(size(leaves), kind(leaves, came(leaves)))]);
            }
        }
        let shown = bench.show();
        let [bytes, packets, ack_bytes, ack_packets] = shown.queue.level();
        assert_eq!([bytes, packets], [50 * 1066, 100]);
        // Two seconds and a half of what is missing at most, of 50.
        let most = 125 / u64::from(missing) + 1;
        assert!(ack_packets.abs_diff(50) <= most, "{ack_packets} ACKs of 50, {what} missing");
        assert_eq!(ack_bytes, 66 * ack_packets);
    }
}
