//! The same packet in two captures: which one it passed first tells its direction, and whether the clocks agree.
//!
//! A packet on its way up waits in the uplink buffer between the LAN and the WAN capture; one on its way down is on the
//! WAN first. Behind address translation (NAT) the home end has another address on each side: then the packet is
//! recognised by its remote end, and that alone tells its direction.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use super::super::packet::ParsedSegment;
use super::{Address, Evidence, Exchanged, Prefix, Survey};

/// Packets of each direction without which their times are no evidence.
const TELLING_PACKETS: i64 = 10;

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
struct Crossing {
    time_ns: u64,
    source: Address,
    destination: Address,
}

/// Times from the LAN to the WAN capture of the packets that one colour of one part of the graph sent.
#[derive(Clone, Copy, Debug)]
struct TransitTimes {
    count: i64,
    sum_ns: i128,
    min_ns: i64,
    max_ns: i64,
}

/// Recognises packets of the WAN capture in the LAN capture.
#[derive(Debug, Default)]
pub struct Transit {
    wan: HashMap<(Recognised, u64), Crossing>,
    matches: u64,
    lan_packets: u64,
    delays: HashMap<(usize, bool), TransitTimes>,
    translated: HashMap<Address, i64>,
    /// The same times of packets that were recognised behind address translation, which tells their direction: up, down.
    translated_delays: Option<[TransitTimes; 2]>,
}

impl Transit {
    /// A packet of the WAN capture. Must come before those of the LAN capture.
    pub fn on_wan(&mut self, time_ns: u64, segment: &ParsedSegment) {
        if self.wan.len() >= PACKETS_MAX * 3 {
            return;
        }
        let passage = Crossing { time_ns, source: segment.source, destination: segment.destination };
        for how in [Recognised::Whole, Recognised::Upward, Recognised::Downward] {
            // A copy is a retransmission: the first one counts.
            self.wan.entry((how, signature(segment, how))).or_insert(passage);
        }
    }

    /// A packet of the LAN capture.
    pub fn on_lan(&mut self, survey: &Survey, time_ns: u64, segment: &ParsedSegment) {
        self.lan_packets += 1;
        // Repetitions, such as duplicate ACKs, look alike: each packet counts once, however it could be recognised.
        let [whole, upward, downward] = [Recognised::Whole, Recognised::Upward, Recognised::Downward]
            .map(|how| self.wan.remove(&(how, signature(segment, how))));
        let Some(passage) = whole.or(upward).or(downward) else { return };
        self.matches += 1;
        let delay = time_difference(passage.time_ns, time_ns);
        if whole.is_some() {
            if let Some(colour) = survey.part_and_colour(passage.source) {
                self.delays.entry(colour).or_insert(TransitTimes::NONE).add(delay);
            }
        } else {
            let (direction, home) =
                if upward.is_some() { (0, passage.source) } else { (1, passage.destination) };
            *self.translated.entry(home).or_default() += 1;
            self.translated_delays.get_or_insert([TransitTimes::NONE; 2])[direction].add(delay);
        }
    }

    /// Whether the user has exchanged the captures, as far as their order tells: after [`Self::vote`].
    pub fn exchanged(&self, survey: &Survey, prefixes: &[Prefix]) -> Option<Exchanged> {
        if let Some([up, down]) = &self.translated_delays
            && up.count.min(down.count) >= TELLING_PACKETS
        {
            return (up.mean_ns() - down.mean_ns() < -TELLING_NS).then_some(Exchanged::Translation);
        }
        let (home, evidence) = survey.contradicted(prefixes)?;
        Some(Exchanged::Order { home: IpAddr::from(home).to_canonical(), evidence })
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
        } else if down_max > 0 && down_max <= up_min {
            down_max
        } else {
            0
        }
    }
}

impl TransitTimes {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The offset for packets that took so long from LAN to WAN on their way up, and on their way down, by the clocks as they are.
    fn offset(up: &[i64], down: &[i64]) -> i64 {
        let delays = |of: &[i64]| {
            let mut delays = TransitTimes::NONE;
            of.iter().for_each(|delay| delays.add(*delay));
            delays
        };
        // Whichever colour is home.
        let [one, other] = [true, false].map(|home| {
            let mut transit = Transit::default();
            for (colour, of) in [(home, up), (!home, down)] {
                if !of.is_empty() {
                    transit.delays.insert((7, colour), delays(of));
                }
            }
            transit.clock_offset_ns()
        });
        assert_eq!(one, other);
        one
    }

    /// Less the offset, what goes up is at the WAN later than at the LAN, and what comes down is there earlier.
    #[test]
    fn the_offset_lets_no_packet_arrive_before_it_was_sent() {
        // Both clocks agree: nothing to set right.
        assert_eq!(offset(&[3, 90], &[-50, -2]), 0);
        assert_eq!(offset(&[0, 90], &[-50, 0]), 0);
        // The LAN's clock is ahead: the fastest packet on its way up took no time at best.
        assert_eq!(offset(&[-500, -400, -450], &[-505, -601]), -500);
        assert_eq!(offset(&[-1, 80], &[-50, -20]), -1);
        // It is behind: the same of a packet on its way down.
        assert_eq!(offset(&[500, 700], &[450, 499, 460]), 499);
        assert_eq!(offset(&[30, 700], &[-50, 1]), 1);
        // The fastest ones took no time at all, either way.
        assert_eq!(offset(&[500, 700], &[450, 500]), 500);
        // Both ways cannot be had: the captures are left as they are.
        assert_eq!(offset(&[5, 100], &[1, 7]), 0);
        // One way alone tells nothing.
        assert_eq!(offset(&[-500], &[]), 0);
        assert_eq!(offset(&[], &[500]), 0);
    }

    #[test]
    fn one_packet_in_a_hundred_has_to_be_known() {
        for (lan_packets, matches, expected) in
            [(100, 0, false), (101, 0, true), (101, 1, true), (101, 2, false), (200, 2, false)]
        {
            let transit = Transit { lan_packets, matches, ..Transit::default() };
            assert_eq!(transit.is_unrelated(), expected, "{matches} of {lan_packets}");
        }
    }

    #[test]
    fn delays_have_their_extremes_and_their_mean() {
        let mut delays = TransitTimes::NONE;
        for delay in [40, -20, 10] {
            delays.add(delay);
        }
        assert_eq!((delays.count, delays.min_ns, delays.max_ns, delays.mean_ns()), (3, -20, 40, 10));
    }
}
