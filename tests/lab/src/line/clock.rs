//! Another clock for a host's TCP timestamps (RFC 7323): what the host sends gets the ticks of that clock, and what comes back to it gets its
//! own again, so that neither end notices.
//!
//! A host stamps with `TSval`; the other end returns it as `TSecr`. With `δ` the host's own ticks since the first segment of a connection, the
//! other clock shows `⌊δ·f⌋` ticks, with `f = (1 + skew)/tick`. Of all own ticks that look the same from outside, an echo becomes the
//! last one that the host has sent. An earlier one would make Linux take a retransmission for a needless one (the Eifel test,
//! RFC 3522: is the echo older than the retransmission?); a host that really has this clock could not tell them apart either.

use std::collections::HashMap;
use std::ops::Range;

use crate::clock::Ticks;

/// More connections than that keep their own clock.
const MOST_CONNECTIONS: usize = 65_536;
const ETHERNET: usize = 14;
/// Kind and length of the timestamps option.
const TIMESTAMPS: [u8; 2] = [8, 10];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    FromHost,
    ToHost,
}

/// The clock of one host, for all its connections.
#[derive(Debug)]
pub(crate) struct ClockRewriter {
    clock: Ticks,
    connections: HashMap<Vec<u8>, Connection>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    /// `TSval` of the first segment: both clocks show this there.
    base: u32,
    /// The host's newest own tick since then.
    newest: i64,
}

impl ClockRewriter {
    pub(crate) fn new(clock: Ticks) -> Self {
        Self { clock, connections: HashMap::new() }
    }

    /// Rewrites a frame, if it is TCP with timestamps; the checksum stays as right or wrong as it was.
    pub(crate) fn rewrite(&mut self, frame: &mut [u8], way: Way) {
        let Some(segment) = TimestampOffsets::of(frame) else { return };
        let key = segment.key(frame, way);
        match way {
            Way::FromHost => {
                let Some(own) = number(frame, segment.value) else { return };
                if !self.connections.contains_key(&key) && self.connections.len() >= MOST_CONNECTIONS {
                    return;
                }
                let fresh = Connection { base: own, newest: 0 };
                let connection = self.connections.entry(key).or_insert(fresh);
                if segment.flags & (SYN | ACK) == SYN {
                    // The same ports again, or the SYN again: nothing of this connection is under way.
                    *connection = fresh;
                }
                let shown = connection.show(own, self.clock);
                segment.replace(frame, segment.value, shown);
            }
            Way::ToHost if segment.flags & ACK != 0 => {
                let (Some(connection), Some(echo)) =
                    (self.connections.get(&key), number(frame, segment.value + 4))
                else {
                    return;
                };
                let own = connection.own(echo, self.clock);
                segment.replace(frame, segment.value + 4, own);
            }
            // Nothing is echoed where nothing is acknowledged.
            Way::ToHost => {}
        }
    }
}

impl Connection {
    /// What the other clock shows at one of the host's own ticks.
    fn show(&mut self, own: u32, clock: Ticks) -> u32 {
        let ticks = unwrap(own, self.base, self.newest);
        self.newest = self.newest.max(ticks);
        add(self.base, shown(ticks, clock))
    }

    /// The host's newest own tick at which the other clock showed this.
    fn own(&self, echo: u32, clock: Ticks) -> u32 {
        let (numerator, denominator) = clock.fraction();
        let ticks = unwrap(echo, self.base, shown(self.newest, clock));
        let last = ((ticks + 1) * denominator - 1).div_euclid(numerator);
        add(self.base, last.min(self.newest))
    }
}

fn shown(own: i64, clock: Ticks) -> i64 {
    let (numerator, denominator) = clock.fraction();
    (own * numerator).div_euclid(denominator)
}

/// Ticks since `base` of a 32-bit stamp that lies within 2³¹ of `near`.
fn unwrap(stamp: u32, base: u32, near: i64) -> i64 {
    near + i64::from(stamp.wrapping_sub(add(base, near)).cast_signed())
}

/// A 32-bit stamp so many ticks after `base`.
fn add(base: u32, ticks: i64) -> u32 {
    // The remainder of 2³² fits.
    base.wrapping_add(ticks.rem_euclid(1 << 32) as u32)
}

/// Where things lie in a TCP segment with timestamps.
struct TimestampOffsets {
    /// Source and destination address.
    addresses: Range<usize>,
    tcp: usize,
    /// `TSval`; `TSecr` follows.
    value: usize,
    flags: u8,
}

