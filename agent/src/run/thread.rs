//! The thread of one link. The verifier takes up to seconds for a link's programs, and a full flow table takes a tenth of a second
//! to read: on a thread of its own this keeps neither the HTTP server nor other links waiting.
//!
//! The thread owns the link's task from its beginning to its end, with an event loop of its own. Its capabilities are its own too:
//! those of the agent's first thread when it began, until it is asked which to keep.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{oneshot, watch};
use tracing::warn;

use super::instance::Instance;
use super::link::LinkTask;
use crate::bpf::{BpfError, Mechanism};
use crate::exit::{Exit, Failure};
use crate::privileges::RetainedCapabilities;
use crate::snapshot::LinkSnapshot;

/// Time to end by itself, once asked. Then its task is dropped, which takes its programs off the device.
pub(super) const DEADLINE: Duration = Duration::from_secs(5);

/// A thread that has attached its link's programs, or waits for the device, and measures once it is asked to. Dropping it takes back
/// what it has done, and waits until that is over.
pub(super) struct LinkThread {
    /// Says that it may begin, and which capabilities to keep; none: those it has.
    begin: Option<oneshot::Sender<Option<RetainedCapabilities>>>,
    running: Option<Running>,
}

/// A thread that measures, until asked to stop.
pub(super) struct Running {
    /// Closed when nothing is left to do.
    over: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

/// What a thread has come to before it begins to measure.
pub(super) struct Attached {
    /// How the programs are attached to the device; none while they are not.
    pub(super) mechanisms: Vec<Mechanism>,
    /// Where the link's snapshots appear.
    pub(super) snapshots: watch::Receiver<Arc<LinkSnapshot>>,
}

impl LinkThread {
    /// Starts a thread, makes the task in it, and attaches it to its device, if that is there. `claim`: given up at its end.
    ///
    /// # Errors
    /// The kernel refuses the programs, or a thread.
    pub(super) async fn start(
        name: &str,
        claim: Instance,
        stopping: watch::Receiver<bool>,
        make: impl FnOnce() -> (LinkTask, watch::Receiver<Arc<LinkSnapshot>>) + Send + 'static,
    ) -> Result<(Self, Attached), Failure> {
        let (begin, begun) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let (ending, over) = oneshot::channel();
        let refused = |error: io::Error| {
            Failure::new(
                Exit::Os,
                format!("cannot start the thread of link {name}: {error}; raise `ulimit -u`"),
            )
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let work = move || {
            // Dropped last, also if the thread panics.
            let _ending = ending;
            // Only after the task may another agent have the device.
            let _claim = claim;
            runtime.block_on(work(make, answer, begun, stopping));
        };
        // The kernel shows 15 characters.
        let thread = std::thread::Builder::new().name(format!("link {name}")).spawn(work).map_err(refused)?;
        let thread = Self { begin: Some(begin), running: Some(Running { over, thread }) };
        match answered.await {
            Ok(Ok(attached)) => Ok((thread, attached)),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::new(
                Exit::Software,
                format!("the thread of link {name} ended early; this is a defect: please report it"),
            )),
        }
    }

    /// Lets it measure. `keep`: the capabilities that it keeps; none: all that it has.
    pub(super) fn begin(mut self, keep: Option<RetainedCapabilities>) -> Option<Running> {
        // It is there: it waits for this.
        let _ = self.begin.take()?.send(keep);
        self.running.take()
    }

    /// Takes back what it has done, and returns when that is over.
    pub(super) async fn give_up(mut self) {
        drop(self.begin.take());
        if let Some(running) = self.running.take() {
            running.ended().await;
        }
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        // Without it the thread takes everything back.
        drop(self.begin.take());
        let Some(mut running) = self.running.take() else { return };
        // The verifier is not interrupted while it looks through a program, of which nothing is attached yet.
        let end = Instant::now() + DEADLINE;
        while running.over.try_recv() == Err(TryRecvError::Empty) {
            if Instant::now() >= end {
                warn!("a link did not stop in {} s and is cut off", DEADLINE.as_secs());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // What it died of is in the log.
        let _ = running.thread.join();
    }
}

impl Running {
    /// Returns when the thread has ended.
    ///
    /// # Panics
    /// The thread did.
    pub(super) async fn ended(self) {
        // Nothing is ever sent: it is closed.
        let _ = self.over.await;
        // The thread has nothing left to do: this does not wait.
        if let Err(panic) = self.thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// What a link's thread does from beginning to end.
async fn work(
    make: impl FnOnce() -> (LinkTask, watch::Receiver<Arc<LinkSnapshot>>),
    answer: oneshot::Sender<Result<Attached, BpfError>>,
    begun: oneshot::Receiver<Option<RetainedCapabilities>>,
    stopping: watch::Receiver<bool>,
) {
    let (mut task, snapshots) = make();
    if let Err(error) = task.follow_device().await {
        // First of all nothing is left on the device.
        drop(task);
        let _ = answer.send(Err(error));
        return;
    }
    let _ = answer.send(Ok(Attached { mechanisms: task.mechanisms(), snapshots }));
    // Given up: the task is dropped.
    let Ok(keep) = begun.await else { return };
    if let Some(keep) = keep {
        keep.restrict();
    }
    tokio::select! {
        () = task.run(stopping.clone()) => {}
        () = too_late(stopping) => warn!("a link did not stop in {} s and is cut off", DEADLINE.as_secs()),
    }
}

async fn too_late(mut stopping: watch::Receiver<bool>) {
    // The sender is gone where the whole agent ends.
    let _ = stopping.wait_for(|stop| *stop).await;
    tokio::time::sleep(DEADLINE).await;
}
