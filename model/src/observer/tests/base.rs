//! The delay without queues: what lowers it, and what may raise it.

use super::super::base::{Bases, Cleared, Split};
use super::super::bound::LowerBound;
use super::super::rules::RULES;

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// A full packet answers a short one after `delay_ms`, of which at most `most_ms` can be queue.
fn answer(at_ns: f64, delay_ms: f64, most_ms: f64) -> Cleared {
    Cleared {
        end: [7; 16],
        at_ns,
        delay_ns: delay_ms * MS,
        question_bytes: 66,
        answer_bytes: 1500,
        most_ns: most_ms * MS,
        clear_ns: RULES.no_queue_ns,
        known_ns: None,
    }
}

/// Answers each 10 ms; the newest.
fn answers(bases: &mut Bases, from_s: f64, count: u32, delay_ms: f64, most_ms: f64) -> Split {
    (0..count)
        .map(|i| bases.split(&answer(from_s * SECOND + f64::from(i) * 10.0 * MS, delay_ms, most_ms)))
        .last()
        .expect("at least one")
}

#[test]
fn what_is_above_the_smallest_delay_is_queue() {
    let mut bases = Bases::default();
    let first = bases.split(&answer(0.0, 40.0, 0.0));
    assert_eq!(first, Split { queue_ns: 0.0, base_ns: 40.0 * MS, proven_ns: Some(0.0) });
    assert_eq!(bases.split(&answer(1e7, 90.0, 90.0)).queue_ns, 50.0 * MS);
    // A shorter one at once, without any proof.
    assert_eq!(bases.split(&answer(2e7, 30.0, 90.0)).queue_ns, 0.0);
    assert_eq!(bases.split(&answer(3e7, 90.0, 90.0)).queue_ns, 60.0 * MS);
}

#[test]
fn a_queue_that_never_drains_is_not_proven() {
    let mut bases = Bases::default();
    for i in 0..1000 {
        // Between 50 and 100 ms of queue, always.
        let delay = 90.0 + f64::from(i % 50);
        assert_eq!(bases.split(&answer(f64::from(i) * 10.0 * MS, delay, delay)).proven_ns, None);
    }
    assert_eq!(bases.newest, Some((90.0 * MS, false)));
    assert_eq!(bases.nearest, None);
    // A pause reveals it.
    assert!(answers(&mut bases, 11.0, 5, 40.0, 0.0).proven_ns.is_some());
    assert_eq!(bases.split(&answer(12.0 * SECOND, 90.0, 90.0)).queue_ns, 50.0 * MS);
    assert_eq!(bases.nearest, Some(40.0 * MS));
}

#[test]
fn ten_minutes_of_standing_queue_do_not_raise_it() {
    for most_ms in [250.0, f64::INFINITY] {
        let mut bases = Bases::default();
        answers(&mut bases, 0.0, 10, 40.0, 0.0);
        for i in 0..60_000 {
            let delay = 240.0 + f64::from(i % 50);
            let split = bases.split(&answer(SECOND + f64::from(i) * 10.0 * MS, delay, most_ms));
            assert_eq!(split.base_ns, 40.0 * MS, "after {i}");
        }
    }
}

#[test]
fn a_longer_route_shows_behind_an_idle_link() {
    let mut bases = Bases::default();
    answers(&mut bases, 0.0, 10, 40.0, 0.0);
    assert_eq!(bases.split(&answer(SECOND, 70.0, 0.0)).queue_ns, 30.0 * MS, "one may have been held back");
    answers(&mut bases, 1.01, 120, 70.0, 0.0);
    assert_eq!(bases.split(&answer(3.0 * SECOND, 70.0, 0.0)).queue_ns, 0.0);
    assert_eq!(bases.split(&answer(3.1 * SECOND, 120.0, 120.0)).queue_ns, 50.0 * MS);
}

#[test]
fn a_few_late_answers_do_not_raise_it() {
    let mut bases = Bases::default();
    answers(&mut bases, 0.0, 10, 40.0, 0.0);
    // A hundred within half a second: one accident.
    for i in 0..100 {
        bases.split(&answer(SECOND + f64::from(i) * 5.0 * MS, 140.0, 0.0));
    }
    assert_eq!(bases.split(&answer(1.6 * SECOND, 140.0, 140.0)).queue_ns, 100.0 * MS);
    // Seven within three seconds: too few.
    let mut bases = Bases::default();
    bases.split(&answer(0.0, 40.0, f64::INFINITY));
    for i in 0..7 {
        bases.split(&answer(SECOND + f64::from(i) * 400.0 * MS, 140.0, 0.0));
    }
    assert_eq!(bases.split(&answer(5.0 * SECOND, 140.0, f64::INFINITY)).queue_ns, 100.0 * MS);
}

