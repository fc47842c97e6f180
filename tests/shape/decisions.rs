//! Every decision of the filter, one by one: which ACK is withheld, which passes and why, and what the carrier leaves
//! with. A rewritten ACK is compared with one that was made with the new numbers: checksum and all.

use pendulum::bpf::abi;

use crate::craft::{self, CraftedFrame, LinkLayer, Tcp, flag};
use crate::kernel::{Filter, MILLISECOND, rate_at};

/// Without options.
pub(crate) fn plain(number: u32) -> Tcp {
    craft::up().seq(1).ack(number).window(500)
}

pub(crate) fn ack(number: u32) -> Tcp {
    plain(number).ts(number / 10, number / 20)
}

pub(crate) fn ethernet(packet: &Tcp) -> CraftedFrame {
    packet.build(LinkLayer::Ethernet)
}

/// What stands in the queue, what comes then, and what becomes of that.
pub(crate) struct Decision {
    pub(crate) queued: Tcp,
    pub(crate) comes: Tcp,
    pub(crate) fate: &'static str,
}

pub(crate) fn decision(queued: Tcp, comes: Tcp, fate: &'static str) -> Decision {
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
        // Timestamps in another place than most have them.
        decision(
            first(),
            plain(20_000).options(&[8, 10, 0, 0, 7, 208, 0, 0, 3, 232, 1, 1]),
            "held redundant",
        ),
        // Says nothing new, or something older.
        decision(first(), ack(10_000), "passed duplicate"),
        decision(first(), plain(10_000).ts(1_000, 500).window(700), "passed duplicate"),
        decision(first(), ack(9_000), "passed duplicate"),
        decision(plain(5), plain(u32::MAX - 5), "passed duplicate"),
        decision(first(), plain(20_000).ts(999, 1_000), "passed timestamp"),
        decision(first(), plain(20_000).ts(2_000, 499), "passed timestamp"),
        decision(plain(10_000), ack(20_000), "passed timestamp"),
        decision(first(), plain(20_000), "passed timestamp"),
        // Says more than an acknowledgement number can.
        decision(first(), ack(20_000).flags(flag::ACK | flag::ECE), "passed flags"),
        decision(first(), ack(20_000).flags(flag::ACK | flag::CWR), "passed flags"),
        decision(first(), ack(20_000).flags(flag::ACK | flag::ECE | flag::CWR), "passed flags"),
        decision(first(), ack(20_000).flags(flag::ACK | 0x08), "passed flags"),
        // A reserved bit beside AE: data offset of eight words, 0b0010.
        decision(first(), ack(20_000).patch(14 + 20 + 12, 0x82), "passed flags"),
        decision(first(), ack(20_000).window(0), "passed zero_window"),
        decision(first(), option(&[30, 4, 0, 0]), "passed options"),
        decision(first(), option(&[29, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "passed options"),
        decision(first(), option(&[0, 0, 0, 0]), "passed options"),
        decision(first(), option(&[1, 1, 1, 254]), "passed options"),
        decision(first(), option(&[254, 1, 1, 1]), "passed options"),
        decision(first(), option(&[254, 5, 1, 1]), "passed options"),
        // An option that is known, and ends behind the header.
        decision(plain(10_000), plain(20_000).options(&[1, 1, 8, 10]), "passed options"),
        decision(first(), ack(20_000).ts(2_000, 1_000), "passed options"),
        decision(
            plain(10_000),
            plain(20_000).options(&[8, 9, 0, 0, 0, 1, 0, 0, 0, 1, 1, 1]),
            "passed options",
        ),
        decision(plain(10_000), plain(20_000).options(&MD5), "passed options"),
        // The carrier could not bear it.
        decision(first(), ack(20_000).ecn(1), "passed dscp"),
        decision(first().flags(flag::ACK | flag::ECE), ack(20_000), "passed unsafe_carrier"),
        decision(first().window(0), ack(20_000), "passed unsafe_carrier"),
        decision(first().options(&[30, 4, 0, 0]), ack(20_000), "passed unsafe_carrier"),
        // A keep-alive or a zero-window probe asks for an ACK, and leaves as it came: also if it acknowledges more.
        decision(first(), ack(20_000).seq(0), "passed sequence"),
        decision(first(), ack(10_000).seq(0), "passed sequence"),
        decision(first().seq(5_000), ack(20_000).seq(1), "passed sequence"),
        decision(first().v6().seq(0), ack(20_000).v6().seq(u32::MAX), "passed sequence"),
        // Nor is one a carrier: with a number that was used nobody looks at its content. (The first of a connection may be one.)
        decision(first().seq(0), ack(20_000), "passed sequence"),
        // Data in between that was not seen.
        decision(first(), ack(20_000).seq(1_449), "passed sequence"),
        decision(first().seq(u32::MAX), ack(20_000).seq(1), "passed sequence"),
        decision(first().seq(u32::MAX), ack(20_000).seq(u32::MAX), "held redundant"),
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
pub(crate) fn assert_decided(filter: &mut Filter, decisions: &[Decision]) {
    let mut wrong = Vec::new();
    for (i, Decision { queued, comes, fate }) in decisions.iter().enumerate() {
        filter.reset();
        let carrier = filter.arrive(&ethernet(queued)).expect("the first one passes");
        let (passed, found) = filter.fate_of(|filter| filter.arrive(&ethernet(comes)));
        if found != [*fate] || passed.is_none() != fate.starts_with("held") {
            wrong.push(format!("{i}: {found:?}, not {fate}"));
        } else if passed.is_none() && filter.depart(&carrier).as_ref() != Some(&ethernet(comes).bytes) {
            wrong.push(format!("{i}: the carrier does not leave as what was withheld"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_carrier_leaves_with_the_newest_content() {
    const TEST: &str = "the_carrier_leaves_with_the_newest_content";
    for layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let Some(mut filter) = Filter::for_test_on(TEST, layer) else { return };
        for (queued, withheld, next) in [
            (ack(10_000), vec![ack(20_000).window(900)], 40_000),
            (ack(10_000), vec![ack(20_000), ack(21_000), ack(0x8000_0000).window(65_535)], 0x8000_0100),
            (ack(10_000).v6(), vec![ack(20_000).v6().window(1), ack(30_000).v6()], 40_000),
            (plain(10_000), vec![plain(12_000).window(77)], 40_000),
            (plain(0xffff_0000).v6(), vec![plain(5).v6()], 40_000),
            (plain(10_000), vec![plain(12_000).sack(&[(13_000, 14_000), (15_000, 16_000)])], 12_500),
        ] {
            filter.reset();
            let carrier = filter.arrive(&queued.build(layer)).expect("it passes");
            let newest = withheld.last().expect("one").build(layer);
            for packet in &withheld {
                assert!(filter.arrive(&packet.build(layer)).is_none(), "it is withheld");
            }
            let (left, fates) = filter.fate_of(|filter| filter.depart(&carrier));
            assert_eq!(fates, ["rewritten newest"]);
            assert_eq!(left.expect("it leaves"), newest.bytes, "all of it, with the checksum");
            // With the carrier gone the next one passes, and is not changed.
            let next = withheld[0].clone().ack(next).build(layer);
            let (next, fates) = filter.fate_of(|filter| filter.arrive(&next));
            assert_eq!(fates, ["passed no_carrier"]);
            let next = next.expect("it passes");
            assert_eq!(filter.depart(&next).expect("it leaves"), next);
        }
    }
}

#[test]
fn without_a_carrier_nothing_is_withheld() {
    let Some(mut filter) = Filter::for_test("without_a_carrier_nothing_is_withheld") else { return };
    let expect = |filter: &mut Filter, number: u32, fate: &str| {
        let (packet, found) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(number))));
        assert_eq!(found, [fate], "ACK {number}");
        packet
    };
    let first = expect(&mut filter, 10_000, "passed first").expect("it passes");
    filter.depart(&first).expect("it leaves");
    expect(&mut filter, 30_000, "passed no_carrier").expect("it passes");
    filter.now += 2_000 * MILLISECOND;
    expect(&mut filter, 31_000, "held redundant");
    filter.now += MILLISECOND;
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(40_000))));
    assert_eq!(fates, ["passed stale_carrier", "released carrier_lost"]);
    // Packets that are redirected no more do not come back: a young carrier is none either.
    expect(&mut filter, 41_000, "passed stale_carrier");
    let other = filter.arrive(&ethernet(&ack(1).payload(9).home_port(99))).expect("it passes");
    filter.depart(&other).expect("it leaves");
    expect(&mut filter, 42_000, "held redundant");
    filter.now += 10_001 * MILLISECOND;
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(50_000))));
    assert_eq!(fates, ["passed first", "released carrier_lost"]);
}

