//! The machines of paper 000, Fig. 2, and the wires between them.
//!
//! ```text
//!  D1 ─┐                                           ┌─ D2
//!      R1 link0 ══ the bottleneck ══ wan0 R2 lan0 ─ switch
//!  U1 ─┘ downlink buffer    uplink buffer          └─ U2
//!  internet       provider           gateway         home
//! ```
//!
//! With the uplink's buffer in a modem ([`BufferPlace::Modem`]) one more machine stands in the bottleneck's wire, next to the gateway:
//!
//! ```text
//!  R1 link0 ══ the bottleneck ══ line0 modem home0 ── wan0 R2
//!  downlink buffer          uplink buffer        plain veth
//! ```
//!
//! Addresses are the same in every lab: they live inside namespaces. Every neighbour is entered for good, because an ARP
//! probe that waits behind a full buffer for a second would fail and add losses that no TCP caused.

mod wiring;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pendulum_model::named;

pub(crate) use wiring::{Wire, devices, machine_commands, wires, wiring_commands};

/// A machine of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Internet end of downloads.
    D1,
    /// Internet end of uploads.
    U1,
    /// The provider's router, with the downlink buffer.
    R1,
    /// The home gateway (R2): where the agent runs. It has the uplink buffer unless a modem does.
    Gateway,
    /// The modem between gateway and R1, only where it has the uplink's buffer: a bridge without an address.
    Modem,
    /// The home switch: a bridge without an address.
    Switch,
    /// Home end of downloads.
    D2,
    /// Home end of uploads.
    U2,
}

impl Role {
    /// The machines of every lab.
    pub const ALL: [Self; 7] =
        [Self::D1, Self::U1, Self::R1, Self::Gateway, Self::Switch, Self::D2, Self::U2];

    /// The machines of a lab whose uplink buffer stands there.
    pub fn all(buffer: BufferPlace) -> impl Iterator<Item = Self> {
        let modem = (buffer == BufferPlace::Modem).then_some(Self::Modem);
        Self::ALL.into_iter().chain(modem)
    }

    /// The last part of its namespace's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::D1 => "d1",
            Self::U1 => "u1",
            Self::R1 => "r1",
            Self::Gateway => "r2",
            Self::Modem => "modem",
            Self::Switch => "sw",
            Self::D2 => "d2",
            Self::U2 => "u2",
        }
    }

    /// Whether it is one of the four TCP endpoints.
    pub const fn is_endpoint(self) -> bool {
        matches!(self, Self::D1 | Self::U1 | Self::D2 | Self::U2)
    }

    /// Whether it forwards packets by address.
    pub const fn is_router(self) -> bool {
        matches!(self, Self::R1 | Self::Gateway)
    }

    /// Whether it forwards frames between its devices and has no address.
    pub const fn is_bridge(self) -> bool {
        matches!(self, Self::Switch | Self::Modem)
    }

    /// The device that carries the machine's best known address: an endpoint's only one, a router's end of the bottleneck.
    const fn main_device(self) -> Option<&'static str> {
        match self {
            Self::R1 => Some(LINK_DEVICE),
            Self::Gateway => Some(WAN_DEVICE),
            Self::Switch | Self::Modem => None,
            _ => Some(ENDPOINT_DEVICE),
        }
    }

    /// The address of an endpoint, or of a router on the bottleneck link; bridges have none.
    pub fn address(self, version: IpVersion) -> Option<IpAddr> {
        let device = self.main_device()?;
        let main =
            INTERFACES.iter().find(|interface| interface.role == self && interface.device == device)?;
        Some(main.address(version))
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// Where the uplink's buffer stands, as the command line and reports name it.
    #[derive(Default)]
    pub enum BufferPlace {
        /// On the gateway: the qdisc of its WAN device.
        #[default]
        Gateway = "gateway",
        /// In a modem behind the gateway's WAN device, which is then a plain fast veth without a queue: the usual case at home.
        Modem = "modem",
    }
}

