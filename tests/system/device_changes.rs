//! The WAN device comes, goes and changes while traffic runs: what was counted stays counted, and a second link does not
//! notice.

use std::io::Write as _;

use crate::agent::{Agent, KernelObject};
use crate::craft::{self, LinkLayer};
use crate::metrics::Samples;
use crate::netns::{Netns, run};
use crate::packet_socket::PacketSocket;
use crate::rig::{attached_to, pair, wire};
use crate::tcp::{Background, Transfer};

const FRAMES: u64 = 50;

/// Looks at `/metrics` again and again; no counter ever goes back.
#[derive(Default)]
struct Watch {
    latest: Samples,
}

impl Watch {
    /// The value of one sample now.
    fn get(&mut self, agent: &Agent<'_>, name: &str) -> f64 {
        let (status, text) = agent.get("/metrics").unwrap();
        assert_eq!(status, 200);
        let samples = Samples::parse(&text);
        let value = samples.get(name);
        self.latest.update(samples);
        value
    }

    fn wait_for(&mut self, agent: &mut Agent<'_>, name: &str, value: f64) {
        agent.wait_until(&format!("{name} is {value}"), |agent| self.get(agent, name) == value);
    }
}

/// Data both ways over the first link: it is quiet otherwise, so the counts are exact.
fn send_both_ways(gateway: &Netns, provider: &Netns, round: u64) {
    for (netns, device, packet) in
        [(gateway, "wan0", craft::up as fn() -> craft::Tcp), (provider, "isp", craft::down)]
    {
        PacketSocket::ethernet(netns, device).send_all((0..FRAMES).map(|number| {
            let seq = 1 + ((round * FRAMES + number) * 100) as u32;
            packet().seq(seq).payload(100).build(LinkLayer::Ethernet).bytes
        }));
    }
}

fn data(direction: &str) -> String {
    format!("pendulum_segments_total{{link=\"dsl\",direction=\"{direction}\",class=\"data\"}}")
}

/// The agent's links to a device (none where the kernel has no TCX), and the programs and filters there.
fn hooked_to(agent: &Agent<'_>, gateway: &Netns, device: &str) -> (Vec<KernelObject>, String) {
    let ifindex = Some(gateway.index(device));
    let links = agent.kernel_objects().into_iter().filter(|object| object.ifindex == ifindex);
    (links.collect(), attached_to(gateway, device))
}

const DSL_UP: &str = "pendulum_link_up{link=\"dsl\"}";
const LTE_UP: &str = "pendulum_link_up{link=\"lte\"}";

