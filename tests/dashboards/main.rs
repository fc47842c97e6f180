//! The dashboards and rules of dashboards/: are they sound by themselves, do they name what the agent exports, and does every
//! query give data on a real Prometheus that scrapes the real agent on the lab's link?

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod contrast;
mod files;
mod found;
mod lint;
mod live;
mod past;
mod promtool;
mod protobuf;
mod rendered;
mod schema;