impl TimestampOffsets {
    fn of(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ETHERNET..)?;
        let (addresses, tcp) = match frame.get(12..ETHERNET)? {
            // Of a fragment only the first has ports, and its checksum covers all of them.
            [0x08, 0x00]
                if *ip.get(9)? == 6 && u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff == 0 =>
            {
                (ETHERNET + 12..ETHERNET + 20, ETHERNET + usize::from(ip.first()? & 15) * 4)
            }
            [0x86, 0xdd] if *ip.get(6)? == 6 => (ETHERNET + 8..ETHERNET + 40, ETHERNET + 40),
            _ => return None,
        };
        let header = tcp..tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4;
        let value = find_timestamps(frame.get(header)?)? + tcp;
        Some(Self { addresses, tcp, value, flags: *frame.get(tcp + 13)? })
    }

    /// Names the connection, the host's end first.
    fn key(&self, frame: &[u8], way: Way) -> Vec<u8> {
        let (source, destination) = frame[self.addresses.clone()].split_at(self.addresses.len() / 2);
        let (from, to) = (&frame[self.tcp..self.tcp + 2], &frame[self.tcp + 2..self.tcp + 4]);
        match way {
            Way::FromHost => [source, from, destination, to].concat(),
            Way::ToHost => [destination, to, source, from].concat(),
        }
    }

    /// Writes a number, and brings the checksum along (RFC 1624, Eq. 3).
    fn replace(&self, frame: &mut [u8], at: usize, value: u32) {
        let checksum = self.tcp + 16;
        let mut sum = u32::from(!u16::from_be_bytes([frame[checksum], frame[checksum + 1]]));
        for (at, new) in (at..at + 4).zip(value.to_be_bytes()) {
            // An option may begin at an odd place.
            let shift = if (at - self.tcp).is_multiple_of(2) { 8 } else { 0 };
            sum += u32::from(!(u16::from(frame[at]) << shift)) + (u32::from(new) << shift);
            frame[at] = new;
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        frame[checksum..checksum + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
}

/// Where in a TCP header `TSval` lies.
fn find_timestamps(header: &[u8]) -> Option<usize> {
    let mut at = 20;
    loop {
        match *header.get(at)? {
            0 => return None,
            1 => at += 1,
            _ if header.get(at..at + 2)? == TIMESTAMPS => return (at + 10 <= header.len()).then_some(at + 2),
            _ => at += usize::from(*header.get(at + 1)?).max(2),
        }
    }
}

fn number(frame: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTHS: Ticks = Ticks { tick_ms: 10, skew_ppm: 0 };

    /// A segment of 192.168.1.2:2000 → 198.18.1.2:80 or the way back, timestamps after `pad` NOPs, with a right checksum.
    fn frame(way: Way, flags: u8, value: u32, echo: u32, pad: usize) -> Vec<u8> {
        let mut ends = [([192, 168, 1, 2], 2000_u16), ([198, 18, 1, 2], 80)];
        if way == Way::ToHost {
            ends.swap(0, 1);
        }
        let mut tcp = vec![0; 20];
        tcp[..2].copy_from_slice(&ends[0].1.to_be_bytes());
        tcp[2..4].copy_from_slice(&ends[1].1.to_be_bytes());
        tcp[13] = flags;
        tcp.extend(vec![1; pad]);
        tcp.extend(TIMESTAMPS);
        tcp.extend(value.to_be_bytes());
        tcp.extend(echo.to_be_bytes());
        tcp.resize(20 + 16, 0);
        tcp[12] = (tcp.len() / 4 * 16) as u8;
        tcp.extend(b"payload");
        let mut frame = vec![0; ETHERNET + 20];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[ETHERNET + 9] = 6;
        frame[ETHERNET + 12..ETHERNET + 16].copy_from_slice(&ends[0].0);
        frame[ETHERNET + 16..ETHERNET + 20].copy_from_slice(&ends[1].0);
        frame.extend(tcp);
        let sum = !ones_complement(&frame);
        frame[50..52].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The sum over pseudo-header and segment; 0xffff where the checksum in it is right.
    fn ones_complement(frame: &[u8]) -> u16 {
        let segment = &frame[ETHERNET + 20..];
        let mut bytes = frame[ETHERNET + 12..ETHERNET + 20].to_vec();
        bytes.extend([0, 6]);
        bytes.extend((segment.len() as u16).to_be_bytes());
        bytes.extend(segment);
        bytes.resize(bytes.len().next_multiple_of(2), 0);
        let mut sum: u32 = bytes.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    fn value(frame: &[u8]) -> u32 {
        number(frame, TimestampOffsets::of(frame).unwrap().value).unwrap()
    }

    fn echo(frame: &[u8]) -> u32 {
        number(frame, TimestampOffsets::of(frame).unwrap().value + 4).unwrap()
    }

    /// Sends a stamp through, and returns what the other end sees.
    fn pass(rewriter: &mut ClockRewriter, flags: u8, own: u32) -> u32 {
        let mut frame = frame(Way::FromHost, flags, own, 77, 2);
        rewriter.rewrite(&mut frame, Way::FromHost);
        assert_eq!((echo(&frame), ones_complement(&frame)), (77, 0xffff));
        value(&frame)
    }

    /// Sends an echo back, and returns what the host sees.
    fn back(rewriter: &mut ClockRewriter, flags: u8, seen: u32) -> u32 {
        let mut frame = frame(Way::ToHost, flags, 55, seen, 2);
        rewriter.rewrite(&mut frame, Way::ToHost);
        assert_eq!((value(&frame), ones_complement(&frame)), (55, 0xffff));
        echo(&frame)
    }

    #[test]
    fn ten_own_ticks_are_one_of_a_coarse_clock_even_where_the_stamp_wraps() {
        let mut rewriter = ClockRewriter::new(TENTHS);
        let first = u32::MAX - 14;
        assert_eq!(pass(&mut rewriter, SYN, first), first);
        for (after, ticks) in [(9, 0), (10, 1), (29, 2), (1_000_000, 100_000)] {
            let seen = pass(&mut rewriter, ACK, first.wrapping_add(after));
            assert_eq!(seen, first.wrapping_add(ticks), "{after}");
        }
    }

    #[test]
    fn an_echo_becomes_the_last_own_tick_that_looked_so_and_none_of_the_future() {
        let mut rewriter = ClockRewriter::new(TENTHS);
        pass(&mut rewriter, SYN, 5_000);
        for own in [5_003, 5_012, 5_017, 5_023] {
            pass(&mut rewriter, ACK, own);
        }
        assert_eq!(back(&mut rewriter, ACK, 5_001), 5_019);
        assert_eq!(back(&mut rewriter, ACK, 5_002), 5_023);
        // A SYN echoes nothing.
        assert_eq!(back(&mut rewriter, SYN, 5_002), 5_002);
    }

    #[test]
    fn a_fast_clock_gains_its_parts_per_million_and_every_echo_comes_home() {
        let mut rewriter = ClockRewriter::new(Ticks { tick_ms: 1, skew_ppm: 500 });
        pass(&mut rewriter, SYN, 0);
        assert_eq!(pass(&mut rewriter, ACK, 2_000_000), 2_001_000);
        for own in (2_000_000..2_005_000).step_by(7) {
            let seen = pass(&mut rewriter, ACK, own);
            assert_eq!(back(&mut rewriter, ACK, seen), own);
        }
    }

    #[test]
    fn a_checksum_stays_right_wherever_the_option_lies() {
        for pad in 0..=4 {
            let mut rewriter = ClockRewriter::new(TENTHS);
            for own in [100, 65_000, 4_000_000_000_u32] {
                let mut frame = frame(Way::FromHost, ACK, own, 9, pad);
                rewriter.rewrite(&mut frame, Way::FromHost);
                assert_eq!(ones_complement(&frame), 0xffff, "{pad}");
            }
        }
    }

    #[test]
    fn what_has_no_timestamps_or_is_no_whole_segment_passes_as_it_is() {
        let whole = frame(Way::FromHost, ACK, 123_456, 9, 2);
        let mut rewriter = ClockRewriter::new(TENTHS);
        pass(&mut rewriter, ACK, 1);
        let mut fragment = whole.clone();
        fragment[ETHERNET + 6] = 0x20;
        let mut udp = whole.clone();
        udp[ETHERNET + 9] = 17;
        let mut bare = whole.clone();
        bare[ETHERNET + 20 + 12] = 0x50;
        let mut others = vec![fragment, udp, bare];
        others
            .extend((0..whole.len() - 8).map(|length| whole[..length].to_vec()).filter(|cut| cut.len() < 68));
        for mut other in others {
            let before = other.clone();
            rewriter.rewrite(&mut other, Way::FromHost);
            assert_eq!(other, before);
        }
    }
}
