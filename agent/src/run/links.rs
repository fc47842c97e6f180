//! The links that are being measured: they come and go with the configuration, and the others do not notice.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::instance::Instance;
use super::link::LinkTask;
use super::preflight::missing_capabilities;
use super::thread::{Attached, LinkThread};
use crate::bpf::Mechanism;
use crate::config::{Active, LinkConfig};
use crate::exit::Failure;
use crate::journal::Journal;
use crate::net::Devices;
use crate::privileges::RetainedCapabilities;
use crate::snapshot::{Board, LinkSnapshot};

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was asked to.
    AsAsked,
    /// By itself.
    Early,
}

/// A link whose programs are attached, or that waits for its device; it does not measure yet.
pub(super) struct Prepared {
    thread: LinkThread,
    pub(super) mechanisms: Vec<Mechanism>,
    entry: RunningLink,
}

/// What is kept of a link that runs.
struct RunningLink {
    /// As it was when it came: what it is known by stays.
    link: LinkConfig,
    stop: watch::Sender<bool>,
    snapshots: watch::Receiver<Arc<LinkSnapshot>>,
}

/// All links, and what a new one is made from.
pub(super) struct Links {
    journal: Journal,
    active: watch::Receiver<Active>,
    devices: watch::Receiver<Arc<Devices>>,
    pub(super) board: Board,
    running: Vec<RunningLink>,
    /// Of links that were asked to end: closed once they have.
    leaving: Vec<watch::Sender<bool>>,
}

impl Links {
    /// No link yet.
    pub(super) fn new(
        journal: Journal,
        active: watch::Receiver<Active>,
        devices: watch::Receiver<Arc<Devices>>,
    ) -> Self {
        Self {
            journal,
            active,
            devices,
            board: Board::new(Vec::new()),
            running: Vec::new(),
            leaving: Vec::new(),
        }
    }

    /// Attaches to the link's device, if it is there. Dropping what comes back takes that back.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(super) async fn prepare(&self, link: &LinkConfig, claim: Instance) -> Result<Prepared, Failure> {
        let stop = watch::Sender::new(false);
        let make = {
            let (link, journal) = (link.clone(), self.journal.clone());
            let (active, devices) = (self.active.clone(), self.devices.clone());
            move || LinkTask::new(link, journal, active, devices)
        };
        let (thread, Attached { mechanisms, snapshots }) =
            LinkThread::start(&link.name, claim, stop.subscribe(), make).await?;
        Ok(Prepared { thread, mechanisms, entry: RunningLink { link: link.clone(), stop, snapshots } })
    }

    /// Prepares the links of a new file that can be taken over while running.
    ///
    /// # Errors
    /// One of them cannot be measured, another agent has its device, or this one no longer has the rights to attach; then
    /// none is.
    pub(super) async fn prepare_added(&mut self, wanted: &[LinkConfig]) -> Result<Vec<Prepared>, String> {
        // One that went a moment ago still has its device.
        for leaving in self.leaving.drain(..) {
            leaving.closed().await;
        }
        let added = self.active.borrow().config.links_to_add(wanted);
        let devices = self.devices.borrow().clone();
        let mut prepared = Vec::new();
        for link in &added {
            match self.prepare_one(link, &devices).await {
                Ok(link) => prepared.push(link),
                Err(reason) => {
                    for Prepared { thread, .. } in prepared {
                        thread.give_up().await;
                    }
                    return Err(format!("link {}: {reason}", link.name));
                }
            }
        }
        Ok(prepared)
    }

    async fn prepare_one(&self, link: &LinkConfig, devices: &Devices) -> Result<Prepared, String> {
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(format!(
                "the agent cannot attach to {} any more: {} {} given up after the start; restart it, with \
                 privileges.after-start = \"reattach\" if links are to be added while it runs",
                link.wan,
                missing.join(", "),
                if missing.len() == 1 { "was" } else { "were" }
            ));
        }
        match devices.usable(&link.wan) {
            Ok(_) => {}
            Err(problem) if problem.can_pass() => warn!("{problem}; waiting for it"),
            Err(problem) => return Err(problem.to_string()),
        }
        let failed = |failure: Failure| failure.message;
        let claim = Instance::claim(&link.wan).map_err(|error| failed(error.into()))?;
        self.prepare(link, claim).await.map_err(failed)
    }

    /// Runs those that were prepared, with the capabilities that are kept (none: those they have), stops those that the configuration in
    /// use no longer has, and shows them in its order.
    pub(super) fn follow(
        &mut self,
        prepared: Vec<Prepared>,
        keep: Option<&RetainedCapabilities>,
        tasks: &mut JoinSet<Ended>,
    ) {
        for Prepared { thread, entry, .. } in prepared {
            let asked = entry.stop.subscribe();
            let Some(running) = thread.begin(keep.cloned()) else { continue };
            tasks.spawn(async move {
                running.ended().await;
                // The sender is gone where the whole agent ends.
                if *asked.borrow() || asked.has_changed().is_err() { Ended::AsAsked } else { Ended::Early }
            });
            self.running.push(entry);
        }
        let configured = self.active.borrow().config.links.clone();
        let place = |entry: &RunningLink| configured.iter().position(|link| link.is_same(&entry.link));
        for RunningLink { link, stop, .. } in self.running.extract_if(.., |entry| place(entry).is_none()) {
            info!(link = link.name, "no longer in the configuration");
            stop.send_replace(true);
            self.leaving.push(stop);
        }
        self.running.sort_by_key(|entry| place(entry));
        self.board.show(self.running.iter().map(|entry| entry.snapshots.clone()).collect());
    }

    /// Tells every link to end.
    pub(super) fn stop(&self) {
        for entry in &self.running {
            entry.stop.send_replace(true);
        }
    }
}
