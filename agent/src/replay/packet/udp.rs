//! The UDP header (RFC 768).

use pendulum_model::protocol_port::ProtocolPort;

use super::{Cursor, Datagram, Frame, Lost, NonTcp, Request, Timed, count_segments, ip};

const HEADER: u32 = 8;

/// Read the UDP header at the cursor. A packet too short for one is of that protocol, and no datagram.
pub(super) fn parse(cursor: &Cursor<'_>, frame: &Frame<'_>, packet: &ip::IpHeader) -> NonTcp {
    let Some(payload) = packet.l4_bytes.checked_sub(HEADER) else { return NonTcp::of(ProtocolPort::UDP) };
    let ports = cursor.peek::<8>(Lost::Pull).ok().map(|&[source_high, source_low, to_high, to_low, ..]| {
        [u16::from_be_bytes([source_high, source_low]), u16::from_be_bytes([to_high, to_low])]
    });
    let segments = count_segments(frame, payload);
    let headers = cursor.at.saturating_add(HEADER);
    let wire_bytes = u64::from(frame.frame_bytes()) + u64::from(segments - 1) * u64::from(headers);
    let request = ports.and_then(|ports| {
        let request = Request::of_datagram(cursor.rest().get(HEADER as usize..)?, payload, ports)?;
        Some(Timed { request, addresses: [packet.source, packet.destination], ports })
    });
    NonTcp { udp: Some(Datagram { ports, segments, wire_bytes }), request, ..NonTcp::of(ProtocolPort::UDP) }
}