impl BufferPlace {
    /// The machine and the device of the uplink's buffer.
    pub const fn uplink_queue(self) -> (Role, &'static str) {
        match self {
            Self::Gateway => (Role::Gateway, WAN_DEVICE),
            Self::Modem => (Role::Modem, MODEM_LINE_DEVICE),
        }
    }
}

impl fmt::Display for BufferPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// The devices at both ends of a [`crate::line::Line`], inside its namespace.
pub(crate) const LINE_DEVICES: [&str; 2] = ["end0", "end1"];

/// The gateway's device towards the provider.
pub const WAN_DEVICE: &str = "wan0";
/// The gateway's device towards the home.
pub const LAN_DEVICE: &str = "lan0";
/// R1's device towards the gateway.
pub const LINK_DEVICE: &str = "link0";
/// The modem's device towards the provider: its queue is the uplink's buffer.
pub const MODEM_LINE_DEVICE: &str = "line0";
/// The modem's device towards the gateway.
const MODEM_HOME_DEVICE: &str = "home0";
/// The only device of an endpoint.
pub const ENDPOINT_DEVICE: &str = "eth0";

/// The networks: numbers for benchmarks (RFC 2544, 198.18.0.0/15), home (RFC 1918) and documentation (RFC 3849).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subnet {
    Link = 0,
    Downloads = 1,
    Uploads = 2,
    Home = 3,
}

impl Subnet {
    const fn v4(self, host: u8) -> Ipv4Addr {
        match self {
            Self::Home => Ipv4Addr::new(192, 168, 1, host),
            net => Ipv4Addr::new(198, 18, net as u8, host),
        }
    }

    const fn v6(self, host: u8) -> Ipv6Addr {
        Ipv6Addr::new(0x2001, 0xdb8, 0, self as u16, 0, 0, 0, host as u16)
    }
}

/// A device with addresses.
#[derive(Clone, Copy, Debug)]
struct Interface {
    role: Role,
    device: &'static str,
    subnet: Subnet,
    host: u8,
}

impl Interface {
    fn address(&self, version: IpVersion) -> IpAddr {
        match version {
            IpVersion::V4 => self.subnet.v4(self.host).into(),
            IpVersion::V6 => self.subnet.v6(self.host).into(),
        }
    }

    /// Locally administered and fixed, so that captures of two runs compare.
    fn mac(&self) -> String {
        format!("02:00:00:00:{:02x}:{:02x}", self.subnet as u8, self.host)
    }
}

const fn interface(role: Role, device: &'static str, subnet: Subnet, host: u8) -> Interface {
    Interface { role, device, subnet, host }
}

const INTERFACES: [Interface; 9] = [
    interface(Role::R1, "d1", Subnet::Downloads, 1),
    interface(Role::D1, ENDPOINT_DEVICE, Subnet::Downloads, 2),
    interface(Role::R1, "u1", Subnet::Uploads, 1),
    interface(Role::U1, ENDPOINT_DEVICE, Subnet::Uploads, 2),
    interface(Role::R1, LINK_DEVICE, Subnet::Link, 1),
    interface(Role::Gateway, WAN_DEVICE, Subnet::Link, 2),
    interface(Role::Gateway, LAN_DEVICE, Subnet::Home, 1),
    interface(Role::D2, ENDPOINT_DEVICE, Subnet::Home, 2),
    interface(Role::U2, ENDPOINT_DEVICE, Subnet::Home, 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_figure() {
        let text = |role: Role, version| role.address(version).map(|address| address.to_string());
        assert_eq!(text(Role::D1, IpVersion::V4).as_deref(), Some("198.18.1.2"));
        assert_eq!(text(Role::Gateway, IpVersion::V4).as_deref(), Some("198.18.0.2"));
        assert_eq!(text(Role::U2, IpVersion::V6).as_deref(), Some("2001:db8:0:3::3"));
        assert_eq!(text(Role::Switch, IpVersion::V4), None);
    }
}
