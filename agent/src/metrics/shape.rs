//! What the shaper does: its rates, and what becomes of ACKs.

use std::fmt::Result;

use pendulum_model::autorate::Decision;
use pendulum_model::segment::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use crate::snapshot::Board;
use crate::snapshot::{FATES, ShapeSnapshot};

const ACKS: Family = Family::counter(
    "pendulum_ack_filter_acks_total",
    None,
    "Pure ACKs that met the ACK filter, by what became of them and why.",
);
const ENFORCING: Family =
    Family::gauge("pendulum_shaping", None, "Whether the link is being shaped: 1 while it is, else 0.");
const STATE: Family = Family::gauge(
    "pendulum_shape_state_info",
    None,
    "State of the shaper: off, dry_run, enforcing, observing, ineffective, declined, refused; the value is always 1.",
);

const RATE: Family = Family::gauge(
    "pendulum_shape_rate_bytes_per_second",
    Some("bytes_per_second"),
    "Rate at which the shaper sends or admits.",
);
const WAIT: Family = Family::gauge(
    "pendulum_shape_waits_behind_seconds",
    Some("seconds"),
    "How long packets wait in the buffer behind the shaper while its rate is automatic (rate = auto); absent while unknown.",
);
const DECISIONS: Family = Family::counter(
    "pendulum_shape_decisions_total",
    None,
    "Decisions about an automatic rate (rate = auto), ten times a second: hold; \
     raise, packets wait here only; lower and drain, packets wait behind or are lost; outage, no replies.",
);

const PROBES: Family = Family::counter(
    "pendulum_shape_probes_total",
    None,
    "Packets sent to ask the first hop how long packets wait (probe = first-hop).",
);

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
        STATE.write(encoder, |samples| {
            links.iter().try_for_each(|link| {
                samples.gauge([("link", &*link.name), ("state", link.shape.state.name())], 1_u32)
            })
        })?;
        // A link that is not shaped has no series.
        let shaped = || links.iter().filter(|link| link.shape.is_at_work());
        let mut known = |family: Family, figure: fn(&ShapeSnapshot, Direction) -> Option<f64>| {
            family.write(encoder, |samples| {
                shaped().try_for_each(|link| {
                    Direction::ALL.into_iter().try_for_each(|x| match figure(&link.shape, x) {
                        Some(value) => samples.gauge([("link", &*link.name), ("direction", x.name())], value),
                        None => Ok(()),
                    })
                })
            })
        };
        known(RATE, |shape, x| Some(shape.shaped[x].as_ref()?.rate_bps as f64 / 8.0))?;
        known(WAIT, |shape, x| shape.found(x)?.waits_behind_s)?;
        DECISIONS.write(encoder, |samples| {
            shaped().try_for_each(|link| {
                Direction::ALL.into_iter().try_for_each(|x| {
                    let counts = link.shape.decisions[x].into_iter().flatten();
                    Decision::ALL.into_iter().zip(counts).try_for_each(|(decision, count)| {
                        let labels =
                            [("link", &*link.name), ("direction", x.name()), ("decision", decision.name())];
                        samples.counter(labels, count)
                    })
                })
            })
        })?;
        PROBES.write(encoder, |samples| {
            shaped().try_for_each(|link| match link.shape.probes {
                Some(count) => samples.counter([("link", &*link.name)], count),
                None => Ok(()),
            })
        })?;
        ACKS.write(encoder, |samples| {
            shaped().try_for_each(|link| {
                FATES.into_iter().zip(link.shape.counts.acks).try_for_each(|((action, reason), count)| {
                    samples.counter([("link", &*link.name), ("action", action), ("reason", reason)], count)
                })
            })
        })
    }
}
