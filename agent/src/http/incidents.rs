//! `/api/v1/incidents`: what is kept of what lasted, and each as one JSON file.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse as _, Response};
use pendulum_wire::Incidents;

use super::answer::{Refusal, shortened};
use super::{App, json};

/// Why there is no list, where nothing is kept.
const OFF: &str = "incidents are not kept: set events.incidents = true, and STATE_DIRECTORY to a directory that the agent may write";

pub(super) async fn list(State(app): State<Arc<App>>) -> Response {
    let off = || Incidents { incidents: Vec::new(), trouble: Some(OFF.to_owned()) };
    json(StatusCode::OK, &app.journal.incidents().map_or_else(off, crate::incident::Store::list))
}

/// A file is read in a thread of its own, one after the other: they are large.
pub(super) async fn one(State(app): State<Arc<App>>, Path(id): Path<String>) -> Response {
    let id = id.strip_suffix(".json").unwrap_or(&id).to_owned();
    let _turn = app.long_lists.acquire().await.ok();
    let read = app.journal.incidents().cloned().map(|store| {
        let id = id.clone();
        tokio::task::spawn_blocking(move || store.text(&id))
    });
    let text = match read {
        Some(read) => read.await.ok().flatten(),
        None => None,
    };
    match text {
        Some(Ok(text)) => {
            let attachment = format!("attachment; filename=\"{id}.json\"");
            let headers = [
                (CONTENT_TYPE, "application/json"),
                (CACHE_CONTROL, "no-store"),
                (CONTENT_DISPOSITION, &attachment),
            ];
            (headers, text).into_response()
        }
        Some(Err(error)) => Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            reason: error.to_string(),
            remedy: "remove the file if it is damaged".to_owned(),
        }
        .into_response(),
        None => Refusal {
            status: StatusCode::NOT_FOUND,
            reason: format!("there is no incident {}", shortened(&id)),
            remedy: "/api/v1/incidents lists those that are kept".to_owned(),
        }
        .into_response(),
    }
}
