//! The agent that finds the rate by itself.

use std::path::Path;

use crate::agent::Agent;
use crate::experiment::mitigations::{Ours, OursError};
use crate::lab::Lab;
use crate::topology::{LAN_DEVICE, WAN_DEVICE};

/// Starts it without a word about the link. The line's frames are IP packets, so the framing has no overhead.
pub(super) fn start(lab: &Lab, program: Option<&Path>) -> Result<Ours, OursError> {
    Ours::start_with(lab, program, &config(""))
}

/// The same with the link's configured rates.
pub(super) fn start_known(lab: &Lab, program: Option<&Path>) -> Result<Ours, OursError> {
    let spec = lab.spec();
    let rates =
        format!("uplink-rate = \"{}\"\ndownlink-rate = \"{}\"\n", spec.uplink.rate, spec.downlink.rate);
    Ours::start_with(lab, program, &config(&rates))
}

fn config(rates: &str) -> String {
    format!(
        "listen = \"{}\"\n\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\n{rates}\n[shape]\nmode = \"enforce\"\nrate = \"auto\"\ndownlink = true\noverhead = 0\n",
        Agent::ADDRESS
    )
}
