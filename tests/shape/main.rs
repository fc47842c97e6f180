//! The shaper: each decision of the ACK filter by TEST_RUN, and real TCP through a gateway that enforces.
//!
//! Needs root.

mod accecn;
mod behind;
#[path = "../support/cable.rs"]
mod cable;
mod classes;
mod connections;
#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "shared with tests that need all of it")]
mod craft;
mod decisions;
mod disturbances;
mod failures;
mod hfsc;
mod kernel;
mod lane;
mod linear;
mod marks;
mod methods;
mod processors;
mod random;
mod rig;
mod sack;
mod stream;
mod transfers;
