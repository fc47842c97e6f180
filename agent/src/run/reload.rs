//! SIGHUP: read the configuration again, and the token, certificate and key it names. A mistake in any of them changes nothing.

use std::path::PathBuf;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::links::{Ended, Links};
use crate::config::{Active, Changes, Config, Overrides};
use crate::http::{Renewed, Secrets};
use crate::log::LogFilter;

/// Where the configuration came from, and so where a new one comes from.
#[derive(Debug)]
pub(crate) struct Reload {
    file: Option<PathBuf>,
    overrides: Overrides,
    level: LogFilter,
}

impl Reload {
    /// The file and the options that the agent was started with.
    pub(crate) fn new(file: Option<PathBuf>, overrides: Overrides, level: LogFilter) -> Self {
        Self { file, overrides, level }
    }

    /// Reads, checks, and takes over what can change while running.
    ///
    /// Links that are new are attached first: if one cannot be, nothing changes.
    pub(super) async fn carry_out(
        &self,
        configure: &watch::Sender<Active>,
        secrets: &Secrets,
        links: &mut Links,
        tasks: &mut JoinSet<Ended>,
    ) {
        let prepared = match self.read(configure, secrets).await {
            Ok(ConfigFiles { wanted, renewed, exposed }) => {
                links.prepare_added(&wanted.links).await.map(|added| (added, renewed, wanted, exposed))
            }
            Err(reason) => Err(reason),
        };
        match prepared {
            Ok((added, renewed, wanted, exposed)) => {
                let mut changes = Changes::default();
                configure.send_modify(|active| changes = active.adopt(&wanted));
                changes.applied.extend(secrets.adopt(renewed));
                self.level.set(wanted.log.level);
                links.follow(added, None, tasks);
                tell(&changes);
                for exposed in exposed {
                    warn!("{exposed}");
                }
            }
            Err(reason) => {
                error!("the configuration in use stays as it is: {reason}");
                configure.send_modify(|active| active.refuse(reason));
            }
        }
    }

    /// Reads all files on another thread: a disk may hang, and nothing may wait for it.
    async fn read(
        &self,
        configure: &watch::Sender<Active>,
        secrets: &Secrets,
    ) -> Result<ConfigFiles, String> {
        let Some(file) = self.file.clone() else {
            return Err(
                "the agent was started with options and without a file, so there is nothing to read again; start it \
                 with --config FILE"
                    .to_owned(),
            );
        };
        let (overrides, secrets) = (self.overrides.clone(), secrets.clone());
        let current = configure.borrow().config.http.clone();
        let read = move || {
            let wanted = overrides.resolve(Some(file)).map_err(|error| crate::exit::chain(&error))?;
            let renewed = secrets.read_again(&current, &wanted.http).map_err(|error| error.to_string())?;
            Ok(ConfigFiles { exposed: wanted.http.exposed_files(), wanted, renewed })
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

/// What the files hold now.
struct ConfigFiles {
    wanted: Config,
    renewed: Renewed,
    /// Secrets that others can read or change, in words.
    exposed: Vec<String>,
}

fn tell(changes: &Changes) {
    let Changes { applied, waiting } = changes;
    match applied.as_slice() {
        [] => info!("configuration read again: nothing changes while running"),
        applied => info!("configuration read again; changed: {}", applied.join(", ")),
    }
    if !waiting.is_empty() {
        warn!("these settings of the new configuration need a restart: {}", waiting.join(", "));
    }
}
