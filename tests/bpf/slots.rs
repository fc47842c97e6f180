//! What passes, by slots of time: every byte of every protocol once, whichever CPU counts it, and nothing of one CPU mixed
//! with what another one writes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pendulum::bpf::{Passage, PassageReader};

use crate::craft::{CraftedFrame, LinkLayer, Tcp, down, up};
use crate::kernel::{Kernel, pin};

const SLOT_NS: u64 = 1 << 20;
/// Number of the first slot that is used: the ring's first turn is the time before everything.
const FIRST: u64 = 10_000;

fn at(packet: &Tcp, number: u64, ns: u64) -> CraftedFrame {
    CraftedFrame { time_ns: number * SLOT_NS + ns, ..packet.build(LinkLayer::Ethernet) }
}

fn read(reader: &mut PassageReader, to: u64) -> Vec<Passage> {
    let mut passages = Vec::new();
    // What is read must be over for a while.
    reader.read((to + 2) * SLOT_NS, |passage| passages.push(passage));
    passages
}

/// Direction, slot, bytes and packets of each.
fn table(passages: &[Passage]) -> Vec<(&'static str, u64, u32, u32)> {
    let row = |passage: &Passage| match passage {
        Passage::Up(egress) => ("up", egress.at_ns / SLOT_NS - FIRST, egress.bytes, egress.packets),
        Passage::Down(arrival) => ("down", arrival.at_ns / SLOT_NS - FIRST, arrival.bytes, arrival.packets),
        Passage::Home(reply) => panic!("TCP is none: {reply:?}"),
    };
    passages.iter().map(row).collect()
}

#[test]
fn every_protocol_counts_as_on_the_wire_and_in_the_order_of_time() {
    let kernel = Kernel::new(LinkLayer::Ethernet);
    let mut reader = kernel.links().passages(FIRST * SLOT_NS);
    // 54 bytes of headers: a frame of 154; as UDP the same frame.
    let data = up().payload(100);
    let arp = CraftedFrame {
        bytes: [[2; 6].as_slice(), &[4; 6], &[0x08, 0x06], &[0; 46]].concat(),
        ..at(&data, FIRST + 1, 0)
    };
    for frame in [
        at(&data, FIRST, 10),
        at(&up().payload(100).protocol(17), FIRST, 20),
        // ESP: nothing of it is read but its length.
        at(&down().payload(100).protocol(50), FIRST, 5),
        arp,
        // Three segments of 1000 bytes: two more headers on the wire than in the super-packet.
        at(&up().payload(3000).gso(3, 1000), FIRST + 2, 0),
        at(&down().payload(100), FIRST + 2, 7),
    ] {
        kernel.run(&frame, (0, 0));
    }
    let rows = table(&read(&mut reader, FIRST + 10));
    assert_eq!(
        rows,
        [
            ("down", 0, 154, 1),
            ("up", 0, 308, 2),
            ("up", 1, 60, 1),
            ("up", 2, 54 * 3 + 3000, 3),
            ("down", 2, 154, 1)
        ]
    );
    assert_eq!((reader.lost(), reader.torn()), (0, 0));
}

#[test]
fn what_a_shaper_of_our_own_holds_leaves_when_it_has_let_it_go() {
    const SHAPER: u32 = 77;
    let mut kernel = Kernel::new(LinkLayer::Ethernet);
    let mut reader = kernel.links().passages(FIRST * SLOT_NS);
    let packet = up().payload(3000).gso(3, 1000);
    kernel.run(&at(&packet, FIRST, 0), (SHAPER, 0));
    kernel.programs().set_shaping_device(SHAPER, true).expect("writable");
    // From the LAN into the shaper's queue, and out of it five slots later; the stack knows how long it is on the wire.
    kernel.run(&at(&packet, FIRST + 1, 0), (3, 0));
    kernel.run(&at(&packet, FIRST + 6, 0), (SHAPER, 3162));
    // It pauses: packets pass once, and what stood there still leaves.
    kernel.programs().set_shaping_device(SHAPER, false).expect("writable");
    kernel.run(&at(&packet, FIRST + 7, 0), (3, 0));
    kernel.run(&at(&packet, FIRST + 8, 0), (SHAPER, 3162));
    kernel.programs().set_shaping_device(0, false).expect("writable");
    kernel.run(&at(&packet, FIRST + 9, 0), (3, 0));
    let rows = table(&read(&mut reader, FIRST + 20));
    let row = |slot| ("up", slot, 3162, 3);
    assert_eq!(rows, [row(0), row(6), row(7), row(8), row(9)]);
    // Measured on the first way only.
    assert_eq!(kernel.segments().iter().sum::<u64>(), 12);
}

