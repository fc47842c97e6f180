//! The links of the comparison.

use std::time::Duration;

use pendulum_model::named;
use pendulum_model::rate::{BufferSize, Rate};
use pendulum_model::segment::PerDirection;
use serde_json::{Map, Value, json};

use crate::delay::Delays;
use crate::lab::LinkSpec;
use crate::shaper::Shaper;

/// A link and the bulk transfers over it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkTraffic {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) spec: LinkSpec,
    /// TCP connections of each direction.
    pub(super) streams: PerDirection<u32>,
    /// Short downloads that begin within one second, once the long ones have settled.
    pub(super) short: u32,
    /// Whether the case is run with AccECN too.
    pub(super) accecn: bool,
}

/// Payload of a short download: a small page's worth, within TCP's initial window.
pub(super) const SHORT_BYTES: usize = 3_000;

/// The paper's; one that starves for ACKs; one that needs no help; two with delay and several connections; one with many short
/// connections.
pub(super) const LINKS: [LinkTraffic; 6] = [
    LinkTraffic {
        name: "paper",
        what: "2.4 Mb/s down, 196 kb/s up, 30,000 B each; one download, one upload",
        spec: LinkSpec::FIG1,
        streams: PerDirection { up: 1, down: 1 },
        short: 0,
        accecn: true,
    },
    LinkTraffic {
        name: "ack-starved",
        // 100 Mb/s and 200 kb/s are more than an emulated machine forwards: a third of both, and of both buffers, keeps all times. A
        // fifth would be less than the 64 kb/s that the agent shapes to.
        what: "33 Mb/s down, 66 kb/s up (a third of 100 Mb/s and 200 kb/s), 412,500 B and 9,900 B; four downloads",
        spec: link(33_000_000, 412_500, 66_000, 9_900),
        streams: PerDirection { up: 0, down: 4 },
        short: 0,
        accecn: false,
    },
    LinkTraffic {
        name: "symmetric",
        what: "10 Mb/s both ways, 125,000 B each; one download, one upload",
        spec: link(10_000_000, 125_000, 10_000_000, 125_000),
        streams: PerDirection { up: 1, down: 1 },
        short: 0,
        accecn: false,
    },
    LinkTraffic {
        name: "family",
        what: "6 Mb/s down, 512 kb/s up, 75,000 B and 32,000 B, 20 ms each way; two downloads, two uploads",
        spec: distant(link(6_000_000, 75_000, 512_000, 32_000), 20),
        streams: PerDirection { up: 2, down: 2 },
        short: 0,
        accecn: false,
    },
    LinkTraffic {
        name: "cable",
        what: "12 Mb/s down, 1 Mb/s up, 150,000 B and 64,000 B, 10 ms each way; four downloads, one upload",
        spec: distant(link(12_000_000, 150_000, 1_000_000, 64_000), 10),
        streams: PerDirection { up: 1, down: 4 },
        short: 0,
        accecn: false,
    },
    LinkTraffic {
        name: "short",
        what: "5 Mb/s down, 300 kb/s up, 200,000 B and 40,000 B; two downloads, and 200 of 3,000 B that begin within a second",
        spec: link(5_000_000, 200_000, 300_000, 40_000),
        streams: PerDirection { up: 0, down: 2 },
        short: 200,
        accecn: false,
    },
];

const fn distant(spec: LinkSpec, milliseconds: u64) -> LinkSpec {
    LinkSpec { delays: Delays { propagation: Duration::from_millis(milliseconds), ..Delays::NONE }, ..spec }
}

const fn link(down_bps: u64, down_bytes: u64, up_bps: u64, up_bytes: u64) -> LinkSpec {
    LinkSpec { downlink: shaper(down_bps, down_bytes), uplink: shaper(up_bps, up_bytes), ..LinkSpec::FIG1 }
}

const fn shaper(bits_per_second: u64, bytes: u64) -> Shaper {
    match Rate::from_bits_per_second(bits_per_second) {
        Some(rate) => Shaper { rate, buffer: BufferSize::Bytes(bytes) },
        None => panic!("a rate constant must not be zero"),
    }
}

impl LinkTraffic {
    /// The link on which a direction alone shows what it can do: its ACKs must find room.
    pub(super) fn unstarved(&self) -> LinkSpec {
        match self.streams.up {
            0 => LinkSpec { uplink: self.spec.downlink, ..self.spec },
            _ => self.spec,
        }
    }

    /// Each direction's long transfers for themselves, where there is a score to compare with.
    pub(super) fn alone(&self) -> impl Iterator<Item = PerDirection<u32>> {
        let PerDirection { up, down } = self.streams;
        let each = [PerDirection { up: 0, down }, PerDirection { up, down: 0 }];
        each.into_iter().filter(|streams| self.short == 0 && streams.up + streams.down > 0)
    }

    pub(super) fn params(&self, cc: &str, ecn: Ecn) -> Map<String, Value> {
        let Self { name, spec, streams, short, .. } = self;
        let params = json!({
            "link": name,
            "cc": cc,
            "ecn": ecn.name(),
            "downlink_rate_bps": spec.downlink.rate.bits_per_second(),
            "uplink_rate_bps": spec.uplink.rate.bits_per_second(),
            "downlink_buffer": spec.downlink.buffer.to_string(),
            "uplink_buffer": spec.uplink.buffer.to_string(),
            "downloads": streams.down,
            "uploads": streams.up,
            "short_downloads": short,
            "propagation_s": spec.delays.propagation.as_secs_f64(),
        });
        params.as_object().cloned().unwrap_or_default()
    }
}

named! {
    /// Whether the connections have explicit congestion notification, as `--only` and `params.ecn` name it.
    pub(super) enum Ecn {
        /// As Linux is by default: offered by servers, asked for by nobody.
        None = "no-ecn",
        /// Accurate ECN (RFC 9768) at both ends, from Linux 7.0.
        Accurate = "accecn",
    }
}

impl Ecn {
    /// The value of net.ipv4.tcp_ecn at both ends.
    pub(super) const fn sysctl(self) -> &'static str {
        match self {
            Self::None => "2",
            Self::Accurate => "3",
        }
    }

    /// Whether a link is run with it.
    pub(super) const fn is_for(self, link: &LinkTraffic) -> bool {
        match self {
            Self::None => true,
            Self::Accurate => link.accecn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `LEAST_RATE` and the share of `rate-percent` in agent/src/config: on a slower link the agent refuses to shape.
    #[test]
    fn the_agent_shapes_every_link() {
        for link in LINKS {
            let uplink = link.spec.uplink.rate.bits_per_second();
            assert!(uplink * 99 / 100 >= 64_000, "{}: {uplink}", link.name);
        }
    }
}
