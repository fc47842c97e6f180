//! Flows that the gateway forwards through a flowtable of nftables (Documentation/networking/nf_flowtable.rst).

use std::process::Stdio;

use crate::agent::{Agent, PENDULUM};
use crate::netns::{Netns, outcome, run};
use crate::rig::{packets, pair, wire};
use crate::tcp::Transfer;

/// Counts what still takes the long way through the forwarding hook.
const RULES: &str = "table inet shortcut {
    flowtable short { hook ingress priority 0; devices = { lan0, wan0 }; }
    counter long_way { }
    chain forward {
        type filter hook forward priority 0;
        counter name long_way
        meta l4proto tcp flow add @short
    }
}";
const BYTES: u64 = 3_000_000;

fn long_way(gateway: &Netns) -> u64 {
    let text = run(gateway.command("nft").args(["-j", "list", "counter", "inet", "shortcut", "long_way"]));
    let listed: serde_json::Value = serde_json::from_str(&text).unwrap();
    let counters = listed["nftables"].as_array().unwrap();
    counters.iter().find_map(|entry| entry["counter"]["packets"].as_u64()).unwrap()
}

/// Whether the kernel takes the rules; says why if not.
fn load_rules(test: &str, gateway: &Netns) -> bool {
    use std::io::Write as _;
    let mut nft = gateway.command("nft");
    let spawned = nft.args(["-f", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("SKIPPED {test}: nft is not installed");
        return false;
    };
    child.stdin.take().unwrap().write_all(RULES.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
        assert!(!reason.contains("syntax"), "{reason}");
        eprintln!("SKIPPED {test}: the kernel has no flowtables: {reason}");
    }
    output.status.success()
}

#[test]
fn a_software_flowtable_hides_nothing() {
    let test = "a_software_flowtable_hides_nothing";
    let Some((gateway, provider)) = pair(test) else { return };
    let Some(home) = Netns::new(test) else { return };
    wire(&home, "eth0", &gateway, "lan0", "10.0.0");
    home.ip("route add default via 10.0.0.2");
    provider.ip("route add 10.0.0.0/24 via 192.0.2.1");
    run(gateway.command("sysctl").args(["-q", "-w", "net.ipv4.ip_forward=1"]));
    if !load_rules(test, &gateway) {
        return;
    }
    let mut agent = Agent::start(&gateway, &["--wan", "wan0", "--lan", "lan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    agent.wait_until("two looks", |agent| agent.json("/api/v1/state")["uptime_s"].as_f64() > Some(2.5));

    // The rest of a connection goes the short way once both ends have been heard.
    let up = Transfer::between(&home, &provider, "192.0.2.2:5201");
    let down = Transfer::between(&provider, &home, "10.0.0.1:5202");
    up.send(BYTES);
    down.send(BYTES);
    assert_eq!((up.finish(), down.finish()), (BYTES, BYTES));
    let (received, sent) = packets(&gateway, "wan0");
    let long_way = long_way(&gateway);
    println!("wan0 received {received} and sent {sent} packets, {long_way} took the long way");
    assert!(
        long_way * 10 < received + sent,
        "{long_way} of {received} and {sent}: the flowtable is not used"
    );

    let link = |agent: &Agent<'_>| agent.link("wan0")["directions"].clone();
    for direction in ["up", "down"] {
        agent.wait_until("all of it is counted", |agent| {
            link(agent)[direction]["payload_bytes"].as_u64() >= Some(BYTES)
        });
        agent
            .wait_until("the device has been asked", |agent| link(agent)[direction]["unseen_ratio"].is_f64());
    }
    let directions = link(&agent);
    for direction in ["up", "down"] {
        let unseen = directions[direction]["unseen_ratio"].as_f64().unwrap();
        println!("{direction}: unseen {unseen}, RTT {}", directions[direction]["rtt"]);
        assert!(unseen < 0.01, "{direction}: {unseen} of the bytes came around the programs");
        // More than the handshake's; how many depends on how segments are merged on the way.
        assert!(directions[direction]["rtt"]["samples"].as_u64() > Some(2), "{directions:#}");
    }
    assert_eq!(agent.link("wan0")["flow_table"]["flows"], 2);
    assert!(agent.end("TERM").success(), "{}", agent.log());

    let (_, report, _) =
        outcome(gateway.command(PENDULUM).args(["doctor", "--wan", "wan0", "--format", "json"]));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "flow_offload").unwrap();
    assert!(check.to_string().contains("flowtable short") && check["status"] == "ok", "{check}");
}
