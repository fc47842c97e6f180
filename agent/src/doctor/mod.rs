//! `pendulum doctor`: the ladder of what this machine offers, and the remedy for each missing rung.

mod device;
mod host;
mod report;

use std::net::SocketAddr;
use std::process::ExitCode;

use serde::Serialize;

use crate::bpf::{self, RungStatus};
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
struct Rung {
    /// What it is.
    name: &'static str,
    /// Whether it is there.
    status: RungStatus,
    /// What was found.
    reason: String,
    /// What to do about it; empty if nothing needs to be done.
    remedy: String,
    /// What is lost without it; empty if it is there.
    cost: String,
}

impl Rung {
    fn ok(name: &'static str, reason: impl Into<String>) -> Self {
        Self {
            name,
            status: RungStatus::Ok,
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
            status: RungStatus::Degraded,
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
        Self { status: RungStatus::Missing, ..Self::degraded(name, reason, remedy, cost) }
    }
}

impl From<bpf::Rung> for Rung {
    fn from(rung: bpf::Rung) -> Self {
        Self {
            name: rung.name,
            status: rung.status,
            reason: rung.reason,
            remedy: rung.remedy.to_owned(),
            cost: rung.cost.to_owned(),
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
    fn of(rungs: &[Rung]) -> Self {
        let has = |status| rungs.iter().any(|rung| rung.status == status);
        if has(RungStatus::Missing) {
            Self::CannotRun
        } else if has(RungStatus::Degraded) {
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
    let rungs = runtime.block_on(look(options.wan.as_deref(), options.listen));
    let verdict = Verdict::of(&rungs);
    match options.format {
        OutputFormat::Text => answer(&report::text(&rungs, verdict))?,
        OutputFormat::Json => answer(&to_json(&report::json(&rungs, verdict))?)?,
    }
    Ok(ExitCode::from(verdict as u8))
}

/// The report as JSON, for `pendulum report`.
pub(crate) async fn examine(wan: Option<&str>) -> serde_json::Value {
    crate::privileges::use_what_is_permitted();
    let rungs = look(wan, DEFAULT_LISTEN).await;
    report::json(&rungs, Verdict::of(&rungs))
}

async fn look(wan: Option<&str>, listen: SocketAddr) -> Vec<Rung> {
    let mut rungs = vec![host::capabilities()];
    rungs.extend(bpf::probe().into_iter().map(Rung::from));
    rungs.push(host::listen(listen).await);
    rungs.push(host::conntrack());
    if let Some(wan) = wan {
        rungs.extend(device::look(wan).await);
    }
    rungs
}
