//! The agent that finds the rate by itself.

use std::path::Path;

use crate::agent::Agent;
use crate::lab::Lab;
use crate::study::mitigations::{Ours, OursError};
use crate::topology::{LAN_DEVICE, WAN_DEVICE};

/// Starts it without a word about the link. The line's frames are IP packets, so the framing has no overhead.
pub(super) fn start(lab: &Lab, program: Option<&Path>) -> Result<Ours, OursError> {
    let config = format!(
        "listen = \"{}\"\n\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\n\n[shape]\nmode = \"enforce\"\nrate = \"auto\"\noverhead = 0\n",
        Agent::ADDRESS
    );
    Ours::start_with(lab, program, &config)
}