#[test]
fn one_link_changes_and_the_other_does_not_notice() {
    let Some((gateway, provider)) = pair("one_link_changes_and_the_other_does_not_notice") else { return };
    wire(&gateway, "wan1", &provider, "isp1", "198.51.100");
    let config = tempfile::NamedTempFile::new().unwrap();
    let links = "[[link]]\nname = \"dsl\"\nwan = \"wan0\"\n[[link]]\nname = \"lte\"\nwan = \"wan1\"\n";
    std::fs::write(config.path(), links).unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    agent.wait_attached("dsl", gateway.index("wan0"));
    agent.wait_attached("lte", gateway.index("wan1"));
    let traffic = Background::start(Transfer::between(&gateway, &provider, "198.51.100.2:5201"));
    let undisturbed = hooked_to(&agent, &gateway, "wan1");
    for program in ["pendulum_up", "pendulum_down"] {
        assert!(undisturbed.1.contains(program), "{undisturbed:?}");
    }
    let mut watch = Watch::default();
    let mut round = 0;
    let mut assert_counts = |agent: &mut Agent<'_>, watch: &mut Watch| {
        send_both_ways(&gateway, &provider, round);
        round += 1;
        for direction in ["up", "down"] {
            watch.wait_for(agent, &data(direction), (round * FRAMES) as f64);
        }
    };
    assert_counts(&mut agent, &mut watch);

    let first = hooked_to(&agent, &gateway, "wan0");
    for _ in 0..5 {
        gateway.ip("link set dev wan0 down");
        watch.wait_for(&mut agent, DSL_UP, 0.0);
        gateway.ip("link set dev wan0 up");
        watch.wait_for(&mut agent, DSL_UP, 1.0);
    }
    // Too quick to be followed one by one.
    for _ in 0..20 {
        gateway.ip("link set dev wan0 down");
        gateway.ip("link set dev wan0 up");
    }
    watch.wait_for(&mut agent, DSL_UP, 1.0);
    assert_eq!(hooked_to(&agent, &gateway, "wan0"), first, "the programs are attached as before the flaps");
    assert_counts(&mut agent, &mut watch);

    for _ in 0..3 {
        gateway.ip("link delete dev wan0");
        watch.wait_for(&mut agent, DSL_UP, 0.0);
        // A device that is deleted goes down first.
        agent.wait_until("the device is missed", |agent| agent.link("dsl")["device"] == "missing");
        let lost = agent.link("dsl");
        assert_eq!(lost["attached"], false);
        assert!(lost["trouble"].as_str().unwrap().contains("`wan0` does not exist"), "{lost}");
        assert_eq!(agent.get("/readyz").map(|(status, _)| status), Some(200), "the other link is ready");
        wire(&gateway, "wan0", &provider, "isp", "192.0.2");
        agent.wait_attached("dsl", gateway.index("wan0"));
        watch.wait_for(&mut agent, DSL_UP, 1.0);
        assert_counts(&mut agent, &mut watch);
    }

    gateway.ip("link set dev wan0 name moved0");
    watch.wait_for(&mut agent, DSL_UP, 0.0);
    assert!(!attached_to(&gateway, "moved0").contains("pendulum_"), "a device of another name is let go");
    gateway.ip("link set dev moved0 name wan0");
    watch.wait_for(&mut agent, DSL_UP, 1.0);
    assert_counts(&mut agent, &mut watch);

    assert_eq!(hooked_to(&agent, &gateway, "wan1"), undisturbed);
    assert_eq!(watch.get(&agent, LTE_UP), 1.0);
    traffic.assert_flows();
    let (sent, received) = traffic.finish();
    assert_eq!(sent, received);
    let up = |agent: &Agent<'_>| agent.link("lte")["directions"]["up"].clone();
    agent.wait_until("the transfer is counted to its end", |agent| {
        let up = up(agent);
        let retransmitted = up["retransmitted_segments"].as_u64().unwrap() * 1448;
        let payload = up["payload_bytes"].as_u64().unwrap();
        payload >= sent && payload <= sent + retransmitted
    });
    assert!(agent.end("TERM").success());
}

/// Changes of devices that the kernel had no room to report, by `/proc/net/netlink`.
fn unreported(netns: &Netns) -> u64 {
    let sockets = run(netns.command("cat").arg("/proc/net/netlink"));
    sockets.lines().skip(1).map(|line| line.split_whitespace().nth(8).unwrap().parse::<u64>().unwrap()).sum()
}

/// Containers come and go by the thousand while the agent gets no processor; the WAN device is replaced last.
#[test]
fn a_device_that_was_replaced_without_a_report_is_followed() {
    let Some((gateway, provider)) = pair("a_device_that_was_replaced_without_a_report_is_followed") else {
        return;
    };
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let mut changes = tempfile::NamedTempFile::new().unwrap();
    gateway.ip("link add other0 type bridge");
    for number in 0..2_000 {
        writeln!(changes, "link set dev other0 mtu {}", 1_400 + number % 2).unwrap();
    }
    agent.signal("STOP");
    gateway.ip(&format!("-batch {}", changes.path().display()));
    let lost = unreported(&gateway);
    gateway.ip("link delete dev wan0");
    wire(&gateway, "wan0", &provider, "isp", "192.0.2");
    assert!(lost > 0 && unreported(&gateway) > lost, "the kernel reported everything");
    agent.signal("CONT");
    agent.wait_attached("wan0", gateway.index("wan0"));
    assert!(agent.end("TERM").success());
}
