//! The machines of paper 000, Fig. 2, and the wires between them.
//!
//! ```text
//!  D1 ─┐                                           ┌─ D2
//!      R1 link0 ══ the bottleneck ══ wan0 R2 lan0 ─ switch
//!  U1 ─┘ downlink buffer    uplink buffer          └─ U2
//!  internet       provider           gateway         home
//! ```
//!
//! Addresses are the same in every lab: they live inside namespaces. Every neighbour is entered for good, because an ARP
//! probe that waits behind a full buffer for a second would fail and add losses that no TCP caused.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::delay::LINE_DEVICES;

/// A machine of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Internet end of downloads.
    D1,
    /// Internet end of uploads.
    U1,
    /// The provider's router, with the downlink buffer.
    R1,
    /// The home gateway (R2), with the uplink buffer: where the agent runs.
    Gateway,
    /// The home switch: a bridge without an address.
    Switch,
    /// Home end of downloads.
    D2,
    /// Home end of uploads.
    U2,
}

impl Role {
    /// All machines.
    pub const ALL: [Self; 7] =
        [Self::D1, Self::U1, Self::R1, Self::Gateway, Self::Switch, Self::D2, Self::U2];

    /// The last part of its namespace's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::D1 => "d1",
            Self::U1 => "u1",
            Self::R1 => "r1",
            Self::Gateway => "r2",
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

    /// The device that carries the machine's best known address: an endpoint's only one, a router's end of the bottleneck.
    const fn main_device(self) -> Option<&'static str> {
        match self {
            Self::R1 => Some(LINK_DEVICE),
            Self::Gateway => Some(WAN_DEVICE),
            Self::Switch => None,
            _ => Some(ENDPOINT_DEVICE),
        }
    }

    /// The address of an endpoint, or of a router on the bottleneck link; the switch has none.
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

/// IP version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// The gateway's device towards the provider.
pub const WAN_DEVICE: &str = "wan0";
/// The gateway's device towards the home.
pub const LAN_DEVICE: &str = "lan0";
/// R1's device towards the gateway.
pub const LINK_DEVICE: &str = "link0";
/// The only device of an endpoint.
pub const ENDPOINT_DEVICE: &str = "eth0";
const BRIDGE: &str = "br0";

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

