//! The shaper: each decision of the ACK filter by TEST_RUN, and real TCP through a gateway that enforces.
//!
//! Needs root.

mod lane;
mod rig;
