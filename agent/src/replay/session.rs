//! One replay: the frames of both captures in the order of time, through meter, queues and detector.

mod run;

use std::path::PathBuf;

use pendulum_model::detector::Detector;
use pendulum_model::findings::Event;
use pendulum_model::link::{Known, Link, Provenance};
use pendulum_model::rate::Rate;
use pendulum_model::sample::Sample;
use pendulum_model::segment::{Direction, PerDirection};

use super::capture::CaptureError;
use super::flow::FlowKey;
use super::meter::Meter;
use super::orientation::{Evidence, Prefix};
use super::queue::exact::Crossings;
use super::survey::{self, Surveyed};
use super::tally::{InFlight, Tally};
use run::Session;

/// What to replay.
#[derive(Clone, Debug)]
pub struct Task {
    /// Capture on the bottleneck side of the gateway.
    pub wan: PathBuf,
    /// Capture on the home side.
    pub lan: Option<PathBuf>,
    /// Link rates, where known.
    pub rates: PerDirection<Option<Rate>>,
    /// Home addresses, if the user names them.
    pub home: Vec<Prefix>,
}

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// A capture could not be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// There is nothing to measure.
    #[error("capture {} holds no packet with a time; was it taken on the right device?", .0.display())]
    Empty(PathBuf),
}

/// Is told how far a replay is.
pub trait Watch {
    /// A pass over a file of this many bytes begins.
    fn begin(&self, what: &'static str, bytes: u64);
    /// So many bytes of it have been read.
    fn at(&self, bytes: u64);
}

/// Is given everything that comes out of a replay, in the order of time.
pub trait Audience {
    /// An interval, after the detector has taken it in.
    fn sample(&mut self, sample: &Sample, detector: &Detector);
    /// A phase change or finding.
    fn event(&mut self, event: &Event);
    /// A flow that is over or forgotten. `at_lan`: its outstanding data at the LAN capture.
    fn flow(&mut self, key: &FlowKey, tally: &Tally, at_lan: Option<&InFlight>);
}

/// What is known when all is read.
#[derive(Debug)]
pub struct Outcome {
    /// Counters, losses.
    pub meter: Meter<Tally>,
    /// Phases, verdict.
    pub detector: Detector,
    /// From the first to the last packet of the WAN capture, seconds.
    pub duration_s: f64,
    /// Frames of the WAN capture, and of the LAN capture.
    pub frames: (u64, u64),
    /// What decided which end is home.
    pub evidence: Option<Evidence>,
    /// What became of the packets between the captures.
    pub crossings: Option<Crossings>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Replay one or two captures.
///
/// # Errors
/// If a capture cannot be read, or holds nothing.
pub fn replay(task: &Task, watch: &dyn Watch, audience: &mut dyn Audience) -> Result<Outcome, ReplayError> {
    let Some(mut surveyed) = survey::survey(&task.wan, task.lan.as_deref(), &task.home)? else {
        return Err(ReplayError::Empty(task.wan.clone()));
    };
    let link = Link { capacity: capacities(task, &mut surveyed, watch)?, ..Link::default() };
    let mut session = Session::open(task, surveyed, link)?;
    session.run(watch, audience)?;
    Ok(session.finish(audience))
}

fn capacities(
    task: &Task,
    surveyed: &mut Surveyed,
    watch: &dyn Watch,
) -> Result<PerDirection<Option<Known>>, CaptureError> {
    let learnt = if Direction::ALL.into_iter().all(|x| task.rates[x].is_some()) {
        PerDirection::default()
    } else {
        survey::learn_rates(&task.wan, &mut surveyed.orientation, watch)?
    };
    for x in Direction::ALL.into_iter().filter(|x| task.rates[*x].is_none()) {
        if learnt[x].is_some_and(|learnt| learnt.lower_bound) {
            let name = x.name();
            surveyed.warnings.push(format!(
                "the {name}link was never full for a second: its rate is a lower bound; give it with --{name}link-rate"
            ));
        }
    }
    Ok(PerDirection::from_fn(|x| {
        let told = task.rates[x].map(|rate| Known::config(rate.bytes_per_second()));
        told.or(learnt[x].map(|learnt| Known { value: learnt.rate, provenance: Provenance::Learnt }))
    }))
}
