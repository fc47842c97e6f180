//! What has lately entered a buffer.

use pendulum_model::sample::Composition;
use pendulum_wire::TopPort;

/// What entered one direction of the link over the last ten seconds: what its buffer is filled with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entered {
    /// Link-layer bytes by what carries them. Nothing: nothing entered, or it was not read.
    pub composition: Composition,
    /// What is no TCP and carries most, if anything.
    pub top_port: Option<TopPort>,
}

impl Entered {
    /// The share of each kind by its name, 0 to 1; `None` if nothing entered.
    pub fn shares(&self) -> Option<[(&'static str, f64); 4]> {
        let total = self.composition.total();
        (total > 0).then(|| self.composition.parts().map(|(kind, bytes)| (kind, bytes as f64 / total as f64)))
    }
}
