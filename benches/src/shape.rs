//! What the ACK filter costs on the shaped path: nanoseconds over cake alone, which needs no program.
//!
//! Twice: each pass alone by TEST_RUN, and both together on real traffic by the kernel's BPF run-time statistics, which count
//! their own two clock reads in.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aya::programs::SchedClassifier;
use aya::sys::{Stats, enable_stats};
use pendulum::bpf::abi::{self, pendulum_shape_control};
use pendulum::bpf::{self, ShapePrograms};
use pendulum_lab::agent::Agent;
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::WAN_DEVICE;
use pendulum_lab::traffic::{Transfer, TransferSpec};
use pendulum_lab::{Lab, LinkSpec};
use pendulum_model::rate::BufferSize;
use pendulum_model::segment::Direction;
use serde::Serialize;

use crate::craft::{self, LinkLayer};
use crate::namespaces::has_cake;
use crate::path::totals;
use crate::test_run;

/// The aim of issue 17: a packet of the uplink, over cake alone.
const AIM_NS: f64 = 250.0;
/// A slow link's programs and tables leave the processor's caches from packet to packet, a fast one's do not.
const LOADS: [ShapeLoad; 2] = [
    ShapeLoad { up: "5mbit", up_buffer: 50_000, down: "50mbit", down_buffer: 250_000 },
    ShapeLoad { up: "50mbit", up_buffer: 500_000, down: "500mbit", down_buffer: 2_500_000 },
];
/// What an emulated processor has time for. Its clock counts instructions, 2 ns each, and no cache: turns give the same.
const LOADS_EMULATED: [ShapeLoad; 2] = [
    ShapeLoad { up: "200kbit", up_buffer: 30_000, down: "2400kbit", down_buffer: 30_000 },
    ShapeLoad { up: "1mbit", up_buffer: 30_000, down: "10mbit", down_buffer: 100_000 },
];
const ROUNDS: u32 = 3;
/// One run that a hypervisor interrupts for ten milliseconds adds 500 ns to the mean of 20,000: the quietest turn counts.
const TURNS: u32 = 5;
/// The shaping device of TEST_RUN, which takes only devices that are there.
const LOOPBACK: u32 = 1;

#[derive(Serialize)]
pub(crate) struct ShapeReport {
    /// What the figures of the passes are counted in.
    unit: &'static str,
    /// A classifier that does nothing.
    empty: u32,
    passes: Vec<Pass>,
    turns: u32,
    /// For each load every filter.
    traffic: Vec<(ShapeLoad, Vec<ShapeTraffic>)>,
}

/// A link that is full both ways.
#[derive(Clone, Copy, Serialize)]
struct ShapeLoad {
    up: &'static str,
    up_buffer: u64,
    down: &'static str,
    down_buffer: u64,
}

#[derive(Serialize)]
struct Pass {
    what: &'static str,
    cost: u32,
}

#[derive(Serialize)]
struct ShapeTraffic {
    filter: &'static str,
    /// Packets that came: each has one first pass, also if it is withheld there or lost in the queue.
    packets: u64,
    /// Those of them that had a second pass.
    left: u64,
    /// What both passes took, over all packets that came.
    packet_ns: f64,
}

/// Measure.
pub(crate) fn run(agent: &Path, repeat: u32, seconds: u64) -> Result<ShapeReport> {
    let (empty, passes) = passes(repeat)?;
    let (loads, turns) = if test_run::is_emulated() { (LOADS_EMULATED, 1) } else { (LOADS, TURNS) };
    let mut traffic = Vec::new();
    for load in loads.into_iter().filter(|_| has_cake()) {
        let mut quietest: Vec<ShapeTraffic> = Vec::new();
        for turn in 0..turns {
            for (index, filter) in ["static", "delayed", "per-connection"].into_iter().enumerate() {
                let seen = on_traffic(agent, load, filter, seconds)?;
                if turn == 0 {
                    quietest.push(seen);
                } else if seen.packet_ns < quietest[index].packet_ns {
                    quietest[index] = seen;
                }
            }
        }
        traffic.push((load, quietest));
    }
    Ok(ShapeReport { unit: test_run::unit(), empty, passes, turns, traffic })
}

