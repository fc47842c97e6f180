//! What passed and when it left the buffer behind: how fast that buffer is served, and what stands in it now.

use std::collections::VecDeque;

/// For so long what passed is remembered, seconds.
const REMEMBERED: f64 = 4.0;

/// The service is measured over a stretch that is long enough for so many full packets.
const STRETCH_PACKETS: f64 = 12.0;
/// A shorter one, or one with fewer packets, tells nothing.
const LEAST: f64 = 0.04;
const LEAST_PACKETS: f64 = 4.0;

/// A full packet on Ethernet, bytes.
pub(super) const FULL: f64 = 1514.0;

/// A packet of which it is known when it left the buffer.
#[derive(Clone, Copy, Debug)]
struct Served {
    passed: f64,
    left: f64,
    /// Bytes that had passed up to and with it.
    sum: f64,
}

/// How the buffer was served over a stretch of time: bytes per second, seconds; and by how much longer the newest packet of it waited than the
/// oldest, seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Service {
    pub(super) rate: f64,
    pub(super) seconds: f64,
    pub(super) grown: f64,
}

/// What passed the point of measurement. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Passage {
    /// When, and the bytes that had passed then.
    log: VecDeque<(f64, f64)>,
    sum: f64,
    served: VecDeque<Served>,
}

impl Passage {
    /// So many bytes pass. In the order of time; what comes out of it counts as of the newest time.
    pub(super) fn pass(&mut self, at: f64, bytes: f64) {
        let at = self.log.back().map_or(at, |(newest, _)| at.max(*newest));
        self.sum += bytes;
        self.log.push_back((at, self.sum));
        while self.log.front().is_some_and(|(oldest, _)| *oldest < at - REMEMBERED) {
            self.log.pop_front();
        }
    }

    /// What was known of the buffer does not hold any more.
    pub(super) fn without_served(self) -> Self {
        Self { served: VecDeque::new(), ..self }
    }

    /// Bytes that had passed by then.
    pub(super) fn sum_at(&self, at: f64) -> f64 {
        let index = self.log.partition_point(|(passed, _)| *passed <= at);
        match index.checked_sub(1).and_then(|before| self.log.get(before)) {
            Some((_, sum)) => *sum,
            // Older than what is remembered.
            None => self.log.front().map_or(self.sum, |(_, sum)| *sum),
        }
    }

    /// What passed at `passed` left the buffer at `left`; `sum` had passed with it. An answer that was held back shows by the next
    /// one: the buffer is first in, first out.
    pub(super) fn serve(&mut self, passed: f64, left: f64, sum: f64) {
        for earlier in self.served.iter_mut().rev() {
            if earlier.passed > passed || earlier.left <= left {
                break;
            }
            earlier.left = left;
        }
        if self.served.back().is_none_or(|newest| newest.passed < passed) {
            self.served.push_back(Served { passed, left, sum });
        }
        while self.served.front().is_some_and(|oldest| oldest.passed < passed - REMEMBERED) {
            self.served.pop_front();
        }
    }

    /// How the buffer was served over the newest `stretch` of seconds, or less, in which each packet waited for longer than `wait` seconds;
    /// `None` if that tells nothing. `rate`: what is known of it, bytes per second.
    pub(super) fn service(&self, stretch: f64, wait: f64, rate: f64) -> Option<Service> {
        let newest = self.served.back().filter(|newest| newest.left - newest.passed > wait)?;
        let stretch = stretch.max(STRETCH_PACKETS * FULL / rate.max(1.0));
        let since = |seconds: f64| {
            let waits_since =
                move |it: &&Served| it.left - it.passed > wait && it.left >= newest.left - seconds;
            self.served.iter().rev().take_while(waits_since)
        };
        let oldest = since(stretch).last()?;
        let wait_of = |it: &Served| it.left - it.passed;
        let (seconds, bytes) = (newest.left - oldest.left, newest.sum - oldest.sum);
        (seconds >= LEAST && bytes >= LEAST_PACKETS * FULL).then(|| Service {
            rate: bytes / seconds,
            seconds,
            grown: wait_of(newest) - wait_of(oldest),
        })
    }

    /// When the newest packet that was answered for had passed, and when it left the buffer.
    pub(super) fn newest(&self) -> Option<(f64, f64)> {
        self.served.back().map(|newest| (newest.passed, newest.left))
    }

    /// Bytes that stand behind at `now`, at a service of `rate`: what passed since the newest packet of which it is known when it
    /// left, less what has been served since.
    pub(super) fn standing(&self, now: f64, rate: f64) -> f64 {
        let Some(newest) = self.served.back() else { return 0.0 };
        (self.sum - newest.sum - rate * (now - newest.left)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet each 10 ms, of which each waits for so long.
    fn served(waits: impl IntoIterator<Item = f64>) -> Passage {
        let mut passage = Passage::default();
        for (number, wait) in waits.into_iter().enumerate() {
            let at = number as f64 * 0.01;
            passage.pass(at, FULL);
            passage.serve(at, at + wait, passage.sum_at(at));
        }
        passage
    }

    #[test]
    fn what_leaves_while_a_queue_stands_is_the_service() {
        // Each leaves 20 ms after the one before.
        let passage = served((0..50).map(|number| 0.02 + f64::from(number) * 0.01));
        let service = passage.service(0.4, 0.01, 1e6).expect("measured");
        assert!((service.rate / (FULL / 0.02) - 1.0).abs() < 1e-9, "{service:?}");
        assert!((service.seconds - 0.4).abs() < 0.021, "{service:?}");
        // Half of the time each of them waited for longer than the one before.
        assert!((service.grown - 0.2).abs() < 0.011, "{service:?}");
        // On a slow link, as long as it takes for twelve packets.
        let slow = passage.service(0.1, 0.01, FULL / 0.02).expect("measured");
        assert!((0.22..0.25).contains(&slow.seconds), "{slow:?}");
    }

    #[test]
    fn without_a_queue_nothing_is_measured() {
        assert!(served([0.005; 50]).service(0.4, 0.01, 1e6).is_none());
        // Three packets that waited are too few.
        let few = (0..50).map(|number| if number < 47 { 0.005 } else { 0.05 });
        assert!(served(few).service(0.4, 0.01, 1e6).is_none());
    }

    #[test]
    fn what_stands_is_what_passed_since_less_what_was_served() {
        let mut passage = served([0.03; 10]);
        // The newest passed at 90 ms and left at 120 ms; since then five more.
        (10..15).for_each(|number| passage.pass(f64::from(number) * 0.01, FULL));
        let standing = passage.standing(0.16, FULL / 0.02);
        assert!((standing - 3.0 * FULL).abs() < 1.0, "{standing}");
        assert_eq!(passage.standing(1.0, FULL / 0.02), 0.0);
    }
}
