//! What the commands do.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pendulum_lab::agent::Agent;
use pendulum_lab::capacity::{PatternError, TraceError};
use pendulum_lab::cleanup;
use pendulum_lab::clock::HostClock;
use pendulum_lab::demo::{self, DemoError, DemoOptions};
use pendulum_lab::experiment::{self, About, ExperimentError, Progress, RunOptions};
use pendulum_lab::interrupt::{Interrupt, Interrupted};
use pendulum_lab::lab::{Lab, LabError, LinkSpec};
use pendulum_lab::record::Registry;
use pendulum_lab::relay::Relay;
use pendulum_lab::topology::{BufferPlace, IpVersion, Role};
use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use serde_json::{Value, json};

use crate::cli::{AgentArgs, Cli, Command, DemoArgs, Format, RunArgs, UpArgs};

/// Exit codes after sysexits(3).
pub(crate) const EX_USAGE: u8 = 64;
const EX_DATAERR: u8 = 65;
const EX_NOINPUT: u8 = 66;
const EX_UNAVAILABLE: u8 = 69;
const EX_SOFTWARE: u8 = 70;
const EX_IOERR: u8 = 74;
const EX_NOPERM: u8 = 77;
/// As a shell reports a death by SIGINT.
const EXIT_INTERRUPTED: u8 = 130;

pub(crate) fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::List => {
            print!("{}", list());
            Ok(())
        }
        Command::Run(args) => run(args),
        Command::Demo(args) => demonstrate(args),
        Command::Up(args) => up(&args),
        Command::Cleanup => clean_up(),
    }
}

pub(crate) fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<TraceError>() {
        return if matches!(error, TraceError::Read { .. }) { EX_NOINPUT } else { EX_DATAERR };
    }
    if error.is::<PatternError>() {
        return EX_USAGE;
    }
    let lab_error = error.downcast_ref::<LabError>().or_else(|| {
        match (error.downcast_ref::<DemoError>(), error.downcast_ref::<ExperimentError>()) {
            (Some(DemoError::Lab(error)), _) | (_, Some(ExperimentError::Lab(error))) => Some(error),
            _ => None,
        }
    });
    match lab_error {
        Some(LabError::NotRoot) => return EX_NOPERM,
        Some(LabError::Shaper(_)) => return EX_USAGE,
        Some(LabError::Delay(_) | LabError::Nat(_)) => return EX_UNAVAILABLE,
        _ => {}
    }
    match error.downcast_ref::<DemoError>() {
        Some(DemoError::Interrupted(Interrupted)) => return EXIT_INTERRUPTED,
        Some(DemoError::NoAgent { .. }) => return EX_NOINPUT,
        Some(DemoError::Listen { .. }) => return EX_UNAVAILABLE,
        Some(DemoError::Output(_)) => return EX_IOERR,
        _ => {}
    }
    match error.downcast_ref::<ExperimentError>() {
        Some(ExperimentError::Interrupted(Interrupted)) => EXIT_INTERRUPTED,
        Some(ExperimentError::UnknownPart { .. }) => EX_USAGE,
        Some(ExperimentError::Trace(TraceError::Read { .. })) => EX_NOINPUT,
        Some(ExperimentError::Trace(_)) => EX_DATAERR,
        Some(
            ExperimentError::NoTraces { .. } | ExperimentError::NoPair { .. } | ExperimentError::List { .. },
        ) => EX_NOINPUT,
        Some(ExperimentError::Write { .. }) => EX_IOERR,
        _ if error.is::<UnknownExperiment>() => EX_USAGE,
        _ => EX_SOFTWARE,
    }
}

/// No experiment has this name.
#[derive(Debug, thiserror::Error)]
#[error("there is no experiment `{name}`; there are: {known} (`pendulum-lab list` describes them)")]
struct UnknownExperiment {
    name: String,
    known: String,
}

impl UnknownExperiment {
    fn new(name: &str) -> Self {
        let known: Vec<&str> = all().map(|about| about.name).collect();
        Self { name: name.to_owned(), known: known.join(", ") }
    }
}

