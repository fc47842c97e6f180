//! What is reported of a buffer: its level in one interval, and how far off that may be.

use crate::sample::{QueueSample, QueueSource};
use crate::segment::{Direction, FULL_FRAME_BYTES};

use super::base::Bases;
use super::exit_side::ExitSide;
use super::level::{INTERVAL_NS, Levels};
use super::rules::RULES;
use super::{Observer, Uplink};

/// One interval, before it is known how far off it may be.
struct Interval {
    levels: Option<Levels>,
    /// Of waiting, nanoseconds.
    error_ns: f64,
    /// At least so many bytes.
    least_bytes: f64,
    /// Its end, where the buffer is hidden.
    to_ns: u64,
}

impl Observer {
    /// Takes the oldest interval of a direction's buffer that is complete. Inside, `None` if its level is not known.
    pub fn pop(&mut self, direction: Direction) -> Option<Option<QueueSample>> {
        let interval = self.take(direction)?;
        let before =
            std::mem::replace(&mut self.before[direction], interval.levels.map(|levels| levels.mean));
        Some(interval.levels.and_then(|levels| self.sample(direction, levels, &interval, before)))
    }

    fn take(&mut self, direction: Direction) -> Option<Interval> {
        let until_ns = self.settled_ns.saturating_sub(self.lag_ns);
        match (direction, &mut self.up) {
            (Direction::Down, _) => take_outlet(&mut self.down),
            (Direction::Up, Uplink::Shown(exit_side)) => take_outlet(exit_side),
            (Direction::Up, Uplink::Hidden(entry_side)) => {
                let booked = entry_side.pop(until_ns)?;
                Some(Interval {
                    levels: booked.map(|booked| booked.levels),
                    error_ns: booked.map_or(0.0, |booked| booked.error_ns),
                    least_bytes: booked.map_or(0.0, |booked| booked.doubt_bytes),
                    to_ns: entry_side.next_ns,
                })
            }
            (Direction::Up, Uplink::Elsewhere) => None,
        }
    }

    /// The level and its uncertainty; `None` if it is too vague to be reported.
    fn sample(
        &self,
        direction: Direction,
        levels: Levels,
        &Interval { error_ns, least_bytes, to_ns, .. }: &Interval,
        before: Option<f64>,
    ) -> Option<QueueSample> {
        let rate = self.any_rate(direction);
        let hidden = match (&self.up, direction) {
            (Uplink::Hidden(entry_side), Direction::Up) => Some(entry_side),
            _ => None,
        };
        let passed = hidden.filter(|_| rate.is_none()).map_or(0.0, |entry_side| entry_side.throughput(to_ns));
        let bytes = |ns: f64| ns * rate.unwrap_or(0.0);
        let base_of = |bases: &Bases| bases.newest.map_or(0.0, |(ns, _)| ns.max(0.0));
        let base_ns = base_of(&self.remote);
        // What stands all the time hides in the delay without queue, which is longer by it. Where a buffer is seen from behind, a link that had
        // nothing to do proves that it was empty.
        let is_proven = self.proven_ns[direction].is_some() || (hidden.is_none() && levels.max <= 0.0);
        // Answers from home have waited in an uplink's buffer that is seen from behind, those from outside in the others.
        let hides_in = match (&self.up, direction) {
            (Uplink::Shown(_), Direction::Up) => &self.home,
            _ => &self.remote,
        };
        let hidden_ns = if is_proven { 0.0 } else { base_of(hides_in) };
        // The delay without queue contains a packet's own time on the link if it was learnt before the rate.
        let is_learnt = hidden.is_some_and(|entry_side| !entry_side.known.is_some());
        let packet = if is_learnt { FULL_FRAME_BYTES } else { FULL_FRAME_BYTES / 2.0 };
        let packet = if levels.max > 0.0 { packet } else { 0.0 };
        // Within the interval it moves, but a burst that comes and goes makes nothing unknown; and how far away the downlink's buffer is, and
        // so when it held that, is known to half of the way.
        let away = match direction {
            Direction::Up => 0.0,
            Direction::Down => base_ns / 4.0 / INTERVAL_NS as f64,
        };
        let changed = away * before.map_or(0.0, |before| (levels.mean - before).abs());
        // They have nothing to do with each other: their squares add up.
        let errors = [bytes(error_ns), changed];
        let uncertainty = packet
            + hidden_ns * rate.unwrap_or(passed)
            + errors.iter().map(|error| error * error).sum::<f64>().sqrt();
        let uncertainty_bytes = uncertainty.max(least_bytes);
        let is_vague =
            error_ns > RULES.vague_ns && rate.is_none_or(|rate| error_ns * rate > 2.0 * levels.max);
        (uncertainty_bytes.is_finite() && !is_vague).then_some(QueueSample {
            source: QueueSource::Estimate,
            min_bytes: levels.min,
            mean_bytes: levels.mean,
            max_bytes: levels.max,
            uncertainty_bytes,
        })
    }
}

fn take_outlet(exit_side: &mut ExitSide) -> Option<Interval> {
    let (levels, error_ns) = exit_side.standing.track.pop()?;
    Some(Interval { levels: Some(levels), error_ns, least_bytes: 0.0, to_ns: 0 })
}
