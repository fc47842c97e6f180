//! Requests and replies that are no TCP: the kernel times them as the replay does.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pendulum::bpf::Passage;
use pendulum::replay::packet::Frame;
use pendulum_model::segment::{Direction, PerDirection};
use proptest::prelude::*;

use crate::craft::{self, CraftedFrame, LinkLayer};
use crate::exchanges::{Message, exchanges};
use crate::kernel::Kernel;
use crate::random::{agree, cases, runner};
use crate::{Replay, direction, first_difference};

/// Each exchange has a minute of its own: of the kernel's tables only the slots are not emptied between two.
const EXCHANGE_NS: u64 = 60_000_000_000;

/// Delay in microseconds, whether it may be held back, and whether the server may have asked others first: by slot.
type Replies = BTreeMap<(Direction, u64), (u64, bool, bool)>;

/// Both programs over the frames, which end in the same state: the replies that each saw.
fn both(kernel: &mut Kernel, frames: &[CraftedFrame], link_layer: LinkLayer, start_ns: u64) -> [Replies; 2] {
    kernel.reset();
    let mut replay = Replay::new(link_layer);
    let mut reader = kernel.programs().passages(start_ns);
    let (mut ours, mut theirs) = (Replies::new(), Replies::new());
    for frame in frames {
        let frame = CraftedFrame { time_ns: frame.time_ns + start_ns, ..frame.clone() };
        kernel.observe(&frame).expect("a whole frame");
        let direction = direction(frame.direction);
        let whole = Frame::whole(replay.link_type, &frame.bytes);
        let observation = replay.meter.observe_frame(direction, frame.time_ns, &whole);
        if let Some((_, reply)) = observation.reply {
            let figures = (u64::from(reply.us), reply.may_be_held, reply.is_relayed);
            theirs.insert((direction, frame.time_ns >> 20), figures);
        }
        // Its slot is over, and the next message is in a later one.
        reader.read(frame.time_ns + 2_100_000, |passage| {
            let (way, answer) = match passage {
                Passage::Up(_) => return,
                Passage::Down(arrival) => (Direction::Down, arrival.answer),
                Passage::Home(reply) => (Direction::Up, Some(reply)),
            };
            let Some(answer) = answer else { return };
            let us = (answer.at_ns - answer.asked_ns) / 1000;
            ours.insert((way, answer.at_ns >> 20), (us, answer.may_be_held, answer.is_relayed));
        });
    }
    let (kernel, replay) = (kernel.state(), replay.state());
    assert!(kernel == replay, "kernel and replay differ:\n{}", first_difference(&kernel, &replay));
    [ours, theirs]
}

#[test]
fn each_exchange_is_timed_by_both() {
    for link_layer in [LinkLayer::Ethernet, LinkLayer::RawIp] {
        let mut kernel = Kernel::new(link_layer);
        for (number, exchange) in (1..).zip(exchanges()) {
            let frames: Vec<_> = exchange.messages.iter().map(|message| message.build(link_layer)).collect();
            let [ours, theirs] = both(&mut kernel, &frames, link_layer, number * EXCHANGE_NS);
            assert_eq!(ours, theirs, "{}", exchange.name);
            assert_eq!(ours.len(), exchange.replies.len(), "{}", exchange.name);
        }
    }
}

/// Datagrams of an open connection, calls and tunnels: the table stays empty.
#[test]
fn other_datagrams_touch_nothing() {
    let kernel = Kernel::new(LinkLayer::Ethernet);
    let starts: [&[u8]; 6] = [
        &[0x40, 0, 0, 0, 1],
        &[0x80, 0x60, 0x12, 0x34, 0, 0, 0, 1],
        &[4, 0, 0, 0, 9, 9, 9, 9],
        &[23, 254, 253, 0, 1],
        &[0xff; 8],
        &[],
    ];
    for (start, direction) in starts
        .into_iter()
        .flat_map(|start| [craft::Direction::Up, craft::Direction::Down].map(|direction| (start, direction)))
    {
        let payload = [start, &[0x11; 200]].concat();
        kernel.run(&Message::udp(direction, [50_000, 443], &payload).build(LinkLayer::Ethernet), (0, 0));
    }
    assert_eq!(kernel.open_requests(), 0);
    let initial = Message::quic(craft::Direction::Up, 0xc0, 1, [&[7; 8], &[]]);
    kernel.run(&initial.build(LinkLayer::Ethernet), (0, 0));
    assert_eq!(kernel.open_requests(), 1);
}

