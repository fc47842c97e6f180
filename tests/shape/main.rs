//! The shaper: each decision of the ACK filter by TEST_RUN, and real TCP through a gateway that enforces.
//!
//! Needs root.

mod accecn;
mod behind;
mod classes;
#[path = "../support/craft.rs"]
#[expect(dead_code, reason = "shared with tests that need all of it")]
mod craft;
mod decisions;
mod disturbances;
mod failures;
mod hfsc;
mod kernel;
mod lane;
mod marks;
mod methods;
mod random;
mod rig;
mod stream;
mod transfers;
