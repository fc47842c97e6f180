//! One frame, read by the rules of `docs/design/measurement.md`, "Parsing".
//!
//! Every byte comes through [`Cursor`], which knows two ends: that of the bytes at hand and that of the frame. A
//! capture may hold less of a frame than there was (snaplen); what is missing for that reason is [`Lost::Pull`], as
//! on the kernel side a header that cannot be pulled into the linear part.

mod ip;
mod link;
mod request;
mod tcp;
#[cfg(test)]
mod tests;
mod udp;

use pendulum_model::named;
use pendulum_model::protocol_port::ProtocolPort;
use pendulum_model::segment::Direction;

pub use request::{Request, RequestKind};

/// What stands at the start of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet II, with VLAN tags and a PPPoE session header if present.
    Ethernet,
    /// The IP header itself: ppp, tun, wireguard.
    RawIp,
    /// Linux "cooked" header, 16 bytes, of captures on the device `any`.
    LinuxSll,
    /// Its second version, 20 bytes.
    LinuxSll2,
    /// PPP, with or without its address and control bytes, or Cisco's header in their place (RFC 1662, RFC 1547).
    Ppp,
    /// A PPPoE session header without Ethernet before it.
    PppEther,
    /// BSD loopback: four bytes of address family, in the byte order of the capturing host.
    Null,
}

/// One frame as it passed.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// What the first byte belongs to.
    pub link_type: LinkType,
    /// The bytes at hand, from the link header on.
    pub bytes: &'a [u8],
    /// Length of the whole frame in bytes; smaller than `bytes` counts as equal.
    pub original_len: u32,
    /// Segments that this super-packet stands for; 0 if unknown.
    pub gso_segments: u32,
    /// Payload bytes of each of them; 0 if it is not a super-packet.
    pub gso_size: u32,
}

impl<'a> Frame<'a> {
    /// A frame that is whole and stands for itself.
    pub fn whole(link_type: LinkType, bytes: &'a [u8]) -> Self {
        Self { link_type, bytes, original_len: saturate(bytes.len()), gso_segments: 0, gso_size: 0 }
    }

    /// Bytes that were on the link, whether captured or not.
    pub fn frame_bytes(&self) -> u32 {
        self.original_len.max(saturate(self.bytes.len()))
    }
}

named! {
    /// Why a measurement could not be made, or not in full: `enum pendulum_stat` of `bpf/abi.h`, in the same order.
    pub enum Lost {
        /// The frame ends inside the Ethernet, VLAN or PPPoE header.
        LinkHeader = "link_header",
        /// More than two VLAN tags.
        VlanDepth = "vlan_depth",
        /// The frame ends inside the IP header, or its length fields contradict.
        IpHeader = "ip_header",
        /// More IPv6 extension headers than are walked.
        Ipv6Extensions = "ipv6_extensions",
        /// A later fragment: it carries no TCP header.
        Fragment = "fragment",
        /// The packet ends inside the TCP header, or its data offset is impossible.
        TcpHeader = "tcp_header",
        /// Malformed option list: the segment counts, its options are ignored.
        TcpOptions = "tcp_options",
        /// The header is in the frame, but not in the bytes at hand.
        Pull = "pull",
        /// The flow table refused an entry. Cannot happen here; the kernel's can.
        FlowInsert = "flow_insert",
        /// An ACK for data that never passed: some of the flow is invisible.
        AckOfUnseen = "ack_of_unseen",
        /// Sequence or ACK number more than 2^30 away: tracking restarted.
        SequenceJump = "sequence_jump",
        /// Another request took the place of one that awaited its reply.
        RequestDisplaced = "request_displaced",
    }
}

/// TCP flags as they stand in byte 13 of the header (RFC 9293 §3.1).
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// The acknowledgement number is valid.
    pub const ACK: u8 = 0x10;
    /// ECN echo (RFC 3168).
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced (RFC 3168).
    pub const CWR: u8 = 0x80;
}

