//! Every decision of the filter, one by one: which ACK is withheld, which passes and why, and what the carrier leaves
//! with. A rewritten ACK is compared with one that was made with the new numbers: checksum and all.

use pendulum::bpf::abi;

use crate::craft::{self, CraftedFrame, LinkLayer, Tcp, flag};
use crate::kernel::{Filter, LANE, MILLISECOND};

fn root(test: &str) -> bool {
    let root = pendulum_lab::is_root();
    if !root {
        crate::rig::skipped(test, "needs root");
    }
    root
}

fn ack(number: u32) -> Tcp {
    craft::up().seq(1).ack(number).window(500).ts(number / 10, number / 20)
}

fn ethernet(packet: &Tcp) -> CraftedFrame {
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
    let plain = |number: u32| craft::up().seq(1).ack(number).window(500);
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
    if !root("each_decision_and_its_reason") {
        return;
    }
    let mut wrong = Vec::new();
    let mut filter = Filter::new(LinkLayer::Ethernet);
    for (i, Decision { queued, comes, fate }) in decisions().iter().enumerate() {
        filter.reset();
        let carrier = filter.enqueue(&ethernet(queued)).expect("the first one passes");
        assert_eq!(carrier.priority, LANE, "a pure ACK goes into the lane");
        let (passed, found) = filter.fate_of(|filter| filter.arrive(&ethernet(comes)));
        if found != [*fate] || passed.is_none() != fate.starts_with("held") {
            wrong.push(format!("{i}: {found:?}, not {fate}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is no pure ACK is no business of the lane.
#[test]
fn everything_else_passes_untouched() {
    if !root("everything_else_passes_untouched") {
        return;
    }
    let mut filter = Filter::new(LinkLayer::Ethernet);
    for packet in [
        ack(1).payload(100),
        craft::up().flags(flag::SYN),
        ack(1).flags(flag::ACK | flag::FIN),
        ack(1).flags(flag::ACK | flag::RST),
        ack(1).flags(flag::ACK | flag::URG),
        ack(1).flags(0),
        ack(1).fragment(0x2000),
        ack(1).ip_options(&[1, 1, 1, 0]),
        ack(1).vlan(0x8100, 7),
        ack(1).pppoe(),
        ack(1).protocol(17),
        ack(1).v6().extension(0, &[0; 6]),
    ] {
        let (queued, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&packet)));
        let queued = queued.expect("it passes");
        assert_eq!((queued.priority, fates.as_slice()), (6, [].as_slice()));
        assert_eq!(filter.depart(&queued).expect("it passes"), queued.bytes);
    }
}

#[test]
fn the_carrier_leaves_with_the_newest_numbers() {
    if !root("the_carrier_leaves_with_the_newest_numbers") {
        return;
    }
    for layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let mut filter = Filter::new(layer);
        let plain = |number: u32| craft::up().seq(1).ack(number).window(500);
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
    if !root("without_a_known_carrier_nothing_is_withheld") {
        return;
    }
    let mut filter = Filter::new(LinkLayer::Ethernet);
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
    if !root("methods_delta_spare_and_stretch") {
        return;
    }
    let mut filter = Filter::new(LinkLayer::Ethernet);
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

/// Paper 002 §4.1: the newest goes out in the place of the oldest, and those in between need not go out at all.
#[test]
fn per_connection_the_newest_takes_the_place_of_the_oldest() {
    if !root("per_connection_the_newest_takes_the_place_of_the_oldest") {
        return;
    }
    let mut filter = Filter::new(LinkLayer::Ethernet);
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
