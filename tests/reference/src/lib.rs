//! Reference ACK filters, for tests and experiments. The agent does not link them.
//!
//! What the shaper does to ACKs in the kernel is judged against these. [`hold`] has the shaper's own rules, and [`accecn`] the
//! sender that it must not deceive. The others follow paper 002 (Barakat and Altman, "On ACK Filtering on a Slow Reverse
//! Channel"), not the kernel: there every ACK may be erased that a later one of its connection covers; the safety rules of
//! real networks (SACK, ECN, options) are the shaper's.
//!
//! * [`equations`]: the optimum threshold and the window growth of §2.2 and §2.3.
//! * [`tsw`]: the rate estimator of §3.1.
//! * [`policy`] and [`buffer`]: the reverse buffer with each filter, drop policy and order of service (§2.3, §3, §4).
//! * [`simulation`]: TCP sources whose ACKs cross that buffer, and [`scenario`], the paper's two settings: §2.4 and §3.2
//!   (Figures 4 to 9) and §4 (Figures 11 and 12).
#![forbid(unsafe_code)]

pub mod accecn;
pub mod autorate;
pub mod buffer;
pub mod equations;
pub mod hold;
pub mod policy;
pub mod scenario;
pub mod simulation;
mod tcp;
pub mod tsw;
