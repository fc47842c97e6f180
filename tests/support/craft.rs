//! Packets made by hand: the same ones for the kernel's programs and for the replay of captures.
//!
//! Pure `std`, so that any test can take it in by `#[path]`. [`Tcp`] describes one segment in the terms of its
//! headers, with checksums right; [`Tcp::patch`] and [`Tcp::cut`] then break what a test wants broken.

#[path = "craft/bytes.rs"]
mod bytes;

/// Which way a packet travels through the bottleneck link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From home to the Internet: WAN egress.
    Up,
    /// From the Internet to home: WAN ingress.
    Down,
}

/// What a frame starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkLayer {
    /// 14 bytes of Ethernet.
    Ethernet,
    /// The IP header.
    RawIp,
}

/// One frame at one moment, as a hook would be given it.
#[derive(Clone, Debug)]
pub(crate) struct CraftedFrame {
    /// Which hook sees it.
    pub(crate) direction: Direction,
    /// When.
    pub(crate) time_ns: u64,
    /// From the link header on.
    pub(crate) bytes: Vec<u8>,
    /// `skb->gso_segs`.
    pub(crate) gso_segs: u32,
    /// `skb->gso_size`.
    pub(crate) gso_size: u32,
}

/// Addresses and ports of the conversation that a packet belongs to unless it says otherwise.
pub(crate) mod endpoint {
    /// Home, IPv4.
    pub(crate) const HOME_V4: [u8; 4] = [192, 0, 2, 10];
    /// Remote, IPv4.
    pub(crate) const REMOTE_V4: [u8; 4] = [198, 51, 100, 20];
    /// Home, IPv6: 2001:db8:1::10.
    pub(crate) const HOME_V6: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10];
    /// Remote, IPv6: 2001:db8:2::20.
    pub(crate) const REMOTE_V6: [u8; 16] = [0x20, 0x01, 0x0d, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20];
    /// Home.
    pub(crate) const HOME_PORT: u16 = 40_000;
    /// Remote.
    pub(crate) const REMOTE_PORT: u16 = 80;
}

/// TCP flags, RFC 9293 §3.1.
pub(crate) mod flag {
    /// FIN.
    pub(crate) const FIN: u8 = 0x01;
    /// SYN.
    pub(crate) const SYN: u8 = 0x02;
    /// RST.
    pub(crate) const RST: u8 = 0x04;
    /// URG.
    pub(crate) const URG: u8 = 0x20;
    /// ACK.
    pub(crate) const ACK: u8 = 0x10;
    /// ECN echo.
    pub(crate) const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub(crate) const CWR: u8 = 0x80;
}

/// One TCP segment (or, with [`Tcp::protocol`], some other packet) in the making.
#[derive(Clone, Debug)]
pub(crate) struct Tcp {
    direction: Direction,
    time_us: u64,
    link: Vec<u8>,
    ethertype: Option<u16>,
    ppp: Option<u16>,
    short_ppp: bool,
    v6: bool,
    /// Kind of each IPv6 extension header, and everything behind its next-header byte.
    extensions: Vec<(u8, Vec<u8>)>,
    ip_options: Vec<u8>,
    ecn: u8,
    fragment: u16,
    protocol: u8,
    home_port: u16,
    seq: u32,
    ack: u32,
    flags: u8,
    reserved: u8,
    window: u16,
    options: Vec<u8>,
    payload: usize,
    patches: Vec<(usize, u8)>,
    length: Option<usize>,
    gso: (u32, u32),
}

/// A segment from home: `ACK`, seq 1, ack 1, window 1000, no payload, at time 0.
pub(crate) fn up() -> Tcp {
    Tcp::new(Direction::Up)
}

/// A segment from the remote end, otherwise like [`up`].
pub(crate) fn down() -> Tcp {
    Tcp::new(Direction::Down)
}

impl Tcp {
    fn new(direction: Direction) -> Self {
        Self {
            direction,
            time_us: 0,
            link: Vec::new(),
            ethertype: None,
            ppp: None,
            short_ppp: false,
            v6: false,
            extensions: Vec::new(),
            ip_options: Vec::new(),
            ecn: 0,
            fragment: 0,
            protocol: 6,
            home_port: endpoint::HOME_PORT,
            seq: 1,
            ack: 1,
            flags: flag::ACK,
            reserved: 0,
            window: 1000,
            options: Vec::new(),
            payload: 0,
            patches: Vec::new(),
            length: None,
            gso: (0, 0),
        }
    }

    /// When it passes, in microseconds.
    pub(crate) fn at(mut self, us: u64) -> Self {
        self.time_us = us;
        self
    }

    /// Sequence number.
    pub(crate) fn seq(mut self, seq: u32) -> Self {
        self.seq = seq;
        self
    }

    /// Acknowledgement number.
    pub(crate) fn ack(mut self, ack: u32) -> Self {
        self.ack = ack;
        self
    }

    /// All TCP flags.
    pub(crate) fn flags(mut self, flags: u8) -> Self {
        self.flags = flags;
        self
    }

    /// Advertised window, as in the header.
    pub(crate) fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    /// Bytes of TCP payload.
    pub(crate) fn payload(mut self, bytes: usize) -> Self {
        self.payload = bytes;
        self
    }

