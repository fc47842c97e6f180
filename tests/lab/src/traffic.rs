//! Bulk TCP transfers by iperf3: downloads D1 → D2, uploads U2 → U1. The home end always opens the connection. UDP at a chosen rate, and QUIC.

mod ends;
mod iperf;
#[cfg(feature = "quic")]
mod quic;
mod udp;

use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;

pub use ends::Ends;
pub use iperf::{Interval, IperfReport, ReportError};
#[cfg(feature = "quic")]
pub use quic::{Quic, QuicRequests, Spin};
pub use udp::{UdpFlow, UdpReport, UdpSpec};

use crate::lab::Lab;
use crate::netns::{Host, NetnsError};
use crate::process::{Process, ProcessError};
use crate::topology::{IpVersion, Role};

/// Why a transfer could not be started or measured.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A command could not be run on a machine of the lab.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// iperf3 could not be waited for.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The server did not come up.
    #[error("iperf3 does not listen on port {port} of {role}: {message}")]
    NotListening {
        /// The machine.
        role: Role,
        /// The port.
        port: u16,
        /// What it wrote.
        message: String,
    },
    /// Datagrams cannot be sent or received.
    #[error("UDP on {role}: {source}")]
    Udp {
        /// The machine.
        role: Role,
        /// What the system said.
        source: std::io::Error,
    },
    /// QUIC's endpoints cannot be made.
    #[error("QUIC on {role}: {source}")]
    Quic {
        /// The machine.
        role: Role,
        /// What the system said.
        source: std::io::Error,
    },
    /// Short downloads cannot be served or begun.
    #[error("short downloads: {role}: {source}")]
    Short {
        /// The machine.
        role: Role,
        /// What the system said.
        source: std::io::Error,
    },
    /// A finished iperf3 has not reported what was asked for.
    #[error("{command}: {source}")]
    Report {
        /// The command line.
        command: String,
        /// What is wrong with the report.
        source: ReportError,
    },
}

/// A transfer to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferSpec {
    /// Which way the data goes.
    pub direction: Direction,
    /// The machines at both ends.
    pub ends: Ends,
    /// Parallel TCP connections.
    pub streams: u32,
    /// If given, the transfer ends with so much payload, however long that takes.
    pub bytes: Option<u64>,
    /// How long data is sent. The end exchange of iperf3 takes a few round trips more.
    pub duration: Duration,
    /// Congestion control of the sender, set by socket option: inside a namespace the sysctl is refused.
    pub congestion_control: String,
    /// IP version.
    pub ip: IpVersion,
    /// Socket buffers in bytes (`B_TCP` of paper 000); `None` leaves them to Linux' autotuning.
    pub tcp_buffer_bytes: Option<u64>,
}

impl TransferSpec {
    /// One reno connection over IPv4 with autotuned buffers, D1 → D2 or U2 → U1.
    pub fn new(direction: Direction, duration: Duration) -> Self {
        Self {
            direction,
            ends: Ends::of(direction),
            streams: 1,
            bytes: None,
            duration,
            congestion_control: "reno".into(),
            ip: IpVersion::V4,
            tcp_buffer_bytes: None,
        }
    }

    /// The machine that receives the data.
    pub const fn receiver(&self) -> Role {
        self.ends.receiver(self.direction)
    }

    /// The machine that sends the data.
    pub const fn sender(&self) -> Role {
        self.ends.sender(self.direction)
    }

    fn client_args(&self, server: std::net::IpAddr, port: u16) -> Vec<String> {
        let mut args = vec!["-c".into(), server.to_string(), "-p".into(), port.to_string(), "-J".into()];
        args.extend(["-i".into(), "0.5".into()]);
        args.extend(match self.bytes {
            Some(bytes) => ["-n".into(), bytes.to_string()],
            None => ["-t".into(), self.duration.as_secs().max(1).to_string()],
        });
        args.extend(["-P".into(), self.streams.to_string(), "-C".into(), self.congestion_control.clone()]);
        if self.direction == Direction::Down {
            args.push("-R".into());
        }
        if let Some(bytes) = self.tcp_buffer_bytes {
            args.extend(["-w".into(), bytes.to_string()]);
        }
        args
    }
}

/// A transfer's server, ready for its client. Made ahead, so that the start takes no time of its own.
#[derive(Debug)]
pub struct Prepared {
    spec: TransferSpec,
    port: u16,
    server: Process,
    client_host: Host,
}

/// A running or finished transfer. Dropping it ends it.
#[derive(Debug)]
pub struct Transfer {
    spec: TransferSpec,
    port: u16,
    server: Process,
    client: Process,
}

/// What both ends of a finished transfer reported. The receiver's figures are the goodput.
#[derive(Clone, Debug)]
pub struct TransferReport {
    /// Of the end that received the data.
    pub receiver: IperfReport,
    /// Of the end that sent it.
    pub sender: IperfReport,
}

