use super::super::super::packet::MILLISECOND;
use super::*;

const MS: Time = MILLISECOND;

fn parameters() -> Parameters {
    // 10 Mb/s: 1,514 bytes take 1.2112 ms, four of them less than the target of 5 ms.
    Parameters::new(1_211_200.0, 5 * MS, 100 * MS)
}

/// When frames are dropped that leave each millisecond and have all waited for `sojourn`.
fn drops(cobalt: &mut Cobalt, from: Time, to: Time, sojourn: Time) -> Vec<Time> {
    (from..to).filter(|ms| cobalt.should_drop(&parameters(), ms * MS, sojourn)).collect()
}

#[test]
fn a_slow_link_has_a_longer_target_and_interval() {
    assert_eq!((parameters().target, parameters().interval), (5 * MS, 100 * MS));
    // 196 kb/s: a frame takes 61.8 ms, so the target is 92.7 ms and the interval 100 + 92.7 - 5 = 187.7 ms.
    let slow = Parameters::new(61_800_000.0, 5 * MS, 100 * MS);
    assert_eq!((slow.target, slow.interval), (92_700_000, 187_700_000));
    // 64 kb/s: 189.25 ms and 283.875 ms; twice the target is more than 378.875 ms.
    let slower = Parameters::new(189_250_000.0, 5 * MS, 100 * MS);
    assert_eq!((slower.target, slower.interval), (283_875_000, 567_750_000));
}

#[test]
fn drops_follow_the_control_law() {
    // A queue that has seen traffic before: it has come to rest, with 1/√count at 1.
    let mut cobalt = Cobalt { inverse_root: 1.0, ..Cobalt::default() };
    assert!(drops(&mut cobalt, 1_000, 1_010, 2 * MS).is_empty());
    // Over the target from 1,010 ms on: 100 ms later the first drop, then 100/√2 = 70.7, 100/√3 = 57.7 and 100/√4 = 50 ms after each other.
    assert_eq!(drops(&mut cobalt, 1_010, 1_300, 20 * MS), [1_110, 1_181, 1_239, 1_289]);
}

#[test]
fn the_first_drop_of_a_new_queue_does_not_wait() {
    let dropped = drops(&mut Cobalt::default(), 1_000, 1_090, 20 * MS);
    // At once, and then interval/√2 later.
    assert_eq!(dropped, [1_001, 1_071]);
}

#[test]
fn what_waits_for_less_than_four_frames_is_never_dropped() {
    // 1 Mb/s: a frame takes 12.112 ms, the target is 18.2 ms, four frames 48.4 ms.
    let slow = Parameters::new(12_112_000.0, 5 * MS, 100 * MS);
    let mut cobalt = Cobalt::default();
    let mut drops = |sojourn| (1_000..3_000).any(|ms| cobalt.should_drop(&slow, ms * MS, sojourn));
    assert!(!drops(48 * MS));
    assert!(drops(49 * MS));
}

#[test]
fn the_count_falls_while_queues_are_short() {
    let mut cobalt = Cobalt { inverse_root: 1.0, ..Cobalt::default() };
    drops(&mut cobalt, 1_000, 2_000, 20 * MS);
    let before = cobalt.count;
    assert!(before > 10, "{before}");
    assert!(drops(&mut cobalt, 2_000, 2_200, MS).is_empty());
    assert!(cobalt.count < before, "{} of {before}", cobalt.count);
    assert!(drops(&mut cobalt, 2_200, 6_000, MS).is_empty());
    assert_eq!(cobalt.count, 0);
}

/// `cobalt_should_drop` by hand, with an interval of 100 ms: what it says, the count, the next drop in µs, and whether it drops from now on.
fn told(before: Cobalt, now: Time, sojourn: Time) -> (bool, u32, Time, bool) {
    let mut cobalt = before;
    let drops = cobalt.should_drop(&parameters(), now, sojourn);
    (drops, cobalt.count, cobalt.drop_next / 1_000, cobalt.dropping)
}

fn state(count: u32, drop_next_ms: Time, dropping: bool) -> Cobalt {
    Cobalt {
        count,
        inverse_root: 1.0 / f64::from(count.max(1)).sqrt(),
        drop_next: drop_next_ms * MS,
        dropping,
    }
}

#[test]
fn a_queue_over_the_target_is_given_an_interval() {
    assert_eq!(told(state(0, 0, false), 1_000 * MS, 2 * MS), (false, 0, 1_100_000, false));
    assert_eq!(told(state(0, 1_100, false), 1_050 * MS, 20 * MS), (false, 1, 1_150_000, true));
    assert_eq!(told(state(0, 1_050, false), 1_050 * MS, 20 * MS), (false, 1, 1_150_000, true));
    assert_eq!(
        told(state(0, 1_049, false), 1_050 * MS, 20 * MS),
        (false, 1, 1_050_000, true),
        "it is overdue"
    );
    // More than the target, and more than four frames.
    assert!(
        !told(state(0, 0, false), 1_000 * MS, 5 * MS).3 && told(state(0, 0, false), 1_000 * MS, 5 * MS + 1).3
    );
}

#[test]
fn what_is_due_is_dropped_and_the_next_is_due_sooner() {
    assert_eq!(told(state(1, 1_000, true), 1_000 * MS, 20 * MS), (true, 2, 1_070_710, true));
    assert_eq!(told(state(1, 1_000, true), 1_000 * MS - 1, 20 * MS), (false, 1, 1_000_000, true));
    assert_eq!(
        told(state(1, 900, true), 1_000 * MS, 20 * MS),
        (true, 2, 970_710, true),
        "the next is overdue"
    );
    assert_eq!(told(state(3, 1_000, true), 1_000 * MS, 20 * MS), (true, 4, 1_050_000, true));
    assert_eq!(told(Cobalt { count: u32::MAX, ..state(1, 0, true) }, MS, 20 * MS).1, u32::MAX);
    // A queue that comes back over the target: an interval by what it was, and what was due is dropped.
    assert_eq!(told(state(4, 1_000, false), 1_000 * MS, 20 * MS), (true, 5, 1_094_721, true));
}

#[test]
fn below_the_target_the_count_falls_at_each_moment_that_was_due() {
    assert_eq!(told(state(3, 1_000, true), 1_000 * MS, 2 * MS), (false, 2, 1_070_710, false));
    assert_eq!(told(state(3, 1_000, false), 1_100 * MS, 2 * MS), (false, 1, 1_170_710, false));
    assert_eq!(told(state(3, 1_000, false), 1_200 * MS, 2 * MS), (false, 0, 1_300_000, false));
    assert_eq!(told(state(3, 1_001, false), 1_000 * MS, 2 * MS), (false, 3, 1_001_000, false));
}

#[test]
fn an_empty_queue_lowers_the_count_once_if_that_is_due() {
    let emptied = |before: Cobalt, now| {
        let mut cobalt = before;
        cobalt.queue_empty(&parameters(), now * MS);
        (cobalt.count, cobalt.drop_next / MS, cobalt.dropping)
    };
    assert_eq!(
        [emptied(state(2, 1_000, true), 999), emptied(state(2, 1_000, true), 1_000)],
        [(2, 1_000, false), (1, 1_100, false)]
    );
    assert_eq!(
        [emptied(state(2, 1_000, true), 1_500), emptied(state(0, 1_000, true), 1_500)],
        [(1, 1_100, false), (0, 1_000, false)]
    );
}
