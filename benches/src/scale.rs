//! The agent with 10,000 flows: memory and the time of a scrape.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use serde_json::Value;

use crate::frames::{Conversations, Sender};
use crate::namespaces::{PLAIN, Pair};

const FLOWS: u32 = 10_000;
const SCRAPES: usize = 20;

#[derive(Serialize)]
pub(crate) struct ScaleReport {
    flows: u64,
    rss_bytes: u64,
    scrape_median_s: f64,
    scrape_max_s: f64,
    scrape_bytes: usize,
}

/// Measure.
pub(crate) fn run(agent: &Path) -> Result<ScaleReport> {
    let pair = Pair::new()?;
    let running = pair.agent(agent, PLAIN)?;
    let conversations = Conversations::open(&pair)?;
    for n in 0..FLOWS {
        conversations.exchange(Sender::Home, n, 0)?;
    }
    let flows = wait_for_flows(&pair)?;
    let mut times = Vec::new();
    let mut scrape_bytes = 0;
    for _ in 0..SCRAPES {
        let start = Instant::now();
        scrape_bytes = pair.get("/metrics")?.len();
        times.push(start.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(50));
    }
    times.sort_by(f64::total_cmp);
    Ok(ScaleReport {
        flows,
        rss_bytes: resident_bytes(running.child.id())?,
        scrape_median_s: times[SCRAPES / 2],
        scrape_max_s: times[SCRAPES - 1],
        scrape_bytes,
    })
}

fn wait_for_flows(pair: &Pair) -> Result<u64> {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let state: Value = serde_json::from_str(&pair.get("/api/v1/state")?)?;
        let flows = state.pointer("/links/0/flow_table/flows").and_then(Value::as_u64);
        let flows = flows.context("the state tells how full the flow table is")?;
        if flows >= u64::from(FLOWS) || Instant::now() > deadline {
            ensure!(flows * 10 >= u64::from(FLOWS) * 9, "only {flows} of {FLOWS} flows arrived");
            return Ok(flows);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The resident memory of a process.
fn resident_bytes(pid: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("VmRSS is told")?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

impl fmt::Display for ScaleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "The agent with {} flows\n", self.flows)?;
        writeln!(f, "resident memory    {:>8.1} MB  (aim ≤ 30)", self.rss_bytes as f64 / 1e6)?;
        writeln!(
            f,
            "scrape of /metrics {:>8.1} ms median, {:.1} ms worst of {SCRAPES}, {} bytes  (aim ≤ 20 ms)",
            self.scrape_median_s * 1e3,
            self.scrape_max_s * 1e3,
            self.scrape_bytes
        )
    }
}
