//! Senders' clocks: what the stamps of a known sender tell about known waits.

use super::super::clock::{Clocks, SenderClock, StampReading};
use super::super::rules::RULES;

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// A sender that stamps what it sends.
struct StampingSender {
    clock: SenderClock,
    tick_ns: f64,
    /// How much faster than ours its clock runs.
    fast: f64,
    offset: u32,
}

impl StampingSender {
    fn new(tick_ms: f64) -> Self {
        Self { clock: SenderClock::default(), tick_ns: tick_ms * MS, fast: 0.0, offset: 0 }
    }

    /// A long packet, sent at `sent_ns`, leaves the buffer after `wait_ms`.
    fn send(&mut self, sent_ns: f64, wait_ms: f64, most_ms: f64) -> Option<StampReading> {
        let ticks = (sent_ns * (1.0 + self.fast) / self.tick_ns) as u64 as u32;
        let left_ns = sent_ns + wait_ms * MS;
        self.clock.read(left_ns, ticks.wrapping_add(self.offset), most_ms * MS, f64::INFINITY)
    }

    /// One packet each 7 ms, none of which waits. The newest reading.
    fn idle(&mut self, from_s: f64, seconds: f64, most_ms: f64) -> Option<StampReading> {
        let packets = (seconds / 0.007) as u32;
        (0..packets)
            .map(|i| self.send(from_s * SECOND + f64::from(i) * 7.0 * MS, 0.0, most_ms))
            .last()
            .flatten()
    }
}

#[test]
fn the_tick_is_found_and_the_wait_is_right_to_a_tick() {
    for tick_ms in [1e-3, 1.0, 4.0, 10.0, 100.0, 1_000.0] {
        // The second one comes round after 2³² ticks within the test.
        for offset in [12_345, u32::MAX - 20] {
            let mut sender = StampingSender { offset, ..StampingSender::new(tick_ms) };
            sender.idle(1.0, 4.0, f64::INFINITY);
            let reading = sender.send(5.2 * SECOND, 37.0, 37.0).expect("four seconds are enough");
            assert_eq!(reading.tick_ns, tick_ms * MS);
            let waited_ms = reading.waited_ns / MS;
            assert!((36.9..=37.1 + tick_ms).contains(&waited_ms), "{tick_ms} ms: {waited_ms}");
        }
    }
}

#[test]
fn a_clock_needs_four_tenths_of_a_second() {
    let mut sender = StampingSender::new(1.0);
    assert_eq!(sender.idle(1.0, 0.39, 0.0), None);
    assert!(sender.idle(1.39, 0.1, 0.0).is_some());
}

#[test]
fn drift_is_found_and_taken_off() {
    for fast in [50e-6, -50e-6] {
        let mut sender = StampingSender { fast, ..StampingSender::new(1.0) };
        // 50 ppm of 200 s are 10 ms.
        let idle = sender.idle(0.0, 200.0, f64::INFINITY).expect("a reading");
        assert!(idle.waited_ns <= 5.0 * MS, "{fast}: {} ns without a queue", idle.waited_ns);
        let full = sender.send(200.01 * SECOND, 80.0, f64::INFINITY).expect("a reading");
        assert!((full.waited_ns - 80.0 * MS).abs() <= 5.0 * MS, "{fast}: {}", full.waited_ns);
    }
}

/// A buffer that seldom drains: the smallest readings of each ten seconds show the drift, not the first ones.
#[test]
fn drift_is_found_behind_a_queue() {
    for fast in [50e-6, -50e-6] {
        let mut sender = StampingSender { fast, ..StampingSender::new(1.0) };
        for i in 0..2_000_u32 {
            // The longest wait differs from ten seconds to the next.
            let wait_ms =
                if i % 7 == 3 { 0.0 } else { f64::from((5 + 37 * i % 100) * (1 + i / 100 * 5 % 7)) };
            sender.send(f64::from(i) * 100.0 * MS, wait_ms, f64::INFINITY);
        }
        for wait_ms in [0.0, 80.0] {
            let sent_ns = (200.0 + wait_ms / 10.0) * SECOND;
            let waited_ms = sender.send(sent_ns, wait_ms, f64::INFINITY).expect("a reading").waited_ns / MS;
            assert!((waited_ms - wait_ms).abs() <= 4.0, "{fast}: {waited_ms}, not {wait_ms} ms");
        }
    }
}

