//! Requests and replies of protocols other than TCP: `read_datagram` and `read_icmp` of `bpf/packet/requests.h`.

/// The protocol of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// RFC 1035 §4.1.1, over UDP.
    Dns = 1,
    /// RFC 792, RFC 4443 §4.
    Echo = 2,
    /// RFC 5905 §8.
    Ntp = 3,
    /// RFC 8489 §5: a binding.
    Stun = 4,
    /// Its handshake.
    WireGuard = 5,
    /// RFC 9000 §17.2: its handshake.
    Quic = 6,
    /// RFC 9000 §17.4: the spin bit of an open connection of QUIC. It replies to the other side's bit.
    Spin = 7,
}

/// A request, a reply, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its protocol.
    pub kind: RequestKind,
    /// A reply to this identifier is awaited.
    pub asks: Option<u32>,
    /// It replies to the request of this identifier.
    pub replies: Option<u32>,
    /// The reply asks for another request: it tells of no round trip.
    pub again: bool,
}

impl Request {
    const fn asking(kind: RequestKind, identifier: u32) -> Self {
        Self { kind, asks: Some(identifier), replies: None, again: false }
    }

    const fn replying(kind: RequestKind, identifier: u32) -> Self {
        Self { kind, asks: None, replies: Some(identifier), again: false }
    }

    /// What an ICMP message is, of which so many bytes were sent.
    pub(super) fn of_icmp(message: &[u8], bytes: u32, is_v6: bool) -> Option<Self> {
        let (&[kind, code, _, _, a, b, c, d], _) = message.split_first_chunk::<8>()?;
        let identifier = u32::from_be_bytes([a, b, c, d]);
        let [request, reply] = if is_v6 { [128, 129] } else { [8, 0] };
        match kind {
            _ if code != 0 || bytes < 8 => None,
            _ if kind == request => Some(Self::asking(RequestKind::Echo, identifier)),
            _ if kind == reply => Some(Self::replying(RequestKind::Echo, identifier)),
            _ => None,
        }
    }

    /// What a UDP datagram is, of whose payload so many bytes were sent. `ports`: source and destination.
    pub(super) fn of_datagram(payload: &[u8], bytes: u32, ports: [u16; 2]) -> Option<Self> {
        const DNS: u16 = 53;
        const NTP: u16 = 123;
        const STUN_COOKIE: u32 = 0x2112_a442;
        let word = |at: usize| payload.get(at..)?.first_chunk().copied().map(u32::from_be_bytes);
        let (first, second) = (word(0)?, word(4)?);
        let [source, destination] = ports;
        if bytes < 12 {
            return None;
        }
        if ports.contains(&DNS) {
            let identifier = first >> 16;
            return match first & 0x8000 != 0 {
                true => (source == DNS).then(|| Self::replying(RequestKind::Dns, identifier)),
                false => (destination == DNS).then(|| Self::asking(RequestKind::Dns, identifier)),
            };
        }
        if ports.contains(&NTP) {
            let (origin, transmit) = (fold(word(24)?, word(28)?), fold(word(40)?, word(44)?));
            return match first >> 24 & 7 {
                _ if bytes < 48 => None,
                3 if transmit != 0 => Some(Self::asking(RequestKind::Ntp, transmit)),
                4 => Some(Self::replying(RequestKind::Ntp, origin)),
                _ => None,
            };
        }
        if second == STUN_COOKIE {
            let transaction = fold(fold(word(8)?, word(12)?), word(16)?);
            return match first >> 16 {
                _ if bytes < 20 => None,
                0x0001 => Some(Self::asking(RequestKind::Stun, transaction)),
                0x0101 | 0x0111 => Some(Self::replying(RequestKind::Stun, transaction)),
                _ => None,
            };
        }
        match (first, bytes) {
            (0x0100_0000, 148) => Some(Self::asking(RequestKind::WireGuard, second)),
            (0x0200_0000, 92) => Some(Self::replying(RequestKind::WireGuard, word(8)?)),
            (first, 32..) if first >> 31 == 1 => Self::of_quic(payload.first_chunk()?, first),
            (first, _) if first >> 31 == 0 => Some(Self::replying(RequestKind::Spin, first >> 29 & 1)),
            _ => None,
        }
    }

    /// What a QUIC packet with a long header is. Of each connection identifier the first four bytes are looked at, if there are as many. The second bit
    /// may have either value (RFC 9287).
    fn of_quic(header: &[u8; 32], first: u32) -> Option<Self> {
        const V2: u32 = 0x6b33_43cf;
        let version = first << 8 | u32::from(header[4]);
        let destination = usize::from(header[5]);
        if destination > 20 || !matches!(version, 0 | 1 | V2) {
            return None;
        }
        let identifier = |at: usize, bytes: usize| match header.get(at..)?.first_chunk() {
            Some(word) if bytes >= 4 => Some(u32::from_be_bytes(*word)),
            _ => Some(0),
        };
        let to = identifier(6, destination)?;
        let from = identifier(7 + destination, header[6 + destination].into())?;
        let packet_type = (first >> 28).wrapping_sub(u32::from(version == V2)) & 3;
        let reply = Self::replying(RequestKind::Quic, to);
        match (version, packet_type) {
            // Version negotiation, and Retry.
            (0, _) | (_, 3) => Some(Self { again: true, ..reply }),
            (_, 0) => Some(Self { asks: Some(from), ..reply }),
            (_, 2) => Some(reply),
            _ => None,
        }
    }
}

const fn fold(high: u32, low: u32) -> u32 {
    high.wrapping_mul(0x9e37_79b1) ^ low
}
