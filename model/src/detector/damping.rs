//! What keeps a verdict from coming and going while the traffic stays the same: each time it is given up, a return to it takes longer, and with
//! time that is forgiven. The idea is route flap damping's (RFC 2439 §2).

use std::time::Duration;

use crate::findings::Verdict;

/// A return takes so many times as long for each time the verdict was given up …
const LONGER: f64 = 8.0;

/// … of which half is forgiven after this time in which it did not ask to …
const HALF_LIFE: Duration = Duration::from_secs(600);

/// … and never longer than this.
const LONGEST: Duration = Duration::from_secs(300);

/// A rest of a penalty that changes nothing.
const FORGIVEN: f64 = 0.1;

/// The penalty of each verdict for having been given up.
#[derive(Clone, Debug, Default)]
pub(super) struct Damping {
    penalties: [Penalty; Verdict::COUNT],
}

#[derive(Clone, Copy, Debug, Default)]
struct Penalty {
    /// Times it was given up, faded.
    times: f64,
    at: Duration,
}

impl Penalty {
    fn at(&self, now: Duration) -> f64 {
        let half_lives = now.saturating_sub(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.times * (-half_lives).exp2()
    }
}

impl Damping {
    /// A verdict is given up for another one about the same traffic.
    pub(super) fn give_up(&mut self, verdict: Verdict, now: Duration) {
        let penalty = &mut self.penalties[verdict as usize];
        *penalty = Penalty { times: penalty.at(now) + 1.0, at: now };
    }

    /// It has been asking to return since then, and is put off: meanwhile nothing is forgiven.
    pub(super) fn put_off(&mut self, verdict: Verdict, since: Duration, now: Duration) {
        let penalty = &mut self.penalties[verdict as usize];
        *penalty = Penalty { times: penalty.at(since), at: now };
    }

    /// Other traffic: nothing that was said before counts.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// How long a verdict must hold: as long as is usual, or longer after it was given up. A lock is never put off: that something starves is what
    /// must not be overlooked. `degree`: what is usual between verdicts that differ by degree.
    pub(super) fn dwell(
        &self,
        verdict: Verdict,
        now: Duration,
        usual: Duration,
        degree: Duration,
    ) -> Duration {
        let times = self.penalties[verdict as usize].at(now);
        if times < FORGIVEN || matches!(verdict, Verdict::LockedUplink | Verdict::LockedDownlink) {
            return usual;
        }
        let longer = usual.max(degree).as_secs_f64() * LONGER.powf(times);
        Duration::try_from_secs_f64(longer).unwrap_or(LONGEST).min(LONGEST).max(usual)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dwell(damping: &Damping, verdict: Verdict, second: u64) -> f64 {
        let (usual, degree) = (Duration::from_secs(2), Duration::from_secs(3));
        damping.dwell(verdict, Duration::from_secs(second), usual, degree).as_secs_f64()
    }

    #[test]
    fn a_return_takes_longer_each_time_and_is_forgiven() {
        let mut damping = Damping::default();
        assert_eq!(dwell(&damping, Verdict::Swinging, 0), 2.0);
        damping.give_up(Verdict::Swinging, Duration::from_secs(10));
        // 3 s · 8; after a half-life 3 s · √8; the other verdicts as usual.
        assert!((dwell(&damping, Verdict::Swinging, 10) - 24.0).abs() < 1e-6);
        assert!((dwell(&damping, Verdict::Swinging, 610) - 3.0 * 8.0_f64.sqrt()).abs() < 1e-6);
        assert_eq!(dwell(&damping, Verdict::Balanced, 10), 2.0);
        // 3 s · 8², then the longest.
        damping.give_up(Verdict::Swinging, Duration::from_secs(10));
        assert!((dwell(&damping, Verdict::Swinging, 10) - 192.0).abs() < 1e-6);
        damping.give_up(Verdict::Swinging, Duration::from_secs(10));
        assert_eq!(dwell(&damping, Verdict::Swinging, 10), 300.0);
        // Five half-lives leave 3/32 of a time.
        assert_eq!(dwell(&damping, Verdict::Swinging, 3_010), 2.0);
        damping.forget();
        assert_eq!(dwell(&damping, Verdict::Swinging, 10), 2.0);
    }

    #[test]
    fn nothing_is_forgiven_while_it_asks() {
        let mut damping = Damping::default();
        damping.give_up(Verdict::Swinging, Duration::ZERO);
        // Half of it until 600 s, and no more while it is put off.
        for second in 600..=1_200 {
            damping.put_off(Verdict::Swinging, Duration::from_secs(600), Duration::from_secs(second));
        }
        assert!((dwell(&damping, Verdict::Swinging, 1_200) - 3.0 * 8.0_f64.sqrt()).abs() < 1e-6);
    }

    #[test]
    fn locks_take_as_long_as_ever() {
        let mut damping = Damping::default();
        for verdict in [Verdict::LockedUplink, Verdict::LockedDownlink] {
            damping.give_up(verdict, Duration::ZERO);
            assert_eq!(dwell(&damping, verdict, 0), 2.0);
        }
    }
}
