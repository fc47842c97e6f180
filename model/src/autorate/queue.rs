//! A queue stands behind: the link's rate is measured, and what stands there drains.

use super::heard::Heard;
use super::passage::Service;
use super::{Controller, Decision, HOLD, LOST};
use crate::segment::Direction;

/// What is sent at most of what the link carries, …
const UPLINK_SHARE: f64 = 0.99;
const DOWNLINK_SHARE: f64 = 0.95;
/// … but all of it on an uplink that varies, where a queue of so many seconds may stay: while one stands, the rate is known.
const STAYS: f64 = 0.01;
/// A queue of more than so many seconds drains in [`DRAIN`], a smaller one in [`DRAIN_GENTLY`]; both less on a link that varies.
const SMALL: f64 = 0.03;
const SMALL_VARYING: f64 = 0.02;
const DRAIN: f64 = 0.1;
const DRAIN_GENTLY: f64 = 1.0;
const DRAIN_VARYING: f64 = 0.4;
/// While it drains, at least this share of the link's rate is sent, …
const DRAIN_LEAST: f64 = 0.05;
/// … or a packet each so many seconds if that is more, but never more than so much of the rate: a shaper
/// does not take back the time that it has given to a packet.
const DRAIN_PACKET: f64 = 0.19;
const DRAIN_MOST: f64 = 0.75;
/// The downlink's senders are a round trip away, and what stands there is mostly a burst of theirs: at least this share is let in, less on
/// a link that varies.
const DOWNLINK_DRAIN_LEAST: f64 = 0.85;
const DOWNLINK_DRAIN_LEAST_VARYING: f64 = 0.7;
/// The rate is measured over the newest stretch of this length, seconds; on a link that varies, of the second one.
const STRETCH: f64 = 0.4;
const STRETCH_VARYING: f64 = 0.2;
/// A rate that was measured anew and differs by less than this is the same one, measured again.
const SAME: f64 = 0.08;
/// How much of the difference is then taken over; on a link that varies, the second one.
const GAIN: f64 = 0.3;
const GAIN_VARYING: f64 = 1.0;
/// A wait that grows by so many seconds, or by so much of the time in which it does, is a queue's: how late answers are is known to no less.
const PROVES: f64 = 0.03;
const PROVES_OF: f64 = 0.08;
/// A lower rate than this share of the proven one is doubtful where no wait grows, …
const UNPROVEN: f64 = 0.95;
/// … and the rate is lowered by it to this share at most.
const DOUBTFUL: f64 = 0.85;
/// A rate is not taken for more than so many times what it was at once, or what has passed since without a queue.
const MOST_AT_ONCE: f64 = 2.0;

impl Controller {
    /// A queue stands behind. `least`: a wait of no more than this is none.
    pub(super) fn follow(&mut self, now: f64, heard: Heard, least: f64, passing: f64, lost: f64) -> Decision {
        self.hold_until = now + self.variation.hold(HOLD);
        self.raises = 0;
        let sum = self.passage.sum_at(heard.passed);
        if lost <= LOST
            && let Some(capacity) = self.route.found(heard, sum)
        {
            self.route.clear();
            self.offset += heard.wait;
            self.passage = std::mem::take(&mut self.passage).without_served();
            self.wait = Some((0.0, now));
            self.capacity = Some(capacity);
            self.set(capacity * self.share(), now);
            return Decision::Route;
        }
        let carried = 1.0 - lost.clamp(0.0, 0.5);
        let stretch = self.variation.choose(STRETCH_VARYING, STRETCH);
        let measured = self
            .passage
            .service(stretch, least / 2.0, self.capacity.unwrap_or(passing))
            .map(|it| Service { rate: it.rate * carried, ..it })
            .or_else(|| {
                // Nothing has been measured, and this much passed.
                let is_long = self.capacity.is_none() && heard.wait > 10.0 * least;
                is_long.then_some(Service { rate: 0.8 * passing, seconds: heard.wait, grown: heard.wait })
            })
            .filter(|it| it.rate.is_finite() && it.rate > 0.0);
        self.route.watch(heard, sum, self.capacity.or(measured.map(|it| it.rate)));
        if let Some(measured) = measured {
            self.learn(measured, heard.wait, least);
        }
        self.settle(now, Decision::Lower)
    }

