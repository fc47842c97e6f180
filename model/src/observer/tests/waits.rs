//! What the link itself tells of waits: 1,000,000 B/s, so that 1,000 bytes are on it for a millisecond.

use super::super::PacketWait;
use super::super::Passing;
use super::super::entry_side::EntrySide;
use super::super::exit_side::ExitSide;
use crate::segment::Direction;

const MS: u64 = 1_000_000;
/// Bytes per nanosecond.
const RATE: f64 = 1e-3;

fn passing(at_ns: u64, bytes: u32) -> Passing {
    Passing { at_ns, bytes, repeated_bytes: 0, clock: None }
}

fn exit_side(direction: Direction, rate: Option<f64>) -> ExitSide {
    let mut exit_side = ExitSide::new(0, direction);
    exit_side.known.tell(rate);
    exit_side
}

/// What was carried since a moment took so long: whatever came off the link after it.
#[test]
fn a_busy_link_is_busy_for_what_it_carried() {
    for (direction, off_ms) in [(Direction::Down, 0), (Direction::Up, 1)] {
        let mut link = exit_side(direction, Some(RATE));
        for ms in [10, 20, 30] {
            link.depart(&passing(ms * MS, 1_000));
        }
        // Down a packet is seen when it is off the link, up when it begins.
        let off = |ms: u64| (ms + off_ms) * MS;
        for (since, carried_ms) in
            [(0, 3.0), (off(10) - 1, 3.0), (off(10), 2.0), (off(20), 1.0), (off(30), 0.0), (off(99), 0.0)]
        {
            assert_eq!(link.busy_since(since) / 1e6, carried_ms, "{direction:?} {since}");
            assert_eq!(link.count_since(since) as f64, carried_ms, "one packet each millisecond");
        }
    }
    // Without a rate: at most as long as 64 kbit/s would have taken, the newest packet left out.
    let mut unknown = exit_side(Direction::Down, None);
    for (ms, most_ms) in [(10, 0.0), (20, 125.0), (30, 250.0)] {
        unknown.depart(&passing(ms * MS, 1_000));
        assert!((unknown.busy_since(0) / 1e6 - most_ms).abs() < 1e-6, "{ms} ms: {}", unknown.busy_since(0));
    }
    assert_eq!(unknown.busy_since(30 * MS), 0.0);
}

/// The newest 4,096 packets are remembered. What was before them is not known.
#[test]
fn the_past_of_a_link_is_bounded() {
    let mut link = exit_side(Direction::Down, Some(RATE));
    for ms in 1..=4_095 {
        link.depart(&passing(ms * MS, 1_000));
    }
    assert_eq!(link.busy_since(0), 4_095e6);
    link.depart(&passing(4_096 * MS, 1_000));
    link.depart(&passing(4_097 * MS, 1_000));
    assert_eq!(link.busy_since(0), f64::INFINITY);
    assert_eq!(link.busy_since(2 * MS), 4_095e6);
}

/// A packet cannot have waited for longer than the link was busy. It was idle if nothing was on it for 30 ms, in one piece or, where nothing tells
/// waits, in several: shorter pauses are the link's own, of radio and of shapers that oversleep.
#[test]
fn nothing_waits_on_an_idle_link() {
    let mut link = exit_side(Direction::Down, Some(RATE));
    let mut most_ms = |at_us: u64| {
        let departure = link.depart(&passing(at_us * 1_000, 1_000));
        assert_eq!(departure.left_ns, (at_us * 1_000) as f64 - 1e6, "less its own time on the link");
        departure.most_ns / 1e6
    };
    // Idle from 0 to 99 ms, and from 160 to 190.001 ms; not from 100 to 129 ms, but with the 19 ms from 130 to 149 it is too long.
    assert_eq!(most_ms(100_000), 0.0);
    assert_eq!(most_ms(130_000), 30.0);
    assert_eq!(most_ms(150_000), 0.0);
    assert_eq!(most_ms(160_000), 10.0);
    assert_eq!(most_ms(191_001), 0.0);
    assert_eq!(most_ms(193_001), 2.0);
}

/// While waits are measured, pauses of 19 ms are no idle link, however many: it may have become slower.
#[test]
fn short_pauses_of_a_measured_link_do_not_add_up() {
    for is_measured in [true, false] {
        let mut link = exit_side(Direction::Down, Some(RATE));
        let mut most_ms = 0.0;
        for ms in (100..=400).step_by(20) {
            let packet = passing(ms * MS, 1_000);
            let departure = link.depart(&packet);
            most_ms = departure.most_ns / 1e6;
            let wait = PacketWait { ns: 2e6, uncertainty_ns: 0.0, hidden_ns: 0.0, proven_ns: None };
            link.place(&packet, &departure, is_measured.then_some(wait));
        }
        assert_eq!(most_ms > 250.0, is_measured, "{most_ms} ms");
    }
}

