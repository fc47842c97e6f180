//! Runs of the BPF programs over all their loads: a program that is loaded again counts from zero, its metric does not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::bpf::ProgramStatus;

/// What earlier loads had counted, and the newest reading of each program, by name.
#[derive(Debug, Default)]
pub(super) struct ProgramTotals {
    by_name: BTreeMap<&'static str, Total>,
}

#[derive(Clone, Copy, Debug)]
struct Total {
    runs_before: u64,
    time_before: Duration,
    missed_before: u64,
    newest: ProgramStatus,
}

impl ProgramTotals {
    /// These programs were loaded anew.
    pub(super) fn restart(&mut self, programs: &[ProgramStatus]) {
        for program in programs {
            if let Some(total) = self.by_name.get_mut(program.name) {
                let (runs, time) = total.newest.runs.unwrap_or_default();
                total.runs_before += runs;
                total.time_before += time;
                total.missed_before += total.newest.missed.unwrap_or(0);
                total.newest = *program;
            }
        }
    }

    /// Takes in a reading of all programs that are loaded now; gives all that ever were.
    pub(super) fn observe(
        &mut self,
        programs: impl IntoIterator<Item = ProgramStatus>,
    ) -> Arc<[ProgramStatus]> {
        self.by_name.values_mut().for_each(|total| total.newest.attached = false);
        for newest in programs {
            let fresh = Total { runs_before: 0, time_before: Duration::ZERO, missed_before: 0, newest };
            self.by_name.entry(newest.name).or_insert(fresh).newest = newest;
        }
        let sum = |total: &Total| ProgramStatus {
            runs: total.newest.runs.map(|(runs, time)| (total.runs_before + runs, total.time_before + time)),
            missed: total.newest.missed.map(|missed| total.missed_before + missed),
            ..total.newest
        };
        self.by_name.values().map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(name: &'static str, attached: bool, runs: u64) -> ProgramStatus {
        let missed = (name == "enqueue").then_some(runs / 5);
        ProgramStatus { name, attached, runs: Some((runs, Duration::from_micros(runs))), missed }
    }

    fn runs(programs: &[ProgramStatus]) -> Vec<(&'static str, bool, u64, u128)> {
        programs
            .iter()
            .map(|program| {
                let (count, time) = program.runs.expect("counted");
                (program.name, program.attached, count, time.as_micros())
            })
            .collect()
    }

    #[test]
    fn runs_never_go_back_and_no_program_vanishes() {
        let mut totals = ProgramTotals::default();
        totals.observe([status("down", true, 10), status("enqueue", true, 5)]);
        let gone = totals.observe([status("enqueue", true, 6)]);
        assert_eq!(runs(&gone), [("down", false, 10, 10), ("enqueue", true, 6, 6)]);
        totals.restart(&[status("down", false, 0)]);
        let again = totals.observe([status("down", true, 3), status("enqueue", true, 7)]);
        assert_eq!(runs(&again), [("down", true, 13, 13), ("enqueue", true, 7, 7)]);
        totals.restart(&[status("enqueue", true, 0)]);
        let missed =
            totals.observe([status("enqueue", true, 10)]).iter().map(|p| p.missed).collect::<Vec<_>>();
        assert_eq!(missed, [None, Some(1 + 2)], "what is not known is not 0");
    }
}