    /// The link's rate was measured. How late the answers are varies by as much as a wait may be without a queue, `least`: what a short
    /// stretch tells is uncertain by that share of its length.
    fn learn(&mut self, measured: Service, wait: f64, least: f64) {
        let Some(known) = self.capacity else {
            (self.capacity, self.proven) = (Some(measured.rate), measured.rate);
            return;
        };
        // What a buffer that overflows drops is counted as passed.
        let most = (MOST_AT_ONCE * known).max(self.variation.peak());
        let measured = Service { rate: measured.rate.min(most), ..measured };
        let measured = match self.direction {
            Direction::Up => self.doubted(measured, wait),
            Direction::Down => measured,
        };
        let (difference, same) = ((measured.rate / known - 1.0).abs(), SAME.max(least / measured.seconds));
        if difference < SAME || difference >= same {
            self.variation.measured(measured.rate, known);
        }
        let gain = self.variation.choose(GAIN_VARYING, GAIN) * SAME / same;
        self.capacity = Some(match difference < same {
            true => known + gain * (measured.rate - known),
            false => measured.rate,
        });
    }

    /// What an uplink's measurement is taken for. Where only what was sent left, as late, no queue is seen to stand there: answers that only look
    /// late would else take away the rate, again and again. Such a measurement lowers the rate by no more than a part of what was proven, and
    /// until no packet waits.
    fn doubted(&mut self, measured: Service, wait: f64) -> Service {
        let has_grown = self.doubted_at.is_some_and(|least| wait > least + PROVES);
        if has_grown || measured.grown > PROVES.max(PROVES_OF * measured.seconds) {
            (self.proven, self.doubted_at) = (measured.rate, None);
        } else if measured.rate < UNPROVEN * self.proven {
            self.doubted_at = Some(self.doubted_at.map_or(wait, |least| least.min(wait)));
            return Service { rate: measured.rate.max(DOUBTFUL * self.proven), ..measured };
        }
        measured
    }

    /// Nothing waits behind: what was only doubtful is over.
    pub(super) fn end_doubt(&mut self) {
        if self.doubted_at.take().is_some() {
            self.capacity = self.capacity.map(|capacity| capacity.max(self.proven));
        }
    }

    /// The rate that empties what stands behind and then is the link's.
    pub(super) fn settle(&mut self, now: f64, decision: Decision) -> Decision {
        let Some(capacity) = self.capacity else { return Decision::Hold };
        let standing = match self.direction {
            Direction::Up => self.passage.standing(now, capacity) - self.stays() * capacity,
            Direction::Down => self.wait.map_or(0.0, |(wait, _)| wait * capacity),
        };
        let target = self.share() * capacity;
        let is_big = standing > self.variation.choose(SMALL_VARYING, SMALL) * capacity;
        let time = if is_big { DRAIN } else { self.variation.choose(DRAIN_VARYING, DRAIN_GENTLY) };
        self.set((target - standing / time).max(self.drained(capacity)), now);
        if is_big { Decision::Drain } else { decision }
    }

    /// The same while nobody answers: whether what stood there has drained is not known, so that no more is sent than before.
    pub(super) fn settle_unheard(&mut self, now: f64) -> Decision {
        let (rate, changed) = (self.rate, self.changed);
        let decision = self.settle(now, Decision::Drain);
        if self.rate >= rate {
            (self.rate, self.changed) = (rate, changed);
        }
        decision
    }

    /// The least that is sent while a queue drains, bytes per second.
    pub(super) fn drained(&self, capacity: f64) -> f64 {
        match self.direction {
            Direction::Up => {
                (DRAIN_LEAST * capacity).max((super::FULL / DRAIN_PACKET).min(DRAIN_MOST * capacity))
            }
            Direction::Down => {
                capacity * self.variation.choose(DOWNLINK_DRAIN_LEAST_VARYING, DOWNLINK_DRAIN_LEAST)
            }
        }
    }