fn all() -> impl Iterator<Item = About> {
    experiment::ALL.iter().map(|experiment| experiment.about())
}

fn list() -> String {
    let mut text = String::new();
    for about in all() {
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{:<18}{:<36}{:>5} s ({} s with --quick)\n{:18}{}",
            about.name,
            about.source,
            about.usual.as_secs(),
            about.quick.as_secs(),
            "",
            about.what
        );
    }
    text
}

fn run(args: RunArgs) -> anyhow::Result<()> {
    let experiment =
        experiment::find(&args.experiment).ok_or_else(|| UnknownExperiment::new(&args.experiment))?;
    let about = experiment.about();
    let wanted = args.duration.map(Duration::from_secs);
    if wanted.is_some_and(|wanted| wanted < about.shortest) {
        eprintln!("pendulum-lab: {} takes at least {} s", about.name, about.shortest.as_secs());
    }
    let options = RunOptions {
        total: wanted,
        quick: args.quick,
        only: args.only,
        congestion_controls: args.cc,
        seed: args.seed,
        repeat: args.repeat,
        cases: args.cases,
        traces: args.traces,
        jobs: args.jobs,
        out: args.out,
        agent: args.agent.agent.or_else(Agent::beside_this_program),
        agent_listen: args.agent.agent_listen,
        interrupt: Interrupt::on_signals().context("cannot install signal handlers")?,
    };
    make_directory(options.out.as_deref())?;
    let bar = progress_bar();
    let printed = experiment.run(&options, &|progress| show(&bar, &progress));
    bar.finish_and_clear();
    let printed = printed?;
    match args.format {
        Format::Text => print!("{}", printed.text),
        Format::Json => println!("{}", printed.json),
    }
    Ok(())
}

/// Now, not after minutes of traffic.
fn make_directory(out: Option<&Path>) -> anyhow::Result<()> {
    out.map_or(Ok(()), std::fs::create_dir_all).with_context(|| {
        format!("cannot make {}; choose another directory with --out", out.unwrap_or(Path::new("")).display())
    })
}

fn progress_bar() -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos:>4}/{len} s  {msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(progress.total.as_secs());
    bar.set_position(progress.elapsed.as_secs());
    if bar.message() != progress.what {
        bar.set_message(progress.what.clone());
    }
}

fn demonstrate(args: DemoArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    if args.seconds.is_some_and(|seconds| Duration::from_secs(seconds) < DemoOptions::SHORTEST) {
        eprintln!("pendulum-lab: the demo takes at least {} s", DemoOptions::SHORTEST.as_secs());
    }
    Ok(demo::run(&args.options(interrupt))?)
}

fn up(args: &UpArgs) -> anyhow::Result<()> {
    let interrupt = Interrupt::on_signals().context("cannot install signal handlers")?;
    let lab = Lab::start_with(args.link(), args.traces()?)?;
    let agent = args.agent.agent.as_deref().map(|program| Agent::start(&lab, program)).transpose()?;
    let relay = start_relay(&lab, &args.agent)?;
    match args.format {
        Format::Text => print!("{}", describe(&lab, relay.as_ref())),
        Format::Json => println!("{}", description(&lab, relay.as_ref())),
    }
    let traffic = args.traffic.start(&lab)?;
    keep(&lab, &interrupt)?;
    if matches!(args.format, Format::Text) {
        print!("{}", traffic.summary()?);
    }
    drop((traffic, relay));
    if let Some(agent) = agent {
        agent.stop()?;
    }
    lab.stop().context("some of the lab is left; the next start, or `pendulum-lab cleanup`, tries again")
}

/// Keeps the lab until the user wants it to end, or a wire of it is dead.
fn keep(lab: &Lab, interrupt: &Interrupt) -> Result<(), LabError> {
    const LOOK: Duration = Duration::from_millis(200);
    while interrupt.sleep_until(Instant::now() + LOOK).is_ok() {
        lab.check()?;
    }
    Ok(())
}

