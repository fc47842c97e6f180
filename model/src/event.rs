//! What the event log prints: a change, why, and what a verdict costs.

use serde::{Serialize, Serializer};

use crate::degree::{Degree, Severity};
use crate::findings::{Change, Evidence};

/// Something changed; what the event log prints.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When it was recognised, seconds on the samples' clock.
    pub at_s: f64,
    /// What.
    pub change: Change,
    /// Why.
    pub evidence: Evidence,
}

impl Event {
    /// Of a verdict: what it costs.
    pub fn degree(&self) -> Option<Degree> {
        match self.change {
            Change::Verdict { to, .. } => Some(Degree::of(to, Some(&self.evidence), None)),
            _ => None,
        }
    }
}

/// One flat object; a verdict has its degree.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            at_s: f64,
            #[serde(flatten)]
            change: Change,
            #[serde(skip_serializing_if = "Option::is_none")]
            lost_ratio: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            severity: Option<Severity>,
            evidence: &'a Evidence,
        }
        let Self { at_s, change, evidence } = self;
        let degree = self.degree();
        Line {
            at_s: *at_s,
            change: *change,
            lost_ratio: degree.and_then(|degree| degree.lost_ratio),
            severity: degree.map(|degree| degree.severity),
            evidence,
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Figure, Phase};

    #[test]
    fn an_event_is_one_flat_line() {
        let event = Event {
            at_s: 1.5,
            change: Change::Phase { from: None, to: Phase::UplinkBound, dwell_s: 0.0 },
            evidence: Evidence {
                rule: "standing_queues".into(),
                reason: "only the uplink buffer holds a standing queue".to_owned(),
                figures: vec![Figure::against("uplink_standing_bytes", 3000.0, 1500.0)],
                since_s: 1.25,
                held_since_s: None,
                missing: vec!["downlink_queue".into()],
            },
        };
        let json: serde_json::Value = serde_json::to_value(&event).expect("json");
        assert_eq!(json["event"], "phase");
        assert_eq!(json["to"], "uplink_bound");
        assert_eq!(json["evidence"]["figures"][0]["threshold"], 1500.0);
        assert_eq!(json["evidence"]["missing"][0], "downlink_queue");
    }
}
