//! A buffer of which the end is seen, by hand: 300,000 B/s, so that 1500 bytes are on the link for 5 ms.

use std::time::Duration;

use super::super::{Answer, Observer, Passing, Trust, Vantage};
use crate::sample::QueueSample;
use crate::segment::{Direction, PerDirection};

const MS: u64 = 1_000_000;
const RATE: f64 = 300_000.0;

/// The gateway's own uplink queue is read elsewhere: delays consist of the way and the downlink's queue.
fn observer() -> Observer {
    let mut observer = Observer::new(0, Vantage::OwnQueue, Duration::ZERO);
    observer.set_rates(PerDirection { up: None, down: Some(RATE) }, None);
    observer
}

fn pass(observer: &mut Observer, at_ms: u64, bytes: u32, delay_us: Option<u64>) {
    let answer = delay_us.map(|us| Answer {
        end: [7; 16],
        delay_ns: us * 1000,
        question_bytes: 60,
        ..Answer::default()
    });
    observer.arrive(&Passing { at_ns: at_ms * MS, bytes, repeated_bytes: 0, clock: None }, answer.as_ref());
}

/// A full packet arrives, `delay_ms` after the short one that it answers.
fn full(observer: &mut Observer, at_ms: u64, delay_ms: u64) {
    pass(observer, at_ms, 1500, Some(delay_ms * 1000));
}

/// A full packet with its sender's clock; an answer if `delay_ms` is given.
fn clocked(observer: &mut Observer, at_ms: u64, tsval: u32, delay_ms: Option<u64>) {
    let answer = delay_ms.map(|ms| Answer {
        end: [7; 16],
        delay_ns: ms * MS,
        question_bytes: 60,
        ..Answer::default()
    });
    let packet = Passing { at_ns: at_ms * MS, bytes: 1500, repeated_bytes: 0, clock: Some((1, tsval)) };
    observer.arrive(&packet, answer.as_ref());
}

fn rows(observer: &mut Observer, to_ms: u64) -> Vec<Option<QueueSample>> {
    observer.finish(to_ms * MS);
    std::iter::from_fn(|| observer.pop(Direction::Down)).collect()
}

fn highest(observer: &mut Observer, to_ms: u64) -> f64 {
    rows(observer, to_ms).into_iter().flatten().map(|row| row.max_bytes).fold(0.0, f64::max)
}

/// Packets passed, but none of them stood in the buffer.
fn stays_empty(observer: &mut Observer, to_ms: u64) -> bool {
    rows(observer, to_ms).into_iter().all(|row| row.is_some_and(|row| row.mean_bytes < 1.0))
}

#[test]
fn delay_above_the_smallest_is_queue() {
    let mut link = observer();
    // 20 ms of way and 5 ms of its own; then 20 packets back to back, each 4 ms later than the one before.
    full(&mut link, 1000, 25);
    for i in 1..=20 {
        full(&mut link, 1000 + 5 * i, 25 + 4 * i);
    }
    // The last one waited 80 ms: 24,000 bytes, itself among them.
    assert_eq!(highest(&mut link, 1100), 24_000.0);
    assert_eq!(link.answers(), (21, 0));
}

/// A queue of 50 ms that comes at once and stays, 20 ms away: its level is known to half a packet, what 1.5 ms of jitter are, and what it
/// changes in a quarter of the way. Of packets between two answers that waited alike nothing more is in doubt.
#[test]
fn a_level_is_known_to_half_a_packet_jitter_and_the_way() {
    for answered in [1, 20] {
        let mut link = observer();
        full(&mut link, 1000, 25);
        for i in 1..=200 {
            let delay_us = (i < 20 || i % answered == 0).then_some(1_000 * (25 + (5 * i).min(50)));
            pass(&mut link, 1000 + 5 * i, 1500, delay_us);
        }
        let rows: Vec<QueueSample> = rows(&mut link, 1_950).into_iter().flatten().collect();
        assert!(rows[50].uncertainty_bytes <= 1.5e-3 * RATE, "nothing waits, of no packet");
        let rows = &rows[90..];
        for pair in rows.windows(2).filter(|pair| pair[1].max_bytes > 0.0) {
            let changed = 0.5 * (pair[1].mean_bytes - pair[0].mean_bytes);
            let uncertainty = 1514.0 / 2.0 + changed.hypot(1.5e-3 * RATE);
            assert!((pair[1].uncertainty_bytes - uncertainty).abs() < 1.0, "{pair:?}: {uncertainty}");
        }
        assert!(rows.len() > 90 && rows.iter().any(|row| row.uncertainty_bytes > 2_000.0));
    }
}

