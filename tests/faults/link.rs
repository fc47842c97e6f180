//! The device and its qdisc change under the agent.

use crate::agent::Agent;
use crate::netns::run;
use crate::rig::{is_possible, pair, ping};

fn sent(agent: &Agent<'_>) -> u64 {
    agent.link("wan0")["directions"]["up"]["bytes"].as_u64().unwrap()
}

#[test]
fn another_mtu_and_another_qdisc_are_followed() {
    let test = "another_mtu_and_another_qdisc_are_followed";
    let Some((gateway, provider)) = pair(test) else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    let index = gateway.index("wan0");
    agent.wait_attached("wan0", index);
    for mtu in ["1280", "9000", "1500"] {
        gateway.ip(&format!("link set dev wan0 mtu {mtu}"));
        let before = sent(&agent);
        ping(&provider, "192.0.2.1", 5);
        agent.wait_until("the answers are counted", |agent| sent(agent) >= before + 5 * 98);
    }
    for (qdisc, kind) in [
        // What does not shape is not the link's buffer: that stands elsewhere.
        ("root bfifo limit 30000", None),
        ("root tbf rate 10mbit burst 5k latency 50ms", Some("tbf")),
        ("root handle 1: htb default 1", None),
        ("root pfifo limit 10", None),
    ] {
        let arguments = format!("qdisc replace dev wan0 {qdisc}");
        if !is_possible(test, gateway.command("tc").args(arguments.split(' '))) {
            continue;
        }
        agent.wait_until("the new qdisc is seen", |agent| {
            let link = agent.link("wan0");
            let vantage = if kind.is_some() { "own_queue" } else { "before_uplink_buffer" };
            link["directions"]["up"]["queue"]["qdisc"].as_str() == kind && link["vantage"] == vantage
        });
        let before = sent(&agent);
        ping(&provider, "192.0.2.1", 5);
        agent.wait_until("the answers are counted", |agent| sent(agent) >= before + 5 * 98);
        // Nothing stands in the queue once everything is answered.
        if kind.is_some() {
            agent.wait_until("the queue is empty", |agent| {
                agent.link("wan0")["directions"]["up"]["queue"]["packets"] == 0
            });
        }
    }
    run(gateway.command("tc").args("qdisc del dev wan0 root".split(' ')));
    ping(&provider, "192.0.2.1", 5);
    assert_eq!(agent.link("wan0")["hooks"]["ifindex"], index, "it stayed attached through all of it");
    assert!(agent.end("TERM").success(), "{}", agent.log());
}

/// Sends a megabyte out of wan0; with `around`, past traffic control and so past the programs.
fn send_frames(gateway: &crate::netns::Netns, around: bool) {
    let script = format!(
        "import socket
frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
frames.setsockopt(263, 20, {})
frames.bind(('wan0', 0x0800))
for _ in range(1000): frames.send(bytes(12) + b'\\x08\\x00' + bytes(986))",
        u8::from(around)
    );
    run(gateway.command("python3").args(["-c", &script]));
}

#[test]
fn what_passes_around_the_programs_is_reported() {
    let Some((gateway, _provider)) = pair("what_passes_around_the_programs_is_reported") else { return };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    // A first look at the device's counters has to come before the frames.
    agent.wait_until("two looks", |agent| agent.json("/api/v1/state")["uptime_s"].as_f64() > Some(2.5));
    let unseen = |agent: &Agent<'_>| agent.link("wan0")["directions"]["up"]["unseen_ratio"].as_f64();
    send_frames(&gateway, false);
    agent.wait_until("all of it was seen", |agent| unseen(agent).is_some_and(|ratio| ratio < 0.01));
    send_frames(&gateway, true);
    // Two megabytes, of which one was seen; later the first is forgotten.
    agent.wait_until("half of it was not", |agent| unseen(agent).is_some_and(|ratio| ratio > 0.45));
    let link = agent.link("wan0");
    assert!(link["directions"]["up"]["bytes"].as_u64() < Some(1_500_000), "{link:#}");
    let told = link["degraded"].as_array().unwrap();
    assert!(told.iter().any(|one| one.as_str().unwrap().contains("bypassed the agent")), "{told:?}");
    let (_, metrics) = agent.get("/metrics").unwrap();
    assert!(metrics.contains("pendulum_unseen_bytes_ratio{link=\"wan0\",direction=\"up\"} 0."), "{metrics}");
}
