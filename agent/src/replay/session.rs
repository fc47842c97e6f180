//! One replay: the frames of both captures in the order of time, through meter, queues and detector.

mod run;

use std::path::PathBuf;

use pendulum_model::detector::Detector;
use pendulum_model::event::Event;
use pendulum_model::link::{Known, Link};
use pendulum_model::rate::Rate;
use pendulum_model::sample::Sample;
use pendulum_model::segment::{Direction, PerDirection};

use super::account::Account;
use super::capture::{CaptureError, Progress};
use super::flow::FlowKey;
use super::meter::Meter;
use super::orientation::{Evidence, Exchanged, Prefix};
use super::queue::exact::Crossings;
use super::survey;
use super::tally::{InFlight, Tally};
use super::timeline::Source;
use super::vantage_detection::{DetectedVantage, detect_vantage};
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
    /// Not one packet says anything of a link.
    #[error("no packet of capture {} could be used: {reason}", path.display())]
    Unusable {
        /// The capture.
        path: PathBuf,
        /// What was left out, and why.
        reason: String,
    },
    /// WAN and LAN capture are each other.
    #[error(
        "the captures seem to be exchanged: {reason}; give --wan {} --lan {}, or, if they are not, name the home \
         addresses with --home PREFIX",
        lan.display(), wan.display()
    )]
    Exchanged {
        /// What was given as the WAN capture.
        wan: PathBuf,
        /// What was given as the LAN capture.
        lan: PathBuf,
        /// How that is known.
        reason: Exchanged,
    },
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
    /// Where the capture was taken.
    pub detected: DetectedVantage,
    /// What became of the packets of the WAN capture.
    pub account: Account,
    /// Directions of which the capture holds hardly anything, though TCP got on the other way.
    pub missing: PerDirection<bool>,
    /// What became of the packets between the captures.
    pub crossings: Option<Crossings>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Replay one or two captures.
///
/// # Errors
/// If a capture cannot be read, or holds nothing.
pub fn replay(
    task: &Task,
    progress: &Progress<'_>,
    audience: &mut dyn Audience,
) -> Result<Outcome, ReplayError> {
    let wan = Source::examine(&task.wan)?;
    let lan = task.lan.as_deref().map(Source::examine).transpose()?;
    let Some(mut surveyed) = survey::survey(&wan, lan.as_ref(), &task.home)? else {
        return Err(ReplayError::Empty(task.wan.clone()));
    };
    for (source, path) in [(Some(&wan), Some(&task.wan)), (lan.as_ref(), task.lan.as_ref())] {
        let steps = source.zip(path).into_iter().flat_map(|(source, path)| source.timeline.warnings(path));
        surveyed.warnings.extend(steps);
    }
    if let (Some(reason), Some(lan)) = (surveyed.exchanged, &task.lan) {
        return Err(ReplayError::Exchanged { wan: task.wan.clone(), lan: lan.clone(), reason });
    }
    let detected = detect_vantage(&wan, &mut surveyed, task.rates, task.lan.is_some(), progress)?;
    let configured = |x: Direction| task.rates[x].map(|rate| Known::config(rate.bytes_per_second()));
    let link = Link { capacity: PerDirection::from_fn(configured), ..Link::default() };
    let mut session = Session::open(task, (&wan, lan.as_ref()), surveyed, detected, link)?;
    session.run(progress, audience)?;
    if let Some(reason) = session.is_unusable() {
        return Err(ReplayError::Unusable { path: task.wan.clone(), reason });
    }
    Ok(session.finish(audience))
}
