//! The binary as its users meet it: help, exit codes, messages, and what it does to devices in namespaces of the
//! tests' own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod advise;
mod agent;
mod api;
mod arguments;
mod devices;
mod doctor;
mod http;
mod lifecycle;
mod netns;
mod privileges;
mod refusals;
mod reload;
mod service;
mod stdin;
mod top;
