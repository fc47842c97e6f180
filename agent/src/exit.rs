//! How the program ends: exit codes after `sysexits(3)`, and the failure that carries one.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::bpf::{BpfError, chain};

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

impl Classified for BpfError {
    /// What the kernel answered decides: a missing permission is another matter than a missing ability.
    fn exit(&self) -> Exit {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            let answer = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
            if matches!(answer, Some(libc::EPERM | libc::EACCES)) {
                return Exit::NoPermission;
            }
            cause = error.source();
        }
        match self {
            Self::Missing { .. } => Exit::Software,
            _ => Exit::Unavailable,
        }
    }
}
