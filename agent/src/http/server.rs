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

use super::{ListenError, TlsError, tls};
use crate::config::Tls;

/// Connections at once; the next one waits.
const MAX_CONNECTIONS: usize = 128;
/// A request's head has to arrive within this time. An idle connection is closed after it too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest request head, bytes: four times what Prometheus sends with long authorization headers.
const MAX_HEAD: usize = 16 * 1024;
/// Most headers in a request.
const MAX_HEADERS: usize = 64;
/// A connection is closed after this age, when its answer is out: a reader that never reads does not stay for ever.
const MAX_AGE: Duration = Duration::from_secs(600);
/// A TLS handshake has to be done within this time.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that may wait in the kernel for a client that does not read: what waits there is old when it is read.
const MAX_UNSENT: u32 = 16 * 1024;
/// Time for the last answer once a connection has to close.
const LAST_ANSWER: Duration = Duration::from_secs(2);
/// Pause after a failed accept: with all file descriptors in use, it fails at once again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound listener.
pub struct Listener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
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
        Ok(Self { listener, tls: None, address })
    }

    /// Encrypts what it carries, if there is a certificate.
    ///
    /// # Errors
    /// Certificate or key cannot be used.
    pub fn secured(self, config: Option<&Tls>) -> Result<Self, TlsError> {
        Ok(Self { tls: config.map(tls::acceptor).transpose()?, ..self })
    }

    /// The scheme of its addresses.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// Serves until `shutdown` becomes true; connections then get a moment for their last answer.
pub async fn serve(listener: Listener, router: Router, mut shutdown: watch::Receiver<bool>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let stop = shutdown.clone();
    let accept = async {
        loop {
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            match listener.listener.accept().await {
                Ok((stream, peer)) => {
                    let connection = Connection { peer, router: router.clone(), shutdown: stop.clone() };
                    tokio::spawn(connection.secure(stream, listener.tls.clone(), permit));
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
    let all = permits.acquire_many(MAX_CONNECTIONS as u32);
    if tokio::time::timeout(LAST_ANSWER, all).await.is_err() {
        debug!("connections were cut off at the end");
    }
}

struct Connection {
    peer: SocketAddr,
    router: Router,
    shutdown: watch::Receiver<bool>,
}

impl Connection {
    async fn secure(self, stream: TcpStream, tls: Option<TlsAcceptor>, _permit: OwnedSemaphorePermit) {
        // Where the kernel is too old for it, a slow client only gets older figures.
        let _ = SockRef::from(&stream).set_tcp_notsent_lowat(MAX_UNSENT);
        let Some(tls) = tls else { return carry(self, stream).await };
        let peer = self.peer;
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await {
            Ok(Ok(stream)) => carry(self, stream).await,
            Ok(Err(error)) => debug!(%peer, "no TLS: {error}"),
            Err(_) => debug!(%peer, "the TLS handshake takes too long"),
        }
    }
}

async fn carry(connection: Connection, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let Connection { peer, router, mut shutdown } = connection;
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let closing = async {
        tokio::select! {
            () = tokio::time::sleep(MAX_AGE) => {}
            _ = shutdown.wait_for(|stop| *stop) => {}
        }
    };
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = closing => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(LAST_ANSWER, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%peer, "connection ended: {error}");
    }
}
