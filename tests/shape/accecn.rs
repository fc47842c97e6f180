//! AccECN (RFC 9768): how much one ACK may stand for. `pendulum_reference::hold` has the rules, held against Linux' decoder;
//! here the kernel's program is held against the model.

use std::collections::{BTreeMap, VecDeque};

use pendulum_reference::accecn::{CE, ECT0, Feedback, Receiver};
use pendulum_reference::hold::{AckSegment, Bounds, Fate, Hold};

use crate::craft::{self, LinkLayer, Tcp, flag};
use crate::decisions::{ack, assert_decided, decision, ethernet};
use crate::kernel::{Filter, MILLISECOND};
use crate::random::Random;

/// One step of numbers, of two full segments each.
const STEP: u32 = 2 * 1_448;

fn numbered(step: u32) -> Tcp {
    ack(10_000 + step * STEP)
}

/// Counters of a connection without marks.
fn counted(step: u32) -> Tcp {
    numbered(step).ace(5).counters(&[1 + step * STEP, 0, 1])
}

#[test]
fn what_may_stand_for_what() {
    let Some(mut filter) = Filter::for_test("what_may_stand_for_what") else { return };
    let table = [
        // How many segments the first one is for is not known.
        decision(numbered(0).ace(5), numbered(1).ace(5), "passed accecn"),
        decision(counted(0), counted(1), "passed accecn"),
        // Classic ECN, or an ACE of less than four before it is known.
        decision(numbered(0), numbered(1).ace(1), "passed flags"),
        decision(numbered(0), numbered(1).ace(3), "passed flags"),
        // The option alone tells that it is AccECN.
        decision(numbered(0), numbered(1).ace(1).counters(&[1, 0, 1]), "passed accecn"),
        decision(
            numbered(0),
            numbered(1).ace(5).options(&[172, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            "passed options",
        ),
        decision(numbered(0), numbered(1).ace(5).options(&[172, 4, 0, 0]), "passed options"),
    ];
    assert_decided(&mut filter, &table);
}

/// A row of ACKs while the queue stands, behind one that has left: which are withheld, and what leaves in the end.
fn fates(filter: &mut Filter, row: &[Tcp]) -> (Vec<String>, Option<Vec<u8>>) {
    filter.reset();
    let left = filter.arrive(&ethernet(&row[0])).expect("the first one passes");
    filter.depart(&left).expect("it leaves");
    let carrier = filter.arrive(&ethernet(&row[1])).expect("without a carrier it passes");
    let fates =
        row[2..].iter().map(|packet| filter.fate_of(|filter| filter.arrive(&ethernet(packet))).1.remove(0));
    let fates: Vec<String> = fates.collect();
    (fates, filter.depart(&carrier))
}

#[test]
fn seven_segments_without_the_option() {
    let Some(mut filter) = Filter::for_test("seven_segments_without_the_option") else { return };
    // An ACK of up to 2,920 bytes may be for three segments: two of them are six.
    let row: Vec<_> = (0..4).map(|step| numbered(step).ace(5)).collect();
    let (found, left) = fates(&mut filter, &row);
    assert_eq!(found, ["held redundant", "passed accecn"]);
    assert_eq!(left.expect("it leaves"), ethernet(&row[2]).bytes);
    // ACE differs, and is merged all the same.
    let marked: Vec<_> = (0..4).map(|step| numbered(step).ace((5 + step as u8) & 7)).collect();
    let (found, left) = fates(&mut filter, &marked);
    assert_eq!(found, ["held redundant", "passed accecn"]);
    assert_eq!(left.expect("it leaves"), ethernet(&marked[2]).bytes);
    // Of 1,200 bytes at most: for two segments. Of five full ones: for seven.
    let small: Vec<_> = (0..6).map(|step| ack(10_000 + step * 1_200).ace(5)).collect();
    assert_eq!(
        fates(&mut filter, &small).0,
        ["held redundant", "held redundant", "passed accecn", "passed unsafe_carrier"]
    );
    let large: Vec<_> = [0, 1, 6_001].map(|bytes| ack(10_000 + bytes).ace(5)).into();
    assert_eq!(fates(&mut filter, &large).0, ["passed accecn"]);
    let one: Vec<_> = [0, 2_921, 5_841].map(|bytes| ack(10_000 + bytes).ace(5)).into();
    assert_eq!(fates(&mut filter, &one).0, ["held redundant"], "four and three");
    // SACK delivers what nobody has counted.
    let sack = [
        numbered(0).ace(5),
        numbered(0).ace(5).sack(&[(20_000, 21_448)]),
        numbered(0).ace(5).sack(&[(20_000, 22_896)]),
    ];
    assert_eq!(fates(&mut filter, &sack).0, ["passed accecn"]);
}

/// Counters without a new mark: an ACK stands for any number, once the sender has seen one counter grow alone.
#[test]
fn any_number_while_counters_tell_of_no_mark() {
    let Some(mut filter) = Filter::for_test("any_number_while_counters_tell_of_no_mark") else { return };
    let depart_all = |filter: &mut Filter, row: &[Tcp]| {
        for packet in row {
            let packet = filter.arrive(&ethernet(packet)).expect("it passes");
            filter.depart(&packet).expect("it leaves");
        }
    };
    let held = |filter: &mut Filter, before: &[Tcp], row: Vec<Tcp>| {
        filter.reset();
        depart_all(filter, before);
        let carrier = filter.arrive(&ethernet(&row[0])).expect("it passes");
        let held = row[1..].iter().take_while(|packet| filter.arrive(&ethernet(packet)).is_none()).count();
        let newest = if held == 0 { &row[0] } else { &row[held] };
        assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(newest).bytes);
        held
    };
    let row = || (2..22).map(counted).collect::<Vec<_>>();
    let all = row().len() - 1;
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], row()), all);
    assert_eq!(held(&mut filter, &[counted(1)], row()), 1, "that one counter grows was seen by nobody");
    // In the other order, option 174.
    let turned = |step: u32| {
        let ect0 = (1 + step * STEP).to_be_bytes();
        numbered(step).ace(5).options(&[174, 11, 0, 0, 1, 0, 0, 0, ect0[1], ect0[2], ect0[3], 1])
    };
    assert_eq!(held(&mut filter, &[counted(0), turned(1)], (2..22).map(turned).collect()), all);
    assert_eq!(held(&mut filter, &[counted(0), turned(1)], row()), all);
    // With SACK: counters need no counting.
    let sack = (2..10)
        .map(|n| numbered(2).ace(5).counters(&[1 + n * STEP, 0, 1]).sack(&[(60_000, 60_000 + n * STEP)]));
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], sack.collect()), 7);
    // A mark in between: the sender may not know any more which counter grows.
    let marked = |step: u32| numbered(step).ace(6).counters(&[1 + (step - 1) * STEP, 1_448, 1]);
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], (2..22).map(marked).collect()), 1);
    assert_eq!(held(&mut filter, &[counted(0), marked(1)], (2..22).map(marked).collect()), 1);
    assert_eq!(held(&mut filter, &[counted(0), marked(1), marked(2)], (3..22).map(marked).collect()), 18);
    // ACE alone tells of a mark of a packet without payload.
    let silent = (2..22).map(|step| counted(step).ace(6));
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], silent.collect()), 1);
    // Marked bytes are a mark, though ACE tells of none: there were eight of them.
    let wrapped = |step: u32| numbered(step).ace(5).counters(&[1 + (step - 1) * STEP, 8 * 1_448 * step, 1]);
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], (2..22).map(wrapped).collect()), 1);
    // A sender that has seen only this counter grow does not take the others for steady, nor one that has seen two grow, nor one that has seen none.
    let all_marked = |step: u32| numbered(step).ace(7).counters(&[1, step * STEP, 1]);
    assert_eq!(held(&mut filter, &[counted(0), all_marked(1)], (2..22).map(all_marked).collect()), 1);
    let both = |step: u32| numbered(step).ace(5).counters(&[1 + step * STEP, 0, 1 + step * STEP]);
    assert_eq!(held(&mut filter, &[both(0), both(1)], (2..22).map(both).collect()), 1);
    let still = |step: u32| numbered(step).ace(5).counters(&[1, 0, 1]);
    assert_eq!(held(&mut filter, &[still(1)], (2..22).map(still).collect()), 1);
    // One without the option has left in between: what the sender has guessed is not known.
    let gap = [marked(1), numbered(2).ace(6), marked(3)];
    assert_eq!(held(&mut filter, &gap, (4..22).map(marked).collect()), 1);
    // Nor is it after the sender had seen the counter grow; the next two with the option, one behind the other, settle that.
    let [before, bare] = [vec![counted(0), counted(1)], vec![numbered(2).ace(5), counted(3)]];
    let gap = [before, bare].concat();
    assert_eq!(held(&mut filter, &gap, (4..22).map(counted).collect()), 1);
    let settled = [gap, vec![counted(4)]].concat();
    assert_eq!(held(&mut filter, &settled, (5..22).map(counted).collect()), 16);
    // What has the option is not followed by what has not.
    let bare: Vec<_> = vec![counted(2), numbered(3).ace(5)];
    assert_eq!(held(&mut filter, &[counted(0), counted(1)], bare), 0);
    // Nor is one counter known to grow while the other end is sent data, whose ACKs are not followed.
    filter.reset();
    depart_all(&mut filter, &[counted(0), counted(0).payload(9), counted(1).seq(10)]);
    filter.arrive(&ethernet(&counted(2).seq(10))).expect("it passes");
    assert!(filter.arrive(&ethernet(&counted(3).seq(10))).is_none());
    assert!(filter.arrive(&ethernet(&counted(4).seq(10))).is_some());
}

