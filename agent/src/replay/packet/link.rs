//! The link header: Ethernet with VLAN tags and PPPoE, or what captures put in its place.

use super::{Cursor, LinkType, Lost, NonTcp, Stop};

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_PPPOE_SESSION: u16 = 0x8864;
const ETHERTYPE_QINQ: u16 = 0x88a8;

const VLAN_TAGS_MAX: usize = 2;

const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

/// Address families of [`LinkType::Null`]: one for IPv4, and those of IPv6 on NetBSD, FreeBSD, macOS and Linux.
const FAMILY_IPV4: u32 = 2;
const FAMILIES_IPV6: [u32; 4] = [24, 28, 30, 10];

/// What the IP layer finds at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Ipv4,
    Ipv6,
}

/// Step over the link header.
pub(super) fn parse(cursor: &mut Cursor<'_>, link_type: LinkType) -> Result<Protocol, Stop> {
    match link_type {
        LinkType::RawIp => {
            let [first] = cursor.peek::<1>(Lost::IpHeader)?;
            // Anything but 6 goes to the IPv4 reader, which refuses what is not 4.
            Ok(if first >> 4 == 6 { Protocol::Ipv6 } else { Protocol::Ipv4 })
        }
        LinkType::Ethernet => {
            let [_, _, _, _, _, _, _, _, _, _, _, _, high, low] = cursor.take::<14>(Lost::LinkHeader)?;
            parse_ethertype(cursor, u16::from_be_bytes([*high, *low]))
        }
        LinkType::LinuxSll => {
            let [_, _, _, _, _, _, _, _, _, _, _, _, _, _, high, low] =
                cursor.take::<16>(Lost::LinkHeader)?;
            parse_ethertype(cursor, u16::from_be_bytes([*high, *low]))
        }
        LinkType::LinuxSll2 => {
            let [high, low, ..] = cursor.take::<20>(Lost::LinkHeader)?;
            parse_ethertype(cursor, u16::from_be_bytes([*high, *low]))
        }
        LinkType::Null => {
            let family = cursor.take::<4>(Lost::LinkHeader)?;
            let families = [u32::from_le_bytes(*family), u32::from_be_bytes(*family)];
            if families.contains(&FAMILY_IPV4) {
                Ok(Protocol::Ipv4)
            } else if FAMILIES_IPV6.iter().any(|f| families.contains(f)) {
                Ok(Protocol::Ipv6)
            } else {
                Err(NonTcp::NO_IP.into())
            }
        }
    }
}

/// Step over VLAN tags and a PPPoE session header, if `ethertype` says so.
fn parse_ethertype(cursor: &mut Cursor<'_>, mut ethertype: u16) -> Result<Protocol, Stop> {
    let is_vlan = |ethertype| matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ);
    for _ in 0..VLAN_TAGS_MAX {
        if !is_vlan(ethertype) {
            break;
        }
        let [_, _, high, low] = cursor.take::<4>(Lost::LinkHeader)?;
        ethertype = u16::from_be_bytes([*high, *low]);
    }
    match ethertype {
        ETHERTYPE_IPV4 => Ok(Protocol::Ipv4),
        ETHERTYPE_IPV6 => Ok(Protocol::Ipv6),
        ETHERTYPE_PPPOE_SESSION => {
            let [_, _, _, _, _, _, high, low] = cursor.take::<8>(Lost::LinkHeader)?;
            match u16::from_be_bytes([*high, *low]) {
                PPP_IPV4 => Ok(Protocol::Ipv4),
                PPP_IPV6 => Ok(Protocol::Ipv6),
                _ => Err(NonTcp::NO_IP.into()),
            }
        }
        other if is_vlan(other) => Err(Lost::VlanDepth.into()),
        _ => Err(NonTcp::NO_IP.into()),
    }
}
