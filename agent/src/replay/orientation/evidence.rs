//! What speaks for an end being home.

use std::net::IpAddr;

use pendulum_model::named;

use super::super::packet::{ParsedSegment, flag};
use super::Address;

named! {
    /// Ways to know, best first.
    pub enum Evidence {
        /// The user named the home addresses.
        Option = "option",
        /// The packets pass the LAN capture first on their way up, and last on their way down.
        Transit = "transit",
        /// One end has a private address, the other has not.
        PrivateAddress = "private_address",
        /// The capture marks packets as outgoing and incoming (Linux cooked header). Right where it was taken on the WAN device; on the LAN device
        /// it is the other way round.
        CaptureDirection = "capture_direction",
        /// Home opens connections.
        Handshake = "handshake",
        /// The remote end has the well-known port.
        Ports = "ports",
        /// Home is where few addresses talk to many.
        Peers = "peers",
        /// Nothing: the first packet is taken to be outgoing.
        Guess = "guess",
    }
}

impl Evidence {
    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Option => "the addresses given with --home",
            Self::Transit => "the times at which packets pass both captures",
            Self::CaptureDirection => "the directions noted in the capture",
            Self::PrivateAddress => "private addresses",
            Self::Handshake => "who opens connections",
            Self::Ports => "port numbers",
            Self::Peers => "which end has few addresses",
            Self::Guess => "nothing but the first packet",
        }
    }
}

/// RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291 link-local: addresses that do not cross the Internet.
pub(super) fn is_private(address: Address) -> bool {
    match IpAddr::from(address).to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_private() || v4.is_link_local() || (a == 100 && b & 0xc0 == 64)
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// Addresses that belong to no end.
pub(super) fn is_multicast(address: Address) -> bool {
    match IpAddr::from(address).to_canonical() {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unspecified(),
    }
}

/// 1: the source opens a connection; −1: it answers one that was opened.
pub(super) fn handshake_vote(segment: &ParsedSegment) -> i64 {
    match segment.flags & (flag::SYN | flag::ACK) {
        flag::SYN => 1,
        both if both == flag::SYN | flag::ACK => -1,
        _ => 0,
    }
}

/// 1: the destination has a service's port and the source has not; −1: the other way round.
pub(super) fn port_vote(segment: &ParsedSegment) -> i64 {
    // RFC 6335: system ports, which clients do not get.
    let is_service = |port: u16| port < 1024;
    i64::from(is_service(segment.destination_port)) - i64::from(is_service(segment.source_port))
}

#[cfg(test)]
mod tests {
    use super::super::super::packet::{Frame, LinkType, Packet, parse};
    use super::super::super::tests::craft::{LinkLayer, up};
    use super::*;

    fn address(text: &str) -> Address {
        match text.parse().expect(text) {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        }
    }

    /// First and last address of each block, and those beside them.
    #[test]
    fn private_blocks_end_where_their_rfc_says() {
        for inside in [
            ["10.0.0.0", "10.255.255.255"],
            ["172.16.0.0", "172.31.255.255"],
            ["192.168.0.0", "192.168.255.255"],
            ["100.64.0.0", "100.127.255.255"],
            ["169.254.0.0", "169.254.255.255"],
            ["fc00::", "fdff:ffff::1"],
            ["fe80::1", "febf::1"],
        ] {
            assert!(inside.iter().all(|text| is_private(address(text))), "{inside:?}");
        }
        for outside in [
            ["9.255.255.255", "11.0.0.0"],
            ["172.15.255.255", "172.32.0.0"],
            ["192.167.255.255", "192.169.0.0"],
            ["100.63.255.255", "100.128.0.0"],
            ["99.64.0.1", "101.64.0.1"],
            ["169.253.255.255", "169.255.0.0"],
            ["fbff::1", "fe00::1"],
            ["fe7f::1", "fec0::1"],
        ] {
            assert!(!outside.iter().any(|text| is_private(address(text))), "{outside:?}");
        }
    }

    #[test]
    fn addresses_of_nobody_are_known() {
        for nobody in ["224.0.0.0", "239.255.255.255", "255.255.255.255", "0.0.0.0", "ff02::1", "::"] {
            assert!(is_multicast(address(nobody)), "{nobody}");
        }
        for somebody in ["223.255.255.255", "240.0.0.1", "255.255.255.254", "0.0.0.1", "fe80::1", "::1"] {
            assert!(!is_multicast(address(somebody)), "{somebody}");
        }
    }

    fn segment(flags: u8, source_port: u16, destination_port: u16) -> ParsedSegment {
        let crafted = up().flags(flags).build(LinkLayer::RawIp);
        let Packet::Tcp(segment) = parse(&Frame::whole(LinkType::RawIp, &crafted.bytes)) else {
            panic!("TCP")
        };
        ParsedSegment { source_port, destination_port, ..segment }
    }

    #[test]
    fn a_syn_speaks_for_its_source_and_its_answer_against() {
        for (flags, vote) in [
            (flag::SYN, 1),
            (flag::SYN | flag::ECE | flag::CWR, 1),
            (flag::SYN | flag::ACK, -1),
            (flag::ACK, 0),
            (flag::FIN | flag::ACK, 0),
            (0, 0),
        ] {
            assert_eq!(handshake_vote(&segment(flags, 1, 1)), vote, "{flags:#x}");
        }
    }

    #[test]
    fn system_ports_are_services() {
        for (ports, vote) in [
            ((40_000, 1_023), 1),
            ((1_023, 40_000), -1),
            ((40_000, 1_024), 0),
            ((80, 443), 0),
            ((1_024, 0), 1),
        ] {
            assert_eq!(port_vote(&segment(flag::ACK, ports.0, ports.1)), vote, "{ports:?}");
        }
    }
}
