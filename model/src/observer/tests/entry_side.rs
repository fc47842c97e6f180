//! A buffer of which the beginning is seen, by hand: 100 bytes per millisecond, so that 1500 bytes are served in 15 ms.

use super::super::entry_side::{Booked, EntrySide, Question};
use crate::capacity::ServiceRate;

const MS: u64 = 1_000_000;
const RATE: f64 = 1e-4;

fn told() -> EntrySide {
    let mut entry_side = EntrySide::new(0);
    entry_side.known.tell(Some(RATE));
    entry_side
}

fn enter(entry_side: &mut EntrySide, at_ms: u64, count: u32) {
    for _ in 0..count {
        entry_side.enter(at_ms * MS, 1500, 0);
    }
}

/// A packet that came at `asked_ms` waited for `wait_ms`; that is known at `now_ms`.
fn measure(entry_side: &mut EntrySide, asked_ms: u64, wait_ms: f64, now_ms: u64) {
    tell(entry_side, asked_ms * MS, wait_ms * 1e6, (now_ms * MS) as f64);
}

fn tell(entry_side: &mut EntrySide, at_ns: u64, wait_ns: f64, now_ns: f64) {
    answer(entry_side, Question { at_ns, ahead_bytes: 0.0 }, wait_ns, now_ns);
}

fn answer(entry_side: &mut EntrySide, question: Question, wait_ns: f64, now_ns: f64) {
    entry_side.measure(question, wait_ns, now_ns);
    entry_side.learn(question, wait_ns, None);
}

fn booked(entry_side: &mut EntrySide, to_ms: u64) -> Vec<Option<Booked>> {
    std::iter::from_fn(|| entry_side.pop(to_ms * MS)).collect()
}

fn means(entry_side: &mut EntrySide, to_ms: u64) -> Vec<f64> {
    booked(entry_side, to_ms).into_iter().map(|booked| booked.expect("a level").levels.mean).collect()
}

fn expected_ms(entry_side: &EntrySide, at_ms: u64) -> f64 {
    entry_side.expected_ns(at_ms * MS).expect("a rate is told") / 1e6
}

/// The same to a nanosecond.
fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1e-6
}

#[test]
fn lindleys_recursion_by_hand() {
    let mut entry_side = told();
    enter(&mut entry_side, 10, 4);
    enter(&mut entry_side, 50, 1);
    // Served from 10, 25, 40, 55 and 70 ms on; those that wait: 3 packets to 25 ms, 2 to 40, 1 to 50, 2 to 55, 1 to 70.
    let means = means(&mut entry_side, 90);
    let expected = [0.0, 4500.0, 3750.0, 3000.0, 1500.0, 2250.0, 1500.0, 0.0, 0.0];
    assert_eq!(means.len(), 9);
    assert!(means.iter().zip(expected).all(|(mean, expected)| (mean - expected).abs() < 1e-3), "{means:?}");
    assert!(near(expected_ms(&entry_side, 50), 20.0));
}

#[test]
fn lowest_and_highest_within_an_interval() {
    let mut entry_side = told();
    enter(&mut entry_side, 10, 3);
    let all = booked(&mut entry_side, 30);
    let levels = all[2].expect("a level").levels;
    assert_eq!((levels.min, levels.max), (1500.0, 3000.0));
    // A packet that goes on at once never waited.
    let mut entry_side = told();
    enter(&mut entry_side, 5, 1);
    assert_eq!(booked(&mut entry_side, 10)[0].expect("a level").levels.max, 0.0);
}

#[test]
fn a_measured_wait_sets_it_right_and_earlier_is_believed_more() {
    let mut later = told();
    enter(&mut later, 10, 4);
    enter(&mut later, 11, 1);
    // 59 ms expected; half of the 20 ms that it was longer.
    assert!(near(expected_ms(&later, 11), 59.0));
    measure(&mut later, 11, 79.0, 100);
    assert!(near(expected_ms(&later, 11), 69.0));
    let mut earlier = told();
    enter(&mut earlier, 10, 4);
    enter(&mut earlier, 11, 1);
    measure(&mut earlier, 11, 39.0, 100);
    assert!(near(expected_ms(&earlier, 11), 43.0), "{}", expected_ms(&earlier, 11));
    // What comes after counts on from there.
    enter(&mut earlier, 12, 1);
    assert!(near(expected_ms(&earlier, 12), 43.0 - 1.0 + 15.0));
}

