//! Packets that are in a capture twice, as on the device `any`: with each device that they pass.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use super::super::capture::Record;
use super::super::packet::{Packet, outline};

/// A copy follows within this time: a sender repeats itself later.
const COPY_NS: u64 = 100_000_000;

/// Packets remembered.
const PLACES: usize = 1 << 12;

/// Recognises the second copy of a packet.
#[derive(Clone, Debug)]
pub struct Copies {
    /// By either end of a packet.
    places: [Vec<(u64, u64)>; 2],
}

impl Default for Copies {
    fn default() -> Self {
        Self { places: [(); 2].map(|()| vec![(0, 0); PLACES]) }
    }
}

impl Copies {
    /// Whether the same packet has passed just before. Address translation changes one of its ends at most.
    pub fn is_copy(&mut self, record: &Record<'_>, packet: &Packet) -> bool {
        let ends = match packet {
            Packet::Tcp(segment) => {
                let content = (
                    (segment.seq, segment.ack, segment.flags, segment.window),
                    (segment.payload_bytes, segment.options.timestamps, segment.options.sack_blocks),
                );
                [(segment.source, segment.source_port), (segment.destination, segment.destination_port)]
                    .map(|end| fingerprint(&(end, content)))
            }
            _ => {
                let frame = record.frame();
                let Some(outline) = outline(&frame) else { return false };
                // Ports and checksums may be translated; what is behind them must be at hand to tell packets apart.
                let Some(content) = outline.rest.get(8..16) else { return false };
                [outline.source, outline.destination]
                    .map(|end| fingerprint(&(end, outline.protocol, outline.ip_bytes, content)))
            }
        };
        let mut is_copy = false;
        for (print, places) in ends.into_iter().zip(&mut self.places) {
            let place = &mut places[print as usize % PLACES];
            is_copy |= place.0 == print && record.time_ns.abs_diff(place.1) <= COPY_NS;
            *place = (print, record.time_ns);
        }
        is_copy
    }
}

fn fingerprint(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
