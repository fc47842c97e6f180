//! Whole surveys: crafted packets in, sides out.

use std::net::IpAddr;

use super::super::packet::{Frame, Packet, parse};
use super::super::tests::craft::{CraftedFrame, Direction as Way, LinkLayer, Tcp, down, flag, up};
use super::*;

mod graph;
mod learnt;
mod transit;

/// The packet with other addresses, IPv4 on raw IP.
fn readdressed(packet: &Tcp, source: [u8; 4], destination: [u8; 4]) -> CraftedFrame {
    let mut crafted = packet.build(LinkLayer::RawIp);
    crafted.bytes[12..16].copy_from_slice(&source);
    crafted.bytes[16..20].copy_from_slice(&destination);
    crafted
}

fn record(crafted: &CraftedFrame, link_type: LinkType) -> Record<'_> {
    Record {
        time_ns: crafted.time_ns,
        link_type,
        bytes: &crafted.bytes,
        original_len: crafted.bytes.len() as u32,
    }
}

fn segment(record: &Record<'_>) -> super::super::packet::ParsedSegment {
    match parse(&record.frame()) {
        Packet::Tcp(segment) => segment,
        other => panic!("crafted as TCP, not {other:?}"),
    }
}

fn observe(survey: &mut Survey, crafted: &CraftedFrame, link_type: LinkType) {
    let record = record(crafted, link_type);
    let segment = segment(&record);
    survey.observe(&record, segment.source, segment.destination, Some(&segment));
}

fn mapped(v4: [u8; 4]) -> Address {
    std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets()
}

const PUBLIC_A: [u8; 4] = [203, 0, 113, 5];
const PUBLIC_B: [u8; 4] = [198, 51, 100, 7];
const PUBLIC_C: [u8; 4] = [198, 51, 100, 8];
const PRIVATE: [u8; 4] = [192, 168, 1, 2];
const MULTICAST: [u8; 4] = [224, 0, 0, 251];

fn decide(frames: &[CraftedFrame], prefixes: &[&str]) -> Orientation {
    let mut survey = Survey::default();
    for frame in frames {
        observe(&mut survey, frame, LinkType::RawIp);
    }
    let prefixes: Vec<Prefix> = prefixes.iter().map(|text| text.parse().expect(text)).collect();
    survey.decide(&prefixes)
}

fn direction(orientation: &mut Orientation, source: [u8; 4], destination: [u8; 4]) -> Option<Direction> {
    orientation.direction(mapped(source), mapped(destination))
}

#[test]
fn a_private_end_is_home_even_if_it_is_the_server() {
    let frames = [
        readdressed(&down().flags(flag::SYN), PUBLIC_A, PRIVATE),
        readdressed(&up().flags(flag::SYN | flag::ACK), PRIVATE, PUBLIC_A),
    ];
    let mut orientation = decide(&frames, &[]);
    assert_eq!(orientation.evidence(), Some(Evidence::PrivateAddress));
    assert_eq!(direction(&mut orientation, PRIVATE, PUBLIC_A), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PRIVATE), Some(Direction::Down));
}

#[test]
fn without_private_addresses_home_opens_connections() {
    let frames = [
        readdressed(&down(), PUBLIC_B, PUBLIC_A),
        readdressed(&up().flags(flag::SYN), PUBLIC_A, PUBLIC_B),
        readdressed(&down().flags(flag::SYN | flag::ACK), PUBLIC_C, PUBLIC_A),
    ];
    let mut orientation = decide(&frames, &[]);
    assert_eq!(orientation.evidence(), Some(Evidence::Handshake));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_C), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, PUBLIC_C, PUBLIC_A), Some(Direction::Down));
}

#[test]
fn the_user_knows_best() {
    let frames = [readdressed(&up().flags(flag::SYN), PRIVATE, PUBLIC_B)];
    let mut orientation = decide(&frames, &["198.51.100.0/24"]);
    assert_eq!(orientation.evidence(), Some(Evidence::Option));
    assert_eq!(direction(&mut orientation, PRIVATE, PUBLIC_B), Some(Direction::Down));
    assert_eq!(direction(&mut orientation, PUBLIC_C, PUBLIC_A), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, PRIVATE, PUBLIC_A), None, "neither end is home");
}

#[test]
fn a_mid_flow_capture_goes_by_ports_then_by_numbers() {
    // craft's remote port is 80, its home port 40,000.
    let mut orientation = decide(&[readdressed(&down(), PUBLIC_B, PUBLIC_A)], &[]);
    assert_eq!(orientation.evidence(), Some(Evidence::Ports));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up));

    // Both ports high: patch the remote port of the raw packet.
    let high = |packet: Tcp, way: Way| match way {
        Way::Up => packet.patch(22, 200),
        Way::Down => packet.patch(20, 200),
    };
    let frames: Vec<_> = [PUBLIC_B, PUBLIC_C, [8, 8, 8, 8]]
        .into_iter()
        .map(|remote| readdressed(&high(down(), Way::Down), remote, PUBLIC_A))
        .collect();
    let mut orientation = decide(&frames, &[]);
    assert_eq!(orientation.evidence(), Some(Evidence::Peers));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up));

    let mut orientation = decide(&[readdressed(&high(up(), Way::Up), PUBLIC_A, PUBLIC_B)], &[]);
    assert_eq!(orientation.evidence(), Some(Evidence::Guess));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up));
}