/// A SYN on the same ports may begin a connection with classic ECN, whose ECE nobody may touch.
#[test]
fn a_syn_forgets_accecn_and_silence_does_not() {
    let Some(mut filter) = Filter::for_test("a_syn_forgets_accecn_and_silence_does_not") else { return };
    for (syn, fate) in [(true, "passed flags"), (false, "passed first")] {
        filter.reset();
        let carrier = filter.arrive(&ethernet(&numbered(0).ace(5))).expect("it passes");
        filter.depart(&carrier).expect("it leaves");
        if syn {
            filter.arrive(&ethernet(&numbered(0).flags(flag::SYN))).expect("it passes");
        }
        filter.now += 10_001 * MILLISECOND;
        let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&numbered(1).ace(1))));
        assert_eq!(fates, [fate]);
    }
    // While the old connection still has something to say, too.
    filter.reset();
    let first = filter.arrive(&ethernet(&numbered(0).ace(5))).expect("it passes");
    filter.depart(&first).expect("it leaves");
    filter.arrive(&ethernet(&numbered(1).ace(5))).expect("without a carrier it passes");
    assert!(filter.arrive(&ethernet(&numbered(2).ace(5))).is_none());
    filter.arrive(&ethernet(&numbered(0).flags(flag::SYN))).expect("it passes");
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&numbered(3).ace(1))));
    assert_eq!(fates, ["passed flags"]);
}

