//! The model of the data pendulum.
//!
//! Everything that decides lives here and nothing that acts: no file, socket, clock or kernel. Time is an argument.
//!
//! * [`sample`] is the one input, [`detector`] the one that judges it, [`findings`] what it says.
//! * [`ratio`] predicts the throughput ratio (000 Eq. 1–11).
//! * [`observer`] finds the levels of buffers out of sight, the link's rates and the round-trip time without queues.
//! * [`simulate`] runs two-way TCP over two buffers, packet by packet.
//! * [`rate`], [`segment`], [`link`] are the vocabulary.
#![forbid(unsafe_code)]

#[macro_use]
mod names;

mod activity;
pub mod autorate;
pub mod bloat;
pub mod capacity;
pub mod certainty;
pub mod colour;
mod compression;
pub mod constants;
pub mod degree;
pub mod delay;
pub mod detector;
pub mod event;
pub mod fairness;
pub mod findings;
mod flows;
pub mod history;
pub mod link;
pub mod observer;
pub mod phase;
pub mod protocol_port;
pub mod rate;
pub mod ratio;
pub mod recent;
pub mod sample;
pub mod segment;
pub mod simulate;
pub mod sizing;
pub mod swing;
pub mod thresholds;
pub mod traffic_mix;
mod verdict;
pub mod window;

pub use names::Name;
