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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_counts_jiffies_of_4_ms_from_a_moment_of_its_own() {
        let clock = Jiffies { offset: MILLISECOND };
        assert_eq!([0, 3 * MILLISECOND - 1, 3 * MILLISECOND].map(|now| clock.jiffy(now)), [0, 0, 1]);
        assert_eq!([0, 1, 2].map(|jiffy| clock.moment(jiffy)), [0, 3 * MILLISECOND, 7 * MILLISECOND]);
        assert_eq!([0, 1, JIFFY, JIFFY + 1].map(|time| clock.of_duration(time)), [0, 1, 1, 2]);
        assert_eq!((clock.of_millis(40), clock.duration(2)), (10, 8 * MILLISECOND));
        // From the middle of a jiffy: at the end of the next one.
        assert_eq!(clock.deadline(5 * MILLISECOND, JIFFY), 7 * MILLISECOND);
        let mut random = fastrand::Rng::with_seed(1);
        let offsets: Vec<Time> = (0..100).map(|_| Jiffies::at(&mut random).offset).collect();
        assert!(
            offsets.iter().all(|offset| *offset < JIFFY) && offsets.iter().any(|offset| *offset > JIFFY / 2)
        );
    }
}
