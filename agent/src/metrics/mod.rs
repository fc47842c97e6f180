//! `/metrics`: every figure the agent exports, read from the newest snapshots at scrape time.
//!
//! One collector for each concern; a new group of metrics is a new module here. Labels are the link's name and names
//! of enums: no address, no port, so the number of series is bounded by the configuration.

mod configuration;
mod delay;
mod family;
mod findings;
mod flows;
mod format;
mod histogram;
mod kernel;
mod link;
mod process;
#[cfg(test)]
mod protobuf;
mod queue;
mod shape;
#[cfg(test)]
mod tests;
mod traffic;

use prometheus_client::encoding::{prometheus_protobuf, text};
use prometheus_client::registry::Registry;
use thiserror::Error;
use tokio::sync::watch;

use crate::config::Active;
use crate::snapshot::Board;

pub use format::ExpositionFormat;
pub(crate) use kernel::lost_by_reason;
pub(crate) use traffic::MARKS;

/// All metrics of the agent.
#[derive(Debug)]
pub struct Exposition {
    registry: Registry,
}

impl Exposition {
    /// Metrics over the links of `board` and the configuration in use. `bpf_statistics` says whether the kernel measures runs of BPF programs.
    pub fn new(board: &Board, active: watch::Receiver<Active>, bpf_statistics: bool) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(traffic::Traffic::new(board.clone())));
        registry.register_collector(Box::new(flows::FlowFamilies::new(board.clone())));
        registry.register_collector(Box::new(link::LinkFamilies::new(board.clone(), active.clone())));
        registry.register_collector(Box::new(queue::QueueFamilies::new(board.clone())));
        registry.register_collector(Box::new(delay::DelayFamilies::new(board.clone())));
        registry.register_collector(Box::new(findings::Judgements::new(board.clone())));
        registry.register_collector(Box::new(shape::Shaping::new(board.clone())));
        registry.register_collector(Box::new(kernel::Kernel::new(board.clone(), bpf_statistics)));
        registry.register_collector(Box::new(configuration::Configuration::new(active)));
        registry.register_collector(Box::new(process::Process));
        Self { registry }
    }

    /// The whole exposition.
    ///
    /// # Errors
    /// A collector failed to write; nothing a caller can mend.
    pub fn encode(&self, format: ExpositionFormat) -> Result<Vec<u8>, ExpositionError> {
        Ok(match format {
            ExpositionFormat::OpenMetrics => self.text()?.into_bytes(),
            ExpositionFormat::Text => format::openmetrics_to_text(&self.text()?).into_bytes(),
            ExpositionFormat::Protobuf => prometheus_protobuf::encode_to_vec(&self.registry)?,
        })
    }

    fn text(&self) -> Result<String, std::fmt::Error> {
        // About 300 lines for each link.
        let mut text = String::with_capacity(64 * 1024);
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// The metrics could not be written.
#[derive(Debug, Error)]
pub enum ExpositionError {
    /// A collector failed.
    #[error("a collector failed")]
    Collector(#[from] std::fmt::Error),
    /// A message could not be made.
    #[error(transparent)]
    Protobuf(#[from] prometheus_protobuf::EncodeError),
}
