//! The object against the agent that loads it.

use pendulum::bpf::{LoadOptions, PACKET_OBJECT, SHAPE_OBJECT};

use crate::craft::{self, LinkLayer};
use crate::kernel::Kernel;

#[test]
fn object_has_what_the_agent_asks_for() {
    let object = aya_obj::Object::parse(PACKET_OBJECT).expect("a BPF object");
    let mut programs: Vec<_> = object.programs.keys().map(String::as_str).collect();
    programs.sort_unstable();
    assert_eq!(programs, ["pendulum_down", "pendulum_up", "pendulum_xdp"]);
    for map in ["flows", "nursery", "blank_flow", "counters", "bursts", "stats"] {
        assert!(object.maps.contains_key(map), "no map {map}");
    }
}

/// The same frames by XDP give the same counters as by TC ingress.
#[test]
fn xdp_measures_what_tc_ingress_measures() {
    let mut by_xdp = Kernel::with(LoadOptions { xdp_ingress: true, ..LoadOptions::default() });
    let mut by_tc = Kernel::new(LinkLayer::Ethernet);
    let packets = [
        craft::down().flags(craft::flag::SYN).build(LinkLayer::Ethernet),
        craft::down().seq(1).ack(1).payload(1000).ts(1, 1).build(LinkLayer::Ethernet),
        craft::down().seq(1001).ack(1).build(LinkLayer::Ethernet),
        craft::down().seq(1).ack(1).payload(1000).ts(2, 1).build(LinkLayer::Ethernet),
    ];
    for frame in &packets {
        by_xdp.observe_xdp(&frame.bytes);
        by_tc.observe(frame).expect("long enough");
    }
    let (xdp, tc) = (by_xdp.state(), by_tc.state());
    assert_eq!(xdp.counters.down.segments, tc.counters.down.segments);
    assert_eq!(xdp.counters.down.bytes, tc.counters.down.bytes);
    assert_eq!(xdp.counters.down.retransmitted_segments, tc.counters.down.retransmitted_segments);
    assert_eq!(xdp.stats, tc.stats);
    assert_eq!(xdp.nursery.len(), 1);
}

/// Tables of 1,024 flows, and a conversation in them.
fn with_a_conversation() -> Kernel {
    let mut kernel = Kernel::with(LoadOptions {
        max_flows: 1024,
        nursery: 1024,
        replay_time: true,
        ..LoadOptions::default()
    });
    for packet in [craft::up().ack(1), craft::down().ack(101)] {
        kernel.observe(&packet.seq(1).payload(100).build(LinkLayer::Ethernet)).expect("long enough");
    }
    kernel
}

/// A flood of half-seen flows turns the nursery over and leaves a conversation alone, however silent it is.
#[test]
fn flood_of_syns_does_not_displace_a_conversation() {
    let mut kernel = with_a_conversation();
    for n in 0..20_000_u32 {
        let mut frame = craft::up().flags(craft::flag::SYN).seq(n).build(LinkLayer::Ethernet);
        // Source port: behind 14 bytes of Ethernet and 20 of IPv4; source address at byte 26.
        frame.bytes[34..36].copy_from_slice(&(n as u16).to_be_bytes());
        frame.bytes[28..30].copy_from_slice(&((n >> 16) as u16 + 1).to_be_bytes());
        kernel.observe(&frame).expect("long enough");
    }
    let state = kernel.state();
    assert_eq!(state.flows.len(), 1, "the conversation is still there, and only it");
    assert!(state.nursery.len() <= 1024, "the nursery is bounded");
    let nursed = state.stats[pendulum::bpf::abi::PENDULUM_FLOW_NURSED as usize];
    assert_eq!(nursed, 20_001, "every flow that was nursed is counted, so evictions can be told");
    assert_eq!(kernel.programs().maps()[0].capacity, 1024);
}

/// The JIT of arm64 refuses every other atomic operation before Linux 5.18. Counting packets and shaping must work there; the queue's
/// tracepoints exchange words with readers, and there netlink takes their place.
#[test]
fn packets_are_counted_and_shaped_by_additions_only() {
    const STORE: u8 = 3;
    const ATOMIC: u8 = 6 << 5;
    for bytes in [PACKET_OBJECT, SHAPE_OBJECT] {
        let object = aya_obj::Object::parse(bytes).expect("a BPF object");
        for function in object.functions.values() {
            let atomics =
                function.instructions.iter().filter(|i| i.code & 7 == STORE && i.code & 0xe0 == ATOMIC);
            let others = atomics.filter(|instruction| instruction.imm != 0).count();
            assert_eq!(others, 0, "{}: atomic operations that are no addition", function.name);
        }
    }
}

/// A scan of closed ports: each SYN is refused, and the conversation stays.
#[test]
fn refusals_do_not_displace_a_conversation() {
    let mut kernel = with_a_conversation();
    for port in 1_024..9_216 {
        let syn = craft::up().home_port(port).flags(craft::flag::SYN).seq(7);
        let refusal = craft::down().home_port(port).flags(craft::flag::RST | craft::flag::ACK).seq(0).ack(8);
        for packet in [syn, refusal] {
            kernel.observe(&packet.build(LinkLayer::Ethernet)).expect("long enough");
        }
    }
    let state = kernel.state();
    assert_eq!(state.flows.len(), 1, "the conversation is still there, and only it");
    assert!(state.nursery.len() <= 1024, "the nursery is bounded");
}
