//! `/api/v1/flows`: the busiest flows. Addresses appear here and nowhere else.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use pendulum_model::segment::Direction;
use pendulum_wire::{Flow, FlowHalf, Flows, Name};
use serde::Deserialize;

use super::App;
use super::answer::{Refusal, Weight, shortened};
use crate::config::{LinkConfig, TOP};
use crate::home_lookup::{Home, Homes, WanConnection};
use crate::net::Reached;
use crate::snapshot::{FlowRow, HalfRow, LinkSnapshot};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowsRequest {
    /// How many flows to list.
    limit: Option<usize>,
    /// What makes a flow come first.
    #[serde(default)]
    sort: FlowOrder,
    /// Only flows of this link.
    link: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FlowOrder {
    /// Link-layer bytes per second, both ways.
    #[default]
    Rate,
    /// Link-layer bytes since the flow was first seen, both ways.
    Bytes,
}

pub(super) async fn flows(
    State(app): State<Arc<App>>,
    request: Result<Query<FlowsRequest>, QueryRejection>,
) -> Response {
    let request = match request {
        Ok(Query(request)) => request,
        Err(error) => return refusal(error.body_text()).into_response(),
    };
    let limit = request.limit.unwrap_or(app.active.borrow().config.flows.top);
    if !(TOP.least as usize..=TOP.most as usize).contains(&limit) {
        return refusal(format!("limit={limit} is out of range")).into_response();
    }
    // Long lists one after the other: what else is asked for is answered in between.
    let _turn = if limit > SHORT { app.long_lists.acquire().await.ok() } else { None };
    let mut links = app.board.snapshots();
    if let Some(name) = &request.link {
        links.retain(|link| *link.name == **name);
        if links.is_empty() {
            return refusal(format!("there is no link {}", shortened(name))).into_response();
        }
    }
    let (total, listed) = busiest(&links, limit, request.sort);
    // Copies: a reader that takes its time keeps no whole table.
    let listed: Vec<ListedFlow> =
        listed.into_iter().map(|(link, row)| (Arc::clone(&link.name), row.clone())).collect();
    drop(links);
    let connections = listed.iter().map(|(_, row)| connection(row)).collect();
    let homes = app.home_lookup.homes(connections).await;
    let configured = app.active.borrow().config.links.clone();
    in_pieces(FlowList { total, listed, homes, configured })
}

/// A flow that is listed, and its link's name.
type ListedFlow = (Arc<str>, FlowRow);

/// The list that is returned.
struct FlowList {
    total: usize,
    listed: Vec<ListedFlow>,
    /// Of the flows that are listed, in their order.
    homes: Homes,
    configured: Vec<LinkConfig>,
}

impl FlowList {
    /// All but the flows.
    fn head(&self) -> Flows {
        let home_host_missing = self.homes.missing.clone();
        Flows { total: self.total as u64, home_host_missing, flows: Vec::new() }
    }

    fn flow(&self, index: usize) -> Option<Flow> {
        let (name, row) = self.listed.get(index)?;
        let configured = self.configured.iter().find(|configured| configured.name == **name);
        let whose = self.homes.homes.get(index).zip(configured).map(|(home, link)| whose(home, link));
        Some(flow(name, row, whose.unwrap_or_default()))
    }

    /// Bytes it holds.
    fn weight(&self) -> usize {
        self.listed.capacity() * size_of::<ListedFlow>() + self.homes.homes.capacity() * size_of::<Home>()
    }
}

/// A list of no more flows than these is made at once.
const SHORT: usize = 256;
/// JSON of so many flows is made at a time, while the reader takes it: other requests are answered in between.
const PIECE: usize = 32;

/// The same as `json` of the whole, without ever having all of it.
fn in_pieces(report: FlowList) -> Response {
    let head = match serde_json::to_string(&report.head()) {
        Ok(head) => head,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    let Some(head) = head.strip_suffix("]}").map(str::to_owned) else {
        return (StatusCode::INTERNAL_SERVER_ERROR, "flows are not the last field").into_response();
    };
    let weight = Weight(report.weight());
    let count = report.listed.len();
    let pieces = (0..count.div_ceil(PIECE)).map(move |piece| {
        let mut text = Vec::new();
        for index in piece * PIECE..count.min((piece + 1) * PIECE) {
            if index > 0 {
                text.push(b',');
            }
            serde_json::to_writer(&mut text, &report.flow(index))?;
        }
        Ok::<_, serde_json::Error>(text)
    });
    let body = std::iter::once(Ok(head.into_bytes())).chain(pieces).chain([Ok(b"]}\n".to_vec())]);
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, Extension(weight), Body::from_stream(stream::iter(body))).into_response()
}

/// How the flow is known on the WAN.
fn connection(row: &FlowRow) -> WanConnection {
    WanConnection {
        home: row.key.home(),
        remote: row.key.remote(),
        began_ns: began_ns(row),
        is_open: !row.is_closed,
    }
}

/// Whose flow it is, as far as that is known. `lan` names the devices behind which home is; without it home is behind all but the WAN.
fn whose(home: &Home, link: &LinkConfig) -> Flow {
    let (device, traffic) = match &home.reached {
        Some(Reached::Own) => (None, Some("gateway")),
        // Behind the WAN: a bridge, or a route that does not lead home.
        Some(Reached::Through(device)) if *device == link.wan => (None, None),
        Some(Reached::Through(device)) => {
            let is_home = link.lan.is_empty() || link.lan.contains(device);
            (Some(device.clone()), Some(if is_home { "home" } else { "other" }))
        }
        None => (None, None),
    };
    Flow {
        home_host: home.translated_from.map(|address| address.to_string()),
        home_host_source: home.translated_from.map(|_| "conntrack".into()),
        home_device: device,
        traffic: traffic.map(Name::Borrowed),
        ..Flow::default()
    }
}

fn refusal(reason: String) -> Refusal {
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason,
        remedy: format!(
            "use limit={}…{}, sort=rate|bytes, link=NAME; /api/v1/state lists the links",
            TOP.least, TOP.most
        ),
    }
}

