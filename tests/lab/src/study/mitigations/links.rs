//! The three links of the comparison.

use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::PerDirection;
use serde_json::{Map, Value, json};

use crate::lab::LinkSpec;
use crate::shaper::Shaper;

/// A link and the bulk transfers over it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) spec: LinkSpec,
    /// TCP connections of each direction.
    pub(super) streams: PerDirection<u32>,
}

/// The paper's; one that starves for ACKs; one that needs no help.
pub(super) const LINKS: [Link; 3] = [
    Link {
        name: "paper",
        what: "2.4 Mb/s down, 196 kb/s up, 30,000 B each; one download, one upload",
        spec: LinkSpec::FIG1,
        streams: PerDirection { up: 1, down: 1 },
    },
    Link {
        name: "ack-starved",
        // 100 Mb/s and 200 kb/s are more than an emulated machine forwards: a fifth of both, and of both buffers, keeps all times.
        what: "20 Mb/s down, 40 kb/s up (a fifth of 100 Mb/s and 200 kb/s), 250,000 B and 6,000 B; four downloads",
        spec: link(20_000_000, 250_000, 40_000, 6_000),
        streams: PerDirection { up: 0, down: 4 },
    },
    Link {
        name: "symmetric",
        what: "10 Mb/s both ways, 125,000 B each; one download, one upload",
        spec: link(10_000_000, 125_000, 10_000_000, 125_000),
        streams: PerDirection { up: 1, down: 1 },
    },
];

const fn link(down_bps: u64, down_bytes: u64, up_bps: u64, up_bytes: u64) -> LinkSpec {
    LinkSpec { downlink: shaper(down_bps, down_bytes), uplink: shaper(up_bps, up_bytes), ..LinkSpec::FIG1 }
}

const fn shaper(bits_per_second: u64, bytes: u64) -> Shaper {
    match Rate::from_bits_per_second(bits_per_second) {
        Some(rate) => Shaper { rate, buffer: BufferSize::Bytes(bytes) },
        None => panic!("a rate constant must not be zero"),
    }
}

impl Link {
    /// The link on which a direction alone shows what it can do: its ACKs must find room.
    pub(super) fn unstarved(&self) -> LinkSpec {
        match self.streams.up {
            0 => LinkSpec { uplink: self.spec.downlink, ..self.spec },
            _ => self.spec,
        }
    }

    pub(super) fn params(&self, cc: &str) -> Map<String, Value> {
        let Self { name, spec, streams, .. } = self;
        let params = json!({
            "link": name,
            "cc": cc,
            "downlink_rate_bps": spec.downlink.rate.bits_per_second(),
            "uplink_rate_bps": spec.uplink.rate.bits_per_second(),
            "downlink_buffer": spec.downlink.buffer.to_string(),
            "uplink_buffer": spec.uplink.buffer.to_string(),
            "downloads": streams.down,
            "uploads": streams.up,
        });
        params.as_object().cloned().unwrap_or_default()
    }
}