#[test]
fn the_correction_is_spread_over_what_came_since_the_one_before() {
    let mut entry_side = told();
    for at_ms in [10, 11, 12, 13] {
        enter(&mut entry_side, at_ms, 2);
    }
    let before: Vec<f64> = [10, 11, 12, 13].map(|at| expected_ms(&entry_side, at)).to_vec();
    measure(&mut entry_side, 13, before[3] + 28.0, 200);
    // 14 ms, over the seven packets up to the first one of 13 ms: 2 ms each. That of 10 ms is the first, of 11 ms the third …
    for (step, at_ms) in [10, 11, 12, 13].into_iter().enumerate() {
        let moved = expected_ms(&entry_side, at_ms) - before[step];
        assert!(near(moved, 2.0 * (2 * step + 1) as f64), "{at_ms}: {moved}");
    }
}

/// Ten packets wait, a short one among them, and the fifth and the last are measured. Some had been dropped: each is still served after the one before.
#[test]
fn a_correction_keeps_the_order() {
    for dropped_ms in [37.5, 124.0] {
        let mut entry_side = told();
        let bytes = |at_ms: u64| if at_ms == 15 { 60 } else { 1500 };
        for at_ms in 10..20 {
            entry_side.enter(at_ms * MS, bytes(at_ms), 0);
        }
        let expected = [14, 19].map(|at_ms| expected_ms(&entry_side, at_ms));
        measure(&mut entry_side, 14, expected[0], 100);
        measure(&mut entry_side, 19, expected[1] - dropped_ms, 110);
        let served = |at_ms: u64| {
            at_ms as f64 + expected_ms(&entry_side, at_ms) + f64::from(bytes(at_ms)) / (RATE * 1e6)
        };
        let served: Vec<f64> = (10..20).map(served).collect();
        assert!(served.is_sorted(), "{dropped_ms}: {served:?}");
    }
}

#[test]
fn the_newest_packet_is_not_forgotten() {
    let mut entry_side = told();
    enter(&mut entry_side, 10, 1);
    assert!(means(&mut entry_side, 20_000).into_iter().all(|mean| mean == 0.0));
}

/// Waits of up to 60 ms are confirmed. Then 40 packets come at once, and the last would wait for 585 ms.
fn burst() -> EntrySide {
    let mut entry_side = told();
    for at_ms in (0..500).step_by(100) {
        enter(&mut entry_side, at_ms, 4);
        enter(&mut entry_side, at_ms + 1, 1);
        measure(&mut entry_side, at_ms + 1, 59.0, at_ms + 90);
    }
    for at_ms in 1_000..1_040 {
        enter(&mut entry_side, at_ms, 1);
    }
    entry_side
}

/// The most that the levels of both bursts are off, milliseconds of waiting.
fn off_ms(entry_side: &mut EntrySide) -> [f64; 2] {
    let all = booked(entry_side, 1_600);
    let most = |from: usize, to: usize| {
        let errors = all[from..to].iter().map(|booked| booked.expect("a level").error_ns / 1e6);
        errors.fold(0.0, f64::max)
    };
    [most(0, 60), most(100, 160)]
}

/// Waits of 59 ms are confirmed. Then one that would have been 126 ms is shorter: at nearly the longest wait the buffer drops, and then no packet waits for
/// much longer. A wait that is as expected drops nothing, nor does a short one.
#[test]
fn a_buffer_that_drops_at_its_longest_wait_has_a_limit() {
    for (wait_ms, is_limited) in [(55.0, true), (40.0, false), (126.0, false)] {
        let mut entry_side = told();
        for at_ms in (0..1_000).step_by(100) {
            enter(&mut entry_side, at_ms, 4);
            enter(&mut entry_side, at_ms + 1, 1);
            measure(&mut entry_side, at_ms + 1, 59.0, at_ms + 90);
        }
        enter(&mut entry_side, 2_000, 9);
        enter(&mut entry_side, 2_009, 1);
        measure(&mut entry_side, 2_009, wait_ms, 2_200);
        enter(&mut entry_side, 4_000, 40);
        enter(&mut entry_side, 4_001, 1);
        let expected = expected_ms(&entry_side, 4_001);
        assert_eq!(expected < 59.0 + 15.0, is_limited, "{wait_ms}: {expected} ms");
    }
}

