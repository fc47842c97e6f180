//! The Pendulum agent as a library: everything the binary `pendulum` does, so that tests can reach it.

pub mod bpf;
pub mod cli;
mod client;
pub mod config;
mod doctor;
pub mod exit;
#[cfg(test)]
mod generated;
mod home_lookup;
pub mod http;
pub mod incident;
pub mod journal;
mod kernel;
mod log;
pub mod metrics;
pub mod net;
mod privileges;
pub mod replay;
mod report;
pub mod run;
pub mod shape;
pub mod snapshot;
#[cfg(feature = "top")]
mod top;
