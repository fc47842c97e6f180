//! Hosts at home: which addresses are one host, and what it is called.
//!
//! A host has an IPv4 address and several of IPv6, of which it changes some each day. They share a hardware address.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use crate::bpf::address_number;
use crate::net::{Neighbour, neighbours};

/// Where dnsmasq writes its leases: on OpenWrt, on Debian.
const LEASES: [&str; 2] = ["/tmp/dhcp.leases", "/var/lib/misc/dnsmasq.leases"];

/// The hosts that are known by a hardware address, as they were looked at.
#[derive(Debug, Default)]
pub(super) struct HomeHosts {
    /// Their hardware addresses, by the number of an address.
    hardware: HashMap<u32, Vec<u8>>,
}

impl HomeHosts {
    /// Looks them up in the kernel's tables.
    pub(super) fn look() -> Self {
        Self::of(&neighbours())
    }

    /// A hardware address with two IPv4 addresses may be a repeater's, with many hosts behind it: they are not taken for one.
    fn of(neighbours: &[Neighbour]) -> Self {
        let mut addresses: HashMap<&[u8], Vec<IpAddr>> = HashMap::new();
        for neighbour in neighbours {
            addresses.entry(&neighbour.hardware).or_default().push(neighbour.address);
        }
        addresses.retain(|_, addresses| addresses.iter().filter(|address| address.is_ipv4()).count() <= 1);
        let hosts = addresses.into_iter().flat_map(|(hardware, addresses)| {
            addresses.into_iter().map(|address| (address_number(address), hardware.to_vec()))
        });
        Self { hardware: hosts.collect() }
    }

    /// The number of the host whose address has this number; that number itself if no host is known to have it.
    pub(super) fn number(&self, address: u32) -> u32 {
        self.hardware.get(&address).map_or(address, |hardware| number_of(hardware))
    }

    /// What the DHCP server calls the host with this address.
    pub(super) fn name(&self, address: IpAddr) -> Option<String> {
        let leases = LEASES.iter().filter_map(|file| std::fs::read_to_string(file).ok());
        leases.into_iter().find_map(|leases| self.name_in(&leases, address))
    }

    /// A line is: end of the lease, hardware address, address, name.
    fn name_in(&self, leases: &str, address: IpAddr) -> Option<String> {
        let hardware = self.hardware.get(&address_number(address)).map(|hardware| text_of(hardware));
        let name = leases.lines().find_map(|line| {
            let [_, of, leased, name] = *line.split(' ').take(4).collect::<Vec<_>>() else { return None };
            let is_it = leased.parse() == Ok(address) || hardware.as_deref() == Some(of);
            (is_it && name != "*").then_some(name)
        });
        // The host chose it.
        let is_plain = |name: &&str| {
            name.len() <= 63
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        name.filter(is_plain).map(str::to_owned)
    }
}

/// An address made of the hardware address, within those for documentation: no host has it.
fn number_of(hardware: &[u8]) -> u32 {
    let mut octets = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[4..].iter_mut().zip(hardware).for_each(|(octet, byte)| *octet = *byte);
    address_number(octets.into())
}

fn text_of(hardware: &[u8]) -> String {
    hardware.iter().enumerate().fold(String::new(), |mut text, (index, byte)| {
        let _ = write!(text, "{}{byte:02x}", if index == 0 { "" } else { ":" });
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn homes(rows: &[(&str, u8)]) -> HomeHosts {
        let neighbour = |(address, last): &(&str, u8)| Neighbour {
            address: address.parse().unwrap(),
            hardware: vec![2, 0, 0, 0, 0xab, *last],
        };
        HomeHosts::of(&rows.iter().map(neighbour).collect::<Vec<_>>())
    }

    fn number(homes: &HomeHosts, address: &str) -> u32 {
        homes.number(address_number(address.parse().unwrap()))
    }

    #[test]
    fn addresses_with_one_hardware_address_are_one_host() {
        let homes = homes(&[("192.0.2.7", 7), ("2001:db8::7", 7), ("2001:db8::abcd", 7), ("192.0.2.8", 8)]);
        let of = |address| number(&homes, address);
        assert_eq!((of("192.0.2.7"), of("192.0.2.7")), (of("2001:db8::7"), of("2001:db8::abcd")));
        assert_ne!(of("192.0.2.7"), of("192.0.2.8"));
        // Behind another router.
        assert_eq!(of("198.51.100.9"), address_number("198.51.100.9".parse().unwrap()));
    }

    #[test]
    fn a_host_keeps_its_number_when_its_addresses_change() {
        let (before, after) = (homes(&[("2001:db8::1", 7)]), homes(&[("2001:db8::2", 7)]));
        assert_eq!(number(&before, "2001:db8::1"), number(&after, "2001:db8::2"));
    }

    /// As behind a repeater that has one hardware address for all its hosts.
    #[test]
    fn two_addresses_of_ipv4_may_be_two_hosts() {
        let homes = homes(&[("192.0.2.7", 7), ("192.0.2.8", 7), ("2001:db8::7", 7)]);
        assert_ne!(number(&homes, "192.0.2.7"), number(&homes, "192.0.2.8"));
        assert_ne!(number(&homes, "192.0.2.7"), number(&homes, "2001:db8::7"));
    }

    #[test]
    fn the_dhcp_server_knows_names() {
        let homes = homes(&[("192.0.2.7", 7), ("2001:db8::7", 7), ("192.0.2.8", 8), ("192.0.2.6", 6)]);
        let leases = "1795000000 02:00:00:00:ab:07 192.0.2.7 laptop 01:02:00:00:00:ab:07\n\
                      1795000000 02:00:00:00:ab:08 192.0.2.8 * *\n\
                      1795000000 02:00:00:00:ab:06 192.0.2.6 <b>x</b> *\n\
                      1795000000 02:00:00:00:ab:09 198.51.100.9 nas.lan *\n\
                      duid 00:01\n";
        let name = |address: &str| homes.name_in(leases, address.parse().unwrap());
        assert_eq!(name("192.0.2.7").as_deref(), Some("laptop"));
        assert_eq!(name("2001:db8::7").as_deref(), Some("laptop"), "by its hardware address");
        assert_eq!(name("198.51.100.9").as_deref(), Some("nas.lan"), "by its address");
        assert_eq!([name("192.0.2.8"), name("192.0.2.6"), name("192.0.2.5")], [None, None, None]);
    }
}
