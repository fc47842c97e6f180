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
    /// Its verdicts since the beginning of the run, each from the answer on that first had it; the last one is that of the stretch.
    pub verdicts: Vec<Said>,
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
    /// The largest level of its answers, bytes.
    pub queue_max_bytes: PerDirection<Option<f64>>,
    /// Mean of how far it says the level may be off, bytes.
    pub queue_uncertainty_bytes: PerDirection<Option<f64>>,
    /// Its last word on where each level comes from, and how far to trust it: `source`, `trust`.
    pub queue_source: PerDirection<Value>,
    /// Its last word on what fills each buffer: shares of `tcp_data`, `ack`, `udp`, `other`.
    pub queue_composition: PerDirection<Value>,
    /// Its last word on where it stands: `own_queue` or `before_uplink_buffer`.
    pub vantage: Value,
    /// Its last word on the link: both rates and where they come from.
    pub link: Value,
    /// Its last word on the lengths of ACK bursts: mean since its start.
    pub ack_burst_mean: PerDirection<Value>,
    /// How many answers these figures rest on.
    pub answers: usize,
}

/// A verdict from some moment on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Said {
    /// Seconds since the beginning of the run.
    pub at_s: f64,
    /// What it said.
    pub verdict: String,
}

impl AgentSummary {
    /// When it first said the verdict that it ended with, seconds since the beginning of the run.
    pub(super) fn found_at_s(&self) -> Option<f64> {
        let last = self.verdicts.last()?;
        Some(self.verdicts.iter().find(|said| said.verdict == last.verdict)?.at_s)
    }

    /// How often it changed its mind after that.
    pub(super) fn changes_of_mind(&self) -> usize {
        let Some(last) = self.verdicts.last() else { return 0 };
        let first = self.verdicts.iter().position(|said| said.verdict == last.verdict);
        first.map_or(0, |first| self.verdicts.len() - 1 - first)
    }
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
        let values = |pointer: &str| -> Vec<f64> {
            within.iter().filter_map(|link| link.pointer(pointer)?.as_f64()).collect()
        };
        let max = |pointer: &str| values(pointer).into_iter().reduce(f64::max);
        let mean = |pointer: &str| {
            let values = values(pointer);
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let ever = |pointer: &str| {
            let said = within.iter().filter_map(|link| link.pointer(pointer)?.as_bool());
            said.reduce(|before, now| before || now)
        };
        AgentSummary {
            verdict: last("/verdict"),
            phase_share: phase_share(&within).unwrap_or_else(|| last("/phase_share")),
            verdicts: self.verdicts(to),
            verdict_share: verdict_share(&within),
            throughput_ratio: last("/throughput_ratio"),
            swing_period_s: last("/swing_period_s"),
            queue_correlation: last("/queue_correlation"),
            unfair: PerDirection { up: ever("/unfair/up"), down: ever("/unfair/down") },
            queue_mean_bytes: PerDirection {
                up: mean("/directions/up/queue/bytes"),
                down: mean("/directions/down/queue/bytes"),
            },
            queue_max_bytes: PerDirection {
                up: max("/directions/up/queue/bytes"),
                down: max("/directions/down/queue/bytes"),
            },
            queue_uncertainty_bytes: PerDirection {
                up: mean("/directions/up/queue/uncertainty_bytes"),
                down: mean("/directions/down/queue/uncertainty_bytes"),
            },
            queue_source: PerDirection {
                up: source(last("/directions/up/queue")),
                down: source(last("/directions/down/queue")),
            },
            queue_composition: PerDirection {
                up: last("/directions/up/queue/composition"),
                down: last("/directions/down/queue/composition"),
            },
            vantage: last("/vantage"),
            link: last("/link"),
            ack_burst_mean: PerDirection {
                up: last("/directions/up/ack_burst/mean"),
                down: last("/directions/down/ack_burst/mean"),
            },
            answers: within.len(),
        }
    }
}

impl AgentLog {
    fn verdicts(&self, to: Duration) -> Vec<Said> {
        let mut verdicts: Vec<Said> = Vec::new();
        for (at, link) in self.0.iter().take_while(|(at, _)| *at <= to) {
            let Some(verdict) = link.get("verdict").and_then(Value::as_str) else { continue };
            if verdicts.last().is_none_or(|last| last.verdict != verdict) {
                verdicts.push(Said { at_s: at.as_secs_f64(), verdict: verdict.to_owned() });
            }
        }
        verdicts
    }
}

/// Where a level comes from, of all that is said of a queue; null if nothing is.
fn source(queue: Value) -> Value {
    let Value::Object(mut queue) = queue else { return Value::Null };
    queue.retain(|name, _| matches!(name.as_str(), "source" | "trust"));
    Value::Object(queue)
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
        let newer = json!({"vantage": "before_uplink_buffer", "directions": {"up": {"queue": {
            "bytes": 1000, "uncertainty_bytes": 300, "source": "estimate", "trust": "confirmed", "composition": {"udp": 1.0}}}}});
        log.note(seconds(9), &json!({"links": [newer]}));
        let newer = log.summary(seconds(9), seconds(9));
        assert_eq!(newer.vantage, "before_uplink_buffer");
        assert_eq!(newer.queue_uncertainty_bytes, PerDirection { up: Some(300.0), down: None });
        assert_eq!(newer.queue_source.up, json!({"source": "estimate", "trust": "confirmed"}));
        assert_eq!(newer.queue_composition.up, json!({"udp": 1.0}));
        let summary = log.summary(seconds(1), seconds(4));
        assert_eq!(summary.queue_max_bytes, PerDirection { up: Some(4000.0), down: None });
        let said = |at_s: f64, verdict: &str| Said { at_s, verdict: verdict.to_owned() };
        assert_eq!(
            summary.verdicts,
            [said(0.0, "clear"), said(2.0, "one_way"), said(4.0, "swinging")],
            "from the beginning on"
        );
        assert_eq!((summary.vantage, summary.queue_uncertainty_bytes.up), (Value::Null, None));
        assert_eq!(summary.verdict, "swinging");
        assert_eq!(summary.phase_share, json!({"uplink_bound": 0.75, "downlink_bound": 0.25}));
        assert_eq!(summary.verdict_share["one_way"], 0.5);
        assert_eq!(summary.queue_mean_bytes, PerDirection { up: Some(3000.0), down: None });
        assert_eq!(summary.answers, 2);
    }

    #[test]
    fn a_mind_that_changes_and_comes_back_has_changed_twice() {
        let mut log = AgentLog::default();
        for (second, verdict) in
            ["clear", "locked_uplink", "locked_uplink", "balanced", "locked_uplink"].iter().enumerate()
        {
            log.note(seconds(second as u64), &json!({"links": [{"verdict": verdict}]}));
        }
        let summary = log.summary(seconds(2), seconds(4));
        assert_eq!((summary.found_at_s(), summary.changes_of_mind()), (Some(1.0), 2));
        let before = log.summary(seconds(2), seconds(2));
        assert_eq!((before.found_at_s(), before.changes_of_mind()), (Some(1.0), 0));
        assert_eq!(AgentSummary::default().found_at_s(), None);
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
