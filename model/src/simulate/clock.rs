//! The kernel's coarse clock: timers of TCP run in jiffies.

use super::packet::{MILLISECOND, SECOND, Time};

/// Jiffies each second (`CONFIG_HZ`), as Debian's kernels have them, and the length of one.
pub(super) const HERTZ: u64 = 250;
const JIFFY: Time = SECOND / HERTZ;

/// A host's jiffies: where they begin against the run's time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Jiffies {
    offset: Time,
}

impl Jiffies {
    /// The host's first began at any moment before the run.
    pub(super) fn at(random: &mut fastrand::Rng) -> Self {
        Self { offset: random.u64(0..JIFFY) }
    }

    /// The jiffy that a moment lies in.
    pub(super) fn jiffy(self, now: Time) -> u64 {
        (now + self.offset) / JIFFY
    }

    /// When a jiffy begins; a timer set for it fires then.
    pub(super) fn moment(self, jiffy: u64) -> Time {
        (jiffy * JIFFY).saturating_sub(self.offset)
    }

    /// Jiffies of a duration, rounded up as `usecs_to_jiffies` does.
    pub(super) fn of_duration(self, duration: Time) -> u64 {
        duration.div_ceil(JIFFY)
    }

    pub(super) fn of_millis(self, millis: u64) -> u64 {
        self.of_duration(millis * MILLISECOND)
    }

    pub(super) fn duration(self, jiffies: u64) -> Time {
        jiffies * JIFFY
    }

    /// The moment at which a timer fires that is set now for a duration.
    pub(super) fn deadline(self, now: Time, duration: Time) -> Time {
        self.moment(self.jiffy(now) + self.of_duration(duration))
    }
}
