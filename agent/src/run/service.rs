//! What the service manager hears (sd_notify(3)): ready, reloading, stopping, alive. Without one, nothing is said.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sd_notify::NotifyState;
use tokio::sync::watch;
use tracing::{debug, warn};

use crate::snapshot::Board;

/// A link that was not read for this long hangs. Readings are due ten times a second.
const STUCK: Duration = Duration::from_secs(10);

/// Programs are attached or wait for their device, and the listener answers.
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
    let mut pulse = Pulse::new(board, Instant::now());
    loop {
        tokio::select! {
            _ = stopping.wait_for(|stop| *stop) => return,
            _ = beat.tick() => {
                if pulse.is_alive(Instant::now()) {
                    say(&[NotifyState::Watchdog]);
                } else {
                    warn!("a link was not read for {} s: the service manager is not told that all is well", STUCK.as_secs());
                }
            }
        }
    }
}

/// Whether the links' tasks still publish.
struct Pulse {
    board: Board,
    seen: HashMap<Arc<str>, (u64, Instant)>,
}

impl Pulse {
    fn new(board: Board, now: Instant) -> Self {
        let seen = board.snapshots().iter().map(|link| (Arc::clone(&link.name), (0, now))).collect();
        Self { board, seen }
    }

    fn is_alive(&mut self, now: Instant) -> bool {
        let links = self.board.snapshots();
        self.seen.retain(|name, _| links.iter().any(|link| link.name == *name));
        for link in &links {
            let (samples, at) = self.seen.entry(Arc::clone(&link.name)).or_insert((0, now));
            // A link whose device is gone is not read, and needs no reading.
            if link.samples != *samples || link.hooks.is_none() {
                (*samples, *at) = (link.samples, now);
            }
        }
        self.seen.values().all(|(_, at)| now.duration_since(*at) < STUCK)
    }
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!("the service manager could not be told: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::example;

    #[test]
    fn a_link_that_is_no_longer_read_has_no_pulse() {
        let start = Instant::now();
        let board = example::board(vec![example::link("dsl")]);
        let mut pulse = Pulse::new(board, start);
        assert!(pulse.is_alive(start));
        assert!(pulse.is_alive(start + STUCK / 2));
        assert!(!pulse.is_alive(start + STUCK));
    }

    #[test]
    fn a_link_that_waits_for_its_device_is_well() {
        let start = Instant::now();
        let mut waiting = example::link("dsl");
        waiting.hooks = None;
        let mut pulse = Pulse::new(example::board(vec![waiting]), start);
        assert!(pulse.is_alive(start + 10 * STUCK));
    }
}
