//! The testbed's command line.
#![forbid(unsafe_code)]

mod cli;
mod commands;
mod up_traffic;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(refusal) => {
            // Help and version come this way too. If the terminal is gone, nobody misses the text.
            let _ = refusal.print();
            return if refusal.use_stderr() { ExitCode::from(commands::EX_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    match commands::dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pendulum-lab: {}", message(&error));
            ExitCode::from(commands::exit_code(&error))
        }
    }
}

/// The error with its causes, each said once: most messages already quote their cause.
fn message(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |said, cause| {
        let cause = cause.to_string();
        match said.as_str() {
            "" => cause,
            text if text.contains(&cause) => said,
            _ => format!("{said}: {cause}"),
        }
    })
}
