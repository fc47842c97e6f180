//! Link, IP and TCP headers: whole, cut, hostile; super-packets.

use super::super::craft::{down, flag, up};
use super::{Case, case, raw};

const VLAN: u16 = 0x8100;
const QINQ: u16 = 0x88a8;

const HOP_BY_HOP: u8 = 0;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION: u8 = 60;

/// Hop-by-hop, routing and destination options of 8 bytes: length 0 and six bytes of padding.
const EXTENSION_8: [u8; 7] = [0, 1, 4, 0, 0, 0, 0];

pub(super) fn cases() -> Vec<Case> {
    [link(), ipv4(), ipv6(), tcp(), raw_ip(), super_packets()].concat()
}

fn link() -> Vec<Case> {
    let data = || up().payload(100);
    vec![
        case("Ethernet, IPv4, data: 14 + 20 + 20 + 100 bytes", [data().is("data")]).leaves(&[
            ("counters.up.segments.data", 1),
            ("counters.up.bytes.data", 154),
            ("counters.up.payload_bytes", 100),
            ("up.segments", 1),
            ("up.data_segments", 1),
            ("up.wire_bytes", 154),
            ("up.payload_bytes", 100),
            ("up.seq_next", 101),
            ("up.ack_highest", 1),
            ("up.window_raw", 1000),
        ]),
        case("the same downwards counts for the other direction", [down().payload(100).is("data")]).leaves(
            &[
                ("counters.down.bytes.data", 154),
                ("counters.up.bytes.data", 0),
                ("down.segments", 1),
                ("up.segments", 0),
            ],
        ),
        case("one VLAN tag", [data().vlan(VLAN, 7).is("data")]).leaves(&[("counters.up.bytes.data", 158)]),
        case("a service tag and a VLAN tag", [data().vlan(QINQ, 9).vlan(VLAN, 7).is("data")])
            .leaves(&[("counters.up.bytes.data", 162), ("up.seq_next", 101)]),
        case(
            "three VLAN tags are one too many",
            [data().vlan(QINQ, 9).vlan(VLAN, 7).vlan(VLAN, 7).is("non_tcp").losing(&["vlan_depth"])],
        )
        .leaves(&[("counters.up.segments.non_tcp", 1), ("counters.up.bytes.non_tcp", 166)]),
        case(
            "a third tag of either kind is one too many",
            [
                data().vlan(VLAN, 9).vlan(VLAN, 8).vlan(QINQ, 7).is("non_tcp").losing(&["vlan_depth"]),
                data().vlan(QINQ, 9).vlan(QINQ, 8).vlan(VLAN, 7).is("non_tcp").losing(&["vlan_depth"]),
            ],
        )
        .leaves(&[("counters.up.segments.non_tcp", 2), ("table.nursery", 0)]),
        case("PPPoE session, IPv4", [data().pppoe().is("data")]).leaves(&[("counters.up.bytes.data", 162)]),
        case("PPPoE session, IPv6", [data().v6().pppoe().is("data")])
            .leaves(&[("counters.up.bytes.data", 182), ("counters.up.payload_bytes", 100)]),
        case("PPPoE session, IPv4, protocol of one byte", [data().pppoe_short().is("data")])
            .leaves(&[("counters.up.bytes.data", 161)]),
        case("PPPoE session, IPv6, protocol of one byte", [data().v6().pppoe_short().is("data")])
            .leaves(&[("counters.up.bytes.data", 181)]),
        case(
            "PPPoE session, an unknown protocol of one byte",
            [data().pppoe_short().patch(20, 0x23).is("non_tcp")],
        ),
        case("PPPoE session behind a VLAN tag", [data().vlan(VLAN, 7).pppoe().is("data")])
            .leaves(&[("up.seq_next", 101)]),
        case("PPPoE session, LCP", [data().ppp_protocol(0xc021).is("non_tcp")]),
        case("PPPoE discovery", [data().ethertype(0x8863).is("non_tcp")]),
        case("ARP", [data().ethertype(0x0806).cut(42).is("non_tcp")])
            .leaves(&[("counters.up.bytes.non_tcp", 42), ("table.nursery", 0)]),
        case("frame ends inside Ethernet", [data().cut(13).is("non_tcp").losing(&["link_header"])]),
        case("frame ends behind Ethernet", [data().cut(14).is("non_tcp").losing(&["ip_header"])]),
        case(
            "frame ends inside the first VLAN tag",
            [data().vlan(VLAN, 7).cut(17).is("non_tcp").losing(&["link_header"])],
        ),
        case(
            "frame ends inside the second VLAN tag",
            [data().vlan(QINQ, 9).vlan(VLAN, 7).cut(21).is("non_tcp").losing(&["link_header"])],
        ),
        case(
            "frame ends inside the PPPoE header",
            [data().pppoe().cut(21).is("non_tcp").losing(&["link_header"])],
        ),
    ]
}