/// A second after a clock was read, what it said is forgotten; before, it holds for a moment, or the link is idle.
#[test]
fn the_wait_by_a_clock_is_of_the_last_second() {
    let mut link = observer();
    (0..10).for_each(|i| clocked(&mut link, 100 + 100 * i, (95 + 100 * i) as u32, None));
    (0..20).for_each(|i| clocked(&mut link, 1_500 + 5 * i, 1_495, None));
    let told_ms = |at_ms: u64| link.downlink_wait_by_clock(at_ms * MS).map(|seconds| seconds * 1e3);
    // 95 ms, less half a tick.
    assert!(told_ms(1_600).is_some_and(|ms| (ms - 94.5).abs() < 1.0), "{:?}", told_ms(1_600));
    assert_eq!([2_400, 2_700].map(told_ms), [Some(0.0), None]);
}

/// Nobody answers any more: what is not measured is in doubt by as long as that has lasted.
#[test]
fn doubt_grows_with_the_time_since_the_newest_answer() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    for i in 1..=300 {
        let delay_us = (i <= 200).then_some(1_000 * (25 + (5 * i).min(50)));
        pass(&mut link, 1000 + 5 * i, 1500, delay_us);
    }
    let rows = rows(&mut link, 2_500);
    for (row, since_ms) in [(196, 25.0), (197, 35.0), (198, 45.0)] {
        let row = rows[row].expect("a level");
        let uncertainty = 1514.0 / 2.0 + (1.5 + since_ms) * 1e-3 * RATE;
        assert!((row.uncertainty_bytes - uncertainty).abs() < 300.0, "{row:?}: {uncertainty}");
    }
}

/// Nobody answers for 200 ms, in which the wait grows from 50 to 90 ms: halfway it is known to half of the 20 ms that it will still change.
#[test]
fn between_two_answers_half_of_the_change_is_in_doubt() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    for i in 1..=200 {
        let wait_ms = if i < 140 { (5 * i).min(50) } else { 90 };
        let delay_us = (i <= 100 || i >= 140).then_some(1_000 * (25 + wait_ms));
        pass(&mut link, 1000 + 5 * i, 1500, delay_us);
    }
    // What leaves at 1,600 ms has come 70 ms before.
    let row = rows(&mut link, 1_950)[152].expect("a level");
    let uncertainty = 1514.0 / 2.0 + (1.5e-3 + 10e-3) * RATE;
    assert!((row.uncertainty_bytes - uncertainty).abs() < 600.0, "{row:?}: {uncertainty}");
}

/// A host without a clock takes 150 ms to think before its first answer, and no queue drains afterwards: its delay without queue is too long. While another
/// sender's clock tells how long packets wait, also those between its own, that counts.
#[test]
fn a_clock_counts_before_the_answer_of_a_host_without_one() {
    let mut link = observer();
    for i in 0..20_u64 {
        clocked(&mut link, 50 * i, 50 * i as u32, None);
    }
    // 200 ms build up, and stay.
    for i in 0..600_u64 {
        let (at_ms, waited_ms) = (1000 + 5 * i, (5 * i / 2).min(200));
        if i % 4 == 3 {
            let thinks_ms = if i == 3 { 150 } else { 0 };
            let delay_ns = (25 + waited_ms + thinks_ms) * MS;
            let answer = Answer { end: [8; 16], delay_ns, question_bytes: 60, ..Answer::default() };
            link.arrive(&Passing { at_ns: at_ms * MS, bytes: 1500, ..Passing::default() }, Some(&answer));
        } else {
            clocked(&mut link, at_ms, (at_ms - 5 - waited_ms) as u32, None);
        }
    }
    let standing = &rows(&mut link, 4000)[250..350];
    let least = standing.iter().flatten().map(|row| row.min_bytes).fold(f64::INFINITY, f64::min);
    assert!((0.95 * 60_000.0..=1.05 * 60_000.0).contains(&least), "{least} bytes");
}

