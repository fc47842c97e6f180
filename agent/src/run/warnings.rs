//! How often a link's task repeats itself: attempts that fail, and warnings about them.

use std::time::{Duration, Instant};

use tracing::warn;

use crate::config::LinkConfig;

/// First pause after a failed attachment; doubled each time, up to the last.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// When to try again after a failure.
pub(super) struct Retry {
    pub(super) pause: Duration,
    at: Option<Instant>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { pause: FIRST_RETRY, at: None }
    }
}

impl Retry {
    /// Whether it is time to try again.
    pub(super) fn is_due(&self) -> bool {
        self.at.is_some_and(|at| Instant::now() >= at)
    }

    /// The attempt failed.
    pub(super) fn postpone(&mut self) {
        self.at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(LAST_RETRY);
    }
}

/// Tells when a full table forgets flows: at most once a minute, and metrics count each.
#[derive(Default)]
pub(super) struct Evictions {
    reported: u64,
    at: Option<Instant>,
}

impl Evictions {
    const PAUSE: Duration = Duration::from_secs(60);

    /// So many flows were forgotten since the start.
    pub(super) fn tell(&mut self, evicted: u64, now: Instant, config: &LinkConfig) {
        let Some(flows) = self.unreported(evicted, now) else { return };
        warn!(
            link = config.name,
            flows,
            "the flow table is full (max-flows = {}) and forgot flows that were least active; raise max-flows",
            config.max_flows
        );
    }

    /// How many of them are to be reported now.
    fn unreported(&mut self, evicted: u64, now: Instant) -> Option<u64> {
        if evicted == self.reported || self.at.is_some_and(|at| now.duration_since(at) < Self::PAUSE) {
            return None;
        }
        self.at = Some(now);
        Some(evicted - std::mem::replace(&mut self.reported, evicted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_become_rarer_down_to_one_in_half_a_minute() {
        let mut retry = Retry::default();
        assert!(!retry.is_due(), "nothing has failed");
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                let pause = retry.pause;
                retry.postpone();
                pause.as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(!retry.is_due(), "30 s from now");
        retry.at = Some(Instant::now());
        assert!(retry.is_due());
    }

    #[test]
    fn forgotten_flows_are_reported_at_most_once_a_minute_and_each_of_them_once() {
        let (mut evictions, start) = (Evictions::default(), Instant::now());
        for (second, evicted, reported) in
            [(0, 0, None), (1, 5, Some(5)), (2, 7, None), (60, 7, None), (61, 9, Some(4)), (200, 9, None)]
        {
            let now = start + Duration::from_secs(second);
            assert_eq!(evictions.unreported(evicted, now), reported, "after {second} s");
        }
    }
}
