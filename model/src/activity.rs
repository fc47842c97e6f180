//! Which directions carry bulk data. The pendulum needs two: everything else (one-way transfers, application-limited
//! flows, many short flows, UDP) may fill a buffer but cannot swing.

use std::time::Duration;

use crate::findings::Figure;
use crate::history::{History, Totals};
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// Once bulk, a direction stays so down to this part of each threshold.
const HYSTERESIS: f64 = 0.6;

/// Stretches compared to tell application-limited from window-limited.
const FEWEST_BINS: usize = 6;

/// What one direction's data looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Activity {
    /// Bulk data.
    pub(crate) bulk: bool,
    /// Share of the time with data under way.
    pub(crate) active_share: f64,
    /// Mean window in segments.
    pub(crate) segments: f64,
    /// Part of the bytes in long flows, if flows were reported.
    pub(crate) long_flow_share: Option<f64>,
    /// The application, not TCP, sets the pace; `None` if that cannot be told.
    pub(crate) application_limited: Option<bool>,
}

/// What [`assess`] looks at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) history: &'a History,
    pub(crate) thresholds: &'a Thresholds,
    pub(crate) now: Duration,
    pub(crate) round_trip: Duration,
}

impl Activity {
    pub(crate) fn figures(&self, direction: Direction, thresholds: &Thresholds) -> [Figure; 2] {
        let (active, window) = match direction {
            Direction::Up => ("upload_active_share", "upload_window_segments"),
            Direction::Down => ("download_active_share", "download_window_segments"),
        };
        [
            Figure::against(active, self.active_share, thresholds.bulk_active_share),
            Figure::against(window, self.segments, thresholds.bulk_in_flight_segments),
        ]
    }
}

/// Judges one direction; `before` is the last judgement, `long_flow_share` and `capacity` are `None` if unknown.
pub(crate) fn assess(
    scene: Scene<'_>,
    direction: Direction,
    before: bool,
    long_flow_share: Option<f64>,
    capacity: Option<f64>,
) -> Activity {
    let Scene { history, thresholds, now, round_trip } = scene;
    let window = thresholds.activity_time(round_trip);
    let recent = history.since(now.saturating_sub(window));
    let ease = if before { HYSTERESIS } else { 1.0 };
    let mut activity = Activity {
        active_share: recent.active_share(direction),
        segments: recent.mean_window(direction) / thresholds.segment_bytes.max(1e-9),
        long_flow_share,
        ..Activity::default()
    };
    let covered = recent.seconds >= 0.8 * window.as_secs_f64();
    let steady = activity.active_share >= thresholds.bulk_active_share * ease
        && activity.segments >= thresholds.bulk_in_flight_segments * ease
        && long_flow_share.is_none_or(|share| share >= thresholds.bulk_long_flow_share * ease);
    if covered && steady {
        activity.application_limited = application_limited(scene, direction, capacity);
        activity.bulk = activity.application_limited != Some(true);
    }
    activity
}

/// Throughput against RTT. A window-limited flow has `X = cwnd/RTT`: when the opposite queue grows or falls, X moves.
/// An application-limited one keeps X while its window follows the RTT. `None` if the RTT did not move enough to tell.
fn application_limited(scene: Scene<'_>, direction: Direction, capacity: Option<f64>) -> Option<bool> {
    let Scene { history, thresholds, now, round_trip } = scene;
    let bin = round_trip.max(Duration::from_secs(1)).as_secs_f64();
    let mut rates = Spread::default();
    let mut round_trips = Spread::default();
    let mut sum = Totals::default();
    for (_, slot) in history.slots_since(now.saturating_sub(thresholds.horizon(round_trip))) {
        sum += slot;
        if sum.seconds + 1e-9 < bin {
            continue;
        }
        // Newest first: what lies before the transfer began says nothing about it.
        if sum.active_share(direction) < 0.5 {
            break;
        }
        rates.add(sum.data_rate(direction));
        round_trips.add(sum.mean_round_trip()?);
        sum = Totals::default();
    }
    if rates.count < FEWEST_BINS {
        return None;
    }
    if capacity.is_some_and(|capacity| rates.mean() >= 0.8 * capacity) {
        return Some(false);
    }
    if round_trips.variation() < 0.1 {
        return None;
    }
    Some(rates.variation() < thresholds.application_limited_variation * round_trips.variation())
}

