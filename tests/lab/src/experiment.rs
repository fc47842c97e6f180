//! The papers' experiments, as data: links, transfers and the stretches of time that are measured.

mod agent_log;
mod asymmetric;
mod cake_points;
mod evaluate;
mod field;
mod fig1;
mod figures;
mod grid;
mod options;
mod output;
mod pair;
mod phases;
mod plots;
mod points;
pub mod prediction;
mod record;
pub mod report;
mod results;
mod rtt;
mod runner;
mod scenario;
mod session;
mod symmetric;
mod tcp_buffers;
mod verdict;
mod wimax;
mod windows;

use std::time::Duration;

pub use agent_log::{AgentSummary, Said};
pub use figures::{Claim, Figures, Measured, Predicted, Spread};
pub use options::{ExperimentError, Progress, RunOptions, Wishes};
pub use phases::{PhaseShare, Phases};
pub use record::{Measurement, Record};
pub use report::{CaseReport, Report};
pub use results::{Results, ScenarioRun};
pub use runner::run;
pub use scenario::{Case, Preparation, Scenario, TimedTransfer, TimedUdp};
pub use session::run_scenario;

use crate::chart::Chart;

/// What a person needs to choose an experiment.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name on the command line.
    pub name: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// One sentence.
    pub what: &'static str,
    /// Traffic time unless told otherwise.
    pub usual: Duration,
    /// Traffic time of the `--quick` form.
    pub quick: Duration,
    /// Below this the figures mean nothing; shorter wishes are raised to it.
    pub shortest: Duration,
}

/// One of the papers' experiments.
pub trait Experiment: Sync {
    /// Name, source and times.
    fn about(&self) -> About;

    /// What to run, so that all traffic together takes about the time wished for.
    fn scenarios(&self, wishes: Wishes) -> Vec<Scenario>;

    /// Adds what only this experiment measures to one of its cases; `index` is its place in the scenario.
    fn judge(&self, _case: &mut CaseReport, _index: usize, _run: &ScenarioRun) {}

    /// Runs at the same time unless told otherwise.
    fn jobs(&self) -> u32 {
        1
    }

    /// The report for people.
    fn text(&self, report: &Report) -> String {
        report.to_text()
    }

    /// The experiment's own plots, beside those that every run gets.
    fn plots(&self, _results: Results<'_>) -> Vec<Chart> {
        Vec::new()
    }
}

/// All experiments, in the order of the papers' figures.
pub const ALL: [&dyn Experiment; 14] = [
    &fig1::Fig1,
    &symmetric::Symmetric,
    &symmetric::Swing,
    &asymmetric::SMALL,
    &asymmetric::EQUAL,
    &grid::BytesGrid,
    &grid::PacketsGrid,
    &tcp_buffers::TcpBuffers,
    &windows::Windows,
    &wimax::Wimax,
    &rtt::RttCompetition,
    &field::Field,
    &points::Points,
    &cake_points::CakePoints,
];

/// The experiment of a name, if there is one.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.into_iter().find(|experiment| experiment.about().name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_fits_its_times() {
        for experiment in ALL {
            let about = experiment.about();
            assert!(about.shortest <= about.quick && about.quick < about.usual, "{}", about.name);
            for (total, quick) in [(about.shortest, true), (about.quick, true), (about.usual, false)] {
                let scenarios = experiment.scenarios(Wishes { total, quick });
                let runs = |scenario: &Scenario| scenario.congestion_controls.len().max(1) as u32;
                let length: Duration =
                    scenarios.iter().map(|scenario| scenario.length * runs(scenario)).sum();
                assert!(
                    length.abs_diff(total) <= total / 10 + Duration::from_secs(2),
                    "{}: {length:?} of {total:?}",
                    about.name
                );
                for scenario in scenarios {
                    scenario.check().unwrap();
                    assert!(!scenario.cases.is_empty(), "{}", scenario.name);
                }
            }
        }
    }
}
