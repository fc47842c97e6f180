//! What a link's task knows, in the form readers get it.

use pendulum_model::link::Provenance;
use std::sync::Arc;

use pendulum_model::segment::PerDirection;
use pendulum_wire::{Hooks, Tick};

use super::meter::KernelMeter;
use super::sweep::Sweeper;
use crate::bpf::{AttachReport, Hook};
use crate::config::LinkConfig;
use crate::net::{Device, LinkLayer};
use crate::snapshot::{DeviceState, DirectionSnapshot, Entered, LinkRate, LinkSnapshot, ShapeSnapshot};

/// What the counters and the flow table tell; a link of which nothing else is known.
pub(super) fn snapshot(config: &LinkConfig, meter: &KernelMeter, sweeper: &Sweeper) -> LinkSnapshot {
    let counted = meter.totals();
    let throughput = meter.throughput();
    let rtt = meter.recent_rtt();
    LinkSnapshot {
        name: config.name.as_str().into(),
        wan: config.wan.as_str().into(),
        device: DeviceState::Missing,
        hooks: None,
        trouble: None,
        read_at: None,
        directions: PerDirection::from_fn(|direction| DirectionSnapshot {
            counters: counted.counters[direction as usize],
            entered: Entered::default(),
            throughput: throughput[direction],
            second: None,
            rtt: rtt[direction],
            rate: config.rate(direction).map(|rate| LinkRate { rate, source: Provenance::Config }),
            queue: None,
            other_queue: None,
            cwnd_bytes: None,
            unseen_ratio: None,
        }),
        stats: counted.stats,
        flows: sweeper.latest(),
        programs: Arc::new([]),
        maps: Arc::new([]),
        cwnd_source: "unknown",
        shape: ShapeSnapshot::default(),
        readings: Default::default(),
        vantage: None,
        delay: None,
        findings: None,
        tick: Tick::default(),
        tick_number: 0,
        slot_losses: None,
        unsent: Arc::default(),
        degraded: Arc::new([]),
    }
}

/// Where the programs hang, in the names readers see.
pub(super) fn hooks(device: &Device, report: &AttachReport) -> Hooks {
    let mechanism = |wanted: &[Hook]| {
        let found = report.hooks.iter().find(|(hook, _)| wanted.contains(hook));
        found.map_or("none", |(_, mechanism)| mechanism.name()).into()
    };
    Hooks {
        ifindex: device.index,
        link_layer: if device.link_layer == LinkLayer::RawIp { "raw-ip" } else { "ethernet" }.into(),
        egress: mechanism(&[Hook::Egress]),
        ingress: mechanism(&[Hook::Ingress, Hook::Xdp]),
    }
}
