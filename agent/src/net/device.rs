//! One network device, read from a route netlink message.

use std::fmt;

use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::{
    InfoKind, InfoPortKind, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp,
    XdpAttached,
};

/// What frames on a device begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkLayer {
    /// An Ethernet header: Ethernet, VLAN, Wi-Fi stations, veth, bridges.
    Ethernet,
    /// The IP header: ppp, tun, WireGuard, ipip, sit.
    RawIp,
    /// Something the packet parser does not know; the kernel's number (`ARPHRD_*`, linux/if_arp.h).
    Unknown(u16),
}

impl LinkLayer {
    const fn from_arphrd(kind: u16) -> Self {
        match kind {
            // Loopback frames carry an Ethernet header too.
            1 | 772 => Self::Ethernet,
            // PPP, RAWIP, TUNNEL (ipip), TUNNEL6, SIT, NONE (tun, WireGuard).
            512 | 519 | 768 | 769 | 776 | 0xFFFE => Self::RawIp,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet => formatter.write_str("ethernet"),
            Self::RawIp => formatter.write_str("raw-ip"),
            Self::Unknown(kind) => write!(formatter, "ARPHRD {kind}"),
        }
    }
}

/// The device that a port belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The owning device's ifindex.
    pub index: u32,
    /// The kind of the port: `bridge`, `bond`, `team`, `openvswitch`, `vrf`, …
    pub kind: String,
}

impl Owner {
    /// Whether the owner takes the port's frames away before routing sees them. A VRF only selects a routing table.
    pub fn takes_frames(&self) -> bool {
        self.kind != "vrf"
    }
}

/// An XDP program on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xdp {
    /// `native`, `generic` or `offloaded`.
    pub mode: &'static str,
    /// The program's id, 0 if the kernel did not say.
    pub program: u32,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its ifindex in this namespace. A device that is deleted and made again gets another one.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What its frames begin with.
    pub link_layer: LinkLayer,
    /// Whether it was set up (`IFF_UP`).
    pub up: bool,
    /// Whether it has a carrier (`IFF_LOWER_UP`).
    pub carrier: bool,
    /// Largest network-layer packet, bytes.
    pub mtu: u32,
    /// The kernel's kind of a virtual device (`veth`, `vlan`, `ifb`, …), or none for hardware.
    pub kind: Option<String>,
    /// The root queueing discipline's kind; `noqueue` for none.
    pub qdisc: String,
    /// The device it is a port of.
    pub owner: Option<Owner>,
    /// The XDP program on it.
    pub xdp: Option<Xdp>,
}

impl Device {
    /// Reads a device from a message that describes it whole. Bridge messages and wireless events do not.
    pub(super) fn from_message(message: &LinkMessage) -> Option<Self> {
        if message.header.interface_family != AddressFamily::Unspec {
            return None;
        }
        let flags = message.header.flags;
        let mut name = None;
        let mut mtu = None;
        let mut owner_index = None;
        let mut owner_kind = None;
        let mut device = Self {
            index: message.header.index,
            name: String::new(),
            link_layer: LinkLayer::from_arphrd(arphrd(message.header.link_layer_type)),
            up: flags.contains(LinkFlags::Up),
            carrier: flags.contains(LinkFlags::LowerUp),
            mtu: 0,
            kind: None,
            qdisc: String::new(),
            owner: None,
            xdp: None,
        };
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(text) => name = Some(text.clone()),
                LinkAttribute::Mtu(bytes) => mtu = Some(*bytes),
                LinkAttribute::Qdisc(kind) => device.qdisc.clone_from(kind),
                LinkAttribute::Controller(index) => owner_index = Some(*index),
                LinkAttribute::LinkInfo(infos) => (device.kind, owner_kind) = kinds(infos),
                LinkAttribute::Xdp(attributes) => device.xdp = xdp(attributes),
                _ => {}
            }
        }
        device.name = name?;
        device.mtu = mtu?;
        device.owner = owner_index
            .map(|index| Owner { index, kind: owner_kind.unwrap_or_else(|| "unknown".to_owned()) });
        Some(device)
    }
}

fn arphrd(kind: LinkLayerType) -> u16 {
    kind.into()
}

fn kinds(infos: &[LinkInfo]) -> (Option<String>, Option<String>) {
    let mut own = None;
    let mut port = None;
    for info in infos {
        match info {
            LinkInfo::Kind(kind) => own = Some(InfoKind::to_string(kind)),
            LinkInfo::PortKind(kind) => port = Some(port_kind(kind)),
            _ => {}
        }
    }
    (own, port)
}

fn port_kind(kind: &InfoPortKind) -> String {
    match kind {
        InfoPortKind::Bond => "bond".to_owned(),
        InfoPortKind::Bridge => "bridge".to_owned(),
        InfoPortKind::Team => "team".to_owned(),
        InfoPortKind::Vrf => "vrf".to_owned(),
        InfoPortKind::Other(other) => other.clone(),
        _ => "unknown".to_owned(),
    }
}

fn xdp(attributes: &[LinkXdp]) -> Option<Xdp> {
    let mut found = None;
    let mut program = 0;
    for attribute in attributes {
        match attribute {
            LinkXdp::Attached(XdpAttached::Driver) => found = Some("native"),
            LinkXdp::Attached(XdpAttached::SocketBuffer) => found = Some("generic"),
            LinkXdp::Attached(XdpAttached::Hardware) => found = Some("offloaded"),
            LinkXdp::Attached(XdpAttached::Multiple) => found = Some("several modes"),
            LinkXdp::ProgId(id) => program = *id,
            _ => {}
        }
    }
    found.map(|mode| Xdp { mode, program })
}