/// A host is first heard in a queue of 100 ms, of which a sender's clock or another host's replies tell: its delay without queue is right.
#[test]
fn what_others_tell_of_the_queue_is_no_delay_of_a_host() {
    for has_clock in [true, false] {
        let mut link = observer();
        let mut send = |at_ms: u64, waited_ms: u64, end: u8| {
            let delay_ns = (25 + waited_ms) * MS;
            let answer = Answer { end: [end; 16], delay_ns, question_bytes: 60, ..Answer::default() };
            let clock = has_clock.then_some((1, (at_ms - 5 - waited_ms) as u32));
            link.arrive(&Passing { at_ns: at_ms * MS, bytes: 1500, repeated_bytes: 0, clock }, Some(&answer));
        };
        (0..20).for_each(|i| send(100 + 50 * i, 0, 7));
        (0..200).for_each(|i| send(2_000 + 5 * i, (5 * i).min(100), 7));
        send(3_000, 100, 9);
        let base = link.base_round_trip().expect("replies came");
        assert!((base.seconds - 0.02).abs() < 0.0011, "{has_clock}: {base:?}");
    }
}

/// Sender and host are first heard in a queue of 200 ms that stays: neither tells how long the other's packets waited.
#[test]
fn what_hides_in_a_clock_is_no_base_of_a_host() {
    let mut link = observer();
    for i in 0..1_000_u64 {
        let at_ms = 5 * i;
        let is_reply = at_ms > 225 && i % 4 == 3;
        clocked(&mut link, at_ms, (10_000 + at_ms - 205) as u32, is_reply.then_some(225));
    }
    let base = link.base_round_trip().expect("replies came");
    assert!(!base.is_proven, "{base:?}");
    let rows: Vec<QueueSample> = rows(&mut link, 4_500).into_iter().skip(100).flatten().collect();
    for row in rows {
        assert!(row.mean_bytes + row.uncertainty_bytes >= 60_000.0, "{row:?}");
    }
}

/// Bursts of 40 packets with a clock, and short packets without one in the pauses: the queue of the burst's end is not theirs.
#[test]
fn what_follows_a_burst_without_a_clock_kept_no_link_busy() {
    let mut link = Observer::new(0, Vantage::OwnQueue, Duration::ZERO);
    for burst_ms in (1_000..11_000).step_by(500) {
        for i in 0..40 {
            clocked(&mut link, burst_ms + 5 * i, (burst_ms - 5 + 2 * i) as u32, None);
        }
        for pause_ms in [20, 40, 60] {
            pass(&mut link, burst_ms + 200 + pause_ms, 80, None);
        }
    }
    link.finish(11_000 * MS);
    let rate = link.rate(Direction::Down).expect("a rate").bytes_per_second;
    assert!((rate - RATE).abs() < 0.02 * RATE, "{rate}");
}

/// Packets in pairs that now and then seem to have waited for 4 and 5 ms: no more than clocks and a shaper's timer are off by. The second comes faster than the link is.
#[test]
fn a_wait_that_is_no_queue_tells_no_rate() {
    let mut link = Observer::new(0, Vantage::OwnQueue, Duration::ZERO);
    for at_ms in (1_000..91_000).step_by(20) {
        let sent_ms = if at_ms % 1_000 < 500 { at_ms } else { at_ms - 4 };
        clocked(&mut link, at_ms, sent_ms as u32, None);
        clocked(&mut link, at_ms + 1, sent_ms as u32, None);
    }
    link.finish(91_000 * MS);
    assert_eq!(link.rate(Direction::Down).map(|rate| rate.bytes_per_second), None);
}

#[test]
fn a_short_answer_calibrates_long_ones() {
    let mut link = observer();
    // SYN-ACK: 20 ms of way. Data of the same end: 20 ms and 5 ms on the link.
    pass(&mut link, 1000, 60, Some(20_200));
    full(&mut link, 1100, 25);
    assert!(stays_empty(&mut link, 1200));
}

#[test]
fn an_idle_link_means_an_empty_buffer() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    // Held back by its sender for 200 ms; but nothing was on the link before it.
    full(&mut link, 2000, 225);
    assert!(stays_empty(&mut link, 2100));
    assert_eq!(link.trust(Direction::Down, 2100 * MS), Trust::Confirmed);
}

/// Of an unknown rate a packet may take 200 ms, and another one as long after it.
#[test]
fn without_a_rate_a_link_is_idle_after_400_ms() {
    let exit_side = super::super::exit_side::ExitSide::new(0, Direction::Down);
    assert_eq!([400e6, 400e6 + 1.0].map(|now_ns| exit_side.is_idle(now_ns)), [false, true]);
}