#[test]
fn a_slot_of_an_earlier_turn_of_the_ring_is_not_taken_for_a_new_one() {
    const TURN: u64 = 4096;
    let kernel = Kernel::new(LinkLayer::Ethernet);
    kernel.run(&at(&up().payload(100), FIRST, 0), (0, 0));
    kernel.run(&at(&down().payload(100).ts(5, 1), FIRST, 0), (0, 0));
    for turn in 1..3 {
        let number = FIRST + turn * TURN;
        let mut reader = kernel.links().passages((number - 2) * SLOT_NS);
        assert_eq!(read(&mut reader, number + 5), []);
        let seq = 101 + 200 * turn as u32;
        kernel.run(&at(&up().seq(seq).payload(200), number, 0), (0, 0));
        let mut reader = kernel.links().passages((number - 2) * SLOT_NS);
        assert_eq!(table(&read(&mut reader, number + 5)), [("up", turn * TURN, 254, 1)]);
        // Nor did that leave ahead of what leaves now.
        kernel.run(&at(&down().ack(seq + 200), number + 10, 0), (0, 0));
        let answers = read(&mut reader, number + 20).into_iter().filter_map(|passage| match passage {
            Passage::Down(arrival) => arrival.answer,
            _ => None,
        });
        assert_eq!(answers.map(|answer| answer.ahead_bytes).collect::<Vec<_>>(), [0]);
    }
}

/// Two CPUs that open each slot at the same moment, each with a flow of its own, a clock of its own and an answer to a
/// question of its own.
#[test]
fn two_cpus_at_the_same_moment_lose_and_mix_nothing() {
    const SLOTS: u64 = 2000;
    const ROUNDS: u64 = 6;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED two_cpus_at_the_same_moment_lose_and_mix_nothing: one CPU");
        return;
    }
    let kernel = Kernel::new(LinkLayer::Ethernet);
    // Frames of 1054 and 154 bytes up; down each acknowledges the other's exact end, with a clock that names its flow.
    let question = |cpu: u64, step: u64| {
        let bytes = if cpu == 0 { 1000 } else { 100 };
        let seq = 1 + step as u32 * bytes;
        up().home_port(40_000 + cpu as u16).seq(seq).ack(1).payload(bytes as usize)
    };
    let answer = |cpu: u64, step: u64| {
        let bytes = if cpu == 0 { 1000 } else { 100 };
        let clock = (1 + cpu as u32) << 28 | step as u32;
        down().home_port(40_000 + cpu as u16).ack(1 + (step as u32 + 1) * bytes).ts(clock, 1)
    };
    let mut flows = BTreeMap::new();
    let mut answers = 0;
    let mut torn = 0;
    for round in 0..ROUNDS {
        let first = FIRST + round * SLOTS;
        let mut reader = kernel.links().passages(first * SLOT_NS);
        let arrived = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for cpu in 0..2u64 {
                let (kernel, arrived) = (&kernel, &arrived);
                scope.spawn(move || {
                    pin(cpu as usize);
                    for slot in 0..SLOTS {
                        let step = round * SLOTS + slot;
                        let [question, answer] = [question(cpu, step), answer(cpu, step)];
                        let question = at(&question, first + slot, 0);
                        let answer = at(&answer, first + slot, 500_000);
                        meet(arrived, 2 * (slot + 1));
                        kernel.run(&question, (0, 0));
                        kernel.run(&answer, (0, 0));
                    }
                });
            }
        });
        let passages = read(&mut reader, first + SLOTS);
        torn += reader.torn();
        assert_eq!(passages.len() as u64, 2 * SLOTS, "round {round}");
        for passage in passages {
            match passage {
                Passage::Home(reply) => panic!("TCP is none: {reply:?}"),
                Passage::Up(egress) => assert_eq!((egress.bytes, egress.packets), (1054 + 154, 2)),
                Passage::Down(arrival) => {
                    assert_eq!((arrival.bytes, arrival.packets), (2 * 66, 2));
                    let (flow, clock) = arrival.clock.expect("both have timestamps");
                    let owner = *flows.entry(flow).or_insert(clock >> 28);
                    assert_eq!(owner, clock >> 28, "one flow got the other's clock");
                    let Some(answer) = arrival.answer else { continue };
                    answers += 1;
                    // In steps of 16 bytes: 1054 or 154.
                    assert!([1040, 144].contains(&answer.question_bytes), "{answer:?}");
                    assert_eq!(answer.at_ns / SLOT_NS, arrival.at_ns / SLOT_NS);
                    assert!((490_000..=510_000).contains(&(answer.at_ns - answer.asked_ns)), "{answer:?}");
                }
            }
        }
    }
    println!("{answers} answers, {torn} torn");
    assert_eq!(flows.len(), 2);
    // An answer is there, or was given up because it was torn.
    assert_eq!(answers + torn, ROUNDS * SLOTS);
}

/// Wait for the other one, spinning: a futex wakes too late for the two to meet within nanoseconds.
fn meet(arrived: &AtomicU64, both: u64) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut spins = 0u32;
    while arrived.load(Ordering::Acquire) < both {
        spins += 1;
        match spins.is_multiple_of(2000) {
            true => std::thread::yield_now(),
            false => std::hint::spin_loop(),
        }
    }
}
