//! `pendulum top` on the user's terminal while the traffic runs.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::kernel;

/// The agent's own view of the link. Dropping it ends it, which puts the terminal in order.
#[derive(Debug)]
pub(super) struct Viewer {
    child: Child,
}

impl Viewer {
    /// What it may take to leave the terminal.
    const GRACE: Duration = Duration::from_secs(2);

    /// Whether there is a terminal for it: one to draw on, and one to read keys from.
    pub(super) fn has_terminal() -> bool {
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
    }

    /// Starts `agent top` for the agent at `url`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub(super) fn start(agent: &Path, url: &str, no_colour: bool) -> io::Result<Self> {
        let mut command = Command::new(agent);
        command.args(["top", "--url", url.trim_end_matches('/')]);
        if no_colour {
            command.arg("--no-colour");
        }
        kernel::end_with_parent(&mut command, libc::SIGTERM);
        Ok(Self { child: command.spawn()? })
    }

    /// How it has ended, if it has: with success if the user left it.
    ///
    /// # Errors
    /// If the system cannot say.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let has_ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if has_ended(&mut self.child) {
            return;
        }
        // It can only fail because the process has ended, or be killed below.
        let _ = kernel::PidFd::open(self.child.id()).and_then(|fd| fd.signal(libc::SIGTERM));
        let deadline = Instant::now() + Self::GRACE;
        while !has_ended(&mut self.child) {
            if Instant::now() > deadline {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
