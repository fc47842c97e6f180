//! Captures read as if the gateway's own programs had seen them: the meaning of `docs/design/measurement.md` without a kernel.
//!
//! [`packet`] reads one frame, [`meter`] turns a stream of frames into the counters and flows that the BPF side
//! keeps in its maps. A test feeds both the same packets and compares everything.

pub mod account;
pub mod capture;
mod classify;
pub mod cli;
mod counters;
pub mod flow;
pub mod intervals;
pub mod meter;
mod notes;
pub mod orientation;
pub mod packet;
pub mod probe;
pub mod queue;
pub mod report;
pub mod requests;
pub mod sequence;
pub mod series;
pub mod session;
pub mod silence;
pub mod survey;
pub mod table;
pub mod tally;
pub mod timeline;
pub mod turnaround;
pub mod vantage_detection;

#[cfg(test)]
mod tests;
