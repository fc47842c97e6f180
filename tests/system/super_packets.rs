//! Packets that are not what a plain frame is: headers outside the linear part, and many segments in one.

use std::net::TcpListener;
use std::path::Path;

use serde_json::Value;

use crate::agent::Agent;
use crate::craft::{self, LinkLayer};
use crate::foreign::{Count, Counter, Hook};
use crate::inside::inside;
use crate::netns::Netns;
use crate::packet_socket::PacketSocket;
use crate::rig::{packets, pair, wait_until, wire};
use crate::tcp::Transfer;

/// The Ethernet header, and nothing else.
const LINEAR: u16 = 14;
const FRAMES: u64 = 20;
const PAYLOAD: u64 = 6_000;

/// Sends frames of which only the Ethernet header is in the linear part. A program in front of the agent sees whether they
/// are so.
fn send_non_linear(netns: &Netns, device: &str, watch: Option<&Counter>, packet: impl Fn() -> craft::Tcp) {
    let socket = PacketSocket::ethernet(netns, device).with_virtio_header();
    for number in 0..FRAMES {
        let seq = 1 + (number * PAYLOAD) as u32;
        let frame = packet().seq(seq).ts(1, 1).payload(PAYLOAD as usize).build(LinkLayer::Ethernet);
        socket.send_non_linear(&frame.bytes, LINEAR);
    }
    if let Some(watch) = watch {
        wait_until("the frames have arrived as they are wanted", || watch.packets() == FRAMES);
    }
}

#[test]
fn headers_outside_the_linear_part_are_read() {
    let Some((gateway, provider)) = pair("headers_outside_the_linear_part_are_read") else { return };
    gateway.ip("link set dev wan0 mtu 9000");
    provider.ip("link set dev isp mtu 9000");
    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let linear = Count::LinearUpTo(LINEAR.into());
    let [ingress, egress] =
        [Hook::TcxIngress, Hook::TcxEgress].map(|hook| Counter::attach(&gateway, "wan0", hook, linear));
    send_non_linear(&provider, "isp", ingress.as_ref(), craft::down);
    send_non_linear(&gateway, "wan0", egress.as_ref(), craft::up);

    agent.wait_until("all are counted", |agent| {
        let ways = &agent.link("wan0")["directions"];
        ["up", "down"].iter().all(|way| ways[way]["payload_bytes"].as_u64() >= Some(FRAMES * PAYLOAD))
    });
    let link = agent.link("wan0");
    for way in ["up", "down"] {
        let figures = &link["directions"][way];
        assert_eq!(figures["segments"]["data"], FRAMES, "{way}: {figures:#}");
        assert_eq!(figures["payload_bytes"], FRAMES * PAYLOAD);
        // Ethernet 14, IPv4 20, TCP with timestamps 32.
        assert_eq!(figures["bytes"], FRAMES * (PAYLOAD + 66));
    }
    assert!(link["losses"].as_object().unwrap().values().all(|count| count == 0), "{}", link["losses"]);
}

/// Segments that a host has sent, by its own count; one super-packet counts as the segments in it.
fn segments_sent(netns: &Netns) -> u64 {
    let text = inside(netns, || std::fs::read_to_string(Path::new("/proc/thread-self/net/snmp"))).unwrap();
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let column = names.split(' ').position(|name| name == "OutSegs").unwrap();
    values.split(' ').nth(column).unwrap().parse().unwrap()
}

const UPLOAD: u64 = 150_000_000;
const DOWNLOAD: u64 = 100_000_000;

#[test]
fn super_packets_count_as_the_segments_in_them() {
    let test = "super_packets_count_as_the_segments_in_them";
    let Some((gateway, provider)) = pair(test) else { return };
    let Some(home) = Netns::new(test) else { return };
    wire(&gateway, "lan0", &home, "eth0", "198.51.100");
    inside(&gateway, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
    home.ip("route add default via 198.51.100.1");
    provider.ip("route add default via 192.0.2.1");

    let mut agent = Agent::start(&gateway, &["--wan", "wan0"]);
    agent.wait_attached("wan0", gateway.index("wan0"));
    let sent = || [segments_sent(&home), segments_sent(&provider)];
    let (before, before_packets) = (sent(), packets(&gateway, "wan0"));

    let upload = Transfer::between(&home, &provider, "192.0.2.2:5201");
    upload.send(UPLOAD);
    assert_eq!(upload.finish(), UPLOAD);
    let listener = inside(&provider, || TcpListener::bind("192.0.2.2:5202")).unwrap();
    let stream = inside(&home, || std::net::TcpStream::connect("192.0.2.2:5202")).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    let download = Transfer::over(accepted, stream);
    download.send(DOWNLOAD);
    assert_eq!(download.finish(), DOWNLOAD);

    let closing = |agent: &Agent<'_>, way: &str| {
        agent.link("wan0")["directions"][way]["segments"]["fin"].as_u64().unwrap()
    };
    agent.wait_until("both connections are closed", |agent| {
        closing(agent, "up") + closing(agent, "down") >= 2
    });
    let mut last = Value::Null;
    wait_until("nothing passes any more", || {
        let now = agent.link("wan0")["directions"].clone();
        let quiet = now == last;
        last = now;
        std::thread::sleep(std::time::Duration::from_millis(400));
        quiet
    });

    let (after, after_packets) = (sent(), packets(&gateway, "wan0"));
    let passed = [after_packets.1 - before_packets.1, after_packets.0 - before_packets.0];
    for (way, i, at_least) in [("up", 0, UPLOAD), ("down", 1, DOWNLOAD)] {
        let figures = &last[way];
        let segments = figures["segments"].as_object().unwrap();
        let counted: u64 = segments.values().map(|count| count.as_u64().unwrap()).sum();
        let truth = after[i] - before[i];
        println!("{way}: {counted} segments counted, {truth} sent, in {} packets", passed[i]);
        assert!(passed[i] * 2 < truth, "{way}: there were super-packets");
        assert!(counted.abs_diff(truth) * 100 <= truth, "{way}: {counted} counted, {truth} sent");
        let payload = figures["payload_bytes"].as_u64().unwrap();
        assert!(payload >= at_least, "{way}: {payload}");
    }
}
