//! doctor placeholder while wiring
use crate::exit::Failure;
use std::process::ExitCode;
#[derive(Debug, clap::Args)]
pub(crate) struct Options {}
pub(crate) fn doctor(_: &Options) -> Result<ExitCode, Failure> {
    Ok(ExitCode::SUCCESS)
}
