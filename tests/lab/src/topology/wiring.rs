//! The wires between the machines, and the commands that make them and bring the machines up.

use super::{
    BufferPlace, ENDPOINT_DEVICE, INTERFACES, Interface, IpVersion, LAN_DEVICE, LINE_DEVICES, LINK_DEVICE,
    MODEM_HOME_DEVICE, MODEM_LINE_DEVICE, Role, Subnet, WAN_DEVICE,
};

const BRIDGE: &str = "br0";

/// A wire between two machines: a veth pair, or with a delay two of them with a line between.
pub(crate) struct Wire {
    pub(crate) a: (Role, &'static str),
    pub(crate) b: (Role, &'static str),
}

const fn wire(a: (Role, &'static str), b: (Role, &'static str)) -> Wire {
    Wire { a, b }
}

/// The wires of a lab whose uplink buffer stands there.
pub(crate) fn wires(buffer: BufferPlace) -> Vec<Wire> {
    let mut wires = vec![
        wire((Role::D1, ENDPOINT_DEVICE), (Role::R1, "d1")),
        wire((Role::U1, ENDPOINT_DEVICE), (Role::R1, "u1")),
    ];
    wires.extend(match buffer {
        BufferPlace::Gateway => vec![wire((Role::R1, LINK_DEVICE), (Role::Gateway, WAN_DEVICE))],
        BufferPlace::Modem => vec![
            wire((Role::R1, LINK_DEVICE), (Role::Modem, MODEM_LINE_DEVICE)),
            wire((Role::Modem, MODEM_HOME_DEVICE), (Role::Gateway, WAN_DEVICE)),
        ],
    });
    wires.extend([
        wire((Role::Switch, "p0"), (Role::Gateway, LAN_DEVICE)),
        wire((Role::Switch, "p1"), (Role::D2, ENDPOINT_DEVICE)),
        wire((Role::Switch, "p2"), (Role::U2, ENDPOINT_DEVICE)),
    ]);
    wires
}

/// The commands for `ip -batch` that make these wires, given each machine's namespace name and, for a wire with a line, the name of the
/// namespace in its middle.
pub(crate) fn wiring_commands(
    wires: &[Wire],
    namespace: impl Fn(Role) -> String,
    middle: impl Fn(&Wire) -> Option<String>,
) -> String {
    // Made inside the namespaces: the machine's own namespace never sees a device of the lab.
    let pair = |a: &str, at_a: &str, b: &str, at_b: &str| {
        format!("link add {a} netns {at_a} type veth peer name {b} netns {at_b}\n")
    };
    wires.iter().fold(String::new(), |mut commands, wire| {
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
pub(crate) fn machine_commands(role: Role, wires: &[Wire]) -> String {
    let mut lines = vec!["link set lo up".to_owned()];
    if role.is_bridge() {
        lines.push(format!("link add {BRIDGE} type bridge"));
    }
    for device in devices(role, wires) {
        // No link-local address: no router solicitation and no address detection disturbs a measurement.
        lines.push(format!("link set {device} addrgenmode none"));
        if role.is_bridge() {
            lines.push(format!("link set {device} master {BRIDGE}"));
        } else {
            lines.push(format!("link set {device} address {}", mac(role, device)));
        }
        lines.push(format!("link set {device} up"));
    }
    if role.is_bridge() {
        lines.push(format!("link set {BRIDGE} addrgenmode none"));
        lines.push(format!("link set {BRIDGE} up"));
    }
    lines.extend(address_lines(role));
    lines.extend(route_lines(role));
    lines.push(String::new());
    lines.join("\n")
}

/// The devices of a machine, without loopback and bridges.
pub(crate) fn devices(role: Role, wires: &[Wire]) -> impl Iterator<Item = &'static str> {
    wires.iter().flat_map(|wire| [wire.a, wire.b]).filter(move |(owner, _)| *owner == role).map(|(_, d)| d)
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
        Role::Switch | Role::Modem => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_its_devices() {
        for place in [BufferPlace::Gateway, BufferPlace::Modem] {
            let wires = wires(place);
            let devices = |role| devices(role, &wires).collect::<Vec<_>>();
            assert_eq!(devices(Role::Gateway), [WAN_DEVICE, LAN_DEVICE]);
            assert_eq!((devices(Role::R1).len(), devices(Role::Switch).len()), (3, 3));
            for role in Role::ALL.into_iter().filter(|role| role.is_endpoint()) {
                assert_eq!(devices(role), [ENDPOINT_DEVICE]);
            }
            let (holder, device) = place.uplink_queue();
            assert!(devices(holder).contains(&device));
        }
    }

    #[test]
    fn a_modem_stands_between_gateway_and_provider() {
        let direct =
            |wires: &[Wire]| wires.iter().any(|wire| (wire.a.0, wire.b.0) == (Role::R1, Role::Gateway));
        assert!(direct(&wires(BufferPlace::Gateway)) && !direct(&wires(BufferPlace::Modem)));
        assert_eq!(Role::all(BufferPlace::Modem).filter(|role| *role == Role::Modem).count(), 1);
        assert_eq!(Role::all(BufferPlace::Gateway).count(), 7);
        let commands = machine_commands(Role::Modem, &wires(BufferPlace::Modem));
        for device in [MODEM_LINE_DEVICE, MODEM_HOME_DEVICE] {
            assert!(commands.contains(&format!("link set {device} master {BRIDGE}")), "{commands}");
        }
        assert!(!commands.contains("addr add"), "{commands}");
    }

    #[test]
    fn both_ends_of_the_bottleneck_know_each_other_for_good() {
        let wires = wires(BufferPlace::Gateway);
        let commands = machine_commands(Role::R1, &wires);
        assert!(commands.contains("neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev link0 nud permanent"));
        assert!(machine_commands(Role::Gateway, &wires).contains("link set wan0 address 02:00:00:00:00:02"));
    }
}
