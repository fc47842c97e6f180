//! The degree of a verdict: what is lost, and how urgent that is. One rule for words, colours and alerts.

use serde::Serialize;

use crate::constants::HALF;
use crate::findings::{Evidence, Verdict};

named! {
    /// How urgent a verdict is.
    #[derive(Default)]
    pub enum Severity {
        /// Nothing is lost that matters.
        #[default]
        Info = "info",
        /// Something is slow.
        Warning = "warning",
        /// Something hardly works.
        Critical = "critical",
    }
}

/// From which losses on a verdict is urgent.
struct Urgency {
    /// Share of the starved direction's rate that is lost.
    lost_ratio: f64,
    /// Standing delay of all traffic, seconds.
    delay_s: f64,
}

/// A lock loses half of the rate and more when it is found; down to a quarter it is worth a look.
const WARNING: Urgency = Urgency { lost_ratio: HALF * HALF, delay_s: 0.1 };
/// A quarter of the rate is left; calls fail (ITU-T G.114: 0.4 s one way is the limit for planning).
const CRITICAL: Urgency = Urgency { lost_ratio: 1.0 - HALF * HALF, delay_s: 0.4 };

/// What a verdict costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Degree {
    /// Share of a direction's rate that it loses because the other one's buffer is full, 0 to 1. `None` if no buffer is full alone or the rate is
    /// unknown.
    pub lost_ratio: Option<f64>,
    /// How urgent it is.
    pub severity: Severity,
}

impl Degree {
    /// Of a verdict with its evidence. `delay_s`: the longest standing delay of a direction with bufferbloat.
    pub fn of(verdict: Verdict, evidence: Option<&Evidence>, delay_s: Option<f64>) -> Self {
        let starves = matches!(verdict, Verdict::LockedUplink | Verdict::LockedDownlink);
        let lost_ratio = evidence.and_then(|evidence| match verdict {
            _ if starves => lost_ratio(evidence),
            Verdict::Balanced => slowed(evidence),
            _ => None,
        });
        let least = match verdict {
            // Which part each direction loses is not measured.
            Verdict::Swinging => Severity::Warning,
            _ if starves && lost_ratio.is_none() => Severity::Warning,
            _ => Severity::Info,
        };
        let reaches = |bounds: &Urgency| {
            lost_ratio.is_some_and(|lost| lost >= bounds.lost_ratio)
                || delay_s.is_some_and(|delay| delay >= bounds.delay_s)
        };
        let severity = match () {
            () if reaches(&CRITICAL) => Severity::Critical,
            () if reaches(&WARNING) => Severity::Warning,
            () => Severity::Info,
        };
        Self { lost_ratio, severity: severity.max(least) }
    }
}

fn lost_ratio(evidence: &Evidence) -> Option<f64> {
    let lost = evidence.figure("lost_bytes_per_second")?;
    let remaining = evidence.figure("remaining_bytes_per_second")?;
    (lost + remaining > 0.0).then(|| lost / (lost + remaining))
}

/// One buffer alone is full most of the time, and the other direction gets more than a lock leaves it: the rest is lost all the same.
fn slowed(evidence: &Evidence) -> Option<f64> {
    let of = |bound: &str, used: &str| {
        let is_full = evidence.figure(bound)? >= HALF;
        evidence.figure(used).filter(|_| is_full).map(|used| (1.0 - used).max(0.0))
    };
    of("uplink_bound_share", "downlink_utilization")
        .or_else(|| of("downlink_bound_share", "uplink_utilization"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Figure;

    fn lock(lost: f64) -> Evidence {
        let figures = vec![
            Figure::new("remaining_bytes_per_second", 1e5 * (1.0 - lost)),
            Figure::new("lost_bytes_per_second", 1e5 * lost),
        ];
        Evidence::new("r", "", figures, 0.0)
    }

    #[test]
    fn a_lock_is_as_urgent_as_what_it_costs() {
        for (lost, severity) in [
            (0.9, Severity::Critical),
            (0.75, Severity::Critical),
            (0.5, Severity::Warning),
            (0.33, Severity::Warning),
            (0.2, Severity::Info),
        ] {
            let degree = Degree::of(Verdict::LockedUplink, Some(&lock(lost)), None);
            assert!((degree.lost_ratio.unwrap() - lost).abs() < 1e-9);
            assert_eq!(degree.severity, severity, "{lost}");
        }
        let unknown = Evidence { figures: Vec::new(), ..lock(0.5) };
        let degree = Degree::of(Verdict::LockedDownlink, Some(&unknown), None);
        assert_eq!(degree, Degree { lost_ratio: None, severity: Severity::Warning });
    }

    #[test]
    fn balanced_traffic_behind_one_full_buffer_has_a_loss_too() {
        let balanced = |up_bound, down_used| {
            let figures = vec![
                Figure::new("uplink_bound_share", up_bound),
                Figure::new("downlink_bound_share", 1.0 - up_bound),
                Figure::new("uplink_utilization", 1.01),
                Figure::new("downlink_utilization", down_used),
            ];
            let evidence = Evidence { figures, ..lock(0.0) };
            Degree::of(Verdict::Balanced, Some(&evidence), None)
        };
        let slowed = balanced(0.95, 0.6);
        assert!((slowed.lost_ratio.unwrap() - 0.4).abs() < 1e-9);
        assert_eq!(slowed.severity, Severity::Warning);
        assert_eq!(balanced(0.95, 0.9).severity, Severity::Info);
        // The direction that the full buffer belongs to loses nothing.
        assert_eq!(balanced(0.1, 0.6), Degree { lost_ratio: Some(0.0), severity: Severity::Info });
    }

    #[test]
    fn ordinary_traffic_is_no_more_than_information() {
        for verdict in
            [Verdict::OneWay, Verdict::Balanced, Verdict::Clear, Verdict::Unknown, Verdict::AckCompression]
        {
            // Figures of another verdict do not count.
            assert_eq!(Degree::of(verdict, Some(&lock(0.9)), None), Degree::default(), "{verdict:?}");
            assert_eq!(Degree::of(verdict, None, Some(0.09)).severity, Severity::Info);
            assert_eq!(Degree::of(verdict, None, Some(0.1)).severity, Severity::Warning);
            assert_eq!(Degree::of(verdict, None, Some(0.39)).severity, Severity::Warning);
            assert_eq!(Degree::of(verdict, None, Some(0.4)).severity, Severity::Critical);
        }
        assert_eq!(Degree::of(Verdict::Swinging, None, None).severity, Severity::Warning);
    }

    #[test]
    fn what_is_all_lost_and_what_is_nothing() {
        let lost = |lost, remaining| {
            let figures = vec![
                Figure::new("remaining_bytes_per_second", remaining),
                Figure::new("lost_bytes_per_second", lost),
            ];
            lost_ratio(&Evidence { figures, ..lock(0.0) })
        };
        assert_eq!(
            [lost(3.0, 1.0), lost(3.0, 0.0), lost(0.0, 1.0), lost(0.0, 0.0)],
            [Some(0.75), Some(1.0), Some(0.0), None]
        );
    }
}