/// What a TCP header's options say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// Maximum segment size in bytes.
    pub mss: Option<u16>,
    /// Window scale shift, at most 14 (RFC 7323 §2.3).
    pub wscale: Option<u8>,
    /// SACK permitted (RFC 2018).
    pub sack_ok: bool,
    /// Number of SACK blocks.
    pub sack_blocks: u8,
    /// TSval and TSecr (RFC 7323).
    pub timestamps: Option<(u32, u32)>,
    /// Multipath TCP, any subtype (RFC 8684).
    pub mptcp: bool,
    /// Accurate ECN, either field order.
    pub accecn: bool,
}

/// One TCP segment, or a super-packet that stands for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedSegment {
    /// Source address, IPv4 mapped into IPv6, network byte order.
    pub source: [u8; 16],
    /// Destination address, likewise.
    pub destination: [u8; 16],
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Sequence number of the first payload byte (or of SYN).
    pub seq: u32,
    /// Acknowledgement number; meaningless without [`flag::ACK`].
    pub ack: u32,
    /// See [`flag`].
    pub flags: u8,
    /// Advertised window, unscaled.
    pub window: u16,
    /// TCP payload in bytes.
    pub payload_bytes: u32,
    /// Link, IP and TCP headers together, in bytes.
    pub header_bytes: u32,
    /// IP ECN field, 0…3.
    pub ecn: u8,
    /// Options of the header.
    pub options: TcpOptions,
    /// Length of the frame in bytes.
    pub frame_bytes: u32,
    /// Segments this packet stands for, at least 1.
    pub segments: u32,
    /// Why the options could not be read: [`Lost::TcpOptions`] or [`Lost::Pull`].
    pub lost: Option<Lost>,
}

impl ParsedSegment {
    /// Whether all of the given [`flag`]s are set.
    pub const fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Link-layer bytes of all segments that this packet stands for, as they leave the device.
    pub fn wire_bytes(&self) -> u64 {
        u64::from(self.frame_bytes) + u64::from(self.segments - 1) * u64::from(self.header_bytes)
    }

    /// Sequence number after this segment: SYN and FIN take one each (RFC 9293 §3.4).
    pub const fn end(&self) -> u32 {
        let controls = self.has(flag::SYN) as u32 + self.has(flag::FIN) as u32;
        self.seq.wrapping_add(self.payload_bytes).wrapping_add(controls)
    }
}

/// A frame of another protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonTcp {
    /// The IP protocol behind all extension headers that are known; `None` if it is no IP packet.
    pub protocol: Option<u8>,
    /// If it is UDP: the first fragment of a datagram, or all of it. Later fragments are not.
    pub udp: Option<Datagram>,
    /// If its round trip can be timed.
    pub request: Option<Timed>,
}

/// A packet that is a request or a reply, and its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// What it is.
    pub request: Request,
    /// Source and destination address, IPv4 mapped into IPv6, network byte order.
    pub addresses: [[u8; 16]; 2],
    /// Source and destination port, 0 if it has none.
    pub ports: [u16; 2],
}

impl NonTcp {
    const NO_IP: Self = Self { protocol: None, udp: None, request: None };

    const fn of(protocol: u8) -> Self {
        Self { protocol: Some(protocol), ..Self::NO_IP }
    }

    /// What carries it; `None` if it is no IP packet.
    pub fn protocol_port(&self, direction: Direction) -> Option<ProtocolPort> {
        let ports = self.udp.and_then(|udp| udp.ports);
        let port = ports.map(|[source, destination]| direction.pick(destination, source));
        let protocol_port = ProtocolPort { protocol: self.protocol?, port: port.filter(|port| *port != 0) };
        // The kernel side takes a word of zero for "nothing known" (IPv6 hop-by-hop options, which no packet is made of).
        (protocol_port.protocol != 0).then_some(protocol_port)
    }
}

/// A UDP datagram, or a super-packet that stands for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Source and destination port; `None` if the capture cut them off.
    pub ports: Option<[u16; 2]>,
    /// Datagrams this packet stands for, at least 1.
    pub segments: u32,
    /// Link-layer bytes of all of them, as they leave the device.
    pub wire_bytes: u64,
}

/// What a frame turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A TCP segment whose header was read.
    Tcp(ParsedSegment),
    /// Some other protocol.
    NonTcp(NonTcp),
    /// Unreadable, or readable only for its owner.
    Lost(Lost),
}

