//! What the agent says at one moment, out of `/api/v1/state` and `/api/v1/flows`. A field that this agent does not have is left
//! empty: the demo shows what there is.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};
use serde_json::Value;

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
    pub(super) fn of(at: Duration, state: &Value, flows: &Value) -> Self {
        let link = state.pointer("/links/0").unwrap_or(&Value::Null);
        let verdict = &link["verdict"];
        Self {
            at,
            directions: PerDirection::from_fn(|direction| DirectionReading {
                rtt_s: rtt(flows, direction),
                ..DirectionReading::of(&link["directions"][direction.name()])
            }),
            verdict: name(verdict),
            reason: [&verdict["evidence"], &link["evidence"], verdict]
                .into_iter()
                .find_map(|evidence| evidence["reason"].as_str())
                .map(str::to_owned),
            evidence: evidence(&link["evidence"]),
        }
    }
}

impl DirectionReading {
    fn of(direction: &Value) -> Self {
        let number = |name: &str| direction[name].as_f64().unwrap_or(0.0);
        let count = |name: &str| direction[name].as_u64().unwrap_or(0);
        Self {
            throughput_bps: number("throughput_bps"),
            goodput_bps: number("goodput_bps"),
            retransmitted_segments: count("retransmitted_segments"),
            in_flight_bytes: count("in_flight_bytes"),
            rtt_s: None,
            queue: QueueLevel::of(&direction["queue"]),
        }
    }
}

impl QueueLevel {
    fn of(queue: &Value) -> Option<Self> {
        Some(Self { bytes: whole(&queue["bytes"])?, peak_bytes: whole(&queue["peak_bytes"]) })
    }
}

/// An estimate may have a fraction.
fn whole(value: &Value) -> Option<u64> {
    value.as_f64().filter(|number| *number >= 0.0).map(|number| number.round() as u64)
}

/// "uplink bound share 0.97 (threshold 0.8), …"
fn evidence(evidence: &Value) -> Option<String> {
    let figures = evidence["figures"].as_array()?.iter().filter_map(|figure| {
        let name = figure["name"].as_str()?.replace('_', " ");
        let value = number(figure["value"].as_f64()?);
        let threshold = figure["threshold"].as_f64().map(number);
        Some(format!("{name} {value}{}", threshold.map_or(String::new(), |t| format!(" (threshold {t})"))))
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

/// A bare name, or an object that has one.
fn name(value: &Value) -> Option<String> {
    let found =
        [value, &value["name"], &value["verdict"], &value["phase"]].into_iter().find_map(Value::as_str);
    found.map(str::to_owned)
}

/// The latest round trips of the flows that send bulk data in a direction. Others have an old one, of their handshake.
fn rtt(flows: &Value, direction: Direction) -> Option<f64> {
    const RECENT_SECONDS: f64 = 3.0;
    let all = flows["flows"].as_array().map(Vec::as_slice).unwrap_or_default();
    let recent = all.iter().filter(|flow| {
        flow["direction"] == direction.name()
            && flow["idle_s"].as_f64().is_some_and(|idle| idle < RECENT_SECONDS)
    });
    let bulk = recent.map(|flow| &flow[direction.name()]).filter(|half| {
        const BULK_BYTES: u64 = 10_000;
        half["payload_bytes"].as_u64().is_some_and(|bytes| bytes > BULK_BYTES)
    });
    median(bulk.filter_map(|half| half["rtt_last_s"].as_f64()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn flow(direction: &str, payload: u64, idle: f64, rtt: f64) -> Value {
        let mut flow = json!({"direction": direction, "idle_s": idle});
        flow[direction] = json!({"payload_bytes": payload, "rtt_last_s": rtt});
        flow
    }

    #[test]
    fn a_state_without_queues_and_verdict_is_read() {
        let state = json!({"links": [{"directions": {"up": {"throughput_bps": 1000.5, "in_flight_bytes": 7,
            "rtt": null}, "down": {}}}]});
        let reading = Reading::of(Duration::ZERO, &state, &json!({"flows": []}));
        let up = &reading.directions.up;
        assert_eq!((up.throughput_bps, up.in_flight_bytes), (1000.5, 7));
        assert_eq!((up.queue, up.rtt_s, &reading.verdict), (None, None, &None));
        assert_eq!(Reading::of(Duration::ZERO, &Value::Null, &Value::Null), Reading::default());
    }

    #[test]
    fn queues_windows_and_verdicts_are_read_where_they_are() {
        let state = json!({"links": [{"verdict": {"name": "locked_uplink", "evidence": {"reason": "the uplink buffer never empties"}},
            "directions": {"up": {"queue": {"bytes": 29_954, "peak_bytes": 29_999}},
                           "down": {"queue": {"bytes": 0.4}}}}]});
        let reading = Reading::of(Duration::ZERO, &state, &Value::Null);
        let queue = reading.directions.up.queue.unwrap();
        assert_eq!((queue.bytes, queue.peak_bytes), (29_954, Some(29_999)));
        assert_eq!(reading.directions.down.queue, Some(QueueLevel::default()));
        assert_eq!(reading.verdict.as_deref(), Some("locked_uplink"));
        assert_eq!(reading.reason.as_deref(), Some("the uplink buffer never empties"));
        assert_eq!(reading.evidence, None);
        let bare = json!({"links": [{"verdict": "clear", "evidence": {"reason": "quiet", "figures": [
            {"name": "upload_active_share", "value": 0.104, "threshold": 0.8},
            {"name": "lost_bytes_per_second", "value": 256_000.0}]}}]});
        let reading = Reading::of(Duration::ZERO, &bare, &Value::Null);
        assert_eq!(
            reading.evidence.as_deref(),
            Some("upload active share 0.1 (threshold 0.8), lost bytes per second 256,000")
        );
        assert_eq!((reading.verdict.as_deref(), reading.reason.as_deref()), (Some("clear"), Some("quiet")));
    }

    #[test]
    fn round_trips_are_those_of_bulk_flows_that_live() {
        let flows = json!({"flows": [
            flow("up", 90_000, 0.1, 1.2), flow("up", 90_000, 0.1, 1.4), flow("up", 90_000, 0.1, 1.3),
            flow("up", 90_000, 9.0, 9.9), flow("up", 500, 0.1, 0.001), flow("down", 90_000, 0.1, 0.002)]});
        assert_eq!(rtt(&flows, Direction::Up), Some(1.3));
        assert_eq!(rtt(&flows, Direction::Down), Some(0.002));
    }
}
