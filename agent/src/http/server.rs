//! Accepts connections and bounds what one client can take: their number, their age, the size and time of a request's head.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::tls::Identity;
use super::{ListenError, SecretError};
use crate::config::Tls;

/// What all clients together and each of them can take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Connections at once; the next one waits.
    connections: u32,
    /// A TLS handshake has to be done within this time.
    handshake: Duration,
    /// A request's head has to arrive within this time. An idle connection is closed after it too.
    head: Duration,
    /// A connection is closed after this age, when its answer is out: a reader that never reads does not stay for ever.
    age: Duration,
    /// Time for the last answer once a connection has to close.
    last_answer: Duration,
}

const LIMITS: Limits = Limits {
    connections: 128,
    handshake: Duration::from_secs(10),
    head: Duration::from_secs(30),
    age: Duration::from_secs(600),
    last_answer: Duration::from_secs(2),
};
/// Largest request head, bytes: four times what Prometheus sends with long authorization headers.
const MAX_HEAD: usize = 16 * 1024;
/// Most headers in a request.
const MAX_HEADERS: usize = 64;
/// Bytes of an answer that may wait in the kernel for a client that does not read: what waits there is old when it is read.
const MAX_UNSENT: u32 = 16 * 1024;
/// Pause after a failed accept: with all file descriptors in use, it fails at once again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound listener.
pub struct Listener {
    listener: TcpListener,
    pub(super) identity: Option<watch::Sender<Identity>>,
    /// Where it is bound; the port is the real one, also if any was asked for.
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
        Ok(Self { listener, identity: None, address })
    }

    /// Encrypts what it carries, if there is a certificate.
    ///
    /// # Errors
    /// Certificate or key cannot be used.
    pub fn secured(self, config: Option<&Tls>) -> Result<Self, SecretError> {
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
    let permits = Arc::new(Semaphore::new(limits.connections as usize));
    let stop = shutdown.clone();
    let accept = async {
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            match listener.listener.accept().await {
                Ok((stream, peer)) => {
                    let connection =
                        Connection { limits, peer, router: router.clone(), shutdown: stop.clone() };
                    let tls = listener.identity.as_ref().map(|identity| identity.borrow().acceptor.clone());
                    tokio::spawn(connection.secure(stream, tls, permit));
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
    // All permits are back when all connections are closed.
    let all = permits.acquire_many(limits.connections);
    if tokio::time::timeout(limits.last_answer, all).await.is_err() {
        debug!("connections were cut off at the end");
    }
}

struct Connection {
    limits: Limits,
    peer: SocketAddr,
    router: Router,
    shutdown: watch::Receiver<bool>,
}

impl Connection {
    async fn secure(self, stream: TcpStream, tls: Option<TlsAcceptor>, _permit: OwnedSemaphorePermit) {
        bound_unsent(&stream);
        let Some(tls) = tls else { return carry(self, stream).await };
        let peer = self.peer;
        match tokio::time::timeout(self.limits.handshake, tls.accept(stream)).await {
            Ok(Ok(stream)) => carry(self, stream).await,
            Ok(Err(error)) => debug!(%peer, "no TLS: {error}"),
            Err(_) => debug!(%peer, "the TLS handshake takes too long"),
        }
    }
}

/// Where the kernel is too old for it, a slow client only gets older figures.
fn bound_unsent(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT);
}

async fn carry(connection: Connection, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Connection { limits, peer, router, mut shutdown } = connection;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
