//! Traffic by iperf3 over a pair: sender and receiver each on a processor of their own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::frames::Sender;
use crate::namespaces::{Pair, REMOTE, Running, command};

/// What is sent.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// TCP with full segments: 1514 bytes on the wire.
    Tcp1500,
    /// UDP with frames of 64 bytes, as fast as the sender can.
    Udp64,
}

/// The client runs on the first processor, the server on the second one.
const PINNED: &str = "0,1";

impl Load {
    /// What iperf3 is to send.
    fn words(self) -> &'static [&'static str] {
        match self {
            Self::Tcp1500 => &["-C", "reno"],
            // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP.
            Self::Udp64 => &["-u", "-b", "0", "-l", "22"],
        }
    }
}

/// Traffic from the gateway to the remote end, as long as it lives.
pub(crate) struct Traffic {
    _client: Running,
    _server: Running,
}

impl Traffic {
    pub(crate) fn start(pair: &Pair, load: Load) -> Result<Self> {
        let server = serve(&pair.remote)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut client =
                client(&pair.gateway, REMOTE, 24 * 3600, load.words()).stdout(Stdio::null()).spawn()?;
            // The server may not listen yet.
            std::thread::sleep(Duration::from_millis(500));
            if client.try_wait()?.is_none() {
                return Ok(Self { _client: Running { child: client }, _server: server });
            }
            ensure!(Instant::now() < deadline, "iperf3 ends by itself");
        }
    }
}

/// One TCP connection from the gateway to the remote end.
pub(crate) fn transfer(pair: &Pair, seconds: u64) -> Result<()> {
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, Load::Tcp1500.words())
}

/// One TCP connection over the gateway's own loopback device: what passes there is none of the agent's.
pub(crate) fn elsewhere(pair: &Pair, seconds: u64) -> Result<()> {
    iperf3([&pair.gateway, &pair.gateway], "127.0.0.1", seconds, &[])
}

/// So many TCP connections at once, `sender`'s data.
pub(crate) fn connections(pair: &Pair, sender: Sender, count: u32, seconds: u64) -> Result<()> {
    let count = count.to_string();
    let mut words = vec!["-C", "reno", "-P", &count];
    if sender == Sender::Remote {
        words.push("-R");
    }
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, &words)
}

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(3);

fn serve(namespace: &str) -> Result<Running> {
    let mut server = command(namespace, &["iperf3", "-s", "-1"]);
    Ok(Running { child: server.stdout(Stdio::null()).stderr(Stdio::null()).spawn()? })
}

fn client(namespace: &str, address: &str, seconds: u64, words: &[&str]) -> Command {
    let duration = seconds.to_string();
    let common = ["iperf3", "-c", address, "-t", &duration, "-J"];
    let is_pinned = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    let pinned: &[&str] = if is_pinned { &["-A", PINNED] } else { &[] };
    command(namespace, &[common.as_slice(), pinned, words].concat())
}

fn iperf3([from, to]: [&str; 2], address: &str, seconds: u64, words: &[&str]) -> Result<()> {
    let _server = serve(to)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output = client(from, address, seconds, words).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3 writes JSON")?;
        if report.pointer("/end/sum_received/bits_per_second").is_some() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "iperf3: {}", report["error"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}