#[test]
fn methods_delta_spare_and_stretch() {
    let Some(mut filter) = Filter::for_test("methods_delta_spare_and_stretch") else { return };
    let mut after_one = |change: &dyn Fn(&mut Filter)| {
        let control = filter.control;
        filter.reset();
        change(&mut filter);
        filter.tell();
        filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
        let (_, found) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(20_000))));
        filter.control = control;
        found.concat()
    };
    assert_eq!(after_one(&|f| f.control.delta = 2), "passed below_delta");
    assert_eq!(after_one(&|f| f.control.spared_bytes = 20_000), "passed slow_start");
    assert_eq!(after_one(&|f| f.control.spared_bytes = 10_000), "held redundant");
    assert_eq!(after_one(&|f| f.control.filter = abi::PENDULUM_FILTER_OFF), "passed filter_off");
    let delayed = |f: &mut Filter| {
        f.control.filter = abi::PENDULUM_FILTER_DELAYED;
        f.control.delta = 2;
    };
    assert_eq!(after_one(&delayed), "passed under_used");
    let full = |f: &mut Filter| {
        delayed(f);
        f.set_channel(abi::pendulum_channel { filtering: 1, rate: rate_at(f.now), ..Default::default() });
    };
    assert_eq!(after_one(&full), "held redundant");
    assert_eq!(after_one(&|f| f.control.filter = abi::PENDULUM_FILTER_PER_CONNECTION), "passed fair_share");
    let dry = |f: &mut Filter| {
        f.control.mode = abi::PENDULUM_SHAPE_DRY_RUN;
        f.control.uplink_ifindex = 0;
        f.control.sojourn_ns = 5 * MILLISECOND;
    };
    assert_eq!(after_one(&dry), "would_hold redundant");
    let nothing_waits = |f: &mut Filter| {
        dry(f);
        f.control.sojourn_ns = 0;
    };
    assert_eq!(after_one(&nothing_waits), "passed no_carrier");

    filter.reset();
    filter.control.stretch = 3;
    filter.tell();
    filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    let withheld = (1..10).take_while(|n| filter.arrive(&ethernet(&ack(10_000 + 100 * n))).is_none());
    assert_eq!(withheld.count(), 3, "a carrier stands for so many at most");
}

