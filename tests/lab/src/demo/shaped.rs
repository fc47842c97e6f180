//! `demo --shape`: the same upload and download twice, first as the link is, then with the agent shaping it; both on one
//! screen.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;
use serde_json::Value;

use super::{DemoError, DemoOptions};
use crate::agent::Agent;
use crate::lab::{Lab, LinkSpec};
use crate::topology::{LAN_DEVICE, WAN_DEVICE};
use crate::traffic::{Transfer, TransferSpec};

/// Traffic of one half, unless told otherwise.
const USUAL: Duration = Duration::from_secs(25);
/// The share of it that is left out: slow start into an empty queue.
const LEFT_OUT: f64 = 0.25;
/// Beyond its time, for iperf3's last exchange.
const PATIENCE: Duration = Duration::from_secs(30);

/// One half: how it is called, and the table `[shape]` of the agent's configuration.
const HALVES: [(&str, &str); 2] =
    [("as it is", "mode = \"off\""), ("shaped", "mode = \"enforce\"\nack-filter = \"delayed\"")];

/// Runs both halves and prints a line for each.
///
/// # Errors
/// If the lab, its traffic or the agent fails, the output is gone, or the user stops it.
pub(super) fn run(options: &DemoOptions) -> Result<(), DemoError> {
    let half = options.total.map_or(USUAL, |total| total / 2).max(Duration::from_secs(8));
    let lab = Lab::start(LinkSpec::FIG1)?;
    let shown = halves(options, &lab, half);
    let stopped = lab.stop();
    shown?;
    Ok(stopped?)
}

fn halves(options: &DemoOptions, lab: &Lab, half: Duration) -> Result<(), DemoError> {
    let spec = lab.spec();
    let mut out = io::stdout();
    writeln!(
        out,
        "One upload and one download (reno) over {} down, {} up, {} bytes of buffer on both sides; {} s each.\n",
        spec.downlink.rate,
        spec.uplink.rate,
        spec.uplink.buffer_bytes(),
        half.as_secs()
    )?;
    writeln!(out, "{:<10} {:>16} {:>14}   the agent says", "", "download kbit/s", "upload kbit/s")?;
    for (name, shape) in HALVES {
        let file = std::env::temp_dir().join(format!("pendulum-demo-{}.toml", std::process::id()));
        std::fs::write(&file, config(lab, shape))?;
        let agent = Agent::configured(lab, &options.agent, &file);
        std::fs::remove_file(&file)?;
        let agent = agent?;
        let measured = measure(options, lab, &agent, half);
        agent.stop()?;
        let ([up, down], said) = measured?;
        writeln!(out, "{name:<10} {:>16.0} {:>14.0}   {said}", down / 1e3, up / 1e3)?;
    }
    writeln!(out, "\nHow: docs/shaping.md. Against fq_codel and cake: pendulum-lab run mitigations.")?;
    Ok(())
}

fn config(lab: &Lab, shape: &str) -> String {
    let spec = lab.spec();
    format!(
        "listen = \"{}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\nuplink-rate = \"{}\"\n\
         downlink-rate = \"{}\"\n[shape]\n{shape}\n",
        Agent::ADDRESS,
        spec.uplink.rate,
        spec.downlink.rate
    )
}

/// Goodput of upload and download, bit/s, and what the agent says at the end.
fn measure(
    options: &DemoOptions,
    lab: &Lab,
    agent: &Agent,
    half: Duration,
) -> Result<([f64; 2], String), DemoError> {
    let start = |direction| Transfer::start(lab, TransferSpec::new(direction, half));
    let transfers = [start(Direction::Up)?, start(Direction::Down)?];
    options.interrupt.sleep_until(Instant::now() + half.mul_f64(0.9))?;
    let said = in_words(&agent.json("/api/v1/state")?);
    let mut goodput = [0.0; 2];
    for (transfer, goodput) in transfers.into_iter().zip(&mut goodput) {
        let report = transfer.finish(half + PATIENCE)?;
        let (from, to) = (half.as_secs_f64() * LEFT_OUT, half.as_secs_f64());
        *goodput = report.receiver.mean_bps(from, to).unwrap_or(0.0);
    }
    Ok((goodput, said))
}

fn in_words(state: &Value) -> String {
    let link = &state["links"][0];
    let verdict = link["verdict"].as_str().unwrap_or("no verdict yet");
    let shape = &link["shape"];
    match (shape["state"].as_str(), shape["held_acks"].as_u64()) {
        (Some("enforcing"), Some(held)) => {
            format!("{verdict}; {held} of {} ACKs merged", shape["lane_packets"].as_u64().unwrap_or(0))
        }
        (Some("refused"), _) => format!("not shaped: {}", shape["reason"].as_str().unwrap_or_default()),
        _ => verdict.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_of_both_halves() {
        let state = |shape: Value| json!({"links": [{"verdict": "swinging", "shape": shape}]});
        assert_eq!(in_words(&state(json!({"state": "off"}))), "swinging");
        let shaping = json!({"state": "enforcing", "held_acks": 600, "lane_packets": 1000});
        assert_eq!(in_words(&state(shaping)), "swinging; 600 of 1000 ACKs merged");
        let refused = json!({"state": "refused", "reason": "SQM"});
        assert_eq!(in_words(&state(refused)), "not shaped: SQM");
    }
}
