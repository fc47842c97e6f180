//! The link itself: whether it is measured, how fast it is, how much of that is used.

use std::fmt::Result;
use std::time::Instant;

use pendulum_model::segment::Direction;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;

use super::family::Family;
use crate::config::Active;
use crate::snapshot::{Board, DeviceState, DirectionSnapshot};

const UP: Family = Family::gauge(
    "pendulum_link_up",
    None,
    "1 while the WAN device is there, is set up, and the programs are attached to it; else 0.",
);
const READING_AGE: Family = Family::gauge(
    "pendulum_link_reading_age_seconds",
    Some("seconds"),
    "Time since the link's counters were read; due ten times a second. Absent while the programs are not attached.",
);
const INFO: Family = Family::gauge(
    "pendulum_link_info",
    None,
    "The network device of the link, as node_exporter names it (label device), and with external-url the address of its page (label url); the value is always 1.",
);
const THROUGHPUT: Family = Family::gauge(
    "pendulum_throughput_bytes_per_second",
    Some("bytes_per_second"),
    "Link-layer throughput, moving over 300 ms; of the uplink behind its buffer, where that is observed.",
);
const RATE: Family = Family::gauge(
    "pendulum_link_rate_bytes_per_second",
    Some("bytes_per_second"),
    "Capacity of the link; absent while unknown. pendulum_source_info says how it is known.",
);
const UTILIZATION: Family = Family::gauge(
    "pendulum_link_utilization_ratio",
    Some("ratio"),
    "Throughput over capacity; absent while the capacity is unknown.",
);
const UNSEEN: Family = Family::gauge(
    "pendulum_unseen_bytes_ratio",
    Some("ratio"),
    "Share of the device's own bytes of the last ten seconds that bypassed the programs, a lower bound; absent below 100 kB.",
);
const SOURCE: Family =
    Family::gauge("pendulum_source_info", None, "Where a figure comes from; the value is always 1.");

#[derive(Debug)]
pub(super) struct LinkFamilies {
    board: Board,
    active: watch::Receiver<Active>,
}

impl LinkFamilies {
    pub(super) fn new(board: Board, active: watch::Receiver<Active>) -> Self {
        Self { board, active }
    }
}

impl Collector for LinkFamilies {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links = self.board.snapshots();
        UP.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                let up = link.hooks.is_some() && link.device == DeviceState::Up;
                samples.gauge([("link", &*link.name)], u32::from(up))
            })
        })?;
        let url = self.active.borrow().config.http.external_url.clone();
        let now = Instant::now();
        READING_AGE.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                let age = link.reading_age(now);
                age.map_or(Ok(()), |age| samples.gauge([("link", &*link.name)], age.as_secs_f64()))
            })
        })?;
        INFO.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                let (name, device) = (("link", &*link.name), ("device", &*link.wan));
                match &url {
                    Some(url) => {
                        samples.gauge([name, device, ("url", &format!("{url}/#{}", link.name))], 1_u32)
                    }
                    None => samples.gauge([name, device], 1_u32),
                }
            })
        })?;
        let mut family = |family: &Family, figure: fn(&DirectionSnapshot) -> Option<f64>| {
            family.write(&mut encoder, |samples| {
                links.iter().try_for_each(|link| {
                    Direction::ALL.into_iter().try_for_each(|direction| {
                        let labels = [("link", &*link.name), ("direction", direction.name())];
                        figure(&link.directions[direction])
                            .map_or(Ok(()), |value| samples.gauge(labels, value))
                    })
                })
            })
        };
        family(&THROUGHPUT, |direction| Some(direction.throughput))?;
        family(&RATE, |direction| direction.rate.map(|known| known.rate.bytes_per_second()))?;
        family(&UTILIZATION, DirectionSnapshot::utilization)?;
        family(&UNSEEN, |direction| direction.unseen_ratio)?;
        SOURCE.write(&mut encoder, |samples| {
            links.iter().try_for_each(|link| {
                Direction::ALL.into_iter().try_for_each(|direction| {
                    let known = &link.directions[direction];
                    let rate = known.rate.map_or("unknown", |known| known.source.name());
                    let queue = known.queue.as_ref().map_or("unknown", |queue| queue.source.name());
                    let cwnd = known.cwnd_bytes.map(|_| ("cwnd", link.cwnd_source));
                    [Some(("rate", rate)), Some(("queue", queue)), cwnd].into_iter().flatten().try_for_each(
                        |(what, source)| {
                            let labels = [
                                ("link", &*link.name),
                                ("direction", direction.name()),
                                ("what", what),
                                ("source", source),
                            ];
                            samples.gauge(labels, 1u32)
                        },
                    )
                })
            })
        })
    }
}
