//! The neighbour tables (ARP, IPv6 neighbour discovery): which hardware address an address of a directly connected network has.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::dump::dump;
use super::message::attribute;

const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
/// `struct ndmsg`, <linux/neighbour.h>.
const NDMSG: usize = 12;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// One address, and the hardware address it was found at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its address.
    pub address: IpAddr,
    /// Its hardware address; 6 bytes on Ethernet and Wi-Fi.
    pub hardware: Vec<u8>,
}

/// All that are known now; none if the kernel does not say.
pub fn neighbours() -> Vec<Neighbour> {
    let all = dump(NETLINK_ROUTE, RTM_GETNEIGH, &[0; NDMSG], RTM_NEWNEIGH).unwrap_or_default();
    all.iter().filter_map(|body| neighbour(body)).collect()
}

/// The kernel leaves out the hardware address where nobody answered.
fn neighbour(body: &[u8]) -> Option<Neighbour> {
    let attributes = body.get(NDMSG..)?;
    let octets = attribute(attributes, NDA_DST)?;
    let address = <[u8; 4]>::try_from(octets)
        .map(|v4| Ipv4Addr::from(v4).into())
        .or_else(|_| <[u8; 16]>::try_from(octets).map(|v6| Ipv6Addr::from(v6).into()))
        .ok()?;
    let hardware = attribute(attributes, NDA_LLADDR)?;
    // Loopback and tunnels have none.
    hardware.iter().any(|byte| *byte != 0).then(|| Neighbour { address, hardware: hardware.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::super::message::Attributes;
    use super::*;

    #[test]
    fn an_address_with_a_hardware_address_is_a_neighbour() {
        let of = |address: &[u8], hardware: Option<&[u8]>| {
            let attributes = Attributes::new().with(NDA_DST, address);
            let attributes = match hardware {
                Some(hardware) => attributes.with(NDA_LLADDR, hardware),
                None => attributes,
            };
            neighbour(&[&[0; NDMSG], attributes.bytes()].concat()).map(|found| found.address.to_string())
        };
        let hardware: &[u8] = &[2, 0, 0, 0, 0, 7];
        assert_eq!(of(&[192, 0, 2, 7], Some(hardware)).as_deref(), Some("192.0.2.7"));
        let v6 = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(of(&v6, Some(hardware)).as_deref(), Some("2001:db8::7"));
        assert_eq!(of(&[192, 0, 2, 7], None), None);
        assert_eq!(of(&[127, 0, 0, 1], Some(&[0; 6])), None);
        assert_eq!(of(&[192, 0, 2], Some(hardware)), None);
        assert_eq!(neighbour(&[0; 5]), None);
    }
}
