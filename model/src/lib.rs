//! The model of the data pendulum.
//!
//! Everything that decides lives here and nothing that acts: no file, socket, clock or kernel. Time is an argument.
//!
//! * [`sample`] is the one input, [`detector`] the one that judges it, [`findings`] what it says.
//! * [`ratio`] predicts the throughput ratio (000 Eq. 1–11).
//! * [`buffer`] finds the level of a buffer that only shows in how long answers take (000 Eq. 1).
//! * [`filter`]: reference ACK filters (paper 002), simulated.
//! * [`rate`], [`segment`], [`link`] are the vocabulary.
#![forbid(unsafe_code)]

mod activity;
pub mod buffer;
mod compression;
pub mod detector;
pub mod fairness;
pub mod filter;
pub mod findings;
mod flows;
pub mod history;
pub mod link;
pub mod phase;
pub mod rate;
pub mod ratio;
pub mod sample;
pub mod segment;
pub mod sizing;
pub mod swing;
pub mod thresholds;
mod verdict;
pub mod window;
