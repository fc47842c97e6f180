//! The testbed: the link of paper 000, Fig. 2 in network namespaces, with real Linux TCP over one real buffer per direction,
//! and the papers' experiments on it.
//!
//! [`lab::Lab::start`] builds the machines and the link; dropping it removes everything, and the next start removes what a
//! killed lab has left. `README.md` shows the picture and how to use it by hand.
#![deny(unsafe_code)]

pub mod agent;
pub mod capacity;
pub mod chart;
pub mod cleanup;
pub mod clock;
pub mod delay;
pub mod demo;
pub mod experiment;
pub mod interrupt;
mod kernel;
pub mod lab;
mod line;
pub mod nat;
pub mod netns;
pub mod process;
pub mod prometheus;
pub mod record;
pub mod relay;
pub mod shaper;
mod splitmix;
mod statistics;
pub mod topology;
pub mod traffic;
pub mod truth;

pub use kernel::is_root;
pub use lab::{Lab, LinkSpec};
pub use line::LineEnded;
pub use topology::Role;
