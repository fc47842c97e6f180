//! Removes what a run has made, and nothing else.

use crate::netns::{Namespace, NetnsError};
use crate::record::{RecordError, Registry, RunId, RunRecord};

/// Why something of a run could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// A namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A process.
    #[error(
        "process {pid} of lab run {run} does not end after SIGKILL; it is stuck in the kernel, see /proc/{pid}/stack"
    )]
    Stuck {
        /// Its number.
        pid: u32,
        /// The run that started it.
        run: RunId,
    },
}

/// Ends the run's processes, removes its namespaces (and with them every device, address, route and queue), then forgets it.
///
/// Goes on after a failure, so that one stuck thing does not keep the rest; the record stays if anything failed, so that
/// the next start tries again.
///
/// # Errors
/// The first thing that could not be removed.
pub fn remove_run(record: &RunRecord) -> Result<(), CleanupError> {
    let mut first = Ok(());
    let mut note = |result: Result<(), CleanupError>| {
        if first.is_ok() {
            first = result;
        }
    };
    for process in record.processes() {
        if !process.kill() {
            note(Err(CleanupError::Stuck { pid: process.pid, run: record.id().clone() }));
        }
    }
    for name in record.namespaces() {
        let namespace = Namespace::named(name);
        if namespace.exists() {
            note(namespace.delete().map_err(CleanupError::from));
        }
    }
    first?;
    Ok(record.remove()?)
}

/// Removes what dead runs have left and returns their ids. Living runs are not touched.
///
/// # Errors
/// The first thing that could not be removed.
pub fn remove_leftovers(registry: &Registry) -> Result<Vec<RunId>, CleanupError> {
    let mut removed = Vec::new();
    for record in registry.runs()? {
        if !record.is_alive() {
            remove_run(&record)?;
            removed.push(record.id().clone());
        }
    }
    Ok(removed)
}