/// Few identifiers and ports, so that requests, replies and repetitions meet; and a flood that fills the table.
#[test]
fn any_exchange_is_measured_alike() {
    let kernel = RefCell::new(Kernel::new(LinkLayer::RawIp));
    let message = (0_usize..64, 0_u16..3, any::<bool>(), prop_oneof![0_u64..5_000, 0_u64..9_000_000]);
    let streams = prop::collection::vec(message, 1..200);
    let table = exchanges();
    runner(cases(100))
        .run(&streams, |stream| {
            let mut at = 0;
            let frames: Vec<_> = stream
                .into_iter()
                .map(|(from, pick, flood, after)| {
                    at += after;
                    let messages = &table[from % table.len()].messages;
                    let message = messages[usize::from(pick) * 5 % messages.len()].clone().at(at);
                    let mut frame = message.build(LinkLayer::RawIp);
                    if flood && let Some(last) = frame.bytes.get_mut(19) {
                        *last = (at % 251) as u8;
                    }
                    frame
                })
                .collect();
            agree(&kernel, &frames, LinkLayer::RawIp)
        })
        .expect("kernel and replay agree");
    let spinning =
        table.iter().find(|exchange| exchange.name.starts_with("a spin bit counts")).expect("there");
    let flood = (0..3_000_u32).map(|index| {
        let from = index.to_be_bytes();
        let initial = Message::quic(craft::Direction::Up, 0xc0, 1, [&[7; 8], &from]);
        initial.home_port(index as u16).at(400_000 + u64::from(index) * 100)
    });
    let flood: Vec<_> = spinning
        .messages
        .iter()
        .cloned()
        .chain(flood)
        .map(|message| message.build(LinkLayer::RawIp))
        .collect();
    agree(&kernel, &flood, LinkLayer::RawIp).expect("kernel and replay agree");
    let lost = crate::kernel::LOST.iter().position(|lost| *lost == "request_displaced").expect("a reason");
    assert!(kernel.borrow().stats()[lost] > 1_000, "a full table says so");
}

/// A connection whose spin bit turns, and may be out of its turn; whose sides pause, and opens anew.
#[test]
fn any_spin_bit_is_measured_alike() {
    let kernel = RefCell::new(Kernel::new(LinkLayer::RawIp));
    let step = (any::<bool>(), any::<bool>(), 0_u32..400, prop_oneof![100_u64..20_000, 100_u64..9_000_000]);
    let timed = std::cell::Cell::new(0);
    runner(cases(100))
        .run(&prop::collection::vec(step, 1..200), |steps| {
            let initial = Message::quic(craft::Direction::Up, 0xc0, 1, [&[7; 8], &[5; 8]]);
            let (mut at, mut values) = (0, [false; 2]);
            let mut frames = vec![initial.build(LinkLayer::RawIp)];
            for (is_up, hears, chance, after) in steps {
                at += after;
                let direction = if is_up { craft::Direction::Up } else { craft::Direction::Down };
                let message = match chance {
                    0 => initial.clone(),
                    1 => Message::spin(direction, !values[usize::from(is_up)]),
                    _ => {
                        if hears {
                            values[usize::from(is_up)] = values[usize::from(!is_up)] != is_up;
                        }
                        Message::spin(direction, values[usize::from(is_up)])
                    }
                };
                frames.push(message.at(at).build(LinkLayer::RawIp));
            }
            agree(&kernel, &frames, LinkLayer::RawIp)?;
            let PerDirection { up, down } = kernel.borrow_mut().programs().counters().expect("readable");
            timed.set(timed.get() + up.rtt.iter().chain(&down.rtt).sum::<u64>());
            Ok(())
        })
        .expect("kernel and replay agree");
    assert!(timed.get() > 100, "{} replies", timed.get());
}
