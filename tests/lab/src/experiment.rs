//! What is measured in the lab: the papers' experiments, as links, transfers and the stretches of time that are judged; and those that run in a way of
//! their own, with reference models or many arrangements of one link.

mod ack_many;
mod ack_threshold;
mod agent_log;
mod asymmetric;
mod autorate;
mod cake_points;
mod evaluate;
mod field;
mod fig1;
mod figures;
mod frontier;
mod grid;
mod mitigations;
mod options;
mod output;
mod pair;
mod paper_figures;
mod phases;
#[cfg(feature = "quic")]
mod place;
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

use std::path::Path;
use std::time::Duration;

pub use agent_log::{AgentSummary, Said};
pub use figures::{Claim, Figures, Measured, Predicted, Spread};
pub use options::{ExperimentError, Progress, RunOptions, Wishes};
pub use phases::{PhaseShare, Phases};
pub use record::{Measurement, Record};
pub use report::{CaseReport, OwnCase, Printed, Report};
pub use results::{Results, ScenarioRun};
pub use runner::run;
pub use scenario::{Case, Preparation, Scenario, TimedTransfer, TimedUdp};
pub use session::run_scenario;

use crate::chart::{self, Chart};

/// What a person needs to choose an experiment.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Name on the command line.
    pub name: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// One sentence.
    pub what: &'static str,
    /// Traffic time unless configured otherwise.
    pub usual: Duration,
    /// Traffic time of the `--quick` form.
    pub quick: Duration,
    /// Below this the figures mean nothing; shorter wishes are raised to it.
    pub shortest: Duration,
}

impl About {
    /// The traffic time of a run.
    fn total(&self, options: &RunOptions) -> Duration {
        let usual = if options.quick { self.quick } else { self.usual };
        options.total.unwrap_or(usual).max(self.shortest)
    }
}

/// One experiment: either it has scenarios, or a way of running of its own.
pub trait Experiment: Sync {
    /// Name, source and times.
    fn about(&self) -> About;

    /// What to run, so that all traffic together takes about the time wished for.
    fn scenarios(&self, _wishes: Wishes) -> Vec<Scenario> {
        Vec::new()
    }

    /// Adds what only this experiment measures to one of its cases; `index` is its place in the scenario.
    fn judge(&self, _case: &mut CaseReport, _index: usize, _run: &ScenarioRun) {}

    /// Runs at the same time unless configured otherwise.
    fn jobs(&self) -> u32 {
        1
    }

    /// The tables for people.
    fn text(&self, cases: &[CaseReport]) -> String {
        report::tables(cases)
    }

    /// The experiment's own plots, beside those that every run gets.
    fn plots(&self, _results: Results<'_>) -> Vec<Chart> {
        Vec::new()
    }

    /// Runs it and writes what was asked for with `out`.
    ///
    /// # Errors
    /// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing else is left behind.
    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        run(self, options, progress)?.finish(options)
    }
}

/// All experiments, in the order of the papers' figures; then those that run in a way of their own.
pub const ALL: &[&dyn Experiment] = &[
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
    &paper_figures::PaperFigures,
    &ack_threshold::AckThreshold,
    &ack_many::AckMany,
    &mitigations::Mitigations,
    &autorate::Autorate,
    &frontier::ShaperFrontier,
    #[cfg(feature = "quic")]
    &place::Where,
];

fn write_file(path: &Path, text: &str) -> Result<(), ExperimentError> {
    std::fs::write(path, text).map_err(|source| ExperimentError::Write { path: path.into(), source })
}

fn write_charts(charts: &[Chart], out: &Path) -> Result<(), ExperimentError> {
    Ok(charts.iter().try_for_each(|chart| chart::write(chart, out))?)
}

/// The experiment of a name, if there is one.
pub fn find(name: &str) -> Option<&'static dyn Experiment> {
    ALL.iter().copied().find(|experiment| experiment.about().name == name)
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
                if scenarios.is_empty() {
                    continue;
                }
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
