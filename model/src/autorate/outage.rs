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

#[cfg(test)]
mod tests {
    use super::*;

    /// Three segments are sent at 10 s; what was acknowledged last had passed, and left, just before.
    fn asked(count: u64) -> Outage {
        let mut outage = Outage::default();
        outage.sent(9.9, 10.0, 0);
        outage.answered(0.5);
        outage.sent(10.0, 10.0, count);
        outage
    }

    #[test]
    fn three_replies_that_are_late_are_an_outage_for_three_seconds() {
        // Usual are 0.5 s and a packet of 0.1 s; 40 ms later they are late.
        let is_on = |count: u64, now: f64| asked(count).is_on(now, 10.0, 10.0, 0.1);
        assert_eq!([10.63, 10.65, 13.5, 13.7].map(|now| is_on(3, now)), [false, true, true, false]);
        assert!(!is_on(2, 11.0), "two may be lost");
        assert!(
            !asked(3).is_on(11.0, 10.5, 10.0, 0.1),
            "what was sent before the newest reply's question is none"
        );
        // Half of the 40 ms ago nothing was due that was sent 20 ms later.
        let mut outage = asked(2);
        outage.sent(10.0, 10.025, 1);
        assert_eq!([10.642, 10.648].map(|now| outage.is_on(now, 10.0, 10.0, 0.1)), [false, true]);
    }

    #[test]
    fn the_usual_time_fades_in_ten_seconds() {
        let mut outage = asked(0);
        outage.sent(10.0, 12.5, 0);
        assert!((outage.usual - 0.375).abs() < 1e-9, "{}", outage.usual);
        outage.answered(0.2);
        assert!((outage.usual - 0.375).abs() < 1e-9, "the longest counts");
        outage.sent(12.5, 30.0, 0);
        assert_eq!(outage.usual, 0.0);
    }

    #[test]
    fn what_was_sent_long_ago_is_forgotten() {
        let mut outage = asked(3);
        outage.sent(15.9, 16.0, 1);
        assert_eq!(outage.asked.len(), 3);
        outage.sent(16.0, 16.1, 1);
        assert_eq!(outage.asked.len(), 2);
    }
}
