//! The clocks of many senders: so many are remembered, those that were read last.

use std::collections::HashMap;

use super::clock::SenderClock;
use super::rules::RULES;

/// Clocks by flow.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// When each was last asked for, nanoseconds.
    by_flow: HashMap<u64, (f64, Box<SenderClock>)>,
}

impl Clocks {
    /// The flow's clock, read at `at_ns`. Where there is no room for one more, the half that was read longest ago goes.
    pub(super) fn of(&mut self, flow: u64, at_ns: f64) -> &mut SenderClock {
        if self.by_flow.len() >= RULES.records_max && !self.by_flow.contains_key(&flow) {
            let mut read: Vec<f64> = self.by_flow.values().map(|(read_ns, _)| *read_ns).collect();
            let (_, median_ns, _) = read.select_nth_unstable_by(RULES.records_max / 2, f64::total_cmp);
            let median_ns = *median_ns;
            self.by_flow.retain(|_, (read_ns, _)| *read_ns > median_ns);
        }
        let (read_ns, clock) = self.by_flow.entry(flow).or_default();
        *read_ns = at_ns;
        clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of one flow until its clock's tick is known.
    fn is_known(clocks: &mut Clocks, at_ns: f64) -> bool {
        let reading = clocks.of(0, at_ns).read(at_ns, (at_ns / 1e6) as u32, true, (0.0, 0.0));
        reading.is_some()
    }

    #[test]
    fn what_is_still_read_stays_while_others_come_and_go() {
        let mut clocks = Clocks::default();
        let mut at_ns = 1e9;
        while !is_known(&mut clocks, at_ns) {
            at_ns += 10e6;
            assert!(at_ns < 60e9, "its tick is known within a minute");
        }
        for other in 1..10 * RULES.records_max as u64 {
            at_ns += 1e6;
            clocks.of(other, at_ns);
            assert!(clocks.by_flow.len() <= RULES.records_max, "{} clocks", clocks.by_flow.len());
            if other % 100 == 0 {
                assert!(is_known(&mut clocks, at_ns), "forgotten after {other} others");
            }
        }
    }

    #[test]
    fn what_is_not_read_for_long_goes() {
        let mut clocks = Clocks::default();
        // All at the same moment: nothing is older, all goes, and the one that is asked for stays.
        for flow in 0..=RULES.records_max as u64 {
            clocks.of(flow, 5.0);
        }
        assert_eq!(clocks.by_flow.len(), 1);
        for flow in 0..RULES.records_max as u64 {
            clocks.of(flow, 6.0 + flow as f64);
        }
        assert!(!clocks.by_flow.contains_key(&(RULES.records_max as u64)));
        assert!((RULES.records_max / 2..=RULES.records_max).contains(&clocks.by_flow.len()));
    }
}
