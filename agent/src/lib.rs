//! The Pendulum agent as a library: everything the binary `pendulum` does, so that tests can reach it.

pub mod bpf;
pub mod replay;
