//! The newest queue levels and phases, at the 10 ms of the agent's history.

use std::collections::VecDeque;

use pendulum_model::findings::Phase;
use pendulum_model::segment::PerDirection;

use super::found::{self, Moment};
use pendulum_wire::{Step, StepHalf, Tick, TickHalf};

/// Bytes in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QueuedBytes {
    /// Without the ACKs.
    pub(super) data: f32,
    /// Pure ACKs.
    pub(super) ack: f32,
}

impl QueuedBytes {
    pub(super) fn total(self) -> f32 {
        self.data + self.ack
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Point {
    up: Option<QueuedBytes>,
    down: Option<QueuedBytes>,
    phase: Option<Phase>,
    found: PerDirection<Option<Moment>>,
}

/// What is shown in one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GraphColumn {
    /// Mean of the uplink queue.
    pub(super) up: Option<QueuedBytes>,
    /// Mean of the downlink queue.
    pub(super) down: Option<QueuedBytes>,
    /// The phase that held longest.
    pub(super) phase: Option<Phase>,
    /// What the shaper has found.
    pub(super) found: PerDirection<Option<Moment>>,
}

/// A ring of points.
#[derive(Debug, Default)]
pub(super) struct PointRing {
    points: VecDeque<Point>,
    /// Points ever pushed: columns begin at multiples of their width, so that they do not flicker as time goes on.
    pushed: u64,
    at_s: Option<f64>,
}

impl PointRing {
    /// Seconds from point to point.
    pub(super) const STEP: f64 = 0.01;
    /// The longest time that can be shown, seconds.
    pub(super) const SPAN: f64 = 120.0;
    const CAPACITY: usize = (Self::SPAN / Self::STEP) as usize;

    /// Adds what a tick brings, after a gap for what it shows to be missing.
    pub(super) fn tick(&mut self, tick: &Tick) {
        let lengths = [&tick.up, &tick.down].map(|levels| levels.queue_bytes.as_ref().map_or(0, Vec::len));
        let count = lengths.into_iter().max().filter(|&count| count > 0).unwrap_or(10);
        let step = if tick.step_s > 0.0 { tick.step_s } else { Self::STEP };
        if let Some(before) = self.at_s {
            let missing = ((tick.at_s - before) / step).round() - count as f64;
            // A clock that goes back is another agent's.
            if missing < -(count as f64) {
                *self = Self::default();
            } else {
                self.gap(missing);
            }
        }
        self.at_s = Some(tick.at_s);
        let phase = tick.phase.as_deref().and_then(Phase::named);
        let found = PerDirection {
            up: tick.up.auto.as_ref().and_then(Moment::of),
            down: tick.down.auto.as_ref().and_then(Moment::of),
        };
        for index in 0..count {
            self.push(Point { up: level(&tick.up, index), down: level(&tick.down, index), phase, found });
        }
    }

    /// Begins with what the agent remembers, if nothing has come yet: each step as a level that lasted.
    pub(super) fn remember(&mut self, steps: &[Step]) {
        if !self.points.is_empty() {
            return;
        }
        for step in steps {
            let begin = step.at_s - step.lasted_s;
            self.gap(self.at_s.map_or(0.0, |before| ((begin - before) / Self::STEP).round()));
            let phase = step.phase_share.and_then(|shares| {
                Phase::ALL.into_iter().max_by(|&one, &other| shares.of(one).total_cmp(&shares.of(other)))
            });
            let level = |half: &StepHalf| {
                let (total, ack) = (half.queue_bytes? as f32, half.queue_ack_bytes.unwrap_or(0.0) as f32);
                Some(QueuedBytes { data: (total - ack).max(0.0), ack: ack.min(total) })
            };
            let found = PerDirection {
                up: step.up.auto.as_ref().and_then(Moment::of_step),
                down: step.down.auto.as_ref().and_then(Moment::of_step),
            };
            self.hold(step.lasted_s, level(&step.up), level(&step.down), phase, found);
            self.at_s = Some(step.at_s);
        }
    }

    /// Adds a reading that stands for `seconds`, where there is no stream.
    pub(super) fn hold(
        &mut self,
        seconds: f64,
        up: Option<QueuedBytes>,
        down: Option<QueuedBytes>,
        phase: Option<Phase>,
        found: PerDirection<Option<Moment>>,
    ) {
        let count = (seconds / Self::STEP).clamp(1.0, Self::CAPACITY as f64) as usize;
        for _ in 0..count {
            self.push(Point { up, down, phase, found });
        }
    }

    fn gap(&mut self, points: f64) {
        for _ in 0..points.clamp(0.0, Self::CAPACITY as f64) as usize {
            self.push(Point::default());
        }
    }

