//! The rate of a hidden buffer from what entered it and when that was served, by hand.

use super::super::learner::{Learner, Measured};
use crate::capacity::ServiceRate;

const MS: f64 = 1e6;
const SECOND: f64 = 1e9;

/// 300,000 bytes a second.
const RATE: f64 = 3e-4;

/// A link that always has work: each packet waits for 200 ms, that of the first four seconds for 400.
struct BusyLink {
    learner: Learner,
    at_ns: f64,
    sum: f64,
}

impl BusyLink {
    fn new() -> Self {
        Self { learner: Learner::default(), at_ns: 0.0, sum: 0.0 }
    }

    /// For so many seconds `rate` enters, of which `repeated` is sent again.
    fn carry(&mut self, seconds: f64, rate: f64, repeated: f64) {
        let to_ns = self.at_ns + seconds * SECOND;
        while self.at_ns < to_ns {
            let wait_ms = if self.at_ns < 4.0 * SECOND { 400.0 } else { 200.0 };
            let begins_ns = self.at_ns + wait_ms * MS;
            self.learner.measure(
                Measured { at_ns: self.at_ns, busy_since_ns: self.at_ns, begins_ns, sum: self.sum },
                None,
            );
            let bytes = rate * 10.0 * MS;
            self.learner.enter(bytes, repeated * bytes);
            self.sum += bytes;
            self.at_ns += 10.0 * MS;
        }
    }

    fn found(&self) -> f64 {
        self.learner.rate(ServiceRate::rate, false).expect("a rate") / RATE
    }
}

/// A third more than the link carries enters, and a quarter of that is sent again: it was dropped, whatever the wait is, as where a buffer counts packets and ACKs
/// fill it.
#[test]
fn what_is_sent_again_was_not_carried() {
    // Half of what is missing is enough to tell.
    for (rate, repeated) in [(RATE, 0.25), (0.1 * RATE, 0.25), (RATE, 0.13)] {
        let mut link = BusyLink::new();
        link.carry(20.0, rate, 0.0);
        link.carry(20.0, rate * 4.0 / 3.0, repeated);
        let found = link.found() * RATE / rate;
        assert!((found - 1.0).abs() < 0.02, "{rate} {repeated}: {found}");
    }
}

/// Each packet is answered twice, and each second time the first of both answers was held back for 50 ms: the earlier one counts. One more comes late, after
/// the next packet's: it tells nothing of that.
#[test]
fn of_two_answers_to_one_packet_the_earlier_counts() {
    let mut learner = Learner::default();
    let bytes = RATE * 60.0 * MS;
    for i in 0..200 {
        let mut measure = |number: i32, held_ms: f64| {
            let at_ns = 60.0 * MS * f64::from(number);
            let wait_ms = if number % 20 == 0 { 400.0 } else { 200.0 };
            let begins_ns = at_ns + (wait_ms + held_ms) * MS;
            let sum = bytes * f64::from(number);
            learner.measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns, sum }, None);
        };
        measure(i, f64::from(i / 2 % 2) * 50.0);
        measure(i, 0.0);
        if i % 3 == 1 {
            measure(i - 1, 0.0);
        }
        learner.enter(bytes, 0.0);
    }
    let found = learner.rate(ServiceRate::rate, false).expect("a rate") / RATE;
    assert!((found - 1.0).abs() < 0.02, "{found}");
}

/// A buffer that was full but for half a second, which is a first guess only: the full buffer's rate counts if that guess agrees, and else none.
#[test]
fn a_full_buffers_rate_counts_if_a_first_guess_agrees() {
    for (guessed, is_known) in [(1.0, true), (1.2, true), (1.4, false), (0.7, false)] {
        let mut learner = Learner::default();
        let mut sum = 0.0;
        for i in 0..1_500 {
            let at_ns = 10.0 * MS * f64::from(i);
            let is_full = !(400..450).contains(&i);
            let begins_ns = at_ns + if is_full { 400.0 } else { 200.0 } * MS;
            learner.measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns, sum }, None);
            let bytes = RATE * 10.0 * MS * if is_full { 1.0 } else { guessed };
            sum += bytes;
            learner.enter(bytes, 0.0);
        }
        let found = learner.rate(ServiceRate::rate, false);
        assert_eq!(
            found.is_some_and(|rate| (rate / RATE - 1.0).abs() < 0.05),
            is_known,
            "{guessed}: {found:?}"
        );
    }
}

