//! The agent's own processor time: at rest, with 1,000 connections that talk, and while it also finds the rate of its shaper from them.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::frames::{Conversations, Sender};
use crate::namespaces::{PLAIN, Pair, has_cake};

const FLOWS: u32 = 1_000;

/// Both directions shaped, at rates that are found.
const AUTO: &str =
    "[[link]]\nwan = \"wan0\"\n[shape]\nmode = \"enforce\"\nrate = \"auto\"\ndownlink = true\n";

#[derive(Serialize)]
pub(crate) struct CpuReport {
    seconds: f64,
    /// Share of one core without traffic.
    rest_share: f64,
    /// With traffic.
    busy_share: f64,
    /// Segments per second of that traffic, both directions.
    segments_per_second: f64,
    /// With the same traffic and `rate = "auto"`; `null` where the kernel has no cake.
    auto_share: Option<f64>,
}

/// Measure, the history ring's 10 ms buckets and a queue on the device included.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<CpuReport> {
    let stretch = Duration::from_secs(seconds);
    let auto_share = if has_cake() { Some(stretches(agent, AUTO, stretch)?.1) } else { None };
    let (rest_share, busy_share, segments_per_second) = stretches(agent, PLAIN, stretch)?;
    Ok(CpuReport { seconds: stretch.as_secs_f64(), rest_share, busy_share, segments_per_second, auto_share })
}

/// Shares of one core at rest and with traffic, and the segments per second of that.
fn stretches(agent: &Path, config: &str, stretch: Duration) -> Result<(f64, f64, f64)> {
    let pair = Pair::new()?;
    pair.qdisc(Some("pfifo"))?;
    let running = pair.agent(agent, config)?;
    let pid = running.child.id();
    // What starting takes is not rest.
    std::thread::sleep(Duration::from_secs(2));
    let rest = share(pid, || {
        std::thread::sleep(stretch);
        Ok(())
    })?;
    let conversations = Conversations::open(&pair)?;
    let mut segments = 0_u64;
    let start = Instant::now();
    let busy = share(pid, || {
        let mut round = 0;
        while start.elapsed() < stretch {
            for n in 0..FLOWS {
                conversations.exchange(Sender::Home, n, round)?;
            }
            segments += 2 * u64::from(FLOWS);
            round += 1;
            let due = start + Duration::from_millis(500) * round;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    })?;
    Ok((rest, busy, segments as f64 / start.elapsed().as_secs_f64()))
}

/// Share of one core that a process takes while `deed` runs.
fn share(pid: u32, deed: impl FnOnce() -> Result<()>) -> Result<f64> {
    let (before, start) = (processor_time(pid)?, Instant::now());
    deed()?;
    Ok((processor_time(pid)? - before) / start.elapsed().as_secs_f64())
}

/// User and system time of a process so far, seconds.
pub(crate) fn processor_time(pid: u32) -> Result<f64> {
    // Nanoseconds on the processor, of every thread: finer than the clock ticks of /proc/PID/stat.
    let mut total = 0.0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).context("the agent runs")? {
        let text = std::fs::read_to_string(task?.path().join("schedstat"))?;
        let on_processor: f64 =
            text.split_ascii_whitespace().next().context("schedstat has figures")?.parse()?;
        total += on_processor / 1e9;
    }
    Ok(total)
}

impl fmt::Display for CpuReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The agent's own processor time, over {:.0} s each\n", self.seconds)?;
        writeln!(f, "at rest                    {:>6.2} % of a core  (aim ≤ 1 %)", self.rest_share * 100.0)?;
        writeln!(
            f,
            "{FLOWS} flows, {:>6.0} segments/s {:>6.2} % of a core",
            self.segments_per_second,
            self.busy_share * 100.0
        )?;
        match self.auto_share {
            Some(share) => {
                writeln!(f, "the same, rate = \"auto\"    {:>6.2} % of a core  (aim ≤ 1.5 %)", share * 100.0)
            }
            None => writeln!(
                f,
                "rate = \"auto\": not measured, this kernel has no cake (`./dev vm 6.12 --release --run \"pendulum-bench cpu\"`)"
            ),
        }
    }
}