/// Connections that open seconds apart: the first few waits show how far off the level is, as many do later.
#[test]
fn the_first_differences_count_in_full() {
    for count in [3, 100] {
        let mut entry_side = told();
        for at_ms in (0..count).map(|number| 500 * number) {
            enter(&mut entry_side, at_ms, 1);
            measure(&mut entry_side, at_ms, 100.0, at_ms + 110);
        }
        let error_ns = booked(&mut entry_side, 500 * count).pop().flatten().expect("a level").error_ns;
        assert!((100e6..250e6).contains(&error_ns), "{count}: {error_ns}");
    }
}

/// As long as nobody has answered, all that is beyond the longest wait so far may have been dropped, until the link has had time for it.
#[test]
fn what_nobody_answered_may_have_been_dropped() {
    let [before, after] = off_ms(&mut burst());
    // The last of them came 39 ms after the first, behind 39 others of 15 ms each.
    assert!(near(before, 0.0) && near(after, 39.0 * 15.0 - 39.0 - 59.0), "{before} {after} ms");
    let mut answered = burst();
    measure(&mut answered, 1_039, 39.0 * 15.0 - 39.0, 1_700);
    assert_eq!(off_ms(&mut answered), [0.0, 0.0]);
}

/// The last one waited for 246 ms only, so something before it was dropped: the levels until then are uncertain by the 300 ms, those before as six
/// waits of which one was off by that (1.65 · 300/√6).
#[test]
fn between_two_measured_packets_a_level_is_off_by_what_the_second_one_shows() {
    let mut dropped = burst();
    measure(&mut dropped, 1_039, 246.0, 1_400);
    let [before, after] = off_ms(&mut dropped);
    assert!(before < 203.0 && (after - 300.0).abs() < 1.0, "{before} {after} ms");
}

#[test]
fn an_answer_that_was_held_back_moves_nothing() {
    let mut entry_side = told();
    enter(&mut entry_side, 10, 4);
    enter(&mut entry_side, 15, 1);
    enter(&mut entry_side, 20, 1);
    measure(&mut entry_side, 20, 65.0, 90);
    let before = [10, 15, 20].map(|at| expected_ms(&entry_side, at));
    // That of 15 ms left before that of 20 ms, whatever its answer says.
    measure(&mut entry_side, 15, 300.0, 320);
    assert_eq!([10, 15, 20].map(|at| expected_ms(&entry_side, at)), before);
}

#[test]
fn an_answer_to_what_was_forgotten_or_never_seen_is_left_out() {
    let mut entry_side = told();
    enter(&mut entry_side, 500, 3);
    let before = expected_ms(&entry_side, 500);
    measure(&mut entry_side, 100, 400.0, 600);
    measure(&mut entry_side, 900, 400.0, 1400);
    assert_eq!(expected_ms(&entry_side, 500), before);
}

#[test]
fn without_a_rate_packets_wait_as_long_as_the_last_measured_one() {
    let mut entry_side = EntrySide::new(0);
    assert_eq!(entry_side.expected_ns(0), None);
    enter(&mut entry_side, 10, 1);
    measure(&mut entry_side, 10, 30.0, 45);
    // It enters when that is known, and waits from 50 to 80 ms.
    enter(&mut entry_side, 50, 1);
    let means = means(&mut entry_side, 100);
    assert!(near(means[1], 1500.0) && near(means[4], 0.0), "{means:?}");
    assert!(near(means[5], 1500.0) && near(means[7], 1500.0) && near(means[8], 0.0), "{means:?}");
}

/// Of a wait of 60 ms that was expected to be 40 or 54, the half of the level is in doubt, or the part that nine of ten such errors leave.
#[test]
fn without_a_rate_a_part_of_the_level_is_in_doubt() {
    for (expected_ms, part) in [(60.0, 0.5), (54.0, 0.5), (40.0, 1.65 / 3.0), (20.0, 1.0)] {
        let mut entry_side = EntrySide::new(0);
        for (at_ms, wait_ms) in [(0, expected_ms), (200, expected_ms), (400, 60.0)] {
            enter(&mut entry_side, at_ms, 1);
            measure(&mut entry_side, at_ms, wait_ms, at_ms + 100);
        }
        let row = booked(&mut entry_side, 450)[42].expect("a wait was measured");
        assert!(near(row.doubt_bytes, part * row.levels.max) && row.levels.max == 1500.0, "{part}: {row:?}");
    }
}

