//! `/api/v1/events`: what has happened, oldest first.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use pendulum_wire::Events;
use serde::Deserialize;

use super::answer::{Refusal, shortened};
use super::{App, json};
use crate::journal::{EventRecord, KEPT};

/// Events listed when a request names no limit.
const USUAL: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsRequest {
    /// How many events to list.
    limit: Option<usize>,
    /// Only events with a higher number, and of these the first ones; without it, the newest ones.
    since: Option<u64>,
    /// Only events of this link.
    link: Option<String>,
}

pub(super) async fn events(
    State(app): State<Arc<App>>,
    request: Result<Query<EventsRequest>, QueryRejection>,
) -> Response {
    let answer = match request {
        Ok(Query(request)) => list(&app, &request),
        Err(error) => Err(refusal(error.body_text())),
    };
    answer.unwrap_or_else(Refusal::into_response)
}

fn list(app: &App, request: &EventsRequest) -> Result<Response, Refusal> {
    let limit = request.limit.unwrap_or(USUAL);
    if !(1..=KEPT).contains(&limit) {
        return Err(refusal(format!("limit={limit} is out of range")));
    }
    if let Some(name) = &request.link
        && !app.board.snapshots().iter().any(|link| *link.name == **name)
    {
        return Err(refusal(format!("there is no link {}", shortened(name))));
    }
    let (records, dropped) = app.journal.after(request.since.unwrap_or(0));
    let mut last = records.last().map_or_else(|| *app.journal.newest().borrow(), |record| record.seq);
    let mut events: Vec<&EventRecord> = records.iter().map(|record| &**record).collect();
    events.retain(|record| request.link.as_ref().is_none_or(|name| record.link == *name));
    match request.since {
        Some(_) => {
            if let Some(left_out) = events.get(limit) {
                last = left_out.seq - 1;
            }
            events.truncate(limit);
        }
        None => drop(events.drain(..events.len().saturating_sub(limit))),
    }
    let last_event_id = app.journal.place(last);
    Ok(json(StatusCode::OK, &Events { events, dropped, last_event_id }))
}

fn refusal(reason: String) -> Refusal {
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason,
        remedy: format!("use limit=1…{KEPT}, since=NUMBER, link=NAME; /api/v1/state lists the links"),
    }
}

#[cfg(test)]
mod tests;
