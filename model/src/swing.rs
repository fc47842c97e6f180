//! The swing of the pendulum: changes between case 1 and case 2, and their period.

use std::collections::VecDeque;
use std::time::Duration;

use crate::constants::FEW;
use crate::findings::Phase;
use crate::history::MAX_SLOTS;

/// Follows the changes between `uplink_bound` and `downlink_bound`. Balanced and idle stretches in between neither
/// count nor hide a change.
#[derive(Clone, Debug, Default)]
pub struct Swing {
    side: Option<Phase>,
    recent: VecDeque<Duration>,
    first: Option<Duration>,
    last: Option<Duration>,
    count: u64,
}

impl Swing {
    /// Takes in a confirmed change of case that began at `since`.
    pub fn push(&mut self, phase: Phase, since: Duration) {
        if !matches!(phase, Phase::UplinkBound | Phase::DownlinkBound) {
            return;
        }
        let before = self.side.replace(phase);
        if before.is_none() || before == Some(phase) {
            return;
        }
        if self.recent.len() == MAX_SLOTS {
            self.recent.pop_front();
        }
        self.recent.push_back(since);
        self.first.get_or_insert(since);
        self.last = Some(since);
        self.count += 1;
    }

    /// Changes of side after `start`, as far back as slots are kept.
    pub fn switches_since(&self, start: Duration) -> usize {
        self.recent.iter().rev().take_while(|at| **at > start).count()
    }

    /// Mean period of the full swings after `start`, seconds: two changes make one swing. `None` below three changes,
    /// since one full swing lies between three.
    pub fn period_since(&self, start: Duration) -> Option<f64> {
        let count = self.switches_since(start);
        let first = *self.recent.get(self.recent.len().checked_sub(count)?)?;
        period(first, *self.recent.back()?, count as u64)
    }

    /// Mean period over the whole run, seconds.
    pub fn run_period(&self) -> Option<f64> {
        period(self.first?, self.last?, self.count)
    }
}

fn period(first: Duration, last: Duration, switches: u64) -> Option<f64> {
    if switches < FEW as u64 {
        return None;
    }
    Some(2.0 * last.saturating_sub(first).as_secs_f64() / (switches - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(tenths: u64) -> Duration {
        Duration::from_millis(100 * tenths)
    }

    #[test]
    fn period_by_hand() {
        let mut swing = Swing::default();
        // Sides: up 0.0, down 1.0, up 2.5, down 3.5, up 5.0. The first is no change; four changes, 1.0 … 5.0.
        for (index, &time) in [0, 10, 25, 35, 50].iter().enumerate() {
            let side = if index % 2 == 0 { Phase::UplinkBound } else { Phase::DownlinkBound };
            swing.push(Phase::Idle, at(time));
            swing.push(side, at(time));
            swing.push(Phase::Balanced, at(time + 5));
            swing.push(side, at(time + 6));
        }
        assert_eq!(swing.count, 4);
        // (5.0 − 1.0) · 2 / 3
        assert!((swing.run_period().expect("two swings") - 8.0 / 3.0).abs() < 1e-9);
        assert_eq!(swing.switches_since(at(20)), 3);
        // 2.5 … 5.0 is one full swing.
        assert!((swing.period_since(at(20)).expect("a swing") - 2.5).abs() < 1e-9);
        assert_eq!(swing.period_since(at(30)), None);
    }

    #[test]
    fn one_side_never_swings() {
        let mut swing = Swing::default();
        for second in 0..100 {
            swing.push(Phase::UplinkBound, at(10 * second));
            swing.push(Phase::Idle, at(10 * second + 5));
        }
        assert_eq!((swing.count, swing.run_period()), (0, None));
    }
}
