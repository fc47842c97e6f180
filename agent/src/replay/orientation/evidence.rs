//! What speaks for an end being home.

use std::net::IpAddr;

use serde::Serialize;

use super::super::packet::{ParsedSegment, flag};
use super::Address;

/// Ways to know, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The user named the home addresses.
    Option = 0,
    /// The packets pass the LAN capture first on their way up, and last on their way down.
    Transit = 1,
    /// The capture marks packets as outgoing and incoming (Linux cooked header).
    CaptureDirection = 2,
    /// One end has a private address, the other has not.
    PrivateAddress = 3,
    /// Home opens connections.
    Handshake = 4,
    /// The remote end has the well-known port.
    Ports = 5,
    /// Home is where few addresses talk to many.
    Peers = 6,
    /// Nothing: the first packet is taken to be outgoing.
    Guess = 7,
}

impl Evidence {
    /// Number of kinds.
    pub(super) const COUNT: usize = 8;

    /// All kinds, best first.
    pub(super) const ALL: [Self; Self::COUNT] = [
        Self::Option,
        Self::Transit,
        Self::CaptureDirection,
        Self::PrivateAddress,
        Self::Handshake,
        Self::Ports,
        Self::Peers,
        Self::Guess,
    ];

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
