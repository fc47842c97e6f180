//! Options of `pendulum run`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pendulum_model::rate::Rate;

use crate::config::{DEFAULT_FILE, IngressHook, LogFormat, LogLevel, Overrides};
use crate::exit::{Failure, answer};

/// Measures one link given by options, or the links of a configuration file. Options win over the file. With a file
/// of several links, --wan says which one the other link options are for.
///
/// Without --config and --wan, the file /etc/pendulum/pendulum.toml is read.
#[derive(Debug, clap::Args)]
pub(super) struct RunOptions {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Network device towards the provider, e.g. ppp0
    #[arg(long, value_name = "DEV")]
    wan: Option<String>,
    /// Network device towards the home hosts; may be repeated
    #[arg(long, value_name = "DEV")]
    lan: Vec<String>,
    /// Capacity towards the provider, as tc writes rates: 196kbit, 2.4mbit
    #[arg(long, value_name = "RATE")]
    uplink_rate: Option<Rate>,
    /// Capacity from the provider
    #[arg(long, value_name = "RATE")]
    downlink_rate: Option<Rate>,
    /// Where packets from the provider are seen [default: tc]
    #[arg(long, value_name = "HOOK")]
    ingress_hook: Option<IngressHook>,
    /// Address and port of the HTTP listener [default: 127.0.0.1:9924]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Start although no device exists or is up yet, and attach when one comes. Without it, at least one
    /// configured device must exist; the agent waits for the others
    #[arg(long)]
    wait: bool,
    /// Do not run: remove a killed agent's leftovers from the devices (shaper, filters), and list them
    #[arg(long, conflicts_with = "wait")]
    cleanup: bool,
    /// Format of log lines on stderr [default: text]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// Least important log lines still written [default: info]
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<LogLevel>,
}

impl RunOptions {
    /// Their changes to the configuration.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            wan: self.wan.clone(),
            lan: self.lan.clone(),
            uplink_rate: self.uplink_rate,
            downlink_rate: self.downlink_rate,
            ingress_hook: self.ingress_hook,
            listen: self.listen,
            log_format: self.log_format,
            log_level: self.log_level,
        }
    }
}

pub(super) fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    let overrides = options.overrides();
    let file = file(options);
    if options.cleanup {
        // Without a configuration everything of ours is looked for.
        let config = (file.is_some() || overrides.wan.is_some()).then(|| overrides.resolve(file)).transpose();
        crate::log::start(
            config.as_ref().ok().and_then(Option::as_ref).map(|config| config.log).unwrap_or_default(),
        );
        // A file with a mistake is why an agent does not start again: what the one before it left goes all the same.
        let config = config.unwrap_or_else(|error| {
            tracing::warn!("only shaped devices are cleaned: {}", crate::exit::chain(&error));
            None
        });
        let removed = crate::run::clean_up(config.as_ref())?;
        let lines: String = removed.iter().map(|what| format!("removed {what}\n")).collect();
        answer(if lines.is_empty() { "nothing was left\n" } else { &lines })?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = overrides.resolve(file.clone())?;
    let level = crate::log::start(config.log);
    let reload = crate::run::Reload::new(file, overrides, level);
    crate::run::run(config, options.wait, &reload)?;
    Ok(ExitCode::SUCCESS)
}

fn file(options: &RunOptions) -> Option<PathBuf> {
    if options.config.is_some() || options.wan.is_some() {
        return options.config.clone();
    }
    let default = Path::new(DEFAULT_FILE);
    default.exists().then(|| default.to_owned())
}