/// A measured wait holds for 30 ms, and is nothing once the link is idle: two full packets and 10 ms after the last.
#[test]
fn a_measured_wait_holds_for_a_while() {
    let ms = |ms: f64| ms * 1e6;
    let measured = || {
        let mut link = exit_side(Direction::Down, Some(RATE));
        // The link is busy since 80 ms, so that the packet at 100 ms may have waited.
        for at in [80, 85, 90, 95, 100] {
            let departure = link.depart(&passing(at * MS, 1_000));
            let wait = PacketWait { ns: ms(5.0), uncertainty_ns: 0.0, hidden_ns: 0.0, proven_ns: None };
            link.place(&passing(at * MS, 1_000), &departure, (at == 100).then_some(wait));
        }
        link
    };
    let mut link = measured();
    // A tenth of the way from the 1.5 ms of jitter to the nothing that was told.
    assert!((link.uncertainty_ns / 1e6 - 1.35).abs() < 1e-9);
    // It left at 99 ms.
    assert_eq!(link.wait_ns(ms(100.0)), Some(ms(5.0)));
    assert_eq!(link.wait_by_clock_ns(ms(100.0)), None, "no clock told it");
    // Off the link at 100 ms; idle after 13 ms more. Until 129 ms the measured wait counts.
    assert!(!link.is_idle(ms(113.0)) && link.is_idle(ms(113.1)));
    assert_eq!(link.wait_ns(ms(128.9)), Some(ms(5.0)));
    assert_eq!(link.wait_ns(ms(129.0)), Some(0.0), "an idle link");
    assert_eq!(link.wait_by_clock_ns(ms(129.0)), None, "no clock has told that either");
    link.depart(&passing(120 * MS, 1_000));
    assert_eq!(link.wait_ns(ms(129.0)), None, "busy, and nothing told");
    assert_eq!(link.wait_ns(ms(133.1)), Some(0.0));
}

/// What a stamp says is known to jitter and a tick, and to what a clock drifts at 50 ppm since the link was idle, here for 20 s.
#[test]
fn a_wait_by_a_stamp_is_off_by_jitter_a_tick_and_drift() {
    for tick_ms in [1, 10] {
        let mut link = exit_side(Direction::Down, Some(RATE));
        let mut told = None;
        for ms in (0..5_000).step_by(100).chain(5_000..25_000) {
            let packet = Passing { clock: Some((1, (ms / tick_ms) as u32)), ..passing(ms * MS, 1_000) };
            let departure = link.depart(&packet);
            told = link.read_clock(&packet, &departure, f64::INFINITY);
            link.place(&packet, &departure, told);
        }
        let off_ms = told.expect("the tick is known").uncertainty_ns / 1e6;
        assert!((off_ms - (1.5 + tick_ms as f64 + 1.0)).abs() < 0.01, "{tick_ms}: {off_ms}");
    }
}

/// Clocks have shown 200 ms when the last stamp comes. For 30 ms and half of that wait they show those of packets without a stamp, too.
#[test]
fn clocks_show_the_waits_of_others_for_a_while() {
    let mut link = exit_side(Direction::Down, Some(RATE));
    let mut shown = 0;
    for ms in (0..1_000).step_by(100).chain(1_500..2_000) {
        let sent_ms = ms.min(1_499);
        let clock = (ms < 1_700).then_some((1, sent_ms as u32));
        let packet = Passing { clock, ..passing(ms * MS, 1_000) };
        let departure = link.depart(&packet);
        let told = link.read_clock(&packet, &departure, f64::INFINITY);
        shown += u32::from(clock.is_none() && link.is_clocked(&departure));
        link.place(&packet, &departure, told);
    }
    assert!((125..=131).contains(&shown), "{shown} ms");
}

/// After a silence nothing can have waited for longer than since then. Before, who knows what stood there?
#[test]
fn a_silence_leaves_nothing_on_the_link() {
    let mut link = exit_side(Direction::Down, Some(RATE));
    assert_eq!(link.depart(&passing(3 * MS, 1_000)).most_ns, f64::INFINITY);
    link.restart(5_000 * MS);
    assert_eq!(link.depart(&passing(5_003 * MS, 1_000)).most_ns, 2e6);
}