#[test]
fn a_delay_cannot_be_longer_than_the_link_was_busy() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    pass(&mut link, 1010, 1500, None);
    pass(&mut link, 1015, 1500, None);
    // 100 ms too late, and only three packets passed since the question.
    full(&mut link, 1020, 125);
    assert!(highest(&mut link, 1100) <= 4500.0);
}

#[test]
fn a_longer_way_is_learnt_behind_an_idle_link() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    for i in 1..=24 {
        full(&mut link, 1000 + 100 * i, 55);
    }
    // Busy from now on: 55 ms are no queue any more, 65 ms are 10 ms of one.
    full(&mut link, 3505, 55);
    for i in 1..=10 {
        pass(&mut link, 3505 + 5 * i, 1500, None);
    }
    full(&mut link, 3560, 65);
    // Itself, and the one before it, which leaves 5 ms earlier.
    let level = highest(&mut link, 3600);
    assert!((3000.0..=4500.0).contains(&level), "{level}");
    assert!((link.base_round_trip().expect("answers").seconds - 0.05).abs() < 1e-9);
}

#[test]
fn a_burst_stands_in_the_buffer_although_only_its_first_packet_is_an_answer() {
    let mut link = observer();
    // A second of single packets, so that the clock is known.
    for i in 0..10 {
        clocked(&mut link, 400 + 100 * i, (400 + 100 * i) as u32, Some(25));
    }
    // Ten packets sent at once, on the link one after the other.
    clocked(&mut link, 1500, 1500, Some(25));
    for i in 1..10 {
        clocked(&mut link, 1500 + 5 * i, 1500, None);
    }
    let rows = rows(&mut link, 1600);
    // The first one is on the link from 1495 ms on. Nine wait, half a tick less; then one less every 5 ms.
    let means: Vec<f64> = rows[149..155].iter().map(|row| row.expect("known").mean_bytes).collect();
    for (mean, packets) in means.iter().zip([0.45 * 9.0, 7.5, 5.5, 3.5, 1.5, 0.0]) {
        assert!((mean - 1500.0 * packets).abs() < 1.0, "{means:?}");
    }
    assert!(rows[..148].iter().all(|row| row.expect("known").mean_bytes < 1.0));
}

#[test]
fn the_clock_places_packets_between_answers() {
    let mut link = observer();
    for i in 0..10 {
        clocked(&mut link, 400 + 100 * i, (400 + 100 * i) as u32, Some(25));
    }
    // Sent 30 ms after the first one, and 10 ms before the next answer, which waited for nothing.
    clocked(&mut link, 1500, 1500, Some(25));
    clocked(&mut link, 1530, 1530, None);
    clocked(&mut link, 1540, 1540, Some(25));
    assert!(stays_empty(&mut link, 1600));
}

#[test]
fn without_answers_the_level_is_not_known_for_long() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    for i in 1..2000 {
        pass(&mut link, 1000 + 5 * i, 1500, None);
        link.settle((1000 + 5 * i) * MS);
    }
    let rows = rows(&mut link, 11_000);
    // The second before is known, and some moments after the answer: then twice as much may stand as it showed. The link is full, whoever
    // fills it.
    let known = rows.iter().flatten().count();
    assert!((100..=112).contains(&known), "{known}");
    assert!(rows[115..].iter().all(Option::is_none));
}

/// Nobody tells how long packets wait on a busy link. Half a second later they are placed nevertheless: whoever reads levels live gets them.
#[test]
fn levels_of_a_busy_link_do_not_wait_for_answers() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    for i in 1..400 {
        pass(&mut link, 1000 + 5 * i, 1500, None);
    }
    link.settle(3_000 * MS);
    let rows = std::iter::from_fn(|| link.pop(Direction::Down)).count();
    assert!((240..=250).contains(&rows), "{rows}");
}

#[test]
fn a_link_that_was_never_idle_is_not_trusted() {
    let mut link = observer();
    for i in 0..200 {
        pass(&mut link, 5 * i, 1500, None);
    }
    full(&mut link, 1000, 90);
    assert_eq!(link.answers(), (1, 1));
    assert_eq!(link.trust(Direction::Down, 1001 * MS), Trust::NeverEmpty);
}