#[test]
fn one_misleading_flow_does_not_turn_the_others() {
    // A remote host scans home: its SYNs are few beside home's own.
    let mut frames = vec![readdressed(&down().flags(flag::SYN), [9, 9, 9, 9], PUBLIC_A)];
    for _ in 0..9 {
        frames.push(readdressed(&up().flags(flag::SYN), PUBLIC_A, PUBLIC_B));
    }
    let mut orientation = decide(&frames, &[]);
    assert_eq!(direction(&mut orientation, [9, 9, 9, 9], PUBLIC_A), Some(Direction::Down));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up));
}

#[test]
fn ethernet_sources_join_what_addresses_do_not() {
    // Two conversations without a common address, the second without any evidence of its own but its device.
    let syn = up().flags(flag::SYN).build(LinkLayer::Ethernet);
    let mut lone = down().build(LinkLayer::Ethernet);
    lone.bytes[26..34].copy_from_slice(&[PUBLIC_C, PUBLIC_B].concat());
    let mut survey = Survey::default();
    observe(&mut survey, &syn, LinkType::Ethernet);
    observe(&mut survey, &down().build(LinkLayer::Ethernet), LinkType::Ethernet);
    observe(&mut survey, &lone, LinkType::Ethernet);
    let mut orientation = survey.decide(&[]);
    assert_eq!(direction(&mut orientation, PUBLIC_B, PUBLIC_C), Some(Direction::Up));
    // ARP and the like have a direction, too.
    assert_eq!(orientation.direction_of_device(&record(&syn, LinkType::Ethernet)), Some(Direction::Up));
    assert_eq!(orientation.direction_of_device(&record(&lone, LinkType::Ethernet)), Some(Direction::Down));
}

#[test]
fn cooked_captures_say_what_was_sent_and_received() {
    let mut survey = Survey::default();
    for (packet_type, packet) in [(4, down()), (0, up())] {
        let crafted = packet.build(LinkLayer::RawIp);
        let cooked = [&[0, packet_type][..], &[0; 12], &[8, 0], &crafted.bytes].concat();
        observe(&mut survey, &CraftedFrame { bytes: cooked, ..crafted }, LinkType::LinuxSll);
    }
    let mut orientation = survey.decide(&[]);
    assert_eq!(orientation.evidence(), Some(Evidence::CaptureDirection));
    let (home, remote) =
        (super::super::tests::craft::endpoint::HOME_V4, super::super::tests::craft::endpoint::REMOTE_V4);
    assert_eq!(direction(&mut orientation, remote, home), Some(Direction::Up), "against the ports");
}

#[test]
fn new_addresses_are_placed_by_the_other_end_or_their_neighbours() {
    let mut orientation = decide(&[readdressed(&up(), PUBLIC_A, PUBLIC_B)], &[]);
    assert_eq!(direction(&mut orientation, PUBLIC_A, [1, 1, 1, 1]), Some(Direction::Up));
    assert_eq!(direction(&mut orientation, [1, 1, 1, 1], [203, 0, 113, 77]), Some(Direction::Down));
    let neighbour = [203, 0, 113, 200];
    assert_eq!(direction(&mut orientation, [2, 2, 2, 2], neighbour), Some(Direction::Down));
    assert_eq!(direction(&mut orientation, [3, 3, 3, 3], [4, 4, 4, 4]), None);
}

/// Both captures of packets that wait `up_us` on their way up; LAN clock ahead by `ahead_us`. `translate`: NAT.
fn transit(up_us: u64, ahead_us: u64, translate: bool) -> (Survey, Transit) {
    surveyed(up_us, ahead_us, PUBLIC_C, if translate { PUBLIC_A } else { PUBLIC_C }, false)
}

/// The same of a host that has the address `home`, and `outside` on the WAN. `exchanged`: each capture in the other's place.
fn surveyed(
    up_us: u64,
    ahead_us: u64,
    home: [u8; 4],
    outside: [u8; 4],
    exchanged: bool,
) -> (Survey, Transit) {
    let (mut survey, mut transit) = (Survey::default(), Transit::default());
    let (mut lan, mut wan) = (Vec::new(), Vec::new());
    for i in 0..20_u64 {
        let at = 1_000_000 + i * 10_000;
        let (data, ack) = (up().seq(i as u32), down().ack(i as u32));
        wan.push(readdressed(&data.clone().at(at + up_us), outside, PUBLIC_B));
        wan.push(readdressed(&ack.clone().at(at), PUBLIC_B, outside));
        lan.push(readdressed(&data.at(at + ahead_us), home, PUBLIC_B));
        lan.push(readdressed(&ack.at(at + 50 + ahead_us), PUBLIC_B, home));
    }
    if exchanged {
        std::mem::swap(&mut lan, &mut wan);
    }
    for crafted in wan {
        let record = record(&crafted, LinkType::RawIp);
        survey.observe(&record, segment(&record).source, segment(&record).destination, None);
        transit.on_wan(record.time_ns, &segment(&record));
    }
    for crafted in lan {
        let record = record(&crafted, LinkType::RawIp);
        transit.on_lan(&survey, record.time_ns, &segment(&record));
    }
    assert!(!transit.is_unrelated());
    (survey, transit)
}

