//! `./dev bench`: what the measurement costs, in one run, beside what it is compared with.
//!
//! Times on shared machines drift; every figure here stands beside its own reference from the same minute, and the
//! ratios and differences are what to look at.

mod agent_cpu;
#[path = "../../tests/support/craft.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod craft;
mod detector;
#[path = "../../tests/support/exchanges.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod exchanges;
mod frames;
mod namespaces;
mod packets;
mod path;
mod place;
mod queue;
mod replay;
mod scale;
mod shape;
mod simulate;
mod stall;
mod test_run;
mod transfer;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum};
use serde::Serialize;

/// What the measurement costs. Needs root.
#[derive(Parser)]
#[command(name = "pendulum-bench", version)]
struct Args {
    /// Only these parts; all without.
    #[arg(value_enum)]
    parts: Vec<Part>,
    /// The agent to measure; the one beside this program without.
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// TEST_RUN repetitions for each figure.
    #[arg(long, default_value_t = 1_000_000)]
    repeat: u32,
    /// Seconds of traffic for each stretch; the veth path takes sixteen rounds for each.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Form of the result.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Nanoseconds of each program for each kind of packet.
    Packets,
    /// Throughput on a veth path without programs, with empty ones and with the agent's; their share of a processor.
    Path,
    /// Nanoseconds of the programs in place, on a veth path, over empty ones.
    Place,
    /// Nanoseconds for a packet that enters and leaves a queue.
    Queue,
    /// Memory and scrape time with 10,000 flows.
    Scale,
    /// How long requests and readings wait while the agent loads programs or reads a full flow table.
    Stall,
    /// Nanoseconds that the second pass and the filter add to a shaped packet.
    Shape,
    /// The agent's own processor time.
    Cpu,
    /// Samples per second through the detector.
    Detector,
    /// Packets per second through the simulation of a link.
    Simulate,
    /// Speed of `pendulum replay` beside tshark.
    Replay,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Default, Serialize)]
struct Report {
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<packets::PacketsReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<path::PathReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<place::PlaceReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<queue::QueueReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scale: Option<scale::ScaleReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stall: Option<stall::StallReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<shape::ShapeReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<agent_cpu::CpuReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detector: Option<detector::DetectorReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    simulate: Option<simulate::SimulateReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replay: Option<replay::ReplayReport>,
}

fn main() -> Result<()> {
    let args = Args::parse();
    // SAFETY: takes nothing, changes nothing.
    let is_root = unsafe { libc::geteuid() } == 0;
    ensure!(is_root, "the bench needs root: it loads BPF programs and makes namespaces");
    let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
    let agent = || agent(args.agent.clone());
    let mut report = Report::default();
    if wanted(Part::Packets) {
        let part = packets::run(args.repeat)?;
        print_text(args.format, &part.to_string());
        report.packets = Some(part);
    }
    if wanted(Part::Path) {
        let part = path::run(&agent()?, args.seconds)?;
        print_text(args.format, &part.to_string());
        report.path = Some(part);
    }
    if wanted(Part::Place) {
        let part = place::run(&agent()?, args.seconds.div_ceil(4))?;
        print_text(args.format, &part.to_string());
        report.place = Some(part);
    }
    if wanted(Part::Queue) {
        let part = queue::run(&agent()?, args.seconds)?;
        print_text(args.format, &part.to_string());
        report.queue = Some(part);
    }
    if wanted(Part::Scale) {
        let part = scale::run(&agent()?)?;
        print_text(args.format, &part.to_string());
        report.scale = Some(part);
    }
    if wanted(Part::Stall) {
        let part = stall::run(&agent()?, args.seconds)?;
        print_text(args.format, &part.to_string());
        report.stall = Some(part);
    }
    if wanted(Part::Shape) {
        let part = shape::run(&agent()?, args.repeat, args.seconds)?;
        print_text(args.format, &part.to_string());
        report.shape = Some(part);
    }
    if wanted(Part::Cpu) {
        let part = agent_cpu::run(&agent()?, 2 * args.seconds)?;
        print_text(args.format, &part.to_string());
        report.cpu = Some(part);
    }
    if wanted(Part::Detector) {
        let part = detector::run();
        print_text(args.format, &part.to_string());
        report.detector = Some(part);
    }
    if wanted(Part::Simulate) {
        let part = simulate::run()?;
        print_text(args.format, &part.to_string());
        report.simulate = Some(part);
    }
    if wanted(Part::Replay) {
        let part = replay::run(&agent()?)?;
        print_text(args.format, &part.to_string());
        report.replay = Some(part);
    }
    if args.format == Format::Json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    }
    Ok(())
}

/// Each part is printed when it is done; a bench is watched.
fn print_text(format: Format, text: &str) {
    if format == Format::Text {
        println!("{text}");
    }
}

fn agent(given: Option<PathBuf>) -> Result<PathBuf> {
    let path = match given {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("pendulum"),
    };
    ensure!(
        path.exists(),
        "there is no agent at {}: `./dev bench` builds it, or name one with --agent",
        path.display()
    );
    path.canonicalize().with_context(|| format!("finding {}", path.display()))
}