fn ipv4() -> Vec<Case> {
    let data = || up().payload(100);
    let refused = |name, packet: super::Tcp| case(name, [packet.is("non_tcp").losing(&["ip_header"])]);
    vec![
        case("UDP", [data().protocol(UDP).is("non_tcp")]).leaves(&[("counters.up.bytes.non_tcp", 154)]),
        case("Ethernet padding behind the IP packet is no payload", [up().cut(60).is("ack")])
            .leaves(&[("counters.up.bytes.ack", 60), ("counters.up.payload_bytes", 0)]),
        case("40 bytes of IP options", [data().ip_options(&[1; 40]).is("data")])
            .leaves(&[("counters.up.bytes.data", 194), ("counters.up.payload_bytes", 100)]),
        case("don't fragment", [data().fragment(0x4000).is("data")]),
        case("the first fragment carries the TCP header", [data().fragment(0x2000).is("data")])
            .leaves(&[("counters.up.payload_bytes", 100)]),
        case("a later fragment of TCP", [data().fragment(0x2001).is("non_tcp").losing(&["fragment"])])
            .leaves(&[("counters.up.bytes.non_tcp", 154), ("table.nursery", 0)]),
        case("the last fragment of TCP", [data().fragment(0x00b9).is("non_tcp").losing(&["fragment"])]),
        case(
            "a later fragment of UDP is nobody's loss",
            [data().fragment(0x2001).protocol(UDP).is("non_tcp")],
        ),
        case(
            "total length 0: a super-packet, the frame says how long",
            [data().patch(16, 0).patch(17, 0).is("data")],
        )
        .leaves(&[("counters.up.payload_bytes", 100), ("up.seq_next", 101)]),
        refused("frame ends inside the IPv4 header", data().cut(33)),
        refused("header length 4 words", data().patch(14, 0x44)),
        refused("version 5 under the EtherType of IPv4", data().patch(14, 0x55)),
        refused("version 6 under the EtherType of IPv4", data().patch(14, 0x65)),
        refused("total length below the header", data().patch(16, 0).patch(17, 19)),
        refused("total length beyond the frame", data().cut(153)),
        refused("header length beyond the total length", up().patch(14, 0x4f).patch(17, 40)),
    ]
}

fn ipv6() -> Vec<Case> {
    let data = || up().v6().payload(100);
    let refused = |name, packet: super::Tcp| case(name, [packet.is("non_tcp").losing(&["ip_header"])]);
    let many =
        |count: usize| (0..count).fold(data(), |packet, _| packet.extension(DESTINATION, &EXTENSION_8));
    // Offset 0 with "more fragments", and offset 8 bytes.
    let (first, later) = ([0, 0, 1, 0, 0, 0, 1], [0, 0, 9, 0, 0, 0, 1]);
    vec![
        case("IPv6, data: 14 + 40 + 20 + 100 bytes", [data().is("data")]).leaves(&[
            ("counters.up.bytes.data", 174),
            ("counters.up.payload_bytes", 100),
            ("up.seq_next", 101),
        ]),
        case("IPv6, UDP", [data().protocol(UDP).is("non_tcp")]),
        case("IPv6, no next header", [data().protocol(59).is("non_tcp")]),
        case("IPv6, encrypted", [data().protocol(50).is("non_tcp")]),
        case("IPv6, padded frame", [up().v6().cut(80).is("ack")]).leaves(&[("counters.up.payload_bytes", 0)]),
        case("hop-by-hop options", [data().extension(HOP_BY_HOP, &EXTENSION_8).is("data")])
            .leaves(&[("counters.up.bytes.data", 182), ("counters.up.payload_bytes", 100)]),
        case(
            "an extension header of 24 bytes",
            [data().extension(ROUTING, &[&[2][..], &[0; 22]].concat()).is("data")],
        )
        .leaves(&[("counters.up.payload_bytes", 100)]),
        case(
            "authentication header of 16 bytes, counted in words",
            [data().extension(AUTHENTICATION, &[&[2][..], &[0; 14]].concat()).is("data")],
        )
        .leaves(&[("counters.up.payload_bytes", 100)]),
        case(
            "all five kinds in a row",
            [data()
                .extension(HOP_BY_HOP, &EXTENSION_8)
                .extension(DESTINATION, &EXTENSION_8)
                .extension(ROUTING, &EXTENSION_8)
                .extension(FRAGMENT, &first)
                .extension(AUTHENTICATION, &[&[1][..], &[0; 10]].concat())
                .is("data")],
        )
        .leaves(&[("counters.up.payload_bytes", 100)]),
        case("six extension headers", [many(6).is("data")]).leaves(&[("counters.up.payload_bytes", 100)]),
        case("seven extension headers", [many(7).is("non_tcp").losing(&["ipv6_extensions"])]),
        case("six extension headers, then UDP", [many(6).protocol(UDP).is("non_tcp")]),
        case(
            "the first IPv6 fragment carries the TCP header",
            [data().extension(FRAGMENT, &first).is("data")],
        ),
        case(
            "a later IPv6 fragment of TCP",
            [data().extension(FRAGMENT, &later).is("non_tcp").losing(&["fragment"])],
        ),
        case(
            "a later IPv6 fragment of UDP is nobody's loss",
            [data().extension(FRAGMENT, &later).protocol(UDP).is("non_tcp")],
        ),
        case(
            "payload length 0: a super-packet, the frame says how long",
            [data().patch(18, 0).patch(19, 0).is("data")],
        )
        .leaves(&[("counters.up.payload_bytes", 100)]),
        refused("frame ends inside the IPv6 header", data().cut(53)),
        refused("version 4 under the EtherType of IPv6", data().patch(14, 0x45)),
        refused("payload length beyond the frame", data().cut(173)),
        refused("frame ends inside an extension header", {
            up().v6().extension(HOP_BY_HOP, &EXTENSION_8).patch(18, 0).patch(19, 4).cut(58)
        }),
        refused("an extension header longer than the payload", {
            data().extension(HOP_BY_HOP, &[255, 1, 4, 0, 0, 0, 0])
        }),
    ]
}

