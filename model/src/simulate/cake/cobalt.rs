//! COBALT: CoDel with BLUE (`cobalt_should_drop`, `cobalt_queue_full`, `cobalt_queue_empty`). Nothing is marked: ECN is off.

use super::super::packet::Time;

/// `p_inc` and `p_dec`: 1/256 and 1/4096.
const BLUE_UP: u32 = 1 << 24;
const BLUE_DOWN: u32 = 1 << 20;

/// `cobalt_params`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Parameters {
    /// Frames may stand for so long.
    pub(super) target: Time,
    /// The first drop comes so long after that, further ones sooner and sooner.
    pub(super) interval: Time,
    /// How long the link takes for a full frame. Four of them may always stand.
    pub(super) frame: Time,
}

impl Parameters {
    /// `cake_set_rate`: on a slow link the target is one and a half full frames, which take `frame` nanoseconds each, and the interval grows with it.
    pub(super) fn new(frame: f64, target: Time, interval: Time) -> Self {
        let frame = frame as Time;
        let least = target;
        let target = (frame * 3 / 2).max(least);
        Self { target, interval: (interval + target - least).max(2 * target), frame }
    }
}

/// `cobalt_vars`, of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cobalt {
    count: u32,
    /// `rec_inv_sqrt`: 1/√count. The kernel begins with 0: the first drop of a new queue does not wait for an interval.
    inverse_root: f64,
    drop_next: Time,
    dropping: bool,
    /// BLUE: the share of frames that are dropped whatever they waited, of 2³².
    share: u32,
    blue_timer: Time,
}

impl Cobalt {
    /// Whether a frame that has waited for `sojourn` is to be dropped.
    pub(super) fn should_drop(
        &mut self,
        parameters: &Parameters,
        now: Time,
        sojourn: Time,
        random: &mut fastrand::Rng,
    ) -> bool {
        let mut overdue = now > self.drop_next;
        let mut due = self.count > 0 && now >= self.drop_next;
        let over_target = sojourn > parameters.target && sojourn > 4 * parameters.frame;
        if over_target {
            if !self.dropping {
                self.drop_next = self.after(now, parameters);
            }
            self.count = self.count.max(1);
        }
        self.dropping = over_target;
        let mut drops = false;
        if due && self.dropping {
            drops = true;
            self.count = self.count.saturating_add(1);
            self.advance(parameters);
            overdue = now > self.drop_next;
        } else {
            while due {
                self.count -= 1;
                self.advance(parameters);
                overdue = now > self.drop_next;
                due = self.count > 0 && now >= self.drop_next;
            }
        }
        if self.share > 0 {
            drops |= random.u32(..) < self.share;
        }
        if self.count == 0 {
            self.drop_next = now + parameters.interval;
        } else if overdue && !drops {
            self.drop_next = now;
        }
        drops
    }

    /// A frame was dropped since the memory is full.
    pub(super) fn queue_full(&mut self, parameters: &Parameters, now: Time) {
        if now.saturating_sub(self.blue_timer) > parameters.target {
            self.share = self.share.saturating_add(BLUE_UP);
            self.blue_timer = now;
        }
        self.dropping = true;
        self.drop_next = now;
        self.count = self.count.max(1);
    }