    fn push(&mut self, point: Point) {
        if self.points.len() == Self::CAPACITY {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.pushed += 1;
    }

    /// The last `seconds` in so many columns, oldest first; columns before the first point are empty.
    pub(super) fn columns(&self, seconds: f64, columns: usize) -> Vec<GraphColumn> {
        if columns == 0 {
            return Vec::new();
        }
        let width = ((seconds / Self::STEP) as u64 / columns as u64).max(1);
        let first_kept = self.pushed - self.points.len() as u64;
        let last = self.pushed.saturating_sub(1) / width;
        let column = |index: u64| {
            let from = (index * width).max(first_kept) - first_kept;
            let to = ((index + 1) * width).clamp(first_kept, self.pushed) - first_kept;
            if from >= to {
                return GraphColumn::default();
            }
            mean(self.points.range(from as usize..to as usize))
        };
        (0..columns as u64).rev().map(|back| last.checked_sub(back).map(column).unwrap_or_default()).collect()
    }
}

fn level(levels: &TickHalf, index: usize) -> Option<QueuedBytes> {
    let at = |levels: &Option<Vec<f64>>| Some(*levels.as_ref()?.get(index)? as f32);
    let (total, ack) = (at(&levels.queue_bytes)?, at(&levels.queue_ack_bytes).unwrap_or(0.0));
    Some(QueuedBytes { data: (total - ack).max(0.0), ack: ack.min(total) })
}

fn mean<'a>(points: impl Iterator<Item = &'a Point> + Clone) -> GraphColumn {
    let mean_of = |part: fn(&Point) -> Option<QueuedBytes>| {
        let (mut sum, mut count) = (QueuedBytes::default(), 0.0);
        for level in points.clone().filter_map(part) {
            sum = QueuedBytes { data: sum.data + level.data, ack: sum.ack + level.ack };
            count += 1.0;
        }
        (count > 0.0).then(|| QueuedBytes { data: sum.data / count, ack: sum.ack / count })
    };
    let mut held = [0; Phase::ALL.len()];
    for phase in points.clone().filter_map(|point| point.phase) {
        held[phase as usize] += 1;
    }
    let longest = Phase::ALL.into_iter().max_by_key(|&phase| held[phase as usize]);
    GraphColumn {
        up: mean_of(|point| point.up),
        down: mean_of(|point| point.down),
        phase: longest.filter(|&phase| held[phase as usize] > 0),
        found: PerDirection::from_fn(|x| found::mean(points.clone().map(|point| point.found[x]))),
    }
}

#[cfg(test)]
mod tests {
    use pendulum_wire::PerPhase;

    use super::*;

    fn tick(at_s: f64, bytes: f64, acks: f64, phase: &'static str) -> Tick {
        let levels = |bytes: f64, acks: f64| TickHalf {
            queue_bytes: Some(vec![bytes; 10]),
            queue_ack_bytes: Some(vec![acks; 10]),
            ..TickHalf::default()
        };
        Tick {
            at_s,
            step_s: 0.01,
            up: levels(bytes, acks),
            down: TickHalf::default(),
            phase: Some(phase.into()),
            ..Tick::default()
        }
    }

    #[test]
    fn columns_are_means_and_the_phase_that_held_longest() {
        let mut series = PointRing::default();
        series.tick(&tick(0.1, 1000.0, 100.0, "idle"));
        series.tick(&tick(0.2, 3000.0, 300.0, "uplink_bound"));
        series.tick(&tick(0.3, 3000.0, 300.0, "uplink_bound"));
        // Columns of 30 points.
        let columns = series.columns(0.6, 2);
        assert_eq!(columns.len(), 2);
        let up = columns[1].up.expect("known");
        assert!((up.total() - 7000.0 / 3.0).abs() < 1.0 && (up.ack - 700.0 / 3.0).abs() < 1.0, "{up:?}");
        assert_eq!((columns[1].down, columns[1].phase), (None, Some(Phase::UplinkBound)));
        assert_eq!(columns[0], GraphColumn::default());
    }

    #[test]
    fn what_is_missing_is_a_gap_and_a_new_agent_begins_anew() {
        let mut series = PointRing::default();
        series.tick(&tick(10.0, 1.0, 0.0, "idle"));
        series.tick(&tick(11.0, 1.0, 0.0, "idle"));
        assert_eq!(series.points.len(), 110);
        assert_eq!(series.points.iter().filter(|point| point.up.is_none()).count(), 90);
        series.tick(&tick(0.5, 1.0, 0.0, "idle"));
        assert_eq!(series.points.len(), 10);
    }

    #[test]
    fn what_the_agent_remembers_comes_before_the_ticks() {
        let step = |at_s, lasted_s, bytes| Step {
            at_s,
            lasted_s,
            up: StepHalf {
                queue_bytes: Some(bytes),
                queue_ack_bytes: Some(bytes / 4.0),
                ..StepHalf::default()
            },
            down: StepHalf::default(),
            phase_share: Some(PerPhase { idle: 0.4, uplink_bound: 0.6, ..PerPhase::default() }),
            verdict: None,
        };
        let mut series = PointRing::default();
        series.remember(&[step(10.0, 10.0, 4000.0), step(25.0, 5.0, 8000.0)]);
        // Ten seconds, a gap of ten, five seconds.
        assert_eq!(series.points.len(), 2500);
        let columns = series.columns(25.0, 5);
        let levels: Vec<_> = columns.iter().map(|column| column.up.map(|level| level.total())).collect();
        assert_eq!(levels, [Some(4000.0), Some(4000.0), None, None, Some(8000.0)]);
        assert!(columns.iter().all(|column| column.down.is_none()), "not known is not empty");
        assert_eq!(columns[4].phase, Some(Phase::UplinkBound));
        series.tick(&tick(25.1, 1.0, 0.0, "idle"));
        assert_eq!(series.points.len(), 2510);
        // Once there are ticks, they are what is known best.
        series.remember(&[step(30.0, 10.0, 1.0)]);
        assert_eq!(series.points.len(), 2510);
    }

    #[test]
    fn the_ring_is_bounded() {
        let mut series = PointRing::default();
        series.hold(1e9, None, None, None, PerDirection::default());
        series.hold(100.0, Some(QueuedBytes { data: 5.0, ack: 0.0 }), None, None, PerDirection::default());
        assert_eq!(series.points.len(), PointRing::CAPACITY);
        let columns = series.columns(PointRing::SPAN, 120);
        assert_eq!(columns.iter().filter(|column| column.up.is_some()).count(), 100);
    }
}
