//! Arguments.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pendulum_lab::agent::Agent;
use pendulum_lab::capacity::{Pattern, Trace};
use pendulum_lab::clock::{HostClock, HostClocks};
use pendulum_lab::delay::Delays;
use pendulum_lab::demo::{DemoOptions, PrometheusOptions};
use pendulum_lab::interrupt::Interrupt;
use pendulum_lab::lab::{LinkSpec, Traces};
use pendulum_lab::shaper::Shaper;
use pendulum_lab::topology::BufferPlace;
use pendulum_model::rate::{BufferSize, Rate, Span};

use crate::up_traffic::TrafficArgs;

/// A bottleneck link in network namespaces, with real Linux TCP over it, and the papers' experiments on it. Needs root.
#[derive(Debug, Parser)]
#[command(name = "pendulum-lab", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the experiments.
    List,
    /// Run an experiment and compare it with the paper and the model.
    Run(RunArgs),
    /// Show what the agent sees while a download collapses beside uploads.
    Demo(DemoArgs),
    /// Build a link, say how to enter its machines, and keep it until Ctrl-C.
    Up(UpArgs),
    /// Remove what labs that were killed have left behind; running labs are not touched.
    Cleanup,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The experiment (see `list`).
    pub(crate) experiment: String,
    /// Seconds of traffic in all, shared among the experiment's stretches; never less than its shortest.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=604_800))]
    pub(crate) duration: Option<u64>,
    /// The short form: less time, and fewer points of a grid.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these of the experiment's scenarios, within their share of the time; a wrong name is answered with all names. Of `mitigations` and
    /// `autorate`: links or traces, congestion controls, cases or contenders.
    #[arg(long, value_name = "SCENARIO", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Congestion control of the senders, of those that net.ipv4.tcp_available_congestion_control lists or the kernel can load; several, with
    /// commas between, are run one after the other [default: reno; of `field`: reno, cubic and bbr].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) cc: Vec<String>,
    /// Repetitions; the table then has the mean, and the smallest and largest.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Runs at the same time, each on a lab of its own; with more than the processors can carry, timing suffers [default: 1; of `field`: 2].
    #[arg(long, value_name = "N", conflicts_with = "agent_listen", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) jobs: Option<u32>,
    /// Shifts the starts of the transfers by up to 200 ms, differently for each number; each repetition takes the next one. 0: no shift.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Of `where`: so many cases, drawn by --seed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) cases: Option<u32>,
    /// Of `autorate`: run over the traces of this directory, pairs NAME.up and NAME.down in mahimahi's format, also .zst.
    #[arg(long, value_name = "DIR")]
    pub(crate) traces: Option<PathBuf>,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Also write the report, plots (PNG and SVG), time series (CSV), the agent's answers, iperf3's own reports and captures of both sides
    /// of the gateway here.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Run this agent (the `pendulum` binary) on the gateway [default of `run`: the one beside this program].
    #[arg(long, value_name = "PATH")]
    pub(crate) agent: Option<PathBuf>,
    /// Offer the agent's page outside the lab, at this address.
    #[arg(long, value_name = "ADDR:PORT", requires = "agent")]
    pub(crate) agent_listen: Option<SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// The agent to show, a `pendulum` binary [default: the one beside this program].
    #[arg(long, value_name = "PATH")]
    agent: Option<PathBuf>,
    /// Seconds of traffic in all [default: 85]; never less than 30.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) seconds: Option<u64>,
    /// Offer the agent's page at this address [default: 127.0.0.1:9924, or the next free port].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Go on with link, traffic and agent after the table, until Ctrl-C.
    #[arg(long)]
    keep: bool,
    /// Run a real Prometheus beside the agent, and show which alerts fire; PROGRAM is looked for in PATH.
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "prometheus")]
    prometheus: Option<PathBuf>,
    /// The rules it loads.
    #[arg(long, value_name = "DIR", default_value = "dashboards/rules", requires = "prometheus")]
    rules: PathBuf,
    /// Only compare: upload and download on the link as it is, then with the agent shaping it.
    #[arg(long, conflicts_with_all = ["keep", "prometheus", "listen"])]
    shape: bool,
    /// No colours, as with NO_COLOR in the environment.
    #[arg(long, visible_alias = "no-color")]
    no_colour: bool,
}

impl DemoArgs {
    pub(crate) fn options(self, interrupt: Interrupt) -> DemoOptions {
        DemoOptions {
            agent: self.agent.or_else(Agent::beside_this_program).unwrap_or_else(|| "pendulum".into()),
            total: self.seconds.map(Duration::from_secs),
            listen: self.listen,
            keep: self.keep,
            prometheus: self.prometheus.map(|program| PrometheusOptions { program, rules: self.rules }),
            shape: self.shape,
            no_colour: self.no_colour,
            interrupt,
        }
    }
}

/// [`BufferPlace`] as the command line has it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum BufferPlaceArg {
    Gateway,
    Modem,
}

