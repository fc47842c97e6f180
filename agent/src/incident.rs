//! Incidents: recordings of what lasted, from 15 s before it to 60 s after, that [`pendulum replay --incident`](replay) judges
//! again.
//!
//! [`Recorder`] belongs to a link and keeps its newest samples as rows of integers. [`Store`] writes a finished recording as one
//! compressed file, in a thread of its own.

mod recorder;
pub mod replay;
mod store;
mod table;

use std::collections::BTreeMap;

use pendulum_model::segment::PerDirection;
use pendulum_model::thresholds::Thresholds;
use pendulum_wire as wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use recorder::Recorder;
pub use store::{IncidentError, Store, read};
use table::FigureColumn;

/// One recording, as its file has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Incident {
    /// In short.
    pub summary: wire::Incident,
    /// What the detector compared with.
    pub thresholds: Thresholds,
    /// The link's rates as they were known at the change, bytes per second.
    pub capacity: PerDirection<Option<f64>>,
    /// The flows that carried most, most first.
    pub flows: Vec<HeavyFlow>,
    /// What else changed meanwhile, and what the shaper did.
    pub events: Vec<Value>,
    /// Number of rows.
    pub rows: usize,
    /// One row for each sample of 10 ms, by column; a column whose value never changes is that value.
    columns: BTreeMap<String, FigureColumn>,
    /// The row at which flows were read, and each flow that carried data: number, direction (0: up), bytes, bytes in flight,
    /// RTT and least RTT in microseconds.
    flow_samples: Vec<FlowReading>,
}

/// A row, and the flows that were read there.
type FlowReading = (usize, Vec<[Option<i64>; 6]>);

/// A flow and what it carried during the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeavyFlow {
    /// Its number in `flow_samples`; `null` if it is not there.
    pub flow: Option<usize>,
    /// The port at home, as seen on the WAN device.
    pub home_port: u16,
    /// The other end's.
    pub remote_port: u16,
    /// Both addresses as seen on the WAN device, with `events.incident-hosts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addresses: Option<[String; 2]>,
    /// Payload each way.
    pub bytes: PerDirection<u64>,
}

#[cfg(test)]
pub(crate) mod tests;
