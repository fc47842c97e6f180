//! What the flow table tells: outstanding data, active flows, and the table's own life.

use std::fmt::Result;

use pendulum_model::segment::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use crate::bpf::abi;
use crate::snapshot::Board;

const IN_FLIGHT: Family = Family::gauge(
    "pendulum_in_flight_bytes",
    Some("bytes"),
    "Payload sent and not yet acknowledged, over all live flows: what the congestion windows hold on the way.",
);
const FLOWS: Family = Family::gauge(
    "pendulum_flows",
    None,
    "TCP flows that carried payload in this direction within the last 5 seconds.",
);
const EVENTS: Family = Family::counter(
    "pendulum_flow_table_events_total",
    None,
    "Life of flow table entries: nursed (first packet), promoted (seen both ways), restarted (tuple reused), expired \
     (ended or idle), evicted (pushed out of a full table).",
);

#[derive(Debug)]
pub(super) struct FlowFamilies {
    board: Board,
}

impl FlowFamilies {
    pub(super) fn new(board: Board) -> Self {
        Self { board }
    }
}

impl Collector for FlowFamilies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links = self.board.snapshots();
        IN_FLIGHT.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                Direction::ALL.into_iter().zip(link.flows.totals.both()).try_for_each(
                    |(direction, totals)| {
                        let labels = [("link", &*link.name), ("direction", direction.name())];
                        samples.gauge(labels, totals.in_flight_bytes)
                    },
                )
            })
        })?;
        FLOWS.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                Direction::ALL.into_iter().zip(link.flows.totals.both()).try_for_each(
                    |(direction, totals)| {
                        samples.gauge([("link", &*link.name), ("direction", direction.name())], totals.active)
                    },
                )
            })
        })?;
        EVENTS.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                let stat = |index: u32| link.stats[index as usize];
                [
                    ("nursed", stat(abi::PENDULUM_FLOW_NURSED)),
                    ("promoted", stat(abi::PENDULUM_FLOW_PROMOTED)),
                    ("restarted", stat(abi::PENDULUM_FLOW_RESTARTED)),
                    ("expired", link.flows.expired),
                    ("evicted", link.flows.evicted),
                ]
                .into_iter()
                .try_for_each(|(event, count)| {
                    samples.counter([("link", &*link.name), ("event", event)], count)
                })
            })
        })
    }
}
