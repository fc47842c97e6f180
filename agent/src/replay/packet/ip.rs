//! IPv4 (RFC 791) and IPv6 with extension headers (RFC 8200).

use super::link::Protocol;
use super::{Cursor, Lost, NonTcp, Outline, Stop};

const IPV4_HEADER_MIN: u32 = 20;
const IPV4_FRAGMENT_OFFSET: u16 = 0x1fff;

const IPV6_EXTENSIONS_MAX: usize = 6;
const IPV6_FRAGMENT_OFFSET: u16 = 0xfff8;

const HOP_BY_HOP: u8 = 0;
pub(super) const ICMP: u8 = 1;
pub(super) const TCP: u8 = 6;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
pub(super) const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;

/// What the IP header says; the cursor stands behind it.
pub(super) struct IpHeader {
    pub(super) source: [u8; 16],
    pub(super) destination: [u8; 16],
    pub(super) ecn: u8,
    pub(super) protocol: u8,
    /// Header and payload of that protocol, in bytes.
    pub(super) l4_bytes: u32,
}

/// Step over the IP header and IPv6 extension headers.
pub(super) fn parse(cursor: &mut Cursor<'_>, protocol: Protocol) -> Result<IpHeader, Stop> {
    match protocol {
        Protocol::Ipv4 => parse_ipv4(cursor),
        Protocol::Ipv6 => parse_ipv6(cursor),
    }
}

/// Read only what every IP packet has.
pub(super) fn outline<'a>(cursor: &mut Cursor<'a>, protocol: Protocol) -> Result<Outline<'a>, Lost> {
    let left = cursor.left();
    let (source, destination, protocol, ip_bytes, header) = match protocol {
        Protocol::Ipv4 => {
            #[rustfmt::skip]
            let [version_ihl, _, total_high, total_low, _, _, _, _, _, protocol, _, _,
                 s0, s1, s2, s3, d0, d1, d2, d3] = *cursor.peek::<20>(Lost::IpHeader)?;
            if version_ihl >> 4 != 4 {
                return Err(Lost::IpHeader);
            }
            let total = declared_or_left(u16::from_be_bytes([total_high, total_low]), left);
            let addresses = (map_ipv4([s0, s1, s2, s3]), map_ipv4([d0, d1, d2, d3]));
            (addresses.0, addresses.1, protocol, total, u32::from(version_ihl & 0x0f) * 4)
        }
        Protocol::Ipv6 => {
            let fixed = read_ipv6(cursor)?;
            (fixed.source, fixed.destination, fixed.next, fixed.payload.saturating_add(40), 40)
        }
    };
    let rest = cursor.bytes.get(cursor.at.saturating_add(header) as usize..).unwrap_or_default();
    Ok(Outline { source, destination, protocol, ip_bytes, rest })
}

/// Bytes of the packet: what its header declares, or all there is for a super-packet above 64 KiB (declares 0).
fn declared_or_left(declared: u16, left: u32) -> u32 {
    if declared == 0 { left } else { u32::from(declared) }
}

fn parse_ipv4(cursor: &mut Cursor<'_>) -> Result<IpHeader, Stop> {
    let left = cursor.left();
    #[rustfmt::skip]
    let [version_ihl, tos, total_high, total_low, _, _, fragment_high, fragment_low, _, protocol, _, _,
         s0, s1, s2, s3, d0, d1, d2, d3] = *cursor.peek::<20>(Lost::IpHeader)?;
    let header = u32::from(version_ihl & 0x0f) * 4;
    let total = declared_or_left(u16::from_be_bytes([total_high, total_low]), left);
    if version_ihl >> 4 != 4 || header < IPV4_HEADER_MIN || total < header || total > left {
        return Err(Lost::IpHeader.into());
    }
    let is_later_fragment = u16::from_be_bytes([fragment_high, fragment_low]) & IPV4_FRAGMENT_OFFSET != 0;
    if is_later_fragment {
        return Err(if protocol == TCP { Lost::Fragment.into() } else { NonTcp::of(protocol).into() });
    }
    cursor.skip(header);
    Ok(IpHeader {
        source: map_ipv4([s0, s1, s2, s3]),
        destination: map_ipv4([d0, d1, d2, d3]),
        ecn: tos & 3,
        protocol,
        l4_bytes: total - header,
    })
}

/// RFC 4291 §2.5.5.2: `::ffff:a.b.c.d`.
const fn map_ipv4([a, b, c, d]: [u8; 4]) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

struct Ipv6Header {
    source: [u8; 16],
    destination: [u8; 16],
    ecn: u8,
    next: u8,
    payload: u32,
}

/// Read the fixed header at the cursor, which is left where it is.
fn read_ipv6(cursor: &Cursor<'_>) -> Result<Ipv6Header, Lost> {
    let header = cursor.peek::<40>(Lost::IpHeader)?;
    let (fixed, addresses) = header.split_at(8);
    let (&[first, second, _, _, length_high, length_low, next, _], [source, destination]) =
        (fixed, addresses.as_chunks::<16>().0)
    else {
        return Err(Lost::IpHeader);
    };
    if first >> 4 != 6 {
        return Err(Lost::IpHeader);
    }
    let left = cursor.left().saturating_sub(40);
    let payload = declared_or_left(u16::from_be_bytes([length_high, length_low]), left);
    // The traffic class lies across the first two bytes; ECN is its lowest two bits.
    Ok(Ipv6Header { source: *source, destination: *destination, ecn: second >> 4 & 3, next, payload })
}

fn parse_ipv6(cursor: &mut Cursor<'_>) -> Result<IpHeader, Stop> {
    let header = read_ipv6(cursor)?;
    cursor.skip(40);
    if header.payload > cursor.left() {
        return Err(Lost::IpHeader.into());
    }
    let (protocol, l4_bytes) = walk_extensions(cursor, header.next, header.payload)?;
    let Ipv6Header { source, destination, ecn, .. } = header;
    Ok(IpHeader { source, destination, ecn, protocol, l4_bytes })
}

/// Step over extension headers. Answers the protocol behind them, and the bytes of `payload` that are left for it.
fn walk_extensions(cursor: &mut Cursor<'_>, mut next: u8, mut payload: u32) -> Result<(u8, u32), Stop> {
    for walked in 0..=IPV6_EXTENSIONS_MAX {
        match next {
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | FRAGMENT | AUTHENTICATION => {}
            other => return Ok((other, payload)),
        }
        if walked == IPV6_EXTENSIONS_MAX {
            break;
        }
        let [following, length, offset_high, offset_low, _, _, _, _] = *cursor.peek::<8>(Lost::IpHeader)?;
        let bytes = match next {
            FRAGMENT => {
                if u16::from_be_bytes([offset_high, offset_low]) & IPV6_FRAGMENT_OFFSET != 0 {
                    return Err(if following == TCP {
                        Lost::Fragment.into()
                    } else {
                        NonTcp::of(following).into()
                    });
                }
                8
            }
            AUTHENTICATION => (u32::from(length) + 2) * 4,
            _ => (u32::from(length) + 1) * 8,
        };
        payload = payload.checked_sub(bytes).ok_or(Lost::IpHeader)?;
        cursor.skip(bytes);
        next = following;
    }
    Err(Lost::Ipv6Extensions.into())
}
