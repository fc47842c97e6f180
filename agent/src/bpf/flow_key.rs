//! A flow's identity. Addresses and ports are in network byte order, as the kernel side keeps them.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use pendulum_model::segment::Direction;

use super::abi::pendulum_flow_key;

impl pendulum_flow_key {
    /// The end behind the gateway.
    pub fn home(&self) -> SocketAddr {
        socket_address(&self.home_addr, self.home_port)
    }

    /// The other end.
    pub fn remote(&self) -> SocketAddr {
        socket_address(&self.remote_addr, self.remote_port)
    }

    /// The address of the end that a direction leads to.
    pub fn end(&self, towards: Direction) -> IpAddr {
        towards.pick(self.remote().ip(), self.home().ip())
    }

    /// A number that stands for the address of the end that a direction leads to: that of [`address_number`].
    pub fn end_id(&self, towards: Direction) -> u32 {
        number_of(towards.pick(self.remote_addr, self.home_addr))
    }

    /// How the detector knows the flow.
    pub fn id(&self) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(self)
    }
}

/// A number that stands for an address: `hash_of_address()` of `bpf/packet/slots.h`, as replies have it.
pub fn address_number(address: IpAddr) -> u32 {
    let octets = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    number_of(words(octets))
}

fn number_of([first, rest @ ..]: [u32; 4]) -> u32 {
    let hash = rest.into_iter().fold(first, |hash, word| (hash ^ word).wrapping_mul(0x9e37_79b1));
    hash ^ hash >> 15
}

fn words(octets: [u8; 16]) -> [u32; 4] {
    [0, 4, 8, 12].map(|i| u32::from_ne_bytes([octets[i], octets[i + 1], octets[i + 2], octets[i + 3]]))
}

fn socket_address(words: &[u32; 4], port: u16) -> SocketAddr {
    let mut octets = [0; 16];
    for (chunk, word) in octets.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_ne_bytes());
    }
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical(), u16::from_be(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_people_write_them() {
        let key = pendulum_flow_key {
            home_addr: words([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 7]),
            remote_addr: words([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
            home_port: 443u16.to_be(),
            remote_port: 50_000u16.to_be(),
        };
        assert_eq!(key.home().to_string(), "192.0.2.7:443");
        assert_eq!(key.remote().to_string(), "[2001:db8::1]:50000");
        for towards in Direction::ALL {
            assert_eq!(key.end_id(towards), address_number(key.end(towards)));
        }
    }
}
