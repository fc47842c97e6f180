//! The survey's graph: what counts as a word for an end, and how much of it is kept.

use super::super::*;
use super::{
    MULTICAST, PUBLIC_A, PUBLIC_B, PUBLIC_C, decide, direction, mapped, observe, readdressed, record,
};
use crate::replay::packet::LinkType;
use crate::replay::tests::craft::{CraftedFrame, LinkLayer, up};

const D: [u8; 4] = [8, 8, 8, 8];

/// A packet of which neither port nor address tells anything.
fn plain(source: [u8; 4], destination: [u8; 4]) -> CraftedFrame {
    readdressed(&up().patch(22, 200), source, destination)
}

/// Where as many addresses are on one side as on the other, the very first packet is taken to go up. Later ones that join known
/// addresses to new ones have no say.
#[test]
fn the_first_packet_is_taken_to_go_up() {
    let talk = [
        plain(PUBLIC_A, PUBLIC_B),
        plain(PUBLIC_B, PUBLIC_A),
        plain(PUBLIC_B, PUBLIC_A),
        plain(PUBLIC_B, PUBLIC_C),
        plain(D, PUBLIC_C),
    ];
    for packets in [1, 2, 3, 5] {
        let mut orientation = decide(&talk[..packets], &[]);
        assert_eq!(orientation.evidence(), Some(Evidence::Guess), "{packets}");
        assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up), "{packets}");
        assert_eq!(direction(&mut orientation, PUBLIC_B, PUBLIC_A), Some(Direction::Down), "{packets}");
    }
}

/// Packets to groups, from nobody, and from a host to itself join nothing and count for nothing.
#[test]
fn packets_without_two_ends_are_passed_over() {
    let nobody = [0, 0, 0, 0];
    for (source, destination) in [(PUBLIC_A, MULTICAST), (nobody, PUBLIC_A), (PUBLIC_A, PUBLIC_A)] {
        let orientation = decide(&[plain(source, destination)], &[]);
        assert_eq!(orientation.evidence(), None, "{source:?} {destination:?}");
        assert!(orientation.addresses.is_empty());
    }
}

/// Of 2¹⁴ nodes all are placed; a packet that would need one more says nothing, not even by its ports.
#[test]
fn the_graph_is_bounded() {
    let pair = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        ([11, a, b, c], [12, a, b, c])
    };
    let mut survey = Survey::default();
    let half = 1 << 13;
    for number in 0..=half {
        let (source, destination) = pair(number);
        observe(&mut survey, &readdressed(&up(), source, destination), LinkType::RawIp);
    }
    let orientation = survey.decide(&[]);
    assert_eq!(orientation.addresses.len(), 1 << 14);
    let (first, last, beyond) = (pair(0), pair(half - 1), pair(half));
    for (source, destination) in [first, last] {
        assert!(orientation.is_home(mapped(source)) && !orientation.is_home(mapped(destination)));
    }
    assert!(!orientation.addresses.contains_key(&mapped(beyond.0)));
    assert_eq!(orientation.decided_by, [(Evidence::Ports, u64::from(half))]);
}

/// A packet with one known end finds no room for the other: nothing of it counts.
#[test]
fn a_known_end_does_not_speak_alone() {
    let mut survey = Survey::default();
    for number in 0..(1_u32 << 14) - 1 {
        let [_, a, b, c] = number.to_be_bytes();
        // All talk to one: 2¹⁴ addresses.
        observe(&mut survey, &readdressed(&up(), [11, a, b, c], PUBLIC_B), LinkType::RawIp);
    }
    observe(&mut survey, &readdressed(&up(), PUBLIC_A, PUBLIC_B), LinkType::RawIp);
    let orientation = survey.decide(&[]);
    assert_eq!(orientation.addresses.len(), 1 << 14);
    assert_eq!(orientation.decided_by, [(Evidence::Ports, (1 << 14) - 1)]);
}

/// Only Ethernet has devices, and they are in bytes 6 to 11.
#[test]
fn devices_are_those_of_ethernet() {
    let mut frame = up().build(LinkLayer::Ethernet);
    frame.bytes[6..12].copy_from_slice(&[1, 2, 3, 4, 5, 6]);
    assert_eq!(ethernet_source(&record(&frame, LinkType::Ethernet)), Some([1, 2, 3, 4, 5, 6]));
    for other in [LinkType::RawIp, LinkType::LinuxSll, LinkType::LinuxSll2, LinkType::Null] {
        assert_eq!(ethernet_source(&record(&frame, other)), None, "{other:?}");
    }
    frame.bytes.truncate(11);
    assert_eq!(ethernet_source(&record(&frame, LinkType::Ethernet)), None, "cut off");
}

/// The user's word does not turn an address that is outside the prefixes, and devices follow their addresses.
#[test]
fn devices_follow_the_user_too() {
    let mut survey = Survey::default();
    let sent = up().build(LinkLayer::Ethernet);
    observe(&mut survey, &sent, LinkType::Ethernet);
    // The source of the packet is not home, by what the user says.
    let orientation = survey.decide(&["198.51.100.0/24".parse().expect("prefix")]);
    assert_eq!(orientation.direction_of_device(&record(&sent, LinkType::Ethernet)), Some(Direction::Down));
}
