//! Numbers never go backwards, nothing that was said is lost, and Linux decodes the CE marks of merged ACKs exactly.

use super::*;
use crate::accecn::{ECT0, ECT1, Receiver, Sender};

/// xorshift64*: the same sequences every time.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % limit
    }
}

/// One download with AccECN: random segments, marks, options, delayed ACKs or GRO, and a random queue of ACKs with the filter.
/// Returns how many ACKs were withheld, and how many of those left as one that acknowledges more than seven segments.
fn sequence(seed: u64) -> (u32, u32) {
    let random = &mut Random::new(seed);
    let full = [536, 1_208, 1_220, 1_400, 1_448, 1_460][random.below(6) as usize];
    let unmarked = if random.below(4) == 0 { ECT1 } else { ECT0 };
    // In a thousand: none, one, ten, a hundred, all.
    let marks = [0, 0, 1, 10, 100, 1_000][random.below(6) as usize];
    // Without, with, now and then.
    let (option, merges) = (random.below(3), full > LEAST && random.below(4) == 0);
    let tails = random.below(3) == 0;
    // So few that the carrier's part goes on to the ACK behind it now and then.
    let stretch = [2, 4, 32][random.below(3) as usize];
    let bounds = Bounds { delta: 1 + random.below(2) as usize, stretch, spared_bytes: 0 };
    let (mut hold, mut receiver, mut sender) = (Hold::new(bounds), Receiver::default(), Sender::new(full));
    let mut number = random.below(1 << 32) as u32;
    // Before any mark ACE is 5, whose AE tells the filter what kind of ECN this is.
    hold.arrive(AckSegment {
        number,
        window: 500,
        ecn: receiver.feedback(option > 0),
        ..AckSegment::default()
    });
    // Numbers, segments and marks when an ACK was made; what the sender has seen.
    let (mut made, mut seen) = (vec![(number, 0, 0)], 0);
    let (mut segments, mut withheld, mut long) = (0_u32, 0, 0);
    for _ in 0..24 {
        if random.below(4) == 0 {
            let queued = hold.queued();
            let Some(ack) = hold.depart() else { continue };
            assert!(queued > 0);
            let now = made.iter().rposition(|then| then.0 == ack.number).expect("one that was made");
            assert!(now >= seen, "backwards");
            let (before, after) = (made[seen], made[now]);
            let delivered = after.1 - before.1;
            sender.process(ack.ecn, delivered, after.0.wrapping_sub(before.0));
            assert_eq!(sender.delivered_ce, after.2, "seed {seed}: {delivered} segments, {ack:?}");
            long += u32::from(delivered > SEGMENTS);
            seen = now;
            continue;
        }
        let singles = 1 + random.below(2);
        let packets =
            if merges && random.below(4) == 0 { 1 + random.below(SEGMENTS.into()) } else { singles };
        for packet in 0..packets {
            let is_tail = tails && (packets <= 2 || packet + 1 == packets) && random.below(4) == 0;
            let bytes = if is_tail { 1 + random.below(full.into()) as u32 } else { full };
            let mark = if random.below(1_000) < marks { CE } else { unmarked };
            receiver.take(mark, bytes);
            number = number.wrapping_add(bytes);
            segments += 1;
        }
        made.push((number, segments, receiver.marked));
        let with_option = option == 1 || (option == 2 && random.below(2) == 0);
        let ack =
            AckSegment { number, window: 500, ecn: receiver.feedback(with_option), ..AckSegment::default() };
        withheld += u32::from(hold.arrive(ack) == Fate::Held);
    }
    (withheld, long)
}

