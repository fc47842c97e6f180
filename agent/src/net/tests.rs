use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{
    InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp,
    XdpAttached,
};

use super::*;
use crate::exit::Exit;

fn message(index: u32, name: &str, layer: LinkLayerType, extra: Vec<LinkAttribute>) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.link_layer_type = layer;
    message.header.flags = LinkFlags::Up | LinkFlags::LowerUp;
    message.attributes = vec![LinkAttribute::IfName(name.to_owned()), LinkAttribute::Mtu(1500)];
    message.attributes.extend(extra);
    message
}

fn table(messages: &[LinkMessage]) -> Devices {
    let mut devices = Devices::default();
    for message in messages {
        devices.insert(message);
    }
    devices
}

fn port(kind: InfoPortKind) -> Vec<LinkAttribute> {
    vec![LinkAttribute::Controller(7), LinkAttribute::LinkInfo(vec![LinkInfo::PortKind(kind)])]
}

#[test]
fn a_sandbox_without_netlink_is_a_lack_of_permission() {
    let denied = std::io::ErrorKind::PermissionDenied;
    assert_eq!(NetError::Socket(denied.into()).exit(), Exit::NoPermission);
    assert_eq!(NetError::Socket(std::io::ErrorKind::OutOfMemory.into()).exit(), Exit::Os);
    assert_eq!(NetError::List(rtnetlink::Error::RequestFailed).exit(), Exit::Os);
}

#[test]
fn reads_what_matters_of_a_device() {
    let attributes = vec![
        LinkAttribute::Qdisc("htb".to_owned()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Veth)]),
    ];
    let devices = table(&[message(3, "wan0", LinkLayerType::Ether, attributes)]);
    let device = devices.usable("wan0").unwrap();
    assert_eq!((device.index, device.mtu, device.up, device.carrier), (3, 1500, true, true));
    assert_eq!((device.kind.as_deref(), device.qdisc.as_str()), (Some("veth"), "htb"));
    assert_eq!(device.link_layer, LinkLayer::Ethernet);
}

#[test]
fn link_layers() {
    for (layer, expected) in [
        (LinkLayerType::Ppp, LinkLayer::RawIp),
        (LinkLayerType::None, LinkLayer::RawIp),
        (LinkLayerType::Rawip, LinkLayer::RawIp),
        (LinkLayerType::Loopback, LinkLayer::Ethernet),
        (LinkLayerType::Ether, LinkLayer::Ethernet),
        (LinkLayerType::Infiniband, LinkLayer::Unknown(32)),
    ] {
        let devices = table(&[message(1, "d", layer, vec![])]);
        assert_eq!(devices.by_name("d").unwrap().link_layer, expected);
    }
}

#[test]
fn problems_say_what_to_do() {
    let mut down = message(2, "eth1", LinkLayerType::Ether, vec![]);
    down.header.flags = LinkFlags::empty();
    let devices = table(&[
        down,
        message(3, "lan0", LinkLayerType::Ether, port(InfoPortKind::Bridge)),
        message(4, "ib0", LinkLayerType::Infiniband, vec![]),
        message(5, "vrfport", LinkLayerType::Ether, port(InfoPortKind::Vrf)),
        message(7, "br-lan", LinkLayerType::Ether, vec![]),
    ]);
    for (name, exit, part) in [
        (
            "eth9",
            Exit::Unavailable,
            "does not exist; did you mean `eth1`? This network namespace has eth1, lan0",
        ),
        ("qqqqqqqq", Exit::Unavailable, "does not exist; this network namespace has eth1"),
        ("eth1", Exit::Unavailable, "is down; set it up with `ip link set dev eth1 up`"),
        ("lan0", Exit::Config, "is a bridge port of `br-lan`"),
        ("ib0", Exit::Config, "has link layer ARPHRD 32"),
    ] {
        let problem = devices.usable(name).expect_err(name);
        assert!(problem.to_string().contains(part), "{problem}");
        assert_eq!(problem.exit(), exit);
        assert_eq!(problem.can_pass(), exit == Exit::Unavailable, "{problem}");
    }
    assert!(devices.usable("vrfport").is_ok());
}

#[test]
fn of_many_devices_a_dozen_are_named() {
    let many = |count| {
        let names =
            (1..=count).map(|index| message(index, &format!("eth{index:02}"), LinkLayerType::Ether, vec![]));
        table(&names.collect::<Vec<_>>()).usable("wan").expect_err("no such device").to_string()
    };
    assert!(many(12).ends_with("eth12"), "{}", many(12));
    assert!(many(15).ends_with("eth12 and 3 more"), "{}", many(15));
}

#[test]
fn partial_messages_do_not_make_or_change_devices() {
    let mut bridge_view = message(3, "lan0", LinkLayerType::Ether, vec![]);
    bridge_view.header.interface_family = AddressFamily::Bridge;
    let mut wireless_event = message(4, "wlan0", LinkLayerType::Ether, vec![]);
    wireless_event.attributes.truncate(1);
    assert_eq!(table(&[bridge_view, wireless_event]), Devices::default());
}

#[test]
fn a_port_that_leaves_a_bridge_is_there_until_it_is_deleted_itself() {
    let port = message(3, "lan0", LinkLayerType::Ether, vec![]);
    let mut devices = Devices::default();
    devices.apply(&RouteNetlinkMessage::NewLink(port.clone()));
    let mut bridge_view = port.clone();
    bridge_view.header.interface_family = AddressFamily::Bridge;
    devices.apply(&RouteNetlinkMessage::DelLink(bridge_view));
    assert!(devices.by_name("lan0").is_some());
    devices.apply(&RouteNetlinkMessage::DelLink(port));
    assert_eq!(devices, Devices::default());
}

#[test]
fn a_port_has_its_own_kind_and_its_owner_s() {
    for (kind, expected, takes_frames) in [
        (Some(InfoPortKind::Bridge), "bridge", true),
        (Some(InfoPortKind::Bond), "bond", true),
        (Some(InfoPortKind::Team), "team", true),
        (Some(InfoPortKind::Vrf), "vrf", false),
        (Some(InfoPortKind::Other("openvswitch".to_owned())), "openvswitch", true),
        (None, "unknown", true),
    ] {
        let own = [LinkInfo::Kind(InfoKind::Veth)].into_iter();
        let infos = own.chain(kind.map(LinkInfo::PortKind)).collect();
        let extra = vec![LinkAttribute::Controller(7), LinkAttribute::LinkInfo(infos)];
        let devices = table(&[message(3, "lan0", LinkLayerType::Ether, extra)]);
        let device = devices.by_name("lan0").unwrap();
        assert_eq!(device.kind.as_deref(), Some("veth"));
        assert_eq!(device.owner, Some(Owner { index: 7, kind: expected.to_owned() }));
        assert_eq!(device.owner.as_ref().unwrap().takes_frames(), takes_frames, "{expected}");
    }
}

#[test]
fn an_xdp_program_has_a_mode_and_a_number() {
    for (attached, mode) in [
        (XdpAttached::Driver, Some("native")),
        (XdpAttached::SocketBuffer, Some("generic")),
        (XdpAttached::Hardware, Some("offloaded")),
        (XdpAttached::Multiple, Some("several modes")),
        (XdpAttached::None, None),
    ] {
        let xdp = LinkAttribute::Xdp(vec![LinkXdp::ProgId(34), LinkXdp::Attached(attached)]);
        let devices = table(&[message(3, "wan0", LinkLayerType::Ether, vec![xdp])]);
        let found = mode.map(|mode| Xdp { mode, program: 34 });
        assert_eq!(devices.by_name("wan0").unwrap().xdp, found);
    }
}