/// Mean and coefficient of variation.
#[derive(Default)]
struct Spread {
    count: usize,
    sum: f64,
    squares: f64,
}

impl Spread {
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }

    fn mean(&self) -> f64 {
        self.sum / (self.count.max(1) as f64)
    }

    fn variation(&self) -> f64 {
        let mean = self.mean();
        if mean <= 0.0 {
            return 0.0;
        }
        (self.squares / (self.count.max(1) as f64) - mean * mean).max(0.0).sqrt() / mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::PerDirection;

    /// A minute of history: data rate and RTT as functions of time in seconds.
    fn history(rate: impl Fn(f64) -> f64, round_trip: impl Fn(f64) -> f64) -> History {
        let mut history = History::default();
        for slot in 1..=600u64 {
            let time = slot as f64 / 10.0;
            let (rate, round_trip) = (rate(time), round_trip(time));
            let active = if rate > 0.0 { 0.1 } else { 0.0 };
            let totals = Totals {
                seconds: 0.1,
                data_bytes: PerDirection { up: 0, down: (rate * 0.1) as u64 },
                active_seconds: PerDirection { up: 0.0, down: active },
                window_byte_seconds: PerDirection { up: 0.0, down: rate * round_trip * 0.1 },
                round_trip: (round_trip * 0.1, 0.1),
                ..Totals::default()
            };
            history.push(Duration::from_millis(100 * slot), &totals);
        }
        history
    }

    fn judge(history: &History, capacity: Option<f64>) -> Activity {
        let thresholds = Thresholds::default();
        let now = Duration::from_secs(60);
        let scene = Scene { history, thresholds: &thresholds, now, round_trip: Duration::from_millis(500) };
        assess(scene, Direction::Down, false, None, capacity)
    }

    /// A sawtooth of the RTT between 0.3 and 0.9 s, as an upload causes.
    fn sawtooth(time: f64) -> f64 {
        0.3 + 0.6 * (time % 10.0) / 10.0
    }

    #[test]
    fn a_window_limited_download_is_bulk() {
        let history = history(|time| 30_000.0 / sawtooth(time), sawtooth);
        let activity = judge(&history, Some(300_000.0));
        assert_eq!(activity.application_limited, Some(false));
        assert!(activity.bulk);
    }

    #[test]
    fn a_constant_rate_is_application_limited() {
        let history = history(|_| 40_000.0, sawtooth);
        let activity = judge(&history, Some(300_000.0));
        assert_eq!(activity.application_limited, Some(true));
        assert!(!activity.bulk);
        // The same rate at the capacity is the link's doing.
        assert!(judge(&history, Some(42_000.0)).bulk);
    }

    #[test]
    fn a_steady_round_trip_tells_nothing() {
        let activity = judge(&history(|_| 40_000.0, |_| 0.5), Some(300_000.0));
        assert_eq!(activity.application_limited, None);
        assert!(activity.bulk);
    }

    #[test]
    fn gaps_and_small_windows_are_not_bulk() {
        let chunks = history(|time| if time % 4.0 < 2.0 { 100_000.0 } else { 0.0 }, |_| 0.1);
        assert!(!judge(&chunks, None).bulk);
        // 2,000 B/s · 0.5 s = 1,000 B: less than a segment under way.
        assert!(!judge(&history(|_| 2_000.0, |_| 0.5), None).bulk);
        assert!(!judge(&History::default(), None).bulk);
    }
}