impl Prepared {
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Starts the server on a port that no other transfer of this lab has, and waits until it listens.
    ///
    /// # Errors
    /// If iperf3 cannot be started.
    pub fn new(lab: &Lab, spec: TransferSpec) -> Result<Self, TrafficError> {
        let port = lab.next_port();
        let Ends { internet: server_role, home: client_role } = spec.ends;
        let host = lab.host(server_role);
        let mut command = host.command("iperf3")?;
        command.args(["-s", "-1", "-J", "-i", "0.5", "-p", &port.to_string()]);
        let mut server = host.spawn(command, &format!("iperf3-server-{port}"))?;
        let deadline = Instant::now() + Self::PATIENCE;
        while !host.inside(|| is_listening(port))? {
            if server.try_wait()?.is_some() || Instant::now() > deadline {
                let message = format!("{}{}", server.stdout()?.trim(), server.stderr()?.trim());
                return Err(TrafficError::NotListening { role: server_role, port, message });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Self { spec, port, server, client_host: lab.host(client_role) })
    }

    /// Starts the transfer.
    ///
    /// # Errors
    /// If iperf3 cannot be started.
    pub fn start(self) -> Result<Transfer, TrafficError> {
        let Self { spec, port, server, client_host } = self;
        let mut command = client_host.command("iperf3")?;
        if let Some(address) = spec.ends.internet.address(spec.ip) {
            command.args(spec.client_args(address, port));
        }
        let client = client_host.spawn(command, &format!("iperf3-client-{port}"))?;
        Ok(Transfer { spec, port, server, client })
    }
}

impl Transfer {
    /// Starts server and client.
    ///
    /// # Errors
    /// If iperf3 cannot be started.
    pub fn start(lab: &Lab, spec: TransferSpec) -> Result<Self, TrafficError> {
        Prepared::new(lab, spec)?.start()
    }

    /// What was asked for.
    pub fn spec(&self) -> &TransferSpec {
        &self.spec
    }

    /// The server's TCP port, which tells its sockets from others.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the end that drives the transfer has ended, well or not.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn client_has_ended(&mut self) -> Result<bool, TrafficError> {
        Ok(self.client.try_wait()?.is_some())
    }

    /// Whether both ends have ended and reported.
    ///
    /// # Errors
    /// If the system cannot say.
    pub fn is_finished(&mut self) -> Result<bool, TrafficError> {
        Ok(self.client.try_wait()?.is_some() && self.server.try_wait()?.is_some())
    }

    /// Reads both ends' reports; the transfer must have finished.
    ///
    /// # Errors
    /// If an end failed, or used another congestion control than the one asked for.
    pub fn report(&mut self) -> Result<TransferReport, TrafficError> {
        let client = read_report(&self.client)?;
        let server = read_report(&self.server)?;
        let (receiver, sender) = match self.spec.direction {
            Direction::Down => (client, server),
            Direction::Up => (server, client),
        };
        let wanted = &self.spec.congestion_control;
        sender.check_congestion_control(wanted).map_err(|source| report_error(&self.client, source))?;
        Ok(TransferReport { receiver, sender })
    }

    /// Waits for the end, at most `patience` in all, and reads the reports.
    ///
    /// # Errors
    /// If it has not finished by then, or as [`Transfer::report`].
    pub fn finish(mut self, patience: Duration) -> Result<TransferReport, TrafficError> {
        let deadline = Instant::now() + patience;
        for process in [&mut self.client, &mut self.server] {
            if process.wait_timeout(deadline.saturating_duration_since(Instant::now()))?.is_none() {
                return Err(report_error(process, ReportError::Unfinished));
            }
        }
        self.report()
    }
}

fn read_report(process: &Process) -> Result<IperfReport, TrafficError> {
    IperfReport::parse(&process.stdout()?).map_err(|source| report_error(process, source))
}

fn report_error(process: &Process, source: ReportError) -> TrafficError {
    TrafficError::Report { command: process.command().to_owned(), source }
}

/// Whether some TCP socket of the calling thread's namespace listens on `port`.
fn is_listening(port: u16) -> bool {
    ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"]
        .iter()
        .any(|table| std::fs::read_to_string(table).is_ok_and(|text| has_listener(&text, port)))
}

/// Looks through the text of /proc/net/tcp: local address, peer address, state 0A for listening.
fn has_listener(table: &str, port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&suffix)) && words.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_counts() {
        let table = "  sl  local_address rem_address   st tx_queue\n   \
                     0: 00000000000000000000000000000000:14B4 00000000000000000000000000000000:0000 0A 0:0\n   \
                     1: 0100007F:14B5 0100007F:C61E 01 0:0\n";
        assert!(has_listener(table, 5300));
        assert!(!has_listener(table, 5301));
        assert!(!has_listener(table, 80));
    }

    #[test]
    fn downloads_are_asked_for_by_the_home_end() {
        let address = "198.18.1.2".parse().unwrap();
        let down = TransferSpec::new(Direction::Down, Duration::from_secs(7)).client_args(address, 5201);
        assert!(down.contains(&"-R".to_owned()) && down.join(" ").contains("-t 7"));
        assert!(down.join(" ").contains("-C reno"));
        let up = TransferSpec { streams: 2, ..TransferSpec::new(Direction::Up, Duration::from_secs(7)) };
        let up = up.client_args(address, 5201);
        assert!(!up.contains(&"-R".to_owned()) && up.join(" ").contains("-P 2"));
    }
}