/// A long tick hides what the drift does meanwhile: the smallest readings are off the line by up to half of it.
#[test]
fn drift_is_found_in_spite_of_a_long_tick() {
    let fast = -50e-6;
    let mut sender = StampingSender { fast, ..StampingSender::new(100.0) };
    for i in 0..1_000_u32 {
        sender.send(f64::from(i) * 1_037.0 * MS, 0.0, f64::INFINITY);
    }
    // Just after the stamp has changed.
    let sent_ns = (10_380.0 * 100.0 * MS) / (1.0 + fast) + 1e3;
    let waited_ms = sender.send(sent_ns, 0.0, f64::INFINITY).expect("a reading").waited_ns / MS;
    assert!(waited_ms <= 20.0, "{waited_ms} ms, of which 52 without the drift");
}

#[test]
fn a_clock_that_is_set_begins_anew() {
    // Forward and back, by an hour and by three seconds.
    for set_by in [3_600_000_i32, 3_000, -3_000, -3_600_000] {
        let mut sender = StampingSender::new(1.0);
        sender.idle(1.0, 4.0, 0.0);
        sender.offset = sender.offset.wrapping_add_signed(set_by);
        // A full buffer meanwhile. Nothing is said rather than that it waited for hours.
        assert_eq!(sender.send(5.01 * SECOND, 50.0, f64::INFINITY), None, "{set_by}");
        // It counts from this packet.
        let heard = sender.clock.heard().map(|(first_ns, is_proven)| ((first_ns / MS).round(), is_proven));
        assert_eq!(heard, Some((5_060.0, false)), "{set_by}");
        sender.idle(5.1, 2.0, 0.0);
        let reading = sender.send(7.2 * SECOND, 37.0, 37.0).expect("a new clock");
        assert!((36.9..=38.1).contains(&(reading.waited_ns / MS)), "{set_by}: {}", reading.waited_ns);
    }
}

#[test]
fn packets_that_changed_places_tell_nothing_and_break_nothing() {
    let mut sender = StampingSender::new(1.0);
    sender.idle(1.0, 4.0, 0.0);
    sender.send(5.2 * SECOND, 0.0, 0.0);
    assert_eq!(sender.send(5.1 * SECOND, 100.0, 0.0), None);
    let reading = sender.send(5.3 * SECOND, 37.0, 37.0).expect("the same clock");
    assert!((36.9..=38.1).contains(&(reading.waited_ns / MS)));
}

/// A packet whose stamp is a second older than the newest one changed places; if it is older, the clock was set back.
#[test]
fn a_stamp_that_is_old_by_more_than_a_second_begins_anew() {
    for (older, is_kept) in [(1_000, true), (1_001, false)] {
        let mut sender = StampingSender::new(1.0);
        sender.idle(1.0, 4.0, 0.0);
        sender.send(5.2 * SECOND, 0.0, 0.0);
        assert_eq!(sender.clock.read(5.201 * SECOND, 5_200 - older, 0.0, f64::INFINITY), None);
        assert_eq!(sender.send(5.3 * SECOND, 37.0, 37.0).is_some(), is_kept, "{older}");
    }
}

/// The first packet has waited for 50 ms, those of the next third of a second not at all, all later ones for 80 ms: what was read before the tick was known counts.
#[test]
fn readings_count_before_the_tick_is_known() {
    let mut sender = StampingSender::new(1.0);
    sender.send(0.0, 50.0, f64::INFINITY);
    for i in 6..200 {
        sender.send(f64::from(i) * 10.0 * MS, if i < 35 { 0.0 } else { 80.0 }, f64::INFINITY);
    }
    let waited_ms = sender.send(2.0 * SECOND, 80.0, f64::INFINITY).expect("a reading").waited_ns / MS;
    assert!((80.0..=81.5).contains(&waited_ms), "{waited_ms}");
}