/// Of a level that rests on the first guess of a rate half is in doubt.
#[test]
fn by_a_first_guess_half_of_the_level_is_in_doubt() {
    let mut entry_side = EntrySide::new(0);
    let mut modem = Modem { rate: RATE, limit: 60_000.0, done_ns: 0.0, missing: 0.0 };
    feed(&mut entry_side, &mut modem, 0, 1, |at| saw(at, RATE));
    assert!(entry_side.rate().is_some() && entry_side.measured_rate(ServiceRate::rate).is_none());
    let row = booked(&mut entry_side, 950).pop().flatten().expect("a level");
    assert!(row.levels.max > 10_000.0 && near(row.doubt_bytes, 0.5 * row.levels.max), "{row:?}");
}

/// Without a rate nothing is known five seconds after the newest reply, unless nothing has entered for a second.
#[test]
fn a_silent_second_is_known() {
    let mut entry_side = EntrySide::new(0);
    enter(&mut entry_side, 10, 1);
    measure(&mut entry_side, 10, 0.0, 20);
    enter(&mut entry_side, 8_000, 1);
    let unknown: Vec<usize> = booked(&mut entry_side, 10_000)
        .iter()
        .enumerate()
        .filter_map(|(row, booked)| booked.is_none().then_some(row))
        .collect();
    assert_eq!(unknown, (799..900).collect::<Vec<_>>());
}

#[test]
fn an_interval_waits_until_it_is_complete() {
    let mut entry_side = told();
    assert!(entry_side.pop(10 * MS - 1).is_none());
    assert!(entry_side.pop(10 * MS).is_some());
    assert!(entry_side.pop(10 * MS).is_none());
}

#[test]
fn what_was_never_measured_is_as_uncertain_as_it_is_large_and_soon_unknown() {
    let mut entry_side = told();
    // 150 packets at once are served in 2.25 s: drops are not seen.
    enter(&mut entry_side, 10, 150);
    let rows = booked(&mut entry_side, 2300);
    let of = |at_ms: usize| rows[at_ms / 10];
    assert!(of(100).is_none(), "2.2 s of waiting");
    let row = of(1000).expect("1.3 s of waiting");
    assert!(row.doubt_bytes >= row.levels.mean && row.levels.mean > 100_000.0);
    assert_eq!(of(2290).expect("nothing").doubt_bytes, 0.0);
    // One measured wait, and for two seconds it is known.
    let mut entry_side = told();
    for i in 0..500 {
        enter(&mut entry_side, 10 + 10 * i, 1);
    }
    let expected = expected_ms(&entry_side, 1000);
    measure(&mut entry_side, 1000, expected, 1500);
    let rows = booked(&mut entry_side, 4500);
    assert_eq!(rows[300].expect("known").doubt_bytes, 0.0);
    let row = rows[380].expect("booked");
    assert!(row.doubt_bytes >= row.levels.mean);
}

#[test]
fn throughput_is_what_entered_in_the_second_before() {
    let mut entry_side = EntrySide::new(0);
    for i in 0..30 {
        enter(&mut entry_side, 100 * i, 1);
    }
    let in_a_second = |at_ms: u64| (entry_side.throughput(at_ms * MS) * 1e9).round();
    assert_eq!([450, 2_950, 3_450].map(in_a_second), [7_500.0, 15_000.0, 7_500.0]);
}

#[test]
fn light_use_is_less_than_a_part_of_the_rate_over_a_second() {
    assert!(
        EntrySide::new(0).rate().is_none() && !EntrySide::new(0).is_light(0, 0, 0.4, true),
        "no rate, no proof"
    );
    // 100,000 B/s: 26 packets a second are 39 %, 28 are 42 %.
    let mut entry_side = told();
    for i in 0..26 {
        enter(&mut entry_side, 3000 + 38 * i, 1);
    }
    assert!(entry_side.is_light(3990 * MS, 4000 * MS, 0.4, false));
    enter(&mut entry_side, 3989, 2);
    assert!(!entry_side.is_light(3990 * MS, 4000 * MS, 0.4, false));
}

