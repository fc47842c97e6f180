//! Accepts connections and bounds what one client can take: their number, their age, the size and time of a request's head.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tracing::{debug, warn};

use super::answer::{Refusal, Weight};
use super::places::{ConnectionSlot, Places, Watched};
use super::tls::{Acceptor, Identity};
use super::{ListenError, SecretError};
use crate::config::TlsFiles;

/// What all clients together and each of them can take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections at once; for the next one the client that is waited for the longest makes room.
    connections: usize,
    /// Bytes that answers may hold which their readers have not read.
    bytes: usize,
    /// A client is waited for so long before it has to make room.
    patience: Duration,
    /// A TLS handshake has to be done within this time.
    handshake: Duration,
    /// A request's head has to arrive within this time. An idle connection is closed after it too.
    head: Duration,
    /// A client that reads nothing of its answer for this long is cut off.
    stall: Duration,
    /// A connection is closed after this age, when its answer is out: a reader that never reads does not stay for ever.
    age: Duration,
    /// Time for the last answer once a connection has to close.
    last_answer: Duration,
}

const LIMITS: Limits = Limits {
    connections: 128,
    bytes: 16 * 1024 * 1024,
    patience: Duration::from_millis(500),
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(20),
    stall: Duration::from_secs(20),
    age: Duration::from_secs(600),
    last_answer: Duration::from_secs(2),
};
/// Largest request head, bytes: four times what Prometheus sends with long authorization headers.
const MAX_HEAD: usize = 16 * 1024;
/// Most headers in a request.
const MAX_HEADERS: usize = 64;
/// Bytes of an answer that may wait in the kernel for a client that does not read: what waits there is old when it is read.
const MAX_UNSENT: u32 = 16 * 1024;
/// What compressing an answer takes beside it.
const COMPRESSION_BYTES: usize = 320 * 1024;
/// Between two attempts to bind the address.
const BIND_PAUSE: Duration = Duration::from_secs(1);
/// Pause after a failed accept: with all file descriptors in use, it fails at once again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listener, bound or to be bound.
pub struct Listener {
    listener: Option<TcpListener>,
    pub(super) identity: Option<watch::Sender<Identity>>,
    /// Where it is or will be bound; once it is, the port is the real one, also if any was asked for.
    pub address: SocketAddr,
}

impl Listener {
    /// Binds the address.
    ///
    /// # Errors
    /// The address is taken, not ours, or not allowed.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let listener = TcpListener::bind(address).await.map_err(|error| ListenError::new(address, &error))?;
        let address = listener.local_addr().map_err(|error| ListenError::new(address, &error))?;
        Ok(Self { listener: Some(listener), identity: None, address })
    }

    /// Binds the address if that is possible now. Otherwise says why, and [`Listener::bound`] tries again: whoever has taken the
    /// port must not keep links from being measured, and shapers that a killed agent left from being removed.
    pub async fn bind_or_retry(address: SocketAddr) -> Self {
        Self::bind(address).await.unwrap_or_else(|error| {
            warn!("{error}. Links are measured meanwhile; it is tried again every second");
            Self { listener: None, identity: None, address }
        })
    }

    /// Returns once it is bound.
    pub async fn bound(mut self) -> Self {
        while self.listener.is_none() {
            tokio::time::sleep(BIND_PAUSE).await;
            if let Ok(Self { listener, address, .. }) = Self::bind(self.address).await {
                self = Self { listener, address, ..self };
            }
        }
        self
    }

    /// Encrypts what it carries, if there is a certificate.
    ///
    /// # Errors
    /// Certificate or key cannot be used.
    pub fn secured(self, config: Option<&TlsFiles>) -> Result<Self, SecretError> {
        let identity = config.map(Identity::read).transpose()?.map(watch::Sender::new);
        Ok(Self { identity, ..self })
    }

    /// The scheme of its addresses.
    pub fn scheme(&self) -> &'static str {
        if self.identity.is_some() { "https" } else { "http" }
    }
}

/// Serves until `shutdown` becomes true; connections then get a moment for their last answer.
pub async fn serve(listener: Listener, router: Router, shutdown: watch::Receiver<bool>) {
    serve_within(LIMITS, listener, router, shutdown).await;
}

async fn serve_within(
    limits: Limits,
    listener: Listener,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let places = Places::new(limits.connections, limits.bytes, limits.patience);
    let stop = shutdown.clone();
    let accept = async {
        let Listener { listener: Some(socket), identity, .. } = listener.bound().await else { return };
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => {
                    let place = Arc::new(places.enter().await);
                    let connection =
                        Connection { limits, peer, place, router: router.clone(), shutdown: stop.clone() };
                    let tls = identity.as_ref().map(|identity| identity.borrow().acceptor());
                    tokio::spawn(connection.carry_in_place(stream, tls));
                }
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = accept => {}
        _ = shutdown.wait_for(|stop| *stop) => {}
    }
    if tokio::time::timeout(limits.last_answer, places.empty()).await.is_err() {
        debug!("connections were cut off at the end");
    }
}

struct Connection {
    limits: Limits,
    peer: SocketAddr,
    place: Arc<ConnectionSlot>,
    router: Router,
    shutdown: watch::Receiver<bool>,
}

impl Connection {
    /// Until it ends, or another one needs its place.
    async fn carry_in_place(self, stream: TcpStream, tls: Option<Acceptor>) {
        let (place, peer) = (Arc::clone(&self.place), self.peer);
        tokio::select! {
            () = self.secure(stream, tls) => {}
            () = place.is_needed() => debug!(%peer, "closed: another client needs its place"),
        }
    }

    async fn secure(self, stream: TcpStream, tls: Option<Acceptor>) {
        bound_unsent(&stream);
        let stream = Watched::new(stream, Arc::clone(&self.place), self.limits.stall);
        let Some(tls) = tls else { return carry(self, stream).await };
        let peer = self.peer;
        match tokio::time::timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => carry(self, stream).await,
            Ok(Err(error)) => debug!(%peer, "no TLS: {error}"),
            Err(_) => debug!(%peer, "the TLS handshake takes too long"),
        }
    }
}

/// Answers, if there is room for the answer until it is read.
async fn answer(
    service: TowerToHyperService<Router>,
    place: Arc<ConnectionSlot>,
    request: Request<Incoming>,
) -> Result<Response, Infallible> {
    place.serve();
    let response = service.call(request).await?;
    let weight = response.extensions().get().map_or(0, |Weight(bytes)| *bytes);
    let packing = if response.headers().contains_key(CONTENT_ENCODING) { COMPRESSION_BYTES } else { 0 };
    if place.hold(weight + packing) {
        return Ok(response);
    }
    let refusal = Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE,
        reason: "other clients have not read their answers yet, and there is no room for another one"
            .to_owned(),
        remedy: "ask again in a second, or for less".to_owned(),
    };
    Ok(([(RETRY_AFTER, "1")], refusal).into_response())
}

/// Where the kernel is too old for it, a slow client only gets older figures.
fn bound_unsent(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT);
}

async fn carry(connection: Connection, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Connection { limits, peer, place, router, mut shutdown } = connection;
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(move |request| answer(service.clone(), Arc::clone(&place), request)),
        );
    let mut connection = std::pin::pin!(connection);
    let closing = async {
        tokio::select! {
            () = tokio::time::sleep(limits.age) => {}
            _ = shutdown.wait_for(|stop| *stop) => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(limits.last_answer, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%peer, "connection ended: {error}");
    }
}

#[cfg(test)]
mod tests;
