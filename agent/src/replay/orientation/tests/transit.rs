//! Packets recognised in both captures.

use super::super::*;
use super::{PUBLIC_A, PUBLIC_B, PUBLIC_C, mapped, observe, readdressed, record, segment};
use crate::replay::packet::{LinkType, ParsedSegment, TcpOptions};
use crate::replay::tests::craft::{down, up};

const MS: u64 = 1_000_000;

/// A segment from A to B that no other number makes again.
fn sent(number: u32) -> ParsedSegment {
    segment(&record(&readdressed(&up().seq(number), PUBLIC_A, PUBLIC_B), LinkType::RawIp))
}

/// The same from B to A.
fn received(number: u32) -> ParsedSegment {
    segment(&record(&readdressed(&down().seq(number), PUBLIC_B, PUBLIC_A), LinkType::RawIp))
}

fn from(source: [u8; 4], segment: ParsedSegment) -> ParsedSegment {
    ParsedSegment { source: mapped(source), ..segment }
}

fn to(destination: [u8; 4], segment: ParsedSegment) -> ParsedSegment {
    ParsedSegment { destination: mapped(destination), ..segment }
}

fn survey() -> Survey {
    let mut survey = Survey::default();
    observe(&mut survey, &readdressed(&up(), PUBLIC_A, PUBLIC_B), LinkType::RawIp);
    survey
}

/// A packet of the WAN capture, and the same in the LAN capture.
type Crossed = dyn Fn(u32) -> (ParsedSegment, ParsedSegment);

/// Two of 150 packets are enough to know that the captures belong together, by whatever they were recognised.
#[test]
fn every_way_of_recognising_counts() {
    let survey = survey();
    let whole = |number| (sent(number), sent(number));
    let upward = |number| (sent(number), from(PUBLIC_C, sent(number)));
    let downward = |number| (received(number), to(PUBLIC_C, received(number)));
    let ways: [(&str, &Crossed, bool); 3] =
        [("whole", &whole, false), ("upward", &upward, true), ("downward", &downward, true)];
    for (name, way, translated) in ways {
        for (known, unrelated) in [(1, true), (2, false)] {
            let mut transit = Transit::default();
            for number in 0..known {
                transit.on_wan(0, &way(number).0);
            }
            for number in 0..150 {
                transit.on_lan(&survey, 0, &way(number).1);
            }
            assert_eq!(transit.is_unrelated(), unrelated, "{name} {known}");
            assert_eq!(transit.is_translated(), translated, "{name} {known}");
        }
    }
}

/// Whether a packet of the LAN capture is found in the WAN capture, which holds the packet `MARK` too.
fn finds(mut transit: Transit, candidate: &ParsedSegment) -> bool {
    let survey = survey();
    for number in 0..140 {
        transit.on_lan(&survey, 0, &sent(MARK + 1 + number));
    }
    transit.on_lan(&survey, 0, &sent(MARK));
    assert!(transit.is_unrelated(), "one of 141");
    transit.on_lan(&survey, 0, candidate);
    !transit.is_unrelated()
}

const MARK: u32 = 1_000_000;

/// A packet that differs in anything a router leaves alone is another packet.
#[test]
fn packets_are_recognised_by_all_that_stays() {
    let original = ParsedSegment {
        options: TcpOptions { timestamps: Some((3, 4)), ..TcpOptions::default() },
        ..sent(7)
    };
    let known = |lan: ParsedSegment| {
        let mut transit = Transit::default();
        transit.on_wan(0, &sent(MARK));
        transit.on_wan(0, &original);
        finds(transit, &lan)
    };
    assert!(known(original));
    for other in [
        ParsedSegment { seq: 8, ..original },
        ParsedSegment { ack: 8, ..original },
        ParsedSegment { flags: original.flags | 8, ..original },
        ParsedSegment { window: 8, ..original },
        ParsedSegment { payload_bytes: 8, ..original },
        ParsedSegment { options: TcpOptions::default(), ..original },
        ParsedSegment { source_port: 8, destination_port: 8, ..original },
        ParsedSegment { source: [8; 16], destination: [8; 16], ..original },
    ] {
        assert!(!known(other), "{other:?}");
    }
    // One end may have been translated, its address or its port. What a router changes says nothing.
    for same in [
        ParsedSegment { source_port: 8, ..original },
        ParsedSegment { destination_port: 8, ..original },
        ParsedSegment { source: [8; 16], ..original },
        ParsedSegment { destination: [8; 16], ..original },
        ParsedSegment { ecn: 3, frame_bytes: 8, header_bytes: 8, ..original },
    ] {
        assert!(known(same), "{same:?}");
    }
}

