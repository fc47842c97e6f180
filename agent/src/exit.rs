//! How the program ends: exit codes after `sysexits(3)`, and the failure that carries one.

use std::io::{self, Write as _};
use std::process::ExitCode;

/// Exit codes of every command, from `sysexits(3)`; `doctor` has its own scale (0, 1, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command line is wrong.
    Usage = 64,
    /// The content of an input file is wrong.
    Data = 65,
    /// An input file is missing or unreadable.
    NoInput = 66,
    /// Something that is needed is not there: a device, a kernel ability, a free port.
    Unavailable = 69,
    /// A defect of this program.
    Software = 70,
    /// The operating system refused something that should have worked.
    Os = 71,
    /// An output file cannot be created.
    CannotCreate = 73,
    /// Reading or writing failed half-way.
    Io = 74,
    /// A capability or permission is missing.
    NoPermission = 77,
    /// The configuration is wrong.
    Config = 78,
}

/// Form of a command's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OutputFormat {
    Text,
    Json,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error that knows how the program has to end because of it.
pub trait Classified: std::error::Error + Send + Sync + 'static {
    /// The exit code for this error.
    fn exit(&self) -> Exit;
}

/// Why a command failed.
#[derive(Debug)]
pub struct Failure {
    /// What the process returns to its caller.
    pub exit: Exit,
    /// The thing, the reason and the remedy.
    pub message: String,
}

impl Failure {
    /// A failure without an error type of its own.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// Writes the message to stderr and gives the exit code.
    pub fn report(&self) -> ExitCode {
        eprintln!("pendulum: {}", self.message);
        self.exit.into()
    }
}

/// Writes the answer of a command to stdout. A reader that has seen enough and closed the pipe is no failure.
///
/// # Errors
/// The output cannot take it.
pub fn answer(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::new(
            Exit::Io,
            format!("cannot write the answer: {error}; check where the output goes"),
        )),
        _ => Ok(()),
    }
}

impl<E: Classified> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { exit: error.exit(), message: chain(&error) }
    }
}

/// An error with all its causes on one line: aya's own text often lacks the kernel's reason.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// JSON for people and programs: one object, indented, with a newline at its end.
pub(crate) fn to_json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| {
        Failure::new(
            Exit::Software,
            format!("cannot write JSON: {error}; this is a defect: please report it"),
        )
    })
}
