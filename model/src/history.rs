//! Sums over stretches of time: the recent past in slots, and the whole run.
//!
//! Everything a verdict looks at is a sum, so a horizon of any length is a sum of slots and nothing drifts.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use crate::findings::Phase;
use crate::sample::{AckBursts, Composition};
use crate::segment::{Direction, PerDirection};

/// A slot closes once it covers this much.
const SLOT: Duration = Duration::from_millis(100);

/// Slots kept at most; 1200 cover two minutes.
pub(crate) const MAX_SLOTS: usize = 1200;

/// Sums over one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Time covered by samples, seconds.
    pub seconds: f64,
    /// Time in each case, seconds, in [`Phase`] order. Their sum is below `seconds` while the case was unknown.
    pub phase_seconds: [f64; 4],
    /// Bytes on the wire.
    pub wire_bytes: PerDirection<u64>,
    /// Bytes of data segments on the wire.
    pub data_bytes: PerDirection<u64>,
    /// TCP data segments.
    pub data_segments: PerDirection<u64>,
    /// Bytes on the wire that are no pure ACKs, whatever their protocol.
    pub load_bytes: PerDirection<u64>,
    /// What entered each buffer, by kind.
    pub composition: PerDirection<Composition>,
    /// How long what entered each buffer had to wait at least.
    pub delay: PerDirection<StandingDelay>,
    /// Retransmitted data segments.
    pub retransmitted_segments: PerDirection<u64>,
    /// Time with data under way, seconds.
    pub active_seconds: PerDirection<f64>,
    /// Windows summed over time, byte seconds.
    pub window_byte_seconds: PerDirection<f64>,
    /// ACK bursts.
    pub ack_bursts: PerDirection<AckBursts>,
    /// Joint moments of both queues.
    pub queues: Moments,
    /// Round-trip time summed over time, square seconds, and the time it was known.
    pub round_trip: (f64, f64),
}

/// The delay of a standing queue, summed over time: what even the luckiest packet of a round trip waits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StandingDelay {
    /// Time in which the delay was known, seconds.
    pub known_seconds: f64,
    /// Of it, time in which it exceeded the threshold `bufferbloat-delay`, seconds.
    pub above_seconds: f64,
    /// The delay summed over the known time, square seconds.
    pub integral: f64,
}

impl StandingDelay {
    /// Adds an interval of `seconds` in which the delay was this long.
    pub fn add(&mut self, delay: f64, threshold: f64, seconds: f64) {
        self.known_seconds += seconds;
        self.integral += delay * seconds;
        if delay >= threshold {
            self.above_seconds += seconds;
        }
    }

    /// Mean delay over the known time, seconds; `None` if it was never known.
    pub fn mean(&self) -> Option<f64> {
        (self.known_seconds > 0.0).then(|| self.integral / self.known_seconds)
    }
}

impl AddAssign<&StandingDelay> for StandingDelay {
    fn add_assign(&mut self, other: &Self) {
        self.known_seconds += other.known_seconds;
        self.above_seconds += other.above_seconds;
        self.integral += other.integral;
    }
}

/// Moments of two figures that belong together, each pair with its weight: mean, variation, Pearson's correlation (001 Fig. 9).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    weight: f64,
    sum: [f64; 2],
    squares: [f64; 2],
    product: f64,
}

impl Moments {
    /// Adds a pair; of what holds over time, the weight is its time.
    pub fn add(&mut self, pair: [f64; 2], weight: f64) {
        let [one, other] = pair;
        *self += &Self {
            weight,
            sum: pair.map(|figure| figure * weight),
            squares: pair.map(|figure| figure * figure * weight),
            product: one * other * weight,
        };
    }

    /// The weights' sum.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Both means; `None` if nothing was added.
    pub fn mean(&self) -> Option<[f64; 2]> {
        (self.weight > 0.0).then(|| self.sum.map(|sum| sum / self.weight))
    }

    fn variance(&self) -> Option<[f64; 2]> {
        let mean = self.mean()?;
        Some([0, 1].map(|of| self.squares[of] / self.weight - mean[of] * mean[of]))
    }

    /// Both coefficients of variation: standard deviation over mean, 0 of a mean of 0.
    pub fn variation(&self) -> Option<[f64; 2]> {
        let (mean, variance) = (self.mean()?, self.variance()?);
        Some([0, 1].map(|of| if mean[of] > 0.0 { variance[of].max(0.0).sqrt() / mean[of] } else { 0.0 }))
    }