/// How many flows there are, and those to be listed, in order.
fn busiest(
    links: &[Arc<LinkSnapshot>],
    limit: usize,
    sort: FlowOrder,
) -> (usize, Vec<(&Arc<LinkSnapshot>, &FlowRow)>) {
    let rows = links.iter().flat_map(|link| link.flows.rows.iter().map(move |row| (link, row)));
    let mut ranked: Vec<_> = rows.map(|(link, row)| (rank(row, sort), link, row)).collect();
    let total = ranked.len();
    let descending = |a: &(f64, &Arc<LinkSnapshot>, &FlowRow), b: &(f64, &Arc<LinkSnapshot>, &FlowRow)| {
        b.0.total_cmp(&a.0)
    };
    if limit < total {
        ranked.select_nth_unstable_by(limit, descending);
        ranked.truncate(limit);
    }
    ranked.sort_unstable_by(descending);
    (total, ranked.into_iter().map(|(_, link, row)| (link, row)).collect())
}

fn rank(row: &FlowRow, sort: FlowOrder) -> f64 {
    let [up, down] = row.halves.both();
    match sort {
        FlowOrder::Rate => f64::from(up.wire_rate) + f64::from(down.wire_rate),
        FlowOrder::Bytes => (up.wire_bytes + down.wire_bytes) as f64,
    }
}

/// When the first segment of either end was seen, nanoseconds of the kernel's clock; 0 if none was.
fn began_ns(row: &FlowRow) -> u64 {
    row.halves.both().into_iter().map(|half| half.first_seen_ns).filter(|&at| at > 0).min().unwrap_or(0)
}

fn flow(link: &str, row: &FlowRow, whose: Flow) -> Flow {
    let [up, down] = row.halves.both();
    let (home, remote) = (row.key.home(), row.key.remote());
    // Who opened it sent the first segment. Without a SYN the flow is older than the agent: most are opened at home.
    let opened_at_home = !(up.opened && down.opened) || up.first_seen_ns <= down.first_seen_ns;
    let (client, server) = if opened_at_home { (home, remote) } else { (remote, home) };
    let direction = if up.payload_bytes > down.payload_bytes { Direction::Up } else { Direction::Down };
    let first = began_ns(row);
    let newest = up.last_seen_ns.max(down.last_seen_ns);
    let idle = Instant::now().duration_since(row.changed_at).as_secs_f64();
    Flow {
        link: link.to_owned(),
        client: client.to_string(),
        server: server.to_string(),
        home: if opened_at_home { "client" } else { "server" }.into(),
        direction: direction.name().into(),
        state: if row.is_closed { "closed" } else { "open" }.into(),
        age_s: newest.saturating_sub(first) as f64 / 1e9 + idle,
        idle_s: idle,
        up: half(up),
        down: half(down),
        ..whose
    }
}

fn half(half: &HalfRow) -> FlowHalf {
    let seconds = |us: u32| (half.rtt_samples > 0).then(|| f64::from(us) / 1e6);
    FlowHalf {
        bytes: half.wire_bytes,
        payload_bytes: half.payload_bytes,
        segments: half.segments,
        data_segments: half.data_segments,
        throughput_bps: f64::from(half.wire_rate) * 8.0,
        goodput_bps: f64::from(half.goodput) * 8.0,
        in_flight_bytes: half.in_flight_bytes.into(),
        in_flight_max_bytes: half.in_flight_max_bytes.into(),
        rtt_min_s: seconds(half.rtt_min_us),
        rtt_mean_s: half.rtt_mean_s(),
        rtt_last_s: seconds(half.rtt_last_us),
        segments_per_ack: half.segments_per_ack(),
        retransmitted_segments: half.retransmitted_segments.into(),
        reordered_segments: half.reordered_segments.into(),
    }
}

#[cfg(test)]
mod tests;
