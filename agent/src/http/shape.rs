//! `shape` of a link in `/api/v1/state`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::shape::{Comparison, FATES, ShapeSnapshot, ShapeState, Turn};
use crate::snapshot::RateSource;

/// The shaper at one moment; docs/api.md.
#[derive(Serialize)]
pub(super) struct Shape {
    state: &'static str,
    reason: Option<String>,
    ack_filter: &'static str,
    ack_filter_trouble: Option<String>,
    delta: Option<u32>,
    uplink: Option<Line>,
    downlink: Option<Line>,
    acks: Option<BTreeMap<&'static str, BTreeMap<&'static str, u64>>>,
    held_acks: Option<u64>,
    held_bytes: Option<u64>,
    lane_packets: Option<u64>,
    sparse_packets: Option<u64>,
    ab_test: Option<AbTest>,
}

#[derive(Serialize)]
struct Line {
    rate_bps: u64,
    rate_source: Option<&'static str>,
    buffer_bytes: u32,
}

#[derive(Serialize)]
struct AbTest {
    pairs: usize,
    outcome: &'static str,
    change: Option<f64>,
    confidence_interval: Option<[f64; 2]>,
    with: Half,
    without: Half,
    statement: String,
}

#[derive(Serialize)]
struct Half {
    download_bps: f64,
    upload_bps: f64,
    rtt_s: Option<f64>,
}

pub(super) fn shape(snapshot: &ShapeSnapshot) -> Shape {
    let at_work = snapshot.is_at_work();
    let line = |of: usize, rate_source| {
        snapshot.lines[of].map(|(rate_bps, buffer_bytes)| Line { rate_bps, rate_source, buffer_bytes })
    };
    let uplink = line(0, snapshot.rate_source.map(RateSource::name));
    let downlink = line(1, Some(RateSource::Config.name()));
    Shape {
        state: snapshot.state.name(),
        reason: match &snapshot.state {
            ShapeState::Refused(reason) => Some(reason.to_string()),
            _ => None,
        },
        ack_filter: snapshot.ack_filter,
        ack_filter_trouble: snapshot.filter_trouble.as_deref().map(str::to_owned),
        delta: at_work.then_some(snapshot.delta),
        uplink,
        downlink,
        acks: at_work.then(|| fates(snapshot)),
        held_acks: at_work.then(|| snapshot.held()),
        held_bytes: at_work.then_some(snapshot.counts.held_bytes),
        lane_packets: at_work.then_some(snapshot.counts.lane_packets),
        sparse_packets: at_work.then_some(snapshot.counts.sparse_packets),
        ab_test: snapshot.comparison.as_ref().map(comparison),
    }
}

/// By action and reason; those that never happened are left out.
fn fates(snapshot: &ShapeSnapshot) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
    let mut acks: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for ((action, reason), count) in
        FATES.into_iter().zip(snapshot.counts.acks).filter(|(_, count)| *count > 0)
    {
        acks.entry(action).or_default().insert(reason, count);
    }
    acks
}

fn comparison(found: &Comparison) -> AbTest {
    AbTest {
        pairs: found.pairs,
        outcome: found.outcome.name(),
        change: found.change.map(|(mean, _)| mean),
        confidence_interval: found.change.map(|(mean, half)| [mean - half, mean + half]),
        with: half(&found.with),
        without: half(&found.without),
        statement: found.statement(),
    }
}

fn half(turn: &Turn) -> Half {
    let [up, down] = turn.goodput;
    Half { download_bps: down * 8.0, upload_bps: up * 8.0, rtt_s: turn.round_trip }
}
