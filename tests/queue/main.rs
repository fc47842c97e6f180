//! Queue measurement on real traffic: real TCP by iperf3 through every qdisc this kernel has, against the qdisc's own
//! figures and against captures on both sides of the buffer.
//!
//! Needs root.

mod account;
mod agent;
mod bench;
#[path = "../support/cable.rs"]
mod cable;
mod captures;
#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "what other tests make packets of")]
mod craft;
mod cwnd;
mod downlink;
mod drops;
mod native;
mod no_btf;
mod object;
mod qdiscs;
mod rig;
mod rings;
mod rules;
mod schedule;