#[test]
fn what_stood_before_the_first_packet_must_have_drained() {
    // Half of a second's work is left out every second: two seconds of it after four.
    let mut entry_side = told();
    for i in 0..200 {
        enter(&mut entry_side, 30 * i, 1);
    }
    let mut light = |at_ms: u64| entry_side.is_light(at_ms * MS, (at_ms + 20) * MS, 0.6, false);
    assert!(!light(1500) && !light(3900));
    assert!(light(4100));
    // A first question that nothing was answered before, and little else: nobody had filled the buffer.
    for (count, is_quiet, expected) in [(1, true, true), (1, false, false), (6, true, false)] {
        let mut entry_side = told();
        enter(&mut entry_side, 1, count);
        assert_eq!(entry_side.is_light(MS, 40 * MS, 0.4, is_quiet), expected, "{count} {is_quiet}");
    }
    // Nor is it the beginning any more after two seconds.
    for (at_ms, expected) in [(1999, true), (2000, false)] {
        let mut entry_side = told();
        enter(&mut entry_side, at_ms, 1);
        assert_eq!(entry_side.is_light(at_ms * MS, (at_ms + 40) * MS, 0.4, true), expected, "{at_ms}");
    }
    // After a silence it has drained for certain.
    let mut entry_side = told();
    entry_side.restart(5000 * MS);
    enter(&mut entry_side, 5001, 1);
    assert!(entry_side.is_light(5001 * MS, 5020 * MS, 0.4, false));
}

/// 64 kbit/s are 8 bytes a millisecond.
#[test]
fn without_a_rate_a_wait_is_at_most_what_the_slowest_link_would_make_of_it() {
    let mut entry_side = EntrySide::new(0);
    let small = |entry_side: &mut EntrySide, at_ms: u64, bytes: u32| entry_side.enter(at_ms * MS, bytes, 0);
    let most_ms =
        |entry_side: &EntrySide, at_ms: u64, bytes: u32| entry_side.most_ns(at_ms * MS, bytes, false) / 1e6;
    // What stood before may take two seconds.
    small(&mut entry_side, 500, 80);
    assert!((most_ms(&entry_side, 500, 80) - 1500.0).abs() < 1e-6);
    // Nothing is left of it and of the first packet at 2,010 ms; after that each waits for the one before.
    small(&mut entry_side, 2005, 160);
    small(&mut entry_side, 2015, 80);
    small(&mut entry_side, 2045, 80);
    assert!((most_ms(&entry_side, 2005, 160) - 5.0).abs() < 1e-6);
    assert!((most_ms(&entry_side, 2015, 80) - 15.0).abs() < 1e-6);
    assert_eq!(most_ms(&entry_side, 2045, 80), 0.0);
    // Of a slot only 40 bytes are the question.
    assert!((most_ms(&entry_side, 2045, 40) - 5.0).abs() < 1e-6);
    assert_eq!(most_ms(&entry_side, 2030, 80), f64::INFINITY, "nothing came then");
}

#[test]
fn the_first_question_of_a_quiet_link_had_nothing_ahead_of_it() {
    let mut entry_side = EntrySide::new(0);
    for at_ms in [300, 340] {
        entry_side.enter(at_ms * MS, 160, 0);
    }
    assert_eq!(entry_side.most_ns(300 * MS, 160, true), 0.0);
    // The first one has left by then; with answers to others meanwhile, somebody may have filled the buffer before.
    assert_eq!(entry_side.most_ns(340 * MS, 160, true), 0.0);
    assert!(entry_side.most_ns(340 * MS, 160, false) > 1e9);
    // Wherever the time begins.
    let mut later = EntrySide::new(10_000 * MS);
    later.enter(10_300 * MS, 160, 0);
    assert_eq!(later.most_ns(10_300 * MS, 160, true), 0.0);
    // Nor is it the beginning any more after two seconds.
    entry_side.enter(1990 * MS, 16_000, 0);
    entry_side.enter(2000 * MS, 160, 0);
    assert_eq!(entry_side.most_ns(1990 * MS, 16_000, true), 0.0);
    assert!(entry_side.most_ns(2000 * MS, 160, true) > 2e9);
    // After a silence it has drained for certain.
    entry_side.restart(5000 * MS);
    entry_side.enter(5001 * MS, 1500, 0);
    assert_eq!(entry_side.most_ns(5001 * MS, 1500, false), 0.0);
}

