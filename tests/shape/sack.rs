//! SACK: when one ACK tells all that others do, of those in the queue and of what waits for one of them.

use crate::craft::{Tcp, flag};
use crate::decisions::{ack, assert_decided, decision, ethernet, plain};
use crate::kernel::Filter;

/// What the queued one has to say in SACK blocks must be in what comes.
#[test]
fn sack_is_merged_with_sack_that_covers_it() {
    let Some(mut filter) = Filter::for_test("sack_is_merged_with_sack_that_covers_it") else { return };
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
        decision(one(), sack(10_000, &[(11_500, 12_500)]), "passed sack"),
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
        decision(plain(10_000), plain(10_000).sack(&[(12_000, 13_000)]), "held redundant"),
        decision(plain(0xffff_f000), plain(0xffff_f000).sack(&[(0xffff_f800, 0x800)]), "held redundant"),
        decision(plain(0xffff_f000).sack(&[(0xffff_f800, 0x800)]), plain(0x900), "held redundant"),
        // Its blocks are not all there.
        decision(one(), ack(12_500), "passed sack"),
        decision(two(), sack(10_000, &[(12_000, 13_000)]), "passed sack"),
        decision(ack(10_000), plain(20_000).sack(&[(30_000, 31_000)]), "passed timestamp"),
    ];
    assert_decided(&mut filter, &table);
}

/// Content that waits for an earlier carrier is given up for an ACK that tells all of it, unless a duplicate of it may stand behind that carrier.
#[test]
fn what_is_pending_for_an_earlier_carrier() {
    let Some(mut filter) = Filter::for_test("what_is_pending_for_an_earlier_carrier") else { return };
    let sack = |number: u32, left: u32| ack(number).sack(&[(left, left + 1_000)]);
    let pending = || sack(20_000, 30_000);
    let mut row = |behind: &Tcp, comes: &Tcp| {
        filter.reset();
        let mut queue = vec![filter.arrive(&ethernet(&ack(10_000))).expect("it passes")];
        assert!(filter.arrive(&ethernet(&pending())).is_none());
        for packet in [behind, &sack(20_000, 50_000)] {
            queue.push(filter.arrive(&ethernet(packet)).expect("it passes"));
        }
        let (packet, fates) = filter.fate_of(|filter| filter.arrive(&ethernet(comes)));
        queue.extend(packet);
        let left: Vec<_> = queue.iter().map(|packet| filter.depart(packet).expect("it leaves")).collect();
        (fates.concat(), left[0].clone(), left[2].clone())
    };
    let bytes = |packet: &Tcp| ethernet(packet).bytes;
    // It passes for its blocks, which do not tell of those that are pending.
    let other = sack(20_000, 40_000);
    let all = [(29_000, 60_000)];
    for covers in [ack(60_000), ack(20_000).sack(&all), ack(60_000).sack(&[(70_000, 71_000)])] {
        let found = row(&other, &covers);
        let given_up = "held redundantreleased superseded".to_owned();
        assert_eq!(found, (given_up, bytes(&ack(10_000)), bytes(&covers)), "{covers:?}");
    }
    let passes = |found: (String, Vec<u8>, Vec<u8>)| {
        let expected = ("passed unsafe_carrier".to_owned(), bytes(&pending()), bytes(&sack(20_000, 50_000)));
        assert_eq!(found, expected);
    };
    passes(row(&other, &ack(21_000).sack(&[(35_000, 60_000)])));
    // A duplicate of what is pending, and what nobody may touch.
    passes(row(&ack(20_000), &ack(60_000)));
    passes(row(&ack(20_000).flags(flag::ACK | flag::ECE), &ack(60_000)));
}

/// Each carrier stands for as many as one may.
#[test]
fn what_is_withheld_for_the_next_carrier_counts_anew() {
    let Some(mut filter) = Filter::for_test("what_is_withheld_for_the_next_carrier_counts_anew") else {
        return;
    };
    filter.control.stretch = 3;
    filter.tell();
    let sack = |number: u32, left: u32| ethernet(&ack(number).sack(&[(left, left + 1_000)]));
    filter.arrive(&ethernet(&ack(10_000))).expect("it passes");
    for number in [20_000, 20_100, 20_200] {
        assert!(filter.arrive(&sack(number, 30_000)).is_none());
    }
    filter.arrive(&sack(20_300, 40_000)).expect("its blocks do not tell of those");
    let withheld = (0..10).take_while(|n| filter.arrive(&ethernet(&ack(50_000 + n))).is_none());
    assert_eq!(withheld.count(), 3);
}
