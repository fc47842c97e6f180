//! Packets whose headers do not lie in the linear part: on a real device, since TEST_RUN makes linear ones only. A packet socket lets
//! the test choose how much of a large frame is linear (`struct virtio_net_hdr`, `hdr_len`), down to the link header.
//!
//! Such a frame must be measured as the same frame in one piece.

use std::time::{Duration, Instant};

use pendulum::bpf::LoadOptions;
use pendulum::bpf::abi::pendulum_counters;

use crate::Replay;
use crate::cable::{FAR, NEAR, PacketSocket, index, is_root, with_cable};
use crate::craft::{self, CraftedFrame, LinkLayer, Tcp};
use crate::exchanges::Message;
use crate::kernel::{Kernel, LOST, State};

/// Above a page: smaller frames become linear whatever is asked for (`packet_alloc_skb`).
const PAYLOAD: usize = 4200;
/// Ethernet; what the kernel always puts into the linear part.
const LINK_HEADER: usize = 14;

/// Headers of every length, up to 226 bytes, and what is wrong with some.
fn packets(direction: craft::Direction) -> Vec<Tcp> {
    let start = || match direction {
        craft::Direction::Up => craft::up().payload(PAYLOAD),
        craft::Direction::Down => craft::down().payload(PAYLOAD),
    };
    let extension = [&[1][..], &[0; 14]].concat();
    let long = (0..6).fold(start().v6(), |packet, _| packet.extension(60, &extension));
    let options = [&[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8][..], &[1; 28]].concat();
    let tagged = |packet: Tcp| packet.vlan(0x88a8, 9).vlan(0x8100, 7);
    let mut packets = vec![
        start(),
        start().ts(9, 8).home_port(40_001),
        start().ecn(3).ip_options(&[1; 40]).options(&options).home_port(40_002),
        long.options(&options).home_port(40_003),
        start().options(&[8, 10, 0, 0, 0, 1, 0, 0, 0, 1, 30, 0]).home_port(40_004),
        start().patch(46, 0x40).home_port(40_005),
        start().protocol(17).home_port(40_006),
        start().fragment(0x2001).home_port(40_007),
    ];
    // On the way in the kernel takes tags off before TC sees the frame.
    if direction == craft::Direction::Up {
        let long = (0..6).fold(start().v6(), |packet, _| packet.extension(60, &extension));
        packets.push(tagged(start().pppoe()).home_port(40_008));
        packets.push(tagged(long.options(&options).pppoe()).home_port(40_009));
        packets.push(tagged(start()).vlan(0x8100, 6).home_port(40_010));
    }
    packets
}

/// Every packet with each length of the linear part, from the link header to 240 bytes.
fn series(direction: craft::Direction) -> Vec<(CraftedFrame, usize)> {
    let frames = packets(direction).into_iter().map(|packet| packet.build(LinkLayer::Ethernet));
    frames.flat_map(|frame| (LINK_HEADER..240).map(move |linear| (frame.clone(), linear))).collect()
}

/// Counters of one direction, reasons, and of each flow's half its segments, payload and sequence.
#[derive(Debug, PartialEq)]
struct Measured {
    counters: pendulum_counters,
    lost: Vec<u64>,
    flows: Vec<(u16, u64, u64, u32, u16)>,
}

fn measured(state: State, direction: craft::Direction) -> Measured {
    let direction = crate::direction(direction);
    let half = |(key, flow): &(pendulum::replay::flow::FlowKey, pendulum::replay::flow::Flow)| {
        let half = &flow.halves[direction];
        (key.home_port, half.segments, half.payload_bytes, half.seq_next, half.flags)
    };
    Measured {
        counters: state.counters[direction],
        lost: state.stats[..LOST.len()].to_vec(),
        flows: state.nursery.iter().map(half).collect(),
    }
}

/// By the replay, which sees frames in one piece. (TEST_RUN takes none above a page.)
fn expected(direction: craft::Direction) -> Measured {
    let mut replay = Replay::new(LinkLayer::Ethernet);
    for (frame, _) in series(direction) {
        replay.observe(&frame);
    }
    measured(replay.state(), direction)
}

fn compare(direction: craft::Direction, sender: &str) {
    let expected = expected(direction);
    with_cable(|| {
        let mut kernel = Kernel::with(LoadOptions::default());
        kernel.programs().attach(NEAR, index(NEAR)).expect("the programs attach");
        let socket = PacketSocket::new(sender);
        let frames = series(direction);
        for (sent, (frame, linear)) in (1..).zip(&frames) {
            socket.send(&frame.bytes, *linear);
            wait_for(&kernel, sent);
        }
        let ours = measured(kernel.state(), direction);
        assert_eq!(ours.lost, expected.lost, "reasons {LOST:?}");
        assert_eq!(ours, expected);
        // By hand: eight or eleven packets, each sent with 226 lengths; one of them without a TCP header that can be read,
        // one a later fragment, one UDP; on the way up one with a tag too many.
        let of = |name: &str| ours.lost[LOST.iter().position(|lost| *lost == name).expect("a reason")];
        assert_eq!([of("tcp_header"), of("fragment"), of("tcp_options"), of("pull")], [226, 226, 226, 0]);
        assert_eq!(of("vlan_depth"), if direction == craft::Direction::Up { 226 } else { 0 });
        let readable = if direction == craft::Direction::Up { 7 } else { 5 };
        assert_eq!(ours.counters.payload_bytes, readable * 226 * PAYLOAD as u64);
    });
}

/// What comes in is received in the background.
fn wait_for(kernel: &Kernel, packets: u64) {
    let end = Instant::now() + Duration::from_secs(20);
    while kernel.segments().iter().sum::<u64>() < packets {
        assert!(Instant::now() < end, "packet {packets} was not seen");
        std::thread::yield_now();
    }
}

#[test]
fn headers_outside_the_linear_part_are_read_on_the_way_up() {
    if !is_root() {
        return println!("SKIPPED headers_outside_the_linear_part_are_read_on_the_way_up: needs root");
    }
    compare(craft::Direction::Up, NEAR);
}

#[test]
fn headers_outside_the_linear_part_are_read_on_the_way_down() {
    if !is_root() {
        return println!("SKIPPED headers_outside_the_linear_part_are_read_on_the_way_down: needs root");
    }
    compare(craft::Direction::Down, FAR);
}

/// The headers are linear, as drivers leave them, and nothing else is.
#[test]
fn a_request_outside_the_linear_part_is_read() {
    if !is_root() {
        return println!("SKIPPED a_request_outside_the_linear_part_is_read: needs root");
    }
    const HEADERS: usize = LINK_HEADER + 20 + 8;
    with_cable(|| {
        let mut kernel = Kernel::with(LoadOptions::default());
        kernel.programs().attach(NEAR, index(NEAR)).expect("the programs attach");
        let initial = Message::quic(craft::Direction::Up, 0xc0, 1, [&[7; 8], &[5; 8]]);
        let initial = initial.cut(PAYLOAD).build(LinkLayer::Ethernet);
        PacketSocket::new(NEAR).send(&initial.bytes, HEADERS);
        wait_for(&kernel, 1);
        assert_eq!(kernel.open_requests(), 1);
    });
}