/// Fates of the model by the kernel's names.
fn name(fate: Fate) -> &'static str {
    match fate {
        Fate::First => "passed first",
        Fate::NoCarrier => "passed no_carrier",
        Fate::Carrier => "passed unsafe_carrier",
        Fate::Duplicate => "passed duplicate",
        Fate::Timestamp => "passed timestamp",
        Fate::Sack => "passed sack",
        Fate::Special => "passed flags",
        Fate::Sequence => "passed sequence",
        Fate::SlowStart => "passed slow_start",
        Fate::Stretch => "passed stretch",
        Fate::AccEcn => "passed accecn",
        Fate::Delta => "passed below_delta",
        Fate::Held => "held redundant",
    }
}

fn packet_of(ack: &AckSegment, v6: bool) -> Tcp {
    let mut packet = if v6 { craft::up().v6() } else { craft::up() };
    packet = packet.seq(ack.sequence).ack(ack.number).window(ack.window);
    if let Some((tsval, tsecr)) = ack.timestamps {
        packet = packet.ts(tsval, tsecr);
    }
    if let Some(counters) = ack.ecn.counters {
        packet = packet.counters(&counters);
    }
    if !ack.sack.is_empty() {
        packet = packet.sack(&ack.sack);
    }
    packet = packet.ace(ack.ecn.ace);
    if ack.special { packet.flags(flag::ACK | 0x08 | ack.ecn.ace << 6) } else { packet }
}

