//! Shaping turned on, changed and off by SIGHUP.

use serde_json::Value;

use crate::agent::Agent;
use crate::rig::{attachments, pair, ping, wait_until};

const LINK: &str = "[[link]]\nwan = \"wan0\"\nuplink-rate = \"10mbit\"\ndownlink-rate = \"50mbit\"\n";

fn shape(agent: &Agent<'_>) -> Value {
    agent.link("wan0")["shape"].clone()
}

#[test]
fn shaping_follows_the_configuration() {
    let test = "shaping_follows_the_configuration";
    let Some((gateway, provider)) = pair(test) else { return };
    let before = attachments(&gateway);
    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |text: &str| std::fs::write(file.path(), text).unwrap();
    write(LINK);
    let mut agent = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let observing = attachments(&gateway);
    assert_eq!(shape(&agent)["state"], "off");

    write(&format!("{LINK}[shape]\nmode = \"enforce\"\n"));
    agent.signal("HUP");
    agent.wait_until("shaping is decided on", |agent| shape(agent)["state"] != "off");
    let shaped = shape(&agent);
    if shaped["state"] == "refused" {
        eprintln!("SKIPPED {test}: {}", shaped["reason"]);
        return;
    }
    let rate = shaped["uplink"]["rate_bps"].as_u64().unwrap();
    ping(&provider, "192.0.2.1", 5);

    // Another rate, in place; then a file with a mistake, which changes nothing.
    write(&format!("{}[shape]\nmode = \"enforce\"\n", LINK.replace("10mbit", "5mbit")));
    agent.signal("HUP");
    agent.wait_until("half the rate", |agent| {
        shape(agent)["uplink"]["rate_bps"].as_u64().is_some_and(|now| now.abs_diff(rate / 2) < 1_000)
    });
    write(&format!("{LINK}[shape]\nmode = \"enforcee\"\n"));
    agent.signal("HUP");
    agent.wait_until("the mistake is told", |agent| {
        agent.json("/api/v1/state")["config"]["reloads_refused"] == 1
    });
    assert_eq!(shape(&agent)["state"], shaped["state"]);
    ping(&provider, "192.0.2.1", 5);

    write(LINK);
    agent.signal("HUP");
    agent.wait_until("shaping has ended", |agent| shape(agent)["state"] == "off");
    wait_until("only the measuring programs are left", || attachments(&gateway) == observing);
    ping(&provider, "192.0.2.1", 5);

    // Killed while it shapes again, and started without: the rest is taken down.
    write(&format!("{LINK}[shape]\nmode = \"enforce\"\n"));
    agent.signal("HUP");
    agent.wait_until("it shapes again", |agent| shape(agent)["state"] == shaped["state"]);
    agent.end("KILL");
    ping(&provider, "192.0.2.1", 5);
    write(LINK);
    let mut next = Agent::start(&gateway, &["--config", file.path().to_str().unwrap()]);
    next.wait_attached("wan0", gateway.index("wan0"));
    assert!(next.end("TERM").success(), "{}", next.log());
    wait_until("nothing is attached any more", || attachments(&gateway) == before);
}
