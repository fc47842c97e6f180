//! Requests and replies of protocols other than TCP, and how long each took: the same for the kernel's programs and for the replay.

use super::craft::{CraftedFrame, Direction, LinkLayer, endpoint};

use Direction::{Down, Up};

/// A UDP datagram, or an ICMP message.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    direction: Direction,
    time_us: u64,
    v6: bool,
    /// Ports of home and of the remote end; `None`: ICMP.
    ports: Option<[u16; 2]>,
    body: Vec<u8>,
}

/// Packets, and what is timed of them.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) name: &'static str,
    pub(crate) messages: Vec<Message>,
    /// Way of the reply, microseconds that it took, and whether it may have been held.
    pub(crate) replies: Vec<(Direction, u32, bool)>,
}

impl Message {
    /// A datagram between these ports of home and of the remote end.
    pub(crate) fn udp(direction: Direction, ports: [u16; 2], payload: &[u8]) -> Self {
        Self { direction, time_us: 0, v6: false, ports: Some(ports), body: payload.to_vec() }
    }

    /// An echo request or reply.
    fn echo(direction: Direction, v6: bool, is_reply: bool, sequence: u16) -> Self {
        let kind = match (v6, is_reply) {
            (false, false) => 8,
            (false, true) => 0,
            (true, false) => 128,
            (true, true) => 129,
        };
        let mut body = vec![kind, 0, 0, 0, 0x12, 0x34];
        body.extend_from_slice(&sequence.to_be_bytes());
        body.resize(64, 7);
        Self { direction, time_us: 0, v6, ports: None, body }
    }

