//! Findings of the delay budget: packets wait at home or beyond the line, for long. Shaping on the gateway helps with neither.

use super::lasting::Lasting;
use super::{Budget, Segment};
use crate::findings::{Evidence, Figure, FindingKind};

/// Whether packets wait in a segment for long.
#[derive(Clone, Debug)]
pub struct SegmentBloat {
    segment: Segment,
    finding: FindingKind,
    /// The wait, seconds.
    waits: Lasting,
}

/// It begins or ends.
#[derive(Clone, Debug, PartialEq)]
pub struct BloatNews {
    /// Which.
    pub finding: FindingKind,
    /// Whether it begins.
    pub begins: bool,
    /// Why.
    pub evidence: Evidence,
}

impl SegmentBloat {
    /// Of the hosts at home and of what is beyond the line.
    pub fn both() -> [Self; 2] {
        [(Segment::Home, FindingKind::HomeBloat), (Segment::Beyond, FindingKind::BeyondBloat)]
            .map(|(segment, finding)| Self { segment, finding, waits: Lasting::default() })
    }

    /// Since when it has held, and the mean wait, seconds; `None` if it does not hold.
    pub fn holds(&self) -> Option<(f64, f64)> {
        Some((self.waits.since_s()?, self.waits.mean()))
    }

    /// One second's budget; `threshold_s`: `bufferbloat-delay`.
    pub fn push(&mut self, at_s: f64, budget: &Budget, threshold_s: f64) -> Option<BloatNews> {
        let delay = budget.part(self.segment).ok();
        let certain = delay.filter(|delay| delay.queue_s - delay.uncertainty_s >= threshold_s);
        let begins = self.waits.push(at_s, certain.map(|delay| delay.queue_s))?;
        let (share, needed) = self.waits.shares();
        let mut figures = vec![Figure::against("delayed_share", share, needed)];
        figures.extend(begins.then(|| Figure::against("delay_s", self.waits.mean(), threshold_s)));
        let evidence = Evidence::new(
            "delay_budget",
            self.sentence(begins),
            figures,
            self.waits.since_s().unwrap_or(at_s),
        );
        Some(BloatNews { finding: self.finding, begins, evidence })
    }

    fn sentence(&self, begins: bool) -> String {
        let wait_ms = self.waits.mean() * 1e3;
        match (self.segment, begins) {
            (Segment::Home, true) => format!(
                "packets wait {wait_ms:.0} ms between the gateway and a host at home: LAN, Wi-Fi or the host, not the line"
            ),
            (_, true) => format!(
                "packets wait {wait_ms:.0} ms beyond the line while other far hosts reply at once: nothing to shape here"
            ),
            (Segment::Home, false) => "packets to the hosts at home no longer wait".to_owned(),
            (_, false) => "packets beyond the line no longer wait".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Delay, Unknown};
    use super::*;

    const THRESHOLD_S: f64 = 0.1;

    fn budget(home: Result<f64, Unknown>) -> Budget {
        let delay = |queue_s| Delay { base_s: 0.001, queue_s, uncertainty_s: 0.02 };
        let free = Ok(delay(0.0));
        Budget {
            segments: [home.map(delay), free, free, free, free],
            home_host: Some(1),
            far_host: None,
            may_wait_s: 0.0,
        }
    }

    /// What is said over these seconds: number of the second and whether it begins.
    fn said(seconds: impl IntoIterator<Item = Result<f64, Unknown>>) -> Vec<(usize, bool)> {
        let [mut home, mut beyond] = SegmentBloat::both();
        let mut said = Vec::new();
        for (second, wait) in seconds.into_iter().enumerate() {
            let news = home.push(second as f64, &budget(wait), THRESHOLD_S);
            said.extend(news.map(|news| (second, news.begins)));
            assert_eq!(beyond.push(second as f64, &budget(wait), THRESHOLD_S), None);
        }
        said
    }

    #[test]
    fn it_begins_after_twelve_seconds_and_ends_when_the_wait_has_gone() {
        let course = [Ok(0.0); 5].into_iter().chain([Ok(0.3); 30]).chain([Ok(0.0); 30]);
        assert_eq!(said(course), [(16, true), (51, false)]);
        let [mut home, _] = SegmentBloat::both();
        let news = (0..12).find_map(|second| home.push(f64::from(second), &budget(Ok(0.3)), THRESHOLD_S));
        let news = news.expect("it begins");
        assert_eq!(news.finding, FindingKind::HomeBloat);
        assert!(news.evidence.reason.contains("300 ms") && news.evidence.since_s < 0.0, "{news:?}");
        assert!(home.holds().is_some_and(|(_, delay_s)| (delay_s - 0.3).abs() < 1e-9));
    }

    /// Bursts of pages, a Wi-Fi that scans each ten seconds, a wait within its own uncertainty, and nothing known.
    #[test]
    fn ordinary_traffic_is_no_finding() {
        let page = (0..600).map(|second| Ok(if second % 5 < 2 { 0.3 } else { 0.01 }));
        let scan = (0..600).map(|second| Ok(if second % 10 == 0 { 0.8 } else { 0.005 }));
        let vague = (0..600).map(|_| Ok(0.11));
        let unknown = (0..600).map(|_| Err(Unknown::TooFew));
        assert_eq!(said(page), []);
        assert_eq!(said(scan), []);
        assert_eq!(said(vague), []);
        assert_eq!(said(unknown), []);
    }

    #[test]
    fn a_wait_that_is_no_longer_known_is_no_longer_said() {
        let course = [Ok(0.3); 20].into_iter().chain([Err(Unknown::NoReplies); 30]);
        assert_eq!(said(course), [(11, true), (36, false)]);
    }
}