#[test]
fn a_clock_that_lies_is_not_used() {
    // Half as fast again, or two thirds as fast: no tick at all.
    for fast in [0.5, -0.34] {
        let mut sender = StampingSender { fast, ..StampingSender::new(1.0) };
        for i in 0..6000 {
            let reading = sender.send(f64::from(i) * 10.0 * MS, 0.0, f64::INFINITY);
            assert_eq!(reading, None, "{fast} at {i}");
        }
    }
    // A third faster or slower could be a queue for a few seconds, and then no longer.
    for fast in [0.38, -0.25] {
        let mut sender = StampingSender { fast, ..StampingSender::new(1.0) };
        for i in 0..6000 {
            let reading = sender.send(f64::from(i) * 10.0 * MS, 0.0, f64::INFINITY);
            assert!(reading.is_none() || i < 1000, "{fast} at {i}");
        }
    }
}

#[test]
fn a_longer_route_is_no_queue_once_the_idle_link_has_shown_it() {
    let mut sender = StampingSender::new(1.0);
    sender.idle(1.0, 4.0, 0.0);
    // 30 ms longer from now on; nothing waits, and the link is idle.
    for i in 0..200 {
        sender.send(5.0 * SECOND + f64::from(i) * 10.0 * MS, 30.0, 0.0);
    }
    let reading = sender.send(7.1 * SECOND, 30.0, 0.0).expect("a reading");
    assert!(reading.waited_ns <= 1.0 * MS, "{}", reading.waited_ns);
    // Behind a busy link it is one.
    for i in 0..200 {
        sender.send(7.2 * SECOND + f64::from(i) * 10.0 * MS, 60.0, f64::from(i) * 10.0);
    }
    let reading = sender.send(9.3 * SECOND, 60.0, 2100.0).expect("a reading");
    assert!((29.0..=31.0).contains(&(reading.waited_ns / MS)), "{}", reading.waited_ns);
}

/// A clock that drifts, as long as its drift stays the same, forgets nothing: eight packets, one each two seconds, show the longer route.
#[test]
fn a_longer_route_is_seen_by_a_clock_that_drifts() {
    let mut sender = StampingSender { fast: 50e-6, ..StampingSender::new(1.0) };
    sender.idle(0.0, 300.0, 0.0);
    let readings = (0..15).map(|i| sender.send(f64::from(302 + 2 * i) * SECOND, 30.0, 0.0));
    let waited_ms = readings.last().flatten().expect("a reading").waited_ns / MS;
    assert!(waited_ms <= 2.0, "{waited_ms}");
}

#[test]
fn only_an_empty_buffer_proves_the_smallest_reading() {
    let mut sender = StampingSender::new(1.0);
    assert_eq!(sender.idle(1.0, 4.0, 1000.0).expect("a reading").proven_ns, None);
    let proven = sender.idle(5.0, 1.0, 0.0).expect("a reading").proven_ns.expect("the link was idle");
    let later = sender.send(6.2 * SECOND, 40.0, 60.0).expect("a reading");
    assert_eq!(later.proven_ns, Some(proven));
}

/// A wait counts as none if it is no longer than a tick, or twice the jitter.
#[test]
fn a_link_that_was_busy_for_a_moment_proves_the_smallest_reading() {
    for (tick_ms, most_ms, is_proven) in
        [(1.0, 2.9, true), (1.0, 3.1, false), (10.0, 9.9, true), (10.0, 10.1, false)]
    {
        let reading = StampingSender::new(tick_ms).idle(1.0, 4.0, most_ms).expect("a reading");
        assert_eq!(reading.proven_ns.is_some(), is_proven, "{tick_ms} {most_ms}");
    }
}

