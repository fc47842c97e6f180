//! The TCP header (RFC 9293 §3.1) and its options.

use super::ip::IpHeader;
use super::{Cursor, Frame, Lost, ParsedSegment, Stop, TcpOptions, count_segments, flag};

const HEADER_MIN: u32 = 20;

const KIND_EOL: u8 = 0;
const KIND_NOP: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WSCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;
const KIND_MPTCP: u8 = 30;
const KIND_ACCECN_0: u8 = 172;
const KIND_ACCECN_1: u8 = 174;

/// RFC 7323 §2.3: a larger shift counts as 14.
const WSCALE_MAX: u8 = 14;

/// Read the TCP header at the cursor, which is left where it is.
pub(super) fn parse(
    cursor: &Cursor<'_>,
    frame: &Frame<'_>,
    datagram: &IpHeader,
) -> Result<ParsedSegment, Stop> {
    let l4_bytes = datagram.l4_bytes;
    if l4_bytes < HEADER_MIN {
        return Err(Lost::TcpHeader.into());
    }
    #[rustfmt::skip]
    let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, w0, w1, _, _, _, _] =
        *cursor.peek::<20>(Lost::TcpHeader)?;
    let bytes = u32::from(offset >> 4) * 4;
    if bytes < HEADER_MIN || bytes > l4_bytes {
        return Err(Lost::TcpHeader.into());
    }
    let (options, lost) = match read_options(cursor, bytes, flags & flag::SYN != 0) {
        Ok(options) => (options, None),
        Err(reason) => (TcpOptions::default(), Some(reason)),
    };
    let payload_bytes = l4_bytes - bytes;
    Ok(ParsedSegment {
        source: datagram.source,
        destination: datagram.destination,
        source_port: u16::from_be_bytes([s0, s1]),
        destination_port: u16::from_be_bytes([d0, d1]),
        seq: u32::from_be_bytes([q0, q1, q2, q3]),
        ack: u32::from_be_bytes([a0, a1, a2, a3]),
        flags,
        window: u16::from_be_bytes([w0, w1]),
        payload_bytes,
        header_bytes: cursor.at + bytes,
        ecn: datagram.ecn,
        options,
        frame_bytes: frame.frame_bytes(),
        segments: count_segments(frame, payload_bytes),
        lost,
    })
}

fn read_options(cursor: &Cursor<'_>, header_bytes: u32, is_syn: bool) -> Result<TcpOptions, Lost> {
    let start = cursor.at.saturating_add(HEADER_MIN) as usize;
    let end = cursor.at.saturating_add(header_bytes) as usize;
    // The header is inside the frame (the IP layer saw to that), so what is missing here was cut by the capture.
    let list = cursor.bytes.get(start..end).ok_or(Lost::Pull)?;
    walk_options(list, is_syn).ok_or(Lost::TcpOptions)
}

/// Read an option list; `None` if it is malformed.
fn walk_options(mut list: &[u8], is_syn: bool) -> Option<TcpOptions> {
    let mut options = TcpOptions::default();
    loop {
        match *list {
            [] | [KIND_EOL, ..] => return Some(options),
            [KIND_NOP, ref rest @ ..] => list = rest,
            [_] => return None,
            [kind, length, ..] => {
                let (option, rest) = list.split_at_checked(usize::from(length))?;
                read_option(kind, option.get(2..)?, is_syn, &mut options);
                list = rest;
            }
        }
    }
}

fn read_option(kind: u8, body: &[u8], is_syn: bool, options: &mut TcpOptions) {
    match (kind, body) {
        (KIND_MSS, &[high, low]) if is_syn => options.mss = Some(u16::from_be_bytes([high, low])),
        (KIND_WSCALE, &[shift]) if is_syn => options.wscale = Some(shift.min(WSCALE_MAX)),
        (KIND_SACK_PERMITTED, []) if is_syn => options.sack_ok = true,
        (KIND_SACK, blocks) if blocks.len() >= 8 => options.sack_blocks = (blocks.len() / 8) as u8,
        (KIND_TIMESTAMPS, &[v0, v1, v2, v3, e0, e1, e2, e3]) if options.timestamps.is_none() => {
            options.timestamps =
                Some((u32::from_be_bytes([v0, v1, v2, v3]), u32::from_be_bytes([e0, e1, e2, e3])));
        }
        (KIND_MPTCP, _) => options.mptcp = true,
        (KIND_ACCECN_0 | KIND_ACCECN_1, _) => options.accecn = true,
        _ => {}
    }
}
