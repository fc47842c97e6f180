//! One of the link's two buffers, and what it counts.

use std::collections::VecDeque;

use pendulum_model::sample::{AckBursts, Composition};

use super::Limit;
use super::packet::Packet;

pub(super) struct Buffer {
    pub(super) limit: Limit,
    pub(super) queue: VecDeque<Packet>,
    pub(super) bytes: u64,
    pub(super) in_service: Option<Packet>,
    pub(super) level: Level,
    pub(super) wire_bytes: u64,
    pub(super) data_segments: u64,
    pub(super) again_segments: u64,
    pub(super) ack_segments: u64,
    /// What went into the buffer, or straight into the link.
    pub(super) composition: Composition,
    pub(super) ack_run: u64,
    pub(super) bursts: AckBursts,
}

/// Level of a buffer since the last tick.
pub(super) struct Level {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) area: f64,
    pub(super) changed_ns: u64,
}

impl Buffer {
    pub(super) fn change(&mut self, now: u64, by: i64) {
        self.level.area += self.bytes as f64 * (now - self.level.changed_ns) as f64;
        self.level.changed_ns = now;
        self.bytes = self.bytes.saturating_add_signed(by);
        self.level.min = self.level.min.min(self.bytes);
        self.level.max = self.level.max.max(self.bytes);
    }

    pub(super) fn passed(&mut self, packet: &Packet) {
        self.wire_bytes += packet.bytes();
        if packet.is_datagram {
            return;
        }
        if packet.is_data {
            self.data_segments += 1;
            self.again_segments += u64::from(packet.is_again);
            self.bursts.add(std::mem::take(&mut self.ack_run), 1);
        } else {
            self.ack_segments += 1;
            self.ack_run += 1;
        }
    }

    pub(super) fn entered(&mut self, packet: &Packet) {
        let kind = match (packet.is_datagram, packet.is_data) {
            (true, _) => &mut self.composition.udp,
            (false, true) => &mut self.composition.tcp_data,
            (false, false) => &mut self.composition.ack,
        };
        *kind += packet.bytes();
    }
}