fn control(filter: u32) -> pendulum_shape_control {
    pendulum_shape_control {
        channel_bytes_per_s: 1_000_000,
        window_ns: 100_000_000,
        carrier_ns: 1_000_000_000,
        idle_ns: 10_000_000_000,
        mode: abi::PENDULUM_SHAPE_ENFORCE,
        filter,
        delta: 1,
        stretch: 32,
        upper_permille: 900,
        lower_permille: 700,
        uplink_ifindex: LOOPBACK,
        ..pendulum_shape_control::default()
    }
}

/// `struct __sk_buff` of <linux/bpf.h>: the device it came in by, and its time, which is the program's clock here.
fn context(ingress_ifindex: u32) -> [u8; 192] {
    let mut context = [0; 192];
    context[36..40].copy_from_slice(&ingress_ifindex.to_ne_bytes());
    context[152..160].copy_from_slice(&1_000_000_000_u64.to_ne_bytes());
    context
}

fn passes(repeat: u32) -> Result<(u32, Vec<Pass>)> {
    let mut programs = ShapePrograms::load_from(bpf::SHAPE_OBJECT, pendulum::net::LinkLayer::Ethernet, true)?;
    let empty = test_run::empty_classifier("pendulum_none")?;
    let packet =
        |payload| craft::up().seq(1000).ack(1).ts(5, 5).payload(payload).build(LinkLayer::Ethernet).bytes;
    let (data, ack) = (packet(1448), packet(0));
    let sack = craft::up().seq(1000).ack(1).ts(5, 5).sack(&[(2000, 3000)]).build(LinkLayer::Ethernet).bytes;
    let (first, second) = (context(0), context(LOOPBACK));
    // A packet that comes again and again is a duplicate ACK: it passes.
    let cases: [(&'static str, u32, &[u8], &[u8]); 5] = [
        ("data, first pass", abi::PENDULUM_FILTER_STATIC, &data, &first),
        ("ACK, first pass, filter off", abi::PENDULUM_FILTER_OFF, &ack, &first),
        ("ACK, first pass, filter", abi::PENDULUM_FILTER_STATIC, &ack, &first),
        ("ACK with SACK, first pass, filter", abi::PENDULUM_FILTER_STATIC, &sack, &first),
        ("second pass, not to be rewritten", abi::PENDULUM_FILTER_STATIC, &ack, &second),
    ];
    let mut empty_cost = u32::MAX;
    let mut passes: Vec<Pass> = cases.iter().map(|case| Pass { what: case.0, cost: u32::MAX }).collect();
    for _ in 0..ROUNDS {
        empty_cost = empty_cost.min(test_run::cost_in(empty.as_fd(), &data, &first, repeat)?);
        for (pass, (_, filter, bytes, context)) in passes.iter_mut().zip(&cases) {
            programs.control(control(*filter))?;
            let program: &mut SchedClassifier = programs
                .object_mut()
                .program_mut("pendulum_shape")
                .context("the program is there")?
                .try_into()?;
            let cost = test_run::cost_in(program.fd()?.as_fd(), bytes, context, repeat)?;
            pass.cost = pass.cost.min(cost);
        }
    }
    Ok((empty_cost, passes))
}

/// An upload and a download through an agent that enforces.
fn on_traffic(agent: &Path, load: ShapeLoad, filter: &'static str, seconds: u64) -> Result<ShapeTraffic> {
    let shaper = |rate: &str, bytes| -> Result<Shaper> {
        let rate = rate.parse().map_err(|error| anyhow::anyhow!("{rate}: {error}"))?;
        Ok(Shaper { rate, buffer: BufferSize::Bytes(bytes) })
    };
    let ShapeLoad { up, up_buffer, down, down_buffer } = load;
    let spec =
        LinkSpec { downlink: shaper(down, down_buffer)?, uplink: shaper(up, up_buffer)?, ..LinkSpec::FIG1 };
    let lab = Lab::start(spec)?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("pendulum.toml");
    let config = format!(
        "listen = \"{}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\nuplink-rate = \"{up}\"\ndownlink-rate = \"{down}\"\n\
         [shape]\nmode = \"enforce\"\nack-filter = \"{filter}\"\n",
        Agent::ADDRESS
    );
    std::fs::write(&file, config)?;
    // Agents of others may run on this machine.
    let others: BTreeSet<u32> = totals().unwrap_or_default().into_iter().map(|row| row.0).collect();
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let running = Agent::configured(&lab, agent, &file)?;
    let before = totals()?;
    let time = Duration::from_secs(seconds);
    let start = |direction| Transfer::start(&lab, TransferSpec::new(direction, time));
    for transfer in [start(Direction::Up)?, start(Direction::Down)?] {
        transfer.finish(time + Duration::from_secs(30))?;
    }
    let after = totals()?;
    let left = left_the_queue(&lab)?;
    running.stop()?;
    lab.stop()?;
    let spent = |program: &str| {
        let row = after.iter().filter(|row| row.1 == program && !others.contains(&row.0)).find_map(|row| {
            let old = before.iter().find(|old| old.0 == row.0)?;
            Some((row.2 - old.2, (row.3 - old.3).as_nanos() as f64))
        });
        row.unwrap_or_default()
    };
    let (runs, time) = spent("pendulum_shape");
    ensure!(runs > 1_000 && left < runs, "too little traffic was shaped: {runs} runs, {left} packets left");
    let packets = runs - left;
    Ok(ShapeTraffic { filter, packets, left, packet_ns: time / packets as f64 })
}

/// Packets that the shaper's queue has let go.
fn left_the_queue(lab: &Lab) -> Result<u64> {
    let text = lab.gateway().run("tc", &["-s", "-j", "qdisc", "show"])?;
    let qdiscs: Vec<serde_json::Value> = serde_json::from_str(&text)?;
    let is_ours = |qdisc: &&serde_json::Value| {
        qdisc["root"] == true && qdisc["dev"].as_str().is_some_and(|name| name.starts_with("pdl-up"))
    };
    let queue = qdiscs.iter().find(is_ours).context("the shaper has a queue")?;
    queue["packets"].as_u64().context("tc counts packets")
}

impl fmt::Display for ShapeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, empty, passes, turns, traffic } = self;
        writeln!(f, "Shaped path: {unit} of each pass by TEST_RUN, over an empty classifier ({empty})\n")?;
        for Pass { what, cost } in passes {
            writeln!(f, "{what:<34}{:>+6}", i64::from(*cost) - i64::from(*empty))?;
        }
        if traffic.is_empty() {
            writeln!(
                f,
                "\nNot measured on traffic: this kernel has no cake (`./dev vm 6.12 --release --run \"pendulum-bench shape\"`)"
            )?;
        }
        for (ShapeLoad { up, down, .. }, rows) in traffic {
            writeln!(
                f,
                "\nOn real traffic, {down} down and {up} up, by BPF run-time statistics, the quietest of {turns} turns: time of all \
                 passes over the packets that came (aim: ≤ {AIM_NS})\n"
            )?;
            writeln!(f, "{:<16}{:>10}{:>10}{:>12}", "filter", "came", "left", "a packet")?;
            for ShapeTraffic { filter, packets, left, packet_ns } in rows {
                writeln!(f, "{filter:<16}{packets:>10}{left:>10}{packet_ns:>12.0}")?;
            }
        }
        Ok(())
    }
}