fn tcp() -> Vec<Case> {
    let refused = |name, packet: super::Tcp| case(name, [packet.is("non_tcp").losing(&["tcp_header"])]);
    vec![
        refused("packet ends inside the TCP header", up().cut(53).patch(17, 39)),
        refused("no TCP header at all", up().cut(34).patch(17, 20)),
        refused("TCP header of an IPv6 packet cut", up().v6().patch(19, 19).cut(73)),
        refused("data offset 4 words", up().payload(100).patch(46, 0x40)),
        refused("data offset beyond the packet", up().payload(8).patch(46, 0x80)),
        case(
            "the Ethernet padding is not taken for TCP options",
            [up().patch(46, 0x60).cut(60).is("non_tcp").losing(&["tcp_header"])],
        ),
        case(
            "data offset up to the packet's end: no payload",
            [up().payload(8).patch(46, 0x70).patch(54, 1).patch(55, 0).is("ack")],
        )
        .leaves(&[("counters.up.payload_bytes", 0), ("counters.up.bytes.ack", 62)]),
    ]
}

fn raw_ip() -> Vec<Case> {
    vec![
        raw("raw IP, IPv4", [up().payload(100).is("data")])
            .leaves(&[("counters.up.bytes.data", 140), ("up.seq_next", 101)]),
        raw("raw IP, IPv6", [down().v6().payload(100).is("data")])
            .leaves(&[("counters.down.bytes.data", 160), ("down.seq_next", 101)]),
        raw("raw IP, UDP", [up().payload(8).protocol(UDP).is("non_tcp")]),
        raw("raw IP, version 7", [up().patch(0, 0x75).is("non_tcp").losing(&["ip_header"])]),
        raw("raw IP, cut inside the IPv4 header", [up().cut(19).is("non_tcp").losing(&["ip_header"])]),
        raw("raw IP, empty", [up().cut(0).is("non_tcp").losing(&["ip_header"])]),
        raw("raw IP, cut inside the IPv6 header", [up().v6().cut(39).is("non_tcp").losing(&["ip_header"])]),
    ]
}

fn super_packets() -> Vec<Case> {
    vec![
        case(
            "gso_segs says how many segments, each with its own headers",
            [down().payload(2000).gso(2, 1000).is("data")],
        )
        .leaves(&[
            ("counters.down.segments.data", 2),
            ("counters.down.bytes.data", 2054 + 54),
            ("counters.down.payload_bytes", 2000),
            ("down.segments", 2),
            ("down.data_segments", 2),
            ("down.wire_bytes", 2108),
            ("down.seq_next", 2001),
        ]),
        case("gso_size alone: payload over size, rounded up", [down().payload(2001).gso(0, 1000).is("data")])
            .leaves(&[("counters.down.segments.data", 3), ("counters.down.bytes.data", 2055 + 2 * 54)]),
        case("gso_size and no payload is one segment", [up().gso(0, 1000).is("ack")])
            .leaves(&[("counters.up.segments.ack", 1), ("counters.up.bytes.ack", 54)]),
        case(
            "headers of a super-packet count with their options and tags",
            [down().v6().vlan(VLAN, 7).ts(1, 1).payload(1500).gso(3, 500).is("data")],
        )
        .leaves(&[("counters.down.bytes.data", 90 + 1500 + 2 * 90)]),
        case(
            "a UDP super-packet: each datagram has headers",
            [down().protocol(UDP).payload(1000).gso(4, 250).is("non_tcp")],
        )
        .leaves(&[("counters.down.segments.non_tcp", 4), ("counters.down.bytes.non_tcp", 1054 + 3 * 42)]),
        case(
            "a repeated super-packet is as many retransmissions",
            [
                down().payload(2000).gso(2, 1000).is("data"),
                down().payload(2000).gso(2, 1000).at(50_000).is("data"),
                up().ack(2001).flags(flag::ACK).at(60_000).is("ack"),
            ],
        )
        .leaves(&[("counters.down.retransmitted_segments", 2), ("down.retransmitted_segments", 2)]),
    ]
}
