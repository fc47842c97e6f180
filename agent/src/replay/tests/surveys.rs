//! The first look at captures.

use std::path::Path;

use pendulum_model::segment::Direction;
use tempfile::TempDir;

use super::captures::{RAW_IP, built, pcap, upload, write};
use super::craft::{CraftedFrame, LinkLayer, Tcp, down, endpoint, flag, up};
use crate::replay::capture::Record;
use crate::replay::orientation::{Address, Evidence, Orientation, Prefix};
use crate::replay::packet::{LinkType, parse};
use crate::replay::survey::{Surveyed, direction_of, survey};
use crate::replay::timeline::Source;

fn examined(path: &Path) -> Source {
    Source::examine(path).expect("readable")
}

const SECOND: u64 = 1_000_000_000;
const PUBLIC: [u8; 4] = [203, 0, 113, 5];
const PRIVATE: [u8; 4] = [10, 0, 0, 9];
/// What times in `pcap` count from.
const EPOCH: u64 = 1_700_000_000 * SECOND;

fn mapped(v4: [u8; 4]) -> Address {
    std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets()
}

/// An IPv4 packet of other addresses.
fn readdressed(packet: &Tcp, source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut crafted = packet.build(LinkLayer::RawIp);
    crafted.bytes[12..16].copy_from_slice(&source);
    crafted.bytes[16..20].copy_from_slice(&destination);
    crafted.bytes
}

fn surveyed(wan: &Path, lan: Option<&Path>) -> Surveyed {
    survey(&examined(wan), lan.map(examined).as_ref(), &[]).expect("readable").expect("packets")
}

/// Of captures with these packets.
fn found(wan: &[(u64, Vec<u8>)], lan: Option<&[(u64, Vec<u8>)]>) -> Surveyed {
    let directory = TempDir::new().expect("temporary directory");
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, wan));
    let lan = lan.map(|lan| write(&directory, "lan.pcap", &pcap(RAW_IP, lan)));
    surveyed(&wan, lan.as_deref())
}

#[test]
fn datagrams_tell_which_end_is_home() {
    let udp = up().protocol(17);
    let found = found(&[(0, readdressed(&udp, PUBLIC, PRIVATE))], None);
    assert_eq!(found.orientation.evidence(), Some(Evidence::PrivateAddress));
    assert!(found.orientation.is_home(mapped(PRIVATE)) && !found.orientation.is_home(mapped(PUBLIC)));
    assert!(found.warnings.is_empty() && !found.translates && found.exchanged.is_none());
}

#[test]
fn time_counts_from_the_earliest_packet() {
    let packet = |seq| up().seq(seq).build(LinkLayer::RawIp).bytes;
    let found = found(&[(9 * SECOND, packet(1)), (3 * SECOND, packet(2)), (7 * SECOND, packet(3))], None);
    assert_eq!(found.origin_ns, EPOCH + 3 * SECOND);
}

#[test]
fn a_capture_without_packets_has_no_survey() {
    let directory = TempDir::new().expect("temporary directory");
    let empty = write(&directory, "empty.pcap", &pcap(RAW_IP, &[]));
    assert!(survey(&examined(&empty), None, &[]).expect("readable").is_none());
}

/// Who could be home is reported by the ports here, and by nothing there.
#[test]
fn a_guess_is_said_to_be_one() {
    let known = readdressed(&up(), PUBLIC, [198, 51, 100, 7]);
    let unknown = readdressed(&up().patch(22, 200), PUBLIC, [198, 51, 100, 7]);
    assert_eq!(found(&[(0, known)], None).warnings, Vec::<String>::new());
    let found = found(&[(0, unknown)], None);
    assert_eq!(found.orientation.evidence(), Some(Evidence::Guess));
    assert_eq!(found.warnings, ["home and outside cannot be distinguished; name home with --home PREFIX"]);
}

/// The user's word is the only evidence then.
#[test]
fn named_homes_are_no_guess() {
    let directory = TempDir::new().expect("temporary directory");
    let unknown = readdressed(&up().patch(22, 200), PUBLIC, [198, 51, 100, 7]);
    let wan = write(&directory, "wan.pcap", &pcap(RAW_IP, &[(0, unknown)]));
    let home: Vec<Prefix> = vec!["198.51.100.0/24".parse().expect("prefix")];
    let found = survey(&examined(&wan), None, &home).expect("readable").expect("packets");
    assert!(found.warnings.is_empty());
    assert!(
        found.orientation.is_home(mapped([198, 51, 100, 7])) && !found.orientation.is_home(mapped(PUBLIC))
    );
}

