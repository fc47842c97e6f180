//! What the demo knows at one moment, ready to be drawn.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};

use super::plan::DemoPlan;
use super::reading::Reading;
use crate::lab::LinkSpec;
use crate::truth::QueueReading;

/// One moment of a run.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) plan: DemoPlan,
    pub(super) elapsed: Duration,
    pub(super) link: LinkSpec,
    /// The agent's latest answer.
    pub(super) reading: Reading,
    /// Both queues as `tc` tells them, for an agent that does not measure them.
    pub(super) backlog: PerDirection<QueueReading>,
    /// Utilization of the link so far: share of the run, share of the rate.
    pub(super) history: PerDirection<Vec<(f64, f64)>>,
    /// Alerts that are firing, where Prometheus runs.
    pub(super) alerts: Option<Vec<String>>,
}

impl View {
    pub(super) fn link_bps(&self, direction: Direction) -> f64 {
        let shaper = match direction {
            Direction::Up => &self.link.uplink,
            Direction::Down => &self.link.downlink,
        };
        shaper.rate.bits_per_second() as f64
    }

    /// Share of the link rate in use.
    pub(super) fn utilization(&self, direction: Direction) -> f64 {
        self.reading.directions[direction].throughput_bps / self.link_bps(direction)
    }

    /// Bytes waiting: by the agent if it can tell.
    pub(super) fn queue_bytes(&self, direction: Direction) -> u64 {
        let by_agent = self.reading.directions[direction].queue.map(|queue| queue.bytes);
        by_agent.unwrap_or(self.backlog[direction].backlog_bytes)
    }

    /// Round trip from the gateway to both ends and back, as far as it is known.
    pub(super) fn rtt_s(&self, direction: Direction) -> Option<f64> {
        self.reading.directions[direction].rtt_s
    }

    /// Takes in the agent's latest answer. `readings` are all of this run, the latest last.
    pub(super) fn update(&mut self, elapsed: Duration, readings: &[Reading]) {
        self.elapsed = elapsed;
        let Some(latest) = readings.last() else { return };
        self.reading = latest.clone();
        let share = elapsed.as_secs_f64() / self.plan.total().as_secs_f64();
        for direction in Direction::ALL {
            let utilization = self.utilization(direction);
            self.history[direction].push((share, utilization));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::demo::reading::{DirectionReading, QueueLevel};

    /// A moment beside one upload: the download has collapsed. The agent tells queues and verdict if `is_complete`.
    pub(in crate::demo) fn example(is_complete: bool) -> View {
        let level = |bytes| QueueLevel { bytes, peak_bytes: Some(bytes) };
        let word = |text: &str| is_complete.then(|| text.to_owned());
        let up = DirectionReading {
            throughput_bps: 193_400.0,
            in_flight_bytes: 52_128,
            rtt_s: Some(1.207),
            queue: is_complete.then(|| level(29_954)),
            ..DirectionReading::default()
        };
        let down = DirectionReading {
            throughput_bps: 312_000.0,
            in_flight_bytes: 1448,
            rtt_s: Some(0.000_42),
            queue: is_complete.then(|| level(0)),
            ..DirectionReading::default()
        };
        let reading = Reading {
            at: Duration::from_secs(41),
            directions: PerDirection { up, down },
            verdict: word("locked_uplink"),
            reason: word("the uplink buffer never empties and the downlink carries 13 % of its rate"),
            evidence: None,
        };
        let plan = DemoPlan::new(DemoPlan::USUAL);
        let history = |before: f64, after: f64| {
            let value = |half: u32| if half < 50 { before } else { after };
            (0..82).map(|half| (f64::from(half) / 170.0, value(half))).collect()
        };
        let mut view = View {
            plan,
            elapsed: Duration::ZERO,
            link: LinkSpec::FIG1,
            reading: Reading::default(),
            backlog: PerDirection {
                up: QueueReading { backlog_bytes: 29_000, ..QueueReading::default() },
                down: QueueReading::default(),
            },
            history: PerDirection { up: history(0.12, 0.99), down: history(0.99, 0.13) },
            alerts: None,
        };
        view.update(Duration::from_secs(41), &[reading]);
        view
    }

    #[test]
    fn queues_are_the_agent_s_if_it_has_them() {
        for (is_complete, bytes) in [(true, 29_954), (false, 29_000)] {
            let view = example(is_complete);
            assert_eq!(view.queue_bytes(Direction::Up), bytes);
        }
    }
}
