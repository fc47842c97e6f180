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

/// PPP's address and control (RFC 1662 §3.1), and the first byte of Cisco's header for one host and for all.
const PPP_ADDRESS: [u8; 2] = [0xff, 0x03];
const CISCO: [u8; 2] = [0x0f, 0x8f];

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
        LinkType::Ppp => parse_ppp_frame(cursor),
        LinkType::PppEther => {
            cursor.take::<6>(Lost::LinkHeader)?;
            parse_ppp(cursor)
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
            cursor.take::<6>(Lost::LinkHeader)?;
            parse_ppp(cursor)
        }
        other if is_vlan(other) => Err(Lost::VlanDepth.into()),
        _ => Err(NonTcp::NO_IP.into()),
    }
}

/// Step over PPP's address and control, which a link may leave out, or Cisco's header.
fn parse_ppp_frame(cursor: &mut Cursor<'_>) -> Result<Protocol, Stop> {
    let first = *cursor.peek::<2>(Lost::LinkHeader)?;
    if first == PPP_ADDRESS {
        cursor.skip(2);
    } else if CISCO.contains(&first[0]) {
        let [_, _, high, low] = cursor.take::<4>(Lost::LinkHeader)?;
        return parse_ethertype(cursor, u16::from_be_bytes([*high, *low]));
    }
    parse_ppp(cursor)
}

/// Step over the PPP protocol. An odd first byte is all of it (RFC 1661 §6.5).
fn parse_ppp(cursor: &mut Cursor<'_>) -> Result<Protocol, Stop> {
    let protocol = *cursor.peek::<2>(Lost::LinkHeader)?;
    let is_short = protocol[0] & 1 == 1;
    cursor.skip(if is_short { 1 } else { 2 });
    let protocol = if is_short { u16::from(protocol[0]) } else { u16::from_be_bytes(protocol) };
    match protocol {
        PPP_IPV4 => Ok(Protocol::Ipv4),
        PPP_IPV6 => Ok(Protocol::Ipv6),
        _ => Err(NonTcp::NO_IP.into()),
    }
}
