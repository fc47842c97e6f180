//! Which of the three cases holds: standing queues over one round trip, with hysteresis (000 §3).
//!
//! A buffer's standing queue `d_x` is the lowest level it had during the last round trip. Where a buffer cannot be
//! seen, the windows decide (001 Eq. 5): the direction whose window takes longer to transfer holds the queue.

use std::time::Duration;

use crate::constants::BLIND;
use crate::findings::{Figure, Phase};
use crate::ratio::cases::transfer_time;
use crate::segment::{Direction, PerDirection};
use crate::thresholds::{Thresholds, times};
use crate::window::SlidingMinimum;

named! {
    /// What a phase was derived from.
    pub enum PhaseSource {
        /// Both buffers were seen.
        Queues = "queues",
        /// One buffer was seen, the windows showed the other.
        QueueAndWindows = "queue_and_windows",
        /// Outstanding data alone.
        Windows = "windows",
    }
}

/// What the tracker looks at in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseInput {
    /// End of the interval.
    pub at: Duration,
    /// Its length.
    pub span: Duration,
    /// Lowest level of each buffer in the interval, bytes.
    pub queue: PerDirection<Option<f64>>,
    /// `cwnd_x`, bytes.
    pub window: PerDirection<Option<f64>>,
    /// `C_x`, bytes per second.
    pub capacity: PerDirection<Option<f64>>,
    /// Round-trip time, already within bounds.
    pub round_trip: Duration,
    /// Round-trip time without queues, seconds.
    pub base_round_trip: Option<f64>,
}

/// A confirmed change of case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PhaseChange {
    /// Before; `None` at the first.
    pub from: Option<Phase>,
    /// Now.
    pub to: Phase,
    /// When the new case began, as far as the samples tell.
    pub since: Duration,
    /// How long the one before held.
    pub dwell: Duration,
}

/// Follows the case from interval to interval.
#[derive(Clone, Debug, Default)]
pub struct PhaseTracker {
    minimum: PerDirection<SlidingMinimum>,
    standing: PerDirection<Option<f64>>,
    stands: PerDirection<bool>,
    current: Option<(Phase, Duration)>,
    doubt: Doubt,
    source: Option<PhaseSource>,
    agreement: Agreement,
    credit: [Duration; 4],
}

/// What speaks against the case that holds.
#[derive(Clone, Copy, Debug, Default)]
enum Doubt {
    #[default]
    None,
    /// Another case has been seen since then, not yet for long enough.
    Candidate(Phase, Duration),
    /// Nothing has been known since then.
    Blind(Duration),
}

/// How often the queues and the windows agreed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Agreement {
    compared: u64,
    equal: u64,
}

impl PhaseTracker {
    /// The confirmed case and since when; `None` without evidence.
    pub fn current(&self) -> Option<(Phase, Duration)> {
        self.current
    }

    /// Standing queues, bytes; `None` for a buffer that cannot be seen.
    pub fn standing(&self) -> PerDirection<Option<f64>> {
        self.standing
    }

    /// Whether a buffer holds a standing queue; `None` if it cannot be seen.
    pub fn stands(&self, direction: Direction) -> Option<bool> {
        self.standing[direction].map(|_| self.stands[direction])
    }

    /// What the case was last derived from.
    pub fn source(&self) -> Option<PhaseSource> {
        self.source
    }

    /// Share of the intervals in which windows and queues agreed on the longer side (001 Eq. 5); `None` if they were
    /// never both known while one buffer alone stood.
    pub fn agreement(&self) -> Option<f64> {
        (self.agreement.compared > 0).then(|| self.agreement.equal as f64 / self.agreement.compared as f64)
    }

    /// Time to be booked on each case since the last call, in [`Phase`] order: a change is booked from its beginning,
    /// not from its confirmation.
    pub fn take_credit(&mut self) -> [Duration; 4] {
        std::mem::take(&mut self.credit)
    }

    /// Forgets the queues, as after a gap in the samples; the case is unknown until there is evidence again.
    pub fn interrupt(&mut self) {
        let agreement = self.agreement;
        *self = Self { agreement, ..Self::default() };
    }

