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
fn ppp_with_and_without_its_address_and_short_protocols() {
    let (v4, v6) = (ip(&up().payload(9)), ip(&up().v6().payload(9)));
    for (four, six) in [
        (&[0xff, 3, 0, 0x21][..], &[0xff, 3, 0, 0x57][..]),
        (&[0, 0x21], &[0, 0x57]),
        (&[0x21], &[0x57]),
        (&[0xff, 3, 0x21], &[0xff, 3, 0x57]),
        // Cisco's header: an EtherType, to one host and to all.
        (&[0x0f, 0, 8, 0], &[0x8f, 0, 0x86, 0xdd]),
    ] {
        assert_eq!(payload_of(LinkType::Ppp, four, &v4), Some(9), "{four:?}");
        assert_eq!(payload_of(LinkType::Ppp, six, &v6), Some(9), "{six:?}");
    }
    let session = [0x11, 0, 0, 7, 0, 51];
    for (four, six) in [(&[0, 0x21][..], &[0, 0x57][..]), (&[0x21], &[0x57])] {
        assert_eq!(payload_of(LinkType::PppEther, &[&session[..], four].concat(), &v4), Some(9));
        assert_eq!(payload_of(LinkType::PppEther, &[&session[..], six].concat(), &v6), Some(9));
    }
    let lcp = parse(&Frame::whole(LinkType::Ppp, &[0xff, 3, 0xc0, 0x21, 1, 2, 3]));
    assert_eq!(lcp, Packet::NonTcp(NonTcp { protocol: None, udp: None, request: None }));
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
    assert_eq!(
        parse(&Frame::whole(LinkType::Null, &[7, 0, 0, 0, 0x45])),
        Packet::NonTcp(NonTcp { protocol: None, udp: None, request: None })
    );
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
        assert_eq!(segment.options, TcpOptions::default());
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
        Just(LinkType::Ppp),
        Just(LinkType::PppEther),
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

/// What the outline of a frame says: addresses, protocol, bytes by its header, bytes that follow.
fn outlined(link_layer: LinkLayer, packet: &super::super::tests::craft::Tcp) -> Option<(u8, u32, Vec<u8>)> {
    use super::super::tests::craft::endpoint::{HOME_V4, HOME_V6, REMOTE_V4, REMOTE_V6};
    let crafted = packet.build(link_layer);
    let link_type = if link_layer == LinkLayer::RawIp { LinkType::RawIp } else { LinkType::Ethernet };
    let frame = Frame::whole(link_type, &crafted.bytes);
    let found = outline(&frame)?;
    let mapped = |v4: [u8; 4]| std::net::Ipv4Addr::from(v4).to_ipv6_mapped().octets();
    let ends = [[mapped(HOME_V4), mapped(REMOTE_V4)], [HOME_V6, REMOTE_V6]];
    assert!(ends.contains(&[found.source, found.destination]));
    Some((found.protocol, found.ip_bytes, found.rest.to_vec()))
}

#[test]
fn an_outline_is_what_the_ip_header_says() {
    let udp = || up().protocol(17).payload(30).seq(0x0102_0304);
    for link_layer in [LinkLayer::RawIp, LinkLayer::Ethernet] {
        // 20 bytes where UDP or TCP begins, and 30 of payload: ports 40,000 and 80 first.
        let (protocol, ip_bytes, rest) = outlined(link_layer, &udp()).expect("IPv4");
        assert_eq!((protocol, ip_bytes, rest.len()), (17, 70, 50));
        assert_eq!(rest[..8], [0x9c, 0x40, 0, 80, 1, 2, 3, 4]);
        // Behind options of 8 bytes.
        let (_, ip_bytes, rest) = outlined(link_layer, &udp().ip_options(&[1; 8])).expect("IPv4");
        assert_eq!((ip_bytes, rest.len()), (78, 50));
        assert_eq!(rest[..8], [0x9c, 0x40, 0, 80, 1, 2, 3, 4]);
        let (protocol, ip_bytes, rest) = outlined(link_layer, &udp().v6()).expect("IPv6");
        assert_eq!((protocol, ip_bytes, rest.len()), (17, 90, 50));
        assert_eq!(rest[..8], [0x9c, 0x40, 0, 80, 1, 2, 3, 4]);
        // The first next-header of IPv6 counts, and what it heads is the rest.
        let (protocol, ip_bytes, rest) =
            outlined(link_layer, &udp().v6().extension(0, &[0, 1, 4, 0, 0, 0, 0])).expect("IPv6");
        assert_eq!((protocol, ip_bytes, rest.len()), (0, 98, 58));
    }
}

#[test]
fn an_outline_needs_a_whole_ip_header_and_no_more() {
    let at_hand = |packet: &super::super::tests::craft::Tcp, bytes: usize| {
        let crafted = packet.build(LinkLayer::RawIp);
        let frame = Frame {
            original_len: crafted.bytes.len() as u32,
            ..Frame::whole(LinkType::RawIp, &crafted.bytes[..bytes])
        };
        outline(&frame).map(|outline| (outline.ip_bytes, outline.rest.len()))
    };
    let v4 = up().protocol(17).payload(30);
    assert_eq!(at_hand(&v4, 19), None);
    assert_eq!(at_hand(&v4, 20), Some((70, 0)));
    assert_eq!(at_hand(&v4, 33), Some((70, 13)));
    let v6 = v4.clone().v6();
    assert_eq!(at_hand(&v6, 39), None);
    assert_eq!(at_hand(&v6, 40), Some((90, 0)));
    // Options that were cut off leave nothing, not what is before them.
    assert_eq!(at_hand(&v4.clone().ip_options(&[1; 8]), 22), Some((78, 0)));
    // A super-packet above 64 KiB declares a length of zero: all that there was.
    assert_eq!(at_hand(&v4.clone().patch(2, 0).patch(3, 0), 33), Some((70, 13)));
    assert_eq!(at_hand(&v6.patch(4, 0).patch(5, 0), 45), Some((90, 5)));
    // Version 5 is none that is known.
    let [five, six] = [0x55, 0x65].map(|first| v4.clone().patch(0, first));
    assert_eq!((at_hand(&five, 40), at_hand(&six, 39)), (None, None));
    // On Ethernet the type says which version to expect.
    for (packet, first) in [(v4.clone(), 0x65), (v4.v6(), 0x45)] {
        let crafted = packet.patch(14, first).build(LinkLayer::Ethernet);
        assert_eq!(outline(&Frame::whole(LinkType::Ethernet, &crafted.bytes)), None);
    }
}

/// Options of the handshake count in a SYN only (RFC 9293 §3.2, RFC 7323 §2.2, RFC 2018 §2); the others in any segment.
#[test]
fn handshake_options_belong_to_a_syn() {
    use super::super::tests::craft::flag;
    let list = [2, 4, 5, 0xb4, 3, 3, 7, 4, 2, 30, 4, 0, 0, 172, 2];
    let options = |flags: u8| {
        let crafted = up().flags(flags).options(&list).build(LinkLayer::RawIp);
        let Packet::Tcp(segment) = parse(&Frame::whole(LinkType::RawIp, &crafted.bytes)) else {
            panic!("TCP")
        };
        segment.options
    };
    let always = TcpOptions { mptcp: true, accecn: true, ..TcpOptions::default() };
    assert_eq!(options(flag::ACK), always);
    let syn = TcpOptions { mss: Some(1_460), wscale: Some(7), sack_ok: true, ..always };
    assert_eq!(options(flag::SYN), syn);
    assert_eq!(options(flag::SYN | flag::ACK), syn);
}
