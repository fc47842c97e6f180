//! COBALT without BLUE, which is CoDel (`cobalt_should_drop`, `cobalt_queue_empty`). Nothing is marked: ECN is off.

use super::super::packet::Time;

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
}

impl Cobalt {
    /// Whether a frame that has waited for `sojourn` is to be dropped.
    pub(super) fn should_drop(&mut self, parameters: &Parameters, now: Time, sojourn: Time) -> bool {
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
        if self.count == 0 {
            self.drop_next = now + parameters.interval;
        } else if overdue && !drops {
            self.drop_next = now;
        }
        drops
    }

    /// The queue was looked at and had nothing.
    pub(super) fn queue_empty(&mut self, parameters: &Parameters, now: Time) {
        self.dropping = false;
        if self.count > 0 && now >= self.drop_next {
            self.count -= 1;
            self.advance(parameters);
        }
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
mod tests;