/// Between 60 and 136 ms stand from the beginning, which a better clock knows: its packets come 2 ms after this sender's and wait as long. What the smallest
/// reading hides is known to 2 ms and a tick; a proven one stays as it is.
#[test]
fn a_better_clock_tells_what_hides_in_the_smallest_reading() {
    for (most_ms, expected_ms) in [(f64::INFINITY, 97.0..=99.5), (0.0, 39.0..=41.0)] {
        let mut sender = StampingSender::new(1.0);
        for i in 0..300 {
            let sent_ns = f64::from(i) * 10.0 * MS;
            let wait_ms = 60.0 + 4.0 * f64::from(i % 20);
            // By its own readings an empty link proves the shortest of them.
            let most_ms = if i % 20 == 0 { most_ms } else { f64::INFINITY };
            sender.send(sent_ns, wait_ms, most_ms);
            sender.clock.follow(sent_ns + (2.0 + wait_ms) * MS, wait_ms * MS);
        }
        let waited_ms = sender.send(3.0 * SECOND, 100.0, f64::INFINITY).expect("a reading").waited_ns / MS;
        assert!(expected_ms.contains(&waited_ms), "{most_ms}: {waited_ms} ms");
    }
}

/// Most packets of the better clock entered 9 ms after this sender's, one of ten 2 ms after: that one shows best what hides in the smallest reading.
#[test]
fn the_closest_packet_of_a_better_clock_counts() {
    let mut sender = StampingSender::new(1.0);
    for i in 0..300 {
        let sent_ns = f64::from(i) * 10.0 * MS;
        sender.send(sent_ns, 80.0, f64::INFINITY);
        let later_ms = if i % 10 == 0 { 2.0 } else { 9.0 };
        sender.clock.follow(sent_ns + (later_ms + 80.0) * MS, 80.0 * MS);
    }
    let waited_ms = sender.send(3.0 * SECOND, 100.0, f64::INFINITY).expect("a reading").waited_ns / MS;
    assert!((97.0..=99.5).contains(&waited_ms), "{waited_ms} ms");
}

/// A transfer begins on a slow link: twelve packets that were sent at once come out one each 40 ms, which looks like a tick of 4 ms. Later ones wait for 440 ms,
/// and within ten seconds the tick is known, however seldom they come.
#[test]
fn a_queue_that_grows_fast_is_no_longer_tick() {
    for each_ms in [40, 1_500] {
        let mut sender = StampingSender::new(1.0);
        sender.send(0.0, 0.0, f64::INFINITY);
        for i in 0..12 {
            sender.send(100.0 * MS, 40.0 * f64::from(i), f64::INFINITY);
        }
        for at_ms in (140..20_000).step_by(each_ms) {
            let reading = sender.send(f64::from(at_ms) * MS, 440.0, f64::INFINITY);
            if at_ms > 6_000 {
                let waited_ms = reading.expect("a reading").waited_ns / MS;
                assert!((439.0..=441.5).contains(&waited_ms), "{waited_ms} ms at {at_ms} ms");
            }
        }
    }
}

/// Packets of one flow until its clock's tick is known.
fn is_known(clocks: &mut Clocks, at_ns: f64) -> bool {
    let clock = clocks.entry(0, SenderClock::default);
    clock.read(at_ns, (at_ns / 1e6) as u32, 0.0, 0.0).is_some()
}

#[test]
fn what_is_still_read_stays_while_others_come_and_go() {
    let mut clocks = Clocks::default();
    let mut at_ns = 1e9;
    while !is_known(&mut clocks, at_ns) {
        at_ns += 10e6;
        assert!(at_ns < 60e9, "its tick is known within a minute");
    }
    for other in 1..10 * RULES.records_max as u64 {
        at_ns += 1e6;
        clocks.entry(other, SenderClock::default);
        if other % 100 == 0 {
            assert!(is_known(&mut clocks, at_ns), "forgotten after {other} others");
        }
    }
}
