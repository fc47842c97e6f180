//! `pendulum replay`: what the user asks for, and in which form the answer comes.

use std::cell::{Cell, RefCell};
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use pendulum_model::event::Event;
use pendulum_model::rate::Rate;
use pendulum_model::segment::PerDirection;

use super::capture::CaptureProblem;
use super::capture::input::STDIN;
use super::orientation::Prefix;
use super::report::{Collector, write_text};
use super::series::{Series, SeriesError};
use super::session::{ReplayError, Task, replay};
use crate::exit::{Classified, Exit};
use crate::incident::{self, IncidentError};

/// The bar moves at most this often.
const BAR_STEP_BYTES: u64 = 1 << 20;

/// Analyse a capture as the agent would live traffic.
#[derive(Clone, Debug, Args)]
pub struct ReplayArgs {
    /// Capture at the gateway, before or behind the uplink's buffer: pcap or pcapng, also .gz or .zst; - for stdin
    #[arg(long, value_name = "FILE", required_unless_present = "incident")]
    pub wan: Option<PathBuf>,
    /// Capture on the home side, of the same time: makes the uplink queue exact
    #[arg(long, value_name = "FILE")]
    pub lan: Option<PathBuf>,
    /// Rate of the uplink, as tc writes it (196kbit); learnt from the capture if not given
    #[arg(long, value_name = "RATE")]
    pub uplink_rate: Option<Rate>,
    /// Rate of the downlink, likewise (2400kbit)
    #[arg(long, value_name = "RATE")]
    pub downlink_rate: Option<Rate>,
    /// Addresses behind the gateway (192.168.0.0/16, 2001:db8::/48); found out if not given; may be repeated
    #[arg(long, value_name = "PREFIX")]
    pub home: Vec<Prefix>,
    /// Write both queues over time to this file: CSV, a row each 10 ms
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Judge an incident again: a file from the page or /api/v1/incidents/ID; instead of captures
    #[arg(long, value_name = "FILE", conflicts_with_all = ["wan", "lan", "uplink_rate", "downlink_rate", "home", "series"])]
    pub incident: Option<PathBuf>,
    /// Form of the answer: a text, one JSON object, or one JSON line for each phase change and finding
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
}

/// Form of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people.
    Text,
    /// One object.
    Json,
    /// One line for each phase change and finding.
    Jsonl,
}

/// Why `pendulum replay` failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFailure {
    /// The replay itself.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The series cannot be written.
    #[error(transparent)]
    Series(#[from] SeriesError),
    /// The incident cannot be read.
    #[error(transparent)]
    Incident(#[from] IncidentError),
    /// Both captures are to come through standard input.
    #[error(
        "--wan and --lan are both standard input (-), which can be one capture only; write the other one to a file"
    )]
    OneInput,
    /// The answer cannot be written.
    #[error("cannot write the answer: {0}; check where the output goes")]
    Output(#[from] io::Error),
    /// The answer cannot be put into JSON: a defect.
    #[error("cannot write the report as JSON: {0}; this is a defect, please report it")]
    Json(#[from] serde_json::Error),
}

impl Classified for ReplayFailure {
    fn exit(&self) -> Exit {
        match self {
            Self::Replay(ReplayError::Capture(error)) => match error.problem {
                CaptureProblem::Open(_) => Exit::NoInput,
                CaptureProblem::Read(..) => Exit::Io,
                _ => Exit::Data,
            },
            Self::Replay(ReplayError::Exchanged { .. }) | Self::OneInput => Exit::Usage,
            Self::Incident(IncidentError::Read { .. }) => Exit::NoInput,
            Self::Incident(IncidentError::Data { .. }) | Self::Replay(_) => Exit::Data,
            Self::Output(_) | Self::Series(_) => Exit::Io,
            Self::Json(_) => Exit::Software,
        }
    }
}

/// Replay and write the answer to stdout; progress to stderr, if that is a terminal.
///
/// # Errors
/// If a capture cannot be read or the answer not be written. A reader that closes the pipe is no error.
pub fn run(args: &ReplayArgs) -> Result<(), ReplayFailure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match answer(args, &mut out).and_then(|()| Ok(out.flush()?)) {
        Err(ReplayFailure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Like [`run`], to any place.
///
/// # Errors
/// See [`run`].
pub fn answer(args: &ReplayArgs, out: &mut dyn Write) -> Result<(), ReplayFailure> {
    if let Some(incident) = &args.incident {
        return answer_incident(incident, args.format, out);
    }
    let wan = args.wan.clone().unwrap_or_default();
    if wan == Path::new(STDIN) && args.lan.as_deref() == Some(Path::new(STDIN)) {
        return Err(ReplayFailure::OneInput);
    }
    let task = Task {
        wan,
        lan: args.lan.clone(),
        rates: PerDirection { up: args.uplink_rate, down: args.downlink_rate },
        home: args.home.clone(),
    };
    let mut written = Ok(());
    let mut write_event = |event: &Event| {
        if args.format == ReportFormat::Jsonl && written.is_ok() {
            written = write_line(event, out);
        }
    };
    let series = args.series.as_deref().map(Series::create).transpose()?;
    let mut collector = Collector::new(&mut write_event, series);
    let bar = Bar::default();
    let progress = |pass, read, bytes| bar.show(pass, read, bytes);
    let outcome = replay(&task, &progress, &mut collector)?;
    let (report, series) = collector.finish(&outcome);
    if let Some(series) = series {
        series.finish()?;
    }
    written?;
    match args.format {
        ReportFormat::Text => write_text(&report, out)?,
        ReportFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, &report)?;
            writeln!(out)?;
        }
        ReportFormat::Jsonl => {}
    }
    Ok(())
}

fn answer_incident(path: &Path, format: ReportFormat, out: &mut dyn Write) -> Result<(), ReplayFailure> {
    let judged = incident::read(path)?.judge();
    let judged = judged.map_err(|reason| IncidentError::Data { path: path.to_owned(), reason })?;
    match format {
        ReportFormat::Text => incident::replay::write_text(&judged, out)?,
        ReportFormat::Json => {
            serde_json::to_writer_pretty(&mut *out, &judged)?;
            writeln!(out)?;
        }
        ReportFormat::Jsonl => {
            for event in &judged.events {
                write_line(event, out)?;
            }
        }
    }
    Ok(())
}

fn write_line(event: &Event, out: &mut dyn Write) -> Result<(), ReplayFailure> {
    let line = serde_json::to_string(event)?;
    Ok(writeln!(out, "{line}")?)
}

/// A progress bar on a terminal; nothing elsewhere.
#[derive(Default)]
struct Bar {
    bar: RefCell<Option<ProgressBar>>,
    pass: Cell<&'static str>,
    shown: Cell<u64>,
}

impl Bar {
    fn show(&self, pass: &'static str, read: u64, bytes: u64) {
        if self.pass.replace(pass) != pass {
            self.bar.replace(begin(pass, bytes));
            self.shown.set(0);
        }
        if read < self.shown.get() + BAR_STEP_BYTES {
            return;
        }
        self.shown.set(read);
        if let Some(bar) = &*self.bar.borrow() {
            bar.set_position(read);
        }
    }
}

fn begin(pass: &'static str, bytes: u64) -> Option<ProgressBar> {
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let bar = ProgressBar::new(bytes).with_message(pass).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    io::stderr().is_terminal().then_some(bar)
}