    /// The home end's port: another flow.
    pub(crate) fn home_port(mut self, port: u16) -> Self {
        self.home_port = port;
        self
    }

    /// The IP ECN field, 0…3.
    pub(crate) fn ecn(mut self, ecn: u8) -> Self {
        self.ecn = ecn;
        self
    }

    /// AE, CWR and ECE from a number of three bits (RFC 9768).
    pub(crate) fn ace(mut self, ace: u8) -> Self {
        self.reserved = ace >> 2 & 1;
        self.flags = self.flags & 0x3f | ace << 6;
        self
    }

    /// AccECN option 172: bytes with ECT(0), CE and ECT(1), as many of them as there are.
    pub(crate) fn counters(self, bytes: &[u32]) -> Self {
        let mut option = vec![172, 2 + 3 * bytes.len() as u8];
        for count in bytes {
            option.extend_from_slice(&count.to_be_bytes()[1..]);
        }
        option.resize(option.len().next_multiple_of(4), 1);
        self.options(&option)
    }

    /// Add TCP options as they are; the list is padded with NOP to whole words.
    pub(crate) fn options(mut self, bytes: &[u8]) -> Self {
        self.options.extend_from_slice(bytes);
        self
    }

    /// NOP, NOP, timestamps: the usual form (RFC 7323 appendix A).
    pub(crate) fn ts(self, tsval: u32, tsecr: u32) -> Self {
        let mut option = vec![1, 1, 8, 10];
        option.extend_from_slice(&tsval.to_be_bytes());
        option.extend_from_slice(&tsecr.to_be_bytes());
        self.options(&option)
    }

    /// NOP, NOP, SACK with these blocks.
    pub(crate) fn sack(self, blocks: &[(u32, u32)]) -> Self {
        let mut option = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        for (left, right) in blocks {
            option.extend_from_slice(&left.to_be_bytes());
            option.extend_from_slice(&right.to_be_bytes());
        }
        self.options(&option)
    }

    /// Add a VLAN tag: `0x8100` or `0x88a8`.
    pub(crate) fn vlan(mut self, ethertype: u16, id: u16) -> Self {
        self.link.extend_from_slice(&ethertype.to_be_bytes());
        self.link.extend_from_slice(&id.to_be_bytes());
        self
    }

    /// Put a PPPoE session header before IP.
    pub(crate) fn pppoe(mut self) -> Self {
        self.ppp = Some(if self.v6 { 0x0057 } else { 0x0021 });
        self
    }

    /// Put a PPPoE session header with a protocol of one byte before IP.
    pub(crate) fn pppoe_short(mut self) -> Self {
        self.short_ppp = true;
        self.pppoe()
    }

    /// Name this PPP protocol in the PPPoE header, whatever follows.
    pub(crate) fn ppp_protocol(mut self, protocol: u16) -> Self {
        self.ppp = Some(protocol);
        self
    }

    /// Name this EtherType, whatever follows.
    pub(crate) fn ethertype(mut self, ethertype: u16) -> Self {
        self.ethertype = Some(ethertype);
        self
    }

    /// IPv6 instead of IPv4.
    pub(crate) fn v6(mut self) -> Self {
        self.v6 = true;
        self
    }

    /// Add an IPv6 extension header: its kind and everything behind its next-header byte.
    pub(crate) fn extension(mut self, kind: u8, body: &[u8]) -> Self {
        self.extensions.push((kind, body.to_vec()));
        self
    }

    /// Add IPv4 options; whole words.
    pub(crate) fn ip_options(mut self, bytes: &[u8]) -> Self {
        self.ip_options.extend_from_slice(bytes);
        self
    }

    /// IPv4 fragment field: flags and offset (in units of 8 bytes).
    pub(crate) fn fragment(mut self, field: u16) -> Self {
        self.fragment = field;
        self
    }

    /// Name this IP protocol, whatever follows.
    pub(crate) fn protocol(mut self, protocol: u8) -> Self {
        self.protocol = protocol;
        self
    }

    /// Super-packet: `gso_segs` and `gso_size`.
    pub(crate) fn gso(mut self, segs: u32, size: u32) -> Self {
        self.gso = (segs, size);
        self
    }

    /// Overwrite one byte of the finished frame.
    pub(crate) fn patch(mut self, at: usize, byte: u8) -> Self {
        self.patches.push((at, byte));
        self
    }

    /// Cut the finished frame, or pad it with zeros, to this length.
    pub(crate) fn cut(mut self, length: usize) -> Self {
        self.length = Some(length);
        self
    }

    /// The frame.
    pub(crate) fn build(&self, link_layer: LinkLayer) -> CraftedFrame {
        let segment = self.build_tcp();
        let packet = if self.v6 { self.build_v6(&segment) } else { self.build_v4(&segment) };
        let mut bytes = match link_layer {
            LinkLayer::Ethernet => self.build_link(packet.len()),
            LinkLayer::RawIp => Vec::new(),
        };
        bytes.extend_from_slice(&packet);
        for &(at, byte) in &self.patches {
            bytes[at] = byte;
        }
        if let Some(length) = self.length {
            bytes.resize(length, 0);
        }
        CraftedFrame {
            direction: self.direction,
            time_ns: self.time_us * 1000,
            bytes,
            gso_segs: self.gso.0,
            gso_size: self.gso.1,
        }
    }
}
