//! What the programs cost in place: nanoseconds for a packet on a veth pair by the kernel's BPF run-time statistics, less those of a
//! program that does nothing at the same hook for the same packets. Unlike TEST_RUN it finds the caches as the traffic leaves them.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;

use crate::frames::{Conversations, Sender};
use crate::namespaces::{PLAIN, Pair, WAN, inside};
use crate::test_run::{EmptyTcx, TcxSide};

/// Stretches of each load; they alternate, and the median counts.
const TURNS: usize = 5;

/// Connections at the same time.
const FLOWS: [u32; 3] = [1, 10, 1_000];

/// Aims of issue 19, nanoseconds over an empty program with one connection; and with 1,000 as a multiple of that.
const AIM_DATA_NS: f64 = 150.0;
const AIM_ACK_NS: f64 = 250.0;
const AIM_MANY: f64 = 1.3;

/// Names of the programs that do nothing; as long as the kernel allows.
const EMPTY_UP: &str = "pendulum_u_none";
const EMPTY_DOWN: &str = "pendulum_d_none";

#[derive(Serialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// One load: data one way, and an ACK for each segment the other way.
#[derive(Serialize)]
struct Row {
    /// Who sends the data.
    data_from: Sender,
    flows: u32,
    /// Data segments of each stretch, and as many ACKs.
    segments: u64,
    /// The agent's program for the data, less the empty one: median, and the range of the turns.
    data_ns: Spread,
    /// The same for the ACKs.
    ack_ns: Spread,
}

#[derive(Clone, Copy, Serialize)]
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self { least: values[0], median: values[values.len() / 2], most: values[values.len() - 1] }
    }
}

/// Measure; each stretch takes `seconds`.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<Report> {
    let pair = Pair::new()?;
    let _empty = inside(&pair.gateway, || {
        Ok([
            EmptyTcx::attach(EMPTY_UP, WAN, TcxSide::Egress)?,
            EmptyTcx::attach(EMPTY_DOWN, WAN, TcxSide::Ingress)?,
        ])
    })?;
    let _running = pair.agent(agent, PLAIN)?;
    let conversations = Conversations::open(&pair)?;
    let loads: Vec<(Sender, u32)> = [Sender::Remote, Sender::Home]
        .into_iter()
        .flat_map(|sender| FLOWS.map(|flows| (sender, flows)))
        .collect();
    let mut costs = vec![(0, Vec::new(), Vec::new()); loads.len()];
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let mut round = 0;
    for _ in 0..TURNS {
        for (&(sender, flows), (segments, data, ack)) in loads.iter().zip(&mut costs) {
            // Connections begin, and those of the load before leave the caches.
            stretch(&conversations, sender, flows, Duration::from_millis(100), &mut round)?;
            let before = Times::read()?;
            *segments = stretch(&conversations, sender, flows, Duration::from_secs(seconds), &mut round)?;
            let spent = Times::read()?.since(&before)?;
            let (of_data, of_ack) = match sender {
                Sender::Remote => (spent.down_ns, spent.up_ns),
                Sender::Home => (spent.up_ns, spent.down_ns),
            };
            data.push(of_data);
            ack.push(of_ack);
        }
    }
    let rows = loads
        .into_iter()
        .zip(costs)
        .map(|((data_from, flows), (segments, data, ack))| Row {
            data_from,
            flows,
            segments,
            data_ns: Spread::of(data),
            ack_ns: Spread::of(ack),
        })
        .collect();
    Ok(Report { rows })
}

/// Segments and their ACKs for so long, one connection after the other; returns how many segments.
fn stretch(
    conversations: &Conversations,
    sender: Sender,
    flows: u32,
    length: Duration,
    round: &mut u32,
) -> Result<u64> {
    let (start, mut segments) = (Instant::now(), 0);
    while start.elapsed() < length {
        *round += 1;
        for n in 0..flows {
            conversations.exchange(sender, n, *round)?;
        }
        segments += u64::from(flows);
    }
    Ok(segments)
}

/// Runs and time of one program so far.
#[derive(Clone, Copy, Default)]
struct Total {
    runs: u64,
    time: Duration,
}

impl Total {
    fn ns_since(self, before: Self) -> f64 {
        (self.time - before.time).as_nanos() as f64 / (self.runs - before.runs).max(1) as f64
    }
}

/// The four programs.
#[derive(Default)]
struct Times {
    up: Total,
    down: Total,
    empty_up: Total,
    empty_down: Total,
}

/// Nanoseconds for a packet over an empty program.
struct Spent {
    up_ns: f64,
    down_ns: f64,
}

impl Times {
    fn read() -> Result<Self> {
        let mut times = Self::default();
        for info in loaded_programs() {
            // A program may go while we look.
            let Ok(info) = info else { continue };
            let place = match info.name_as_str().unwrap_or_default() {
                "pendulum_up" => &mut times.up,
                "pendulum_down" => &mut times.down,
                EMPTY_UP => &mut times.empty_up,
                EMPTY_DOWN => &mut times.empty_down,
                _ => continue,
            };
            // Of those that another agent on this machine has loaded, none may run meanwhile.
            if info.run_count() >= place.runs {
                *place = Total { runs: info.run_count(), time: info.run_time() };
            }
        }
        Ok(times)
    }

    fn since(&self, before: &Self) -> Result<Spent> {
        for (what, now, then) in
            [("pendulum_up", self.up, before.up), (EMPTY_DOWN, self.empty_down, before.empty_down)]
        {
            ensure!(now.runs > then.runs, "{what} did not run: is it attached?");
        }
        Ok(Spent {
            up_ns: self.up.ns_since(before.up) - self.empty_up.ns_since(before.empty_up),
            down_ns: self.down.ns_since(before.down) - self.empty_down.ns_since(before.empty_down),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "In place: ns for a packet over an empty program at the same hook, by BPF run-time statistics; medians of {TURNS} turns (range)\n\
             Aims: data ≤ {AIM_DATA_NS:.0}, ACK ≤ {AIM_ACK_NS:.0} with one flow; ≤ {AIM_MANY} times that with 1,000\n"
        )?;
        writeln!(f, "{:<12}{:>7}{:>10}{:>24}{:>24}", "data from", "flows", "segments", "data", "ACK")?;
        for Row { data_from, flows, segments, data_ns, ack_ns } in &self.rows {
            let text = |it: &Spread| format!("{:+.0} ({:+.0} … {:+.0})", it.median, it.least, it.most);
            writeln!(
                f,
                "{:<12}{flows:>7}{segments:>10}{:>24}{:>24}",
                data_from.name(),
                text(data_ns),
                text(ack_ns)
            )?;
        }
        Ok(())
    }
}
