//! What runs have left: everything observed, and the report.

use pendulum_model::segment::PerDirection;

use super::record::Record;
use super::report::Report;
use super::scenario::Scenario;
use crate::traffic::{TransferReport, UdpReport};
use crate::truth::AckBursts;

/// A scenario that has been run, with everything observed.
#[derive(Debug)]
pub struct ScenarioRun {
    /// What was run, with its congestion control and its starts.
    pub scenario: Scenario,
    /// The congestion control of all transfers.
    pub congestion_control: String,
    /// The repetition's seed.
    pub seed: u64,
    /// What was observed.
    pub record: Record,
    /// What both ends of each transfer said; `None` where the end exchange did not get through.
    pub reports: Vec<Option<TransferReport>>,
    /// What arrived of each flow of datagrams.
    pub datagrams: Vec<UdpReport>,
    /// The ACK bursts of each case; empty if they were not asked for.
    pub ack_bursts: Vec<PerDirection<AckBursts>>,
    /// Whether an agent was running.
    pub with_agent: bool,
}

/// Everything that an experiment's plots are drawn from.
#[derive(Clone, Copy, Debug)]
pub struct Results<'a> {
    /// The report, repetitions joined.
    pub report: &'a Report,
    /// Each run for itself.
    pub runs: &'a [ScenarioRun],
}