/// A buffer with a limit, as a modem has it: what came in and when it left.
struct Modem {
    rate: f64,
    limit: f64,
    done_ns: f64,
    /// Time, and bytes that were dropped but not sent again.
    missing: f64,
}

impl Modem {
    /// A packet of 1500 bytes comes: how long it waits, if it is not dropped.
    fn offer(&mut self, at_ns: f64) -> Option<f64> {
        let wait_ns = (self.done_ns - at_ns).max(0.0);
        if wait_ns * self.rate > self.limit {
            self.missing += 1500.0;
            return None;
        }
        self.done_ns = self.done_ns.max(at_ns) + 1500.0 / self.rate;
        Some(wait_ns)
    }
}

/// Feeds what `per_second` says, each packet's wait measured when it has left; largest error of the wait in the last ten seconds.
fn feed(
    entry_side: &mut EntrySide,
    modem: &mut Modem,
    from_s: u64,
    to_s: u64,
    per_second: impl Fn(u64) -> f64,
) -> f64 {
    let mut answers = std::collections::VecDeque::new();
    let (mut at_ns, mut worst): (f64, f64) = (from_s as f64 * 1e9, 0.0);
    while at_ns < to_s as f64 * 1e9 {
        while let Some((asked, wait, left)) = answers.front().copied().filter(|(_, _, left)| *left <= at_ns) {
            answers.pop_front();
            tell(entry_side, asked, wait, left);
        }
        // What was lost is sent again.
        let repeated = if modem.missing > 0.0 { 1500 } else { 0 };
        modem.missing -= f64::from(repeated);
        entry_side.enter(at_ns as u64, 1500, repeated);
        if let Some(wait) = modem.offer(at_ns.floor()) {
            answers.push_back((at_ns as u64, wait, at_ns + wait + 20e6));
            if at_ns > (to_s as f64 - 10.0) * 1e9 {
                let expected = entry_side.expected_ns(at_ns as u64).unwrap_or(f64::INFINITY);
                worst = worst.max((expected - wait).abs());
            }
        }
        entry_side.pop((at_ns as u64).saturating_sub(1_000_000_000));
        at_ns += 1e9 / per_second(at_ns as u64);
    }
    worst
}

fn learnt(entry_side: &EntrySide) -> f64 {
    entry_side.measured_rate(ServiceRate::rate).expect("a rate")
}

/// One second above the rate, then one below it, so that the buffer never quite drains.
fn saw(at_ns: u64, rate: f64) -> f64 {
    let packets = rate * 1e9 / 1500.0;
    if (at_ns / 1_000_000_000).is_multiple_of(2) { 1.25 * packets } else { 0.80 * packets }
}

#[test]
fn the_rate_is_learnt_and_follows_the_link() {
    let mut entry_side = EntrySide::new(0);
    let mut modem = Modem { rate: RATE, limit: 60_000.0, done_ns: 0.0, missing: 0.0 };
    feed(&mut entry_side, &mut modem, 0, 20, |at| saw(at, RATE));
    let found = learnt(&entry_side);
    assert!((found / RATE - 1.0).abs() < 0.02, "{found}");
    for rate in [RATE / 2.0, RATE * 2.0] {
        let mut entry_side = EntrySide::new(0);
        let mut modem = Modem { rate: RATE, limit: 60_000.0, done_ns: 0.0, missing: 0.0 };
        feed(&mut entry_side, &mut modem, 0, 20, |at| saw(at, RATE));
        modem.rate = rate;
        feed(&mut entry_side, &mut modem, 20, 40, |at| saw(at, rate));
        let found = learnt(&entry_side);
        assert!((found / rate - 1.0).abs() < 0.03, "{found} for {rate}");
    }
}

