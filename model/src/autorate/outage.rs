//! Replies that do not come.

use crate::constants::{FEW, HEARD_S, HELD_BACK_S, RECENT};
use std::collections::VecDeque;

/// What was sent, and how long replies take. Times in seconds.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// Segments that were sent between two times.
    asked: VecDeque<(f64, f64, u64)>,
    usual: f64,
}

impl Outage {
    /// So many segments were sent between these times.
    pub(super) fn sent(&mut self, from: f64, to: f64, count: u64) {
        // The usual time is the longest of the last seconds.
        self.usual *= (1.0 - (to - from) / RECENT.as_secs_f64()).max(0.0);
        self.asked.push_back((from, to, count));
        while self.asked.front().is_some_and(|(_, end, _)| *end < to - 2.0 * HEARD_S) {
            self.asked.pop_front();
        }
    }

    /// The newest reply is about what left the buffer so long ago.
    pub(super) fn answered(&mut self, after: f64) {
        self.usual = after.max(self.usual);
    }

    /// Whether replies are late. `passed`, `left`: when what was acknowledged last had passed, and left the buffer. `packet`: the time that one
    /// takes at the present rate. After a while nobody may be there to reply, and in an outage TCP sends little anyway.
    pub(super) fn is_on(&self, now: f64, passed: f64, left: f64, packet: f64) -> bool {
        let usual = self.usual + packet;
        let late = now - left - usual;
        let is_late = |it: &&(f64, f64, u64)| it.0 >= passed && it.1 <= now - usual - HELD_BACK_S / 2.0;
        let segments = self.asked.iter().filter(is_late).fold(0u64, |sum, it| sum.saturating_add(it.2));
        late > HELD_BACK_S && late < HEARD_S && segments >= FEW as u64
    }
}
