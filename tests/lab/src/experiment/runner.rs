//! Runs an experiment: every scenario, for every congestion control, as often as wanted, one after the other or several at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::options::{ExperimentError, Progress, RunOptions, Wishes};
use super::report::{CaseReport, Report};
use super::results::ScenarioRun;
use super::scenario::Scenario;
use super::session::observe;
use super::{Experiment, evaluate, output};

/// Runs all scenarios of an experiment and evaluates them.
///
/// # Errors
/// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing is left behind but what was asked for with `out`.
pub fn run<E: Experiment + ?Sized>(
    experiment: &E,
    options: &RunOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Report, ExperimentError> {
    let about = experiment.about();
    let (name, total) = (about.name, about.total(options));
    let scenarios = chosen(experiment.scenarios(Wishes { total, quick: options.quick }), options)?;
    let tasks = tasks(&scenarios, options);
    if tasks.is_empty() {
        return Err(ExperimentError::Scenario(format!(
            "none of the scenarios of `{name}` is meant for {}; leave out --cc",
            options.congestion_controls.join(", ")
        )));
    }
    // The agent's page can be offered for one lab at a time.
    let usual = if options.agent_listen.is_some() { 1 } else { experiment.jobs() };
    let jobs = options.jobs.unwrap_or(usual).max(1);
    let runs = Work::new(&tasks, jobs, options, progress).finish()?;
    let cases = join(experiment, &runs, options);
    let text = experiment.text(&cases);
    let report = Report::new(name, cases, text);
    if let Some(out) = &options.out {
        output::write_report(experiment, &report, &runs, out)?;
    }
    Ok(report)
}

fn chosen(mut all: Vec<Scenario>, options: &RunOptions) -> Result<Vec<Scenario>, ExperimentError> {
    let is_known = |name: &&String| all.iter().any(|scenario| scenario.name == **name);
    if let Some(name) = options.only.iter().find(|name| !is_known(name)) {
        let known = all.iter().map(|scenario| scenario.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(ExperimentError::UnknownPart { name: name.clone(), known });
    }
    all.retain(|scenario| options.only.is_empty() || options.only.contains(&scenario.name));
    Ok(all)
}

/// One run of one scenario.
struct Task<'a> {
    scenario: &'a Scenario,
    congestion_control: &'a str,
    seed: u64,
}

/// Those asked for; else those that the scenarios are meant for; else reno, as the papers have it.
fn congestion_controls<'a>(scenarios: &'a [Scenario], options: &'a RunOptions) -> Vec<&'a str> {
    if !options.congestion_controls.is_empty() {
        return options.congestion_controls.iter().map(String::as_str).collect();
    }
    let mut meant: Vec<&str> = Vec::new();
    for name in scenarios.iter().flat_map(|scenario| scenario.congestion_controls.iter().copied()) {
        if !meant.contains(&name) {
            meant.push(name);
        }
    }
    if meant.is_empty() { vec!["reno"] } else { meant }
}

/// All runs; the repetitions of one scenario follow each other.
fn tasks<'a>(scenarios: &'a [Scenario], options: &'a RunOptions) -> Vec<Task<'a>> {
    let mut tasks = Vec::new();
    for congestion_control in congestion_controls(scenarios, options) {
        for scenario in scenarios.iter().filter(|scenario| scenario.takes(congestion_control)) {
            let seeds = (0..options.repeat.max(1)).map(|i| options.seed + u64::from(i));
            tasks.extend(seeds.map(|seed| Task { scenario, congestion_control, seed }));
        }
    }
    tasks
}

/// One report for all repetitions of each case.
fn join<E: Experiment + ?Sized>(
    experiment: &E,
    runs: &[ScenarioRun],
    options: &RunOptions,
) -> Vec<CaseReport> {
    let mut cases = Vec::new();
    for repetitions in runs.chunks(options.repeat.max(1) as usize) {
        let judged = repetitions.iter().map(|run| {
            let cases = evaluate::cases(run).into_iter().enumerate();
            let judge = |(index, mut case)| {
                experiment.judge(&mut case, index, run);
                (run.seed, case)
            };
            cases.map(judge).collect::<Vec<(u64, CaseReport)>>()
        });
        let judged: Vec<_> = judged.collect();
        for index in 0..judged.first().map_or(0, Vec::len) {
            let of_one: Vec<_> = judged.iter().filter_map(|cases| cases.get(index).cloned()).collect();
            cases.extend(evaluate::merge(&of_one));
        }
    }
    cases
}

/// Several threads that take the tasks from one list.
struct Work<'a> {
    tasks: &'a [Task<'a>],
    jobs: u32,
    options: &'a RunOptions,
    progress: &'a (dyn Fn(Progress) + Sync),
    next: AtomicUsize,
    elapsed: Mutex<Vec<Duration>>,
    done: Mutex<Vec<(usize, Result<ScenarioRun, ExperimentError>)>>,
}

impl<'a> Work<'a> {
    fn new(
        tasks: &'a [Task<'a>],
        jobs: u32,
        options: &'a RunOptions,
        progress: &'a (dyn Fn(Progress) + Sync),
    ) -> Self {
        let elapsed = Mutex::new(vec![Duration::ZERO; tasks.len()]);
        Self { tasks, jobs, options, progress, next: AtomicUsize::new(0), elapsed, done: Mutex::default() }
    }

    /// All runs in the order of the tasks, or the first error.
    fn finish(self) -> Result<Vec<ScenarioRun>, ExperimentError> {
        thread::scope(|scope| {
            // One of them is this thread.
            for _ in 1..self.jobs {
                scope.spawn(|| self.take());
            }
            self.take();
        });
        let done = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        // In the order of time: what was stopped because of a failure comes after it.
        let mut runs = done
            .into_iter()
            .map(|(index, run)| Ok((index, run?)))
            .collect::<Result<Vec<_>, ExperimentError>>()?;
        runs.sort_by_key(|(index, _)| *index);
        Ok(runs.into_iter().map(|(_, run)| run).collect())
    }

    fn take(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = self.tasks.get(index) else { return };
            let step = |elapsed: Duration, what: &str| self.show(index, elapsed, what);
            let run = observe(task.scenario, task.congestion_control, task.seed, self.options, &step);
            let failed = run.is_err();
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push((index, run));
            if failed {
                // The others stop too.
                self.options.interrupt.raise();
                return;
            }
        }
    }

    fn show(&self, index: usize, elapsed: Duration, what: &str) {
        let mut all = self.elapsed.lock().unwrap_or_else(PoisonError::into_inner);
        let task = &self.tasks[index];
        all[index] = elapsed;
        let seed = if self.options.repeat > 1 { format!(", seed {}", task.seed) } else { String::new() };
        (self.progress)(Progress {
            total: self.tasks.iter().map(|task| task.scenario.length).sum(),
            elapsed: all.iter().sum(),
            what: format!("{what} ({}{seed})", task.congestion_control),
        });
    }
}