impl From<BufferPlaceArg> for BufferPlace {
    fn from(place: BufferPlaceArg) -> Self {
        match place {
            BufferPlaceArg::Gateway => Self::Gateway,
            BufferPlaceArg::Modem => Self::Modem,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Rate of the link towards the home, as tc writes it.
    #[arg(long, value_name = "RATE", default_value = "2400kbit")]
    downlink_rate: Rate,
    /// Rate of the link towards the internet.
    #[arg(long, value_name = "RATE", default_value = "196kbit")]
    uplink_rate: Rate,
    /// Buffer before the downlink: bytes (30000, 64k), or packets with a p (20p).
    #[arg(long, value_name = "SIZE", default_value = "30000")]
    downlink_buffer: BufferSize,
    /// Buffer before the uplink.
    #[arg(long, value_name = "SIZE", default_value = "30000")]
    uplink_buffer: BufferSize,
    /// The downlink's capacity over time, in place of its rate: a file in mahimahi's format, also .zst, or constant:RATE, step:FROM,TO,TIME,
    /// ramp:FROM,TO,TIME, outage:RATE,TIME,PAUSE, walk:RATE,SEED. Its buffer, in bytes, then stands at the provider's end of the wire.
    #[arg(long, value_name = "FILE|PATTERN")]
    downlink_trace: Option<String>,
    /// The same of the uplink; its buffer then stands in the wire, as in a modem, out of the gateway's sight.
    #[arg(long, value_name = "FILE|PATTERN")]
    uplink_trace: Option<String>,
    /// Where the uplink's buffer stands: on the gateway's WAN device, or in a modem behind it, out of the gateway's sight.
    #[arg(long, value_enum, value_name = "WHERE", default_value_t = BufferPlaceArg::Gateway)]
    uplink_buffer_at: BufferPlaceArg,
    /// The gateway translates addresses: on the WAN all flows carry its own.
    #[arg(long)]
    nat: bool,
    /// One-way delay of the link (10ms).
    #[arg(long, value_name = "TIME", default_value = "0")]
    propagation_delay: Span,
    /// One-way delay between D1, the internet end of downloads, and R1.
    #[arg(long, value_name = "TIME", default_value = "0")]
    d1_delay: Span,
    /// One-way delay between U1, the internet end of uploads, and R1.
    #[arg(long, value_name = "TIME", default_value = "0")]
    u1_delay: Span,
    /// TCP timestamps of D1: linux (1 ms), none, another tick (10ms), or a tick with a skew (1ms+200ppm).
    #[arg(long, value_name = "CLOCK", default_value_t)]
    d1_clock: HostClock,
    /// The same of U1.
    #[arg(long, value_name = "CLOCK", default_value_t)]
    u1_clock: HostClock,
    /// The same of D2.
    #[arg(long, value_name = "CLOCK", default_value_t)]
    d2_clock: HostClock,
    /// The same of U2.
    #[arg(long, value_name = "CLOCK", default_value_t)]
    u2_clock: HostClock,
    /// Leave checksum, segmentation and receive offloads of the devices on.
    #[arg(long)]
    offloads: bool,
    /// Form of the result.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// A trace from a pattern's words, or else from a file.
fn trace(text: &str) -> anyhow::Result<Arc<Trace>> {
    let is_file = Path::new(text).exists();
    match text.parse::<Pattern>() {
        Ok(pattern) if !is_file => Ok(Arc::new(pattern.trace()?)),
        // What looks like a pattern and is none.
        Err(error) if !is_file && text.contains(':') => Err(error.into()),
        _ => Ok(Arc::new(Trace::read(Path::new(text))?)),
    }
}

impl UpArgs {
    /// The traces of the link.
    ///
    /// # Errors
    /// If one cannot be read.
    pub(crate) fn traces(&self) -> anyhow::Result<Traces> {
        let one = |text: &Option<String>| text.as_deref().map(trace).transpose();
        Ok(Traces { up: one(&self.uplink_trace)?, down: one(&self.downlink_trace)? })
    }

    pub(crate) fn link(&self) -> LinkSpec {
        LinkSpec {
            downlink: Shaper { rate: self.downlink_rate, buffer: self.downlink_buffer },
            uplink: Shaper { rate: self.uplink_rate, buffer: self.uplink_buffer },
            uplink_buffer_at: self.uplink_buffer_at.into(),
            nat: self.nat,
            clocks: HostClocks { d1: self.d1_clock, u1: self.u1_clock, d2: self.d2_clock, u2: self.u2_clock },
            delays: Delays {
                propagation: self.propagation_delay.0,
                d1_access: self.d1_delay.0,
                u1_access: self.u1_delay.0,
            },
            offloads: self.offloads,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_are_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_demo_s_help_names_its_times() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("demo").expect("a subcommand").render_long_help().to_string();
        for time in [DemoOptions::USUAL, DemoOptions::SHORTEST] {
            assert!(help.contains(&time.as_secs().to_string()), "{time:?} in {help}");
        }
    }

    #[test]
    fn up_without_options_is_the_link_of_figure_1() {
        let Command::Up(args) = Cli::parse_from(["pendulum-lab", "up"]).command else { panic!("not up") };
        assert_eq!(args.link(), LinkSpec::FIG1);
    }
}
