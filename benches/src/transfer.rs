//! Traffic by iperf3 over a pair: sender and receiver each on a processor of their own.

use std::fs;
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

/// What a transfer did.
#[derive(Clone, Copy)]
pub(crate) struct Transferred {
    /// Bit/s (TCP) or packets/s (UDP).
    pub(crate) arrived: f64,
    /// Processor seconds for each bit or packet that arrived: of both ends of iperf3 and of the kernel's softirq threads.
    pub(crate) processor_s: f64,
}

/// The client runs on the first processor, the server on the second one.
const PINNED: &str = "0,1";

/// Run iperf3 from the gateway to the remote end.
pub(crate) fn transfer(pair: &Pair, load: Load, seconds: u64) -> Result<Transferred> {
    let specific: &[&str] = match load {
        Load::Tcp1500 => &["-C", "reno"],
        // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP.
        Load::Udp64 => &["-u", "-b", "0", "-l", "22"],
    };
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, specific, load)
}

/// One TCP connection over the gateway's own loopback device: what passes there is none of the agent's.
pub(crate) fn elsewhere(pair: &Pair, seconds: u64) -> Result<Transferred> {
    iperf3([&pair.gateway, &pair.gateway], "127.0.0.1", seconds, &[], Load::Tcp1500)
}

/// So many TCP connections at once, `sender`'s data.
pub(crate) fn connections(pair: &Pair, sender: Sender, count: u32, seconds: u64) -> Result<Transferred> {
    let count = count.to_string();
    let mut specific = vec!["-C", "reno", "-P", &count];
    if sender == Sender::Remote {
        specific.push("-R");
    }
    iperf3([&pair.gateway, &pair.remote], REMOTE, seconds, &specific, Load::Tcp1500)
}

fn iperf3(
    [client, server]: [&str; 2],
    address: &str,
    seconds: u64,
    specific: &[&str],
    load: Load,
) -> Result<Transferred> {
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
        let softirqs = softirq_threads_s()?;
        let output = command(client, &words).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3 writes JSON")?;
        if let Some(transferred) = transferred(&report, load, softirq_threads_s()? - softirqs) {
            return Ok(transferred);
        }
        // The server may not listen yet.
        ensure!(Instant::now() < deadline, "iperf3: {}", report["error"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `softirqs_s`: what the kernel's threads took meanwhile.
fn transferred(report: &Value, load: Load, softirqs_s: f64) -> Option<Transferred> {
    let figure = |path: &str| report.pointer(&format!("/end/{path}")).and_then(Value::as_f64);
    let (count, seconds) = match load {
        Load::Tcp1500 => (figure("sum_received/bytes")? * 8.0, figure("sum_received/seconds")?),
        Load::Udp64 => (figure("sum/packets")? - figure("sum/lost_packets")?, figure("sum/seconds")?),
    };
    let percent =
        figure("cpu_utilization_percent/host_total")? + figure("cpu_utilization_percent/remote_total")?;
    Some(Transferred {
        arrived: count / seconds,
        processor_s: (percent / 100.0 * seconds + softirqs_s) / count.max(1.0),
    })
}

/// Processor time of ksoftirqd, of all processors, since the start: packets that the sender itself does not process.
fn softirq_threads_s() -> Result<f64> {
    let mut sum_ns = 0.0;
    for process in fs::read_dir("/proc")?.flatten() {
        let read = |name| fs::read_to_string(process.path().join(name)).unwrap_or_default();
        if read("comm").starts_with("ksoftirqd/") {
            let ns = read("schedstat").split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
            sum_ns += ns.context("reading how long ksoftirqd ran")?;
        }
    }
    Ok(sum_ns / 1e9)
}
