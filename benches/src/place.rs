//! What the programs cost in place: nanoseconds for a packet on a veth pair by the kernel's BPF run-time statistics, less those of a
//! program that does nothing at the same hook for the same packets. Unlike TEST_RUN it finds the caches as the traffic leaves them.
//!
//! Two kinds of traffic: TCP transfers by iperf3, whose data comes in bursts; and crafted segments, a system call for each, of
//! any number of connections. There each packet finds the caches as a system call left them: about the worst that can be.

use std::fmt;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;

use crate::frames::{Conversations, Sender};
use crate::namespaces::{PLAIN, Pair, WAN, inside};
use crate::test_run::{TcxSide, attach_tcx, empty_classifier};
use crate::transfer::{connections, elsewhere};

/// Stretches of each load; they alternate, and the median counts.
const TURNS: usize = 5;

/// Crafted connections at the same time.
const FLOWS: [u32; 3] = [1, 10, 1_000];
/// TCP connections at the same time; iperf3 takes 128.
const CONNECTIONS: [u32; 3] = [1, 10, 100];

/// Aims of issue 19, nanoseconds over an empty program with one connection; and with 1,000 as a multiple of that.
const AIM_DATA_NS: f64 = 150.0;
const AIM_ACK_NS: f64 = 250.0;
const AIM_MANY: f64 = 1.3;

/// Names of the programs that do nothing; as long as the kernel allows.
const EMPTY_UP: &str = "pendulum_u_none";
const EMPTY_DOWN: &str = "pendulum_d_none";

#[derive(Serialize)]
pub(crate) struct PlaceReport {
    rows: Vec<PlaceRow>,
    /// The program that reads windows, at segments of the gateway's sockets that are not on the WAN device: a run, nothing taken off.
    window_elsewhere_ns: Spread,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum PlaceTraffic {
    /// Transfers by TCP, with an ACK for each second segment.
    Tcp,
    /// Crafted segments, and an ACK for each.
    Crafted,
}

/// Data one way and ACKs the other way.
#[derive(Clone, Copy, Serialize)]
struct PlaceLoad {
    traffic: PlaceTraffic,
    /// Who sends the data.
    data_from: Sender,
    flows: u32,
}

#[derive(Serialize)]
struct PlaceRow {
    load: PlaceLoad,
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
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<PlaceReport> {
    let pair = Pair::new()?;
    let _empty = inside(&pair.gateway, || {
        Ok([
            attach_tcx(empty_classifier(EMPTY_UP)?.as_fd(), WAN, TcxSide::Egress)?,
            attach_tcx(empty_classifier(EMPTY_DOWN)?.as_fd(), WAN, TcxSide::Ingress)?,
        ])
    })?;
    let _running = pair.agent(agent, PLAIN)?;
    let conversations = Conversations::open(&pair)?;
    let loads: Vec<PlaceLoad> = [(PlaceTraffic::Tcp, CONNECTIONS), (PlaceTraffic::Crafted, FLOWS)]
        .into_iter()
        .flat_map(|(traffic, counts)| {
            [Sender::Remote, Sender::Home].map(|data_from| (traffic, data_from, counts))
        })
        .flat_map(|(traffic, data_from, counts)| counts.map(|flows| PlaceLoad { traffic, data_from, flows }))
        .collect();
    let mut costs = vec![(Vec::new(), Vec::new()); loads.len()];
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let mut round = 0;
    let mut window_elsewhere = Vec::new();
    for _ in 0..TURNS {
        let before = Times::read()?;
        elsewhere(&pair, seconds)?;
        window_elsewhere.push(Times::read()?.window.ns_since(before.window));
        for (&load, (data, ack)) in loads.iter().zip(&mut costs) {
            let spent = match load.traffic {
                PlaceTraffic::Tcp => {
                    let before = Times::read()?;
                    connections(&pair, load.data_from, load.flows, seconds)?;
                    Times::read()?.since(&before)?
                }
                PlaceTraffic::Crafted => {
                    // Connections begin, and those of the load before leave the caches.
                    stretch(&conversations, load, Duration::from_millis(100), &mut round)?;
                    let before = Times::read()?;
                    stretch(&conversations, load, Duration::from_secs(seconds), &mut round)?;
                    Times::read()?.since(&before)?
                }
            };
            let (of_data, of_ack) = match load.data_from {
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
        .map(|(load, (data, ack))| PlaceRow { load, data_ns: Spread::of(data), ack_ns: Spread::of(ack) })
        .collect();
    Ok(PlaceReport { rows, window_elsewhere_ns: Spread::of(window_elsewhere) })
}

/// Segments and their ACKs for so long, one connection after the other.
fn stretch(conversations: &Conversations, load: PlaceLoad, length: Duration, round: &mut u32) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < length {
        *round += 1;
        for n in 0..load.flows {
            conversations.exchange(load.data_from, n, *round)?;
        }
    }
    Ok(())
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

/// The programs at the device's hooks, and the one that reads windows of sockets.
#[derive(Default)]
struct Times {
    up: Total,
    down: Total,
    empty_up: Total,
    empty_down: Total,
    window: Total,
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
                // The kernel keeps fifteen letters.
                "pendulum_cwnd_p" | "pendulum_cwnd_a" | "pendulum_cwnd_o" => &mut times.window,
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

impl fmt::Display for PlaceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "In place: ns for a packet over an empty program at the same hook, by BPF run-time statistics; medians of {TURNS} turns (range)\n\
             Aims: data ≤ {AIM_DATA_NS:.0}, ACK ≤ {AIM_ACK_NS:.0} with one flow; ≤ {AIM_MANY} times that with 1,000\n"
        )?;
        writeln!(f, "{:<10}{:<12}{:>7}{:>26}{:>26}", "traffic", "data from", "flows", "data", "ACK")?;
        for PlaceRow { load, data_ns, ack_ns } in &self.rows {
            let text = |it: &Spread| format!("{:+.0} ({:+.0} … {:+.0})", it.median, it.least, it.most);
            let traffic = match load.traffic {
                PlaceTraffic::Tcp => "TCP",
                PlaceTraffic::Crafted => "crafted",
            };
            let (name, flows) = (load.data_from.name(), load.flows);
            let (data, ack) = (text(data_ns), text(ack_ns));
            writeln!(f, "{traffic:<10}{name:<12}{flows:>7}{data:>26}{ack:>26}")?;
        }
        let Spread { least, median, most } = self.window_elsewhere_ns;
        writeln!(
            f,
            "\nThe window of a socket of this machine on another device: {median:.0} ns a segment ({least:.0} … {most:.0}), statistics included"
        )
    }
}
