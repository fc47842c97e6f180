//! The kernel's coarse clock: timers of TCP run in jiffies.

use super::packet::{MILLISECOND, Time};

/// A host's jiffies: their length, and where they begin against the run's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jiffies {
    length: Time,
    offset: Time,
}

impl Jiffies {
    /// `hertz` jiffies each second (`CONFIG_HZ`); the host's first began `offset` before the run.
    pub(super) fn new(hertz: u64, offset: Time) -> Self {
        let length = 1_000 * MILLISECOND / hertz;
        Self { length, offset: offset % length }
    }

    /// The jiffy that a moment lies in.
    pub(super) fn jiffy(self, now: Time) -> u64 {
        (now + self.offset) / self.length
    }

    /// When a jiffy begins; a timer set for it fires then.
    pub(super) fn moment(self, jiffy: u64) -> Time {
        (jiffy * self.length).saturating_sub(self.offset)
    }

    /// Jiffies of a duration, rounded up as `usecs_to_jiffies` does.
    pub(super) fn of_duration(self, duration: Time) -> u64 {
        duration.div_ceil(self.length)
    }

    pub(super) fn of_millis(self, millis: u64) -> u64 {
        self.of_duration(millis * MILLISECOND)
    }

    pub(super) fn duration(self, jiffies: u64) -> Time {
        jiffies * self.length
    }

    /// The moment at which a timer fires that is set now for a duration.
    pub(super) fn deadline(self, now: Time, duration: Time) -> Time {
        self.moment(self.jiffy(now) + self.of_duration(duration))
    }
}