    /// A DNS message of this identifier between home's port and port 53.
    fn dns(direction: Direction, is_reply: bool, identifier: u16) -> Self {
        let mut payload = identifier.to_be_bytes().to_vec();
        payload.extend_from_slice(&[if is_reply { 0x81 } else { 0x01 }, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        payload.resize(45, 3);
        Self::udp(direction, [40_001, 53], &payload)
    }

    /// An NTP message: a client's transmit timestamp, or the origin timestamp of the reply.
    fn ntp(direction: Direction, is_reply: bool, timestamp: u64) -> Self {
        let mut payload = vec![if is_reply { 0x24 } else { 0x23 }];
        payload.resize(48, 9);
        let at = if is_reply { 24 } else { 40 };
        payload[at..at + 8].copy_from_slice(&timestamp.to_be_bytes());
        Self::udp(direction, [123, 123], &payload)
    }

    fn stun(direction: Direction, kind: u16, transaction: u8) -> Self {
        let mut payload = kind.to_be_bytes().to_vec();
        payload.extend_from_slice(&[0, 0, 0x21, 0x12, 0xa4, 0x42]);
        payload.resize(20, transaction);
        Self::udp(direction, [40_500, 3_478], &payload)
    }

    fn wireguard(direction: Direction, is_reply: bool, index: u32) -> Self {
        let mut payload = vec![if is_reply { 2 } else { 1 }, 0, 0, 0];
        payload.resize(if is_reply { 8 } else { 4 }, 0xaa);
        payload.extend_from_slice(&index.to_be_bytes());
        payload.resize(if is_reply { 92 } else { 148 }, 5);
        Self::udp(direction, [51_820, 51_820], &payload)
    }

    /// A QUIC packet with a long header: its first byte, version, and both connection identifiers.
    pub(crate) fn quic(direction: Direction, first: u8, version: u32, [to, from]: [&[u8]; 2]) -> Self {
        let mut payload = vec![first];
        payload.extend_from_slice(&version.to_be_bytes());
        for identifier in [to, from] {
            payload.push(identifier.len() as u8);
            payload.extend_from_slice(identifier);
        }
        payload.resize(1200, 0x5a);
        Self::udp(direction, [50_000, 443], &payload)
    }

    /// A QUIC packet of an open connection, with this spin bit.
    pub(crate) fn spin(direction: Direction, value: bool) -> Self {
        // Half of the packets have the QUIC bit (RFC 9287).
        let payload = [if value { 0x20 } else { 0x40 }; 200];
        Self::udp(direction, [50_000, 443], &payload)
    }

    /// When it passes, in microseconds.
    pub(crate) fn at(mut self, us: u64) -> Self {
        self.time_us = us;
        self
    }

    fn v6(mut self) -> Self {
        self.v6 = true;
        self
    }

    pub(crate) fn home_port(mut self, port: u16) -> Self {
        self.ports = self.ports.map(|[_, remote]| [port, remote]);
        self
    }

    /// It passes so many microseconds later.
    fn later(mut self, us: u64) -> Self {
        self.time_us += us;
        self
    }

    /// Home and the remote end change places.
    fn mirrored(self) -> Self {
        let direction = if self.direction == Up { Down } else { Up };
        Self { direction, ..self }.swapped()
    }

    /// Ports of home and remote end change places.
    fn swapped(mut self) -> Self {
        self.ports = self.ports.map(|[home, remote]| [remote, home]);
        self
    }

    /// Its body, as long as this.
    pub(crate) fn cut(mut self, length: usize) -> Self {
        self.body.resize(length, 0);
        self
    }

    /// The frame, without checksums.
    pub(crate) fn build(&self, link_layer: LinkLayer) -> CraftedFrame {
        let is_up = self.direction == Up;
        let (protocol, header) = match self.ports {
            Some([home, remote]) => {
                let [source, destination] = if is_up { [home, remote] } else { [remote, home] };
                let fields = [source, destination, (8 + self.body.len()) as u16, 0];
                (17, fields.map(u16::to_be_bytes).as_flattened().to_vec())
            }
            None => (if self.v6 { 58 } else { 1 }, Vec::new()),
        };
        let length = header.len() + self.body.len();
        let mut bytes = match link_layer {
            LinkLayer::Ethernet => vec![2; 12],
            LinkLayer::RawIp => Vec::new(),
        };
        let ends = |home: &[u8], remote: &[u8]| if is_up { [home, remote] } else { [remote, home] }.concat();
        if link_layer == LinkLayer::Ethernet {
            bytes.extend_from_slice(if self.v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
        }
        if self.v6 {
            bytes.extend_from_slice(&[0x60, 0, 0, 0]);
            bytes.extend_from_slice(&(length as u16).to_be_bytes());
            bytes.extend_from_slice(&[protocol, 64]);
            bytes.extend_from_slice(&ends(&endpoint::HOME_V6, &endpoint::REMOTE_V6));
        } else {
            bytes.extend_from_slice(&[0x45, 0]);
            bytes.extend_from_slice(&((20 + length) as u16).to_be_bytes());
            bytes.extend_from_slice(&[0, 1, 0, 0, 64, protocol, 0, 0]);
            bytes.extend_from_slice(&ends(&endpoint::HOME_V4, &endpoint::REMOTE_V4));
        }
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.body);
        let time_ns = self.time_us * 1000;
        CraftedFrame { direction: self.direction, time_ns, bytes, gso_segs: 0, gso_size: 0 }
    }
}

const V1: u32 = 1;
const V2: u32 = 0x6b33_43cf;
/// What the client chose for the server, the server's own, and the client's own identifier.
const CHOSEN: &[u8] = &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const SERVER: &[u8] = &[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5];
const CLIENT: &[u8] = &[0x77, 0x01, 0x02, 0x03, 0x04];

/// A connection that opens: client's Initial, server's, client's second flight, server's second one.
fn handshake(client: &[u8], version: u32, initial: u8, handshake: u8) -> Vec<Message> {
    vec![
        Message::quic(Up, initial, version, [CHOSEN, client]).at(100_000),
        Message::quic(Down, initial, version, [client, SERVER]).at(130_000),
        Message::quic(Up, initial, version, [SERVER, client]).at(132_000),
        Message::quic(Down, handshake, version, [client, SERVER]).at(150_000),
        // Short headers: neither.
        Message::quic(Up, 0x40, version, [SERVER, client]).at(151_000),
        Message::quic(Down, 0x41, version, [client, SERVER]).at(181_000),
    ]
}

/// A connection that opens, and then so many round trips of its spin bit: each edge of the client is at the server and back in 30 ms, and 2 ms
/// later the next one comes. The server sends each 10 ms.
fn spinning(round_trips: u64) -> Vec<Message> {
    let mut messages = handshake(CLIENT, V1, 0xc0, 0xe0);
    for round in 0..round_trips {
        let (at, value) = (200_000 + round * 32_000, round % 2 == 0);
        messages.extend([
            Message::spin(Up, value).at(at),
            Message::spin(Down, !value).at(at + 10_000),
            Message::spin(Up, value).at(at + 15_000),
            Message::spin(Down, !value).at(at + 20_000),
            Message::spin(Down, value).at(at + 30_000),
        ]);
    }
    messages
}

/// All of them.
pub(crate) fn exchanges() -> Vec<Exchange> {
    let exchange = |name, messages, replies| Exchange { name, messages, replies };
    let mut all = vec![
        exchange(
            "an echo of the remote end, IPv4 and IPv6",
            vec![
                Message::echo(Up, false, false, 1).at(1_000),
                Message::echo(Up, true, false, 1).at(2_000),
                Message::echo(Down, false, true, 1).at(21_000),
                Message::echo(Down, true, true, 1).at(42_000),
            ],
            vec![(Down, 20_000, false), (Down, 40_000, false)],
        ),
        exchange(
            "an echo of a host at home",
            vec![Message::echo(Down, false, false, 9).at(1_000), Message::echo(Up, false, true, 9).at(3_000)],
            vec![(Up, 2_000, false)],
        ),
        exchange(
            "an echo that nobody asked for, another one's, one too late, and one twice",
            vec![
                Message::echo(Down, false, true, 1).at(1_000),
                Message::echo(Up, false, false, 2).at(2_000),
                Message::echo(Down, false, true, 3).at(3_000),
                Message::echo(Down, true, true, 2).at(4_000),
                Message::echo(Up, false, true, 2).at(5_000),
                Message::echo(Down, false, true, 2).at(12_000),
                Message::echo(Down, false, true, 2).at(13_000),
                Message::echo(Up, false, false, 4).at(20_000),
                Message::echo(Up, false, false, 5).at(30_000),
                Message::echo(Down, false, true, 5).at(30_000 + 8_500_000),
                Message::echo(Down, false, true, 4).at(20_000 + 8_600_000),
            ],
            vec![(Down, 10_000, false), (Down, 8_500_000, false)],
        ),
        exchange(
            "a DNS server may ask others first; a repeated request counts from its first packet, once",
            vec![
                Message::dns(Up, false, 7).at(1_000),
                Message::dns(Up, false, 8).at(1_500),
                Message::dns(Down, true, 7).at(9_000),
                Message::dns(Up, false, 9).at(10_000),
                Message::dns(Up, false, 9).at(110_000),
                Message::dns(Down, true, 9).at(120_000),
                Message::dns(Up, false, 9).at(130_000),
                Message::dns(Down, true, 9).at(131_000),
                // Another port, another identifier, a request that comes back, a reply to port 53.
                Message::dns(Down, true, 8).home_port(40_002).at(140_000),
                Message::dns(Down, false, 8).at(142_000),
                Message::dns(Down, true, 8).swapped().at(143_000),
                Message::dns(Down, true, 8).at(151_500),
            ],
            vec![(Down, 8_000, true), (Down, 110_000, true), (Down, 150_000, true)],
        ),
        exchange(
            "a DNS server at home",
            vec![
                Message::dns(Down, false, 7).swapped().at(1_000),
                Message::dns(Up, true, 7).swapped().at(6_500),
            ],
            vec![(Up, 5_500, true)],
        ),
        exchange(
            "NTP, whose ports are the same on both sides",
            vec![
                Message::ntp(Up, false, 0xdead_beef_0000_0001).at(1_000),
                Message::ntp(Up, false, 0xdead_beef_0000_0002).at(2_000),
                Message::ntp(Down, true, 0xdead_beef_0000_0003).at(3_000),
                Message::ntp(Down, true, 0xdead_beef_0000_0002).at(17_000),
                // A client that says nothing can be answered by anybody.
                Message::ntp(Up, false, 0).at(20_000),
                Message::ntp(Down, true, 0).at(21_000),
                // Shorter than its header.
                Message::ntp(Up, false, 1).cut(47).at(22_000),
            ],
            vec![(Down, 15_000, false)],
        ),
        exchange(
            "STUN: a binding and its error; other methods and a short one are none",
            vec![
                Message::stun(Up, 0x0001, 1).at(1_000),
                Message::stun(Down, 0x0101, 1).at(31_000),
                Message::stun(Up, 0x0001, 2).at(32_000),
                Message::stun(Down, 0x0111, 2).at(63_000),
                Message::stun(Up, 0x0003, 3).at(70_000),
                Message::stun(Down, 0x0103, 3).at(80_000),
                Message::stun(Up, 0x0001, 4).cut(19).at(81_000),
                Message::stun(Down, 0x0101, 4).cut(19).at(82_000),
            ],
            vec![(Down, 30_000, false), (Down, 31_000, false)],
        ),
        exchange(
            "WireGuard's handshake; its data is none",
            vec![
                Message::wireguard(Up, false, 0x0102_0304).at(1_000),
                Message::wireguard(Down, true, 0x0102_0305).at(2_000),
                Message::wireguard(Down, true, 0x0102_0304).at(45_000),
                Message::wireguard(Up, false, 6).cut(149).at(50_000),
                Message::wireguard(Down, true, 6).at(51_000),
                Message::udp(Up, [51_820, 51_820], &[4; 1_400]).at(60_000),
            ],
            vec![(Down, 44_000, false)],
        ),
        exchange(
            "a QUIC connection that opens: the server's first datagram, and the client's next",
            handshake(CLIENT, V1, 0xc3, 0xe1),
            vec![(Down, 30_000, false), (Up, 2_000, false)],
        ),
        exchange(
            "one of version 2, whose types have other numbers",
            handshake(CLIENT, V2, 0xd3, 0xf1),
            vec![(Down, 30_000, false), (Up, 2_000, false)],
        ),
        exchange(
            "one whose ends clear the bit that is not used (RFC 9287)",
            handshake(CLIENT, V1, 0x83, 0xa1),
            vec![(Down, 30_000, false), (Up, 2_000, false)],
        ),
        exchange(
            "a client without an identifier of its own",
            handshake(&[], V1, 0xc0, 0xe0),
            vec![(Down, 30_000, false), (Up, 2_000, false)],
        ),
        exchange(
            "a first flight of two datagrams is one request",
            vec![
                Message::quic(Up, 0xc0, V1, [CHOSEN, &[]]).at(1_000),
                Message::quic(Up, 0xc0, V1, [CHOSEN, &[]]).at(1_300),
                Message::quic(Down, 0xc0, V1, [&[], SERVER]).at(31_000),
            ],
            vec![(Down, 30_000, false)],
        ),
        exchange(
            "a repeated first flight gives an upper bound; a server that nobody asked tells nothing",
            vec![
                Message::quic(Up, 0xc0, V1, [CHOSEN, CLIENT]).at(1_000),
                Message::quic(Up, 0xc0, V1, [CHOSEN, CLIENT]).at(301_000),
                Message::quic(Down, 0xc0, V1, [CLIENT, SERVER]).at(331_000),
                Message::quic(Down, 0xc0, V1, [SERVER, CLIENT]).home_port(50_001).at(332_000),
                // Another version, another type, an identifier that is too long.
                Message::quic(Up, 0xc0, 3, [CHOSEN, CLIENT]).home_port(50_002).at(400_000),
                Message::quic(Down, 0xc0, 3, [CLIENT, SERVER]).home_port(50_002).at(401_000),
                Message::quic(Up, 0xd0, V1, [CHOSEN, CLIENT]).home_port(50_003).at(402_000),
                Message::quic(Down, 0xc0, V1, [CLIENT, SERVER]).home_port(50_003).at(403_000),
                Message::quic(Up, 0xc0, V1, [&[1; 21], CLIENT]).home_port(50_004).at(404_000),
                Message::quic(Down, 0xc0, V1, [CLIENT, SERVER]).home_port(50_004).at(405_000),
            ],
            vec![(Down, 330_000, true)],
        ),
        exchange(
            "after Retry and after version negotiation the next request counts",
            vec![
                Message::quic(Up, 0xc0, V1, [CHOSEN, CLIENT]).at(1_000),
                Message::quic(Down, 0xf0, V1, [CLIENT, SERVER]).at(26_000),
                Message::quic(Up, 0xc0, V1, [SERVER, CLIENT]).at(27_000),
                Message::quic(Down, 0xc0, V1, [CLIENT, SERVER]).at(59_000),
                Message::quic(Up, 0xd0, V2, [CHOSEN, CLIENT]).home_port(50_005).at(100_000),
                Message::quic(Down, 0x80, 0, [CLIENT, CHOSEN]).home_port(50_005).at(126_000),
                Message::quic(Up, 0xc0, V1, [CHOSEN, CLIENT]).home_port(50_005).at(127_000),
                Message::quic(Down, 0xc0, V1, [CLIENT, SERVER]).home_port(50_005).at(160_000),
            ],
            vec![(Down, 32_000, false), (Down, 33_000, false)],
        ),
        exchange(
            "a client outside, and a server at home",
            vec![
                Message::quic(Down, 0xc0, V1, [CHOSEN, CLIENT]).swapped().at(1_000),
                Message::quic(Up, 0xc0, V1, [CLIENT, SERVER]).swapped().at(4_000),
                Message::quic(Down, 0xe0, V1, [SERVER, CLIENT]).swapped().at(44_000),
            ],
            vec![(Up, 3_000, false), (Down, 40_000, false)],
        ),
    ];
    let opened = [(Down, 30_000, false), (Up, 2_000, false)];
    let timed = |replies: &[(Direction, u32, bool)]| [&opened, replies].concat();
    let then = |more: &[Message]| [spinning(5), more.to_vec()].concat();
    // The fifth round trip begins at 328 ms, and its last packet comes at 358 ms.
    all.extend([
        exchange(
            "a spin bit counts after eight edges",
            spinning(5),
            timed(&[(Up, 2_000, false), (Down, 30_000, false)]),
        ),
        exchange("four round trips are too few", spinning(4), timed(&[])),
        exchange(
            "a server that sent nothing for 25 ms may have held its reply; after 200 ms that tells nothing",
            then(&[
                Message::spin(Up, false).at(360_000),
                Message::spin(Down, false).at(390_000),
                Message::spin(Up, true).at(391_000),
                Message::spin(Down, true).at(592_000),
                Message::spin(Up, false).at(594_000),
            ]),
            timed(&[
                (Up, 2_000, false),
                (Down, 30_000, false),
                (Up, 2_000, false),
                (Down, 30_000, true),
                (Up, 1_000, false),
                (Up, 2_000, false),
            ]),
        ),
        exchange(
            "a client whose value is not in its turn does not spin",
            then(&[
                Message::spin(Up, true).at(359_000),
                Message::spin(Up, false).at(360_000),
                Message::spin(Up, true).at(361_000),
                Message::spin(Down, false).at(380_000),
                Message::spin(Up, true).at(382_000),
            ]),
            timed(&[(Up, 2_000, false), (Down, 30_000, false), (Up, 2_000, false)]),
        ),
        exchange(
            "a server whose value is not in its turn does not spin",
            then(&[
                Message::spin(Down, false).at(359_000),
                Message::spin(Up, false).at(360_000),
                Message::spin(Down, false).at(380_000),
            ]),
            timed(&[(Up, 2_000, false), (Down, 30_000, false)]),
        ),
        exchange(
            "a connection that opens anew between the same ports counts anew",
            then(
                &handshake(&[9; 5], V1, 0xc0, 0xe0)
                    .into_iter()
                    .map(|message| message.later(400_000))
                    .collect::<Vec<_>>(),
            ),
            // The server's own identifier was replied to not long ago.
            timed(&[(Up, 2_000, false), (Down, 30_000, false), (Down, 30_000, false)]),
        ),
        exchange(
            "a spinning client outside, and a server at home",
            spinning(5).into_iter().map(Message::mirrored).collect(),
            vec![(Up, 30_000, false), (Down, 2_000, false), (Down, 2_000, false), (Up, 30_000, false)],
        ),
    ]);
    let v6 = handshake(CLIENT, V1, 0xc0, 0xe0).into_iter().map(Message::v6).collect();
    all.push(exchange("QUIC over IPv6", v6, vec![(Down, 30_000, false), (Up, 2_000, false)]));
    all
}
