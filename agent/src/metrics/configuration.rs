//! How reloading the configuration went.

use std::fmt::Result;
use std::time::UNIX_EPOCH;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;

use super::family::Family;
use crate::config::Active;

const RELOADS: Family = Family::counter(
    "pendulum_config_reloads_total",
    None,
    "Reloads of the configuration (SIGHUP): applied, or refused because of a mistake, which changes nothing.",
);
const LAST_OK: Family = Family::gauge(
    "pendulum_config_last_reload_successful",
    None,
    "1 if the newest reload was applied, or there was none; 0 if its file was refused.",
);
const LAST_SUCCESS: Family = Family::gauge(
    "pendulum_config_last_reload_success_timestamp_seconds",
    Some("seconds"),
    "When a configuration was last taken over, the start included, in seconds since the Unix epoch.",
);
const WAITING: Family = Family::gauge(
    "pendulum_config_settings_waiting",
    None,
    "Settings of the newest file that keep their old value until the agent is restarted.",
);

#[derive(Debug)]
pub(super) struct Configuration {
    active: watch::Receiver<Active>,
}

impl Configuration {
    pub(super) fn new(active: watch::Receiver<Active>) -> Self {
        Self { active }
    }
}

impl Collector for Configuration {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let Active { reloads, last_success, .. } = &*self.active.borrow();
        RELOADS.write(&mut encoder, |samples| {
            samples.counter([("result", "applied")], reloads.reloads_applied)?;
            samples.counter([("result", "refused")], reloads.reloads_refused)
        })?;
        LAST_OK.write(&mut encoder, |samples| samples.gauge([], u32::from(reloads.error.is_none())))?;
        if let Some(at) = last_success.and_then(|at| at.duration_since(UNIX_EPOCH).ok()) {
            LAST_SUCCESS.write(&mut encoder, |samples| samples.gauge([], at.as_secs_f64()))?;
        }
        WAITING.write(&mut encoder, |samples| samples.gauge([], reloads.waiting_for_restart.len() as u64))
    }
}
