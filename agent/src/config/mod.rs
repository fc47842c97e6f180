//! Configuration: parsed and checked once, then trusted.
//!
//! [`raw`] is the file as written, [`check`] turns it into the types here, [`overrides`] applies the command line, and
//! [`active`] is what a running agent follows. Nothing else in the agent looks at text from users again.

mod active;
mod bounds;
mod cake;
mod check;
mod error;
mod exposed;
mod framing;
mod overrides;
pub(crate) mod rates;
mod raw;
mod shape;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pendulum_model::rate::Rate;
use pendulum_model::segment::{Direction, PerDirection};
use pendulum_model::thresholds::Thresholds;
use serde::{Deserialize, Serialize};

pub use active::{Active, Changes};
pub use cake::{CakeOptions, Isolation, Priorities};
pub(crate) use check::TOP;
pub use error::ConfigError;
pub(crate) use error::closest;
pub use framing::{FrameLayer, Framing};
pub use overrides::Overrides;
pub(crate) use shape::LEAST_RATE;
pub use shape::{AckFilter, Delta, Probe, RateBounds, ShapeConfig, ShapeMode, ShapeRate};

/// Where the agent listens unless configured otherwise: this machine only.
pub const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9924);

/// The file `pendulum run` reads when it is given neither `--config` nor `--wan`.
pub const DEFAULT_FILE: &str = "/etc/pendulum/pendulum.toml";

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address and port of the HTTP listener.
    pub listen: SocketAddr,
    /// Who may read, and how it travels.
    pub http: HttpConfig,
    /// The links to watch: at least one, names and WAN devices unique.
    pub links: Vec<LinkConfig>,
    /// The flow table's upkeep.
    pub flows: FlowsConfig,
    /// What the detector compares with.
    pub detector: Thresholds,
    /// What happens to phase changes, verdicts and findings.
    pub events: EventsConfig,
    /// The agent's own messages.
    pub log: LogConfig,
    /// Whether the kernel measures run count and run time of BPF programs.
    pub bpf_statistics: bool,
    /// What the agent may still do once it measures.
    pub privileges: Privileges,
    /// Acting on the links.
    pub shape: ShapeConfig,
}

/// The HTTP listener: who may read, and how it travels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpConfig {
    /// Names under which the agent may be asked for, lower case, beside `localhost` and numeric addresses.
    pub names: Vec<String>,
    /// File with the bearer token that clients have to send.
    pub token_file: Option<PathBuf>,
    /// Certificate and key; without them HTTP is not encrypted.
    pub tls: Option<TlsFiles>,
    /// Where people reach the page, without a slash at the end: a label of metrics.
    pub external_url: Option<String>,
}

/// Where the server's identity is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub certificate: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}

/// One bottleneck link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Value of the label `link`.
    pub name: String,
    /// Network device towards the provider.
    pub wan: String,
    /// Network devices towards the home hosts; empty: all but `wan`.
    pub lan: Vec<String>,
    /// Capacity in each direction, if known; index with [`Direction`].
    pub rates: PerDirection<Option<Rate>>,
    /// Network device that shapes the downlink (an ifb); found by the redirection on the WAN device without it.
    pub downlink_device: Option<String>,
    /// Where packets from the provider are seen.
    pub ingress_hook: IngressHook,
    /// Flows that can be followed at once.
    pub max_flows: u32,
    /// Connection attempts that can be remembered at once.
    pub nursery: u32,
}

impl LinkConfig {
    /// A link with all defaults.
    pub fn new(wan: impl Into<String>) -> Self {
        let wan = wan.into();
        Self {
            name: wan.clone(),
            wan,
            lan: Vec::new(),
            rates: PerDirection::default(),
            downlink_device: None,
            ingress_hook: IngressHook::default(),
            max_flows: check::MAX_FLOWS.default,
            nursery: check::NURSERY.default,
        }
    }

    /// Capacity in one direction, if known.
    pub fn rate(&self, direction: Direction) -> Option<Rate> {
        self.rates[direction]
    }

    /// Whether both speak of one link: it is known by its name and its device, and with another of either its figures would be
    /// those of something else.
    pub fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.wan == other.wan
    }
}

/// The flow table's upkeep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowsConfig {
    /// A flow without a packet for this long is forgotten.
    pub idle_timeout: Duration,
    /// Flows that the API lists when the request names no limit.
    pub top: usize,
}

/// What happens to phase changes, verdicts and findings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsConfig {
    /// Each is a line of this file, if there is one.
    pub log: Option<PathBuf>,
    /// Whether incidents are kept in the state directory.
    pub incidents: bool,
    /// Whether they have the addresses of their flows.
    pub incident_hosts: bool,
}

impl Default for EventsConfig {
    fn default() -> Self {
        Self { log: None, incidents: true, incident_hosts: false }
    }
}

/// The agent's own messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// How they look.
    pub format: LogFormat,
    /// Which are written.
    pub level: LogLevel,
}

/// Where packets from the provider are seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum IngressHook {
    /// TC ingress: works on every device, after GRO.
    #[default]
    Tc,
    /// XDP: before GRO, so that each segment has its own time; needs a device with a link layer.
    Xdp,
}

/// What the agent may still do once it measures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Privileges {
    /// Attach to a device that was made anew: `CAP_BPF`, `CAP_PERFMON`, `CAP_NET_ADMIN`. The last one also tells the hosts
    /// behind translated addresses.
    #[default]
    Reattach,
    /// Nothing.
    None,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people and the journal.
    #[default]
    Text,
    /// One JSON object for each line.
    Json,
}

/// The least important messages that are still written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LogLevel {
    /// What stops the agent or a link.
    Error,
    /// What degrades a measurement.
    Warn,
    /// What was attached, and what changed.
    #[default]
    Info,
    /// Each step.
    Debug,
    /// Everything, also from libraries.
    Trace,
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or says something that is not allowed: the message names file, line and key.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { file: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    /// Checks the text of a file; `path` only appears in messages.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        check::check(text, path)
    }
}

impl Default for Config {
    /// Everything at its default, and no link yet.
    fn default() -> Self {
        Self {
            listen: DEFAULT_LISTEN,
            http: HttpConfig::default(),
            links: Vec::new(),
            flows: FlowsConfig {
                idle_timeout: check::IDLE_TIMEOUT.default,
                top: check::TOP.default as usize,
            },
            detector: Thresholds::default(),
            events: EventsConfig::default(),
            log: LogConfig::default(),
            bpf_statistics: false,
            privileges: Privileges::default(),
            shape: ShapeConfig::default(),
        }
    }
}
