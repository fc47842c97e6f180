//! The only input of the detector: what happened on the link in one short interval.
//!
//! Live history buckets, netlink statistics and captures all produce this type, and nothing downstream asks which. A
//! source fills in what it knows and leaves the rest `None` or zero: an unknown queue is not an empty queue.
//!
//! Intervals follow each other without overlap; 10 ms is the usual length, any other works. Times count from one
//! fixed origin of the source's choice (boot, first packet of the capture).

mod assembler;

use std::time::Duration;

use serde::Serialize;

use crate::segment::{Class, Direction, PerDirection};

pub use assembler::{Assembler, Counted, Level, SampleInterval};

/// One interval of the link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// End of the interval. Must grow from sample to sample.
    pub at: Duration,
    /// Length of the interval: this sample speaks for `(at − span, at]`.
    pub span: Duration,
    /// Both directions of the link.
    pub link: PerDirection<DirectionSample>,
    /// End-to-end round-trip time of the flows on the link, queues at both ends included, seconds: the mean of what
    /// was measured in the interval. `None` if nothing was measured; the detector carries the last value on.
    pub round_trip: Option<f64>,
    /// The round-trip time without queues, as far as the source knows it. `None`: not measured yet; the detector keeps
    /// the last value.
    pub base_round_trip: Option<BaseRoundTrip>,
    /// Flows, if they were read in this interval (once a second is enough). Empty means "not read".
    pub flows: Vec<FlowSample>,
}

/// The end-to-end round-trip time of the link's traffic with both buffers empty: what queueing delays are counted from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BaseRoundTrip {
    /// Seconds.
    pub seconds: f64,
    /// Measured while both buffers were empty for certain. Otherwise a queue that never drained may be part of it.
    pub is_proven: bool,
}

/// One direction of the link in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DirectionSample {
    /// Its bottleneck buffer: for `up` at the gateway, for `down` at the provider. `None` if it cannot be seen.
    pub queue: Option<QueueSample>,
    /// What passed through the link.
    pub traffic: Traffic,
    /// Bursts of pure ACKs between two data segments.
    pub ack_bursts: AckBursts,
    /// What entered the buffer in the interval, by kind; for a buffer that is only seen from behind, what left it.
    pub composition: Composition,
    /// The link's rate as measured by who watched the buffer; `None` if nobody measured it.
    pub rate: Option<MeasuredRate>,
}

/// Bytes by what carries them: what fills a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// TCP segments with payload, and all that are no pure ACK (SYN, FIN, RST).
    pub tcp_data: u64,
    /// Pure TCP ACKs of every kind.
    pub ack: u64,
    /// UDP: QUIC, WireGuard, voice and video.
    pub udp: u64,
    /// Everything else: ESP, ICMP, ARP, fragments.
    pub other: u64,
}

impl Composition {
    /// From link-layer bytes by [`Class`], and what of [`Class::NonTcp`] is UDP.
    pub fn of_classes(bytes: &[u64; Class::ALL.len()], udp: u64) -> Self {
        let sum = |belongs: fn(&Class) -> bool| {
            let classes = Class::ALL.into_iter().filter(belongs);
            classes.fold(0, |sum: u64, class| sum.saturating_add(bytes[class as usize]))
        };
        Self {
            tcp_data: sum(|class| !class.is_pure_ack() && *class != Class::NonTcp),
            ack: sum(|class| class.is_pure_ack()),
            udp,
            other: bytes[Class::NonTcp as usize].saturating_sub(udp),
        }
    }

    /// Each kind by the name it has in metrics and JSON.
    pub const fn parts(&self) -> [(&'static str, u64); 4] {
        [("tcp_data", self.tcp_data), ("ack", self.ack), ("udp", self.udp), ("other", self.other)]
    }

    /// The share of each kind by its name, 0 to 1; `None` if there are no bytes.
    pub fn shares(&self) -> Option<[(&'static str, f64); 4]> {
        let total = self.total();
        (total > 0).then(|| self.parts().map(|(kind, bytes)| (kind, bytes as f64 / total as f64)))
    }

    /// What was added since `before`.
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            tcp_data: self.tcp_data.saturating_sub(before.tcp_data),
            ack: self.ack.saturating_sub(before.ack),
            udp: self.udp.saturating_sub(before.udp),
            other: self.other.saturating_sub(before.other),
        }
    }

    /// All bytes.
    pub const fn total(&self) -> u64 {
        self.tcp_data.saturating_add(self.ack).saturating_add(self.udp).saturating_add(self.other)
    }

    /// Adds another interval's bytes.
    pub const fn add(&mut self, other: &Self) {
        self.tcp_data = self.tcp_data.saturating_add(other.tcp_data);
        self.ack = self.ack.saturating_add(other.ack);
        self.udp = self.udp.saturating_add(other.udp);
        self.other = self.other.saturating_add(other.other);
    }
}

/// The rate of one direction of the link, measured from what passed while its buffer held a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredRate {
    /// Bytes per second, as the packets are counted: link-layer bytes at the gateway. What the modem's framing adds
    /// (ATM cells, PPPoE) is not in them, so this is the rate at which such bytes are carried.
    pub bytes_per_second: f64,
    /// The newest moment at which the buffer held a queue: the rate is as old as that.
    pub measured_at: Duration,
}