fn random_ack(random: &mut Random, newest: &AckSegment, receiver: &mut Receiver, option: u64) -> AckSegment {
    let kind = random.below(24);
    let mut ack = AckSegment { window: 1 + random.below(900) as u16, special: false, ..newest.clone() };
    match kind {
        // A probe; data that was not seen.
        20 | 21 => ack.sequence = ack.sequence.wrapping_sub(1),
        22 => ack.sequence = ack.sequence.wrapping_add(1 + random.below(3_000) as u32),
        _ => {}
    }
    let bytes = match kind {
        0 => 0,
        1 => random.below(4_000) as u32,
        2 => random.below(20_000) as u32,
        _ => 1_448 * (1 + random.below(2) as u32),
    };
    receiver.take(if random.below(20) == 0 { CE } else { ECT0 }, bytes);
    ack.number = ack.number.wrapping_add(bytes);
    if kind == 3 {
        ack.number = ack.number.wrapping_sub(random.below(3_000) as u32);
    }
    if let Some((tsval, tsecr)) = &mut ack.timestamps {
        *tsval = tsval.wrapping_add(random.below(2) as u32);
        *tsecr = tsecr.wrapping_add(random.below(2) as u32);
        if kind == 5 {
            *tsval = tsval.wrapping_sub(2);
        }
    }
    let at = |offset: u32| ack.number.wrapping_add(offset);
    ack.sack = match random.below(12) {
        0 => vec![(at(3_000), at(4_000 + 500 * random.below(3) as u32))],
        1 if option == 0 => vec![(at(6_000), at(7_000)), (at(3_000), at(4_000))],
        2 => newest
            .sack
            .iter()
            .filter(|block| block.0.wrapping_sub(ack.number).cast_signed() >= 0)
            .copied()
            .collect(),
        _ => Vec::new(),
    };
    ack.ecn = match option {
        0 => Feedback::default(),
        1 => receiver.feedback(false),
        2 => receiver.feedback(true),
        _ => receiver.feedback(random.below(3) > 0),
    };
    ack.special = kind == 4;
    ack
}

/// Any row of ACKs, with and without AccECN, any order of coming and leaving: decision for decision and byte for byte.
#[test]
fn the_program_decides_as_the_model() {
    let Some(mut filter) = Filter::for_test("the_program_decides_as_the_model") else { return };
    let random = &mut Random(0xecec);
    let mut seen: BTreeMap<Fate, u32> = BTreeMap::new();
    for round in 0..160 {
        let bounds = Bounds {
            delta: 1 + random.below(2) as usize,
            stretch: 1 + random.below(4) as usize,
            spared_bytes: random.below(2) as u32 * 20_000,
        };
        filter.reset();
        filter.control.delta = bounds.delta as u32;
        filter.control.stretch = bounds.stretch as u32;
        filter.control.spared_bytes = bounds.spared_bytes;
        filter.tell();
        let (mut hold, mut receiver) = (Hold::new(bounds), Receiver::default());
        let mut queue = VecDeque::<Vec<u8>>::new();
        let timestamps = (round % 3 > 0).then_some((1, 1));
        let sequence = random.below(1 << 32) as u32;
        let mut newest = AckSegment {
            sequence,
            number: random.below(1 << 32) as u32,
            timestamps,
            ..AckSegment::default()
        };
        for step in 0..60 {
            filter.now += MILLISECOND;
            if random.below(3) == 0 {
                let Some(packet) = queue.pop_front() else { continue };
                let left = filter.depart(&packet).expect("static filters drop nothing on the second pass");
                let expected = packet_of(&hold.depart().expect("as many"), round % 2 == 1);
                assert_eq!(left, ethernet(&expected).bytes, "round {round}, step {step}");
                continue;
            }
            let next = newest.sequence;
            newest = random_ack(random, &newest, &mut receiver, round % 4);
            let frame = packet_of(&newest, round % 2 == 1).build(LinkLayer::Ethernet);
            let (packet, fates) = filter.fate_of(|filter| filter.arrive(&frame));
            let expected = hold.arrive(newest.clone());
            *seen.entry(expected).or_default() += 1;
            let fates: Vec<_> = fates.iter().filter(|fate| !fate.starts_with("released")).collect();
            assert_eq!(fates, [name(expected)], "round {round}, step {step}: {newest:?}");
            queue.extend(packet);
            // A probe repeats a number, and the next ACK does not.
            if newest.sequence == next.wrapping_sub(1) {
                newest.sequence = next;
            }
        }
    }
    println!("{seen:?}");
    assert!(seen.len() == 13 && seen.values().all(|count| *count >= 10), "{seen:?}");
}
