//! The model of the data pendulum.
//!
//! Everything that decides lives here and nothing that acts: no file, socket, clock or kernel. Time is an argument.
#![forbid(unsafe_code)]

pub mod rate;
pub mod ratio;
pub mod segment;
