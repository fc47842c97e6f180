//! What the agent says at one moment, out of `/api/v1/state` and `/api/v1/flows`.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};
use pendulum_wire::{self as wire, Flow, Flows, State};

use super::format;
use crate::statistics::median;

/// One answer of the agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Since the begin of the traffic.
    pub(super) at: Duration,
    pub(super) directions: PerDirection<DirectionReading>,
    pub(super) verdict: Option<String>,
    /// The evidence sentence of the verdict.
    pub(super) reason: Option<String>,
    /// The figures behind it, and what they were held against.
    pub(super) evidence: Option<String>,
}

/// One direction of the link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DirectionReading {
    /// Of the last second, as on the page: over less time, whole packets make it more than the link carries.
    pub(super) throughput_bps: f64,
    pub(super) goodput_bps: f64,
    pub(super) retransmitted_segments: u64,
    pub(super) in_flight_bytes: u64,
    /// Between the gateway and the end this direction leads to: median over the flows that send bulk data there.
    pub(super) rtt_s: Option<f64>,
    pub(super) queue: Option<QueueLevel>,
}

/// The buffer before the link in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QueueLevel {
    pub(super) bytes: u64,
    /// Highest level lately.
    pub(super) peak_bytes: Option<u64>,
}

impl Reading {
    /// Reads the agent's two answers. The lab has one link.
    pub(super) fn of(at: Duration, state: &State, flows: &Flows) -> Self {
        let Some(link) = state.links.first() else { return Self { at, ..Self::default() } };
        let evidence = link.evidence.as_ref();
        Self {
            at,
            directions: PerDirection::from_fn(|direction| DirectionReading {
                rtt_s: rtt(flows, direction),
                ..DirectionReading::of(&link.directions[direction])
            }),
            verdict: link.verdict.as_deref().map(str::to_owned),
            reason: evidence.map(|evidence| evidence.reason.clone()),
            evidence: evidence.and_then(figures),
        }
    }
}

impl DirectionReading {
    fn of(direction: &wire::Direction) -> Self {
        Self {
            throughput_bps: direction.throughput_1s_bps.unwrap_or(direction.throughput_bps),
            goodput_bps: direction.goodput_bps,
            retransmitted_segments: direction.retransmitted_segments,
            in_flight_bytes: direction.in_flight_bytes,
            rtt_s: None,
            queue: direction.queue.as_ref().and_then(QueueLevel::of),
        }
    }
}

impl QueueLevel {
    fn of(queue: &wire::Queue) -> Option<Self> {
        Some(Self { bytes: queue.bytes?, peak_bytes: queue.peak_bytes })
    }
}

/// "uplink bound share 0.97 (threshold 0.8), …": those that decided.
fn figures(evidence: &wire::Evidence) -> Option<String> {
    let figures = evidence.figures.iter().filter_map(|figure| {
        let (name, value) = (figure.name.replace('_', " "), number(figure.value));
        Some(format!("{name} {value} (threshold {})", number(figure.threshold?)))
    });
    let figures: Vec<String> = figures.collect();
    (!figures.is_empty()).then(|| figures.join(", "))
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 {
        return format::grouped(value.abs().round() as u64);
    }
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The latest round trips of the flows that send bulk data in a direction. Others have an old one, of their handshake.
fn rtt(flows: &Flows, direction: Direction) -> Option<f64> {
    const RECENT_SECONDS: f64 = 3.0;
    const BULK_BYTES: u64 = 10_000;
    let recent = |flow: &&Flow| flow.direction == direction.name() && flow.idle_s < RECENT_SECONDS;
    let half = |flow: &Flow| match direction {
        Direction::Up => (flow.up.payload_bytes, flow.up.rtt_last_s),
        Direction::Down => (flow.down.payload_bytes, flow.down.rtt_last_s),
    };
    let bulk = flows.flows.iter().filter(recent).map(half).filter(|(payload, _)| *payload > BULK_BYTES);
    median(bulk.filter_map(|(_, rtt)| rtt).collect())
}

#[cfg(test)]
mod tests {
    use pendulum_wire::FlowHalf;
    use serde_json::{Value, json};

    use super::*;

    fn state(link: Value) -> State {
        serde_json::from_value(json!({ "links": [link] })).expect("a state")
    }

    #[test]
    fn a_state_without_queues_and_verdict_is_read() {
        let state = state(
            json!({"directions": {"up": {"throughput_bps": 1000.5, "in_flight_bytes": 7, "rtt": null}}}),
        );
        let reading = Reading::of(Duration::ZERO, &state, &Flows::default());
        let up = &reading.directions.up;
        assert_eq!((up.throughput_bps, up.in_flight_bytes), (1000.5, 7));
        assert_eq!((up.queue, up.rtt_s, &reading.verdict), (None, None, &None));
        assert_eq!(Reading::of(Duration::ZERO, &State::default(), &Flows::default()), Reading::default());
    }

    #[test]
    fn throughput_is_of_a_whole_second() {
        let up = json!({"throughput_bps": 209_000.0, "throughput_1s_bps": 196_000.0});
        let reading =
            Reading::of(Duration::ZERO, &state(json!({"directions": {"up": up}})), &Flows::default());
        assert_eq!(reading.directions.up.throughput_bps, 196_000.0);
    }

    #[test]
    fn queues_and_verdicts_are_read_with_their_evidence() {
        let state = state(json!({"verdict": "clear",
            "directions": {"up": {"queue": {"bytes": 29_954, "peak_bytes": 29_999}}, "down": {"queue": {"bytes": null}}},
            "evidence": {"reason": "quiet", "figures": [
                {"name": "upload_active_share", "value": 0.104, "threshold": 0.8},
                {"name": "lost_bytes_per_second", "value": 256_000.0}]}}));
        let reading = Reading::of(Duration::ZERO, &state, &Flows::default());
        let queue = reading.directions.up.queue.unwrap();
        assert_eq!((queue.bytes, queue.peak_bytes), (29_954, Some(29_999)));
        assert_eq!(reading.directions.down.queue, None, "not known is not empty");
        assert_eq!(reading.evidence.as_deref(), Some("upload active share 0.1 (threshold 0.8)"));
        assert_eq!((reading.verdict.as_deref(), reading.reason.as_deref()), (Some("clear"), Some("quiet")));
    }

    #[test]
    fn round_trips_are_those_of_bulk_flows_that_live() {
        let flow = |direction: &'static str, payload_bytes: u64, idle_s: f64, rtt: f64| {
            let half = FlowHalf { payload_bytes, rtt_last_s: Some(rtt), ..FlowHalf::default() };
            let (up, down) =
                if direction == "up" { (half, FlowHalf::default()) } else { (FlowHalf::default(), half) };
            Flow { direction: direction.into(), idle_s, up, down, ..Flow::default() }
        };
        let flows = vec![
            flow("up", 90_000, 0.1, 1.2),
            flow("up", 90_000, 0.1, 1.4),
            flow("up", 90_000, 0.1, 1.3),
            flow("up", 90_000, 9.0, 9.9),
            flow("up", 500, 0.1, 0.001),
            flow("down", 90_000, 0.1, 0.002),
        ];
        let flows = Flows { flows, ..Flows::default() };
        assert_eq!(rtt(&flows, Direction::Up), Some(1.3));
        assert_eq!(rtt(&flows, Direction::Down), Some(0.002));
    }
}
