//! The command line: what can be asked for, and who answers.

mod advise;
mod measured;
mod run;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pendulum_model::segment::PerDirection;

use crate::config::{Config, DEFAULT_FILE, rates};
use crate::exit::{Exit, Failure, answer};
use crate::replay;

/// Shows which of a link's two buffers holds the traffic, and why downloads collapse while something uploads.
#[derive(Debug, Parser)]
#[command(name = "pendulum", version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes follow sysexits(3): 0 success, 64 command line, 65 data, 66 no input, 69 \
                          unavailable (device, port, kernel ability), 70 defect, 71 operating system, 74 input/output, \
                          77 permission, 78 configuration. `doctor` ends with 0, 1 (degraded) or 2 (cannot run).";

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure links until SIGTERM or SIGINT, and show the figures over HTTP
    Run(run::RunOptions),
    /// Check this machine and suggest fixes
    Doctor(crate::doctor::DoctorOptions),
    /// Analyse a capture as the agent would live traffic
    Replay(replay::cli::ReplayArgs),
    /// Recommend buffer sizes for a link, and predict their effect
    Advise(advise::AdviseOptions),
    /// Show an agent's figures in this terminal, live
    #[cfg(feature = "top")]
    Top(crate::top::TopOptions),
    /// Write one file for a request for help, without addresses
    Report(crate::report::ReportOptions),
    /// Check a configuration file and say where it is wrong
    CheckConfig {
        /// The file
        #[arg(default_value = DEFAULT_FILE)]
        file: PathBuf,
    },
}

/// Runs what the arguments ask for. The first one is the program's name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Run(options) => run::run(&options),
        Command::Doctor(options) => crate::doctor::doctor(&options),
        Command::Replay(options) => {
            replay::cli::run(&options)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Advise(options) => advise::advise(&options),
        #[cfg(feature = "top")]
        Command::Top(options) => crate::top::top(&options),
        Command::Report(options) => crate::report::report(&options),
        Command::CheckConfig { file } => check_config(&file),
    }
}

/// Help goes to stdout and is a success; a mistake goes to stderr, with the code for it.
fn explain(error: &clap::Error) -> ExitCode {
    // A closed pipe is no reason to complain.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage.into() } else { ExitCode::SUCCESS }
}

fn check_config(file: &std::path::Path) -> Result<ExitCode, Failure> {
    let config = Config::load(file)?;
    let links: Vec<String> =
        config.links.iter().map(|link| format!("{} on {}", link.name, link.wan)).collect();
    let mut text =
        format!("{}: fine; links: {}; listens on {}\n", file.display(), links.join(", "), config.listen);
    for link in &config.links {
        let PerDirection { up, down } =
            link.rates.map(|rate| rate.map_or_else(|| "not given".to_owned(), rates::in_words));
        text += &format!("{}: uplink-rate {up}, downlink-rate {down}\n", link.name);
    }
    // It was read a moment ago.
    for doubt in rates::doubts(&std::fs::read_to_string(file).unwrap_or_default()) {
        text += &format!("warning: {doubt}\n");
    }
    for exposed in config.http.exposed_files() {
        text += &format!("warning: {exposed}\n");
    }
    answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The whole command line, for the files written from it.
#[cfg(test)]
pub(crate) fn definition() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// What these options of `pendulum run` change in the configuration.
#[cfg(test)]
pub(crate) fn overrides(options: &[&str]) -> crate::config::Overrides {
    match Cli::try_parse_from(["pendulum", "run"].iter().chain(options)).map(|cli| cli.command) {
        Ok(Command::Run(options)) => options.overrides(),
        other => panic!("{options:?}: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn definition_is_consistent() {
        Cli::command().debug_assert();
    }
}
