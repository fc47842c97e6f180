//! The model of the data pendulum.
//!
//! Everything that decides lives here and nothing that acts: no file, socket, clock or kernel. Time is an argument.
#![forbid(unsafe_code)]

pub mod findings;
pub mod rate;
pub mod ratio;
pub mod sample;
pub mod segment;
