//! A wait that stays where a queue would have drained is none: the route has become longer.

use super::heard::Heard;

/// A wait that has not fallen to this share of itself when the queue would be empty …
const STAYED: f64 = 0.7;
/// … for half of its length, and this, seconds, …
const EMPTY_FOR: f64 = 0.05;
/// … and in the answers of so many decisions, is no queue.
const DECISIONS: u32 = 5;
/// A wait that is longer than this many times what it was grows: that is what a queue does.
const GROWN: f64 = 1.1;

/// A wait that ought to drain.
#[derive(Clone, Copy, Debug)]
struct Episode {
    wait: f64,
    /// When what met it had passed, and how much had passed then.
    passed: f64,
    sum: f64,
    /// The link's rate as known then, bytes per second.
    capacity: f64,
    decisions: u32,
}

/// Tells a longer route from a queue. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Route {
    episode: Option<Episode>,
}

impl Route {
    /// Nothing waits.
    pub(super) fn clear(&mut self) {
        self.episode = None;
    }

    /// A wait was heard of; `sum`: bytes that had passed up to the newest packet that met it. If it is the route's: the link's rate as
    /// known before.
    ///
    /// What the downlink's senders do is not known: there a longer route is seen by nothing but a lower bound.
    pub(super) fn found(&mut self, heard: Heard, sum: f64) -> Option<f64> {
        let episode = self.episode.as_mut()?;
        if heard.wait < STAYED * episode.wait {
            // It drains.
            self.episode = None;
            return None;
        }
        episode.decisions += 1;
        let spare = heard.passed - episode.passed - (sum - episode.sum) / episode.capacity - episode.wait;
        let is_route = episode.decisions >= DECISIONS && spare > EMPTY_FOR.max(episode.wait / 2.0);
        is_route.then_some(episode.capacity)
    }

    /// The same wait is a queue so far.
    pub(super) fn watch(&mut self, heard: Heard, sum: f64, capacity: Option<f64>) {
        if self.episode.is_some_and(|episode| heard.wait <= GROWN * episode.wait) {
            return;
        }
        let Some(capacity) = capacity else { return };
        self.episode = Some(Episode { wait: heard.wait, passed: heard.passed, sum, capacity, decisions: 0 });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits that are heard of each tenth of a second, while half of the link's 100 kB/s is sent. The rates that were found to be known
    /// where a route was.
    fn found(waits: &[f64]) -> Vec<f64> {
        let mut route = Route::default();
        let mut found = Vec::new();
        for (tick, wait) in waits.iter().enumerate() {
            let passed = tick as f64 * 0.1;
            let (heard, sum) = (Heard::new(*wait, passed, None), passed * 50e3);
            found.extend(route.found(heard, sum));
            route.watch(heard, sum, Some(100e3));
        }
        found
    }

    #[test]
    fn a_wait_that_stays_is_a_route() {
        assert!(found(&[0.1; 5]).is_empty(), "too few to tell");
        assert_eq!(found(&[0.1; 8])[0], 100e3);
        // It would have taken a second to drain.
        assert!(found(&[0.5; 16]).is_empty());
        assert!(!found(&[0.5; 17]).is_empty());
    }

    #[test]
    fn a_wait_that_falls_or_grows_is_a_queue() {
        let falls: Vec<f64> = (0..40).map(|tick| 0.5 * 0.9f64.powi(tick)).collect();
        assert!(found(&falls).is_empty());
        let grows: Vec<f64> = (0..40).map(|tick| 0.02 * 1.12f64.powi(tick)).collect();
        assert!(found(&grows).is_empty());
        // A link that slows down while its queue drains: it falls, and grows again.
        let waves: Vec<f64> = (0..40).map(|tick| [0.05, 0.04, 0.03, 0.04][tick % 4]).collect();
        assert!(found(&waves).is_empty());
    }
}
