//! `pendulum`: what it can do stands in `pendulum::cli`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pendulum::cli::main(std::env::args_os())
}