/// Ten million in the long form (`./dev test --long`); otherwise the first of the same ones.
#[test]
fn linux_decodes_what_the_filter_lets_through() {
    let sequences = if std::env::var_os("PENDULUM_LONG").is_some() { 10_000_000 } else { 50_000 };
    let (mut withheld, mut long) = (0_u64, 0_u64);
    for seed in 1..=sequences {
        let (some, more) = sequence(seed);
        withheld += u64::from(some);
        long += u64::from(more);
    }
    println!("{sequences} sequences: {withheld} ACKs withheld, {long} of more than seven segments");
    assert!(withheld > sequences, "{withheld} ACKs withheld");
    assert!(long > sequences / 100, "{long} ACKs of more than seven segments");
}

/// Slow start has left 400 ACKs in the queue, and twelve come for each that leaves: what stands there drains, and as many as may be withheld are.
#[test]
fn a_queue_of_acks_alone_becomes_shorter() {
    let bounds = Bounds { delta: 1, stretch: 32, spared_bytes: 400 * 2_896 };
    let mut hold = Hold::new(bounds);
    let mut numbers =
        (1..).map(|n: u32| AckSegment { number: n * 2_896, window: 500, ..AckSegment::default() });
    for ack in numbers.by_ref().take(400) {
        assert_ne!(hold.arrive(ack), Fate::Held);
    }
    let (mut left, mut longest) = (0, 0);
    for _ in 0..800 {
        let arrived = numbers.by_ref().take(12);
        arrived.for_each(|ack| _ = hold.arrive(ack));
        let ack = hold.depart().expect("one stands there");
        longest = longest.max(ack.number - left);
        left = ack.number;
    }
    assert!(hold.queued() <= 2, "{} still stand there", hold.queued());
    // From one carrier that gave its part up to the next one with what is pending for it.
    assert!(longest <= 65 * 2_896, "one ACK stands for {}", longest / 2_896);
}

/// A loss while the queue is long: an ACK whose SACK blocks do not cover what is pending passes. Once an ACK covers that again, the queue drains as before.
#[test]
fn a_queue_becomes_shorter_after_a_loss() {
    let bounds = Bounds { delta: 1, stretch: 32, spared_bytes: 399 * 2_896 };
    let mut hold = Hold::new(bounds);
    let ack = |n: u32, sack: &[(u32, u32)]| AckSegment {
        number: n * 2_896,
        window: 500,
        sack: sack.to_vec(),
        ..AckSegment::default()
    };
    for n in 1..400 {
        assert_ne!(hold.arrive(ack(n, &[])), Fate::Held);
    }
    assert_eq!(hold.arrive(ack(400, &[(2_000_000, 2_001_448)])), Fate::Held);
    assert_eq!(hold.arrive(ack(400, &[(2_010_000, 2_011_448)])), Fate::Sack, "what is pending is not in it");
    assert_eq!(hold.arrive(ack(401, &[(2_010_000, 2_014_344)])), Fate::Carrier, "nor is it in this one");
    let row = (800..832).map(|n| hold.arrive(ack(n, &[])));
    assert!(row.eq(std::iter::repeat_n(Fate::Held, 32)), "it is in these");
    let left: Vec<AckSegment> = std::iter::from_fn(|| hold.depart()).collect();
    assert_eq!(left.len(), 401);
    assert_eq!(left[400], ack(831, &[]));
    assert!(left.is_sorted_by_key(|ack| ack.number), "backwards");
}

/// The filter without the rule for AccECN makes the sender count marks that are none: the property can fail.
#[test]
fn without_the_rule_the_sender_miscounts() {
    let mut wrong = 0;
    for seed in 1..200 {
        let random = &mut Random::new(seed);
        let (mut receiver, mut sender) = (Receiver::default(), Sender::new(1_448));
        for _ in 0..10 {
            // Mostly few: an average of more than four is taken for ACKs that were merged.
            let segments = if random.below(5) == 0 { 9 } else { 2 };
            (0..segments).for_each(|_| receiver.take(ECT0, 1_448));
            sender.process(receiver.feedback(false), segments, segments * 1_448);
        }
        wrong += u32::from(sender.delivered_ce != receiver.marked);
    }
    assert!(wrong > 100, "{wrong}");
}
