//! `/api/v1/state`: every link at one look.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use pendulum_model::segment::{Class, Direction, PerDirection};
use pendulum_wire::{self as wire, AckBurst, BpfProgram, Link, Name, Queue, Rates, Ratio, Rtt, Source};

use super::{App, json};
use crate::bpf::abi::names;
use crate::bpf::{ProgramStatus, abi};
use crate::metrics::{MARKS, lost_by_reason};
use crate::snapshot::{Entered, FlowSweep, LinkSnapshot, QueueSnapshot, RecentRtt};

pub(super) async fn state(State(app): State<Arc<App>>) -> Response {
    let state = wire::State {
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_s: app.started.elapsed().as_secs_f64(),
        config: app.active.borrow().reloads.clone(),
        links: app.board.snapshots().iter().map(|link| of_link(link)).collect(),
    };
    json(StatusCode::OK, &state)
}

/// One link of it, and the stream's event `state`.
pub(super) fn of_link(link: &LinkSnapshot) -> Link {
    let [up, down] = link.directions.both().map(|direction| direction.rate);
    Link {
        name: link.name.to_string(),
        wan: link.wan.to_string(),
        device: link.device.name().into(),
        attached: link.hooks.is_some(),
        hooks: link.hooks.clone(),
        trouble: link.trouble.as_deref().map(str::to_owned),
        vantage: link.vantage.map(|vantage| vantage.name().into()),
        link: Rates {
            uplink_rate_bps: up.map(|known| known.rate.bits_per_second()),
            downlink_rate_bps: down.map(|known| known.rate.bits_per_second()),
            rate_source: up.or(down).map(|known| known.source.name().into()),
        },
        directions: PerDirection::from_fn(|x| of_direction(link, x)),
        flow_table: flow_table(link),
        delay: link.delay.as_deref().cloned(),
        shape: Some(link.shape.sent()),
        losses: lost_by_reason(link).map(|(reason, count)| (reason.into(), count)).collect(),
        programs: link.programs.iter().map(program).collect(),
        maps: link.maps.to_vec(),
        sources: sources(link),
        degraded: link.degraded.to_vec(),
        ..detected(link)
    }
}

/// What the detector says; `null` while the link is not measured.
fn detected(link: &LinkSnapshot) -> Link {
    let Some(findings) = &link.findings else {
        return Link { throughput_ratio: Some(Ratio::default()), ..Link::default() };
    };
    let since = |then| findings.at.saturating_sub(then).as_secs_f64();
    Link {
        phase: findings.phase.map(|(phase, _)| phase.name().into()),
        phase_for_s: findings.phase.map(|(_, then)| since(then)),
        phase_seconds: Some(findings.phase_seconds.into()),
        phase_transitions: Some(findings.phase_transitions.iter().flatten().sum()),
        verdict: Some(findings.verdict.name().into()),
        verdict_for_s: Some(since(findings.verdict_since)),
        ..Link::clone(&findings.sent)
    }
}

/// Where each figure comes from, as far as it is known at all.
fn sources(link: &LinkSnapshot) -> Vec<Source> {
    let mut sources = Vec::new();
    for direction in Direction::ALL {
        let known = &link.directions[direction];
        let has_rtt = known.rtt.slots.iter().any(|count| *count > 0);
        for (what, source) in [
            ("queue", known.queue.as_ref().map(|queue| queue.source.name())),
            ("cwnd", known.cwnd_bytes.map(|_| link.cwnd_source)),
            ("rate", known.rate.map(|rate| rate.source.name())),
            ("rtt", has_rtt.then_some("packets")),
        ] {
            sources.extend(source.map(|source| Source {
                what: what.into(),
                direction: Some(direction.name().into()),
                source: source.into(),
            }));
        }
    }
    sources
}

