//! `pendulum doctor`: checks of this machine, each with its remedy.

mod device;
mod host;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;

use serde::Serialize;

use crate::bpf::{self, CheckStatus};
use crate::config::DEFAULT_LISTEN;
use crate::exit::{Exit, Failure, OutputFormat, answer, to_json};

/// Looks at the kernel, the permissions, the device and the listen port without changing anything. Ends with 0 if all
/// is there, 1 if something is missing that the agent can do without, 2 if it cannot run.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    /// Also look at this network device
    #[arg(long, value_name = "DEV")]
    wan: Option<String>,
    /// Address and port that have to be free
    #[arg(long, value_name = "ADDR:PORT", default_value_t = DEFAULT_LISTEN)]
    listen: SocketAddr,
    /// text: a table; json: one object
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: OutputFormat,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
struct Check {
    /// What it is.
    name: &'static str,
    /// Whether it is there.
    status: CheckStatus,
    /// What was found.
    reason: String,
    /// What to do about it; empty if nothing needs to be done.
    remedy: String,
    /// What is lost without it; empty if it is there.
    cost: String,
}

impl Check {
    fn ok(name: &'static str, reason: impl Into<String>) -> Self {
        Self {
            name,
            status: CheckStatus::Ok,
            reason: reason.into(),
            remedy: String::new(),
            cost: String::new(),
        }
    }

    fn degraded(
        name: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
        cost: impl Into<String>,
    ) -> Self {
        Self {
            name,
            status: CheckStatus::Degraded,
            reason: reason.into(),
            remedy: remedy.into(),
            cost: cost.into(),
        }
    }

    fn missing(
        name: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
        cost: impl Into<String>,
    ) -> Self {
        Self { status: CheckStatus::Missing, ..Self::degraded(name, reason, remedy, cost) }
    }
}

impl From<bpf::KernelCheck> for Check {
    fn from(check: bpf::KernelCheck) -> Self {
        Self {
            name: check.name,
            status: check.status,
            reason: check.reason,
            remedy: check.remedy.to_owned(),
            cost: check.cost.to_owned(),
        }
    }
}

/// Everything together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok = 0,
    Degraded = 1,
    CannotRun = 2,
}

impl Verdict {
    fn of(checks: &[Check]) -> Self {
        let has = |status| checks.iter().any(|check| check.status == status);
        if has(CheckStatus::Missing) {
            Self::CannotRun
        } else if has(CheckStatus::Degraded) {
            Self::Degraded
        } else {
            Self::Ok
        }
    }
}

/// Looks, and prints what was found.
///
/// # Errors
/// The looking itself is not possible.
pub(crate) fn doctor(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    crate::privileges::use_what_is_permitted();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the event loop: {error}; raise `ulimit -n`"))
    })?;
    let checks = runtime.block_on(look(options.wan.as_deref(), options.listen));
    let verdict = Verdict::of(&checks);
    match options.format {
        OutputFormat::Text => answer(&report::text(&checks, verdict))?,
        OutputFormat::Json => answer(&to_json(&report::json(&checks, verdict))?)?,
    }
    Ok(ExitCode::from(verdict as u8))
}

/// The report as JSON, for `pendulum report`.
pub(crate) async fn examine(wan: Option<&str>) -> serde_json::Value {
    crate::privileges::use_what_is_permitted();
    let checks = look(wan, DEFAULT_LISTEN).await;
    report::json(&checks, Verdict::of(&checks))
}

async fn look(wan: Option<&str>, listen: SocketAddr) -> Vec<Check> {
    let mut checks = vec![host::capabilities()];
    checks.extend(bpf::probe().into_iter().map(Check::from));
    checks.push(host::listen(listen).await);
    checks.push(host::conntrack());
    if let Some(wan) = wan {
        checks.extend(device::look(wan).await);
    }
    checks
}