    /// Pearson's correlation, −1 to 1; `None` if either figure hardly moved.
    pub fn correlation(&self) -> Option<f64> {
        let (mean, variance) = (self.mean()?, self.variance()?);
        // Below this part of the mean square a variance is rounding noise.
        if (0..2).any(|of| variance[of] <= 1e-9 * self.squares[of] / self.weight) {
            return None;
        }
        let covariance = self.product / self.weight - mean[0] * mean[1];
        let correlation = covariance / (variance[0] * variance[1]).sqrt();
        correlation.is_finite().then(|| correlation.clamp(-1.0, 1.0))
    }
}

impl AddAssign<&Moments> for Moments {
    fn add_assign(&mut self, other: &Self) {
        self.weight += other.weight;
        self.product += other.product;
        for of in 0..2 {
            self.sum[of] += other.sum[of];
            self.squares[of] += other.squares[of];
        }
    }
}

impl AddAssign<&Totals> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.seconds += other.seconds;
        for (sum, seconds) in self.phase_seconds.iter_mut().zip(other.phase_seconds) {
            *sum += seconds;
        }
        self.queues += &other.queues;
        self.round_trip.0 += other.round_trip.0;
        self.round_trip.1 += other.round_trip.1;
        for x in Direction::ALL {
            self.wire_bytes[x] = self.wire_bytes[x].saturating_add(other.wire_bytes[x]);
            self.data_bytes[x] = self.data_bytes[x].saturating_add(other.data_bytes[x]);
            self.data_segments[x] = self.data_segments[x].saturating_add(other.data_segments[x]);
            self.load_bytes[x] = self.load_bytes[x].saturating_add(other.load_bytes[x]);
            self.composition[x].add(&other.composition[x]);
            self.delay[x] += &other.delay[x];
            self.retransmitted_segments[x] =
                self.retransmitted_segments[x].saturating_add(other.retransmitted_segments[x]);
            self.active_seconds[x] += other.active_seconds[x];
            self.window_byte_seconds[x] += other.window_byte_seconds[x];
            let (sum, bursts) = (&mut self.ack_bursts[x], &other.ack_bursts[x]);
            sum.bursts = sum.bursts.saturating_add(bursts.bursts);
            sum.segments = sum.segments.saturating_add(bursts.segments);
            sum.segments_in_long_bursts =
                sum.segments_in_long_bursts.saturating_add(bursts.segments_in_long_bursts);
        }
    }
}

impl Totals {
    /// Share of the known time spent in a case; 0 if nothing is known.
    pub fn phase_share(&self, phase: Phase) -> f64 {
        ratio(self.phase_seconds[phase as usize], self.phase_seconds.iter().sum())
    }

    /// Bytes per second on the wire.
    pub fn wire_rate(&self, direction: Direction) -> f64 {
        ratio(self.wire_bytes[direction] as f64, self.seconds)
    }

    /// Bytes per second that are no pure ACKs, whatever their protocol.
    pub fn load_rate(&self, direction: Direction) -> f64 {
        ratio(self.load_bytes[direction] as f64, self.seconds)
    }

    /// Share of the time in which the standing queue's delay is known to have exceeded the threshold `bufferbloat-delay`.
    pub fn delayed_share(&self, direction: Direction) -> f64 {
        ratio(self.delay[direction].above_seconds, self.seconds)
    }

    /// Share of the known time in which a buffer held a standing queue; 0 if nothing is known.
    pub fn standing_share(&self, direction: Direction) -> f64 {
        let alone = Phase::alone(direction);
        self.phase_share(alone) + self.phase_share(Phase::Balanced)
    }

    /// Share of all time in which a buffer is known to have held a standing queue.
    pub fn known_standing_share(&self, direction: Direction) -> f64 {
        self.standing_share(direction) * ratio(self.phase_seconds.iter().sum(), self.seconds)
    }

    /// Mean size of a TCP data segment on the wire, bytes; `None` without any.
    pub fn mean_segment(&self, direction: Direction) -> Option<f64> {
        let segments = self.data_segments[direction];
        (segments > 0).then(|| self.data_bytes[direction] as f64 / segments as f64)
    }

    /// Retransmitted over all TCP data segments; 0 without any.
    pub fn retransmitted_share(&self, direction: Direction) -> f64 {
        ratio(self.retransmitted_segments[direction] as f64, self.data_segments[direction] as f64)
    }

    /// Of what entered a buffer and is no pure ACK, the part that is not TCP; 0 if the kinds are not known.
    pub fn datagram_share(&self, direction: Direction) -> f64 {
        let kinds = &self.composition[direction];
        let load = kinds.total().saturating_sub(kinds.ack);
        ratio(kinds.udp.saturating_add(kinds.other) as f64, load as f64)
    }

