//! Captures made of crafted frames.

/// A capture as pcap with nanoseconds: when each frame passed, and its bytes.
pub(crate) fn pcap(link_type: u32, frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for value in [0xa1b2_3c4d, 0x0004_0002, 0, 0, 65535, link_type] {
        bytes.extend_from_slice(&u32::to_le_bytes(value));
    }
    for (time_ns, frame) in frames {
        let length = frame.len() as u32;
        let (seconds, rest) = (1_700_000_000 + time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        for value in [seconds as u32, rest as u32, length, length] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(frame);
    }
    bytes
}
