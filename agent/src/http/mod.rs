//! The HTTP side: metrics, health, API, page. Reads snapshots; the kernel only for the hosts of flows that are listed.

mod access;
mod answer;
mod events;
mod flows;
mod history;
mod incidents;
mod page;
mod places;
mod secrets;
mod server;
mod state;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::config::Active;
use crate::exit::{Classified, Exit};
use crate::home_lookup::HomeLookup;
use crate::journal::Journal;
use crate::metrics::{Exposition, ExpositionFormat};
use crate::snapshot::{Board, DeviceState, HANGS};

pub use access::Access;
pub use history::remember;
pub use secrets::{Renewed, Secrets};
pub use server::{Listener, serve};

use answer::{Refusal, json};

/// A file of `[http]` cannot be used.
#[derive(Debug, Error)]
#[error("{key} {}: {reason}; {remedy}", file.display())]
pub struct SecretError {
    key: &'static str,
    file: PathBuf,
    reason: String,
    remedy: &'static str,
    exit: Exit,
}

impl Classified for SecretError {
    fn exit(&self) -> Exit {
        self.exit
    }
}

/// The listener cannot be had.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {reason}; {remedy}")]
pub struct ListenError {
    address: SocketAddr,
    reason: String,
    remedy: &'static str,
    exit: Exit,
}

impl ListenError {
    fn new(address: SocketAddr, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{AddrInUse, AddrNotAvailable, PermissionDenied};
        let (remedy, exit) = match error.kind() {
            AddrInUse => (
                "another process has this port: stop it (`ss -ltnp` shows which), or choose another with --listen",
                Exit::Unavailable,
            ),
            AddrNotAvailable => (
                "no device of this network namespace has this address: `ip address` shows those it has",
                Exit::Unavailable,
            ),
            PermissionDenied => (
                "ports below 1024 need CAP_NET_BIND_SERVICE: choose a higher one with --listen",
                Exit::NoPermission,
            ),
            _ => ("choose another address or port with --listen", Exit::Os),
        };
        Self { address, reason: error.to_string(), remedy, exit }
    }
}

impl Classified for ListenError {
    fn exit(&self) -> Exit {
        self.exit
    }
}

/// What the handlers answer from.
#[derive(Debug)]
pub struct App {
    board: Board,
    journal: Journal,
    /// Becomes true when the agent stops: streams end then.
    stopping: watch::Receiver<bool>,
    exposition: Exposition,
    started: Instant,
    /// The configuration in use.
    active: watch::Receiver<Active>,
    /// Whose connections those are that are listed.
    home_lookup: HomeLookup,
    history: history::History,
    /// One list of thousands of flows is made at a time.
    long_lists: Semaphore,
}

impl App {
    /// An app over the links of `board`. `statistics`: whether the kernel counts runs of BPF programs.
    pub fn new(
        board: Board,
        journal: Journal,
        active: watch::Receiver<Active>,
        statistics: bool,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            exposition: Exposition::new(&board, active.clone(), statistics),
            board,
            journal,
            stopping,
            started: Instant::now(),
            active,
            home_lookup: HomeLookup::default(),
            history: history::History::default(),
            long_lists: Semaphore::new(1),
        }
    }
}

/// All paths, for those who are let in.
pub fn router(app: Arc<App>, access: Access) -> Router {
    Router::new()
        .merge(page::routes())
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/api/v1/state", get(state::state))
        .route("/api/v1/flows", get(flows::flows))
        .route("/api/v1/events", get(events::events))
        .route("/api/v1/history", get(history::history))
        .route("/api/v1/incidents", get(incidents::list))
        .route("/api/v1/incidents/{id}", get(incidents::one))
        .route("/api/v1/stream", get(stream::stream))
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .with_state(app)
        .layer(from_fn_with_state(Arc::new(access), access::admit))
        .layer(map_response(answer::weigh))
        // Not the stream: its events have to leave at once.
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .layer(map_response(answer::guard))
}

async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = ExpositionFormat::negotiate(accept);
    match app.exposition.encode(format) {
        Ok(body) => ([(CONTENT_TYPE, format.content_type()), (VARY, "accept")], body).into_response(),
        Err(error) => Refusal {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            reason: format!("the metrics could not be written: {error}"),
            remedy: "this is a defect: please report it".to_owned(),
        }
        .into_response(),
    }
}

/// The process answers, and every link that is measured is read. Nothing more is said: this needs no token.
async fn healthz(State(app): State<Arc<App>>) -> Response {
    let now = Instant::now();
    let (status, text) = if app.board.snapshots().iter().any(|link| link.hangs(now)) {
        let text = format!("a link was not read for {} s\n", HANGS.as_secs());
        (StatusCode::SERVICE_UNAVAILABLE, text)
    } else {
        (StatusCode::OK, "ok\n".to_owned())
    };
    (status, [(CACHE_CONTROL, "no-store")], text).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Readiness {
    /// Whether it is also ready if no link's device is there: nothing is to be measured then.
    idle: Option<Idle>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Idle {
    Ok,
}

/// At least one link is measured, and was read a moment ago.
async fn readyz(State(app): State<Arc<App>>, asked: Result<Query<Readiness>, QueryRejection>) -> Response {
    let asked = match asked {
        Ok(Query(asked)) => asked,
        Err(error) => {
            let remedy = "use idle=ok, or nothing".to_owned();
            return Refusal { status: StatusCode::BAD_REQUEST, reason: error.body_text(), remedy }
                .into_response();
        }
    };
    let now = Instant::now();
    let links = app.board.snapshots();
    let ready = links.iter().any(|link| link.is_ready(now));
    let idle = links.iter().all(|link| link.device == DeviceState::Missing);
    let is_fine = ready || (idle && matches!(asked.idle, Some(Idle::Ok)));
    let status = if is_fine { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let links = links.iter().map(|link| {
        let link_state = serde_json::json!({
            "ready": link.is_ready(now), "device": link.device.name(), "trouble": link.trouble.as_deref(),
            "reading_age_s": link.reading_age(now).map(|age| age.as_secs_f64()),
        });
        (link.name.to_string(), link_state)
    });
    let links: serde_json::Map<String, serde_json::Value> = links.collect();
    json(status, &serde_json::json!({ "ready": ready, "idle": idle, "links": links }))
}

async fn unknown_path(uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        reason: format!("there is no {}", answer::shortened(uri.path())),
        remedy: "the start page at / links to what there is".to_owned(),
    }
}

async fn wrong_method(method: Method, uri: Uri) -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        reason: format!(
            "{} does not take {}",
            answer::shortened(uri.path()),
            answer::shortened(method.as_str())
        ),
        remedy: "use GET: everything here is for reading".to_owned(),
    }
}
