//! The testbed's command line.
#![forbid(unsafe_code)]

mod cli;
mod commands;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let outcome = commands::dispatch(cli::Cli::parse());
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pendulum-lab: {error:#}");
            ExitCode::from(commands::exit_code(&error))
        }
    }
}
