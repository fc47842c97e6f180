//! The papers' experiments, as data: links, transfers and the stretches of time that are measured.

mod fig1;
pub mod prediction;
mod record;
pub mod report;
mod runner;
mod scenario;

use std::time::Duration;

pub(crate) use record::median;
pub use record::{Measurement, Record};
pub use report::{CaseReport, Report};
pub use runner::{ExperimentError, Progress, RunOptions, run, run_scenario};
pub use scenario::{Case, Figures, Scenario, TimedTransfer};

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

    /// What to run, so that all traffic together takes about `total`.
    fn scenarios(&self, total: Duration) -> Vec<Scenario>;
}

/// All experiments, in the order of the papers' figures.
pub const ALL: [&dyn Experiment; 1] = [&fig1::Fig1];

/// No experiment has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no experiment `{name}`; there are: {known} (`pendulum-lab list` describes them)")]
pub struct UnknownExperiment {
    name: String,
    known: String,
}

/// The experiment of a name.
///
/// # Errors
/// If there is none.
pub fn find(name: &str) -> Result<&'static dyn Experiment, UnknownExperiment> {
    ALL.into_iter().find(|experiment| experiment.about().name == name).ok_or_else(|| UnknownExperiment {
        name: name.to_owned(),
        known: ALL.map(|experiment| experiment.about().name).join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        assert!(find("fig1").is_ok());
        let Err(error) = find("fig2") else { panic!("fig2 exists") };
        assert!(error.to_string().contains("`fig2`") && error.to_string().contains("fig1"));
    }

    #[test]
    fn every_experiment_fits_its_times() {
        for experiment in ALL {
            let about = experiment.about();
            assert!(about.shortest <= about.quick && about.quick < about.usual, "{}", about.name);
            for total in [about.shortest, about.quick, about.usual] {
                let scenarios = experiment.scenarios(total);
                let length: Duration = scenarios.iter().map(|scenario| scenario.length).sum();
                assert!(
                    length.abs_diff(total) <= total / 10 + Duration::from_secs(2),
                    "{length:?} of {total:?}"
                );
                for scenario in scenarios {
                    scenario.check().unwrap();
                }
            }
        }
    }
}
