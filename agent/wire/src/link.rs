//! `/api/v1/state`, and the event `state` of the stream.

use std::collections::BTreeMap;

use pendulum_model::segment::PerDirection;
use serde::{Deserialize, Serialize};

use crate::{
    Advice, Bufferbloat, Delay, Direction, Evidence, Name, PerPhase, Ratio, RttClasses, Shape, Source,
};

/// `/api/v1/state`: every link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct State {
    /// The agent's version.
    pub version: Name,
    /// Time since its start.
    pub uptime_s: f64,
    /// How reloads of the configuration (SIGHUP) went.
    pub config: Reloads,
    /// The links, in the order of the configuration.
    pub links: Vec<Link>,
}

/// How reloads of the configuration went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reloads {
    /// Reloads whose file is in force.
    pub reloads_applied: u64,
    /// Reloads whose file was refused.
    pub reloads_refused: u64,
    /// Why the newest file was refused; `null` if it was not.
    pub error: Option<String>,
    /// Settings of the newest file that keep their old value until a restart.
    pub waiting_for_restart: Vec<String>,
}

/// One link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Link {
    /// The link's name, the label `link` of the metrics.
    pub name: String,
    /// Its WAN device.
    pub wan: String,
    /// That device: `up`, `down` or `missing`.
    pub device: Name,
    /// Whether the programs are attached to the device.
    pub attached: bool,
    /// Where they are attached; `null` if they are not.
    pub hooks: Option<Hooks>,
    /// Why the link is not measured, in words.
    pub trouble: Option<String>,
    /// Place of the uplink's buffer: `own_queue`: the WAN device's qdisc or the agent's shaper; `before_uplink_buffer`: behind the device, as in a modem, and estimated. `null` while the link is not measured.
    pub vantage: Option<Name>,
    /// Its rates.
    pub link: Rates,
    /// Each direction: `up` leaves through the WAN device, `down` enters through it.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Both<Direction>"))]
    pub directions: PerDirection<Direction>,
    /// The table of flows.
    pub flow_table: FlowTable,
    /// Which buffer holds a standing queue: `uplink_bound`, `downlink_bound`, `balanced` (both), `idle` (neither).
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::PhaseName>"))]
    pub phase: Option<Name>,
    /// How long it has been in this phase.
    pub phase_for_s: Option<f64>,
    /// How the phase is known: `queues` (both seen), `queue_and_windows` (one seen), `windows`.
    pub phase_source: Option<Name>,
    /// Share of the time in each phase over the last `horizon_s`.
    pub phase_share: Option<PerPhase>,
    /// Of how many seconds the shares, and what goes with the verdict, are.
    pub horizon_s: Option<f64>,
    /// Time in each phase since the start.
    pub phase_seconds: Option<PerPhase>,
    /// Changes of phase since the start.
    pub phase_transitions: Option<u64>,
    /// `swinging`, `locked_uplink`, `locked_downlink`, `ack_compression`, `one_way`, `balanced`, `clear`, `unknown` (`missing` names the evidence).
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::VerdictName>"))]
    pub verdict: Option<Name>,
    /// How long it has been in force.
    pub verdict_for_s: Option<f64>,
    /// Share of a direction's rate that it loses because the other one's buffer is full, 0 to 1; `null` if no buffer is full alone or the rate is unknown.
    pub lost_ratio: Option<f64>,
    /// How urgent the verdict is, by the loss and the standing delay: `info`, `warning`, `critical`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::SeverityName>"))]
    pub severity: Option<Name>,
    /// Why; `null` before the first verdict.
    pub evidence: Option<Evidence>,
    /// Period of the swing.
    pub swing_period_s: Option<f64>,
    /// Correlation of both queues.
    pub queue_correlation: Option<f64>,
    /// The lag at which both queues are most opposed; positive if the downlink follows.
    pub queue_lag_s: Option<f64>,
    /// Download throughput over upload throughput.
    pub throughput_ratio: Option<Ratio>,
    /// Where the delay comes from ([where.md](../guide/where.md)); `null` while the link is not measured.
    pub delay: Option<Delay>,
    /// Round trip, end to end; `null` if none was measured within 5 s.
    pub round_trip_s: Option<f64>,
    /// Round trip without queues: the smallest seen lately.
    pub base_round_trip_s: Option<f64>,
    /// Whether `base_round_trip_s` was measured while both buffers were empty for certain; otherwise a queue may be part of it.
    pub base_round_trip_proven: Option<bool>,
    /// Whether bulk data goes that way.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Both<bool>>"))]
    pub bulk: Option<PerDirection<bool>>,
    /// Whether flows with a short round trip take more than their part.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Both<bool>>"))]
    pub unfair: Option<PerDirection<bool>>,
    /// Delay that every packet waits in the buffer, mean within the horizon; `null` if unknown.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Both<Option<f64>>"))]
    pub standing_delay_s: PerDirection<Option<f64>>,
    /// `null` unless the buffer never drains.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Both<Option<Bufferbloat>>"))]
    pub bufferbloat: PerDirection<Option<Bufferbloat>>,
    /// Where flows differ in round trip.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Both<Option<RttClasses>>"))]
    pub round_trip_classes: PerDirection<Option<RttClasses>>,
    /// As `pendulum advise` for the link as measured; `null` until both rates and the base round trip are known.
    pub advice: Option<Advice>,
    /// Where everything that is known comes from.
    pub sources: Vec<Source>,
    /// Figures measured by a fallback, each with the remedy.
    pub degraded: Vec<String>,
    /// The shaper.
    pub shape: Option<Shape>,
    /// Measurements that could not be made, by reason ([measurement.md](../design/measurement.md)).
    pub losses: BTreeMap<Name, u64>,
    /// The programs in the kernel.
    pub programs: Vec<BpfProgram>,
    /// Their maps.
    pub maps: Vec<BpfMap>,
}

/// Where the programs are attached.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Hooks {
    /// The device's index.
    pub ifindex: u32,
    /// `ethernet` or `raw-ip`.
    pub link_layer: Name,
    /// `tcx` or `clsact`.
    pub egress: Name,
    /// `tcx`, `clsact` or `xdp-native`; one of the first two in place of XDP where the driver has none.
    pub ingress: Name,
}

/// The rates of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rates {
    /// Bits per second.
    pub uplink_rate_bps: Option<u64>,
    /// Bits per second.
    pub downlink_rate_bps: Option<u64>,
    /// `config`, `qdisc` or `learnt`.
    pub rate_source: Option<Name>,
}

/// The table of flows; counters are since the start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FlowTable {
    /// Flows in it.
    pub flows: u64,
    /// Flows of which a first segment was seen.
    pub nursed: u64,
    /// Flows that were seen both ways, and entered the table.
    pub promoted: u64,
    /// Flows that started again with the same addresses and ports.
    pub restarted: u64,
    /// Flows that were silent for too long.
    pub expired: u64,
    /// Flows that had to make room.
    pub evicted: u64,
}

/// A program in the kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BpfProgram {
    /// Its name.
    pub name: Name,
    /// Whether it is attached.
    pub attached: bool,
    /// How often it ran; `null` unless `bpf-statistics` is set and granted.
    pub runs: Option<u64>,
    /// How long it ran; `null` like `runs`.
    pub run_seconds: Option<f64>,
}

/// A map in the kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BpfMap {
    /// Its name.
    pub name: Name,
    /// Entries in it.
    pub entries: u32,
    /// Entries that fit.
    pub capacity: u32,
}
