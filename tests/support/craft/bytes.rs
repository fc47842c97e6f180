//! From the description of a packet to its bytes, header by header.

use super::{Direction, Tcp, endpoint};

impl Tcp {
    pub(super) fn build_link(&self, packet_bytes: usize) -> Vec<u8> {
        let (home, gateway) = ([0x02, 0, 0, 0, 0, 0x01], [0x02, 0, 0, 0, 0, 0x02]);
        let mut bytes = match self.direction {
            Direction::Up => [gateway, home],
            Direction::Down => [home, gateway],
        }
        .concat();
        bytes.extend_from_slice(&self.link);
        let ethertype = match (self.ethertype, self.ppp, self.v6) {
            (Some(ethertype), ..) => ethertype,
            (None, Some(_), _) => 0x8864,
            (None, None, true) => 0x86dd,
            (None, None, false) => 0x0800,
        };
        bytes.extend_from_slice(&ethertype.to_be_bytes());
        if let Some(protocol) = self.ppp {
            bytes.extend_from_slice(&[0x11, 0, 0, 7]);
            let protocol = &protocol.to_be_bytes()[usize::from(self.short_ppp)..];
            bytes.extend_from_slice(&((packet_bytes + protocol.len()) as u16).to_be_bytes());
            bytes.extend_from_slice(protocol);
        }
        bytes
    }

    /// Source and destination, whatever the family.
    pub(super) fn addresses(&self) -> [Vec<u8>; 2] {
        let (home, remote) = if self.v6 {
            (endpoint::HOME_V6.to_vec(), endpoint::REMOTE_V6.to_vec())
        } else {
            (endpoint::HOME_V4.to_vec(), endpoint::REMOTE_V4.to_vec())
        };
        match self.direction {
            Direction::Up => [home, remote],
            Direction::Down => [remote, home],
        }
    }

    pub(super) fn build_tcp(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 1);
        let (source, destination) = match self.direction {
            Direction::Up => (self.home_port, endpoint::REMOTE_PORT),
            Direction::Down => (endpoint::REMOTE_PORT, self.home_port),
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&source.to_be_bytes());
        bytes.extend_from_slice(&destination.to_be_bytes());
        bytes.extend_from_slice(&self.seq.to_be_bytes());
        bytes.extend_from_slice(&self.ack.to_be_bytes());
        bytes.push((((20 + options.len()) / 4) << 4) as u8 | self.reserved);
        bytes.push(self.flags);
        bytes.extend_from_slice(&self.window.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&options);
        bytes.resize(bytes.len() + self.payload, 0x55);

        let mut pseudo = self.addresses().concat();
        pseudo.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
        pseudo.extend_from_slice(&[0, 0, 0, 6]);
        pseudo.extend_from_slice(&bytes);
        bytes[16..18].copy_from_slice(&checksum(&pseudo).to_be_bytes());
        bytes
    }

    pub(super) fn build_v4(&self, segment: &[u8]) -> Vec<u8> {
        let header = 20 + self.ip_options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.ecn];
        bytes.extend_from_slice(&((header + segment.len()) as u16).to_be_bytes());
        bytes.extend_from_slice(&[0, 1]);
        bytes.extend_from_slice(&self.fragment.to_be_bytes());
        bytes.extend_from_slice(&[64, self.protocol, 0, 0]);
        bytes.extend_from_slice(&self.addresses().concat());
        bytes.extend_from_slice(&self.ip_options);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend_from_slice(segment);
        bytes
    }

    pub(super) fn build_v6(&self, segment: &[u8]) -> Vec<u8> {
        let extensions: usize = self.extensions.iter().map(|(_, body)| body.len() + 1).sum();
        let kinds: Vec<u8> = self.extensions.iter().map(|(kind, _)| *kind).collect();
        let mut next = kinds.iter().copied().chain([self.protocol]);
        let mut bytes = vec![0x60, self.ecn << 4, 0, 0];
        bytes.extend_from_slice(&((extensions + segment.len()) as u16).to_be_bytes());
        bytes.extend(next.next());
        bytes.push(64);
        bytes.extend_from_slice(&self.addresses().concat());
        for ((_, body), next) in self.extensions.iter().zip(next) {
            bytes.push(next);
            bytes.extend_from_slice(body);
        }
        bytes.extend_from_slice(segment);
        bytes
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| (u32::from(pair[0]) << 8) | pair.get(1).map_or(0, |low| u32::from(*low));
    let mut sum: u32 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