/// A buffer in one interval. A bucket without events repeats the level in all three figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueSample {
    /// Where the figures come from.
    pub source: QueueSource,
    /// Lowest level, bytes: what the standing queue is made of.
    pub min_bytes: f64,
    /// Time-weighted mean level, bytes.
    pub mean_bytes: f64,
    /// Highest level, bytes.
    pub max_bytes: f64,
    /// The true level lies within this many bytes of the figures, as far as the source can tell; 0 if they are exact.
    pub uncertainty_bytes: f64,
}

impl QueueSample {
    /// A level that held over the whole interval, or the only one known.
    pub fn level(source: QueueSource, bytes: f64) -> Self {
        Self { source, min_bytes: bytes, mean_bytes: bytes, max_bytes: bytes, uncertainty_bytes: 0.0 }
    }
}

named! {
    /// How a queue level was obtained, best first.
    #[derive(Default)]
    pub enum QueueSource {
        /// Qdisc tracepoints: exact.
        Tracepoint = "tracepoint",
        /// Two captures, one on each side of the buffer: exact.
        Capture = "capture",
        /// Qdisc statistics read by netlink: exact at one instant, blind in between.
        Netlink = "netlink",
        /// From delays and book-keeping of what passes one point (`crate::observer`), or one capture alone.
        #[default]
        Estimate = "estimate",
    }
}

/// What passed through one direction of the link, counted as `docs/design/measurement.md` says. Deltas, not totals.
///
/// Counted where the link is entered (after the buffer) if the source can, else where it sees the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// All bytes on the wire, every class.
    pub wire_bytes: u64,
    /// Bytes on the wire of TCP data segments.
    pub data_bytes: u64,
    /// TCP data segments.
    pub data_segments: u64,
    /// Pure ACKs of every kind.
    pub ack_segments: u64,
    /// Retransmitted data segments.
    pub retransmitted_segments: u64,
}

/// ACK bursts that ended in the interval (000 Fig. 3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AckBursts {
    /// Number of bursts of at least one ACK.
    pub bursts: u64,
    /// ACKs in them.
    pub segments: u64,
    /// ACKs in bursts of [`AckBursts::LONG`] or more.
    pub segments_in_long_bursts: u64,
}

impl AckBursts {
    /// From here on a burst is one of "10 to 20 segments", the mark of ACK compression (000 §2.1).
    pub const LONG: u64 = 10;

    /// Adds `times` bursts of `length` ACKs; a length of 0 is no burst.
    pub fn add(&mut self, length: u64, times: u64) {
        if length == 0 {
            return;
        }
        let segments = length.saturating_mul(times);
        self.bursts = self.bursts.saturating_add(times);
        self.segments = self.segments.saturating_add(segments);
        if length >= Self::LONG {
            self.segments_in_long_bursts = self.segments_in_long_bursts.saturating_add(segments);
        }
    }
}

/// One flow in one interval, for RTT fairness (paper 003) and for telling bulk transfers from short flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FlowSample {
    /// Any number that stays the same for the flow and is not used by another one meanwhile.
    pub id: u64,
    /// Direction of its data; a flow that sends both ways appears twice.
    pub direction: Direction,
    /// Data bytes since the flow was last reported.
    pub data_bytes: u64,
    /// Outstanding data now, bytes: sent and not yet acknowledged, on the sender's side of both buffers. For a download seen from the gateway
    /// that is what arrived within one round trip.
    pub in_flight_bytes: Option<f64>,
    /// Latest end-to-end RTT, seconds.
    pub round_trip: Option<f64>,
    /// Smallest end-to-end RTT seen for the flow, seconds: how near the other end is. `None` unless both sides of the
    /// gateway were measured.
    pub base_round_trip: Option<f64>,
}

/// A finite, non-negative figure, or nothing: what every figure of a source passes through before it is used.
pub(crate) fn sane(value: f64) -> Option<f64> {
    // 1e15: far above any real figure, and small enough that sums and squares stay finite.
    (0.0..=1e15).contains(&value).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_counted_by_length() {
        let mut bursts = AckBursts::default();
        bursts.add(0, 7);
        bursts.add(3, 2);
        bursts.add(10, 1);
        bursts.add(20, 2);
        // 2 + 1 + 2 bursts; 6 + 10 + 40 ACKs; 10 + 40 of them in long bursts.
        assert_eq!(bursts, AckBursts { bursts: 5, segments: 56, segments_in_long_bursts: 50 });
    }

    #[test]
    fn every_class_has_a_kind() {
        // A power of two for each class: no two sums are alike.
        let bytes = std::array::from_fn(|class| 1 << class);
        let of = |classes: &[Class]| classes.iter().map(|class| 1 << (*class as u64)).sum::<u64>();
        let acks = of(&[Class::Ack, Class::DupAck, Class::Sack, Class::WindowUpdate]);
        let composition = Composition::of_classes(&bytes, 48);
        assert_eq!((composition.ack, composition.udp), (acks, 48));
        assert_eq!(composition.other, of(&[Class::NonTcp]) - 48);
        assert_eq!(composition.total(), (1 << Class::ALL.len()) - 1);
        let named: u64 = composition.parts().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(named, composition.total());
        assert_eq!(composition.since(&composition), Composition::default());
    }

    #[test]
    fn only_sane_figures_pass() {
        assert_eq!(sane(0.0), Some(0.0));
        assert_eq!(sane(1.5), Some(1.5));
        for useless in [-1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert_eq!(sane(useless), None);
        }
    }
}
