//! The link's queues and the windows of local sockets.

use std::fmt::Result;

use pendulum_model::segment::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use crate::bpf::abi::names;
use crate::snapshot::{Board, DirectionSnapshot, QueueSnapshot};

const BYTES: Family = Family::gauge("pendulum_queue_bytes", Some("bytes"), "Bytes in the queue.");
const PACKETS: Family = Family::gauge("pendulum_queue_packets", None, "Packets in the queue.");
const ACK_BYTES: Family =
    Family::gauge("pendulum_queue_ack_bytes", Some("bytes"), "Of the bytes in the queue, pure ACKs.");
const PEAK: Family = Family::gauge(
    "pendulum_queue_peak_bytes",
    Some("bytes"),
    "Most bytes in the queue since the reading before (100 ms).",
);
const UNCERTAINTY: Family = Family::gauge(
    "pendulum_queue_uncertainty_bytes",
    Some("bytes"),
    "The true level lies within this many bytes of pendulum_queue_bytes; 0 where that is exact.",
);
const STANDING: Family = Family::gauge(
    "pendulum_queue_standing_bytes",
    Some("bytes"),
    "Standing queue: the least bytes in the queue over a round trip; absent while unknown.",
);
const COMPOSITION: Family = Family::gauge(
    "pendulum_queue_composition_ratio",
    Some("ratio"),
    "Share of the bytes that entered the queue over the last ten seconds, by what carries them; absent if nothing entered.",
);
const LIMIT: Family = Family::gauge(
    "pendulum_queue_limit_bytes",
    Some("bytes"),
    "Bytes the queue can hold, if bytes are counted.",
);
const SOJOURN: Family = Family::histogram(
    "pendulum_queue_sojourn_seconds",
    "seconds",
    "Time packets spent in the queue; packets that found it empty and bypassed it are not in here.",
);
const DROPS: Family = Family::counter("pendulum_queue_drops_total", None, "Packets dropped by the queue.");
const DRIFT: Family = Family::counter(
    "pendulum_queue_events_total",
    None,
    "How the account of the queue went wrong and was set right from the qdisc's own.",
);
const CWND: Family = Family::gauge(
    "pendulum_cwnd_bytes",
    Some("bytes"),
    "Congestion windows of this machine's own sockets on the link, together.",
);

#[derive(Debug)]
pub(super) struct QueueFamilies {
    board: Board,
}

impl QueueFamilies {
    pub(super) fn new(board: Board) -> Self {
        Self { board }
    }

    /// The queues that are known now.
    fn each(&self, write: impl FnMut([(&'static str, &str); 2], &QueueSnapshot) -> Result) -> Result {
        self.all(|direction| direction.queue.as_ref(), write)
    }

    /// The queues that have counted, also while their device is gone.
    fn counting(&self, write: impl FnMut([(&'static str, &str); 2], &QueueSnapshot) -> Result) -> Result {
        self.all(DirectionSnapshot::counting_queue, write)
    }

    fn all(
        &self,
        queue: fn(&DirectionSnapshot) -> Option<&QueueSnapshot>,
        mut write: impl FnMut([(&'static str, &str); 2], &QueueSnapshot) -> Result,
    ) -> Result {
        self.board.snapshots().iter().try_for_each(|link| {
            Direction::ALL.into_iter().try_for_each(|direction| {
                let labels = [("link", &*link.name), ("direction", direction.name())];
                queue(&link.directions[direction]).map_or(Ok(()), |queue| write(labels, queue))
            })
        })
    }
}

impl Collector for QueueFamilies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let encoder = &mut encoder;
        let mut gauge = |family: &Family, figure: fn(&QueueSnapshot) -> Option<f64>| {
            family.write(encoder, |samples| {
                self.each(|labels, queue| figure(queue).map_or(Ok(()), |value| samples.gauge(labels, value)))
            })
        };
        gauge(&BYTES, |queue| Some(queue.bytes.into()))?;
        gauge(&PACKETS, |queue| queue.trust.is_none().then_some(queue.packets.into()))?;
        gauge(&ACK_BYTES, |queue| queue.ack_bytes.map(f64::from))?;
        gauge(&PEAK, |queue| Some(queue.peak_bytes.into()))?;
        gauge(&UNCERTAINTY, |queue| queue.uncertainty_bytes)?;
        gauge(&STANDING, |queue| queue.standing_bytes)?;
        gauge(&LIMIT, |queue| queue.limit_bytes.map(|bytes| bytes as f64))?;
        COMPOSITION.write(encoder, |samples| {
            self.board.snapshots().iter().try_for_each(|link| {
                Direction::ALL.into_iter().try_for_each(|direction| {
                    let shares = link.directions[direction].entered.composition.shares();
                    shares.into_iter().flatten().try_for_each(|(kind, share)| {
                        let labels = [("link", &*link.name), ("direction", direction.name()), ("kind", kind)];
                        samples.gauge(labels, share)
                    })
                })
            })
        })?;
        SOJOURN.write(encoder, |samples| {
            self.counting(|[link, direction], queue| {
                names::QUEUE_CLASSES.into_iter().zip(&queue.sojourns).try_for_each(|(class, sojourn)| {
                    let labels = [link, direction, ("class", class)];
                    samples.times(labels, sojourn.sum_us, &sojourn.slots)
                })
            })
        })?;
        DROPS.write(encoder, |samples| {
            self.counting(|[link, direction], queue| {
                names::DROPS.into_iter().zip(queue.drops).try_for_each(|(reason, count)| {
                    samples.counter([link, direction, ("reason", reason)], count)
                })
            })
        })?;
        DRIFT.write(encoder, |samples| {
            self.counting(|[link, direction], queue| {
                names::QUEUE_EVENTS.into_iter().zip(queue.events).try_for_each(|(event, count)| {
                    samples.counter([link, direction, ("event", event)], count)
                })
            })
        })?;
        CWND.write(encoder, |samples| {
            self.board.snapshots().iter().try_for_each(|link| {
                let labels = [("link", &*link.name), ("direction", Direction::Up.name())];
                link.directions.up.cwnd_bytes.map_or(Ok(()), |bytes| samples.gauge(labels, bytes as f64))
            })
        })
    }
}