/// With other packets leaving, too: a carrier that has stood for longer than any queue is long may have been dropped in it.
#[test]
fn a_carrier_of_long_ago_is_none() {
    let Some(mut filter) = Filter::for_test("a_carrier_of_long_ago_is_none") else { return };
    filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    filter.now += 2_001 * MILLISECOND;
    let other = filter.arrive(&ethernet(&ack(1).payload(9).home_port(99))).expect("it passes");
    filter.depart(&other).expect("it leaves");
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(20_000))));
    assert_eq!(fates, ["passed stale_carrier"]);
}

/// δ counts what stands in the queue. Once the newest has left, what came before it has left, too, or was dropped.
#[test]
fn acks_that_the_queue_dropped_do_not_count_as_waiting() {
    let Some(mut filter) = Filter::for_test("acks_that_the_queue_dropped_do_not_count_as_waiting") else {
        return;
    };
    filter.control.delta = 2;
    filter.tell();
    filter.arrive(&ethernet(&ack(10_000))).expect("it passes, and is dropped");
    let newest = filter.arrive(&ethernet(&ack(20_000))).expect("one waits: it passes");
    filter.depart(&newest).expect("it leaves");
    filter.arrive(&ethernet(&ack(30_000))).expect("none waits: it passes");
    let (_, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(40_000))));
    assert_eq!(fates, ["passed below_delta"], "one waits");
    assert!(filter.arrive(&ethernet(&ack(50_000))).is_none(), "two wait");
}

#[test]
fn withheld_bytes_are_those_of_the_packets() {
    let Some(mut filter) = Filter::for_test("withheld_bytes_are_those_of_the_packets") else { return };
    let mut held = |packet: Tcp| {
        let before = filter.programs.counts().expect("readable").held_bytes;
        filter.arrive(&ethernet(&packet));
        filter.programs.counts().expect("readable").held_bytes - before
    };
    // 14 bytes of Ethernet, 20 of IP or 40, 20 of TCP; 12 with timestamps, 12 with a SACK block.
    assert_eq!(held(ack(10_000)), 0);
    assert_eq!(held(ack(20_000)), 66);
    assert_eq!(held(ack(20_000).sack(&[(30_000, 31_000)])), 78);
    assert_eq!(held(plain(10_000).v6()), 0);
    assert_eq!(held(plain(20_000).v6()), 74);
}

