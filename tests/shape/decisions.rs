//! Every decision of the filter, one by one: which ACK is withheld, which passes and why, and what the carrier leaves
//! with. A rewritten ACK is compared with one that was made with the new numbers: checksum and all.

use pendulum::bpf::abi;

use crate::craft::{self, CraftedFrame, LinkLayer, Tcp, flag};
use crate::kernel::{Filter, LANE, MILLISECOND};

/// Without options.
fn plain(number: u32) -> Tcp {
    craft::up().seq(1).ack(number).window(500)
}

pub(crate) fn ack(number: u32) -> Tcp {
    plain(number).ts(number / 10, number / 20)
}

pub(crate) fn ethernet(packet: &Tcp) -> CraftedFrame {
    packet.build(LinkLayer::Ethernet)
}

/// What stands in the queue, what comes then, and what becomes of that.
struct Decision {
    queued: Tcp,
    comes: Tcp,
    fate: &'static str,
}

fn decision(queued: Tcp, comes: Tcp, fate: &'static str) -> Decision {
    Decision { queued, comes, fate }
}

fn decisions() -> Vec<Decision> {
    let first = || ack(10_000);
    let option = |bytes: &[u8]| plain(20_000).ts(2_000, 1_000).options(bytes);
    vec![
        decision(first(), ack(20_000), "held redundant"),
        decision(plain(10_000), plain(20_000), "held redundant"),
        decision(first().v6(), ack(20_000).v6(), "held redundant"),
        decision(first(), ack(20_000).window(900), "held redundant"),
        decision(plain(u32::MAX - 5), plain(20_000), "held redundant"),
        // Says nothing new, or something older.
        decision(first(), ack(10_000), "passed duplicate"),
        decision(first(), plain(10_000).ts(1_000, 500).window(700), "passed duplicate"),
        decision(first(), ack(9_000), "passed duplicate"),
        decision(first(), plain(20_000).ts(999, 1_000), "passed timestamp"),
        decision(first(), plain(20_000).ts(2_000, 499), "passed timestamp"),
        // Says more than an acknowledgement number can.
        decision(first(), ack(20_000).sack(&[(30_000, 31_000)]), "passed sack"),
        decision(plain(10_000), plain(20_000).sack(&[(30_000, 31_000)]), "passed sack"),
        decision(first(), ack(20_000).flags(flag::ACK | flag::ECE), "passed flags"),
        decision(first(), ack(20_000).flags(flag::ACK | flag::CWR), "passed flags"),
        decision(first(), ack(20_000).flags(flag::ACK | 0x08), "passed flags"),
        decision(first(), ack(20_000).window(0), "passed zero_window"),
        decision(first(), option(&[30, 4, 0, 0]), "passed options"),
        decision(first(), option(&[172, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), "passed options"),
        decision(first(), option(&[29, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "passed options"),
        decision(plain(10_000), plain(20_000).options(&MD5), "passed options"),
        // The carrier could not bear it.
        decision(plain(10_000), ack(20_000), "passed layout"),
        decision(first(), plain(20_000), "passed layout"),
        decision(first(), ack(20_000).ecn(1), "passed layout"),
        decision(first().sack(&[(30_000, 31_000)]), ack(20_000), "passed unsafe_carrier"),
        decision(first().flags(flag::ACK | flag::ECE), ack(20_000), "passed unsafe_carrier"),
        // Another connection.
        decision(first(), ack(20_000).home_port(4_321), "passed first"),
    ]
}

const MD5: [u8; 20] = [1, 1, 19, 18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn each_decision_and_its_reason() {
    let Some(mut filter) = Filter::for_test("each_decision_and_its_reason") else { return };
    assert_decided(&mut filter, &decisions());
}

/// Each ACK has its fate; what was withheld is what its carrier leaves with.
fn assert_decided(filter: &mut Filter, decisions: &[Decision]) {
    let mut wrong = Vec::new();
    for (i, Decision { queued, comes, fate }) in decisions.iter().enumerate() {
        filter.reset();
        let carrier = filter.enqueue(&ethernet(queued)).expect("the first one passes");
        assert_eq!(carrier.priority, LANE, "a pure ACK goes into the lane");
        let (passed, found) = filter.fate_of(|filter| filter.arrive(&ethernet(comes)));
        if found != [*fate] || passed.is_none() != fate.starts_with("held") {
            wrong.push(format!("{i}: {found:?}, not {fate}"));
        } else if passed.is_none() && filter.depart(&carrier).as_ref() != Some(&ethernet(comes).bytes) {
            wrong.push(format!("{i}: the carrier does not leave as what was withheld"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// With `merge-sack`: what the queued one has to say must be in what comes.
#[test]
fn sack_may_be_merged_with_sack_that_covers_it() {
    let Some(mut filter) = Filter::for_test("sack_may_be_merged_with_sack_that_covers_it") else { return };
    let sack = |number: u32, blocks: &[(u32, u32)]| ack(number).sack(blocks);
    let one = || sack(10_000, &[(12_000, 13_000)]);
    let two = || sack(10_000, &[(16_000, 17_000), (12_000, 13_000)]);
    let table = [
        decision(one(), sack(10_000, &[(12_000, 14_000)]), "held redundant"),
        decision(one(), sack(11_000, &[(12_000, 13_000)]), "held redundant"),
        decision(one(), sack(14_000, &[(16_000, 17_000)]), "held redundant"),
        decision(two(), sack(10_000, &[(16_000, 18_000), (12_000, 13_000)]), "held redundant"),
        decision(two(), sack(10_000, &[(12_000, 17_000), (20_000, 21_000)]), "held redundant"),
        decision(one().v6(), sack(10_000, &[(12_000, 14_000)]).v6(), "held redundant"),
        decision(
            plain(10_000).sack(&[(12_000, 13_000)]),
            plain(10_000).sack(&[(12_000, 14_000)]),
            "held redundant",
        ),
        decision(one(), one(), "passed duplicate"),
        decision(one(), one().window(700), "passed duplicate"),
        decision(one(), sack(9_000, &[(12_000, 14_000)]), "passed duplicate"),
        decision(one(), sack(10_000, &[(12_500, 14_000)]), "passed sack"),
        decision(one(), sack(11_000, &[(14_000, 15_000)]), "passed sack"),
        decision(two(), sack(10_000, &[(16_000, 18_000), (20_000, 21_000)]), "passed sack"),
        // A report of duplicates, and more blocks than are merged.
        decision(one(), sack(13_500, &[(12_000, 13_000)]), "passed sack"),
        decision(two(), sack(10_000, &[(16_000, 17_000), (16_000, 18_000)]), "passed sack"),
        decision(
            plain(10_000).sack(&[(12_000, 13_000); 4]),
            plain(10_000).sack(&[(12_000, 14_000); 4]),
            "passed sack",
        ),
        decision(one(), sack(10_000, &[(12_000, 14_000)]).window(0), "passed zero_window"),
        decision(one(), sack(10_000, &[(12_000, 14_000)]).flags(flag::ACK | flag::ECE), "passed flags"),
        // SACK begins, grows, shrinks, ends: the carrier becomes as long as what it stands for.
        decision(ack(10_000), one(), "held redundant"),
        decision(
            ack(10_000),
            sack(10_000, &[(20_000, 21_000), (16_000, 17_000), (12_000, 13_000)]),
            "held redundant",
        ),
        decision(one(), two(), "held redundant"),
        decision(two(), sack(17_000, &[(18_000, 19_000)]), "held redundant"),
        decision(two(), sack(10_000, &[(12_000, 17_000)]), "held redundant"),
        decision(one(), ack(20_000), "held redundant"),
        decision(ack(10_000).v6(), two().v6(), "held redundant"),
        decision(two().v6(), ack(20_000).v6(), "held redundant"),
        decision(plain(10_000).sack(&[(12_000, 13_000)]), plain(20_000), "held redundant"),
        // Its blocks are not all there.
        decision(one(), ack(12_500), "passed sack"),
        decision(two(), sack(10_000, &[(12_000, 13_000)]), "passed sack"),
        // It might end in padding, or has other options.
        decision(plain(10_000), plain(10_000).sack(&[(12_000, 13_000)]), "passed layout"),
        decision(ack(10_000), plain(20_000).sack(&[(30_000, 31_000)]), "passed layout"),
    ];
    filter.control.merge_sack = 1;
    filter.tell();
    assert_decided(&mut filter, &table);
}

#[test]
fn the_carrier_leaves_with_the_newest_numbers() {
    const TEST: &str = "the_carrier_leaves_with_the_newest_numbers";
    for layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let Some(mut filter) = Filter::for_test_on(TEST, layer) else { return };
        for (queued, withheld) in [
            (ack(10_000), vec![ack(20_000).window(900)]),
            (ack(10_000), vec![ack(20_000), ack(21_000), ack(0x8000_0000).window(65_535)]),
            (ack(10_000).v6(), vec![ack(20_000).v6().window(1), ack(30_000).v6()]),
            (plain(10_000), vec![plain(12_000).window(77)]),
            (plain(0xffff_0000).v6(), vec![plain(5).v6()]),
        ] {
            filter.reset();
            let carrier = filter.enqueue(&queued.build(layer)).expect("it passes");
            let newest = withheld.last().expect("one").build(layer);
            for packet in &withheld {
                assert!(filter.arrive(&packet.build(layer)).is_none(), "it is withheld");
            }
            let (left, fates) = filter.fate_of(|filter| filter.depart(&carrier));
            assert_eq!(fates, ["rewritten newest"]);
            assert_eq!(left.expect("it leaves"), newest.bytes, "all of it, with the checksum");
            // With the carrier gone the next one passes, and is not changed.
            let next = filter.enqueue(&ack(0x8000_0100).build(layer));
            assert!(next.is_some());
        }
    }
}

#[test]
fn without_a_known_carrier_nothing_is_withheld() {
    let Some(mut filter) = Filter::for_test("without_a_known_carrier_nothing_is_withheld") else { return };
    let expect = |filter: &mut Filter, number: u32, fate: &str| {
        let (packet, found) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(number))));
        assert_eq!(found, [fate], "ACK {number}");
        packet
    };
    let first = expect(&mut filter, 10_000, "passed first").expect("it passes");
    // On its way, but nobody saw it enter: the queue may have been full.
    let second = expect(&mut filter, 20_000, "passed unconfirmed").expect("it passes");
    filter.confirm(&first);
    expect(&mut filter, 21_000, "passed unconfirmed");
    filter.reset();
    let first = expect(&mut filter, 10_000, "passed first").expect("it passes");
    filter.confirm(&first);
    filter.depart(&first).expect("it leaves");
    let third = expect(&mut filter, 30_000, "passed no_carrier").expect("it passes");
    filter.confirm(&third);
    filter.now += 3_000 * MILLISECOND;
    expect(&mut filter, 40_000, "passed stale_carrier");
    filter.now += 20_000 * MILLISECOND;
    expect(&mut filter, 50_000, "passed first");
    drop(second);
}

#[test]
fn methods_delta_spare_and_stretch() {
    let Some(mut filter) = Filter::for_test("methods_delta_spare_and_stretch") else { return };
    let mut after_one = |change: &dyn Fn(&mut Filter)| {
        let control = filter.control;
        filter.reset();
        change(&mut filter);
        filter.tell();
        filter.enqueue(&ethernet(&ack(10_000))).expect("it passes");
        let (_, found) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(20_000))));
        filter.control = control;
        found.concat()
    };
    assert_eq!(after_one(&|f| f.control.delta = 2), "passed below_delta");
    assert_eq!(after_one(&|f| f.control.spared_bytes = 20_000), "passed slow_start");
    assert_eq!(after_one(&|f| f.control.spared_bytes = 10_000), "held redundant");
    assert_eq!(after_one(&|f| f.control.filter = abi::PENDULUM_FILTER_OFF), "passed filter_off");
    assert_eq!(after_one(&|f| f.control.filter = abi::PENDULUM_FILTER_DELAYED), "passed under_used");
    let full = |f: &mut Filter| {
        f.control.filter = abi::PENDULUM_FILTER_DELAYED;
        f.set_channel(abi::pendulum_channel { filtering: 1, ..Default::default() });
    };
    assert_eq!(after_one(&full), "held redundant");
    assert_eq!(after_one(&|f| f.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION), "passed fair_share");
    let dry = |f: &mut Filter| {
        f.control.mode = abi::PENDULUM_SHAPE_DRY_RUN;
        f.control.uplink_ifindex = 0;
    };
    assert_eq!(after_one(&dry), "would_hold redundant");

    filter.reset();
    filter.control.stretch = 3;
    filter.tell();
    filter.enqueue(&ethernet(&ack(10_000))).expect("it passes");
    let withheld = (1..10).take_while(|n| filter.arrive(&ethernet(&ack(10_000 + 100 * n))).is_none());
    assert_eq!(withheld.count(), 3, "a carrier stands for so many at most");
}

/// What was seen to be dropped carries nothing, and what it carried no longer stops the filter.
#[test]
fn what_the_queue_has_dropped_is_no_carrier() {
    let Some(mut filter) = Filter::for_test("what_the_queue_has_dropped_is_no_carrier") else { return };
    let dropped = filter.enqueue(&ethernet(&ack(10_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    filter.drop(&dropped);
    let (next, fates) = filter.fate_of(|filter| filter.enqueue(&ethernet(&ack(30_000))));
    assert_eq!(fates, ["passed no_carrier", "released carrier_lost"]);
    let next = next.expect("it passes");
    assert_eq!(filter.depart(&next).expect("it leaves"), next.bytes);

    let carrier = filter.enqueue(&ethernet(&ack(40_000))).expect("it passes");
    filter.now += filter.control.carrier_ns;
    assert!(filter.arrive(&ethernet(&ack(50_000))).is_none(), "the one after it is a carrier");
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(50_000)).bytes);
}

/// A lane that overflows with what cannot be merged drops carriers, of whichever connection: nothing is withheld until
/// what stood there has left. An ACK that is dropped without anything to give is no reason.
#[test]
fn a_lost_carrier_stops_the_filter_for_a_while() {
    let Some(mut filter) = Filter::for_test("a_lost_carrier_stops_the_filter_for_a_while") else { return };
    let other = |number: u32| ethernet(&ack(number).home_port(4_321));
    let bare = filter.enqueue(&ethernet(&ack(10_000))).expect("it passes");
    filter.drop(&bare);
    let lost = filter.enqueue(&ethernet(&ack(20_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(30_000))).is_none(), "a drop with nothing to give is no reason");
    filter.drop(&lost);

    filter.now += filter.control.carrier_ns / 2;
    filter.enqueue(&other(10_000)).expect("it passes");
    let (_, fates) = filter.fate_of(|filter| filter.enqueue(&other(20_000)));
    assert_eq!(fates, ["passed overflow"]);
    filter.now += filter.control.carrier_ns / 2;
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&other(30_000)));
    assert_eq!(fates, ["held redundant"]);
}

/// A lane that overflows drops its oldest, which may be a carrier: the filter finds out when the next one leaves.
#[test]
fn a_carrier_dropped_in_the_queue_does_not_stop_the_filter() {
    let Some(mut filter) = Filter::for_test("a_carrier_dropped_in_the_queue_does_not_stop_the_filter") else {
        return;
    };
    let dropped = filter.enqueue(&ethernet(&ack(10_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    // It carries SACK, and passes; with the overflow its enqueue is not confirmed.
    let behind = filter.arrive(&ethernet(&ack(30_000).sack(&[(40_000, 41_000)]))).expect("it passes");
    drop(dropped);
    let (left, fates) = filter.fate_of(|filter| filter.depart(&behind));
    assert_eq!(left.expect("it leaves"), behind.bytes, "as it came: it says more than what was pending");
    assert_eq!(fates, ["released carrier_lost"]);
    let carrier = filter.enqueue(&ethernet(&ack(50_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(60_000))).is_none(), "the next one is withheld again");
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(60_000)).bytes);
}

/// Paper 002 §4.1: the newest goes out in the place of the oldest, and those in between need not go out at all.
#[test]
fn per_connection_the_newest_takes_the_place_of_the_oldest() {
    let Some(mut filter) = Filter::for_test("per_connection_the_newest_takes_the_place_of_the_oldest") else {
        return;
    };
    let queued: Vec<_> = (1..=3)
        .map(|n| {
            // Filtering begins with the fourth.
            filter.control.delta = 3;
            filter.tell();
            filter.enqueue(&ethernet(&ack(10_000 * n))).expect("it passes")
        })
        .collect();
    assert!(filter.arrive(&ethernet(&ack(50_000))).is_none());
    filter.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION;
    filter.tell();
    assert_eq!(filter.depart(&queued[0]).expect("it leaves"), ethernet(&ack(50_000)).bytes);
    for stale in &queued[1..] {
        let (left, fates) = filter.fate_of(|filter| filter.depart(stale));
        assert_eq!((left, fates.concat().as_str()), (None, "held overtaken"));
    }
    assert!(filter.enqueue(&ethernet(&ack(60_000))).is_some());
}
