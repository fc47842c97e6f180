//! What only captures have: cooked and loopback headers, and frames cut by a snapshot length. Everything else is in
//! the table of cases that the kernel's programs share.

use proptest::prelude::*;

use super::super::tests::craft::{LinkLayer, down, up};
use super::*;

fn ip(packet: &super::super::tests::craft::Tcp) -> Vec<u8> {
    packet.build(LinkLayer::RawIp).bytes
}

fn payload_of(link_type: LinkType, header: &[u8], packet: &[u8]) -> Option<u32> {
    match parse(&Frame::whole(link_type, &[header, packet].concat())) {
        Packet::Tcp(segment) => Some(segment.payload_bytes),
        _ => None,
    }
}

#[test]
fn cooked_headers_name_the_protocol() {
    let (v4, v6) = (ip(&up().payload(9)), ip(&up().v6().payload(9)));
    let sll = |high, low| [&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &[high, low]].concat();
    let sll2 = |high, low| [&[high, low][..], &[0; 18]].concat();
    assert_eq!(payload_of(LinkType::LinuxSll, &sll(8, 0), &v4), Some(9));
    assert_eq!(payload_of(LinkType::LinuxSll, &sll(0x86, 0xdd), &v6), Some(9));
    assert_eq!(payload_of(LinkType::LinuxSll, &sll(8, 6), &v4), None);
    assert_eq!(payload_of(LinkType::LinuxSll2, &sll2(8, 0), &v4), Some(9));
    assert_eq!(payload_of(LinkType::LinuxSll2, &sll2(0x86, 0xdd), &v6), Some(9));
    let vlan = [&sll(0x81, 0)[..], &[0, 7, 8, 0]].concat();
    assert_eq!(payload_of(LinkType::LinuxSll, &vlan, &v4), Some(9));
    let cut = parse(&Frame::whole(LinkType::LinuxSll2, &sll2(8, 0)[..19]));
    assert_eq!(cut, Packet::Lost(Lost::LinkHeader));
}

#[test]
fn loopback_family_is_in_either_byte_order() {
    let (v4, v6) = (ip(&up().payload(9)), ip(&up().v6().payload(9)));
    for header in [[2, 0, 0, 0], [0, 0, 0, 2]] {
        assert_eq!(payload_of(LinkType::Null, &header, &v4), Some(9));
    }
    for family in [10, 24, 28, 30] {
        assert_eq!(payload_of(LinkType::Null, &[family, 0, 0, 0], &v6), Some(9));
        assert_eq!(payload_of(LinkType::Null, &[0, 0, 0, family], &v6), Some(9));
    }
    assert_eq!(parse(&Frame::whole(LinkType::Null, &[7, 0, 0, 0, 0x45])), Packet::NonTcp);
}

/// The frame as a capture with this snapshot length holds it.
fn cut(bytes: &[u8], snaplen: usize) -> Packet {
    let frame = Frame {
        original_len: u32::try_from(bytes.len()).expect("small"),
        ..Frame::whole(LinkType::Ethernet, &bytes[..snaplen])
    };
    parse(&frame)
}

#[test]
fn a_cut_capture_knows_the_lengths_of_what_it_left_out() {
    let bytes = down().ts(5, 6).payload(1000).build(LinkLayer::Ethernet).bytes;
    for snaplen in 66..bytes.len() {
        let Packet::Tcp(segment) = cut(&bytes, snaplen) else { panic!("snaplen {snaplen}") };
        assert_eq!((segment.payload_bytes, segment.frame_bytes), (1000, 1066));
        assert_eq!((segment.options.timestamps, segment.lost), (Some((5, 6)), None));
    }
}

#[test]
fn a_header_that_was_cut_off_is_lost_but_its_owner_is_not_blamed() {
    let bytes = down().ts(5, 6).payload(1000).build(LinkLayer::Ethernet).bytes;
    for snaplen in 0..54 {
        assert_eq!(cut(&bytes, snaplen), Packet::Lost(Lost::Pull), "snaplen {snaplen}");
    }
    // Behind the fixed TCP header only the options are missing: the segment counts.
    for snaplen in 54..66 {
        let Packet::Tcp(segment) = cut(&bytes, snaplen) else { panic!("snaplen {snaplen}") };
        assert_eq!((segment.payload_bytes, segment.lost), (1000, Some(Lost::Pull)));
        assert_eq!(segment.options, Options::default());
    }
}

#[test]
fn an_original_length_below_the_bytes_at_hand_is_not_believed() {
    let bytes = up().payload(100).build(LinkLayer::Ethernet).bytes;
    let frame = Frame { original_len: 60, ..Frame::whole(LinkType::Ethernet, &bytes) };
    assert!(matches!(parse(&frame), Packet::Tcp(segment) if segment.payload_bytes == 100));
}

#[test]
fn sizes_near_the_end_of_their_range_do_not_overflow() {
    let bytes = ip(&up().patch(2, 0).patch(3, 0));
    let frame = Frame {
        original_len: u32::MAX,
        gso_segments: u32::MAX,
        gso_size: 1,
        ..Frame::whole(LinkType::RawIp, &bytes)
    };
    let Packet::Tcp(segment) = parse(&frame) else { panic!("a super-packet of 4 GiB is still TCP") };
    assert_eq!(segment.payload_bytes, u32::MAX - 40);
    assert_eq!(segment.wire_bytes(), u64::from(u32::MAX) + u64::from(u32::MAX - 1) * 40);
    assert_eq!(segment.end(), 1_u32.wrapping_add(u32::MAX - 40));
}

fn link_type() -> impl Strategy<Value = LinkType> {
    prop_oneof![
        Just(LinkType::Ethernet),
        Just(LinkType::RawIp),
        Just(LinkType::LinuxSll),
        Just(LinkType::LinuxSll2),
        Just(LinkType::Null),
    ]
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(
        link_type in link_type(),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        original_len: u32,
        gso_segments: u32,
        gso_size: u32,
    ) {
        let frame = Frame { link_type, bytes: &bytes, original_len, gso_segments, gso_size };
        if let Packet::Tcp(segment) = parse(&frame) {
            prop_assert!(segment.segments >= 1);
            prop_assert!(segment.header_bytes.saturating_add(segment.payload_bytes) <= segment.frame_bytes);
        }
    }

    #[test]
    fn a_damaged_packet_is_read_or_refused_but_never_beyond_its_end(
        damage in prop::collection::vec((0_usize..134, any::<u8>()), 0..4),
        snaplen in 0_usize..=134,
        v6: bool,
    ) {
        let packet = up().vlan(0x8100, 1).ts(1, 2).payload(24);
        let packet = if v6 { packet.v6().extension(0, &[0, 1, 4, 0, 0, 0, 0]) } else { packet };
        let mut bytes = packet.build(LinkLayer::Ethernet).bytes;
        for (at, byte) in damage {
            if let Some(target) = bytes.get_mut(at) {
                *target = byte;
            }
        }
        if let Packet::Tcp(segment) = cut(&bytes, snaplen.min(bytes.len())) {
            prop_assert!(segment.header_bytes + segment.payload_bytes <= segment.frame_bytes);
            prop_assert!(segment.options.sack_blocks <= 4);
        }
    }
}
