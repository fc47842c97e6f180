//! The cases of 000 §3 from readings of both queues alone, to hold the agent's phases against.
//!
//! The definition is the papers': a buffer holds a standing queue if it was never below a segment during the last round trip. No
//! hysteresis and no dwell time, unlike the agent's.

use std::collections::VecDeque;
use std::time::Duration;

use pendulum_model::segment::PerDirection;
use serde::Serialize;

use crate::shaper::FULL_FRAME_BYTES;
use crate::truth::QueueReading;

/// Both queues at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueSample {
    pub(super) at: Duration,
    pub(super) queue: PerDirection<QueueReading>,
}

/// Share of the readings in each case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PhaseShare {
    /// Case 1: the uplink buffer alone holds a standing queue.
    pub uplink_bound: f64,
    /// Case 2: the downlink buffer alone.
    pub downlink_bound: f64,
    /// Case 3: both.
    pub balanced: f64,
    /// Neither.
    pub idle: f64,
}

/// What both queues did over a stretch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Phases {
    /// Time in each case; `None` without readings.
    pub phase_share: Option<PhaseShare>,
    /// Changes between case 1 and case 2; what lies between them does not count.
    pub switches: usize,
    /// Mean period of the swings: two changes make one. `None` below three changes.
    pub swing_period_s: Option<f64>,
    /// Pearson's correlation of both occupancies (001 Fig. 9); `None` if one hardly moved.
    pub queue_correlation: Option<f64>,
}

impl Phases {
    /// Share of the time in which each buffer holds a standing queue, alone or with the other; `None` without readings.
    pub fn standing_share(&self) -> Option<PerDirection<f64>> {
        let share = self.phase_share?;
        let both = share.balanced;
        Some(PerDirection { up: share.uplink_bound + both, down: share.downlink_bound + both })
    }

    /// Evaluates readings in the order of time.
    pub(super) fn of<'a>(
        samples: impl Iterator<Item = &'a QueueSample>,
        round_trip: impl Fn(Duration) -> Option<Duration>,
    ) -> Self {
        let mut recent: VecDeque<(Duration, PerDirection<u64>)> = VecDeque::new();
        let (mut count, mut share) = (0_usize, PhaseShare::default());
        let (mut side, mut switches) = (None, Vec::new());
        let mut moments = Moments::default();
        for QueueSample { at, queue } in samples {
            let level = PerDirection { up: queue.up.backlog_bytes, down: queue.down.backlog_bytes };
            moments.add(level);
            recent.push_back((*at, level));
            let start = at.saturating_sub(round_trip(*at).unwrap_or_default());
            while recent.len() > 1 && recent.front().is_some_and(|(at, _)| *at < start) {
                recent.pop_front();
            }
            let stands = PerDirection::from_fn(|direction| {
                recent.iter().all(|(_, level)| level[direction] >= FULL_FRAME_BYTES)
            });
            count += 1;
            *match (stands.up, stands.down) {
                (true, true) => &mut share.balanced,
                (true, false) => &mut share.uplink_bound,
                (false, true) => &mut share.downlink_bound,
                (false, false) => &mut share.idle,
            } += 1.0;
            if stands.up != stands.down {
                if side.is_some_and(|up| up != stands.up) {
                    switches.push(*at);
                }
                side = Some(stands.up);
            }
        }
        if count == 0 {
            return Self::default();
        }
        for part in [&mut share.uplink_bound, &mut share.downlink_bound, &mut share.balanced, &mut share.idle]
        {
            *part /= count as f64;
        }
        Self {
            phase_share: Some(share),
            switches: switches.len(),
            swing_period_s: period(&switches),
            queue_correlation: moments.correlation(),
        }
    }
}

fn period(switches: &[Duration]) -> Option<f64> {
    match switches {
        [first, _, .., last] => Some(2.0 * (*last - *first).as_secs_f64() / (switches.len() - 1) as f64),
        _ => None,
    }
}

#[derive(Default)]
struct Moments {
    count: f64,
    sum: PerDirection<f64>,
    squares: PerDirection<f64>,
    product: f64,
}

impl Moments {
    fn add(&mut self, level: PerDirection<u64>) {
        let (up, down) = (level.up as f64, level.down as f64);
        self.count += 1.0;
        self.sum.up += up;
        self.sum.down += down;
        self.squares.up += up * up;
        self.squares.down += down * down;
        self.product += up * down;
    }

    fn correlation(&self) -> Option<f64> {
        let n = self.count;
        let variance = PerDirection::from_fn(|x| self.squares[x] / n - (self.sum[x] / n).powi(2));
        let covariance = self.product / n - self.sum.up / n * (self.sum.down / n);
        let correlation = covariance / (variance.up * variance.down).sqrt();
        // Half a segment either way is no movement.
        let moves = variance.up.min(variance.down) > (FULL_FRAME_BYTES as f64 / 2.0).powi(2);
        (moves && correlation.is_finite()).then(|| correlation.clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::QueueReading;

    /// Readings every 100 ms.
    fn phases(levels: &[(u64, u64)], round_trip: Duration) -> Phases {
        let reading = |backlog_bytes| QueueReading { backlog_bytes, ..QueueReading::default() };
        let samples: Vec<QueueSample> = (0..)
            .zip(levels)
            .map(|(tenth, &(up, down))| QueueSample {
                at: Duration::from_millis(100 * tenth),
                queue: PerDirection { up: reading(up), down: reading(down) },
            })
            .collect();
        Phases::of(samples.iter(), |_| Some(round_trip))
    }

    #[test]
    fn a_pendulum_swings_between_both_sides() {
        let (up, down) = ((9_000, 0), (0, 9_000));
        let levels = [[up; 5], [down; 5], [up; 5], [down; 5]].concat();
        let phases = phases(&levels, Duration::from_millis(50));
        let share = phases.phase_share.unwrap();
        assert_eq!((share.uplink_bound, share.downlink_bound), (0.5, 0.5));
        // Changes at 0.5, 1.0 and 1.5 s: one full swing takes 1 s.
        assert_eq!((phases.switches, phases.swing_period_s), (3, Some(1.0)));
        assert!(phases.queue_correlation.unwrap() < -0.99);
    }

    #[test]
    fn a_dip_within_the_round_trip_leaves_nothing_standing() {
        let levels = [(9_000, 0), (0, 0), (9_000, 0), (9_000, 0), (9_000, 0)];
        let share = phases(&levels, Duration::from_millis(150)).phase_share.unwrap();
        // The dip at 0.1 s counts until it is 0.15 s past: readings at 0.1 and 0.2 s.
        assert_eq!((share.uplink_bound, share.idle), (0.6, 0.4));
        assert_eq!(phases(&levels, Duration::ZERO).queue_correlation, None);
        assert_eq!(phases(&[], Duration::ZERO), Phases::default());
    }

    #[test]
    fn queues_in_phase_correlate() {
        let levels: Vec<(u64, u64)> =
            (0..40).map(|i| if i % 8 < 4 { (9_000, 8_000) } else { (0, 0) }).collect();
        let phases = phases(&levels, Duration::ZERO);
        assert!(phases.queue_correlation.unwrap() > 0.99);
        assert_eq!((phases.switches, phases.phase_share.unwrap().balanced), (0, 0.5));
    }
}
