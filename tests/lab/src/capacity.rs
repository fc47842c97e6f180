//! Links whose capacity changes: when each packet may leave ([`Trace`]), and the buffer that waits for it ([`Bottleneck`]).
//!
//! A trace is a file in mahimahi's format, or made from a [`Pattern`]: a constant rate, a step, a ramp, an outage, a random walk.
//! [`crate::lab::Lab::start_with`] puts the link into the wire between gateway and provider, where a modem is: out of the gateway's sight.

mod bottleneck;
mod pattern;
mod trace;

pub(crate) use bottleneck::Bottleneck;
pub use bottleneck::LinkReading;
pub use pattern::{Pattern, PatternError};
pub use trace::{OPPORTUNITY_BYTES, Trace, TraceError};