#[test]
fn a_download_that_ends_midway_raises_nobodys_delay() {
    let mut bases = Bases::default();
    let other = |at_ns: f64, delay: f64, most: f64| Cleared { end: [9; 16], ..answer(at_ns, delay, most) };
    for i in 0..10 {
        bases.split(&answer(f64::from(i) * 10.0 * MS, 40.0, 0.0));
        bases.split(&other(f64::from(i) * 10.0 * MS, 15.0, 0.0));
    }
    // 100 ms of queue for 25 s, in the middle of a stretch of ten seconds; then nothing.
    for i in 0..2500 {
        let at = SECOND + f64::from(i) * 10.0 * MS;
        bases.split(&answer(at, 140.0, 200.0));
        bases.split(&other(at, 115.0, 200.0));
    }
    let (one, two) = (answers(&mut bases, 26.0, 300, 40.0, 0.0), bases.split(&other(29e9, 15.0, 0.0)));
    assert_eq!((one.base_ns, one.queue_ns), (40.0 * MS, 0.0));
    assert_eq!((two.base_ns, two.queue_ns), (15.0 * MS, 0.0));
}

#[test]
fn each_end_has_its_own_and_the_nearest_is_reported() {
    let mut bases = Bases::default();
    answers(&mut bases, 0.0, 3, 40.0, 0.0);
    let far = Cleared { end: [9; 16], ..answer(SECOND, 200.0, 0.0) };
    assert_eq!(bases.split(&far).queue_ns, 0.0);
    assert_eq!(bases.newest, Some((200.0 * MS, true)));
    assert_eq!(bases.nearest, Some(40.0 * MS));
}

#[test]
fn what_others_know_of_the_queue_helps_an_end_that_is_new() {
    let mut bases = Bases::default();
    let new = Cleared { known_ns: Some(60.0 * MS), ..answer(0.0, 100.0, 100.0) };
    let split = bases.split(&new);
    assert_eq!((split.base_ns, split.queue_ns), (40.0 * MS, 60.0 * MS));
}

#[test]
fn short_and_long_answers_are_compared_with_their_own_kind() {
    let mut bases = Bases::default();
    // A short answer calibrates long ones …
    bases.split(&Cleared { answer_bytes: 60, ..answer(0.0, 20.0, 0.0) });
    assert_eq!(bases.split(&answer(1e7, 50.0, 50.0)).queue_ns, 30.0 * MS);
    // … until a link that was idle shows that those take longer.
    answers(&mut bases, 1.0, 150, 24.0, 0.0);
    assert_eq!(bases.split(&answer(3e9, 54.0, 50.0)).queue_ns, 30.0 * MS);
    assert_eq!(bases.split(&Cleared { answer_bytes: 60, ..answer(4e9, 50.0, 50.0) }).queue_ns, 30.0 * MS);
}

#[test]
fn eight_readings_over_a_second_make_a_lower_bound() {
    let mut bound = LowerBound::default();
    for i in 0..7 {
        assert_eq!(bound.add(f64::from(i) * 0.15 * SECOND, 50.0 - f64::from(i)), None);
    }
    assert_eq!(bound.add(1.05 * SECOND, 60.0), Some(44.0));
    assert_eq!(bound.add(1.06 * SECOND, 60.0), None, "it begins anew");
    // One that is not bounded ends the series.
    for i in 0..7 {
        bound.add((2.0 + f64::from(i)) * SECOND, 50.0);
    }
    assert_eq!(bound.add(9.0 * SECOND, f64::NEG_INFINITY), None);
    assert_eq!(bound.add(10.0 * SECOND, 50.0), None);
}

/// A torrent: 20,000 other ends are heard once each, while one is heard on.
#[test]
fn many_ends_do_not_wipe_what_is_known_of_one() {
    let mut bases = Bases::default();
    assert!(answers(&mut bases, 0.0, 5, 40.0, 0.0).proven_ns.is_some());
    for other in 0..20_000_u32 {
        let mut end = [0; 16];
        end[..4].copy_from_slice(&other.to_le_bytes());
        bases.split(&Cleared { end, ..answer(SECOND, 70.0, f64::INFINITY) });
        if other % 1_000 == 0 {
            let split = bases.split(&answer(SECOND, 90.0, 90.0));
            assert_eq!((split.queue_ns, split.proven_ns.is_some()), (50.0 * MS, true), "after {other} ends");
        }
    }
}
