//! What fills a buffer that is no TCP: kernel and replay read the same protocol and port, and count the same bytes.

use std::collections::BTreeMap;

use pendulum::bpf::PortCounts;
use pendulum_model::protocol_port::ProtocolPort;
use pendulum_model::sample::Composition;
use pendulum_model::segment::Direction;

use crate::Replay;
use crate::craft::{CraftedFrame, LinkLayer, Tcp, down, up};
use crate::kernel::{Kernel, pin};

/// A datagram: its ports stand where TCP's do.
fn udp(packet: Tcp) -> Tcp {
    packet.protocol(17)
}

fn protocol_port(protocol: u8, port: u16) -> ProtocolPort {
    ProtocolPort { protocol, port: (port != 0).then_some(port) }
}

/// Both programs over the frames: composition and protocols with ports of each direction must be equal. Returns them.
fn both(link_layer: LinkLayer, frames: &[CraftedFrame]) -> [(Composition, BTreeMap<ProtocolPort, u64>); 2] {
    let kernel = Kernel::new(link_layer);
    let mut replay = Replay::new(link_layer);
    for frame in frames {
        kernel.run(frame, (0, 0));
        replay.observe(frame);
    }
    let counters = kernel.links().counters().expect("readable");
    let ports = kernel.links().ports().expect("readable");
    Direction::ALL.map(|x| {
        let ours = (counters[x].composition(), ports[x].since(&PortCounts::default()));
        let theirs = (replay.meter.counters[x].composition(), replay.meter.protocol_ports[x].clone());
        assert_eq!(ours, theirs, "{x:?}: kernel and replay");
        ours
    })
}

#[test]
fn each_kind_is_counted_where_it_belongs() {
    for link_layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let link = if link_layer == LinkLayer::Ethernet { 14 } else { 0 };
        let frames = [
            up().payload(1000),
            up().ack(1),
            udp(up().payload(200)),
            udp(up().v6().payload(200)),
            // The far end's port, also where it is the source.
            udp(down().payload(300)),
            // The first fragment shows its ports, a later one does not and is no UDP to us.
            udp(up().payload(400).fragment(0x2000)),
            udp(up().payload(500).fragment(0x00b9)),
            up().payload(600).protocol(50),
            down().payload(700).protocol(1),
        ]
        .map(|packet| packet.build(link_layer));
        let [up, down] = both(link_layer, &frames);
        // IPv4 and a TCP header, under which UDP's is hidden: 40 bytes; IPv6: 60.
        let udp_up = 3 * link + (40 + 200) + (60 + 200) + (40 + 400);
        let [esp, later] = [link + 40 + 600, link + 40 + 500];
        let composition =
            Composition { tcp_data: link + 1040, ack: link + 40, udp: udp_up, other: esp + later };
        assert_eq!(up.0, composition);
        assert_eq!(
            up.1,
            BTreeMap::from([
                (protocol_port(17, 80), udp_up),
                (protocol_port(17, 0), later),
                (protocol_port(50, 0), esp)
            ])
        );
        let [quic, icmp] = [link + 340, link + 740];
        assert_eq!(down.0, Composition { udp: quic, other: icmp, ..Composition::default() });
        assert_eq!(down.1, BTreeMap::from([(protocol_port(17, 80), quic), (protocol_port(1, 0), icmp)]));
    }
}

#[test]
fn a_datagram_of_segments_counts_each_header() {
    let frame = udp(up().payload(2988)).gso(3, 1000).build(LinkLayer::Ethernet);
    // 14 + 20 + 8 bytes of headers before each of three payloads; 2988 + 12 of payload behind the UDP header.
    let [up, _] = both(LinkLayer::Ethernet, &[frame]);
    assert_eq!(up.0, Composition { udp: 3 * 42 + 3000, ..Composition::default() });
}

#[test]
fn frames_that_are_no_ip_are_other_and_carried_by_nobody() {
    let arp = [[2; 6].as_slice(), &[4; 6], &[0x08, 0x06], &[0; 46]].concat();
    let frame = CraftedFrame { bytes: arp, ..up().build(LinkLayer::Ethernet) };
    let cut = udp(up().payload(100)).cut(20).build(LinkLayer::Ethernet);
    let [up, _] = both(LinkLayer::Ethernet, &[frame]);
    assert_eq!(up, (Composition { other: 60, ..Composition::default() }, BTreeMap::new()));
    assert!(cut.bytes.len() == 20, "TEST_RUN refuses it: read by the tests of the acceptance table");
}

#[test]
fn a_shared_place_belongs_to_whoever_sends_most() {
    // Their keys lead to the same place: 256 apart, and one bit of the low byte to make up for it.
    let [quic, other] = [443u16, 443 ^ 0x0101];
    let send = |port: u16, bytes: usize| {
        let mut frame = udp(up().payload(bytes)).build(LinkLayer::Ethernet);
        frame.bytes[36..38].copy_from_slice(&port.to_be_bytes());
        frame
    };
    // Each processor has its own places: on another one the second sender would have to wait once more.
    // SAFETY: no arguments, no memory.
    pin(unsafe { libc::sched_getcpu() } as usize);
    let kernel = Kernel::new(LinkLayer::Ethernet);
    let mut sent = 0;
    for round in 0..1000u64 {
        let frame = send(quic, 1400);
        sent += frame.bytes.len() as u64;
        kernel.run(&frame, (0, 0));
        if round % 3 == 0 {
            kernel.run(&send(other, 1000), (0, 0));
        }
    }
    let before = kernel.links().ports().expect("readable").up.clone();
    let counted = before.since(&PortCounts::default());
    assert_eq!(counted, BTreeMap::from([(protocol_port(17, quic), sent)]));
    // It stops, and the other one has its place after at most a megabyte.
    for _ in 0..2000 {
        kernel.run(&send(other, 1400), (0, 0));
    }
    let now = kernel.links().ports().expect("readable").up.since(&before);
    let (name, bytes) = now.iter().next().expect("counted");
    assert_eq!((now.len(), *name), (1, protocol_port(17, other)));
    let all = 2000 * (54 + 1400);
    assert!((all - (1 << 20)..all).contains(bytes), "{bytes} of {all}");
}
