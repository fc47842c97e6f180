//! What of one interval is kept for the judgements: sums, the rate, and how long the standing queues make wait.

use std::time::Duration;

use crate::constants::{HALF, HELD_BACK_MOST_S};
use crate::findings::Phase;
use crate::history::Totals;
use crate::sample::{DirectionSample, QueueSource, Sample};
use crate::segment::{Direction, PerDirection};

use super::Detector;

impl Detector {
    /// Adds one interval to the past.
    pub(super) fn record(&mut self, sample: &Sample, span: Duration, window: &PerDirection<Option<f64>>) {
        let seconds = span.as_secs_f64();
        let mut interval = Totals { seconds, ..Totals::default() };
        interval.phase_seconds = self.phases.take_credit().map(|credit| credit.as_secs_f64());
        if let Some(round_trip) = self.recent_round_trip() {
            interval.round_trip = (round_trip * seconds, seconds);
        }
        let recently = self.bounded_round_trip().mul_f64(1.5).max(Duration::from_secs_f64(HELD_BACK_MOST_S));
        for x in Direction::ALL {
            let direction = &sample.link[x];
            let traffic = &direction.traffic;
            interval.wire_bytes[x] = traffic.wire_bytes;
            interval.data_bytes[x] = traffic.data_bytes;
            interval.data_segments[x] = traffic.data_segments;
            interval.load_bytes[x] = self.passed[x].load_of(direction);
            interval.composition[x] = direction.composition;
            if let Some(delay) = self.standing_delay(x, direction) {
                let delay = self.on_line(x, direction, delay);
                interval.delay[x].add(delay, self.thresholds.bufferbloat_delay.seconds(), seconds);
            }
            interval.retransmitted_segments[x] = traffic.retransmitted_segments;
            interval.ack_bursts[x] = direction.ack_bursts;
            let bytes = window[x].unwrap_or(0.0);
            interval.window_byte_seconds[x] = bytes * seconds;
            let queue = self.known_queue(x, direction.queue);
            // An estimate of the queue rests on the capacity: it cannot teach it.
            let seen = queue.is_some_and(|queue| queue.source != QueueSource::Estimate);
            // What a qdisc of this machine lets through is its rate, not the link's.
            let is_link = self.link.shaped[x].is_none();
            let stands = seen && is_link && self.phases.stands(x) == Some(true);
            let has_load = interval.load_bytes[x] > 0 || bytes >= HALF * self.thresholds.segment_bytes;
            self.passed[x].push(sample.at, direction, queue, stands, has_load);
            if self.passed[x].is_active(sample.at, recently) {
                interval.active_seconds[x] = seconds;
            }
        }
        let mean = |x: Direction| self.known_queue(x, sample.link[x].queue).map(|queue| queue.mean_bytes);
        if let (Some(up), Some(down)) = (mean(Direction::Up), mean(Direction::Down)) {
            interval.queues.add([up, down], seconds);
        }
        self.history.push(sample.at, &interval);
    }

    /// No more of an estimated delay than the budget leaves to the line.
    fn on_line(&self, direction: Direction, seen: &DirectionSample, delay: f64) -> f64 {
        let bound_s = self.line_bound(self.known_queue(direction, seen.queue));
        bound_s.map_or(delay, |most_s| delay.min(most_s))
    }

    /// What even the luckiest packet of the last round trip waited in a buffer, seconds. From its level, less what the
    /// level may be wrong by, and the link's rate; where the level is not known, from the round trip, if its base is proven
    /// and only one buffer stands. `None` if it cannot be known, and if it may as well be 0 as `bufferbloat-delay`.
    fn standing_delay(&self, direction: Direction, seen: &DirectionSample) -> Option<f64> {
        let standing = self.phases.standing()[direction];
        let level = self.known_queue(direction, seen.queue);
        if let (Some(bytes), Some(queue)) = (standing, level) {
            let surely = (bytes - queue.uncertainty_bytes).max(0.0);
            // An empty buffer makes nobody wait, whatever the rate.
            if surely == 0.0 && self.phases.stands(direction) != Some(true) {
                return Some(0.0);
            }
            let rate = self.capacity(direction)?.value;
            let most = (bytes + queue.uncertainty_bytes) / rate;
            return (surely > 0.0 || most < self.thresholds.bufferbloat_delay.seconds())
                .then(|| surely / rate);
        }
        let (phase, _) = self.phases.current()?;
        let own = Phase::alone(direction);
        match phase {
            Phase::Balanced => None,
            phase if phase == own => {
                let base = self.base_round_trip().filter(|base| base.is_proven);
                let by_round_trip =
                    base.and_then(|base| Some((self.recent_round_trip()? - base.seconds).max(0.0)));
                // What is beyond doubt of a level that is not known.
                by_round_trip.or_else(|| Some(standing? / self.capacity(direction)?.value))
            }
            _ => Some(0.0),
        }
    }
}

#[cfg(test)]
mod tests;
