//! What passed: segments and bytes by class, marks, retransmissions, RTT, ACK bursts.

use std::fmt::Result;
use std::sync::Arc;

use pendulum_model::segment::{Class, Direction};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Samples};
use crate::bpf::abi;
use crate::snapshot::{Board, LinkSnapshot};

const SEGMENTS: Family = Family::counter(
    "pendulum_segments_total",
    None,
    "Segments that passed the WAN device, by class; a merged super-packet counts as the segments it stands for.",
);
const BYTES: Family = Family::counter(
    "pendulum_bytes_total",
    Some("bytes"),
    "Link-layer bytes that passed the WAN device, by class of segment.",
);
const PAYLOAD: Family = Family::counter(
    "pendulum_payload_bytes_total",
    Some("bytes"),
    "TCP payload that passed the WAN device, retransmissions included.",
);
const MARKED: Family = Family::counter(
    "pendulum_marked_segments_total",
    None,
    "Segments with a mark besides their class: ECN CE, ECE or CWR, or SACK blocks.",
);
const RETRANSMITTED: Family = Family::counter(
    "pendulum_retransmitted_segments_total",
    None,
    "Segments whose payload had passed before.",
);
const REORDERED: Family = Family::counter(
    "pendulum_reordered_segments_total",
    None,
    "Segments that filled a gap so soon that they were overtaken, not retransmitted.",
);
const RTT: Family = Family::histogram(
    "pendulum_rtt_seconds",
    "seconds",
    "Round-trip time from the gateway to one end and back: side wan to the remote end, side lan to the home end.",
);
const ACK_BURST: Family = Family::histogram(
    "pendulum_ack_burst_segments",
    "segments",
    "Pure ACKs that passed in one direction between two data segments; bursts of tens are ACK compression.",
);

/// Names of `enum pendulum_mark`, in its order.
pub(crate) const MARKS: [&str; abi::PENDULUM_MARKS as usize] = ["ce", "ece", "cwr", "sack"];

/// Upper bounds of the burst histogram, in segments. The kernel side counts lengths up to 63 one by one and all longer
/// ones together, so 63 is the last that can be distinguished.
const BURST_BOUNDS: [usize; 14] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 30, 40, 63];

#[derive(Debug)]
pub(super) struct Traffic {
    board: Board,
}

impl Traffic {
    pub(super) fn new(board: Board) -> Self {
        Self { board }
    }
}

impl Collector for Traffic {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links = &self.board.snapshots();
        let encoder = &mut encoder;
        SEGMENTS.write(encoder, |samples| by_class(samples, links, |counters| &counters.segments))?;
        BYTES.write(encoder, |samples| by_class(samples, links, |counters| &counters.bytes))?;
        PAYLOAD.write(encoder, |samples| total(samples, links, |counters| counters.payload_bytes))?;
        MARKED.write(encoder, |samples| {
            each(links, |link, direction, counters| {
                MARKS.iter().zip(&counters.marked_segments).try_for_each(|(mark, count)| {
                    samples.counter([("link", link), ("direction", direction.name()), ("mark", mark)], *count)
                })
            })
        })?;
        RETRANSMITTED.write(encoder, |samples| total(samples, links, |c| c.retransmitted_segments))?;
        REORDERED.write(encoder, |samples| total(samples, links, |c| c.reordered_segments))?;
        RTT.write(encoder, |samples| {
            each(links, |link, direction, counters| {
                let labels = [("link", link), ("side", side(direction))];
                samples.times(labels, counters.rtt_sum_us, &counters.rtt)
            })
        })?;
        ACK_BURST.write(encoder, |samples| {
            each(links, |link, direction, counters| {
                let labels = [("link", link), ("direction", direction.name())];
                samples.histogram(labels, counters.burst_segments as f64, &burst_buckets(&counters.bursts))
            })
        })
    }
}

/// What goes up is timed on its way to the remote end, what comes down on its way to the home end.
fn side(direction: Direction) -> &'static str {
    direction.pick("wan", "lan")
}

fn each(
    links: &[Arc<LinkSnapshot>],
    mut write: impl FnMut(&str, Direction, &abi::pendulum_counters) -> Result,
) -> Result {
    links.iter().try_for_each(|link| {
        Direction::ALL
            .into_iter()
            .try_for_each(|direction| write(&link.name, direction, &link.directions[direction].counters))
    })
}

fn by_class(
    samples: &mut Samples<'_>,
    links: &[Arc<LinkSnapshot>],
    figures: impl Fn(&abi::pendulum_counters) -> &[u64; abi::PENDULUM_CLASSES as usize],
) -> Result {
    each(links, |link, direction, counters| {
        Class::ALL.into_iter().zip(figures(counters)).try_for_each(|(class, count)| {
            let labels = [("link", link), ("direction", direction.name()), ("class", class.name())];
            samples.counter(labels, *count)
        })
    })
}

fn total(
    samples: &mut Samples<'_>,
    links: &[Arc<LinkSnapshot>],
    figure: impl Fn(&abi::pendulum_counters) -> u64,
) -> Result {
    each(links, |link, direction, counters| {
        samples.counter([("link", link), ("direction", direction.name())], figure(counters))
    })
}

fn burst_buckets(slots: &[u64; abi::PENDULUM_BURST_SLOTS as usize]) -> Vec<(f64, u64)> {
    let mut from = 0;
    let mut buckets = Vec::with_capacity(BURST_BOUNDS.len() + 1);
    for bound in BURST_BOUNDS {
        buckets.push((bound as f64, slots[from..=bound].iter().sum()));
        from = bound + 1;
    }
    buckets.push((f64::INFINITY, slots[from..].iter().sum()));
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_burst_length_falls_in_one_bucket() {
        let mut slots = [1; abi::PENDULUM_BURST_SLOTS as usize];
        slots[0] = 0;
        let buckets = burst_buckets(&slots);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 64);
        assert_eq!(buckets[..3], [(1.0, 1), (2.0, 1), (3.0, 1)]);
        assert_eq!(buckets[6], (8.0, 2));
        assert_eq!(buckets[buckets.len() - 1], (f64::INFINITY, 1));
        assert!(buckets.len() <= 15);
    }
}