/// Read one frame. Never fails: what cannot be read has a reason.
pub fn parse(frame: &Frame<'_>) -> Packet {
    let mut cursor = Cursor { bytes: frame.bytes, at: 0, frame_bytes: frame.frame_bytes() };
    match parse_packet(&mut cursor, frame) {
        Ok(packet) => packet,
        Err(Stop::NonTcp(other)) => Packet::NonTcp(other),
        Err(Stop::Lost(reason)) => Packet::Lost(reason),
    }
}

fn parse_packet(cursor: &mut Cursor<'_>, frame: &Frame<'_>) -> Result<Packet, Stop> {
    let protocol = link::parse(cursor, frame.link_type)?;
    let datagram = ip::parse(cursor, protocol)?;
    match datagram.protocol {
        ip::TCP => tcp::parse(cursor, frame, &datagram).map(Packet::Tcp),
        ProtocolPort::UDP => Ok(Packet::NonTcp(udp::parse(cursor, frame, &datagram))),
        protocol @ (ip::ICMP | ip::ICMPV6) => {
            let is_v6 = protocol == ip::ICMPV6;
            let request = Request::of_icmp(cursor.rest(), datagram.l4_bytes, is_v6);
            let addresses = [datagram.source, datagram.destination];
            let timed = request.map(|request| Timed { request, addresses, ports: [0; 2] });
            Ok(Packet::NonTcp(NonTcp { request: timed, ..NonTcp::of(protocol) }))
        }
        other => Ok(Packet::NonTcp(NonTcp::of(other))),
    }
}

/// What an IP packet of any protocol shows without its transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Source address, IPv4 mapped into IPv6, network byte order.
    pub source: [u8; 16],
    /// Destination address, likewise.
    pub destination: [u8; 16],
    /// IPv4 protocol, or the first next-header of IPv6.
    pub protocol: u8,
    /// Length of the packet by its own header.
    pub ip_bytes: u32,
    /// What was captured behind the (fixed IPv6) header.
    pub rest: &'a [u8],
}

/// The outline of a frame's IP packet; `None` if it has none.
pub fn outline<'a>(frame: &Frame<'a>) -> Option<Outline<'a>> {
    let mut cursor = Cursor { bytes: frame.bytes, at: 0, frame_bytes: frame.frame_bytes() };
    let protocol = link::parse(&mut cursor, frame.link_type).ok()?;
    ip::outline(&mut cursor, protocol).ok()
}

fn count_segments(frame: &Frame<'_>, payload_bytes: u32) -> u32 {
    match (frame.gso_segments, frame.gso_size) {
        (0, 0) => 1,
        (0, size) => payload_bytes.div_ceil(size).max(1),
        (segments, _) => segments,
    }
}

/// Why parsing ended before the TCP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    NonTcp(NonTcp),
    Lost(Lost),
}

impl From<NonTcp> for Stop {
    fn from(other: NonTcp) -> Self {
        Self::NonTcp(other)
    }
}

impl From<Lost> for Stop {
    fn from(reason: Lost) -> Self {
        Self::Lost(reason)
    }
}

/// Where the parser is in the frame.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: u32,
    frame_bytes: u32,
}

impl<'a> Cursor<'a> {
    /// The next `N` bytes, without stepping over them. If the frame has ended: `reason`.
    fn peek<const N: usize>(&self, reason: Lost) -> Result<&'a [u8; N], Lost> {
        self.bytes
            .get(self.at as usize..)
            .and_then(<[u8]>::first_chunk)
            .ok_or_else(|| self.missing(saturate(N), reason))
    }

    /// The next `N` bytes, stepping over them.
    fn take<const N: usize>(&mut self, reason: Lost) -> Result<&'a [u8; N], Lost> {
        let bytes = self.peek(reason)?;
        self.skip(saturate(N));
        Ok(bytes)
    }

    /// The bytes at hand from here on.
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at as usize..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: u32) {
        self.at = self.at.saturating_add(bytes);
    }

    /// Why `bytes` more are not there.
    fn missing(&self, bytes: u32, reason: Lost) -> Lost {
        if self.at.saturating_add(bytes) <= self.frame_bytes { Lost::Pull } else { reason }
    }

    /// Bytes from here to the end of the frame.
    fn left(&self) -> u32 {
        self.frame_bytes.saturating_sub(self.at)
    }
}

fn saturate(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