/// As QUIC in flight: the next packet that is timed leaves 60 ms after the one before has left the buffer. A queue of 0.3 to 0.6 s stands there all the
/// time: what is timed waits for more than has entered meanwhile on the slowest link.
#[test]
fn one_reply_in_each_round_trip_teaches_the_rate() {
    let mut entry_side = EntrySide::new(0);
    enter(&mut entry_side, 0, 20);
    let (mut at_ms, mut done_ms, mut next_ms) = (0, 20 * 15, 0);
    let mut replies = Vec::new();
    while at_ms < 40_000 {
        // Four seconds in which it fills, four in which it drains.
        at_ms += if at_ms / 4_000 % 2 == 0 { 14 } else { 16 };
        replies.retain(|(asked_ms, begins_ms): &(u64, u64)| {
            let is_due = begins_ms + 50 <= at_ms;
            if is_due {
                measure(&mut entry_side, *asked_ms, (begins_ms - asked_ms) as f64, begins_ms + 50);
            }
            !is_due
        });
        enter(&mut entry_side, at_ms, 1);
        let begins_ms = done_ms.max(at_ms);
        done_ms = begins_ms + 15;
        if at_ms >= next_ms {
            next_ms = begins_ms + 60;
            replies.push((at_ms, begins_ms));
        }
    }
    let found = learnt(&entry_side);
    assert!((found / RATE - 1.0).abs() < 0.02, "{found}");
    // It is not sure enough to contradict anybody.
    entry_side.known.tell(Some(2.0 * RATE));
    assert_eq!(entry_side.rate(), Some(2.0 * RATE));
    assert_eq!(entry_side.measured_rate(ServiceRate::rate), None);
}

/// Each two seconds 52 packets that take 780 ms, and one more before they have left. What stood before a packet is no more than what entered while the link was
/// busy, so the pauses are no part of a span; nor are they if the first reply of a burst is held back for 20 ms.
#[test]
fn a_pause_between_bursts_is_no_part_of_the_rate() {
    for (seldom, is_held_back, part) in [(1, false, 0.02), (4, true, 0.15)] {
        let mut entry_side = EntrySide::new(0);
        for burst in 0..20 {
            let burst_ms = 2_000 * burst;
            for i in 0..52 {
                enter(&mut entry_side, burst_ms + i, 1);
            }
            enter(&mut entry_side, burst_ms + 650, 1);
            let first = is_held_back.then_some((0, 20.0));
            let last = [(40, 560.0), (650, 130.0)].into_iter().filter(|_| burst % seldom == 0);
            for (after_ms, wait_ms) in first.into_iter().chain([(8, 112.0), (18, 252.0)]).chain(last) {
                measure(&mut entry_side, burst_ms + after_ms, wait_ms, burst_ms + 1_000);
            }
        }
        let found = entry_side.learner.sparse_rate().expect("a rate");
        assert!((found / RATE - 1.0).abs() < part, "{found}");
    }
}

/// Two packets each 0.4 s, and a host that takes 0.3 s to reply: no link is as slow as that.
#[test]
fn replies_that_are_late_by_themselves_teach_no_rate() {
    let mut entry_side = EntrySide::new(0);
    for at_ms in (0..40_000).step_by(400) {
        enter(&mut entry_side, at_ms, 2);
        measure(&mut entry_side, at_ms, 300.0, at_ms + 350);
    }
    assert_eq!(entry_side.measured_rate(ServiceRate::rate), None);
}

/// A connection opens on an idle link whose rate is unknown, then datagrams enter that nobody answers in sight. They may stand there, all of them; a few short
/// ones cannot, on any link.
#[test]
fn nothing_is_known_of_what_entered_since_the_last_reply() {
    for (bytes, is_known) in [(1500, false), (300, false), (60, true)] {
        let mut entry_side = EntrySide::new(0);
        for at_ms in (0..6_000).step_by(200) {
            entry_side.enter(at_ms * MS, 60, 0);
            measure(&mut entry_side, at_ms, 0.0, at_ms + 50);
        }
        for at_ms in (6_000..8_000).step_by(10) {
            entry_side.enter(at_ms * MS, bytes, 0);
        }
        let all = booked(&mut entry_side, 8_000);
        let is_told = |row: &&Option<Booked>| row.is_some_and(|row| row.error_ns < 50e6);
        let known = |from: usize, to: usize| all[from..to].iter().filter(is_told).count();
        assert_eq!(known(300, 600), 300, "{bytes}");
        assert_eq!(known(630, 790), if is_known { 160 } else { 0 }, "{bytes}");
    }
}

