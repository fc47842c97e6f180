//! `shape` of a link in `/api/v1/state`.

use pendulum_model::link::Provenance;
use std::collections::BTreeMap;

use pendulum_model::rate::Rate;
use pendulum_wire::{AbTest, Auto, Name, Shape, Shaped, Turn};

use crate::snapshot::{self, Comparison, FATES, Followed, ShapeSnapshot};

/// The shaper at one moment.
pub(super) fn shape(snapshot: &ShapeSnapshot) -> Shape {
    let at_work = snapshot.is_at_work();
    let line = |of: usize, source| {
        let auto = snapshot.followed[of].as_ref().map(auto);
        let rate_source = if auto.is_some() { Some("auto") } else { source }.map(Name::from);
        snapshot.rates_bps[of].map(|rate_bps| Shaped { rate_bps, rate_source, auto })
    };
    let uplink = line(0, snapshot.rate_source.map(Provenance::name));
    let downlink = line(1, Some(Provenance::Config.name()));
    Shape {
        state: snapshot.state.name().into(),
        reason: snapshot.state.reason().map(str::to_owned),
        ack_filter: snapshot.ack_filter.into(),
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
        decision: found.decision.name().into(),
        reason: found.reason.clone().into(),
        link_rate_bps: found.capacity.map(|bytes| bytes * 8.0),
        waits_behind_s: found.wait,
        minimum_bps: bits(found.bounds.least),
        maximum_bps: bits(found.bounds.most),
    }
}

/// By action and reason; those that never happened are left out.
fn fates(snapshot: &ShapeSnapshot) -> BTreeMap<Name, BTreeMap<Name, u64>> {
    let mut acks: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for ((action, reason), count) in
        FATES.into_iter().zip(snapshot.counts.acks).filter(|(_, count)| *count > 0)
    {
        acks.entry(action.into()).or_default().insert(reason.into(), count);
    }
    acks
}

fn comparison(found: &Comparison) -> AbTest {
    AbTest {
        pairs: found.pairs as u64,
        outcome: found.outcome.name().into(),
        change: found.change.map(|(mean, _)| mean),
        confidence_interval: found.change.map(|(mean, half)| [mean - half, mean + half]),
        rtt_change: found.delay.map(|(mean, _)| mean),
        rtt_confidence_interval: found.delay.map(|(mean, half)| [mean - half, mean + half]),
        with: turn(&found.with),
        without: turn(&found.without),
        statement: found.statement(),
    }
}

fn turn(turn: &snapshot::TrialTurn) -> Turn {
    let [up, down] = turn.goodput;
    Turn { download_bps: down * 8.0, upload_bps: up * 8.0, rtt_s: turn.round_trip }
}
