//! A veth path under iperf3, without and with the agent, turn by turn.

use std::fmt;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;
use serde_json::Value;

use crate::namespaces::{Pair, REMOTE, Running, command};

/// Turns without and with the agent.
const TURNS: usize = 3;

#[derive(Serialize)]
pub(crate) struct Report {
    /// Throughput without the agent, median of the turns.
    off_bps: f64,
    /// Throughput with it.
    on_bps: f64,
    /// `on` over `off`.
    ratio: f64,
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
    transfer(&pair, 1).context("a first transfer, to warm up")?;
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        off.push(transfer(&pair, seconds)?);
        let running = pair.agent(agent)?;
        on.push(transfer(&pair, seconds)?);
        drop(running);
    }
    let (off_bps, on_bps) = (median(off), median(on));
    let programs = shares(&pair, agent, seconds)?;
    Ok(Report { off_bps, on_bps, ratio: on_bps / off_bps, programs })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Run iperf3 from the gateway to the remote end; what arrived, in bit/s.
fn transfer(pair: &Pair, seconds: u64) -> Result<f64> {
    let server = command(&pair.remote, &["iperf3", "-s", "-1"]).stdout(Stdio::null()).spawn()?;
    let _server = Running { child: server };
    let duration = seconds.to_string();
    let client = ["iperf3", "-c", REMOTE, "-t", &duration, "-C", "reno", "-J"];
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let output = command(&pair.gateway, &client).output()?;
        let report: Value = serde_json::from_slice(&output.stdout).context("iperf3 writes JSON")?;
        if let Some(received) = report.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64) {
            return Ok(received);
        }
        // The server may not listen yet.
        ensure!(Instant::now() < deadline, "iperf3: {}", report["error"]);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What the programs took of one core during a transfer.
fn shares(pair: &Pair, agent: &Path, seconds: u64) -> Result<Vec<Program>> {
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let _running = pair.agent(agent)?;
    let before = totals()?;
    let start = Instant::now();
    transfer(pair, seconds)?;
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

fn totals() -> Result<Vec<(u32, String, u64, Duration)>> {
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
            "veth path, iperf3 with reno, 1500-byte packets, offloads off (median of {TURNS} turns)\n"
        )?;
        writeln!(f, "without the agent  {:>8.2} Gb/s", self.off_bps / 1e9)?;
        writeln!(
            f,
            "with the agent     {:>8.2} Gb/s   ratio {:.3} (aim ≥ 0.95)\n",
            self.on_bps / 1e9,
            self.ratio
        )?;
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
