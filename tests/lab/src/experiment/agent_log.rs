//! What the agent said during a scenario, and what that says about a stretch of it.

use std::collections::BTreeMap;
use std::time::Duration;

use pendulum_model::segment::PerDirection;
use serde::Serialize;
use serde_json::Value;

/// All answers of the agent (`/api/v1/state`, its one link).
#[derive(Debug, Default)]
pub(super) struct AgentLog(Vec<(Duration, Value)>);

/// What a case reports of the agent. A field that the agent does not offer is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct AgentSummary {
    /// Its last verdict within the stretch, as a name of design.md's list.
    pub verdict: Value,
    /// Share of the stretch in each phase.
    pub phase_share: Value,
    /// Share of the answers with each verdict.
    pub verdict_share: BTreeMap<String, f64>,
    /// Its last word on the ratio: `measured`, `predicted`.
    pub throughput_ratio: Value,
    /// Its last word on the period of the swing, seconds.
    pub swing_period_s: Value,
    /// Its last word on the correlation of both queues.
    pub queue_correlation: Value,
    /// Whether it has found a far flow starved by a near one within the stretch (003), in each direction.
    pub unfair: PerDirection<Option<bool>>,
    /// Mean of what it says each buffer holds, bytes.
    pub queue_mean_bytes: PerDirection<Option<f64>>,
    /// Its last word on the lengths of ACK bursts: mean since its start.
    pub ack_burst_mean: PerDirection<Value>,
    /// How many answers these figures rest on.
    pub answers: usize,
}

impl AgentLog {
    /// Notes one answer: the whole state, whose only link is kept.
    pub(super) fn note(&mut self, at: Duration, state: &Value) {
        let link = state.pointer("/links/0").unwrap_or(state);
        self.0.push((at, link.clone()));
    }

    pub(super) fn answers(&self) -> &[(Duration, Value)] {
        &self.0
    }

    /// Evaluates a stretch.
    pub(super) fn summary(&self, from: Duration, to: Duration) -> AgentSummary {
        let within: Vec<&Value> =
            self.0.iter().filter(|(at, _)| (from..=to).contains(at)).map(|(_, link)| link).collect();
        let last = |pointer: &str| {
            let found = within.iter().rev().find_map(|link| link.pointer(pointer).filter(|v| !v.is_null()));
            found.cloned().unwrap_or(Value::Null)
        };
        let mean = |pointer: &str| {
            let values: Vec<f64> = within.iter().filter_map(|link| link.pointer(pointer)?.as_f64()).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let ever = |pointer: &str| {
            let said = within.iter().filter_map(|link| link.pointer(pointer)?.as_bool());
            said.reduce(|before, now| before || now)
        };
        AgentSummary {
            verdict: last("/verdict"),
            phase_share: phase_share(&within).unwrap_or_else(|| last("/phase_share")),
            verdict_share: verdict_share(&within),
            throughput_ratio: last("/throughput_ratio"),
            swing_period_s: last("/swing_period_s"),
            queue_correlation: last("/queue_correlation"),
            unfair: PerDirection { up: ever("/unfair/up"), down: ever("/unfair/down") },
            queue_mean_bytes: PerDirection {
                up: mean("/directions/up/queue/bytes"),
                down: mean("/directions/down/queue/bytes"),
            },
            ack_burst_mean: PerDirection {
                up: last("/directions/up/ack_burst/mean"),
                down: last("/directions/down/ack_burst/mean"),
            },
            answers: within.len(),
        }
    }
}

/// Time in each phase between the first and the last answer, from the counters since the agent's start: the share it gives itself looks
/// back over its own horizon.
fn phase_share(answers: &[&Value]) -> Option<Value> {
    let seconds = |link: &Value| -> Option<BTreeMap<String, f64>> {
        let phases = link.get("phase_seconds")?.as_object()?;
        phases.iter().map(|(name, value)| Some((name.clone(), value.as_f64()?))).collect()
    };
    let (first, last) = (seconds(answers.first()?)?, seconds(answers.last()?)?);
    let gained: BTreeMap<&str, f64> = last
        .iter()
        .map(|(name, value)| (name.as_str(), value - first.get(name).copied().unwrap_or_default()))
        .collect();
    let total: f64 = gained.values().sum();
    (total > 0.0).then(|| gained.into_iter().map(|(name, value)| (name.to_owned(), value / total)).collect())
}

fn verdict_share(answers: &[&Value]) -> BTreeMap<String, f64> {
    let mut share = BTreeMap::new();
    for verdict in answers.iter().filter_map(|link| link.get("verdict")?.as_str()) {
        *share.entry(verdict.to_owned()).or_default() += 1.0 / answers.len() as f64;
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seconds(value: u64) -> Duration {
        Duration::from_secs(value)
    }

    #[test]
    fn a_stretch_is_summed_up_by_what_changed_within_it() {
        let mut log = AgentLog::default();
        for (second, verdict, up, down) in
            [(0, "clear", 0.0, 0.0), (2, "one_way", 1.0, 1.0), (4, "swinging", 2.5, 1.5)]
        {
            let link = json!({
                "verdict": verdict, "phase_seconds": {"uplink_bound": up, "downlink_bound": down},
                "directions": {"up": {"queue": {"bytes": 1000 * second}}, "down": {"queue": null}}
            });
            log.note(seconds(second), &json!({"links": [link]}));
        }
        let summary = log.summary(seconds(1), seconds(4));
        assert_eq!(summary.verdict, "swinging");
        assert_eq!(summary.phase_share, json!({"uplink_bound": 0.75, "downlink_bound": 0.25}));
        assert_eq!(summary.verdict_share["one_way"], 0.5);
        assert_eq!(summary.queue_mean_bytes, PerDirection { up: Some(3000.0), down: None });
        assert_eq!(summary.answers, 2);
    }

    #[test]
    fn what_the_agent_does_not_say_is_null() {
        let mut log = AgentLog::default();
        log.note(seconds(0), &json!({"links": []}));
        log.note(seconds(1), &json!({"links": [{"phase_share": {"idle": 1.0}}]}));
        let summary = log.summary(seconds(0), seconds(1));
        assert_eq!((summary.verdict, summary.phase_share), (Value::Null, json!({"idle": 1.0})));
        assert_eq!(AgentLog::default().summary(seconds(0), seconds(9)), AgentSummary::default());
    }
}
