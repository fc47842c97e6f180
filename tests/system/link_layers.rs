//! WAN devices without link header, VLAN devices, and devices that carry tagged frames.

use serde_json::Value;

use crate::agent::Agent;
use crate::craft::{self, LinkLayer, Tcp, flag};
use crate::netns::Netns;
use crate::packet_socket::{PacketSocket, Tun};
use crate::rig::{is_possible, pair};
use crate::tcp::Transfer;

/// A connection of 3 segments each way: opened, a request, an answer.
fn conversation() -> (Vec<Tcp>, Vec<Tcp>) {
    let up = vec![
        craft::up().seq(99).ack(0).flags(flag::SYN),
        craft::up().seq(100).ack(500),
        craft::up().seq(100).ack(500).payload(200),
    ];
    let down = vec![
        craft::down().seq(499).ack(100).flags(flag::SYN | flag::ACK),
        craft::down().seq(500).ack(100),
        craft::down().seq(500).ack(300).payload(1000),
    ];
    (up, down)
}

fn count(link: &Value, direction: &str, class: &str) -> u64 {
    link["directions"][direction]["segments"][class].as_u64().unwrap()
}

/// Sends the [`conversation`], one segment after the other.
fn converse(agent: &mut Agent<'_>, name: &str, mut up: impl FnMut(Tcp), mut down: impl FnMut(Tcp)) {
    let seen = |agent: &Agent<'_>, way: &str| {
        let link = agent.link(name);
        let classes = link["directions"][way]["segments"].as_object().unwrap();
        classes.values().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    let (there, back) = conversation();
    for (number, (there, back)) in (1..).zip(there.into_iter().zip(back)) {
        up(there);
        agent.wait_until("the segment is counted", |agent| seen(agent, "up") == number);
        down(back);
        agent.wait_until("the answer is counted", |agent| seen(agent, "down") == number);
    }
}

fn assert_nothing_lost(link: &Value) {
    let losses = link["losses"].as_object().unwrap();
    assert!(losses.values().all(|count| count == 0), "{losses:?}");
}

/// The [`conversation`] has been seen, once.
fn assert_conversation(agent: &mut Agent<'_>, name: &str) {
    let link = agent.link(name);
    assert_nothing_lost(&link);
    for direction in ["up", "down"] {
        let seen = ["syn", "ack", "data", "non_tcp"].map(|class| count(&link, direction, class));
        assert_eq!(seen, [1, 1, 1, 0], "{direction}: {link:#}");
    }
    agent.wait_until("the flow is swept", |agent| {
        agent.json("/api/v1/flows")["flows"][0]["down"]["payload_bytes"] == 1000
    });
    let flow = &agent.json("/api/v1/flows")["flows"][0];
    assert_eq!((&flow["client"], &flow["server"]), (&"192.0.2.10:40000".into(), &"198.51.100.20:80".into()));
    assert_eq!(flow["up"]["payload_bytes"], 200);
}

#[test]
fn a_tun_device_carries_raw_ip() {
    let Some(gateway) = Netns::new("a_tun_device_carries_raw_ip") else { return };
    let mut tun = Tun::new(&gateway, "tun0");
    let mut agent = Agent::start(&gateway, &["--wan", "tun0"]);
    agent.wait_attached("tun0", gateway.index("tun0"));
    assert_eq!(agent.link("tun0")["hooks"]["link_layer"], "raw-ip");
    let sender = PacketSocket::ipv4(&gateway, "tun0");
    converse(
        &mut agent,
        "tun0",
        |packet| sender.send(&packet.build(LinkLayer::RawIp).bytes),
        |packet| tun.receive(&packet.build(LinkLayer::RawIp).bytes),
    );
    assert_conversation(&mut agent, "tun0");
}

#[test]
fn tags_in_the_frame_are_stepped_over() {
    for tags in [&[(0x8100, 7)][..], &[(0x88a8, 8), (0x8100, 7)][..]] {
        let Some((gateway, provider)) = pair("tags_in_the_frame_are_stepped_over") else { return };
        let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
        agent.wait_attached("wan0", gateway.index("wan0"));
        let (sender, remote) =
            (PacketSocket::ethernet(&gateway, "wan0"), PacketSocket::ethernet(&provider, "isp"));
        let frame = |packet: Tcp| {
            let tagged = tags.iter().fold(packet, |packet, &(kind, id)| packet.vlan(kind, id));
            tagged.build(LinkLayer::Ethernet).bytes
        };
        converse(
            &mut agent,
            "wan0",
            |packet| sender.send(&frame(packet)),
            |packet| remote.send(&frame(packet)),
        );
        assert_conversation(&mut agent, "wan0");
    }
}

#[test]
fn a_vlan_device_and_its_parent_see_the_same_tcp() {
    let test = "a_vlan_device_and_its_parent_see_the_same_tcp";
    let Some((gateway, provider)) = pair(test) else { return };
    let mut add = gateway.command("ip");
    if !is_possible(test, add.args("link add link wan0 name vlan9 type vlan id 9".split(' '))) {
        return;
    }
    for (netns, parent, address) in [(&gateway, "wan0", "203.0.113.1"), (&provider, "isp", "203.0.113.2")] {
        netns.ip(&format!("link add link {parent} name vlan7 type vlan id 7"));
        netns.ip("link set dev vlan7 addrgenmode none");
        netns.ip(&format!("address add {address}/24 dev vlan7"));
        netns.ip("link set dev vlan7 up");
    }
    let config = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(config.path(), "[[link]]\nwan = \"wan0\"\n[[link]]\nwan = \"vlan7\"\n").unwrap();
    let mut agent = Agent::start(&gateway, &["--config", config.path().to_str().unwrap()]);
    for device in ["wan0", "vlan7"] {
        agent.wait_attached(device, gateway.index(device));
        assert_eq!(agent.link(device)["hooks"]["link_layer"], "ethernet");
    }
    let transfer = Transfer::between(&gateway, &provider, "203.0.113.2:5201");
    transfer.send(2_000_000);
    assert_eq!(transfer.finish(), 2_000_000);

    for device in ["wan0", "vlan7"] {
        agent.wait_until("the transfer is counted", |agent| {
            count(&agent.link(device), "up", "fin") + count(&agent.link(device), "down", "fin") >= 1
        });
    }
    // The last ACK may be on its way still, and the links are read one after the other.
    let both = |agent: &Agent<'_>| ["wan0", "vlan7"].map(|device| agent.link(device));
    agent.wait_until("both have seen the same", |agent| {
        let [parent, vlan] = both(agent);
        ["up", "down"]
            .iter()
            .all(|&way| parent["directions"][way]["segments"] == vlan["directions"][way]["segments"])
    });
    let links = both(&agent);
    for link in &links {
        // What comes late, on a busy machine, is sent again.
        assert!(link["directions"]["up"]["payload_bytes"].as_u64() >= Some(2_000_000));
        assert!(count(link, "up", "syn") >= 1 && count(link, "down", "syn") >= 1);
        assert_nothing_lost(link);
    }
    assert_eq!(links[0]["directions"]["up"]["payload_bytes"], links[1]["directions"]["up"]["payload_bytes"]);
}
