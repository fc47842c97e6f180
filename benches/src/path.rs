//! A veth path under iperf3, without and with the agent, turn by turn: full packets, and the smallest there are.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;
use serde_json::Value;

use crate::namespaces::{PLAIN, Pair, REMOTE, Running, command};

/// Turns of every arrangement; they alternate.
const TURNS: usize = 3;

/// Everything there is: XDP instead of TC ingress; with a qdisc on the device its tracepoints, too.
const EVERYTHING: &str = "[[link]]\nwan = \"wan0\"\ningress-hook = \"xdp\"\n";

/// What is sent.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// TCP with full segments: 1514 bytes on the wire.
    Tcp1500,
    /// UDP with frames of 64 bytes, as fast as the sender can.
    Udp64,
}

/// One load over one qdisc, without and with the agent.
#[derive(Serialize)]
struct Row {
    load: Load,
    /// The agent's configuration: `default` over a device without a queue, or `everything` over a pfifo.
    agent: &'static str,
    /// Without the agent, median of the turns: bit/s (TCP) or packets/s (UDP) that arrived.
    off: f64,
    /// With it.
    on: f64,
    /// `on` over `off`, of each turn; the median of them is what counts.
    ratios: Vec<f64>,
}

#[derive(Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
    /// Share of one core that the programs took, by the kernel's BPF statistics, in a stretch of its own.
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    name: String,
    runs: u64,
    ns_per_run: f64,
    core_share: f64,
}

/// Measure.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<Report> {
    let pair = Pair::new()?;
    transfer(&pair, Load::Tcp1500, 1).context("a first transfer, to warm up")?;
    let mut rows = Vec::new();
    for (name, qdisc, config) in [("default", None, PLAIN), ("everything", Some("pfifo"), EVERYTHING)] {
        pair.qdisc(qdisc)?;
        for load in [Load::Tcp1500, Load::Udp64] {
            let (mut off, mut on) = (Vec::new(), Vec::new());
            for _ in 0..TURNS {
                off.push(transfer(&pair, load, seconds)?);
                let running = pair.agent(agent, config)?;
                on.push(transfer(&pair, load, seconds)?);
                drop(running);
            }
            let ratios = on.iter().zip(&off).map(|(on, off)| on / off).collect();
            rows.push(Row { load, agent: name, off: median(off), on: median(on), ratios });
        }
    }
    let programs = shares(&pair, agent, seconds)?;
    Ok(Report { rows, programs })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Run iperf3 from the gateway to the remote end; what arrived, in bit/s or packets/s.
pub(crate) fn transfer(pair: &Pair, load: Load, seconds: u64) -> Result<f64> {
    let server = command(&pair.remote, &["iperf3", "-s", "-1"]).stdout(Stdio::null()).spawn()?;
    let _server = Running { child: server };
    let duration = seconds.to_string();
    let common = ["iperf3", "-c", REMOTE, "-t", &duration, "-J"];
    let specific: &[&str] = match load {
        Load::Tcp1500 => &["-C", "reno"],
        // 14 bytes of Ethernet, 20 of IPv4, 8 of UDP.
        Load::Udp64 => &["-u", "-b", "0", "-l", "22"],
    };
    let client = [common.as_slice(), specific].concat();
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let output = command(&pair.gateway, &client).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3 writes JSON")?;
        if let Some(received) = arrived(&report, load) {
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

/// What the programs took of one core during a transfer.
fn shares(pair: &Pair, agent: &Path, seconds: u64) -> Result<Vec<Program>> {
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let _running = pair.agent(agent, EVERYTHING)?;
    let before = totals()?;
    let start = Instant::now();
    transfer(pair, Load::Tcp1500, seconds)?;
    let elapsed = start.elapsed().as_secs_f64();
    let after = totals()?;
    let mut programs = Vec::new();
    for (id, name, runs, time) in after {
        let (old_runs, old_time) =
            before.iter().find(|row| row.0 == id).map_or((0, Duration::ZERO), |row| (row.2, row.3));
        let (runs, spent) = (runs - old_runs, (time - old_time).as_secs_f64());
        if runs > 0 {
            programs.push(Program {
                name,
                runs,
                ns_per_run: spent * 1e9 / runs as f64,
                core_share: spent / elapsed,
            });
        }
    }
    Ok(programs)
}

/// Id, name, runs and time of all programs of ours.
pub(crate) fn totals() -> Result<Vec<(u32, String, u64, Duration)>> {
    let mut rows = Vec::new();
    for info in loaded_programs() {
        // A program may go while we look.
        let Ok(info) = info else { continue };
        let name = info.name_as_str().unwrap_or_default();
        if name.starts_with("pendulum_") {
            rows.push((info.id(), name.to_owned(), info.run_count(), info.run_time()));
        }
    }
    ensure!(!rows.is_empty(), "the agent has loaded no programs");
    Ok(rows)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "veth path, iperf3, offloads off; {TURNS} turns without and with the agent by turns (aim ≥ 0.97 at 1500 bytes)\n"
        )?;
        writeln!(f, "{:<10}{:<12}{:>14}{:>14}   ratios", "packets", "agent", "without", "with")?;
        for row in &self.rows {
            let (load, unit, divisor) = match row.load {
                Load::Tcp1500 => ("1500 B", "Gb/s", 1e9),
                Load::Udp64 => ("64 B", "kp/s", 1e3),
            };
            let mut ratios = row.ratios.clone();
            ratios.sort_by(f64::total_cmp);
            let ratios: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
            writeln!(
                f,
                "{load:<10}{:<12}{:>9.2} {unit}{:>9.2} {unit}   {}",
                row.agent,
                row.off / divisor,
                row.on / divisor,
                ratios.join(" ")
            )?;
        }
        writeln!(f)?;
        writeln!(f, "{:<18}{:>12}{:>10}{:>16}", "program", "runs", "ns/run", "share of a core")?;
        for program in &self.programs {
            let share = program.core_share * 100.0;
            writeln!(
                f,
                "{:<18}{:>12}{:>10.0}{:>15.1}%",
                program.name, program.runs, program.ns_per_run, share
            )?;
        }
        Ok(())
    }
}
