//! What travels.

/// A full data segment, or datagram, and a pure ACK with timestamps on the wire, bytes.
pub(super) const DATA_BYTES: u64 = 1500;
const ACK_BYTES: u64 = 52;

#[derive(Clone, Copy)]
pub(super) struct Packet {
    pub(super) flow: usize,
    /// Segment number for data; cumulative acknowledgement for an ACK.
    pub(super) number: u64,
    pub(super) is_data: bool,
    /// Sent before.
    pub(super) is_again: bool,
    pub(super) is_datagram: bool,
    pub(super) sent_ns: u64,
}

impl Packet {
    pub(super) const fn bytes(&self) -> u64 {
        if self.is_data { DATA_BYTES } else { ACK_BYTES }
    }
}