#[test]
fn minutes_without_an_empty_buffer_make_it_stale() {
    let mut link = observer();
    full(&mut link, 1000, 25);
    assert_eq!(link.trust(Direction::Down, 1001 * MS), Trust::Confirmed);
    let (mut at_ms, mut trusts) = (1000, Vec::new());
    while at_ms < 320_000 {
        at_ms += 5;
        full(&mut link, at_ms, 125);
        link.settle(at_ms * MS);
        while link.pop(Direction::Down).is_some() {}
        trusts.push((at_ms, link.trust(Direction::Down, at_ms * MS)));
    }
    assert!(trusts.iter().filter(|(at, _)| *at < 300_000).all(|(_, trust)| *trust == Trust::Confirmed));
    assert!(trusts.iter().filter(|(at, _)| *at > 302_000).all(|(_, trust)| *trust == Trust::Stale));
}

#[test]
fn after_a_silence_it_begins_anew() {
    let mut link = observer();
    link.finish(100 * MS);
    while link.pop(Direction::Down).is_some() {}
    link.restart(100_000 * MS);
    assert_eq!(rows(&mut link, 100_030).len(), 3);
}

#[test]
fn the_rate_is_what_leaves_while_the_buffer_stands() {
    let mut link = observer();
    link.set_rates(PerDirection { up: None, down: None }, None);
    full(&mut link, 1000, 25);
    // 100 ms of queue for three seconds: bytes over time is the rate, whatever is configured.
    for i in 0..600 {
        full(&mut link, 2000 + 5 * i, 25 + (5 * i).min(100));
    }
    let rate = link.rate(Direction::Down).expect("a buffer that stands tells");
    assert!((rate.bytes_per_second / RATE - 1.0).abs() < 0.01, "{rate:?}");
    assert!((4.9..=5.0).contains(&rate.measured_at.as_secs_f64()));
}

/// What a token bucket lets pass at once after a pause is no rate: 20 packets of each burst come twice as fast as the buffer that stood before was served. Where nothing
/// else was ever seen, it is all that is known.
#[test]
fn short_bursts_do_not_outvote_a_buffer_that_stood_for_long() {
    for (stood_ms, expected) in [(5_000, 1.0), (0, 2.0)] {
        let mut link = Observer::new(0, Vantage::OwnQueue, Duration::ZERO);
        full(&mut link, 1, 20);
        for at_ms in (1_000..1_000 + stood_ms).step_by(5) {
            full(&mut link, at_ms, 25 + (at_ms - 1_000).min(200));
        }
        for burst in 0..150_u64 {
            let begins_ms = 7_000 + 200 * burst;
            full(&mut link, begins_ms, 20);
            for i in 1..=20 {
                // Two packets each 5 ms.
                let at_ms = begins_ms + 5 * i / 2;
                full(&mut link, at_ms, 20 + 5 * i / 2);
            }
        }
        // Rates stay known after a silence.
        link.restart(60_000 * MS);
        let rate = link.rate(Direction::Down).expect("packets waited").bytes_per_second;
        assert!((rate / RATE / expected - 1.0).abs() < 0.1, "{stood_ms} ms: {rate} B/s");
    }
}

/// A link that has become half as fast, and whose buffer never holds anything for 100 ms again: a token bucket makes short bursts too fast, never too slow.
#[test]
fn short_bursts_show_that_a_link_has_become_slower() {
    let mut link = Observer::new(0, Vantage::OwnQueue, Duration::ZERO);
    full(&mut link, 1, 20);
    for at_ms in (1_000..6_000).step_by(5) {
        full(&mut link, at_ms, 25 + (at_ms - 1_000).min(200));
    }
    for burst in 0..50_u64 {
        let begins_ms = 7_000 + 200 * burst;
        full(&mut link, begins_ms, 30);
        for i in 1..=8 {
            full(&mut link, begins_ms + 10 * i, 30 + 10 * i);
        }
    }
    let rate = link.rate(Direction::Down).expect("packets waited").bytes_per_second;
    assert!((rate / RATE - 0.5).abs() < 0.05, "{rate} B/s");
}

#[test]
fn a_buffer_that_never_stood_tells_no_rate() {
    let mut link = observer();
    link.set_rates(PerDirection { up: None, down: None }, None);
    // Acknowledgements, each as soon as it can: 40 ms apart, and always after 25 ms.
    for i in 0..2000 {
        pass(&mut link, 1000 + 40 * i, 66, Some(25_000 + 300 * (i % 3)));
    }
    assert_eq!(link.rate(Direction::Down), None);
}