fn of_direction(link: &LinkSnapshot, direction: Direction) -> wire::Direction {
    let snapshot = &link.directions[direction];
    let counters = &snapshot.counters;
    let totals = &link.flows.totals[direction];
    let rate = snapshot.rate.map(|known| known.rate.bytes_per_second());
    let second = snapshot.second.map(|second| second.within(rate));
    wire::Direction {
        segments: by_name(Class::ALL.map(Class::name), counters.segments),
        bytes: counters.bytes.iter().sum(),
        payload_bytes: counters.payload_bytes,
        retransmitted_segments: counters.retransmitted_segments,
        reordered_segments: counters.reordered_segments,
        marked_segments: by_name(MARKS, counters.marked_segments),
        throughput_bps: snapshot.throughput * 8.0,
        unseen_ratio: snapshot.unseen_ratio,
        throughput_1s_bps: second.map(|second| second.throughput * 8.0),
        goodput_bps: second.map_or(0.0, |second| second.goodput * 8.0),
        utilization: snapshot.utilization(),
        in_flight_bytes: totals.in_flight_bytes,
        flows: totals.active.into(),
        rtt: rtt(&snapshot.rtt, &link.flows, direction),
        ack_burst: AckBurst::of(&counters.bursts, counters.burst_segments),
        queue: snapshot.queue.as_ref().map(|known| queue(known, &snapshot.entered)),
        cwnd_bytes: snapshot.cwnd_bytes,
        cwnd_source: snapshot.cwnd_bytes.map(|_| link.cwnd_source.into()),
    }
}

fn by_name(
    names: impl IntoIterator<Item = &'static str>,
    counts: impl IntoIterator<Item = u64>,
) -> BTreeMap<Name, u64> {
    names.into_iter().map(Name::from).zip(counts).collect()
}

fn queue(queue: &QueueSnapshot, entered: &Entered) -> Queue {
    // Of a buffer elsewhere only the level is known.
    let is_here = queue.trust.is_none();
    Queue {
        source: queue.source.name().into(),
        trust: queue.trust.map(|trust| trust.name().into()),
        qdisc: is_here.then(|| queue.qdisc.to_string()),
        bytes: Some(queue.bytes.into()),
        packets: is_here.then_some(queue.packets.into()),
        ack_bytes: queue.ack_bytes.map(u64::from),
        ack_packets: queue.ack_packets.map(u64::from),
        peak_bytes: Some(queue.peak_bytes.into()),
        uncertainty_bytes: queue.uncertainty_bytes,
        standing_bytes: queue.standing_bytes,
        limit_bytes: queue.limit_bytes,
        composition: entered
            .composition
            .shares()
            .map(|shares| shares.map(|(kind, share)| (kind.into(), share)).into()),
        top_port: entered.top_port.clone(),
        drops: if is_here { by_name(names::DROPS, queue.drops) } else { BTreeMap::new() },
    }
}

fn rtt(recent: &RecentRtt, flows: &FlowSweep, direction: Direction) -> Option<Rtt> {
    let samples: u64 = recent.slots.iter().sum();
    if samples == 0 {
        return None;
    }
    let known = flows.rows.iter().map(|row| &row.halves[direction]).filter(|half| half.rtt_samples > 0);
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
    for (&count, bound) in slots.iter().zip(abi::TIME_BOUNDS_US.iter().map(|&us| f64::from(us) / 1e6)) {
        let count = count as f64;
        if count > 0.0 && below + count >= rank {
            return lower + (bound - lower) * ((rank - below) / count).clamp(0.0, 1.0);
        }
        below += count;
        lower = bound;
    }
    lower
}

fn flow_table(link: &LinkSnapshot) -> wire::FlowTable {
    let stat = |index: u32| link.stats[index as usize];
    wire::FlowTable {
        flows: link.flows.rows.len() as u64,
        nursed: stat(abi::PENDULUM_FLOW_NURSED),
        promoted: stat(abi::PENDULUM_FLOW_PROMOTED),
        restarted: stat(abi::PENDULUM_FLOW_RESTARTED),
        expired: link.flows.expired,
        evicted: link.flows.evicted,
    }
}

fn program(program: &ProgramStatus) -> BpfProgram {
    BpfProgram {
        name: program.name.into(),
        attached: program.attached,
        runs: program.runs.map(|runs| runs.0),
        run_seconds: program.runs.map(|runs| runs.1.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests;