#[test]
fn what_is_lost_is_no_part_of_the_rate() {
    let mut entry_side = EntrySide::new(0);
    let mut modem = Modem { rate: RATE, limit: 30_000.0, done_ns: 0.0, missing: 0.0 };
    // A quarter more than fits, always; what is lost comes again.
    feed(&mut entry_side, &mut modem, 0, 40, |_| 1.25 * RATE * 1e9 / 1500.0);
    let found = learnt(&entry_side);
    assert!((found / RATE - 1.0).abs() < 0.02, "{found}");
}

#[test]
fn drops_that_nobody_saw_do_not_add_up() {
    let mut entry_side = told();
    let mut modem = Modem { rate: RATE, limit: 30_000.0, done_ns: 0.0, missing: f64::NEG_INFINITY };
    let worst = feed(&mut entry_side, &mut modem, 0, 60, |_| 1.1 * RATE * 1e9 / 1500.0);
    // Booked without answers it would be 6 s by now; an answer tells of 320 ms ago, in which a tenth is lost.
    assert!(worst < 60e6, "{worst}");
}

#[test]
fn a_buffer_that_drains_between_packets_tells_no_rate() {
    let mut entry_side = EntrySide::new(0);
    let mut modem = Modem { rate: RATE, limit: 30_000.0, done_ns: 0.0, missing: 0.0 };
    feed(&mut entry_side, &mut modem, 0, 40, |_| 0.5 * RATE * 1e9 / 1500.0);
    assert_eq!(entry_side.measured_rate(ServiceRate::rate), None);
}

#[test]
fn what_is_configured_is_better_than_what_was_measured_and_that_than_a_first_guess() {
    let mut entry_side = EntrySide::new(0);
    entry_side.known.begin_with(Some(3.0 * RATE));
    assert_eq!(entry_side.rate(), Some(3.0 * RATE));
    let mut modem = Modem { rate: RATE, limit: 60_000.0, done_ns: 0.0, missing: 0.0 };
    feed(&mut entry_side, &mut modem, 0, 20, |at| saw(at, RATE));
    assert!((entry_side.rate().expect("a rate") / RATE - 1.0).abs() < 0.02);
    entry_side.known.tell(Some(1.2 * RATE));
    assert_eq!(entry_side.rate(), Some(1.2 * RATE));
    entry_side.restart(50_000 * MS);
    assert!((learnt(&entry_side) / RATE - 1.0).abs() < 0.02, "rates stay known after a silence");
}

/// Two packets in each slot of time, of which the second is answered in each third slot, the first in all others: where it stood in its slot makes the rate
/// right, and the level.
#[test]
fn an_answer_counts_for_its_place_in_the_slot() {
    for is_told in [true, false] {
        let mut entry_side = EntrySide::new(0);
        let mut answers = std::collections::VecDeque::new();
        // 31 ms apart, 15 and 45 ms of service: 600 ms stand there, and the level falls by 100 bytes with each slot.
        entry_side.enter(0, 60_000, 0);
        let mut before_bytes = 60_000.0;
        let mut newest = (0, 0.0);
        for slot in 1..300_u64 {
            let at_ns = slot * 31 * MS;
            let bytes = if slot % 2 == 0 { 1_500 } else { 4_500 };
            let ahead_bytes = if slot % 3 == 0 { 750.0 } else { 0.0 };
            let begins_ns = before_bytes / RATE;
            let wait_ns = begins_ns + ahead_bytes / RATE - at_ns as f64;
            before_bytes += f64::from(bytes);
            entry_side.enter(at_ns, bytes, 0);
            newest = (at_ns, begins_ns - at_ns as f64);
            let question = Question { at_ns, ahead_bytes: if is_told { ahead_bytes } else { 0.0 } };
            answers.push_back((question, wait_ns, at_ns as f64 + wait_ns));
            while let Some((question, wait_ns, now_ns)) =
                answers.pop_front_if(|(.., now_ns)| *now_ns <= at_ns as f64)
            {
                answer(&mut entry_side, question, wait_ns, now_ns);
            }
        }
        let rate = entry_side.rate().map_or(f64::NAN, |rate| rate / RATE - 1.0);
        assert_eq!(rate.abs() < 1e-6, is_told, "{rate}");
        let off_ms = (entry_side.expected_ns(newest.0).expect("a rate") - newest.1).abs() / 1e6;
        assert!(off_ms < 0.1 || !is_told, "{off_ms}");
    }
}
