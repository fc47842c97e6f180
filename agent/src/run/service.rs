//! What the service manager hears (sd_notify(3)): ready, reloading, stopping, alive. Without one, nothing is said.

use std::time::Instant;

use sd_notify::NotifyState;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::snapshot::{Board, HANGS};

/// Programs are attached or wait for their device.
pub(super) fn ready() {
    say(&[NotifyState::Ready, NotifyState::Status("measuring")]);
}

/// Does `work` between the two messages that frame a reload.
pub(super) async fn reloading(work: impl Future<Output = ()>) {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => say(&[NotifyState::Reloading, now]),
        Err(error) => debug!("the monotonic clock cannot be read: {error}"),
    }
    work.await;
    ready();
}

/// The end has begun.
pub(super) fn stopping() {
    say(&[NotifyState::Stopping, NotifyState::Status("taking the programs off the devices")]);
}

/// Says "alive" twice in each watchdog interval, as long as every link's task does its work: a loop that hangs is then
/// restarted by the service manager.
pub(super) async fn watchdog(board: Board, mut stopping: watch::Receiver<bool>) {
    let Some(limit) = sd_notify::watchdog_enabled() else {
        let _ = stopping.wait_for(|stop| *stop).await;
        return;
    };
    let mut beat = tokio::time::interval(limit / 2);
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            _ = beat.tick() => {
                let now = Instant::now();
                match board.snapshots().iter().find(|link| link.hangs(now)) {
                    None => say(&[NotifyState::Watchdog]),
                    Some(link) => warn!(
                        link = &*link.name,
                        "not read for {} s: the service manager gets no keep-alive",
                        HANGS.as_secs()
                    ),
                }
            }
        }
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!("the service manager could not be notified: {error}");
    }
}