    /// Share of the time with data under way.
    pub fn active_share(&self, direction: Direction) -> f64 {
        ratio(self.active_seconds[direction], self.seconds)
    }

    /// Mean window, bytes.
    pub fn mean_window(&self, direction: Direction) -> f64 {
        ratio(self.window_byte_seconds[direction], self.seconds)
    }

    /// Mean round-trip time, seconds.
    pub fn mean_round_trip(&self) -> Option<f64> {
        (self.round_trip.1 > 0.0).then(|| self.round_trip.0 / self.round_trip.1)
    }

    /// Share of the ACKs of a direction that came in bursts of ten or more.
    pub fn long_burst_share(&self, direction: Direction) -> f64 {
        let bursts = &self.ack_bursts[direction];
        ratio(bursts.segments_in_long_bursts as f64, bursts.segments as f64)
    }

    /// `r = X_d/X_u`; `None` without upload data.
    pub fn throughput_ratio(&self) -> Option<f64> {
        (self.data_bytes.up > 0).then(|| self.data_bytes.down as f64 / self.data_bytes.up as f64)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The recent past in slots, and everything since the start.
#[derive(Clone, Debug, Default)]
pub struct History {
    slots: VecDeque<(Duration, Totals)>,
    open: Totals,
    run: Totals,
}

impl History {
    /// Adds one interval ending at `at`.
    pub fn push(&mut self, at: Duration, interval: &Totals) {
        self.open += interval;
        self.run += interval;
        if self.open.seconds + 1e-9 < SLOT.as_secs_f64() {
            return;
        }
        if self.slots.len() == MAX_SLOTS {
            self.slots.pop_front();
        }
        self.slots.push_back((at, std::mem::take(&mut self.open)));
    }

    /// Sum of the slots that ended after `start`.
    pub fn since(&self, start: Duration) -> Totals {
        let mut sum = Totals::default();
        for (_, slot) in self.slots_since(start) {
            sum += slot;
        }
        sum
    }

    /// The slots that ended after `start`, newest first, with their ends.
    pub fn slots_since(&self, start: Duration) -> impl Iterator<Item = &(Duration, Totals)> {
        self.slots.iter().rev().take_while(move |(end, _)| *end > start)
    }

    /// How long the last so many round trips took, each as long as it was at its time, but no more than `longest`. Time of which no round
    /// trip is known counts as if it were `assumed` long.
    pub fn round_trips(&self, count: f64, assumed: Duration, longest: Duration) -> Duration {
        let (mut passed, mut seconds) = (0.0, 0.0);
        for (_, slot) in self.slots.iter().rev() {
            let round_trip = slot.mean_round_trip().unwrap_or(assumed.as_secs_f64()).max(1e-6);
            let left = (count - passed) * round_trip;
            if left <= slot.seconds || seconds >= longest.as_secs_f64() {
                return Duration::try_from_secs_f64(seconds + left.max(0.0)).unwrap_or(longest).min(longest);
            }
            passed += slot.seconds / round_trip;
            seconds += slot.seconds;
        }
        longest
    }

    /// The lag at which both queues are most opposed after `start` (001 Fig. 9), seconds, to a slot's length: positive
    /// if the downlink follows the uplink. At most two seconds, and a third of the stretch. `None` if they never are.
    pub fn opposition_lag(&self, start: Duration) -> Option<f64> {
        let levels: Vec<[f64; 2]> =
            self.slots_since(start).filter_map(|(_, slot)| slot.queues.mean()).collect();
        let longest = (levels.len() / 3).min(20) as isize;
        let mut best: Option<(isize, f64)> = None;
        for lag in -longest..=longest {
            let mut moments = Moments::default();
            // Newest first: the later downlink level has the smaller index.
            for (index, [up, _]) in levels.iter().enumerate() {
                if let Some([_, down]) = index.checked_add_signed(-lag).and_then(|index| levels.get(index)) {
                    moments.add([*up, *down], 1.0);
                }
            }
            let Some(correlation) = moments.correlation() else { continue };
            if best.is_none_or(|(_, lowest)| correlation < lowest) {
                best = Some((lag, correlation));
            }
        }
        best.filter(|(_, correlation)| *correlation < 0.0).map(|(lag, _)| lag as f64 * SLOT.as_secs_f64())
    }

    /// Sum over the whole run.
    pub fn run(&self) -> &Totals {
        &self.run
    }
}

#[cfg(test)]
mod tests;
