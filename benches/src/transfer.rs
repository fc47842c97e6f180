//! Traffic by iperf3 over a pair: sender and receiver each on a processor of their own.

use std::process::Stdio;
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

/// Run iperf3 from the gateway to the remote end; what arrived, in bit/s or packets/s.
pub(crate) fn transfer(pair: &Pair, load: Load, seconds: u64) -> Result<f64> {
    let specific: &[&str] = match load {
        Load::Tcp1500 => &["-C", "reno"],
        // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP.
        Load::Udp64 => &["-u", "-b", "0", "-l", "22"],
    };
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, specific, |report| arrived(report, load))
}

/// One TCP connection over the gateway's own loopback device: what passes there is none of the agent's.
pub(crate) fn elsewhere(pair: &Pair, seconds: u64) -> Result<f64> {
    let report = |report: &Value| arrived(report, Load::Tcp1500);
    iperf3([&pair.gateway, &pair.gateway], "127.0.0.1", seconds, &[], report)
}

/// So many TCP connections at once, `sender`'s data; payload that arrived, bit/s.
pub(crate) fn connections(pair: &Pair, sender: Sender, count: u32, seconds: u64) -> Result<f64> {
    let count = count.to_string();
    let mut specific = vec!["-C", "reno", "-P", &count];
    if sender == Sender::Remote {
        specific.push("-R");
    }
    let report = |report: &Value| arrived(report, Load::Tcp1500);
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, &specific, report)
}

fn iperf3(
    [client, server]: [&str; 2],
    address: &str,
    seconds: u64,
    specific: &[&str],
    arrived: impl Fn(&Value) -> Option<f64>,
) -> Result<f64> {
    let server =
        command(server, &["iperf3", "-s", "-1"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let _server = Running { child: server };
    let duration = seconds.to_string();
    let common = ["iperf3", "-c", address, "-t", &duration, "-J"];
    let is_pinned = std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1);
    let pinned: &[&str] = if is_pinned { &["-A", PINNED] } else { &[] };
    let words = [common.as_slice(), pinned, specific].concat();
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let output = command(client, &words).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3 writes JSON")?;
        if let Some(received) = arrived(&report) {
            return Ok(received);
        }
        // The server may not listen yet.
        ensure!(Instant::now() < deadline, "iperf3: {}", report["error"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn arrived(report: &Value, load: Load) -> Option<f64> {
    let figure = |path: &str| report.pointer(path).and_then(Value::as_f64);
    match load {
        Load::Tcp1500 => figure("/end/sum_received/bits_per_second"),
        Load::Udp64 => {
            let arrived = figure("/end/sum/packets")? - figure("/end/sum/lost_packets")?;
            Some(arrived / figure("/end/sum/seconds")?)
        }
    }
}
