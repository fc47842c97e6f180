//! `/api/v1/state`: every link at one look. The structures here are the schema; docs/reference/api.md explains it.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use pendulum_model::observer::{Trust, Vantage};
use pendulum_model::segment::{Class, Direction};
use serde::Serialize;

use super::findings::FindingsReport;
use super::shape::{Shape, shape};
use super::{App, json};
use crate::bpf::abi::names;
use crate::bpf::{MapFill, ProgramStatus, abi};
use crate::metrics::{MARKS, lost_by_reason};
use crate::snapshot::{Entered, FlowSweep, LinkSnapshot, QueueSnapshot, RecentRtt};

#[derive(Serialize)]
struct Report {
    version: &'static str,
    uptime_s: f64,
    config: ConfigReport,
    links: Vec<Link>,
}

/// How the newest reload (SIGHUP) went.
#[derive(Serialize)]
struct ConfigReport {
    reloads_applied: u64,
    reloads_refused: u64,
    error: Option<String>,
    waiting_for_restart: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Link {
    name: String,
    wan: String,
    device: &'static str,
    attached: bool,
    hooks: Option<Hooks>,
    trouble: Option<String>,
    vantage: Option<Vantage>,
    link: Capacity,
    directions: BTreeMap<&'static str, DirectionReport>,
    flow_table: FlowTable,
    #[serde(flatten)]
    findings: FindingsReport,
    shape: Shape,
    losses: BTreeMap<&'static str, u64>,
    programs: Vec<Program>,
    maps: Vec<Map>,
}

#[derive(Serialize)]
struct Hooks {
    ifindex: u32,
    link_layer: &'static str,
    egress: &'static str,
    ingress: &'static str,
}

/// Named as in the output of `pendulum replay`.
#[derive(Serialize)]
struct Capacity {
    uplink_rate_bps: Option<u64>,
    downlink_rate_bps: Option<u64>,
    rate_source: Option<&'static str>,
}

#[derive(Serialize)]
struct DirectionReport {
    segments: BTreeMap<&'static str, u64>,
    bytes: u64,
    payload_bytes: u64,
    retransmitted_segments: u64,
    reordered_segments: u64,
    marked_segments: BTreeMap<&'static str, u64>,
    throughput_bps: f64,
    goodput_bps: f64,
    utilization: Option<f64>,
    in_flight_bytes: u64,
    flows: u32,
    rtt: Option<Rtt>,
    ack_burst: Option<AckBurst>,
    queue: Option<Queue>,
    cwnd_bytes: Option<u64>,
    cwnd_source: Option<&'static str>,
    unseen_ratio: Option<f64>,
}

/// The buffer in front of the link.
#[derive(Serialize)]
struct Queue {
    source: &'static str,
    trust: Option<Trust>,
    qdisc: Option<String>,
    bytes: u32,
    packets: Option<u32>,
    ack_bytes: Option<u32>,
    ack_packets: Option<u32>,
    peak_bytes: u32,
    uncertainty_bytes: Option<f64>,
    standing_bytes: Option<f64>,
    limit_bytes: Option<u64>,
    composition: Option<BTreeMap<&'static str, f64>>,
    top_port: Option<TopPort>,
    drops: BTreeMap<&'static str, u64>,
}

/// What carries most of what is no TCP.
#[derive(Serialize)]
struct TopPort {
    name: String,
    protocol: u8,
    port: Option<u16>,
    share: f64,
}

/// Round trips from the gateway to the end this direction leads to, and back, over the last ten seconds.
#[derive(Serialize)]
struct Rtt {
    samples: u64,
    min_s: Option<f64>,
    mean_s: f64,
    p50_s: f64,
    p95_s: f64,
}

#[derive(Serialize)]
struct AckBurst {
    mean: f64,
    p95: usize,
    histogram: BTreeMap<usize, u64>,
}

#[derive(Serialize)]
struct FlowTable {
    flows: usize,
    nursed: u64,
    promoted: u64,
    restarted: u64,
    expired: u64,
    evicted: u64,
}

#[derive(Serialize)]
struct Program {
    name: &'static str,
    attached: bool,
    /// `null` unless the kernel counts them.
    runs: Option<u64>,
    run_seconds: Option<f64>,
}

#[derive(Serialize)]
struct Map {
    name: &'static str,
    entries: u32,
    capacity: u32,
}

pub(super) async fn state(State(app): State<Arc<App>>) -> Response {
    let reloads = app.active.borrow().reloads.clone();
    let report = Report {
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: app.started.elapsed().as_secs_f64(),
        config: ConfigReport {
            reloads_applied: reloads.applied,
            reloads_refused: reloads.refused,
            error: reloads.error,
            waiting_for_restart: reloads.waiting,
        },
        links: app.board.snapshots().iter().map(|link| report(link)).collect(),
    };
    json(StatusCode::OK, &report)
}

pub(super) fn report(link: &LinkSnapshot) -> Link {
    let rate = |direction| link.direction(direction).rate;
    Link {
        name: link.name.to_string(),
        wan: link.wan.to_string(),
        device: link.device.name(),
        attached: link.hooks.is_some(),
        hooks: link.hooks.as_ref().map(|hooks| Hooks {
            ifindex: hooks.ifindex,
            link_layer: hooks.link_layer,
            egress: hooks.egress,
            ingress: hooks.ingress,
        }),
        trouble: link.trouble.as_deref().map(str::to_owned),
        vantage: link.vantage,
        link: Capacity {
            uplink_rate_bps: rate(Direction::Up).map(|known| known.rate.bits_per_second()),
            downlink_rate_bps: rate(Direction::Down).map(|known| known.rate.bits_per_second()),
            rate_source: rate(Direction::Up).or(rate(Direction::Down)).map(|known| known.source.name()),
        },
        directions: Direction::ALL
            .map(|direction| (direction.name(), direction_report(link, direction)))
            .into(),
        flow_table: flow_table(link),
        findings: FindingsReport::of(link),
        shape: shape(&link.shape),
        losses: lost_by_reason(link).collect(),
        programs: link.programs.iter().map(program).collect(),
        maps: link.maps.iter().map(map).collect(),
    }
}

fn direction_report(link: &LinkSnapshot, direction: Direction) -> DirectionReport {
    let snapshot = link.direction(direction);
    let counters = &snapshot.counters;
    let totals = &link.flows.totals[direction as usize];
    DirectionReport {
        segments: Class::ALL.map(Class::name).into_iter().zip(counters.segments).collect(),
        bytes: counters.bytes.iter().sum(),
        payload_bytes: counters.payload_bytes,
        retransmitted_segments: counters.retransmitted_segments,
        reordered_segments: counters.reordered_segments,
        marked_segments: MARKS.into_iter().zip(counters.marked_segments).collect(),
        throughput_bps: snapshot.throughput * 8.0,
        unseen_ratio: snapshot.unseen_ratio,
        goodput_bps: totals.goodput * 8.0,
        utilization: snapshot.utilization(),
        in_flight_bytes: totals.in_flight_bytes,
        flows: totals.active,
        rtt: rtt(&snapshot.rtt, &link.flows, direction),
        ack_burst: ack_burst(counters),
        queue: snapshot.queue.as_ref().map(|known| queue(known, &snapshot.entered)),
        cwnd_bytes: snapshot.cwnd_bytes,
        cwnd_source: snapshot.cwnd_bytes.map(|_| link.cwnd_source),
    }
}

fn queue(queue: &QueueSnapshot, entered: &Entered) -> Queue {
    // Of a buffer elsewhere only the level is known.
    let is_here = queue.trust.is_none();
    Queue {
        source: queue.source,
        trust: queue.trust,
        qdisc: is_here.then(|| queue.qdisc.to_string()),
        bytes: queue.bytes,
        packets: is_here.then_some(queue.packets),
        ack_bytes: queue.ack_bytes,
        ack_packets: queue.ack_packets,
        peak_bytes: queue.peak_bytes,
        uncertainty_bytes: queue.uncertainty_bytes,
        standing_bytes: queue.standing_bytes,
        limit_bytes: queue.limit_bytes,
        composition: entered.shares().map(BTreeMap::from),
        top_port: entered.top_port.map(|top| TopPort {
            name: top.carrier.to_string(),
            protocol: top.carrier.protocol,
            port: top.carrier.port,
            share: top.share,
        }),
        drops: names::DROPS.into_iter().zip(queue.drops).filter(|_| is_here).collect(),
    }
}

fn rtt(recent: &RecentRtt, flows: &FlowSweep, direction: Direction) -> Option<Rtt> {
    let samples: u64 = recent.slots.iter().sum();
    if samples == 0 {
        return None;
    }
    let known =
        flows.rows.iter().map(|row| &row.halves[direction as usize]).filter(|half| half.rtt_samples > 0);
    Some(Rtt {
        samples,
        min_s: known.map(|half| half.rtt_min_us).min().map(|us| f64::from(us) / 1e6),
        mean_s: recent.sum_us as f64 / samples as f64 / 1e6,
        p50_s: rtt_quantile(&recent.slots, 0.50),
        p95_s: rtt_quantile(&recent.slots, 0.95),
    })
}

/// A quantile by linear interpolation inside its bucket, as Prometheus' `histogram_quantile` does it; above the last
/// bound, that bound.
fn rtt_quantile(slots: &[u64], quantile: f64) -> f64 {
    let rank = quantile * slots.iter().sum::<u64>() as f64;
    let mut below = 0.0;
    let mut lower = 0.0;
    for (&count, bound) in slots.iter().zip(abi::RTT_BOUNDS_US.iter().map(|&us| f64::from(us) / 1e6)) {
        let count = count as f64;
        if count > 0.0 && below + count >= rank {
            return lower + (bound - lower) * ((rank - below) / count).clamp(0.0, 1.0);
        }
        below += count;
        lower = bound;
    }
    lower
}

fn ack_burst(counters: &abi::pendulum_counters) -> Option<AckBurst> {
    let bursts: u64 = counters.bursts.iter().sum();
    if bursts == 0 {
        return None;
    }
    let rank = (bursts * 95).div_ceil(100);
    let mut below = 0;
    let p95 = counters.bursts.iter().position(|&count| {
        below += count;
        below >= rank
    });
    Some(AckBurst {
        mean: counters.burst_segments as f64 / bursts as f64,
        p95: p95.unwrap_or(0),
        histogram: (0..).zip(counters.bursts).filter(|(_, count)| *count > 0).collect(),
    })
}

fn flow_table(link: &LinkSnapshot) -> FlowTable {
    let stat = |index: u32| link.stats[index as usize];
    FlowTable {
        flows: link.flows.rows.len(),
        nursed: stat(abi::PENDULUM_FLOW_NURSED),
        promoted: stat(abi::PENDULUM_FLOW_PROMOTED),
        restarted: stat(abi::PENDULUM_FLOW_RESTARTED),
        expired: link.flows.expired,
        evicted: link.flows.evicted,
    }
}

fn program(program: &ProgramStatus) -> Program {
    Program {
        name: program.name,
        attached: program.attached,
        runs: program.runs.map(|runs| runs.0),
        run_seconds: program.runs.map(|runs| runs.1.as_secs_f64()),
    }
}

fn map(map: &MapFill) -> Map {
    Map { name: map.name, entries: map.entries, capacity: map.capacity }
}

#[cfg(test)]
mod tests;
