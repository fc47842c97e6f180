//! The links that are being measured: they come and go with the configuration, and the others do not notice.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::instance::Instance;
use super::link::LinkTask;
use super::preflight::missing_capabilities;
use crate::config::{Active, LinkConfig};
use crate::exit::Failure;
use crate::journal::Journal;
use crate::net::Devices;
use crate::snapshot::{Board, LinkSnapshot};

/// Why a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was told to.
    AsTold,
    /// By itself.
    Early,
}

/// A link whose programs are attached, or that waits for its device; nobody runs it yet.
pub(super) struct Prepared {
    task: LinkTask,
    claim: Instance,
    entry: Entry,
}

/// What is kept of a link that runs.
struct Entry {
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
    board: Board,
    running: Vec<Entry>,
}

impl Prepared {
    /// How its programs are attached to the device; none while they are not.
    pub(super) fn mechanisms(&self) -> Option<[&'static str; 2]> {
        self.task.mechanisms()
    }
}

impl Links {
    /// No link yet.
    pub(super) fn new(
        journal: Journal,
        active: watch::Receiver<Active>,
        devices: watch::Receiver<Arc<Devices>>,
    ) -> Self {
        Self { journal, active, devices, board: Board::new(Vec::new()), running: Vec::new() }
    }

    /// Where their snapshots appear.
    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// Attaches to the link's device, if it is there. Dropping what comes back takes that back.
    ///
    /// # Errors
    /// The kernel refuses the programs.
    pub(super) async fn prepare(&self, link: &LinkConfig, claim: Instance) -> Result<Prepared, Failure> {
        let (mut task, snapshots) =
            LinkTask::new(link.clone(), self.journal.clone(), self.active.clone(), self.devices.clone());
        task.follow_device().await?;
        let entry = Entry { link: link.clone(), stop: watch::channel(false).0, snapshots };
        Ok(Prepared { task, claim, entry })
    }

    /// Prepares the links of a new file that can be taken over while running.
    ///
    /// # Errors
    /// One of them cannot be measured, another agent has its device, or this one no longer has the rights to attach; then
    /// none is.
    pub(super) async fn prepare_added(&self, wanted: &[LinkConfig]) -> Result<Vec<Prepared>, String> {
        let added = self.active.borrow().config.links_to_add(wanted);
        let devices = self.devices.borrow().clone();
        let missing = missing_capabilities();
        let mut prepared = Vec::new();
        for link in &added {
            if !missing.is_empty() {
                return Err(format!(
                    "link {}: the agent cannot attach to {} any more: {} {} given up after the start; restart it, with \
                     privileges.after-start = \"reattach\" if links are to be added while it runs",
                    link.name,
                    link.wan,
                    missing.join(", "),
                    if missing.len() == 1 { "was" } else { "were" }
                ));
            }
            match devices.usable(&link.wan) {
                Ok(_) => {}
                Err(problem) if problem.can_pass() => warn!("{problem}; waiting for it"),
                Err(problem) => return Err(format!("link {}: {problem}", link.name)),
            }
            let failed = |failure: Failure| format!("link {}: {}", link.name, failure.message);
            let claim = Instance::claim(&link.wan).map_err(|error| failed(error.into()))?;
            prepared.push(self.prepare(link, claim).await.map_err(failed)?);
        }
        Ok(prepared)
    }

    /// Runs those that were prepared, stops those that the configuration in use no longer has, and shows them in its order.
    pub(super) fn follow(&mut self, prepared: Vec<Prepared>, tasks: &mut JoinSet<Ended>) {
        for Prepared { task, claim, entry } in prepared {
            let stopping = entry.stop.subscribe();
            let told = entry.stop.subscribe();
            tasks.spawn(async move {
                task.run(stopping).await;
                // Only now may another agent have the device.
                drop(claim);
                // The sender is gone where the whole agent ends.
                if *told.borrow() || told.has_changed().is_err() { Ended::AsTold } else { Ended::Early }
            });
            self.running.push(entry);
        }
        let configured = self.active.borrow().config.links.clone();
        let place = |entry: &Entry| configured.iter().position(|link| link.is_same(&entry.link));
        self.running.retain(|entry| {
            let stays = place(entry).is_some();
            if !stays {
                info!(link = entry.link.name, "no longer in the configuration");
                entry.stop.send_replace(true);
            }
            stays
        });
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