fn start_relay(lab: &Lab, args: &AgentArgs) -> anyhow::Result<Option<Relay>> {
    let relay = args.agent_listen.map(|address| {
        Relay::start(address, lab.gateway(), Agent::ADDRESS).with_context(|| {
            format!("cannot listen on {address}; choose another address with --agent-listen")
        })
    });
    relay.transpose()
}

fn what_it_is(role: Role, place: BufferPlace) -> &'static str {
    match (role, place) {
        (Role::D1, _) => "internet end of downloads",
        (Role::U1, _) => "internet end of uploads",
        (Role::R1, _) => "provider's router: downlink buffer on link0",
        (Role::Gateway, BufferPlace::Gateway) => "gateway: uplink buffer on wan0, home on lan0",
        (Role::Gateway, BufferPlace::Modem) => "gateway: wan0 without a queue, home on lan0",
        (Role::Modem, _) => "modem: uplink buffer on line0, gateway on home0",
        (Role::Switch, _) => "home switch",
        (Role::D2, _) => "home end of downloads",
        (Role::U2, _) => "home end of uploads",
    }
}

fn describe(lab: &Lab, relay: Option<&Relay>) -> String {
    let LinkSpec { downlink: down, uplink: up, uplink_buffer_at: place, nat, clocks, .. } = *lab.spec();
    let rate = |direction, rate: Rate| {
        if lab.is_traced(direction) { "by its trace".to_owned() } else { rate.to_string() }
    };
    let mut text = format!(
        "lab {}: down {} with {} of buffer, up {} with {}{}{}\n\n",
        lab.id(),
        rate(Direction::Down, down.rate),
        down.buffer,
        rate(Direction::Up, up.rate),
        up.buffer,
        if place == BufferPlace::Modem { " in the modem" } else { "" },
        if nat { "; the gateway translates addresses" } else { "" }
    );
    for role in Role::all(place) {
        let address = role.address(IpVersion::V4).map(|address| address.to_string()).unwrap_or_default();
        let path = lab.host(role).namespace().path();
        let clock = match clocks.of(role) {
            HostClock::Linux => String::new(),
            HostClock::None => ", no TCP timestamps".into(),
            clock => format!(", TCP timestamps of {clock}"),
        };
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "  nsenter --net={:<29} {address:<12}  {}{clock}",
            path.display(),
            what_it_is(role, place)
        );
    }
    if let Some(relay) = relay {
        let _ = writeln!(text, "\nagent: http://{}/", relay.address());
    }
    text.push_str("\nCtrl-C takes it down.\n");
    text
}

fn description(lab: &Lab, relay: Option<&Relay>) -> Value {
    let spec = lab.spec();
    let machines: serde_json::Map<String, Value> = Role::all(spec.uplink_buffer_at)
        .map(|role| {
            let host = lab.host(role);
            let entry = json!({
                "namespace": host.namespace().name(),
                "ipv4": role.address(IpVersion::V4),
                "ipv6": role.address(IpVersion::V6),
            });
            (role.name().to_owned(), entry)
        })
        .collect();
    let queue = |direction| {
        let (host, device) = lab.queue(direction);
        (!lab.is_traced(direction)).then(|| json!({"namespace": host.namespace().name(), "device": device}))
    };
    json!({
        "id": lab.id().as_str(),
        "machines": machines,
        "queues": {"up": queue(Direction::Up), "down": queue(Direction::Down)},
        "uplink_buffer_at": spec.uplink_buffer_at.name(),
        "traces": {"up": lab.is_traced(Direction::Up), "down": lab.is_traced(Direction::Down)},
        "nat": spec.nat,
        "agent_url": relay.map(|relay| format!("http://{}/", relay.address())),
    })
}

fn clean_up() -> anyhow::Result<()> {
    if !pendulum_lab::is_root() {
        return Err(LabError::NotRoot.into());
    }
    let removed = cleanup::remove_leftovers(&Registry::system())?;
    match removed.len() {
        0 => println!("no dead lab run has left anything"),
        count => println!("removed what {count} dead lab runs had left"),
    }
    Ok(())
}