/// The queue may drop a carrier. What is behind it says no less, and the filter goes on.
#[test]
fn a_carrier_dropped_in_the_queue_does_not_stop_the_filter() {
    let Some(mut filter) = Filter::for_test("a_carrier_dropped_in_the_queue_does_not_stop_the_filter") else {
        return;
    };
    filter.arrive(&ethernet(&ack(10_000))).expect("it passes, and is dropped");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    let behind = filter.arrive(&ethernet(&ack(30_000).flags(flag::ACK | flag::ECE))).expect("it passes");
    let (left, fates) = filter.fate_of(|filter| filter.depart(&behind));
    assert_eq!(left.expect("it leaves"), behind, "as it came: it says more than what was pending");
    assert_eq!(fates, ["released carrier_lost"]);
    let carrier = filter.arrive(&ethernet(&ack(50_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(60_000))).is_none(), "the next one is withheld again");
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(60_000)).bytes);
}

/// While something is pending for an older carrier, nothing is withheld for a newer one.
#[test]
fn one_carrier_at_a_time() {
    let Some(mut filter) = Filter::for_test("one_carrier_at_a_time") else { return };
    let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    let special = filter.arrive(&ethernet(&ack(30_000).flags(flag::ACK | flag::ECE))).expect("it passes");
    let (plain, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(40_000))));
    let plain = plain.expect("it passes");
    assert_eq!(fates, ["passed unsafe_carrier"]);
    let (last, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(50_000))));
    assert_eq!(fates, ["passed unsafe_carrier"], "the carrier is an older one");
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(20_000)).bytes);
    for packet in [special, plain, last.expect("it passes")] {
        assert_eq!(filter.depart(&packet).expect("it leaves"), packet);
    }
}

/// Data behind the carrier has timestamps that the carrier, rewritten, would make old for the receiver (PAWS, RFC 7323 §5).
#[test]
fn no_ack_takes_a_place_before_data_of_its_connection() {
    let Some(mut filter) = Filter::for_test("no_ack_takes_a_place_before_data_of_its_connection") else {
        return;
    };
    let carrier = filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    assert!(filter.arrive(&ethernet(&ack(20_000))).is_none());
    let data = filter.arrive(&ethernet(&ack(20_000).payload(100))).expect("it passes");
    let (last, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(&ack(30_000).seq(101))));
    assert_eq!(fates, ["passed unsafe_carrier"]);
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(20_000)).bytes);
    for packet in [data, last.expect("it passes")] {
        assert_eq!(filter.depart(&packet).expect("it leaves"), packet);
    }
}

/// A window that is closed, or an idle connection: each probe passes, and none carries what came after it.
#[test]
fn a_probe_leaves_as_it_came_and_stands_for_nothing_else() {
    let Some(mut filter) = Filter::for_test("a_probe_leaves_as_it_came_and_stands_for_nothing_else") else {
        return;
    };
    let data = filter.arrive(&ethernet(&ack(10_000).payload(100))).expect("it passes");
    let first = filter.arrive(&ethernet(&ack(10_000).seq(101))).expect("it passes");
    let mut queue = vec![data, first];
    for step in 1..6 {
        // Each has a newer acknowledgement, behind data that is on its way to us meanwhile.
        let number = 10_000 + 2_000 * step;
        let (probe, fates) = filter.fate_of(|f| f.arrive(&ethernet(&ack(number).seq(100))));
        assert_eq!(fates, ["passed sequence"], "probe {step}");
        queue.push(probe.expect("it passes"));
        let (next, fates) = filter.fate_of(|f| f.arrive(&ethernet(&ack(number + 1_000).seq(101))));
        assert_eq!(fates, ["passed unsafe_carrier"], "behind probe {step}");
        queue.push(next.expect("it passes"));
    }
    assert!(filter.arrive(&ethernet(&ack(30_000).seq(101))).is_none(), "an ACK is a carrier again");
    let carrier = queue.pop().expect("the newest");
    for packet in queue {
        assert_eq!(filter.depart(&packet).expect("it leaves"), packet);
    }
    assert_eq!(filter.depart(&carrier).expect("it leaves"), ethernet(&ack(30_000).seq(101)).bytes);
}
