//! The agent under test, running on the lab's gateway, and what it says over HTTP.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::lab::Lab;
use crate::netns::{Host, NetnsError};
use crate::process::{Process, ProcessError};
use crate::topology::{LAN_DEVICE, WAN_DEVICE};

/// Why the agent could not be run or asked.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// It could not be started on the gateway.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// It could not be handled.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// It ended, or does not answer.
    #[error("the agent {} does not answer on {}: {reason}", program.display(), Agent::ADDRESS)]
    Silent {
        /// The program.
        program: PathBuf,
        /// Its last words, or what the connection gave.
        reason: String,
    },
}

/// Whether the agent has the rates configured of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rates {
    /// On its command line.
    Told,
    /// It must find them out.
    Untold,
}

/// A running agent. Dropping it ends it.
#[derive(Debug)]
pub struct Agent {
    process: Process,
    program: PathBuf,
    host: Host,
}

impl Agent {
    /// The agent that was built together with this program: the `pendulum` beside it, if there is one.
    pub fn beside_this_program() -> Option<PathBuf> {
        let program = std::env::current_exe().ok()?.with_file_name("pendulum");
        program.exists().then_some(program)
    }

    /// Where it listens, inside the gateway's namespace.
    pub const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9924);
    const PATIENCE: Duration = Duration::from_secs(30);
    const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

    /// Starts `program run` on the gateway with its devices and rates, and waits until it answers.
    ///
    /// # Errors
    /// If it ends or has not answered after half a minute.
    pub fn start(lab: &Lab, program: &Path) -> Result<Self, AgentError> {
        Self::start_with(lab, program, Rates::Told, &[])
    }

    /// The same, with or without the rates, and with more arguments.
    ///
    /// # Errors
    /// As [`Agent::start`].
    pub fn start_with(lab: &Lab, program: &Path, rates: Rates, more: &[String]) -> Result<Self, AgentError> {
        let host = lab.gateway();
        let spec = lab.spec();
        let mut command = host.command(program)?;
        command.args(["run", "--wan", WAN_DEVICE, "--lan", LAN_DEVICE]);
        if rates == Rates::Told {
            command.args(["--uplink-rate", &spec.uplink.rate.to_string()]);
            command.args(["--downlink-rate", &spec.downlink.rate.to_string()]);
        }
        command.args(["--listen", &Self::ADDRESS.to_string()]);
        command.args(more);
        Self::answering(command, host, program)
    }

    /// Starts `program run` on the gateway with a configuration file that has it listen at [`Self::ADDRESS`], and waits until it answers.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn configured(lab: &Lab, program: &Path, config: &Path) -> Result<Self, AgentError> {
        let host = lab.gateway();
        let mut command = host.command(program)?;
        command.arg("run").arg("--config").arg(config);
        Self::answering(command, host, program)
    }

    fn answering(command: std::process::Command, host: Host, program: &Path) -> Result<Self, AgentError> {
        let process = host.spawn(command, "agent")?;
        let mut agent = Self { process, program: program.into(), host };
        let deadline = Instant::now() + Self::PATIENCE;
        loop {
            match agent.get("/api/v1/state") {
                Ok(_) => return Ok(agent),
                Err(error) if agent.process.try_wait()?.is_some() || Instant::now() > deadline => {
                    return Err(error);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    /// The body of a successful `GET path`.
    ///
    /// # Errors
    /// If the agent does not answer with status 200.
    pub fn get(&self, path: &str) -> Result<String, AgentError> {
        ask(&self.host, path).map_err(|error| self.silent(error.to_string()))
    }

    /// The body of a successful `GET path`, read as JSON.
    ///
    /// # Errors
    /// If it does not answer, or not with this.
    pub fn json<T: DeserializeOwned>(&self, path: &str) -> Result<T, AgentError> {
        let body = self.get(path)?;
        serde_json::from_str(&body)
            .map_err(|error| self.silent(format!("{path} is not what was expected: {error}")))
    }

    /// How it has ended, if it has, which it should not do by itself.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn ended(&mut self) -> Result<Option<std::process::ExitStatus>, AgentError> {
        Ok(self.process.try_wait()?)
    }

    /// An error with the agent's last words, which are usually the reason.
    fn silent(&self, mut reason: String) -> AgentError {
        let written = self.process.stderr().unwrap_or_default();
        if let Some(words) = written.lines().rfind(|line| !line.trim().is_empty()) {
            reason = format!("{reason}; its last words: {}", words.trim());
        }
        AgentError::Silent { program: self.program.clone(), reason }
    }

    /// Ends it as a service manager would.
    ///
    /// # Errors
    /// If it cannot be signalled.
    pub fn stop(mut self) -> Result<std::process::ExitStatus, AgentError> {
        Ok(self.process.stop(libc::SIGTERM, Self::PATIENCE)?)
    }
}

/// The body of a successful `GET path` of the agent on a machine, however it was started.
///
/// # Errors
/// If none answers there with status 200.
pub fn ask(host: &Host, path: &str) -> io::Result<String> {
    host.inside(|| fetch(Agent::ADDRESS, path, Agent::ANSWER_TIMEOUT)).map_err(io::Error::other)?
}

/// The body of an answer with status 200.
pub(crate) fn fetch(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<String> {
    match exchange(address, path, timeout)? {
        (200, body) => Ok(body),
        (status, body) => Err(io::Error::other(format!("status {status}: {}", body.trim()))),
    }
}

/// One HTTP request: status and body of the answer. Version 1.0, so that the answer ends with the connection and is never chunked.
///
/// # Errors
/// If nobody answers there in HTTP.
pub fn exchange(address: SocketAddr, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: */*\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parts_of(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn parts_of(answer: &str) -> Option<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split_ascii_whitespace().nth(1)?.parse().ok()?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_status_and_body() {
        assert_eq!(parts_of("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{}"), Some((200, "{}".to_owned())));
        assert_eq!(parts_of("HTTP/1.0 503 Not Ready\r\n\r\nwait"), Some((503, "wait".to_owned())));
        assert_eq!(parts_of(""), None);
    }
}
