//! The observer against links whose state is known: by hand, or by simulation.

mod base;
mod clock;
mod hostile;
mod inlet;
mod learner;
mod lender;
mod link;
mod outlet;
mod parts;
mod waits;
mod witness;