/// On a slow link, here of 10 kB/s, a pause of half a packet is none.
#[test]
fn a_slow_link_pauses_for_longer() {
    let mut link = exit_side(Direction::Down, Some(RATE / 100.0));
    let most_ms = [1_000, 1_080, 1_170].map(|ms| link.depart(&passing(ms * MS, 100)).most_ns / 1e6);
    assert_eq!(most_ms, [0.0, 80.0, 0.0]);
}

/// What is configured, what was measured, what was there to begin with.
#[test]
fn the_best_rate_of_a_buffer_counts() {
    let mut link = exit_side(Direction::Down, None);
    assert_eq!(link.rate(), None);
    link.known.begin_with(Some(2e-3));
    assert_eq!(link.rate(), Some(2e-3));
    link.known.tell(Some(RATE));
    assert_eq!(link.rate(), Some(RATE));
    let mut entry_side = EntrySide::new(0);
    assert_eq!(entry_side.rate(), None);
    entry_side.known.begin_with(Some(2e-3));
    assert_eq!(entry_side.rate(), Some(2e-3));
    entry_side.known.tell(Some(RATE));
    assert_eq!(entry_side.rate(), Some(RATE));
}

/// A hundred packets of 5,000 bytes in the second before: half of what the link carries.
#[test]
fn light_traffic_is_a_part_of_the_rate_in_the_second_before() {
    let mut entry_side = EntrySide::new(0);
    entry_side.known.tell(Some(RATE));
    let light = |entry_side: &mut EntrySide, at_ns: u64, part: f64| {
        entry_side.is_light(at_ns, at_ns + MS, part, true)
    };
    assert!(light(&mut entry_side, 5 * MS, 0.0), "nothing ever entered");
    for packet in 0..100 {
        entry_side.enter((1_000 + 10 * packet) * MS, 5_000, 0);
    }
    assert!(light(&mut entry_side, 2_000 * MS, 0.5) && !light(&mut entry_side, 2_000 * MS, 0.499));
    // A moment later the first one is more than a second ago.
    assert!(light(&mut entry_side, 2_000 * MS + 1, 0.495) && !light(&mut entry_side, 2_000 * MS + 1, 0.494));
    let mut unknown = EntrySide::new(0);
    unknown.enter(5 * MS, 1, 0);
    assert!(!light(&mut unknown, 5 * MS, 1.0), "without a rate nothing is light");
}

/// By the recursion each packet waits for those before it.
#[test]
fn packets_wait_for_those_before_them() {
    let mut entry_side = EntrySide::new(0);
    entry_side.known.tell(Some(RATE));
    for ms in [0, 1, 2, 20] {
        entry_side.enter(ms * MS, 3_000, 0);
    }
    // Served from 0, 3, 6 and 20 ms on.
    let expected_ms = |ms: u64| entry_side.expected_ns(ms * MS).map(|ns| ns / 1e6);
    assert_eq!([0, 1, 2, 20].map(expected_ms), [0.0, 2.0, 4.0, 0.0].map(Some));
    // A question between two packets is taken for the next one.
    assert_eq!(expected_ms(10), Some(0.0));
    assert_eq!(EntrySide::new(0).expected_ns(0), None);
}

/// Rates are configured in bytes per second; less than one is none.
#[test]
fn rates_are_reported_by_the_second() {
    use super::super::{Observer, Vantage};
    use crate::segment::PerDirection;
    use std::time::Duration;
    for vantage in [Vantage::BeforeUplinkBuffer, Vantage::BehindUplinkBuffer] {
        let mut observer = Observer::new(0, vantage, Duration::ZERO);
        let rates = |observer: &Observer| Direction::ALL.map(|x| observer.any_rate(x).map(|rate| rate * 1e9));
        let pair = |up, down| PerDirection { up: Some(up), down: Some(down) };
        observer.set_first_rates(pair(0.9, f64::INFINITY));
        assert_eq!(rates(&observer), [None, None]);
        observer.set_first_rates(pair(1.0, 4_000.0));
        assert_eq!(rates(&observer), [Some(1.0), Some(4_000.0)]);
        observer.set_rates(pair(2_000.0, f64::NAN), None);
        assert_eq!(rates(&observer), [Some(2_000.0), Some(4_000.0)]);
        observer.set_rates(pair(0.5, 8_000.0), None);
        assert_eq!(rates(&observer), [Some(1.0), Some(8_000.0)]);
    }
}
