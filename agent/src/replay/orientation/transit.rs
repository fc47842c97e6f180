//! The same packet in two captures: which one it passed first tells its direction, and whether the clocks agree.
//!
//! A packet on its way up waits in the uplink buffer between the LAN and the WAN capture; one on its way down is on the
//! WAN first. Behind address translation (NAT) the home end has another address on each side: then the packet is
//! recognised by its remote end, and that alone tells its direction.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::packet::ParsedSegment;
use super::{Address, Evidence, Survey};

/// Packets remembered of the WAN capture.
const PACKETS_MAX: usize = 20_000;

/// Below this difference of mean transit times, in nanoseconds, the order of two captures is no evidence.
const TELLING_NS: i64 = 10_000;

/// How packets were recognised, and how long they took from LAN to WAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Recognised {
    /// By both ends.
    Whole,
    /// By the destination only: the source was translated, so it is home.
    Upward,
    /// By the source only: the destination was translated.
    Downward,
}

#[derive(Clone, Copy, Debug)]
struct Passage {
    time_ns: u64,
    source: Address,
    destination: Address,
}

/// Times from the LAN to the WAN capture of the packets that one colour of one part of the graph sent.
#[derive(Clone, Copy, Debug)]
struct Delays {
    count: i64,
    sum_ns: i128,
    min_ns: i64,
    max_ns: i64,
}

/// Recognises packets of the WAN capture in the LAN capture.
#[derive(Debug, Default)]
pub struct Transit {
    wan: HashMap<(Recognised, u64), Passage>,
    matches: u64,
    lan_packets: u64,
    delays: HashMap<(usize, bool), Delays>,
    translated: HashMap<Address, i64>,
}

impl Transit {
    /// A packet of the WAN capture. Must come before those of the LAN capture.
    pub fn on_wan(&mut self, time_ns: u64, segment: &ParsedSegment) {
        if self.wan.len() >= PACKETS_MAX * 3 {
            return;
        }
        let passage = Passage { time_ns, source: segment.source, destination: segment.destination };
        for how in [Recognised::Whole, Recognised::Upward, Recognised::Downward] {
            // A copy is a retransmission: the first one counts.
            self.wan.entry((how, signature(segment, how))).or_insert(passage);
        }
    }

    /// A packet of the LAN capture.
    pub fn on_lan(&mut self, survey: &Survey, time_ns: u64, segment: &ParsedSegment) {
        self.lan_packets += 1;
        // Copies (duplicate ACKs) look alike: each counts once, in order.
        let mut found = |how| self.wan.remove(&(how, signature(segment, how)));
        if let Some(passage) = found(Recognised::Whole) {
            self.matches += 1;
            let delay = time_difference(passage.time_ns, time_ns);
            if let Some(colour) = survey.part_and_colour(passage.source) {
                self.delays.entry(colour).or_insert(Delays::NONE).add(delay);
            }
        } else if let Some(passage) = found(Recognised::Upward) {
            self.matches += 1;
            *self.translated.entry(passage.source).or_default() += 1;
        } else if let Some(passage) = found(Recognised::Downward) {
            self.matches += 1;
            *self.translated.entry(passage.destination).or_default() += 1;
        }
    }

    /// Whether the LAN capture has packets, and hardly any of them is in the WAN capture.
    pub fn is_unrelated(&self) -> bool {
        self.lan_packets > 100 && self.matches * 100 < self.lan_packets
    }

    /// Whether the gateway translates addresses.
    pub fn is_translated(&self) -> bool {
        !self.translated.is_empty()
    }

    /// Tell the survey what the captures' order says.
    pub fn vote(&self, survey: &mut Survey) {
        for (&address, &packets) in &self.translated {
            survey.vote_for(address, Evidence::Transit, packets);
        }
        for (&(part, colour), delays) in self.delays.iter().filter(|((_, colour), _)| !colour) {
            let Some(other) = self.delays.get(&(part, !colour)) else { continue };
            let difference = delays.mean_ns() - other.mean_ns();
            if difference.abs() < TELLING_NS {
                continue;
            }
            let packets = delays.count + other.count;
            survey.vote_for_part(
                part,
                colour,
                Evidence::Transit,
                if difference > 0 { packets } else { -packets },
            );
        }
    }

    /// Nanoseconds to add to times of the LAN capture so that no packet arrives before it was sent; 0 if the clocks
    /// agree.
    pub fn clock_offset_ns(&self) -> i64 {
        let (mut up_min, mut down_max) = (i64::MAX, i64::MIN);
        for (&(part, colour), delays) in self.delays.iter().filter(|((_, colour), _)| !colour) {
            let Some(other) = self.delays.get(&(part, !colour)) else { continue };
            let (up, down) =
                if delays.mean_ns() >= other.mean_ns() { (delays, other) } else { (other, delays) };
            up_min = up_min.min(up.min_ns);
            down_max = down_max.max(down.max_ns);
        }
        if up_min < 0 {
            up_min
        } else if down_max > 0 && down_max < up_min {
            down_max
        } else {
            0
        }
    }
}

impl Delays {
    const NONE: Self = Self { count: 0, sum_ns: 0, min_ns: i64::MAX, max_ns: i64::MIN };

    fn add(&mut self, delay_ns: i64) {
        self.count += 1;
        self.sum_ns += i128::from(delay_ns);
        self.min_ns = self.min_ns.min(delay_ns);
        self.max_ns = self.max_ns.max(delay_ns);
    }

    fn mean_ns(&self) -> i64 {
        // A mean of 64-bit values.
        (self.sum_ns / i128::from(self.count.max(1))) as i64
    }
}

fn time_difference(later: u64, earlier: u64) -> i64 {
    later.wrapping_sub(earlier).cast_signed()
}

/// What stays the same of a packet on both sides of the gateway.
fn signature(segment: &ParsedSegment, how: Recognised) -> u64 {
    let mut hasher = DefaultHasher::new();
    if how != Recognised::Upward {
        (segment.source, segment.source_port).hash(&mut hasher);
    }
    if how != Recognised::Downward {
        (segment.destination, segment.destination_port).hash(&mut hasher);
    }
    (segment.seq, segment.ack, segment.flags, segment.window, segment.payload_bytes).hash(&mut hasher);
    segment.options.timestamps.hash(&mut hasher);
    hasher.finish()
}