    /// What is sent at most of what the link carries.
    pub(super) fn share(&self) -> f64 {
        match self.direction {
            Direction::Up => self.variation.choose(1.0, UPLINK_SHARE),
            Direction::Down => DOWNLINK_SHARE,
        }
    }

    /// A queue of so many seconds may stay behind.
    fn stays(&self) -> f64 {
        self.variation.choose(STAYS, 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounds;
    use super::*;

    fn known(capacity: f64) -> Controller {
        let mut controller = Controller::new(Direction::Up, Bounds { least: 1e3, most: 1e9 }, capacity);
        (controller.capacity, controller.proven) = (Some(capacity), capacity);
        controller
    }

    fn learnt(rate: f64, seconds: f64) -> f64 {
        let mut controller = known(100e3);
        controller.learn(Service { rate, seconds, grown: seconds }, 0.02, 0.017);
        controller.capacity.expect("known")
    }

    /// Waits of up to 17 ms are no queue: over 60 ms a rate is known to 28 %.
    #[test]
    fn a_short_stretch_does_not_say_that_the_rate_is_another() {
        assert!(learnt(82e3, 0.06) > 98e3);
        assert_eq!(learnt(82e3, 0.3), 82e3);
        assert_eq!(learnt(60e3, 0.06), 60e3);
        assert!((learnt(95e3, 0.3) - 98.5e3).abs() < 1.0, "the same rate, measured again");
        assert_eq!(learnt(900e3, 0.3), 200e3, "no more than twice at once");
        let mut controller = known(100e3);
        controller.variation.passes(700e3);
        controller.learn(Service { rate: 900e3, seconds: 0.3, grown: 0.3 }, 0.02, 0.017);
        assert_eq!(controller.capacity, Some(700e3), "so much has passed");
    }

    #[test]
    fn what_leaves_as_it_came_takes_a_part_of_the_rate_and_gives_it_back() {
        let after = |direction, measurements: &[(f64, f64, f64)]| {
            let mut controller = Controller { direction, ..known(100e3) };
            for (rate, grown, wait) in measurements {
                controller.learn(Service { rate: *rate, seconds: 0.4, grown: *grown }, *wait, 0.017);
            }
            controller
        };
        let mut doubtful =
            after(Direction::Up, &[(60e3, 0.01, 0.02), (40e3, -0.03, 0.02), (20e3, 0.02, 0.04)]);
        assert_eq!((doubtful.capacity, doubtful.proven), (Some(85e3), 100e3));
        doubtful.end_doubt();
        assert_eq!(doubtful.capacity, Some(100e3), "nothing waits");
        let rate = |direction, measurements| after(direction, measurements).capacity;
        assert_eq!(rate(Direction::Up, &[(60e3, 0.033, 0.05)]), Some(60e3), "the queue grows");
        assert_eq!(rate(Direction::Up, &[(70e3, 0.01, 0.02), (70e3, 0.01, 0.051)]), Some(70e3), "slowly");
        assert!(
            rate(Direction::Up, &[(97e3, 0.01, 0.02)]) < Some(99.5e3),
            "that is how a rate is measured again"
        );
        assert_eq!(rate(Direction::Up, &[(120e3, 0.01, 0.02)]), Some(120e3));
        assert_eq!(rate(Direction::Down, &[(60e3, 0.01, 0.02)]), Some(60e3), "others send");
    }

    #[test]
    fn nobody_answers_and_no_more_is_sent_than_before() {
        let mut controller = known(100e3);
        controller.set(20e3, 1.0);
        controller.settle_unheard(2.0);
        assert_eq!((controller.rate, controller.changed), (20e3, 1.0));
        controller.set(200e3, 3.0);
        controller.settle_unheard(4.0);
        assert_eq!((controller.rate, controller.changed), (99e3, 4.0));
    }
}