#[test]
fn the_order_of_both_captures_tells_the_direction() {
    for ahead_us in [0, 500_000] {
        let (mut survey, transit) = transit(3_000, ahead_us, false);
        transit.vote(&mut survey);
        let mut orientation = survey.decide(&[]);
        assert_eq!(orientation.evidence(), Some(Evidence::Transit));
        assert_eq!(direction(&mut orientation, PUBLIC_C, PUBLIC_B), Some(Direction::Up));
        assert_eq!(direction(&mut orientation, PUBLIC_B, PUBLIC_C), Some(Direction::Down));
    }
}

#[test]
fn translated_addresses_tell_the_direction_by_themselves() {
    let (mut survey, transit) = transit(0, 0, true);
    transit.vote(&mut survey);
    let mut orientation = survey.decide(&[]);
    assert_eq!(orientation.evidence(), Some(Evidence::Transit));
    assert_eq!(direction(&mut orientation, PUBLIC_A, PUBLIC_B), Some(Direction::Up));
}

#[test]
fn a_repetition_is_no_translated_packet() {
    let (survey, mut transit) = surveyed(0, 0, PRIVATE, PRIVATE, false);
    for (crafted, source, destination) in
        [(up().seq(3), PRIVATE, PUBLIC_B), (down().ack(3), PUBLIC_B, PRIVATE)]
    {
        let again = readdressed(&crafted.at(1_500_000), source, destination);
        let record = record(&again, LinkType::RawIp);
        transit.on_lan(&survey, record.time_ns, &segment(&record));
    }
    assert!(!transit.is_translated());
    assert_eq!(passes_for_exchanged((survey, transit), &[]), None);
}

#[test]
fn clocks_that_disagree_are_noticed() {
    assert_eq!(transit(3_000, 0, false).1.clock_offset_ns(), 0);
    // LAN ahead by 500 ms: up packets seem to leave 497 ms before they come.
    assert_eq!(transit(3_000, 500_000, false).1.clock_offset_ns(), -497_000_000);
}

/// Whether the captures pass for exchanged.
fn passes_for_exchanged((mut survey, transit): (Survey, Transit), home: &[&str]) -> Option<Exchanged> {
    transit.vote(&mut survey);
    let home: Vec<Prefix> = home.iter().map(|text| text.parse().expect(text)).collect();
    transit.exchanged(&survey, &home)
}

#[test]
fn exchanged_captures_are_noticed() {
    let private = IpAddr::from(PRIVATE);
    for ahead_us in [0, 500_000] {
        let plain = |exchanged| surveyed(3_000, ahead_us, PRIVATE, PRIVATE, exchanged);
        assert_eq!(passes_for_exchanged(plain(false), &[]), None);
        let found = Exchanged::Order { home: private, evidence: Evidence::PrivateAddress };
        assert_eq!(passes_for_exchanged(plain(true), &[]), Some(found));
        // Behind address translation the private address is in the LAN capture only.
        let translated = |exchanged| surveyed(3_000, ahead_us, PRIVATE, PUBLIC_A, exchanged);
        assert_eq!(passes_for_exchanged(translated(false), &[]), None);
        assert_eq!(passes_for_exchanged(translated(true), &[]), Some(Exchanged::Translation));
        // Public addresses say nothing, but who knows which are home's.
        let public = |exchanged| surveyed(3_000, ahead_us, PUBLIC_C, PUBLIC_C, exchanged);
        assert_eq!(passes_for_exchanged(public(true), &[]), None);
        let home = IpAddr::from(PUBLIC_C).to_string();
        let found = Exchanged::Order { home: IpAddr::from(PUBLIC_C), evidence: Evidence::Option };
        assert_eq!(passes_for_exchanged(public(true), &[&home]), Some(found));
        assert_eq!(passes_for_exchanged(public(false), &[&home]), None);
        // The user knows better than the kind of the address.
        let remote = IpAddr::from(PUBLIC_B).to_string();
        assert_eq!(passes_for_exchanged(plain(true), &[&remote]), None);
    }
}

#[test]
fn captures_at_the_same_place_do_not_pass_for_exchanged() {
    // Less than 10 µs apart.
    assert_eq!(passes_for_exchanged(surveyed(0, 0, PRIVATE, PRIVATE, false), &[]), None);
}

#[test]
fn unrelated_captures_are_noticed() {
    let mut transit = Transit::default();
    let survey = Survey::default();
    for i in 0..200 {
        let crafted = readdressed(&up().seq(i), PUBLIC_A, PUBLIC_B);
        let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
        let Packet::Tcp(segment) = parse(&frame) else { panic!("TCP") };
        transit.on_lan(&survey, 0, &segment);
    }
    assert!(transit.is_unrelated());
}
