//! `pendulum advise --url` and `pendulum top` against a real agent that wants TLS and a token.

use serde_json::Value;

use crate::agent::{Agent, PENDULUM};
use crate::http::{TOKEN, secured};
use crate::netns::{Netns, outcome};
use crate::top::{Talk, Terminal};

/// Fields that the agent's own advice and that of the command have in common.
const COMMON: [&str; 5] =
    ["uplink_buffer_bytes", "uplink_buffer_packets", "downlink_buffer_bytes", "wanted_ratio", "commands"];

#[test]
fn a_running_agent_is_asked_over_tls() {
    let Some((gateway, provider)) = Netns::with_provider("a_running_agent_is_asked_over_tls") else { return };
    let directory = tempfile::tempdir().unwrap();
    let config = secured(directory.path());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (authority, token) = (path("certificate.pem"), path("token"));
    let mut text = std::fs::read_to_string(&config).unwrap();
    text.push_str("name = \"dsl\"\nuplink-rate = \"2mbit\"\ndownlink-rate = \"10mbit\"\n");
    std::fs::write(&config, text).unwrap();
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let trust = ["--cacert", authority.as_str(), "--header", bearer.as_str()];
    let origin = "https://192.0.2.1:9924";
    let mut agent = Agent::start_guarded(&gateway, &["--config", &config], origin, &trust);
    agent.wait_attached("dsl", gateway.index("wan0"));

    let advise = |arguments: &[&str]| outcome(provider.command(PENDULUM).arg("advise").args(arguments));
    let known = ["--url", origin, "--token-file", &token, "--ca", &authority];
    let (code, out, err) = advise(&known);
    // A round trip has to be measured before there is anything to advise. Questions pass the device too: a slow machine may have
    // measured one of theirs.
    if code == 0 {
        assert!(agent.link("dsl")["base_round_trip_s"].is_f64(), "{out}");
    } else {
        assert_eq!((code, out.as_str()), (69, ""), "{err}");
        assert!(err.contains("round trip without queues of link dsl") && err.contains("--rtt"), "{err}");
    }
    let _talk = Talk::start(&gateway, &provider);
    agent.wait_until("a base round trip", |agent| agent.link("dsl")["base_round_trip_s"].is_f64());
    let (code, out, err) = advise(&[&known[..], &["--rtt", "40ms", "--format", "json"]].concat());
    assert_eq!((code, err.as_str()), (0, ""));
    let advice: Value = serde_json::from_str(&out).unwrap();
    let plain = ["--uplink-rate", "2mbit", "--downlink-rate", "10mbit", "--rtt", "40ms", "--wan", "wan0"];
    let (_, expected, _) = advise(&[&plain[..], &["--format", "json"]].concat());
    assert_eq!(advice, serde_json::from_str::<Value>(&expected).unwrap());

    // All of it measured: as the agent itself advises. The smallest round trip may fall between two looks.
    agent.wait_until("the same advice", |agent| {
        let (code, out, err) = advise(&[&known[..], &["--format", "json"]].concat());
        let own = agent.link("dsl")["advice"].clone();
        if own.is_null() {
            return false;
        }
        assert_eq!((code, err.as_str()), (0, ""));
        let told: Value = serde_json::from_str(&out).unwrap();
        COMMON.iter().all(|field| told[field] == own[field])
    });
    let (code, out, _) = advise(&known);
    assert_eq!(code, 0);
    for part in
        ["Link dsl on wan0, as measured: 10.0 Mbit/s down, 2.00 Mbit/s up", "rates by config", "dev wan0"]
    {
        assert!(out.contains(part), "{part} in\n{out}");
    }

    for (arguments, code, part) in [
        (&["--url", origin, "--token-file", &token][..], 69, "--ca FILE"),
        (&["--url", origin, "--ca", &authority], 69, "the agent wants a token"),
        (&["--url", "http://192.0.2.1:9924"], 69, "https://"),
        (&["--url", "https://192.0.2.1:9", "--ca", &authority], 69, "is the agent running there"),
        (&["--url", "http://192.0.2.1:9924", "--ca", &authority], 64, "would begin with https://"),
        (&["--url", origin, "--ca", &token], 65, "holds no certificate"),
        (&["--url", origin, "--ca", "/nonexistent"], 66, "/nonexistent"),
        (&[&known[..], &["--link", "lte"]].concat(), 64, "it has dsl"),
        (&[&plain[..], &["--ca", &authority]].concat(), 64, "--url"),
        (&[&plain[..], &["--link", "dsl"]].concat(), 64, "--url"),
    ] {
        let (ended, out, err) = advise(arguments);
        assert_eq!((ended, out.as_str()), (code, ""), "{arguments:?}: {err}");
        assert!(err.contains(part), "{arguments:?}: {err}");
    }
    top_over_tls(&provider, &known);
}

fn top_over_tls(provider: &Netns, known: &[&str; 6]) {
    if !crate::top::have_tmux("a_running_agent_is_asked_over_tls") {
        return;
    }
    let quoted = known.map(|argument| format!("'{argument}'")).join(" ");
    let terminal = Terminal::start(provider, (100, 30), &quoted);
    terminal.wait_for(&["dsl on wan0", "▲ up", "https://192.0.2.1:9924", "192.0.2.2:5201"]);
    drop(terminal);
    let stranger = Terminal::start(provider, (100, 30), "--url https://192.0.2.1:9924");
    stranger.wait_for(&["its certificate is not believed", "--ca FILE"]);
}
