//! Runs an experiment: every scenario, for every congestion control, as often as wanted.

use std::time::Duration;

use super::options::{ExperimentError, Progress, RunOptions, Wishes};
use super::report::{CaseReport, Report};
use super::scenario::Scenario;
use super::session::{ScenarioRun, observe};
use super::{About, Experiment, evaluate, output};

/// Runs all scenarios of an experiment and evaluates them.
///
/// # Errors
/// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing is left behind but what was asked for with `out`.
pub fn run(
    experiment: &dyn Experiment,
    options: &RunOptions,
    progress: &dyn Fn(Progress),
) -> Result<Report, ExperimentError> {
    let About { name, usual, quick, shortest, .. } = experiment.about();
    let total = options.total.unwrap_or(if options.quick { quick } else { usual }).max(shortest);
    let scenarios = chosen(experiment.scenarios(Wishes { total, quick: options.quick }), options)?;
    let once: Duration = scenarios.iter().map(|scenario| scenario.length).sum();
    let seeds: Vec<u64> = (0..options.repeat.max(1)).map(|i| options.seed + u64::from(i)).collect();
    let rounds = (seeds.len() * options.congestion_controls.len()) as u32;
    let mut before = Duration::ZERO;
    let mut runs = Vec::new();
    let mut cases = Vec::new();
    for congestion_control in &options.congestion_controls {
        for scenario in &scenarios {
            let mut repetitions: Vec<Vec<(u64, CaseReport)>> = vec![Vec::new(); scenario.cases.len()];
            for &seed in &seeds {
                let step = |elapsed: Duration, what: &str| {
                    let what = format!("{what} ({congestion_control}{})", seed_note(seed, &seeds));
                    progress(Progress { total: once * rounds, elapsed: before + elapsed, what });
                };
                let run = observe(scenario, congestion_control, seed, options, &step)?;
                before += scenario.length;
                for (index, mut case) in evaluate::cases(&run).into_iter().enumerate() {
                    experiment.judge(&mut case, index, &run);
                    repetitions[index].push((seed, case));
                }
                if options.out.is_some() {
                    runs.push(run);
                }
            }
            cases.extend(repetitions.iter().filter_map(|of_one| evaluate::merge(of_one)));
        }
    }
    let report = Report { cases, ..Report::new(name) };
    if let Some(out) = &options.out {
        output::write_report(experiment, &report, &runs, out)?;
    }
    Ok(report)
}

fn chosen(all: Vec<Scenario>, options: &RunOptions) -> Result<Vec<Scenario>, ExperimentError> {
    let Some(wanted) = &options.only else { return Ok(all) };
    let known = || all.iter().map(|scenario| scenario.name.as_str()).collect::<Vec<_>>().join(", ");
    if all.iter().all(|scenario| scenario.name != *wanted) {
        return Err(ExperimentError::UnknownScenario { wanted: wanted.clone(), known: known() });
    }
    Ok(all.into_iter().filter(|scenario| scenario.name == *wanted).collect())
}

fn seed_note(seed: u64, seeds: &[u64]) -> String {
    if seeds.len() > 1 { format!(", seed {seed}") } else { String::new() }
}

/// Everything that an experiment's plots are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// The report, repetitions joined.
    pub report: &'a Report,
    /// Each run for itself.
    pub runs: &'a [ScenarioRun],
}
