//! For any sequence of ACKs and any order of coming and leaving: when the queue has drained, the receiver of ACKs knows
//! the newest acknowledgement number, window and timestamps that were sent; as many duplicate ACKs have reached it as
//! were sent; and no acknowledgement number went backwards. With SACK merged, instead of the number of duplicates: it knows
//! every segment that was reported as received.

use std::collections::{BTreeSet, VecDeque};

use pendulum::bpf::abi;

use crate::craft::{self, LinkLayer, Tcp, flag};
use crate::kernel::{Filter, MILLISECOND};

/// xorshift64*: the same sequences every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
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

fn u32_at(tcp: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]])
}

/// Reads the numbers back from an Ethernet frame with IPv4 or IPv6 and timestamps.
fn numbers(frame: &[u8]) -> (Numbers, bool) {
    let tcp = if frame[12] == 8 { &frame[34..] } else { &frame[54..] };
    let special = tcp[12] >> 4 != 8 || tcp[13] != flag::ACK;
    let numbers = Numbers {
        ack: u32_at(tcp, 8),
        window: u16::from_be_bytes([tcp[14], tcp[15]]),
        tsval: u32_at(tcp, 24),
        tsecr: u32_at(tcp, 28),
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
    let Some(mut filter) = Filter::for_test("nothing_is_lost_whatever_comes") else { return };
    let mut random = Random(0x5eed);
    let mut held = 0;
    for round in 0..150 {
        filter.reset();
        filter.control.filter =
            [abi::PENDULUM_FILTER_STATIC, abi::PENDULUM_FILTER_DELAYED, abi::PENDULUM_FILTER_PER_CONNECTION]
                [round % 3];
        filter.control.delta = 1 + random.below(4) as u32;
        filter.control.stretch = 1 + random.below(8) as u32;
        filter.control.spared_bytes = random.below(2) as u32 * 20_000;
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
    let mut queue = VecDeque::<Vec<u8>>::new();
    let mut withheld = 0;
    let leave = |filter: &mut Filter, queue: &mut VecDeque<Vec<u8>>, received: &mut Seen| {
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
            // MPTCP.
            packet = packet.options(&[30, 4, 0, 0]);
        } else if kind == 3 {
            packet = packet.flags(flag::ACK | flag::ECE);
        }
        sent.take(now, matches!(kind, 0 | 2 | 3));
        match filter.arrive(&packet.build(LinkLayer::Ethernet)) {
            Some(queued) => queue.push_back(queued),
            None => withheld += 1,
        }
    }
    while !queue.is_empty() {
        leave(filter, &mut queue, &mut received);
    }
    assert_eq!(received, sent);
    withheld
}

/// A receiver of segments of equal length, numbered from 0, that acknowledges each one.
#[derive(Default)]
struct Receiver {
    /// All before it are there.
    next: u32,
    beyond: BTreeSet<u32>,
}

impl Receiver {
    const SEGMENT: u32 = 1_000;

    /// Takes a segment; answers the SACK blocks of the ACK that goes out, in segments, as RFC 2018 §4 orders them.
    fn take(&mut self, segment: u32) -> Vec<(u32, u32)> {
        self.beyond.insert(segment);
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for &there in &self.beyond {
            match runs.last_mut() {
                Some(run) if run.1 == there => run.1 += 1,
                _ => runs.push((there, there + 1)),
            }
        }
        runs.sort_by_key(|run| !(run.0..run.1).contains(&segment));
        runs.truncate(3);
        runs
    }
}

/// What the sender knows is there.
#[derive(Debug, Default, PartialEq)]
struct Scoreboard {
    acknowledged: u32,
    beyond: BTreeSet<u32>,
    tsval: u32,
}

impl Scoreboard {
    /// Takes an ACK as it stands on the wire; numbers begin at `base`.
    fn take(&mut self, frame: &[u8], base: u32) {
        let tcp = &frame[34..];
        let segment = |at: usize| u32_at(tcp, at).wrapping_sub(base) / Receiver::SEGMENT;
        assert!(segment(8) >= self.acknowledged, "{} after {}: backwards", segment(8), self.acknowledged);
        self.acknowledged = segment(8);
        self.tsval = u32_at(tcp, 24);
        let header = usize::from(tcp[12] >> 4) * 4;
        for block in (36..header).step_by(8) {
            self.beyond.extend(segment(block)..segment(block + 4));
        }
        self.beyond.retain(|there| *there >= self.acknowledged);
    }
}

#[test]
fn with_sack_merged_every_segment_that_arrived_is_reported() {
    let Some(mut filter) = Filter::for_test("with_sack_merged_every_segment_that_arrived_is_reported") else {
        return;
    };
    let mut random = Random(0xacc);
    let mut withheld_sack = 0;
    for round in 0..150 {
        // In one round of three hardly a segment is the next one: more holes than an ACK has blocks for.
        let (one_in, farthest) = if round % 3 == 0 { (1, 40) } else { (3, 9) };
        filter.reset();
        filter.control.spared_bytes = random.below(2) as u32 * 9_000;
        filter.control.delta = 1 + random.below(2) as u32;
        filter.control.stretch = 1 + random.below(8) as u32;
        filter.tell();
        let base = random.below(1 << 32) as u32;
        let (mut receiver, mut sent, mut received) =
            (Receiver::default(), Scoreboard::default(), Scoreboard::default());
        let mut queue = VecDeque::<Vec<u8>>::new();
        for step in 0..60 {
            filter.now += random.below(5) * MILLISECOND;
            if random.below(3) == 0 {
                if let Some(bytes) = queue.pop_front().and_then(|packet| filter.depart(&packet)) {
                    received.take(&bytes, base);
                }
                continue;
            }
            // Mostly the next one, sometimes past a hole or from behind one; sometimes one that is there already.
            let ahead = if random.below(one_in) == 0 { random.below(farthest) as u32 } else { 0 };
            let blocks = receiver.take(receiver.next + ahead);
            let edge = |segment: u32| base.wrapping_add(segment * Receiver::SEGMENT);
            let blocks: Vec<_> = blocks.iter().map(|run| (edge(run.0), edge(run.1))).collect();
            let mut packet = craft::up().seq(1).ack(edge(receiver.next)).window(500).ts(step, step / 2);
            if !blocks.is_empty() {
                packet = packet.sack(&blocks);
            }
            let frame = packet.build(LinkLayer::Ethernet);
            sent.take(&frame.bytes, base);
            match filter.arrive(&frame) {
                Some(queued) => queue.push_back(queued),
                None => withheld_sack += u32::from(!blocks.is_empty()),
            }
        }
        while let Some(packet) = queue.pop_front() {
            if let Some(bytes) = filter.depart(&packet) {
                received.take(&bytes, base);
            }
        }
        assert_eq!(received, sent);
    }
    assert!(withheld_sack > 100, "{withheld_sack} ACKs with SACK were withheld in all");
}
