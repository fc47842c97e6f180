//! Queue measurement on real traffic: real TCP by iperf3 through every qdisc this kernel has, against the qdisc's own
//! figures and against captures on both sides of the buffer.
//!
//! Needs root.

mod agent;
mod captures;
mod cwnd;
mod downlink;
mod no_btf;
mod object;
mod qdiscs;
mod rig;
