//! Packets nobody thought of: the kernel's programs and the replay must still agree in every figure.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::craft::{self, CraftedFrame, LinkLayer};
use crate::kernel::Kernel;
use crate::{Replay, first_difference};

/// Is it up; flags, seq, ack, window, payload in hundreds of bytes, timestamps, time since the one before in µs.
type SegmentLike = (bool, u8, u32, u32, u16, usize, Option<(u32, u32)>, u64);

fn segment_like() -> impl Strategy<Value = SegmentLike> {
    // Few values, so that numbers meet: near each other, near the wrap, and far apart.
    let number = || prop_oneof![0_u32..300, 0xffff_ff00_u32..=0xffff_ffff, any::<u32>()];
    (
        any::<bool>(),
        any::<u8>(),
        number(),
        number(),
        0_u16..3,
        0_usize..3,
        prop::option::of((0_u32..20, 0_u32..20)),
        0_u64..5_000,
    )
}

fn crafted(stream: Vec<SegmentLike>, link_layer: LinkLayer) -> Vec<CraftedFrame> {
    let mut at = 0;
    stream
        .into_iter()
        .map(|(is_up, flags, seq, ack, window, payload, ts, after)| {
            at += after;
            let packet = if is_up { craft::up() } else { craft::down() };
            let packet = packet.at(at).flags(flags).seq(seq).ack(ack).window(window).payload(payload * 100);
            match ts {
                Some((tsval, tsecr)) => packet.ts(tsval, tsecr).build(link_layer),
                None => packet.build(link_layer),
            }
        })
        .collect()
}

pub(crate) fn agree(
    kernel: &RefCell<Kernel>,
    frames: &[CraftedFrame],
    link_layer: LinkLayer,
) -> Result<(), TestCaseError> {
    let mut kernel = kernel.borrow_mut();
    kernel.reset();
    let mut replay = Replay::new(link_layer);
    for frame in frames {
        if kernel.observe(frame).is_some() {
            replay.observe(frame);
        }
    }
    let (ours, theirs) = (kernel.state(), replay.state());
    prop_assert!(ours == theirs, "kernel and replay differ:\n{}", first_difference(&ours, &theirs));
    Ok(())
}

/// Streams for one test: `PENDULUM_RANDOM_PACKETS` asks for about so many packets, which may take hours; without it the run is
/// short. `packets_each`: what one stream has on average.
pub(crate) fn cases(packets_each: u64) -> u32 {
    let asked = std::env::var("PENDULUM_RANDOM_PACKETS").ok();
    let asked = asked.map(|text| text.parse::<u64>().expect("PENDULUM_RANDOM_PACKETS is a number"));
    asked.map_or(200, |packets| u32::try_from(packets / packets_each).unwrap_or(u32::MAX))
}

pub(crate) fn runner(cases: u32) -> TestRunner {
    // No file of failures beside the sources: what is found becomes a case of the acceptance table.
    TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() })
}

#[test]
fn any_stream_of_segments_is_measured_alike() {
    let kernel = RefCell::new(Kernel::new(LinkLayer::RawIp));
    let streams = prop::collection::vec(segment_like(), 1..200);
    runner(cases(100))
        .run(&streams, |stream| {
            let frames = crafted(stream, LinkLayer::RawIp);
            agree(&kernel, &frames, LinkLayer::RawIp)
        })
        .expect("kernel and replay agree");
}

#[test]
fn any_bytes_are_measured_alike() {
    let kernel = RefCell::new(Kernel::new(LinkLayer::Ethernet));
    // Mostly frames that start as they should, so that the parser gets somewhere.
    let frame = (any::<bool>(), 0_usize..6, prop::collection::vec(any::<u8>(), 14..160)).prop_map(
        |(is_up, start, mut bytes)| {
            let starts: [&[u8]; 6] = [
                &[],
                &[0x08, 0x00, 0x45],
                &[0x86, 0xdd, 0x60],
                &[0x81, 0x00, 0x00, 0x01, 0x08, 0x00, 0x45],
                &[0x88, 0x64, 0x11, 0x00, 0x00, 0x01, 0x00, 0x40, 0x00, 0x21, 0x45],
                &[0x08, 0x00, 0x45, 0x00, 0x00, 0x28, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06],
            ];
            for (at, byte) in starts[start].iter().enumerate() {
                if let Some(place) = bytes.get_mut(12 + at) {
                    *place = *byte;
                }
            }
            let direction = if is_up { craft::Direction::Up } else { craft::Direction::Down };
            CraftedFrame { direction, time_ns: 1_000_000, bytes, gso_segs: 0, gso_size: 0 }
        },
    );
    let frames = prop::collection::vec(frame, 1..300);
    runner(cases(150))
        .run(&frames, |frames| agree(&kernel, &frames, LinkLayer::Ethernet))
        .expect("kernel and replay agree");
}
