//! The agent among real traffic, real devices and other people's programs: are its figures true, and does it leave
//! everything as it was?
//!
//! Everything happens in network namespaces of the tests' own. Each test needs root and says so where it is not given.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../cli/agent.rs"]
#[expect(dead_code, reason = "made for the tests of the command line; not all of it is needed here")]
mod agent;
#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "other tests need other packets")]
mod craft;
#[path = "../cli/netns.rs"]
#[expect(dead_code, reason = "made for the tests of the command line; not all of it is needed here")]
mod netns;

mod foreign;
mod inside;
mod metrics;
mod packet_socket;
mod rig;
mod tcp;

mod coexistence;
mod device_changes;
mod figures;
mod flow_table;
mod leftovers;
mod link_layers;
mod nat;
mod qdiscs;
mod routes;
mod super_packets;
mod utilization;
