//! The device that an address is behind is the one that the routing table names.

use pendulum::net::{Reached, Routes};

use crate::inside::inside;
use crate::netns::Netns;

#[test]
fn an_address_is_behind_the_device_of_its_route() {
    let Some(netns) = Netns::new("an_address_is_behind_the_device_of_its_route") else { return };
    for command in [
        "link add lan0 type veth peer name wan0",
        "addr add 192.0.2.1/24 dev lan0",
        "-6 addr add 2001:db8::1/64 dev lan0 nodad",
        "link set lan0 up",
        "link set wan0 up",
        "route add 198.51.100.0/24 dev wan0",
        "route add blackhole 203.0.113.0/24",
    ] {
        netns.ip(command);
    }
    let behind = |device: &str| Some(Reached::Through(device.to_owned()));
    for (address, expected) in [
        ("192.0.2.1", Some(Reached::Own)),
        ("192.0.2.7", behind("lan0")),
        ("2001:db8::7", behind("lan0")),
        ("198.51.100.7", behind("wan0")),
        ("203.0.113.7", None),
        ("233.252.0.7", None),
    ] {
        let found = inside(&netns, || Routes::open().unwrap().to(address.parse().unwrap()));
        assert_eq!(found, expected, "{address}");
    }
}