/// Ten packets up, 5 ms from LAN to WAN, and ten down in no time; the LAN's clock is ahead by so much.
fn ahead(by_ns: i64) -> Surveyed {
    let (mut wan, mut lan) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let at = SECOND * u64::from(number + 1);
        let (data, ack) = (up().seq(number), down().ack(number));
        let (data, ack) = (data.build(LinkLayer::RawIp).bytes, ack.build(LinkLayer::RawIp).bytes);
        let shifted = |time: u64| time.checked_add_signed(by_ns).expect("after the origin");
        wan.push((at + if number == 0 { 0 } else { 5_000_000 }, data.clone()));
        lan.push((shifted(at), data));
        wan.push((at + 10_000_000, ack.clone()));
        lan.push((shifted(at + 10_000_000), ack));
    }
    found(&wan, Some(&lan))
}

/// A clock that is wrong is set right; above a millisecond the user hears of it.
#[test]
fn a_wrong_clock_is_warned_of() {
    for (by_ns, told) in [
        (0, None),
        (1_000_000, None),
        (1_000_001, Some("-1.0 ms")),
        (250_000_000, Some("-250.0 ms")),
        (-1_000_000, None),
        (-1_000_001, Some("1.0 ms")),
    ] {
        let found = ahead(by_ns);
        assert_eq!(found.lan_offset_ns, -by_ns);
        let told: Vec<String> = told
            .iter()
            .map(|ms| format!("the captures' clocks differ by {ms}; times of the LAN capture were shifted"))
            .collect();
        assert_eq!(found.warnings, told, "{by_ns}");
    }
}

/// Both captures of an upload from second 100 on, and 20,000 packets of a stranger in the LAN capture at one moment.
fn beside(strangers_at: u64) -> Vec<String> {
    let [wan, lan] = upload(1).map(|packets| built(&packets, LinkLayer::RawIp));
    let at = |frames: Vec<(u64, Vec<u8>)>| -> Vec<(u64, Vec<u8>)> {
        frames.into_iter().map(|(time, bytes)| (time + 100 * SECOND, bytes)).collect()
    };
    let mut lan = at(lan);
    let stranger = up().seq(0x7000_0000).home_port(9).build(LinkLayer::RawIp).bytes;
    lan.extend((0..20_000).map(|_| (strangers_at, stranger.clone())));
    lan.sort_by_key(|(time, _)| *time);
    found(&at(wan), Some(&lan)).warnings
}

/// Only what the LAN capture holds within ten seconds of the WAN capture's packets is compared.
#[test]
fn what_passed_at_another_time_is_not_compared() {
    let [wan, _] = upload(1);
    let (first, last) = (100 * SECOND + wan[0].0, 100 * SECOND + wan[wan.len() - 1].0);
    for (strangers_at, unrelated) in [
        (first - 10 * SECOND - 1, false),
        (first - 10 * SECOND, true),
        (last, true),
        (last + 10 * SECOND, true),
        (last + 10 * SECOND + 1, false),
    ] {
        let warnings = beside(strangers_at);
        assert_eq!(
            warnings.iter().any(|warning| warning.contains("hardly any packet in common")),
            unrelated,
            "{strangers_at}: {warnings:?}"
        );
    }
}

fn record(crafted: &CraftedFrame) -> Record<'_> {
    Record {
        time_ns: 0,
        link_type: LinkType::Ethernet,
        bytes: &crafted.bytes,
        original_len: crafted.bytes.len() as u32,
    }
}

/// TCP and any other IP packet by their addresses, what has none by its device.
#[test]
fn every_frame_has_a_direction() {
    let directory = TempDir::new().expect("temporary directory");
    let frames = [up().flags(flag::SYN), down().flags(flag::SYN | flag::ACK)];
    let frames: Vec<_> = frames.iter().map(|packet| (0, packet.build(LinkLayer::Ethernet).bytes)).collect();
    let wan = write(&directory, "wan.pcap", &pcap(1, &frames));
    let mut orientation: Orientation = surveyed(&wan, None).orientation;
    assert!(orientation.is_home(mapped(endpoint::HOME_V4)));
    let mut way = |packet: &Tcp, device: Option<usize>| {
        let mut crafted = packet.build(LinkLayer::Ethernet);
        if let Some(device) = device {
            let source = frames[device].1[6..12].to_vec();
            crafted.bytes[6..12].copy_from_slice(&source);
        }
        let record = record(&crafted);
        direction_of(&mut orientation, &record, &parse(&record.frame()))
    };
    let (home, remote) = (0, 1);
    for packet in [|packet: Tcp| packet, |packet: Tcp| packet.protocol(17), |packet: Tcp| packet.fragment(5)]
    {
        // The device says something else: addresses come first.
        assert_eq!(way(&packet(up()), Some(remote)), Some(Direction::Up));
        assert_eq!(way(&packet(down()), Some(home)), Some(Direction::Down));
    }
    // ARP.
    assert_eq!(way(&down().ethertype(0x0806), Some(home)), Some(Direction::Up));
    assert_eq!(way(&up().ethertype(0x0806), Some(remote)), Some(Direction::Down));
    let stranger = up().ethertype(0x0806).patch(6, 0xee).patch(7, 0xee);
    assert_eq!(way(&stranger, None), None);
}