/// A wire between two machines: a veth pair, or with a delay two of them with a line between.
pub(crate) struct Wire {
    pub(crate) a: (Role, &'static str),
    pub(crate) b: (Role, &'static str),
}

pub(crate) const WIRES: [Wire; 6] = [
    Wire { a: (Role::D1, ENDPOINT_DEVICE), b: (Role::R1, "d1") },
    Wire { a: (Role::U1, ENDPOINT_DEVICE), b: (Role::R1, "u1") },
    Wire { a: (Role::R1, LINK_DEVICE), b: (Role::Gateway, WAN_DEVICE) },
    Wire { a: (Role::Switch, "p0"), b: (Role::Gateway, LAN_DEVICE) },
    Wire { a: (Role::Switch, "p1"), b: (Role::D2, ENDPOINT_DEVICE) },
    Wire { a: (Role::Switch, "p2"), b: (Role::U2, ENDPOINT_DEVICE) },
];

/// The commands for `ip -batch` that make all wires, given each machine's namespace name and, for a wire with a delay, the name of the
/// namespace in its middle.
pub(crate) fn wiring_commands(
    namespace: impl Fn(Role) -> String,
    middle: impl Fn(&Wire) -> Option<String>,
) -> String {
    // Made inside the namespaces: the machine's own namespace never sees a device of the lab.
    let pair = |a: &str, at_a: &str, b: &str, at_b: &str| {
        format!("link add {a} netns {at_a} type veth peer name {b} netns {at_b}\n")
    };
    WIRES.iter().fold(String::new(), |mut commands, wire| {
        let ((a, b), (at_a, at_b)) = ((wire.a.1, wire.b.1), (namespace(wire.a.0), namespace(wire.b.0)));
        match middle(wire) {
            None => commands.push_str(&pair(a, &at_a, b, &at_b)),
            Some(middle) => {
                for (device, at, end) in [(a, at_a, LINE_DEVICES[0]), (b, at_b, LINE_DEVICES[1])] {
                    commands.push_str(&pair(device, &at, end, &middle));
                }
            }
        }
        commands
    })
}

/// The commands for `ip -batch` that bring up one machine: its devices, addresses, neighbours and routes.
pub(crate) fn machine_commands(role: Role) -> String {
    let mut lines = vec!["link set lo up".to_owned()];
    if role == Role::Switch {
        lines.push(format!("link add {BRIDGE} type bridge"));
    }
    for device in devices(role) {
        // No link-local address: no router solicitation and no address detection disturbs a measurement.
        lines.push(format!("link set {device} addrgenmode none"));
        if role == Role::Switch {
            lines.push(format!("link set {device} master {BRIDGE}"));
        } else {
            lines.push(format!("link set {device} address {}", mac(role, device)));
        }
        lines.push(format!("link set {device} up"));
    }
    if role == Role::Switch {
        lines.push(format!("link set {BRIDGE} addrgenmode none"));
        lines.push(format!("link set {BRIDGE} up"));
    }
    lines.extend(address_lines(role));
    lines.extend(route_lines(role));
    lines.push(String::new());
    lines.join("\n")
}

/// The devices of a machine, without loopback and the switch's bridge.
pub(crate) fn devices(role: Role) -> impl Iterator<Item = &'static str> {
    WIRES.iter().flat_map(|wire| [wire.a, wire.b]).filter(move |(owner, _)| *owner == role).map(|(_, d)| d)
}

fn mac(role: Role, device: &str) -> String {
    let known = INTERFACES.iter().find(|interface| interface.role == role && interface.device == device);
    known.map(Interface::mac).unwrap_or_default()
}

fn address_lines(role: Role) -> Vec<String> {
    let mut lines = Vec::new();
    for own in INTERFACES.iter().filter(|interface| interface.role == role) {
        let (v4, v6) = (own.address(IpVersion::V4), own.address(IpVersion::V6));
        lines.push(format!("addr add {v4}/24 dev {}", own.device));
        lines.push(format!("addr add {v6}/64 dev {} nodad", own.device));
        for other in INTERFACES.iter().filter(|other| other.subnet == own.subnet && other.host != own.host) {
            for version in [IpVersion::V4, IpVersion::V6] {
                lines.push(format!(
                    "neigh add {} lladdr {} dev {} nud permanent",
                    other.address(version),
                    other.mac(),
                    own.device
                ));
            }
        }
    }
    lines
}

fn route_lines(role: Role) -> Vec<String> {
    let via = |subnet: Subnet, host| {
        [
            format!("route add default via {}", subnet.v4(host)),
            format!("route add default via {}", subnet.v6(host)),
        ]
    };
    match role {
        Role::D1 => via(Subnet::Downloads, 1).into(),
        Role::U1 => via(Subnet::Uploads, 1).into(),
        Role::D2 | Role::U2 => via(Subnet::Home, 1).into(),
        Role::Gateway => via(Subnet::Link, 1).into(),
        Role::R1 => via(Subnet::Link, 2).into(),
        Role::Switch => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_its_devices() {
        assert_eq!(devices(Role::Gateway).collect::<Vec<_>>(), [WAN_DEVICE, LAN_DEVICE]);
        assert_eq!(devices(Role::R1).count(), 3);
        assert_eq!(devices(Role::Switch).count(), 3);
        for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
            assert_eq!(devices(role).collect::<Vec<_>>(), [ENDPOINT_DEVICE]);
        }
    }

    #[test]
    fn addresses_are_those_of_the_figure() {
        let text = |role: Role, version| role.address(version).map(|address| address.to_string());
        assert_eq!(text(Role::D1, IpVersion::V4).as_deref(), Some("198.18.1.2"));
        assert_eq!(text(Role::Gateway, IpVersion::V4).as_deref(), Some("198.18.0.2"));
        assert_eq!(text(Role::U2, IpVersion::V6).as_deref(), Some("2001:db8:0:3::3"));
        assert_eq!(text(Role::Switch, IpVersion::V4), None);
    }

    #[test]
    fn both_ends_of_the_bottleneck_know_each_other_for_good() {
        let commands = machine_commands(Role::R1);
        assert!(commands.contains("neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev link0 nud permanent"));
        assert!(machine_commands(Role::Gateway).contains("link set wan0 address 02:00:00:00:00:02"));
    }
}