/// Copies of a packet are counted once each, the first one first.
#[test]
fn the_first_of_two_copies_counts() {
    let survey = survey();
    let mut transit = Transit::default();
    // Sent, and sent again 5 s later; 2 ms from the LAN to the WAN.
    transit.on_wan(1_002 * MS, &sent(1));
    transit.on_wan(6_002 * MS, &sent(1));
    transit.on_wan(1_000 * MS, &received(1));
    for (time, segment) in [(1_000, sent(1)), (1_001, received(1)), (6_000, sent(1)), (6_001, received(1))] {
        transit.on_lan(&survey, time * MS, &segment);
    }
    // The packet took 2 ms, its copy is another: the clocks agree.
    assert_eq!(transit.clock_offset_ns(), 0);
    // With a LAN clock that is 10 ms ahead, the first one leaves 8 ms after it came; the copy takes none of this away.
    let mut ahead = Transit::default();
    ahead.on_wan(1_002 * MS, &sent(1));
    ahead.on_wan(6_002 * MS, &sent(1));
    ahead.on_wan(1_000 * MS, &received(1));
    for (time, segment) in [(1_010, sent(1)), (1_011, received(1)), (6_010, sent(1))] {
        ahead.on_lan(&survey, time * MS, &segment);
    }
    assert_eq!(ahead.clock_offset_ns(), -8 * MS.cast_signed());
}

/// Twenty thousand packets of the WAN capture are remembered.
#[test]
fn memory_of_the_wan_capture_is_bounded() {
    let remembered = |number| {
        let mut transit = Transit::default();
        transit.on_wan(0, &sent(MARK));
        (1..=20_000).for_each(|number| transit.on_wan(0, &sent(number)));
        finds(transit, &sent(number))
    };
    assert!(remembered(1) && remembered(19_999));
    assert!(!remembered(20_000));
}

/// Twelve packets each way behind address translation, so long from LAN to WAN, by the clocks as they are.
fn translated(up_ns: u64, down_ns: u64, up_packets: u32, down_packets: u32) -> Option<Exchanged> {
    let (survey, at) = (survey(), 1_000 * MS);
    let mut transit = Transit::default();
    for number in 0..up_packets {
        transit.on_wan(at + up_ns, &sent(number));
        transit.on_lan(&survey, at, &from(PUBLIC_C, sent(number)));
    }
    for number in 0..down_packets {
        transit.on_wan(at + down_ns, &received(number));
        transit.on_lan(&survey, at, &to(PUBLIC_C, received(number)));
    }
    transit.exchanged(&survey, &[])
}

/// What goes up takes longer from LAN to WAN than what comes down, whatever the clocks say. The other way round by more than
/// 10 µs, the captures are exchanged.
#[test]
fn translated_packets_tell_exchanged_captures() {
    let exchanged = Some(Exchanged::Translation);
    assert_eq!(translated(50_000, 39_999, 12, 12), None);
    assert_eq!(translated(40_000, 50_000, 12, 12), None, "10 µs");
    assert_eq!(translated(39_999, 50_000, 12, 12), exchanged);
    // Ten packets of each direction are needed.
    assert_eq!(translated(0, 50_000, 10, 10), exchanged);
    assert_eq!(translated(0, 50_000, 9, 12), None);
    assert_eq!(translated(0, 50_000, 12, 9), None);
}

/// Packets that took so long from LAN to WAN, one on its way from A to B and one back: which end is home?
fn home(sent_ns: u64, received_ns: u64) -> (Evidence, bool) {
    let (mut survey, at) = (Survey::default(), 1_000 * MS);
    // By its ports B would be home.
    let first = readdressed(&up().patch(20, 0).patch(21, 80).patch(22, 200), PUBLIC_A, PUBLIC_B);
    observe(&mut survey, &first, LinkType::RawIp);
    let mut transit = Transit::default();
    for number in 0..3 {
        transit.on_wan(at + sent_ns, &sent(number));
        transit.on_lan(&survey, at, &sent(number));
        transit.on_wan(at + received_ns, &received(number));
        transit.on_lan(&survey, at, &received(number));
    }
    transit.vote(&mut survey);
    let orientation = survey.decide(&[]);
    (orientation.evidence().expect("a packet"), orientation.is_home(mapped(PUBLIC_A)))
}

#[test]
fn the_end_whose_packets_take_longer_is_home() {
    assert_eq!(home(10_000, 0), (Evidence::Transit, true));
    assert_eq!(home(0, 10_000), (Evidence::Transit, false));
    assert_eq!(home(90_000, 30_000), (Evidence::Transit, true));
    // Below 10 µs the order is no evidence.
    assert_eq!(home(9_999, 0), (Evidence::Ports, false));
    assert_eq!(home(0, 9_999), (Evidence::Ports, false));
}
