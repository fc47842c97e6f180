//! For any sequence of ACKs and any order of coming and leaving: when the queue has drained, the receiver of ACKs knows
//! the newest acknowledgement number, window and timestamps that were sent; as many duplicate ACKs have reached it as
//! were sent; and no acknowledgement number went backwards.

use std::collections::VecDeque;

use pendulum::bpf::abi;

use crate::craft::{self, LinkLayer, Tcp, flag};
use crate::kernel::{Filter, MILLISECOND};

/// xorshift64*: the same sequences every time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// One ACK in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Numbers {
    ack: u32,
    window: u16,
    tsval: u32,
    tsecr: u32,
}

/// The sender's view of a stream of ACKs.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    newest: Numbers,
    duplicates: u32,
    special: u32,
}

impl Seen {
    fn take(&mut self, numbers: Numbers, special: bool) {
        assert!(
            self.newest.ack == 0 || numbers.ack.wrapping_sub(self.newest.ack).cast_signed() >= 0,
            "{numbers:?} after {:?}: backwards",
            self.newest
        );
        if numbers.ack == self.newest.ack {
            self.duplicates += 1;
        }
        self.special += u32::from(special);
        self.newest = numbers;
    }
}

/// Reads the numbers back from an Ethernet frame with IPv4 or IPv6 and timestamps.
fn numbers(frame: &[u8]) -> (Numbers, bool) {
    let tcp = if frame[12] == 8 { &frame[34..] } else { &frame[54..] };
    let u32_at = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let special = tcp[12] >> 4 != 8 || tcp[13] != flag::ACK;
    let numbers = Numbers {
        ack: u32_at(8),
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        tsval: u32_at(24),
        tsecr: u32_at(28),
    };
    (numbers, special)
}

/// A frame that equals one made with its own numbers has a right checksum.
fn checksum_is_right(frame: &[u8], like: &Tcp) -> bool {
    let (numbers, special) = numbers(frame);
    special
        || like
            .clone()
            .ack(numbers.ack)
            .window(numbers.window)
            .ts(numbers.tsval, numbers.tsecr)
            .build(LinkLayer::Ethernet)
            .bytes
            == frame
}

#[test]
fn nothing_is_lost_whatever_comes() {
    if !pendulum_lab::is_root() {
        return crate::rig::skipped("nothing_is_lost_whatever_comes", "needs root");
    }
    let mut filter = Filter::new(LinkLayer::Ethernet);
    let mut random = Random(0x5eed);
    let mut held = 0;
    for round in 0..150 {
        filter.reset();
        filter.control.filter =
            [abi::PENDULUM_FILTER_STATIC, abi::PENDULUM_FILTER_DELAYED, abi::PENDULUM_FILTER_PER_CONNECTION]
                [round % 3];
        filter.control.delta = 1 + random.below(4) as u32;
        filter.control.stretch = 1 + random.below(8) as u32;
        // So small a channel is always used up, and every connection above its share.
        filter.control.channel_bytes_per_s = 1 + random.below(2) * 500;
        filter.tell();
        held += one_round(&mut filter, &mut random, round % 2 == 1);
    }
    assert!(held > 500, "{held} ACKs were withheld in all");
}

fn one_round(filter: &mut Filter, random: &mut Random, v6: bool) -> u64 {
    let base = || if v6 { craft::up().v6().seq(1) } else { craft::up().seq(1) };
    let mut now = Numbers { ack: random.below(1 << 32) as u32 | 1, window: 500, tsval: 1, tsecr: 1 };
    let (mut sent, mut received) = (Seen::default(), Seen::default());
    let mut queue = VecDeque::new();
    let mut withheld = 0;
    let leave = |filter: &mut Filter, queue: &mut VecDeque<crate::kernel::Queued>, received: &mut Seen| {
        let Some(packet) = queue.pop_front() else { return };
        if let Some(bytes) = filter.depart(&packet) {
            assert!(checksum_is_right(&bytes, &base()), "wrong checksum");
            let (numbers, special) = numbers(&bytes);
            received.take(numbers, special);
        }
    };
    for _ in 0..60 {
        filter.now += random.below(5) * MILLISECOND;
        if random.below(3) == 0 {
            leave(filter, &mut queue, &mut received);
            continue;
        }
        now.tsval = now.tsval.wrapping_add(random.below(2) as u32);
        now.tsecr = now.tsecr.wrapping_add(random.below(2) as u32);
        now.window = 1 + random.below(900) as u16;
        let kind = random.below(12);
        // One in six acknowledges nothing new.
        if kind > 1 {
            now.ack = now.ack.wrapping_add(1 + random.below(3_000) as u32);
        }
        let mut packet = base().ack(now.ack).window(now.window).ts(now.tsval, now.tsecr);
        if kind == 0 || kind == 2 {
            packet = packet.sack(&[(now.ack.wrapping_add(3_000), now.ack.wrapping_add(4_000))]);
        } else if kind == 3 {
            packet = packet.flags(flag::ACK | flag::ECE);
        }
        sent.take(now, matches!(kind, 0 | 2 | 3));
        match filter.arrive(&packet.build(LinkLayer::Ethernet)) {
            Some(queued) => {
                // Now and then the event of the enqueue is missed.
                if random.below(10) > 0 {
                    filter.confirm(&queued);
                }
                queue.push_back(queued);
            }
            None => withheld += 1,
        }
    }
    while !queue.is_empty() {
        leave(filter, &mut queue, &mut received);
    }
    assert_eq!(received, sent);
    withheld
}