    /// The queue was looked at and had nothing.
    pub(super) fn queue_empty(&mut self, parameters: &Parameters, now: Time) {
        if self.share > 0 && now.saturating_sub(self.blue_timer) > parameters.target {
            self.share = self.share.saturating_sub(BLUE_DOWN);
            self.blue_timer = now;
        }
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.advance(parameters);
        }
    }

    /// Whether nothing is left to remember.
    pub(super) fn is_at_rest(&self, now: Time) -> bool {
        self.share == 0 && self.count == 0 && now >= self.drop_next
    }

    /// `cobalt_invsqrt` and `cobalt_control`: the next drop is interval/√count after the last one.
    fn advance(&mut self, parameters: &Parameters) {
        self.inverse_root = 1.0 / f64::from(self.count.max(1)).sqrt();
        self.drop_next = self.after(self.drop_next, parameters);
    }

    fn after(&self, moment: Time, parameters: &Parameters) -> Time {
        moment + (parameters.interval as f64 * self.inverse_root) as Time
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::packet::MILLISECOND;
    use super::*;

    const MS: Time = MILLISECOND;

    fn parameters() -> Parameters {
        // 10 Mb/s: 1,514 bytes take 1.2112 ms, four of them less than the target of 5 ms.
        Parameters::new(1_211_200.0, 5 * MS, 100 * MS)
    }

    /// When frames are dropped that leave each millisecond and have all waited for `sojourn`.
    fn drops(cobalt: &mut Cobalt, from: Time, to: Time, sojourn: Time) -> Vec<Time> {
        let mut random = fastrand::Rng::with_seed(1);
        (from..to).filter(|ms| cobalt.should_drop(&parameters(), ms * MS, sojourn, &mut random)).collect()
    }

    #[test]
    fn a_slow_link_has_a_longer_target_and_interval() {
        assert_eq!((parameters().target, parameters().interval), (5 * MS, 100 * MS));
        // 196 kb/s: a frame takes 61.8 ms, so the target is 92.7 ms and the interval 100 + 92.7 - 5 = 187.7 ms.
        let slow = Parameters::new(61_800_000.0, 5 * MS, 100 * MS);
        assert_eq!((slow.target, slow.interval), (92_700_000, 187_700_000));
        // 64 kb/s: 189.25 ms and 283.875 ms; twice the target is more than 378.875 ms.
        let slower = Parameters::new(189_250_000.0, 5 * MS, 100 * MS);
        assert_eq!((slower.target, slower.interval), (283_875_000, 567_750_000));
    }

    #[test]
    fn drops_follow_the_control_law() {
        // A queue that has seen traffic before: it has come to rest, with 1/√count at 1.
        let mut cobalt = Cobalt { inverse_root: 1.0, ..Cobalt::default() };
        assert!(drops(&mut cobalt, 1_000, 1_010, 2 * MS).is_empty());
        // Over the target from 1,010 ms on: 100 ms later the first drop, then 100/√2 = 70.7, 100/√3 = 57.7 and 100/√4 = 50 ms after each other.
        assert_eq!(drops(&mut cobalt, 1_010, 1_300, 20 * MS), [1_110, 1_181, 1_239, 1_289]);
    }

    #[test]
    fn the_first_drop_of_a_new_queue_does_not_wait() {
        let dropped = drops(&mut Cobalt::default(), 1_000, 1_090, 20 * MS);
        // At once, and then interval/√2 later.
        assert_eq!(dropped, [1_001, 1_071]);
    }

    #[test]
    fn what_waits_for_less_than_four_frames_is_never_dropped() {
        let mut random = fastrand::Rng::with_seed(1);
        // 1 Mb/s: a frame takes 12.112 ms, the target is 18.2 ms, four frames 48.4 ms.
        let slow = Parameters::new(12_112_000.0, 5 * MS, 100 * MS);
        let mut cobalt = Cobalt::default();
        let mut drops =
            |sojourn| (1_000..3_000).any(|ms| cobalt.should_drop(&slow, ms * MS, sojourn, &mut random));
        assert!(!drops(48 * MS));
        assert!(drops(49 * MS));
    }

    #[test]
    fn the_count_falls_while_queues_are_short() {
        let mut cobalt = Cobalt { inverse_root: 1.0, ..Cobalt::default() };
        drops(&mut cobalt, 1_000, 2_000, 20 * MS);
        let before = cobalt.count;
        assert!(before > 10, "{before}");
        assert!(drops(&mut cobalt, 2_000, 2_200, MS).is_empty());
        assert!(cobalt.count < before, "{} of {before}", cobalt.count);
        assert!(drops(&mut cobalt, 2_200, 6_000, MS).is_empty());
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn blue_rises_by_a_256th_when_memory_is_full_and_falls_by_a_4096th() {
        let mut cobalt = Cobalt::default();
        // Not more often than once in a target.
        for ms in [100, 102, 104, 106, 107] {
            cobalt.queue_full(&parameters(), ms * MS);
        }
        assert_eq!(cobalt.share, 2 * BLUE_UP);
        let mut random = fastrand::Rng::with_seed(7);
        let mut dropped = 0;
        for ms in 200..200_200 {
            dropped += u32::from(cobalt.should_drop(&parameters(), ms * MS, 0, &mut random));
        }
        // 2/256 of 200,000 are 1,563, with a deviation of 39.
        assert!((1_400..1_720).contains(&dropped), "{dropped}");
        for step in 1..=32 {
            assert!(!cobalt.is_at_rest((300_000 + step * 6) * MS));
            cobalt.queue_empty(&parameters(), (300_000 + step * 6) * MS);
        }
        assert_eq!(cobalt.share, 0);
    }
}
