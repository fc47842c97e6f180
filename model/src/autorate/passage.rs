//! What passed and when it left the buffer behind: how fast that buffer is served, and what stands in it now.

use std::collections::VecDeque;

/// For so long what passed is remembered, seconds.
const REMEMBERED: f64 = 4.0;

/// The service is measured over the newest stretch of this length, seconds, …
const STRETCH: f64 = 0.4;
/// … or as long as it takes for so many full packets, if that is more.
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

    /// Bytes per second that the buffer was served with over the newest stretch in which each packet waited for longer than `wait`
    /// seconds; none if that is too short.
    pub(super) fn served_rate(&self, wait: f64, rate: f64) -> Option<f64> {
        let newest = self.served.back().filter(|newest| newest.left - newest.passed > wait)?;
        let stretch = STRETCH.max(STRETCH_PACKETS * FULL / rate.max(1.0));
        let oldest = self
            .served
            .iter()
            .rev()
            .take_while(|it| it.left - it.passed > wait && it.left >= newest.left - stretch)
            .last()?;
        let (time, bytes) = (newest.left - oldest.left, newest.sum - oldest.sum);
        (time >= LEAST && bytes >= LEAST_PACKETS * FULL).then(|| bytes / time)
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
