//! What the shaper does to ACKs.

use std::fmt::Result;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use crate::shape::FATES;
use crate::snapshot::Board;

const ACKS: Family = Family::counter(
    "pendulum_ack_filter_acks_total",
    None,
    "Pure ACKs that met the ACK filter, by what became of them and why.",
);
const ENFORCING: Family =
    Family::gauge("pendulum_shaping", None, "Whether the link is being shaped: 1 while it is, else 0.");

#[derive(Debug)]
pub(super) struct Shaping {
    board: Board,
}

impl Shaping {
    pub(super) fn new(board: Board) -> Self {
        Self { board }
    }
}

impl Collector for Shaping {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let encoder = &mut encoder;
        let links = self.board.snapshots();
        ENFORCING.write(encoder, |samples| {
            links.iter().try_for_each(|link| {
                samples.gauge([("link", &*link.name)], f64::from(u8::from(link.shape.state.shapes())))
            })
        })?;
        // A link that is not shaped has no series.
        let shaped = || links.iter().filter(|link| link.shape.is_at_work());
        ACKS.write(encoder, |samples| {
            shaped().try_for_each(|link| {
                FATES.into_iter().zip(link.shape.counts.acks).try_for_each(|((action, reason), count)| {
                    samples.counter([("link", &*link.name), ("action", action), ("reason", reason)], count)
                })
            })
        })
    }
}
