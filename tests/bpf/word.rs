//! What the TC programs leave in a packet for the queue tracepoints, and what they leave alone.

use pendulum::bpf::LoadOptions;

use crate::craft::{CraftedFrame, LinkLayer, Tcp, down, flag, up};
use crate::kernel::{CB_BEFORE, Kernel};

/// By `bpf/common/mark.h`: magic 0x2a, direction, class, 24 bits of time in ticks of 4,096 ns.
const fn word(direction: u32, class: u32, time_ns: u64) -> u32 {
    0x2a << 26 | direction << 25 | class << 24 | (time_ns / 4096 % (1 << 24)) as u32
}

const UP: u32 = 0;
const DOWN: u32 = 1;
const DATA: u32 = 0;
const ACK: u32 = 1;

fn marking() -> Kernel {
    Kernel::with(LoadOptions { replay_time: true, queue_mark: true, ..LoadOptions::default() })
}

fn frame(packet: &Tcp) -> CraftedFrame {
    packet.build(LinkLayer::Ethernet)
}

#[test]
fn packets_carry_direction_class_and_time() {
    let mut kernel = marking();
    let packets = [
        (up().payload(100).at(4_096), UP, DATA),
        (down().payload(100).ack(101).at(8_192), DOWN, DATA),
        // Pure ACKs of every kind: plain, with a new window, duplicate, with SACK.
        (up().seq(101).ack(101).at(1_000_000), UP, ACK),
        (up().seq(101).ack(101).window(7).at(1_000_001), UP, ACK),
        (down().seq(101).payload(200).ack(101).at(1_000_002), DOWN, DATA),
        (up().seq(101).ack(101).window(7).at(1_000_003), UP, ACK),
        (up().seq(101).ack(151).window(7).sack(&[(201, 301)]).at(1_000_004), UP, ACK),
        (down().seq(301).ack(101).at(1_000_005), DOWN, ACK),
        (up().flags(flag::FIN | flag::ACK).seq(101).ack(301).at(1_000_006), UP, DATA),
        (up().protocol(17).payload(10).at(1_000_007), UP, DATA),
        // After 68.7 s the time comes round: 2^24 ticks.
        (up().home_port(41_000).at(68_719_477 + 5_000), UP, ACK),
    ];
    for (packet, direction, class) in packets {
        let frame = frame(&packet);
        let cb = kernel.observe_from(&frame, 0).expect("a whole frame");
        assert_eq!(cb[..4], CB_BEFORE[..4], "the other words belong to others");
        assert_eq!(cb[4], word(direction, class, frame.time_ns), "{packet:?}");
    }
}

#[test]
fn without_the_tracepoints_packets_stay_as_they_are() {
    let mut kernel = Kernel::new(LinkLayer::Ethernet);
    for packet in [up(), down().payload(10)] {
        assert_eq!(kernel.observe_from(&frame(&packet), 0), Some(CB_BEFORE));
    }
}

/// On its second way through egress a packet comes from the shaper's device: it was measured and marked before.
#[test]
fn what_comes_back_from_the_shaper_is_not_measured_again() {
    const SHAPER: u32 = 5;
    let mut kernel = marking();
    let count = |kernel: &Kernel| kernel.segments().iter().sum::<u64>();
    let packet = frame(&up().payload(10));
    // Nothing shapes: a packet that was forwarded is measured, whatever device it came by.
    assert_ne!(kernel.observe_from(&packet, SHAPER), Some(CB_BEFORE));
    assert_eq!(count(&kernel), 1);
    kernel.programs().set_shaping_device(SHAPER, true).expect("writable");
    assert_eq!(kernel.observe_from(&packet, SHAPER), Some(CB_BEFORE), "the queue's events are over");
    assert_eq!(count(&kernel), 1);
    // From another device, or of this machine.
    for from in [SHAPER + 1, 0] {
        assert_ne!(kernel.observe_from(&packet, from), Some(CB_BEFORE));
    }
    assert_eq!(count(&kernel), 3);
    // On its way in nothing comes from there.
    assert_ne!(kernel.observe_from(&frame(&down().payload(10)), SHAPER), Some(CB_BEFORE));
    assert_eq!(count(&kernel), 4);
}
