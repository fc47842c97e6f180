//! Addresses that the survey has not seen.

use super::super::*;
use super::{MULTICAST, PRIVATE, PUBLIC_A, PUBLIC_B, PUBLIC_C, decide, direction, mapped, readdressed};
use crate::replay::tests::craft::up;

const STRANGER: [u8; 4] = [8, 8, 8, 8];

/// A is home, B is not; both are public and in networks of their own.
fn surveyed() -> Orientation {
    decide(&[readdressed(&up(), PUBLIC_A, PUBLIC_B)], &[])
}

fn numbered(network: u8, number: u32) -> Address {
    let [_, a, b, c] = number.to_be_bytes();
    mapped([network, a, b, c])
}

#[test]
fn home_is_what_the_survey_or_the_user_placed_there() {
    let orientation = surveyed();
    assert!(orientation.is_home(mapped(PUBLIC_A)));
    assert!(!orientation.is_home(mapped(PUBLIC_B)));
    assert!(!orientation.is_home(mapped(STRANGER)), "nothing is known of it");
    // What the user named holds, seen or not, whatever the packets say.
    let orientation = decide(&[readdressed(&up(), PUBLIC_A, PUBLIC_B)], &["198.51.100.0/24", "10.0.0.0/8"]);
    for (address, home) in [(PUBLIC_B, true), (PUBLIC_C, true), ([10, 9, 8, 7], true), (PUBLIC_A, false)] {
        assert_eq!(orientation.is_home(mapped(address)), home, "{address:?}");
    }
}

/// The side that a new source is on follows from the other end, whichever side that is on.
#[test]
fn the_other_end_decides_first() {
    // A private source is taken for home, unless it talks to home.
    assert_eq!(direction(&mut surveyed(), PRIVATE, PUBLIC_A), Some(Direction::Down));
    assert_eq!(direction(&mut surveyed(), PRIVATE, PUBLIC_B), Some(Direction::Up));
    assert_eq!(direction(&mut surveyed(), STRANGER, PUBLIC_A), Some(Direction::Down));
    assert_eq!(direction(&mut surveyed(), STRANGER, PUBLIC_B), Some(Direction::Up));
}

#[test]
fn a_private_end_that_talks_to_a_public_one_is_home() {
    assert_eq!(direction(&mut surveyed(), PRIVATE, STRANGER), Some(Direction::Up));
    assert_eq!(direction(&mut surveyed(), STRANGER, PRIVATE), Some(Direction::Down));
    // Two private ends say nothing, unless one is a neighbour of home.
    assert_eq!(direction(&mut surveyed(), PRIVATE, [10, 0, 0, 1]), None);
    let mut orientation = surveyed();
    assert_eq!(direction(&mut orientation, PRIVATE, STRANGER), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, [192, 168, 1, 3], [10, 0, 0, 1]), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, [10, 0, 0, 2], [192, 168, 1, 4]), Some(Direction::Down));
}

#[test]
fn neighbours_of_home_are_home_and_neighbours_of_others_say_nothing() {
    let neighbour = [203, 0, 113, 200];
    assert_eq!(direction(&mut surveyed(), neighbour, STRANGER), Some(Direction::Up));
    assert_eq!(direction(&mut surveyed(), STRANGER, neighbour), Some(Direction::Down));
    assert_eq!(direction(&mut surveyed(), neighbour, [203, 0, 113, 201]), None, "both are");
    assert_eq!(direction(&mut surveyed(), PUBLIC_C, STRANGER), None, "a neighbour of a remote end");
    assert_eq!(direction(&mut surveyed(), [203, 0, 114, 5], STRANGER), None, "another network");
}

/// Both ends of a packet are known from then on, and their other ends follow.
#[test]
fn both_ends_are_remembered() {
    let mut orientation = surveyed();
    assert_eq!(direction(&mut orientation, STRANGER, PUBLIC_A), Some(Direction::Down));
    // Nothing but the stranger tells of these.
    let (one, other) = ([1, 2, 3, 4], [5, 6, 7, 8]);
    assert_eq!(direction(&mut orientation, one, STRANGER), Some(Direction::Up));
    assert!(orientation.is_home(mapped(one)));
    assert_eq!(direction(&mut orientation, other, one), Some(Direction::Down));
    assert!(!orientation.is_home(mapped(other)));
    // The destination of a packet is, too.
    let mut orientation = surveyed();
    assert_eq!(direction(&mut orientation, PRIVATE, STRANGER), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, one, STRANGER), Some(Direction::Up));
    // What the survey placed stays there.
    assert!(orientation.is_home(mapped(PUBLIC_A)) && !orientation.is_home(mapped(PUBLIC_B)));
}

/// Hosts of both sides send to a group.
#[test]
fn groups_are_on_no_side() {
    let mut orientation = surveyed();
    assert_eq!(direction(&mut orientation, [203, 0, 113, 9], MULTICAST), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, STRANGER, MULTICAST), None);
    assert!(!orientation.is_home(mapped(MULTICAST)));
}

/// Memory for addresses is bounded. What is not remembered is still judged, packet by packet.
#[test]
fn so_many_addresses_are_learnt_and_no_more() {
    let mut orientation = surveyed();
    // Each packet brings one new address: its source.
    let talk = |orientation: &mut Orientation, number: u32| {
        orientation.direction(numbered(11, number), mapped(PUBLIC_B))
    };
    for number in 0..LEARNT_MAX as u32 {
        assert_eq!(talk(&mut orientation, number), Some(Direction::Up));
    }
    let last = LEARNT_MAX as u32;
    assert_eq!(talk(&mut orientation, last), Some(Direction::Up));
    assert!(orientation.is_home(numbered(11, 0)) && orientation.is_home(numbered(11, last - 1)));
    assert!(!orientation.is_home(numbered(11, last)));
    // The two of the survey, and what was learnt.
    assert_eq!(orientation.addresses.len(), 2 + LEARNT_MAX);
}

/// Packets that come often need no look at the table: what was said of the last two sources is what the table says.
#[test]
fn the_last_two_sources_are_kept() {
    let mut orientation = surveyed();
    for source in [PUBLIC_A, PUBLIC_B, PUBLIC_A, PUBLIC_A, PUBLIC_B] {
        let expected = if source == PUBLIC_A { Direction::Up } else { Direction::Down };
        assert_eq!(direction(&mut orientation, source, STRANGER), Some(expected));
        // By hand: even if the other end is unknown and the table were gone.
        let mut kept = Orientation { recent: orientation.recent, ..Orientation::default() };
        assert_eq!(direction(&mut kept, source, STRANGER), Some(expected));
    }
    let recent: Vec<Address> = orientation.recent.iter().flatten().map(|(address, _)| *address).collect();
    assert_eq!(recent, [mapped(PUBLIC_B), mapped(PUBLIC_A)]);
}

#[test]
fn what_decided_about_most_packets_is_the_evidence() {
    // One packet with a private end, three between public ones, of which the ports tell.
    let frames = [
        readdressed(&up(), PRIVATE, STRANGER),
        readdressed(&up(), PUBLIC_A, PUBLIC_B),
        readdressed(&up(), PUBLIC_A, PUBLIC_B),
        readdressed(&up(), PUBLIC_A, PUBLIC_B),
    ];
    assert_eq!(decide(&frames, &[]).evidence(), Some(Evidence::Ports));
    assert_eq!(decide(&frames[..1], &[]).evidence(), Some(Evidence::PrivateAddress));
    assert_eq!(decide(&[], &[]).evidence(), None);
}
