//! The observer against links whose state is known: by hand, or by simulation.

mod base;
mod clock;
mod datagrams;
mod entry_side;
mod exit_side;
mod hostile;
mod learner;
mod link;
mod parts;
mod reference_clock;
mod waits;
