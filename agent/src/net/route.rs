//! How this machine reaches an address, by its routing table: whether it is its own, or the device.

use std::io;
use std::net::IpAddr;

use rtnetlink::sys::protocols::NETLINK_ROUTE;

use super::message::{Attributes, attribute, u32_at};
use super::request::Questions;

/// <linux/rtnetlink.h>.
const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;
/// `struct rtmsg`: the route's type is its byte 7.
const RTMSG: usize = 12;
const TYPE: usize = 7;
const RTN_UNICAST: u8 = 1;
const RTN_LOCAL: u8 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
/// `struct ifinfomsg`, <linux/if_link.h>.
const IFINFOMSG: usize = 16;
const IFLA_IFNAME: u16 = 3;

/// Where an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reached {
    /// It is this machine's own.
    Own,
    /// Behind this device.
    Through(String),
}

/// Asks the routing table.
#[derive(Debug)]
pub struct Routes {
    questions: Questions,
}

impl Routes {
    /// # Errors
    /// No netlink socket can be had.
    pub fn open() -> io::Result<Self> {
        Ok(Self { questions: Questions::open(NETLINK_ROUTE)? })
    }

    /// Where an address is; `None` if no route leads there, or that cannot be known (link-local addresses are on every
    /// device).
    pub fn to(&mut self, address: IpAddr) -> Option<Reached> {
        if matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            return None;
        }
        let mut header = [0; RTMSG];
        let (family, octets) = match address {
            IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
        };
        header[0] = u8::try_from(family).ok()?;
        let route =
            self.questions.ask(RTM_GETROUTE, &header, &Attributes::new().with(RTA_DST, &octets)).ok()?;
        match *route.get(TYPE)? {
            RTN_LOCAL => Some(Reached::Own),
            RTN_UNICAST => {
                let device = u32_at(attribute(route.get(RTMSG..)?, RTA_OIF)?, 0).ok()?;
                Some(Reached::Through(self.name(device)?))
            }
            _ => None,
        }
    }

    fn name(&mut self, device: u32) -> Option<String> {
        let mut header = [0; IFINFOMSG];
        header[4..8].copy_from_slice(&device.to_ne_bytes());
        let link = self.questions.ask(RTM_GETLINK, &header, &Attributes::new()).ok()?;
        let name = attribute(link.get(IFINFOMSG..)?, IFLA_IFNAME)?;
        Some(String::from_utf8_lossy(name.strip_suffix(&[0]).unwrap_or(name)).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_own() {
        let mut routes = Routes::open().unwrap();
        assert_eq!(routes.to("127.0.0.1".parse().unwrap()), Some(Reached::Own));
        assert_eq!(routes.to("127.8.8.8".parse().unwrap()), Some(Reached::Own));
        assert_eq!(routes.to("fe80::1".parse().unwrap()), None);
        // Nobody's: 0.0.0.0/8 but "this host" is no destination (RFC 1122, 3.2.1.3), or leads away where a default route is.
        assert_ne!(routes.to("192.0.2.77".parse().unwrap()), Some(Reached::Own));
    }
}
