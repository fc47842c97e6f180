//! `shape` of a link in `/api/v1/state`.

use std::collections::BTreeMap;

use pendulum_model::rate::Rate;
use serde::Serialize;

use crate::snapshot::RateSource;
use crate::snapshot::{Comparison, FATES, Followed, ShapeSnapshot, Turn};

/// The shaper at one moment; docs/reference/api.md.
#[derive(Serialize)]
pub(super) struct Shape {
    state: &'static str,
    reason: Option<String>,
    ack_filter: &'static str,
    delta: Option<u32>,
    uplink: Option<Line>,
    downlink: Option<Line>,
    acks: Option<BTreeMap<&'static str, BTreeMap<&'static str, u64>>>,
    held_acks: Option<u64>,
    held_bytes: Option<u64>,
    ab_test: Option<AbTest>,
}

#[derive(Serialize)]
struct Line {
    rate_bps: u64,
    rate_source: Option<&'static str>,
    auto: Option<Auto>,
}

/// How a rate is found.
#[derive(Serialize)]
struct Auto {
    decision: &'static str,
    reason: &'static str,
    link_rate_bps: Option<f64>,
    waits_behind_s: Option<f64>,
    minimum_bps: Option<u64>,
    maximum_bps: Option<u64>,
}

#[derive(Serialize)]
struct AbTest {
    pairs: usize,
    outcome: &'static str,
    change: Option<f64>,
    confidence_interval: Option<[f64; 2]>,
    rtt_change: Option<f64>,
    rtt_confidence_interval: Option<[f64; 2]>,
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
    let line = |of: usize, told| {
        let auto = snapshot.followed[of].as_ref().map(auto);
        let rate_source = if auto.is_some() { Some("auto") } else { told };
        snapshot.rates_bps[of].map(|rate_bps| Line { rate_bps, rate_source, auto })
    };
    let uplink = line(0, snapshot.rate_source.map(RateSource::name));
    let downlink = line(1, Some(RateSource::Config.name()));
    Shape {
        state: snapshot.state.name(),
        reason: snapshot.state.reason().map(str::to_owned),
        ack_filter: snapshot.ack_filter,
        delta: at_work.then_some(snapshot.delta),
        uplink,
        downlink,
        acks: at_work.then(|| fates(snapshot)),
        held_acks: at_work.then(|| snapshot.held()),
        held_bytes: at_work.then_some(snapshot.counts.held_bytes),
        ab_test: snapshot.comparison.as_ref().map(comparison),
    }
}

fn auto(found: &Followed) -> Auto {
    let bits = |rate: Option<Rate>| rate.map(Rate::bits_per_second);
    Auto {
        decision: found.decision.name(),
        reason: found.decision.reason(),
        link_rate_bps: found.capacity.map(|bytes| bytes * 8.0),
        waits_behind_s: found.wait,
        minimum_bps: bits(found.bounds.least),
        maximum_bps: bits(found.bounds.most),
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
        rtt_change: found.delay.map(|(mean, _)| mean),
        rtt_confidence_interval: found.delay.map(|(mean, half)| [mean - half, mean + half]),
        with: half(&found.with),
        without: half(&found.without),
        statement: found.statement(),
    }
}

fn half(turn: &Turn) -> Half {
    let [up, down] = turn.goodput;
    Half { download_bps: down * 8.0, upload_bps: up * 8.0, rtt_s: turn.round_trip }
}
