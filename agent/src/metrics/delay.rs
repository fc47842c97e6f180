//! Where the delay comes from.

use std::fmt::Result;

use pendulum_model::delay::Segment;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;
use crate::snapshot::Board;

const DELAY: Family = Family::gauge(
    "pendulum_delay_seconds",
    Some("seconds"),
    "Delay of the last second's packets, by segment: home, gateway, uplink, downlink, beyond; absent while unknown.",
);
const BASE: Family = Family::gauge(
    "pendulum_delay_base_seconds",
    Some("seconds"),
    "Of pendulum_delay_seconds, the part without queues; that of the line is part of segment beyond. Absent while unknown.",
);

#[derive(Debug)]
pub(super) struct DelayFamilies {
    board: Board,
}

impl DelayFamilies {
    pub(super) fn new(board: Board) -> Self {
        Self { board }
    }
}

impl Collector for DelayFamilies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links = self.board.snapshots();
        let mut family = |family: &Family, figure: fn([f64; 2]) -> f64| {
            family.write(&mut encoder, |samples| {
                links.iter().try_for_each(|link| {
                    let known = |segment: Segment| {
                        let delay = link.delay.as_ref()?.segments.get(segment.name())?;
                        Some((segment, [delay.base_s?, delay.queue_s?]))
                    };
                    Segment::ALL.into_iter().filter_map(known).try_for_each(|(segment, delay)| {
                        let labels = [("link", &*link.name), ("segment", segment.name())];
                        samples.gauge(labels, figure(delay))
                    })
                })
            })
        };
        family(&DELAY, |[base_s, queue_s]| base_s + queue_s)?;
        family(&BASE, |[base_s, _]| base_s)
    }
}
