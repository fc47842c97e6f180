//! Child processes: run to the end with a check, or run beside the lab with a handle that always ends them.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::kernel::PidFd;

/// Why a command could not be run or did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program could not be started at all.
    #[error("cannot start `{command}`: {source}; is the program installed?")]
    Start {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ran and failed.
    #[error("`{command}` failed ({status}): {message}")]
    Failed {
        /// The command line.
        command: String,
        /// Its exit status.
        status: ExitStatus,
        /// What it wrote to standard error, or to standard output if that was empty.
        message: String,
    },
    /// Its output file could not be made or read, or the process could not be waited for.
    #[error("`{command}`: {source}")]
    Io {
        /// The command line.
        command: String,
        /// What the system said.
        source: io::Error,
    },
}

/// The command line as a person would type it, for messages.
pub(crate) fn command_line(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

/// Runs a short command to its end and returns its standard output.
///
/// # Errors
/// If it cannot be started or exits with anything but success.
pub fn run(command: &mut Command) -> Result<String, ProcessError> {
    let name = command_line(command);
    let output = command
        // A Ctrl-C at the terminal must not end a command half-way, least of all one that cleans up.
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ProcessError::Start { command: name.clone(), source })?;
    check_output(name, &output)
}

/// Runs a short command with `input` on its standard input.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_with_input(command: &mut Command, input: &str) -> Result<String, ProcessError> {
    use std::io::Write as _;
    let name = command_line(command);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| ProcessError::Start { command: name.clone(), source })?;
    let io_error = |source| ProcessError::Io { command: name.clone(), source };
    if let Some(mut stdin) = child.stdin.take() {
        // A command that stops reading early says why on its standard error, which is reported below.
        match stdin.write_all(input.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(io_error(error)),
            _ => {}
        }
    }
    let output = child.wait_with_output().map_err(io_error)?;
    check_output(name, &output)
}

fn check_output(command: String, output: &std::process::Output) -> Result<String, ProcessError> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let message = if stderr.trim().is_empty() { stdout.trim() } else { stderr.trim() }.to_owned();
    Err(ProcessError::Failed { command, status: output.status, message })
}

/// A process that runs beside the lab. Dropping the handle kills it and waits for it.
///
/// Its output goes to files in the run's state directory, not to pipes: a full pipe would stop the program.
#[derive(Debug)]
pub struct Process {
    child: Child,
    command: String,
    stdout: PathBuf,
    stderr: PathBuf,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts `command` with its output in `<base>.out` and `<base>.err`.
    pub(crate) fn start(mut command: Command, base: &Path) -> Result<Self, ProcessError> {
        let name = command_line(&command);
        let (stdout, stderr) = (base.with_extension("out"), base.with_extension("err"));
        let create = |path: &Path| {
            File::create(path).map_err(|source| ProcessError::Io { command: name.clone(), source })
        };
        command.stdin(Stdio::null()).stdout(create(&stdout)?).stderr(create(&stderr)?);
        let child =
            command.spawn().map_err(|source| ProcessError::Start { command: name.clone(), source })?;
        Ok(Self { child, command: name, stdout, stderr, status: None })
    }

    /// The process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The command line, for messages.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// The exit status if the process has ended.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        if self.status.is_none() {
            self.status = self.child.try_wait().map_err(|source| self.io_error(source))?;
        }
        Ok(self.status)
    }

    /// Waits for the end, but not beyond `timeout`.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, ProcessError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal (a number of signal(7), such as `libc::SIGINT`). A process that has already ended is no error.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn signal(&mut self, signal: i32) -> Result<(), ProcessError> {
        if self.try_wait()?.is_some() {
            return Ok(());
        }
        PidFd::open(self.id()).and_then(|fd| fd.signal(signal)).map_err(|source| self.io_error(source))
    }

    /// Asks the process to end by `signal`, and kills it if it has not ended after `grace`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn stop(&mut self, signal: i32, grace: Duration) -> Result<ExitStatus, ProcessError> {
        self.signal(signal)?;
        if let Some(status) = self.wait_timeout(grace)? {
            return Ok(status);
        }
        self.child.kill().map_err(|source| self.io_error(source))?;
        let status = self.child.wait().map_err(|source| self.io_error(source))?;
        self.status = Some(status);
        Ok(status)
    }

    /// What it has written to standard output so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stdout(&self) -> Result<String, ProcessError> {
        self.read(&self.stdout)
    }

    /// What it has written to standard error so far.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn stderr(&self) -> Result<String, ProcessError> {
        self.read(&self.stderr)
    }

    fn read(&self, path: &Path) -> Result<String, ProcessError> {
        let bytes = std::fs::read(path).map_err(|source| self.io_error(source))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn io_error(&self, source: io::Error) -> ProcessError {
        ProcessError::Io { command: self.command.clone(), source }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            // Both can only fail because the process has ended already, which is what is wanted.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// One process, distinguished from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessIdentity {
    /// Process number.
    pub pid: u32,
    /// Start time in clock ticks since boot (field 22 of proc_pid_stat(5)).
    pub start_ticks: u64,
}

impl ProcessIdentity {
    /// The identity of a running process; `None` if there is none of that number (a zombie counts as none).
    pub fn of(pid: u32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let start_ticks = parse_start_ticks(&stat)?;
        Some(Self { pid, start_ticks })
    }

    /// Whether exactly this process still runs.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Kills exactly this process and waits until it is gone; false if it would not go within a second.
    pub fn kill(self) -> bool {
        let Ok(fd) = PidFd::open(self.pid) else { return true };
        // Checked after opening: from here on the number cannot pass to another process unnoticed.
        if !self.is_alive() {
            return true;
        }
        let _ = fd.signal(libc::SIGKILL);
        fd.wait_gone(Duration::from_secs(1)).unwrap_or(false)
    }
}

/// Start time from the text of /proc/PID/stat. The command name stands in parentheses and may itself hold blanks and
/// parentheses, so fields are counted from the last one.
fn parse_start_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    // Field 22 of the line; the state was field 3.
    fields.nth(22 - 4)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_time_is_field_22_whatever_the_command_is_called() {
        let tail = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(parse_start_ticks(&format!("77 (a) b (c)) S {tail}")), Some(4242));
        assert_eq!(parse_start_ticks(&format!("77 (x) Z {tail}")), None);
        assert_eq!(parse_start_ticks("77 (x) S 1 2"), None);
        assert_eq!(parse_start_ticks(""), None);
    }

    #[test]
    fn this_process_is_alive_and_an_earlier_one_of_its_number_is_not() {
        let me = ProcessIdentity::of(std::process::id()).expect("own entry in /proc");
        assert!(me.is_alive());
        assert!(!ProcessIdentity { start_ticks: me.start_ticks - 1, ..me }.is_alive());
    }

    #[test]
    fn a_failed_command_is_named_with_its_message() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c") && error.contains("broken"), "{error}");
        let error = run(&mut Command::new("/nonexistent/program")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/program"), "{error}");
    }
}
