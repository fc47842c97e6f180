//! The verdict on a whole capture, and why: evidence that is missing makes it `unknown`, never `clear`.

use pendulum_model::findings::Verdict;
use pendulum_model::segment::Direction;

use super::super::session::Outcome;

/// The verdict on the whole, with its reason in one sentence. `reason`: why the detector said what it said, by verdict.
pub(super) fn conclude(
    outcome: &Outcome,
    reason: impl Fn(Verdict) -> Option<String>,
) -> (Verdict, Option<String>) {
    let verdict = outcome.detector.overall_verdict();
    let held: f64 = outcome.detector.state().verdict_seconds.iter().sum();
    let doubt = if held == 0.0 {
        Some(format!(
            "{:.1} s with {} usable packets are too short for a verdict",
            outcome.duration_s,
            outcome.account.used()
        ))
    } else if verdict == Verdict::Clear {
        missing_direction(outcome).or_else(|| outcome.account.doubt(outcome.duration_s))
    } else {
        None
    };
    match doubt {
        Some(doubt) => (Verdict::Unknown, Some(doubt)),
        None => (verdict, reason(verdict)),
    }
}

fn missing_direction(outcome: &Outcome) -> Option<String> {
    let missing = |x: &Direction| outcome.missing[*x];
    Direction::ALL
        .into_iter()
        .find(missing)
        .map(|x| format!("the packets {} are missing from the capture", x.name()))
}