/// A buffer that is always full, and a quarter more than the link carries: what is sent again is taken off, as much as it is of the newest packets.
#[test]
fn of_a_full_buffer_the_losses_of_the_recent_past_are_taken_off() {
    let mut learner = Learner::default();
    let mut sum = 0.0;
    for i in 0..25_000 {
        let at_ns = 10.0 * MS * f64::from(i);
        learner.measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns: at_ns + 400.0 * MS, sum }, None);
        let bytes = 1.25 * RATE * 10.0 * MS;
        sum += bytes;
        let each = if i < 2_000 { 2 } else { 5 };
        learner.enter(bytes, if i % each == 0 { bytes } else { 0.0 });
    }
    let found = learner.rate(ServiceRate::rate, false).expect("a rate") / RATE;
    assert!((found - 1.0).abs() < 0.01, "{found}");
}

/// One packet each 20 ms. The buffer was not empty between two if the second came more than 5 ms before the service of the first began: less is jitter.
#[test]
fn a_queue_of_no_more_than_jitter_is_no_span() {
    for (wait_ms, is_known) in [(25.0, false), (26.0, true)] {
        let mut learner = Learner::default();
        for i in 0..500 {
            let at_ns = 20.0 * MS * f64::from(i);
            let sum = 3_000.0 * f64::from(i);
            learner.measure(
                Measured { at_ns, busy_since_ns: at_ns, begins_ns: at_ns + wait_ms * MS, sum },
                None,
            );
            learner.enter(3_000.0, 0.0);
        }
        assert_eq!(learner.rate(ServiceRate::rate, false).is_some(), is_known, "{wait_ms} ms");
    }
}

/// A little more than the link carries, and as much is sent again: from four in a hundred on that is what was dropped, less is the link's own change.
#[test]
fn what_was_dropped_is_more_than_four_in_a_hundred() {
    for (more, expected) in [(1.034, 1.034), (1.046, 1.0)] {
        let mut link = BusyLink::new();
        link.carry(20.0, RATE, 0.0);
        link.carry(40.0, more * RATE, 1.0 - 1.0 / more);
        assert!((link.found() - expected).abs() < 0.006, "{more}: {}", link.found());
    }
}

/// Nothing is sent again, or little: the link has become faster.
#[test]
fn a_faster_link_is_followed() {
    for repeated in [0.0, 0.05] {
        let mut link = BusyLink::new();
        link.carry(20.0, RATE, 0.0);
        link.carry(20.0, RATE * 2.0, repeated);
        assert!((link.found() - 2.0).abs() < 0.02, "{repeated}: {}", link.found());
    }
}

/// The link becomes half as fast, and from then on its buffer is always full. Of a buffer that drops what nobody repeats, only the rate of before is known,
/// and that it is no longer the link's.
#[test]
fn a_slower_link_is_followed_by_its_full_buffer() {
    let mut link = BusyLink::new();
    link.carry(20.0, RATE, 0.0);
    for _ in 0..2_000 {
        let (at_ns, sum) = (link.at_ns, link.sum);
        let begins_ns = at_ns + 800.0 * MS;
        link.learner.measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns, sum }, None);
        link.learner.enter(RATE / 2.0 * 10.0 * MS, 0.0);
        link.sum += RATE / 2.0 * 10.0 * MS;
        link.at_ns += 10.0 * MS;
    }
    assert!((link.found() - 0.5).abs() < 0.02, "{}", link.found());
    assert_eq!(link.learner.rate(ServiceRate::rate, true), None);
}

/// A buffer that is full all the time, and was seen to drop: its rate is known if what it drops is sent again.
#[test]
fn a_buffer_that_drops_what_nobody_repeats_tells_no_rate() {
    let found = |repeated: f64| {
        let mut learner = Learner::default();
        for number in 0..2_000 {
            let at_ns = f64::from(number) * 10.0 * MS;
            let bytes = RATE * 10.0 * MS / (1.0 - 0.1);
            learner.measure(
                Measured {
                    at_ns,
                    busy_since_ns: at_ns,
                    begins_ns: at_ns + 200.0 * MS,
                    sum: f64::from(number) * bytes,
                },
                None,
            );
            learner.enter(bytes, repeated * bytes);
        }
        [true, false]
            .map(|drops| learner.rate(ServiceRate::rate, drops).map(|rate| (rate / RATE * 100.0).round()))
    };
    assert_eq!(found(0.1), [Some(100.0), Some(100.0)]);
    assert_eq!(found(0.0), [None, Some(111.0)]);
}