/// What leaves a capture's uplink buffer is timed by what left before, also where that was placed already.
#[test]
fn the_uplink_s_rate_is_learnt_across_settling() {
    let learnt = |settles: bool| {
        let mut link = Observer::new(0, Vantage::BehindUplinkBuffer, Duration::ZERO);
        for i in 0..800_u64 {
            // Ten packets come each 100 ms, and each tenth of what they wait for is theirs: 6 ms for 1500 bytes, half of that for 750.
            let (burst, place) = (i / 10, i % 10);
            let sent_ms = 1000 + 100 * burst;
            let before_us: u64 = (0..place).map(|k| if k % 2 == 0 { 6_000 } else { 3_000 }).sum();
            let bytes = if place % 2 == 0 { 1500 } else { 750 };
            let at_ns = (sent_ms * 1000 + before_us) * 1000;
            let packet = Passing { at_ns, bytes, repeated_bytes: 0, clock: Some((1, sent_ms as u32)) };
            link.leave(&packet, None);
            if settles {
                link.settle(at_ns);
            }
        }
        link.rate(Direction::Up).map(|rate| rate.bytes_per_second)
    };
    let (apart, together) = (learnt(true), learnt(false));
    assert!((together.expect("a rate") / 250_000.0 - 1.0).abs() < 0.02, "{together:?}");
    assert_eq!(apart, together);
}

/// A sender is first heard while 100 ms stand in the buffer, which never drains below 80 ms. Its clock alone cannot tell; so the level's uncertainty holds what
/// the link could have kept waiting, or what an answer's delay leaves room for.
#[test]
fn a_queue_that_stands_when_a_clock_is_first_read_is_uncertain() {
    for answers in [false, true] {
        let mut link = observer();
        // Busy from 1,000 ms on, with packets that tell nothing; the clock is read from 1,200 ms on.
        let mut covered = 0;
        for i in 0..2_000_u64 {
            let at_ms = 1_000 + 5 * i;
            let waited_ms = (5 * i).min(100 - i / 100);
            let is_read = i > 40 && i % 2 == 0;
            let clock = is_read.then_some((1, (at_ms - waited_ms) as u32));
            let answer = Answer {
                end: [7; 16],
                delay_ns: (20 + 5 + waited_ms) * MS,
                question_bytes: 60,
                ..Answer::default()
            };
            let packet = Passing { at_ns: at_ms * MS, bytes: 1500, repeated_bytes: 0, clock };
            link.arrive(&packet, (answers && is_read).then_some(&answer));
        }
        for row in rows(&mut link, 10_900).into_iter().skip(300).take(700).flatten() {
            let truth = 85.0 * RATE / 1000.0;
            let off = (row.mean_bytes - truth).abs();
            assert!(off <= row.uncertainty_bytes + 0.2 * truth, "{answers}: {row:?}");
            covered += 1;
        }
        assert!(!answers || covered == 700, "{covered} levels are known");
    }
}

/// A capture from behind the uplink's buffer begins while 100 ms stand there, and that never drains: it is in all that hosts at home answer, and nothing of it
/// in what is answered from outside. The uncertainty holds it.
#[test]
fn a_queue_that_never_drained_hides_in_answers_from_home() {
    let mut link = Observer::new(0, Vantage::BehindUplinkBuffer, Duration::ZERO);
    link.set_rates(PerDirection { up: Some(RATE), down: Some(RATE) }, Some(RATE));
    let answer = |end: u8, ms: u64| Answer {
        end: [end; 16],
        delay_ns: ms * MS,
        question_bytes: 60,
        ..Answer::default()
    };
    for i in 0..800 {
        let packet = Passing { at_ns: 5 * i * MS, bytes: 1500, ..Passing::default() };
        // What is answered has passed before.
        let home = answer(1, 100 + (i / 40) % 2 * 20);
        link.leave(&packet, Some(&home).filter(|home| packet.at_ns >= home.delay_ns));
        let packet = Passing { at_ns: (5 * i + 1) * MS, bytes: 60, ..Passing::default() };
        link.arrive(&packet, Some(&answer(2, 10)));
    }
    link.finish(4_000 * MS);
    let rows: Vec<_> = std::iter::from_fn(|| link.pop(Direction::Up)).flatten().collect();
    assert!(rows.len() > 300, "{} levels are known", rows.len());
    for row in rows.iter().skip(50).take(250) {
        assert!(row.mean_bytes + row.uncertainty_bytes >= 0.1 * RATE, "{row:?}");
    }
}
