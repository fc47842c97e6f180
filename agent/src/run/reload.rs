//! SIGHUP: read the configuration again, and the token, certificate and key it names. A mistake in any of them changes nothing.

use std::path::PathBuf;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::links::{Ended, Links};
use crate::config::{Active, Changes, Config, Overrides};
use crate::http::Secrets;
use crate::log::Level;

/// Where the configuration came from, and so where a new one comes from.
#[derive(Debug)]
pub(crate) struct Reload {
    file: Option<PathBuf>,
    overrides: Overrides,
    level: Level,
}

impl Reload {
    /// The file and the options that the agent was started with.
    pub(crate) fn new(file: Option<PathBuf>, overrides: Overrides, level: Level) -> Self {
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
        let read = self.read().and_then(|wanted| {
            let renewed = secrets.read_again(&configure.borrow().config.http, &wanted.http);
            renewed.map(|renewed| (renewed, wanted)).map_err(|error| error.to_string())
        });
        let prepared = match read {
            Ok((renewed, wanted)) => {
                links.prepare_added(&wanted.links).await.map(|added| (added, renewed, wanted))
            }
            Err(reason) => Err(reason),
        };
        match prepared {
            Ok((added, renewed, wanted)) => {
                let mut changes = Changes::default();
                configure.send_modify(|active| changes = active.adopt(&wanted));
                changes.applied.extend(secrets.adopt(renewed));
                self.level.set(wanted.log.level);
                links.follow(added, tasks);
                tell(&changes);
                for exposed in wanted.http.exposed_files() {
                    warn!("{exposed}");
                }
            }
            Err(reason) => {
                error!("the configuration in use stays as it is: {reason}");
                configure.send_modify(|active| active.refuse(reason));
            }
        }
    }

    fn read(&self) -> Result<Config, String> {
        if self.file.is_none() {
            return Err(
                "the agent was started with options and without a file, so there is nothing to read again; start it \
                 with --config FILE"
                    .to_owned(),
            );
        }
        self.overrides.resolve(self.file.clone()).map_err(|error| crate::exit::chain(&error))
    }
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
