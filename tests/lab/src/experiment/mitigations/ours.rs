//! The agent with its shaper, on the lab's gateway.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::agent::{Agent, AgentError};
use crate::experiment::ExperimentError;
use crate::lab::Lab;
use crate::topology::{LAN_DEVICE, WAN_DEVICE};

/// An agent that shapes.
pub(in crate::experiment) struct Ours {
    agent: Agent,
}

/// Why there is none.
pub(in crate::experiment) enum OursError {
    /// It cannot be had here: no agent, or it refuses.
    NotRunnable(String),
    /// It failed.
    Failed(ExperimentError),
}

impl From<AgentError> for OursError {
    fn from(error: AgentError) -> Self {
        Self::Failed(error.into())
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Ours {
    /// Starts the agent with its lane and these keys of `[shape]`, and waits until it shapes.
    pub(super) fn start(lab: &Lab, program: Option<&Path>, keys: &str) -> Result<Self, OursError> {
        Self::start_with(lab, program, &config(lab, keys))
    }

    /// The same with a configuration of one's own.
    pub(in crate::experiment) fn start_with(
        lab: &Lab,
        program: Option<&Path>,
        config: &str,
    ) -> Result<Self, OursError> {
        let Some(program) = program.map(Path::to_owned).or_else(Agent::beside_this_program) else {
            return Err(OursError::NotRunnable(
                "no agent; give --agent PATH, or put `pendulum` beside `pendulum-lab`".into(),
            ));
        };
        let file = lab.directory().join("shape.toml");
        std::fs::write(&file, config)
            .map_err(|source| OursError::Failed(ExperimentError::Write { path: file.clone(), source }))?;
        // An agent without this shaper, or on a kernel without BPF, is no reason to lose the other cases.
        let agent = Agent::configured(lab, &program, &file)
            .map_err(|error| OursError::NotRunnable(format!("{error}")))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shape = shape_of(&agent.json("/api/v1/state")?);
            match shape["state"].as_str() {
                Some("enforcing") => return Ok(Self { agent }),
                Some("refused") => {
                    let reason = shape["reason"].as_str().unwrap_or("without a reason");
                    return Err(OursError::NotRunnable(format!("the agent refuses to shape: {reason}")));
                }
                _ if Instant::now() > deadline => {
                    return Err(OursError::NotRunnable(format!(
                        "the agent does not shape within {} s; its state says {shape}",
                        PATIENCE.as_secs()
                    )));
                }
                _ => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// What its shaper says now.
    pub(in crate::experiment) fn shape(&self) -> Result<Value, ExperimentError> {
        Ok(shape_of(&self.agent.json("/api/v1/state")?))
    }

    /// Ends it; returns its verdict and what its shaper counted.
    pub(in crate::experiment) fn finish(self) -> Result<(Value, Value), ExperimentError> {
        let state: Value = self.agent.json("/api/v1/state")?;
        let link = state.pointer("/links/0").cloned().unwrap_or_default();
        let shape = shape_of(&state);
        self.agent.stop()?;
        Ok((json!({"verdict": link["verdict"], "phase_share": link["phase_share"]}), shape))
    }
}

fn shape_of(state: &Value) -> Value {
    state.pointer("/links/0/shape").cloned().unwrap_or_default()
}

fn config(lab: &Lab, keys: &str) -> String {
    let spec = lab.spec();
    format!(
        "listen = \"{}\"\n\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\nuplink-rate = \"{}\"\ndownlink-rate = \"{}\"\n\n\
         [shape]\nmode = \"enforce\"\n{keys}\n",
        Agent::ADDRESS,
        spec.uplink.rate,
        spec.downlink.rate
    )
}
