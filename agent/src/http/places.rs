//! Who is connected, and how much the answers take up that their readers have not read yet.
//!
//! One rule keeps a few clients from shutting the others out: where places or memory run out, the connection on which the
//! agent has waited for its client the longest makes room. A client is waited for while it has not sent the head of its next
//! request, and while it does not read what was sent. Nobody is cut off while the agent works for it.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep};

/// All connections.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Connections at once.
    connections: usize,
    /// Bytes that all answers together may hold.
    bytes: usize,
    /// For so long a client is waited for before it has to make room for another.
    patience: Duration,
    taken: Arc<Mutex<Table>>,
    /// A place became free.
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Table {
    newest: u64,
    taken: HashMap<u64, SlotsTaken>,
}

#[derive(Debug)]
struct SlotsTaken {
    waits_since: Option<Instant>,
    /// Something of the present answer was written.
    answers: bool,
    held: usize,
    leave: Arc<Notify>,
}

/// The place of one connection, until it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    places: Places,
    number: u64,
    leave: Arc<Notify>,
}

impl Table {
    /// The one that is waited for the longest among those that `may` go.
    fn longest_waiting(&self, may: impl Fn(&u64, &SlotsTaken) -> bool) -> Option<(Instant, u64)> {
        let waiting = self.taken.iter().filter(|(number, taken)| may(number, taken));
        waiting.filter_map(|(number, taken)| Some((taken.waits_since?, *number))).min()
    }

    fn evict(&mut self, number: u64) {
        if let Some(taken) = self.taken.remove(&number) {
            taken.leave.notify_one();
        }
    }
}

impl Places {
    pub(super) fn new(connections: usize, bytes: usize, patience: Duration) -> Self {
        Self { connections, bytes, patience, taken: Arc::default(), freed: Arc::default() }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, as soon as there is one.
    pub(super) async fn enter(&self) -> ConnectionSlot {
        loop {
            let freed = self.freed.notified();
            let pause = match self.try_enter(Instant::now()) {
                Ok(place) => return place,
                Err(pause) => pause,
            };
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// A place, or how long it takes until somebody may have to make room.
    fn try_enter(&self, now: Instant) -> Result<ConnectionSlot, Duration> {
        let mut table = self.table();
        if table.taken.len() >= self.connections {
            let Some((since, number)) = table.longest_waiting(|_, _| true) else { return Err(self.patience) };
            let waited = now.duration_since(since);
            if waited < self.patience {
                return Err(self.patience - waited);
            }
            table.evict(number);
        }
        table.newest += 1;
        let (number, leave) = (table.newest, Arc::new(Notify::new()));
        let taken = SlotsTaken { waits_since: Some(now), answers: false, held: 0, leave: Arc::clone(&leave) };
        table.taken.insert(number, taken);
        Ok(ConnectionSlot { places: self.clone(), number, leave })
    }

    /// Returns once nobody is connected.
    pub(super) async fn empty(&self) {
        loop {
            let freed = self.freed.notified();
            if self.table().taken.is_empty() {
                return;
            }
            freed.await;
        }
    }
}

impl ConnectionSlot {
    fn change(&self, change: impl FnOnce(&mut SlotsTaken)) {
        if let Some(taken) = self.places.table().taken.get_mut(&self.number) {
            change(taken);
        }
    }

    /// A request has come: nobody waits for the client until its answer does.
    pub(super) fn serve(&self) {
        self.change(|taken| (taken.waits_since, taken.answers, taken.held) = (None, false, 0));
    }

    fn wait(&self) {
        self.change(|taken| _ = taken.waits_since.get_or_insert_with(Instant::now));
    }

    /// The answer holds so many bytes until the next request. False: there is no room for them.
    pub(super) fn hold(&self, bytes: usize) -> bool {
        let mut table = self.places.table();
        while table.taken.values().map(|taken| taken.held).sum::<usize>() + bytes > self.places.bytes {
            let other = table.longest_waiting(|number, taken| *number != self.number && taken.held > 0);
            let Some((_, number)) = other else { return false };
            table.evict(number);
        }
        if let Some(taken) = table.taken.get_mut(&self.number) {
            taken.held = bytes;
        }
        true
    }

    /// Returns once another one needs the place.
    pub(super) async fn is_needed(&self) {
        self.leave.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.places.table().taken.remove(&self.number);
        self.places.freed.notify_one();
    }
}

/// A stream that tells the place when its client is waited for, and ends if that one reads nothing for too long.
pub(super) struct Watched<S> {
    stream: S,
    place: Arc<ConnectionSlot>,
    stall: Duration,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(super) fn new(stream: S, place: Arc<ConnectionSlot>, stall: Duration) -> Self {
        Self { stream, place, stall, stalled: None }
    }

    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.stalled = None;
            self.place.change(|taken| taken.answers = true);
            return written;
        }
        self.place.wait();
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.wrote(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        // What there was to say is out: the client's turn.
        self.place.change(|taken| {
            if taken.answers {
                taken.waits_since.get_or_insert_with(Instant::now);
            }
        });
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
