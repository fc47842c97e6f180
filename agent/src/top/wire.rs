//! What is read of the agent's answers (docs/reference/api.md). Everything may be missing: the agent may be of another version.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `/api/v1/state`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct State {
    pub(super) version: String,
    pub(super) links: Vec<Link>,
}

/// One link of it, and the event `state` of the stream.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) wan: String,
    pub(super) device: String,
    pub(super) trouble: Option<String>,
    pub(super) vantage: Option<String>,
    pub(super) link: Rates,
    pub(super) directions: BothWays<Direction>,
    pub(super) phase: Option<String>,
    pub(super) phase_share: Option<BTreeMap<String, f64>>,
    /// Of how many seconds the shares are.
    pub(super) horizon_s: Option<f64>,
    pub(super) verdict: Option<String>,
    pub(super) verdict_for_s: Option<f64>,
    pub(super) evidence: Option<Evidence>,
    pub(super) bufferbloat: BothWays<Option<Bufferbloat>>,
    pub(super) swing_period_s: Option<f64>,
    pub(super) throughput_ratio: Option<Ratio>,
    pub(super) degraded: Vec<String>,
    pub(super) shape: Option<Shape>,
}

/// What the link is shaped to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Shape {
    pub(super) state: String,
    pub(super) uplink: Option<Line>,
    pub(super) downlink: Option<Line>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    pub(super) rate_bps: f64,
    /// How that rate is found, if it is looked for.
    pub(super) auto: Option<Auto>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Auto {
    pub(super) decision: String,
    pub(super) reason: String,
    pub(super) waits_behind_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct BothWays<T> {
    pub(super) up: T,
    pub(super) down: T,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rates {
    pub(super) uplink_rate_bps: Option<f64>,
    pub(super) downlink_rate_bps: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Direction {
    pub(super) retransmitted_segments: u64,
    pub(super) throughput_bps: f64,
    pub(super) utilization: Option<f64>,
    pub(super) in_flight_bytes: u64,
    pub(super) flows: u64,
    pub(super) rtt: Option<Rtt>,
    pub(super) queue: Option<Queue>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rtt {
    pub(super) min_s: Option<f64>,
    pub(super) p50_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) source: String,
    pub(super) bytes: Option<f64>,
    /// 0 if the level is exact.
    pub(super) uncertainty_bytes: Option<f64>,
    pub(super) ack_bytes: Option<f64>,
    pub(super) limit_bytes: Option<f64>,
    pub(super) standing_bytes: Option<f64>,
    /// Shares of what entered lately, by kind.
    pub(super) composition: Option<BTreeMap<String, f64>>,
    pub(super) top_port: Option<TopPort>,
    pub(super) drops: BTreeMap<String, u64>,
}

/// What is no TCP and carries most.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TopPort {
    pub(super) name: String,
    /// Of all bytes, at least.
    pub(super) share: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Evidence {
    pub(super) reason: String,
    /// What it would take to say more, by its names in the API.
    pub(super) missing: Vec<String>,
}

/// A buffer that never drains.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Bufferbloat {
    pub(super) delay_s: f64,
    pub(super) cause: Option<Cause>,
    pub(super) help: String,
}

/// What fills it most.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Cause {
    pub(super) kind: String,
    pub(super) share: f64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Ratio {
    pub(super) measured: Option<f64>,
    pub(super) predicted: Option<f64>,
}

/// Event `tick` of `/api/v1/stream`: the newest 100 ms in steps of 10 ms.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tick {
    pub(super) at_s: f64,
    pub(super) step_s: f64,
    pub(super) up: Levels,
    pub(super) down: Levels,
    pub(super) phase: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Levels {
    pub(super) queue_bytes: Option<Vec<Option<f32>>>,
    pub(super) queue_ack_bytes: Option<Vec<Option<f32>>>,
    pub(super) auto: Option<Found>,
}

/// A rate that the shaper has found, while packets pass it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Found {
    pub(super) rate_bps: f64,
    pub(super) waits_behind_s: Option<f64>,
    pub(super) decision: String,
}

/// `/api/v1/history`: what was before the ticks.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
}

/// Ten seconds, as means.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Step {
    /// The end, on the clock of the ticks.
    pub(super) at_s: f64,
    pub(super) lasted_s: f64,
    pub(super) up: StepHalf,
    pub(super) down: StepHalf,
    pub(super) phase_share: Option<BTreeMap<String, f64>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StepHalf {
    pub(super) queue_bytes: Option<f64>,
    pub(super) queue_ack_bytes: Option<f64>,
    pub(super) auto: Option<FoundStep>,
}

/// The same over a step: means, and shares of the decisions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FoundStep {
    pub(super) rate_bps: f64,
    pub(super) waits_behind_s: Option<f64>,
    pub(super) decision_share: BTreeMap<String, f64>,
}

/// `/api/v1/flows`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Flows {
    pub(super) total: u64,
    /// Why the hosts behind translated addresses are not named.
    pub(super) home_host_missing: Option<String>,
    pub(super) flows: Vec<Flow>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Flow {
    pub(super) client: String,
    pub(super) server: String,
    /// Which of them is behind the gateway.
    pub(super) home: String,
    /// The host behind the home end's address, where that is translated.
    pub(super) home_host: Option<String>,
    /// Whose it is: home's, the gateway's own.
    pub(super) traffic: Option<String>,
    pub(super) direction: String,
    pub(super) state: String,
    pub(super) up: Half,
    pub(super) down: Half,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Half {
    pub(super) bytes: u64,
    pub(super) throughput_bps: f64,
    pub(super) in_flight_bytes: u64,
    pub(super) rtt_last_s: Option<f64>,
    pub(super) retransmitted_segments: u64,
}

impl Flow {
    /// Both ways together.
    pub(super) fn throughput_bps(&self) -> f64 {
        self.up.throughput_bps + self.down.throughput_bps
    }

    pub(super) fn bytes(&self) -> u64 {
        self.up.bytes + self.down.bytes
    }

    pub(super) fn in_flight_bytes(&self) -> u64 {
        self.up.in_flight_bytes + self.down.in_flight_bytes
    }

    pub(super) fn retransmitted_segments(&self) -> u64 {
        self.up.retransmitted_segments + self.down.retransmitted_segments
    }

    /// From the gateway to the remote end and back, or, where only that was timed, to the home end.
    pub(super) fn rtt_s(&self) -> Option<f64> {
        self.up.rtt_last_s.or(self.down.rtt_last_s)
    }

    /// The end behind the gateway, and the other one.
    pub(super) fn ends(&self) -> (&str, &str) {
        if self.home == "server" { (&self.server, &self.client) } else { (&self.client, &self.server) }
    }
}