    /// Takes in one interval; returns a change when it is confirmed.
    pub fn push(&mut self, input: &PhaseInput, thresholds: &Thresholds) -> Option<PhaseChange> {
        self.update_standing(input, thresholds);
        let begin = input.at.saturating_sub(input.span);
        let Some((phase, source)) = self.classify(input, thresholds) else {
            self.lose_sight(begin, input);
            return None;
        };
        self.source = Some(source);
        let doubt = std::mem::take(&mut self.doubt);
        if self.current.is_some_and(|(current, _)| current == phase) {
            // Time spent on a candidate that did not last belongs to the case that did; unknown time to none.
            let begin = if let Doubt::Candidate(_, since) = doubt { since } else { begin };
            self.book(phase, begin, input.at);
            return None;
        }
        let since = match doubt {
            Doubt::Candidate(candidate, since) if candidate == phase => since,
            Doubt::Candidate(candidate, since) => {
                self.book(candidate, since, begin);
                begin
            }
            Doubt::None | Doubt::Blind(_) => begin,
        };
        if input.at.saturating_sub(since) < times(input.round_trip, thresholds.phase_dwell_round_trips) {
            self.doubt = Doubt::Candidate(phase, since);
            return None;
        }
        self.book(phase, since, input.at);
        let before = self.current.replace((phase, since));
        Some(PhaseChange {
            from: before.map(|(phase, _)| phase),
            to: phase,
            since,
            dwell: before.map_or(Duration::ZERO, |(_, started)| since.saturating_sub(started)),
        })
    }

    /// The case cannot be known in the interval that began at `begin`: its time belongs to no case, and after a while
    /// none holds.
    fn lose_sight(&mut self, begin: Duration, input: &PhaseInput) {
        let since = match self.doubt {
            Doubt::Blind(since) => since,
            Doubt::None => begin,
            Doubt::Candidate(candidate, since) => {
                self.book(candidate, since, begin);
                begin
            }
        };
        self.doubt = Doubt::Blind(since);
        if input.at.saturating_sub(since) > input.round_trip.max(BLIND) {
            self.current = None;
            self.source = None;
        }
    }

    fn book(&mut self, phase: Phase, from: Duration, to: Duration) {
        self.credit[phase as usize] += to.saturating_sub(from);
    }

    fn update_standing(&mut self, input: &PhaseInput, thresholds: &Thresholds) {
        for direction in Direction::ALL {
            let minimum = &mut self.minimum[direction];
            let Some(level) = input.queue[direction] else {
                minimum.clear();
                self.standing[direction] = None;
                continue;
            };
            minimum.push(input.at, level);
            let standing = minimum.since(input.at.saturating_sub(input.round_trip));
            self.standing[direction] = standing;
            let segments = standing.unwrap_or(0.0) / thresholds.segment_bytes.max(1e-9);
            let threshold = if self.stands[direction] {
                thresholds.standing_leave_segments
            } else {
                thresholds.standing_enter_segments
            };
            self.stands[direction] = segments > 0.0 && segments >= threshold;
        }
    }

    fn classify(&mut self, input: &PhaseInput, thresholds: &Thresholds) -> Option<(Phase, PhaseSource)> {
        let by_windows = phase_of_windows(input, thresholds);
        let (up, down) = (self.stands(Direction::Up), self.stands(Direction::Down));
        if let (Some(up), Some(down)) = (up, down) {
            self.compare(Phase::of(up, down), by_windows);
            return Some((Phase::of(up, down), PhaseSource::Queues));
        }
        let windows = by_windows?;
        if up.is_none() && down.is_none() {
            return Some((windows, PhaseSource::Windows));
        }
        let stands = |seen: Option<bool>, direction| seen.unwrap_or_else(|| windows.stands(direction));
        Some((
            Phase::of(stands(up, Direction::Up), stands(down, Direction::Down)),
            PhaseSource::QueueAndWindows,
        ))
    }

    fn compare(&mut self, queues: Phase, windows: Option<Phase>) {
        let one_sided = |phase| matches!(phase, Phase::UplinkBound | Phase::DownlinkBound);
        if let Some(windows) = windows
            && one_sided(queues)
            && one_sided(windows)
        {
            self.agreement.compared += 1;
            self.agreement.equal += u64::from(windows == queues);
        }
    }

    /// The figures behind the present state, for evidence.
    pub fn figures(&self, thresholds: &Thresholds) -> Vec<Figure> {
        let enter = thresholds.standing_enter_segments * thresholds.segment_bytes;
        let mut figures = Vec::new();
        if let Some(bytes) = self.standing.up {
            figures.push(Figure::against("uplink_standing_bytes", bytes, enter));
        }
        if let Some(bytes) = self.standing.down {
            figures.push(Figure::against("downlink_standing_bytes", bytes, enter));
        }
        if let Some(agreement) = self.agreement() {
            figures.push(Figure::new("window_agreement", agreement));
        }
        figures
    }
}

