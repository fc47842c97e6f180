//! What the demo knows at one moment, ready to be drawn.

use std::time::Duration;

use pendulum_model::segment::{Class, Direction, PerDirection};

use super::plan::Plan;
use super::reading::Reading;
use crate::lab::LinkSpec;
use crate::truth::QueueReading;

/// One moment of a run.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) plan: Plan,
    pub(super) elapsed: Duration,
    pub(super) link: LinkSpec,
    /// The agent's latest answer.
    pub(super) reading: Reading,
    /// Segments per second by class over the last seconds, in the order of [`Class::ALL`].
    pub(super) per_second: PerDirection<[f64; Class::ALL.len()]>,
    /// Both queues as `tc` tells them, for an agent that does not measure them.
    pub(super) backlog: PerDirection<QueueReading>,
    /// Utilization of the link so far: share of the run, share of the rate.
    pub(super) history: PerDirection<Vec<(f64, f64)>>,
    /// Alerts that are firing, where Prometheus runs.
    pub(super) alerts: Option<Vec<String>>,
    /// Where the agent can be looked at.
    pub(super) url: String,
}

impl View {
    pub(super) fn link_bps(&self, direction: Direction) -> f64 {
        let shaper = match direction {
            Direction::Up => &self.link.uplink,
            Direction::Down => &self.link.downlink,
        };
        shaper.rate.bits_per_second() as f64
    }

    pub(super) fn buffer_bytes(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.link.uplink.buffer_bytes(),
            Direction::Down => self.link.downlink.buffer_bytes(),
        }
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

    /// Whether the length of a queue is the agent's word.
    pub(super) fn agent_tells_queue(&self, direction: Direction) -> bool {
        self.reading.directions[direction].queue.is_some()
    }

    /// Round trip from the gateway to both ends and back, as far as it is known.
    pub(super) fn rtt_s(&self, direction: Direction) -> Option<f64> {
        self.reading.directions[direction].rtt_s
    }

    /// Takes in the agent's latest answer. `readings` are all of this run, the latest last.
    pub(super) fn update(&mut self, elapsed: Duration, readings: &[Reading]) {
        /// Rates of segments are taken over this time: shorter, and they flicker.
        const WINDOW: Duration = Duration::from_secs(2);
        self.elapsed = elapsed;
        let Some(latest) = readings.last() else { return };
        self.reading = latest.clone();
        let since = latest.at.saturating_sub(WINDOW);
        let earlier = readings.iter().rfind(|reading| reading.at <= since).or_else(|| readings.first());
        if let Some(earlier) = earlier.filter(|earlier| earlier.at < latest.at) {
            let seconds = (latest.at - earlier.at).as_secs_f64();
            self.per_second = PerDirection::from_fn(|direction| {
                let (now, then) = (&latest.directions[direction], &earlier.directions[direction]);
                std::array::from_fn(|class| {
                    now.segments[class].saturating_sub(then.segments[class]) as f64 / seconds
                })
            });
        }
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

    pub(in crate::demo) fn segments(data: u64, acks: u64) -> [u64; Class::ALL.len()] {
        let mut segments = [0; Class::ALL.len()];
        (segments[Class::Data as usize], segments[Class::Ack as usize]) = (data, acks);
        segments
    }

    /// A moment beside one upload: the download has collapsed. The agent tells queues and verdict if `is_complete`.
    pub(in crate::demo) fn example(is_complete: bool) -> View {
        let level =
            |bytes, ack_bytes| QueueLevel { bytes, peak_bytes: Some(bytes), ack_bytes: Some(ack_bytes) };
        let word = |text: &str| is_complete.then(|| text.to_owned());
        let up = DirectionReading {
            throughput_bps: 193_400.0,
            in_flight_bytes: 52_128,
            flows: 1,
            rtt_s: Some(1.207),
            queue: is_complete.then(|| level(29_954, 1848)),
            cwnd_bytes: is_complete.then_some(53_576),
            segments: segments(300, 400),
            ..DirectionReading::default()
        };
        let down = DirectionReading {
            throughput_bps: 312_000.0,
            in_flight_bytes: 1448,
            flows: 1,
            rtt_s: Some(0.000_42),
            queue: is_complete.then(|| level(0, 0)),
            segments: segments(3000, 150),
            ..DirectionReading::default()
        };
        let reading = Reading {
            at: Duration::from_secs(41),
            directions: PerDirection { up, down },
            phase: word("uplink_bound"),
            verdict: word("locked_uplink"),
            reason: word("the uplink buffer never empties and the downlink carries 13 % of its rate"),
            evidence: None,
        };
        let plan = Plan::new(Plan::USUAL);
        let mut earlier = Reading { at: Duration::from_secs(39), ..Reading::default() };
        earlier.directions.down.segments = segments(2948, 134);
        earlier.directions.up.segments = segments(270, 374);
        let history = |before: f64, after: f64| {
            let value = |half: u32| if half < 50 { before } else { after };
            (0..82).map(|half| (f64::from(half) / 170.0, value(half))).collect()
        };
        let mut view = View {
            plan,
            elapsed: Duration::ZERO,
            link: LinkSpec::FIG1,
            reading: Reading::default(),
            per_second: PerDirection::default(),
            backlog: PerDirection {
                up: QueueReading { backlog_bytes: 29_000, ..QueueReading::default() },
                down: QueueReading::default(),
            },
            history: PerDirection { up: history(0.12, 0.99), down: history(0.99, 0.13) },
            alerts: None,
            url: "http://127.0.0.1:9924/".to_owned(),
        };
        view.update(Duration::from_secs(41), &[earlier, reading]);
        view
    }

    #[test]
    fn classes_are_rates_over_the_last_seconds() {
        let view = example(true);
        assert_eq!(view.per_second.down[Class::Data as usize], 26.0);
        assert_eq!(view.per_second.up[Class::Ack as usize], 13.0);
    }

    #[test]
    fn queues_are_the_agent_s_if_it_has_them() {
        for (is_complete, bytes) in [(true, 29_954), (false, 29_000)] {
            let view = example(is_complete);
            assert_eq!(view.queue_bytes(Direction::Up), bytes);
            assert_eq!(view.agent_tells_queue(Direction::Up), is_complete);
        }
    }
}
