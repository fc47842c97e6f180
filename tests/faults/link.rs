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
        ("root bfifo limit 30000", "bfifo"),
        ("root tbf rate 10mbit burst 5k latency 50ms", "tbf"),
        ("root handle 1: htb default 1", "htb"),
        ("root pfifo limit 10", "pfifo"),
    ] {
        let arguments = format!("qdisc replace dev wan0 {qdisc}");
        if !is_possible(test, gateway.command("tc").args(arguments.split(' '))) {
            continue;
        }
        agent.wait_until("the new qdisc is seen", |agent| {
            agent.link("wan0")["directions"]["up"]["queue"]["qdisc"] == kind
        });
        let before = sent(&agent);
        ping(&provider, "192.0.2.1", 5);
        agent.wait_until("the answers are counted", |agent| sent(agent) >= before + 5 * 98);
        // Nothing stands in the queue once everything is answered.
        agent.wait_until("the queue is empty", |agent| {
            agent.link("wan0")["directions"]["up"]["queue"]["packets"] == 0
        });
    }
    run(gateway.command("tc").args("qdisc del dev wan0 root".split(' ')));
    ping(&provider, "192.0.2.1", 5);
    assert_eq!(agent.link("wan0")["hooks"]["ifindex"], index, "it stayed attached through all of it");
    assert!(agent.end("TERM").success(), "{}", agent.log());
}
