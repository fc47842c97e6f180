//! `/api/v1/flows`: the busiest flows. Addresses appear here and nowhere else.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use pendulum_model::segment::Direction;
use serde::{Deserialize, Serialize};

use super::answer::{Refusal, shortened};
use super::{App, json};
use crate::config::TOP;
use crate::snapshot::{FlowRow, HalfRow, LinkSnapshot};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// How many flows to list.
    limit: Option<usize>,
    /// What makes a flow come first.
    #[serde(default)]
    sort: Sort,
    /// Only flows of this link.
    link: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sort {
    /// Link-layer bytes per second, both ways.
    #[default]
    Rate,
    /// Link-layer bytes since the flow was first seen, both ways.
    Bytes,
}

#[derive(Serialize)]
struct Report {
    /// Flows in the tables, listed or not.
    total: usize,
    flows: Vec<Flow>,
}

#[derive(Serialize)]
struct Flow {
    link: String,
    client: SocketAddr,
    server: SocketAddr,
    /// Which of the two is behind the gateway.
    home: &'static str,
    /// Where most of the payload goes.
    direction: &'static str,
    state: &'static str,
    age_s: f64,
    idle_s: f64,
    up: Half,
    down: Half,
}

#[derive(Serialize)]
struct Half {
    bytes: u64,
    payload_bytes: u64,
    segments: u64,
    data_segments: u64,
    throughput_bps: f64,
    goodput_bps: f64,
    in_flight_bytes: u32,
    in_flight_max_bytes: u32,
    rtt_min_s: Option<f64>,
    rtt_mean_s: Option<f64>,
    rtt_last_s: Option<f64>,
    segments_per_ack: Option<f64>,
    retransmitted_segments: u32,
    reordered_segments: u32,
}

pub(super) async fn flows(
    State(app): State<Arc<App>>,
    request: Result<Query<Request>, QueryRejection>,
) -> Response {
    let request = match request {
        Ok(Query(request)) => request,
        Err(error) => return refusal(error.body_text()).into_response(),
    };
    let limit = request.limit.unwrap_or(app.active.borrow().config.flows.top);
    if !(TOP.least as usize..=TOP.most as usize).contains(&limit) {
        return refusal(format!("limit={limit} is out of range")).into_response();
    }
    let mut links = app.board.snapshots();
    if let Some(name) = &request.link {
        links.retain(|link| *link.name == **name);
        if links.is_empty() {
            return refusal(format!("there is no link {}", shortened(name))).into_response();
        }
    }
    json(StatusCode::OK, &report(&links, limit, request.sort))
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

fn report(links: &[Arc<LinkSnapshot>], limit: usize, sort: Sort) -> Report {
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
    Report { total, flows: ranked.into_iter().map(|(_, link, row)| flow(link, row)).collect() }
}

fn rank(row: &FlowRow, sort: Sort) -> f64 {
    let [up, down] = &row.halves;
    match sort {
        Sort::Rate => f64::from(up.wire_rate) + f64::from(down.wire_rate),
        Sort::Bytes => (up.wire_bytes + down.wire_bytes) as f64,
    }
}

fn flow(link: &LinkSnapshot, row: &FlowRow) -> Flow {
    let [up, down] = &row.halves;
    let (home, remote) = (row.key.home(), row.key.remote());
    // Who opened it sent the first segment. Without a SYN the flow is older than the agent: most are opened at home.
    let opened_at_home = !(up.opened && down.opened) || up.first_seen_ns <= down.first_seen_ns;
    let (client, server) = if opened_at_home { (home, remote) } else { (remote, home) };
    let direction = if up.payload_bytes > down.payload_bytes { Direction::Up } else { Direction::Down };
    let first = [up.first_seen_ns, down.first_seen_ns].into_iter().filter(|&at| at > 0).min().unwrap_or(0);
    let newest = up.last_seen_ns.max(down.last_seen_ns);
    let idle = Instant::now().duration_since(row.changed_at).as_secs_f64();
    Flow {
        link: link.name.to_string(),
        client,
        server,
        home: if opened_at_home { "client" } else { "server" },
        direction: direction.name(),
        state: if row.is_closed { "closed" } else { "open" },
        age_s: newest.saturating_sub(first) as f64 / 1e9 + idle,
        idle_s: idle,
        up: half(up),
        down: half(down),
    }
}

fn half(half: &HalfRow) -> Half {
    let seconds = |us: u32| (half.rtt_samples > 0).then(|| f64::from(us) / 1e6);
    Half {
        bytes: half.wire_bytes,
        payload_bytes: half.payload_bytes,
        segments: half.segments,
        data_segments: half.data_segments,
        throughput_bps: f64::from(half.wire_rate) * 8.0,
        goodput_bps: f64::from(half.goodput) * 8.0,
        in_flight_bytes: half.in_flight_bytes,
        in_flight_max_bytes: half.in_flight_max_bytes,
        rtt_min_s: seconds(half.rtt_min_us),
        rtt_mean_s: half.rtt_mean_s(),
        rtt_last_s: seconds(half.rtt_last_us),
        segments_per_ack: half.segments_per_ack(),
        retransmitted_segments: half.retransmitted_segments,
        reordered_segments: half.reordered_segments,
    }
}