/// 001 Eq. 5: the direction with the larger `cwnd_x/C_x` holds the queue, if that time exceeds the round trip without
/// queues by at least one segment.
fn phase_of_windows(input: &PhaseInput, thresholds: &Thresholds) -> Option<Phase> {
    let window = PerDirection { up: input.window.up?, down: input.window.down? };
    let capacity = PerDirection { up: input.capacity.up?, down: input.capacity.down? };
    let time = transfer_time(window, capacity);
    if window.up <= 0.0 && window.down <= 0.0 {
        return Some(Phase::Idle);
    }
    let longer = if time.up >= time.down { Direction::Up } else { Direction::Down };
    let base = input.base_round_trip?;
    if time[longer] < base + thresholds.segment_bytes / capacity[longer] {
        return Some(Phase::Idle);
    }
    if time[longer.opposite()] >= time[longer] * (1.0 - thresholds.window_margin) {
        return Some(Phase::Balanced);
    }
    Some(Phase::alone(longer))
}

#[cfg(test)]
mod tests {
    use super::*;

    mod windows;

    const STEP: Duration = Duration::from_millis(10);

    /// Pushes so many steps of 10 ms with these queues; the RTT is 100 ms. Returns the time booked on each case.
    fn push(tracker: &mut PhaseTracker, from: u32, steps: u32, queue: Option<(f64, f64)>) -> [f64; 4] {
        let mut booked = [Duration::ZERO; 4];
        for step in from + 1..=from + steps {
            let input = PhaseInput {
                at: STEP * step,
                span: STEP,
                queue: PerDirection { up: queue.map(|(up, _)| up), down: queue.map(|(_, down)| down) },
                round_trip: Duration::from_millis(100),
                ..PhaseInput::default()
            };
            tracker.push(&input, &Thresholds::default());
            for (sum, credit) in booked.iter_mut().zip(tracker.take_credit()) {
                *sum += credit;
            }
        }
        booked.map(|time| time.as_secs_f64())
    }

    /// Uplink bound, then 60 s without any evidence, then the uplink again: the 60 s belong to no case.
    #[test]
    fn unknown_time_belongs_to_no_case() {
        let mut tracker = PhaseTracker::default();
        assert_eq!(push(&mut tracker, 0, 200, Some((9_000.0, 0.0)))[0], 2.0);
        // A candidate of 40 ms (it must hold 50 ms) just before sight is lost.
        let both = push(&mut tracker, 200, 4, Some((0.0, 0.0)));
        assert_eq!(both, [0.0; 4]);
        let blind = push(&mut tracker, 204, 6_000, None);
        // The candidate's 40 ms are booked on what was seen: empty buffers.
        assert_eq!(blind, [0.0, 0.0, 0.0, 0.04]);
        assert_eq!((tracker.current(), tracker.source()), (None, None));
        let again = push(&mut tracker, 6_204, 100, Some((9_000.0, 0.0)));
        assert_eq!(again, [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(tracker.current(), Some((Phase::UplinkBound, STEP * 6_204)));
    }

    /// Blind for 50 ms: the case holds on, and the 50 ms are nobody's.
    #[test]
    fn a_moment_without_evidence_ends_no_case() {
        let mut tracker = PhaseTracker::default();
        push(&mut tracker, 0, 200, Some((9_000.0, 0.0)));
        assert_eq!(push(&mut tracker, 200, 5, None), [0.0; 4]);
        assert_eq!(tracker.current().map(|(phase, _)| phase), Some(Phase::UplinkBound));
        assert_eq!(push(&mut tracker, 205, 10, Some((9_000.0, 0.0))), [0.1, 0.0, 0.0, 0.0]);
        // More than a second, and it holds no more.
        push(&mut tracker, 215, 100, None);
        assert!(tracker.current().is_some());
        push(&mut tracker, 315, 1, None);
        assert_eq!(tracker.current(), None);
    }

    /// A queue that vanishes for 30 ms (less than the dwell) leaves its time with the case that lasts.
    #[test]
    fn what_does_not_last_belongs_to_what_does() {
        let mut tracker = PhaseTracker::default();
        push(&mut tracker, 0, 100, Some((9_000.0, 0.0)));
        let mut booked = push(&mut tracker, 100, 1, Some((0.0, 0.0)));
        // An empty moment empties the minimum over the RTT of 100 ms, so the candidate wins after 50 ms …
        booked[3] += push(&mut tracker, 101, 9, Some((9_000.0, 0.0)))[3];
        assert!((booked[3] - 0.1).abs() < 1e-9, "{booked:?}");
        // … and the uplink again once it has stood for an RTT.
        assert!((push(&mut tracker, 110, 10, Some((9_000.0, 0.0)))[0] - 0.1).abs() < 1e-9);
    }
}
