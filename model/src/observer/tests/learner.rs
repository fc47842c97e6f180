//! The rate of a hidden buffer from what entered it and when that was served, by hand.

use super::super::learner::{Learner, Measured};
use super::super::rate::ServiceRate;

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// 300,000 bytes a second.
const RATE: f64 = 3e-4;

/// A link that always has work: each packet waits for 200 ms, the first second's for 400.
struct Link {
    learner: Learner,
    at_ns: f64,
    sum: f64,
}

impl Link {
    fn new() -> Self {
        Self { learner: Learner::default(), at_ns: 0.0, sum: 0.0 }
    }

    /// For so many seconds `rate` enters, of which `repeated` is sent again.
    fn carry(&mut self, seconds: f64, rate: f64, repeated: f64) {
        let to_ns = self.at_ns + seconds * SECOND;
        while self.at_ns < to_ns {
            let wait_ms = if self.at_ns < SECOND { 400.0 } else { 200.0 };
            let begins_ns = self.at_ns + wait_ms * MS;
            self.learner.measure(Measured { at_ns: self.at_ns, begins_ns, sum: self.sum });
            let bytes = rate * 10.0 * MS;
            self.learner.enter(bytes, repeated * bytes);
            self.sum += bytes;
            self.at_ns += 10.0 * MS;
        }
    }

    fn found(&self) -> f64 {
        self.learner.rate(ServiceRate::rate).expect("a rate") / RATE
    }
}

/// A third more than the link carries enters, and a quarter of that is sent again: it was dropped, whatever the wait is, as where a buffer counts packets and ACKs
/// fill it.
#[test]
fn what_is_sent_again_was_not_carried() {
    let mut link = Link::new();
    link.carry(20.0, RATE, 0.0);
    link.carry(20.0, RATE * 4.0 / 3.0, 0.25);
    assert!((link.found() - 1.0).abs() < 0.02, "{}", link.found());
}

/// Nothing is sent again, or little: the link has become faster.
#[test]
fn a_faster_link_is_followed() {
    for repeated in [0.0, 0.05] {
        let mut link = Link::new();
        link.carry(20.0, RATE, 0.0);
        link.carry(20.0, RATE * 2.0, repeated);
        assert!((link.found() - 2.0).abs() < 0.02, "{repeated}: {}", link.found());
    }
}
