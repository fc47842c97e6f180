//! Experiments that are more than traffic on the bare link: reference models, and one link under many arrangements.
//!
//! They share names, times and the report's form with [`crate::experiment`], and bring their own way of running and their own table.

mod ack_many;
mod ack_threshold;
mod autorate;
mod error;
mod mitigations;
mod paper_figures;
mod place;
mod report;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use error::StudyError;
pub use report::{StudyCase, StudyReport};

use crate::chart::{self, Chart};
use crate::experiment::{About, Progress};
use crate::interrupt::Interrupt;

/// How to run a study.
#[derive(Clone, Debug, Default)]
pub struct StudyOptions {
    /// Time of all cases together; the study's own if not given.
    pub total: Option<Duration>,
    /// The short form.
    pub quick: bool,
    /// Names of what to run, where not everything: links, congestion controls, cases.
    pub only: Vec<String>,
    /// Where to write everything observed.
    pub out: Option<PathBuf>,
    /// A directory of traces, where a study takes some.
    pub traces: Option<PathBuf>,
    /// Of `where`: how many cases, and the seed that they are drawn from.
    pub cases: Option<u32>,
    /// See [`Self::cases`].
    pub seed: u64,
    /// The agent.
    pub agent: Option<PathBuf>,
    /// Stops the run.
    pub interrupt: Interrupt,
}

/// An experiment with a way of running of its own.
pub trait Study: Sync {
    /// Name, source and times.
    fn about(&self) -> About;

    /// Runs it.
    ///
    /// # Errors
    /// If the lab, its traffic or the agent fails, or the run is interrupted. Nothing is left behind.
    fn run(&self, options: &StudyOptions, progress: &dyn Fn(Progress)) -> Result<StudyReport, StudyError>;
}

/// All studies.
pub const ALL: [&dyn Study; 6] = [
    &paper_figures::PaperFigures,
    &ack_threshold::AckThreshold,
    &ack_many::AckMany,
    &mitigations::Mitigations,
    &autorate::Autorate,
    &place::Where,
];

/// The study of a name, if there is one.
pub fn find(name: &str) -> Option<&'static dyn Study> {
    ALL.into_iter().find(|study| study.about().name == name)
}

fn write_file(path: &Path, text: &str) -> Result<(), StudyError> {
    std::fs::write(path, text).map_err(|source| StudyError::Write { path: path.into(), source })
}

fn write_charts(charts: &[Chart], out: &Path) -> Result<(), StudyError> {
    Ok(charts.iter().try_for_each(|chart| chart::write(chart, out))?)
}