/// A buffer that is full all the time tells a rate for the level, and for nothing else in the first seconds. Once it was seen not to be full, its rate is sure.
#[test]
fn what_a_full_buffer_tells_first_is_not_sure() {
    let mut full = BusyLink::new();
    let mut sure_after_s = None;
    while full.at_ns < 20.0 * SECOND {
        let (at_ns, sum) = (full.at_ns, full.sum);
        full.learner
            .measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns: at_ns + 200.0 * MS, sum }, None);
        full.learner.enter(RATE * 10.0 * MS, 0.0);
        (full.at_ns, full.sum) = (at_ns + 10.0 * MS, sum + RATE * 10.0 * MS);
        let is_known = full.learner.rate(ServiceRate::rate, false).is_some();
        if is_known && full.learner.is_sure() {
            sure_after_s.get_or_insert(full.at_ns / SECOND);
        }
    }
    // Five seconds of it, which are judged three seconds later.
    assert!(sure_after_s.is_some_and(|seconds| (8.0..9.0).contains(&seconds)), "{sure_after_s:?}");
    let mut open = BusyLink::new();
    open.carry(20.0, RATE, 0.0);
    assert!(open.learner.is_sure() && (open.found() - 1.0).abs() < 0.02);
}

/// A buffer fills in 4 s and stays full of datagrams, a quarter more of them than the link carries: nobody repeats what it drops. Answers that are late by
/// themselves make it no larger: one alone is not believed, and what stalled for a second is forgotten.
#[test]
fn a_full_buffer_stays_full_after_late_answers() {
    for late_for_s in [0.01, 1.0] {
        let mut link = BusyLink::new();
        while link.at_ns < 300.0 * SECOND {
            let is_late = (20.0 * SECOND..(20.0 + late_for_s) * SECOND).contains(&link.at_ns);
            let wait_ns = (link.at_ns / 20.0).min(200.0 * MS) + if is_late { 200.0 * MS } else { 0.0 };
            let (at_ns, sum) = (link.at_ns, link.sum);
            link.learner
                .measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns: at_ns + wait_ns, sum }, None);
            // While it fills, a twentieth more enters than is served.
            let bytes = RATE * 10.0 * MS * if link.at_ns < 4.0 * SECOND { 1.05 } else { 1.25 };
            link.learner.enter(bytes, 0.0);
            link.sum += bytes;
            link.at_ns += 10.0 * MS;
            if link.at_ns > 10.0 * SECOND {
                assert!((link.found() - 1.0).abs() < 0.05, "{} at {} s", link.found(), link.at_ns / SECOND);
            }
        }
        assert!((link.found() - 1.0).abs() < 0.05, "{late_for_s}: {}", link.found());
    }
}

/// Answers that are late by themselves: of ten tenths of a second so many have the link's rate, the others less or more than a quarter beside it.
#[test]
fn a_rate_is_known_if_half_of_what_was_measured_agrees() {
    let found = |agreeing: u32, off: f64| {
        let (mut learner, mut sum) = (Learner::default(), 0.0);
        for number in 0..2_000 {
            let at_ns = f64::from(number) * 10.0 * MS;
            learner
                .measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns: at_ns + 200.0 * MS, sum }, None);
            let part = match number / 10 % 10 {
                tenth if tenth < agreeing => 1.0,
                tenth if tenth % 2 == 0 => 1.0 - off,
                _ => 1.0 + off,
            };
            let bytes = part * RATE * 10.0 * MS;
            learner.enter(bytes, 0.0);
            sum += bytes;
        }
        learner.rate(ServiceRate::rate, false).map(|rate| (rate / RATE * 10.0).round())
    };
    assert_eq!([found(6, 0.3), found(4, 0.3), found(0, 0.2)], [Some(10.0), None, Some(10.0)]);
}

/// A slow link: 25 packets a second. Each fourth reply is late by itself: the span before seems too slow, the one after too fast, by less than a packet; and all the
/// time something is sent again. No packet was dropped then, or the slow ones alone would count.
#[test]
fn a_span_with_less_than_a_packet_more_has_dropped_nothing() {
    let mut link = BusyLink::new();
    for number in 0..500 {
        let late_ms = if number % 4 == 0 { 15.0 } else { 0.0 };
        let wait_ms = if link.at_ns < 4.0 * SECOND { 400.0 } else { 200.0 };
        let begins_ns = link.at_ns + (wait_ms + late_ms) * MS;
        let (at_ns, sum) = (link.at_ns, link.sum);
        link.learner.measure(Measured { at_ns, busy_since_ns: at_ns, begins_ns, sum }, None);
        link.learner.enter(1514.0, 300.0);
        link.sum += 1514.0;
        link.at_ns += 40.0 * MS;
    }
    let rate = link.learner.rate(ServiceRate::rate, false).expect("a rate") * 1e9;
    assert!((rate / (25.0 * 1514.0) - 1.0).abs() < 0.02, "{rate} B/s");
}
