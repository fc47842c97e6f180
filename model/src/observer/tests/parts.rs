//! The observer's parts, each by itself and by hand.

use std::time::Duration;

use super::super::base::{Bases, Cleared, Split};
use super::super::bound::LowerBound;
use super::super::level::{INTERVAL_NS, LevelTrack, Levels};
use super::super::rules::RULES;
use super::super::standing::Standing;
use super::super::{Answer, Observer, Trust, Vantage};
use crate::capacity::ServiceRate;
use crate::segment::Direction;

const MS: u64 = 1_000_000;
const SECOND: f64 = 1e9;

/// Eight readings that span a second agree on the least of them; then counting begins anew.
#[test]
fn eight_readings_in_a_second_make_a_bound() {
    let mut bound = LowerBound::default();
    for round in [0.0, 10.0] {
        let at = |part: f64| (round + part) * SECOND;
        for (index, value) in [50.0, 41.0, 48.0, 47.0, 46.0, 45.0, 44.0].into_iter().enumerate() {
            assert_eq!(bound.add(at(0.1 * index as f64), value), None);
        }
        assert_eq!(bound.add(at(0.9), 60.0), None, "eight, in less than a second");
        assert_eq!(bound.add(at(0.999_999), 60.0), None);
        assert_eq!(bound.add(at(1.0), 60.0), Some(41.0));
    }
    // Seven are too few, however long they take; the eighth is enough.
    for index in 0..7 {
        assert_eq!(bound.add(f64::from(20 + index) * SECOND, -3.0), None);
    }
    assert_eq!(bound.add(27.0 * SECOND, -2.0), Some(-3.0));
    // One that says nothing (the wait may have been any) breaks the row.
    for index in 0..7 {
        assert_eq!(bound.add(f64::from(30 + index) * SECOND, 5.0), None);
    }
    assert_eq!(bound.add(37.0 * SECOND, f64::NEG_INFINITY), None);
    for index in 0..7 {
        assert_eq!(bound.add(f64::from(40 + index) * SECOND, 9.0), None);
    }
    assert_eq!(bound.add(47.0 * SECOND, 9.0), Some(9.0));
}

/// A link that is busy throughout, in packets of 1,500 bytes: so many bytes a second for so long.
fn feed(rate: &mut ServiceRate, seconds: f64, bytes_per_s: f64) {
    let step_ns = 1_500.0 / bytes_per_s * SECOND;
    let packets = (seconds * SECOND / step_ns).round() as u32;
    let from_ns = rate.newest_ns();
    for packet in 1..=packets {
        rate.add(from_ns + f64::from(packet) * step_ns, step_ns, 1_500.0);
    }
}

#[track_caller]
fn assert_rate(found: Option<f64>, bytes_per_s: f64) {
    let found = found.expect("a rate") * SECOND;
    assert!((found - bytes_per_s).abs() < 1e-3 * bytes_per_s, "{found}, not {bytes_per_s}");
}

/// A rate is the mean of the ten newest seconds, if it has hardly changed in them.
#[test]
fn the_newest_ten_seconds_are_averaged() {
    let mut rate = ServiceRate::default();
    feed(&mut rate, 10.0, 300_000.0);
    assert_rate(rate.rate(), 300_000.0);
    // Seven in a hundred more: not another rate.
    feed(&mut rate, 5.0, 321_000.0);
    assert_rate(rate.rate(), 310_500.0);
    feed(&mut rate, 5.0, 321_000.0);
    assert_rate(rate.rate(), 321_000.0);
}

/// A rate has changed once the newest second differs by more than eight in a hundred, up or down: of a change by ten that is after
/// 0.8 s. What was before that second is forgotten then.
#[test]
fn a_rate_that_has_changed_is_measured_anew() {
    for (after, changed) in [(321_000.0, false), (330_000.0, true), (279_000.0, false), (270_000.0, true)] {
        let mut rate = ServiceRate::default();
        feed(&mut rate, 10.0, 300_000.0);
        feed(&mut rate, 0.76, after);
        assert_rate(rate.rate(), (9.24 * 300_000.0 + 0.76 * after) / 10.0);
        feed(&mut rate, 0.14, after);
        let found = rate.rate().expect("a rate") * SECOND;
        // 0.2 s of the old rate are left of the second that was used.
        let expected = if changed {
            (0.2 * 300_000.0 + 0.9 * after) / 1.1
        } else {
            (9.1 * 300_000.0 + 0.9 * after) / 10.0
        };
        assert!((found - expected).abs() < 0.004 * expected, "{found}, not {expected}");
    }
}

/// The newest second is one of at least 32 full frames, here with the thirteen packets before it, and what was before
/// those is no part of the rate.
#[test]
fn a_slow_second_takes_in_what_was_before() {
    let mut rate = ServiceRate::default();
    feed(&mut rate, 10.0, 300_000.0);
    rate.add(11.0 * SECOND, SECOND, 20.0 * 1_514.0);
    assert_rate(rate.rough(), (30_280.0 + 13.0 * 1_500.0) / 1.065);
    assert_eq!(rate.rate(), rate.rough());
}

/// Less than a second before the newest one is no rate that it could differ from.
#[test]
fn a_short_past_is_no_rate_to_differ_from() {
    let mut rate = ServiceRate::default();
    feed(&mut rate, 0.9, 300_000.0);
    feed(&mut rate, 0.9, 600_000.0);
    assert_rate(rate.rate(), 450_000.0);
    feed(&mut rate, 0.3, 600_000.0);
    assert_rate(rate.rate(), 600_000.0);
}

/// A guess needs a tenth of a second and 3.2 full frames, a rate ten times as much of both.
#[test]
fn guesses_and_rates_need_time_and_bytes() {
    let known = |busy_s: f64, bytes: f64| {
        let mut rate = ServiceRate::default();
        rate.add(SECOND, busy_s * SECOND, bytes);
        (rate.rough().is_some(), rate.rate().is_some())
    };
    let frame = 1_514.0;
    assert_eq!(known(0.1, 3.2 * frame + 1.0), (true, false));
    assert_eq!(known(0.099, 9.0 * frame), (false, false));
    assert_eq!(known(9.0, 3.2 * frame - 1.0), (false, false));
    assert_eq!(known(1.0, 32.0 * frame), (true, true));
    assert_eq!(known(0.999, 99.0 * frame), (true, false));
    assert_eq!(known(9.0, 32.0 * frame - 1.0), (true, false));
}

/// Memory is bounded: of short spans the newest 2¹⁴ count.
#[test]
fn so_many_spans_are_remembered() {
    let mut rate = ServiceRate::default();
    let spans = 1_u32 << 14;
    let mut add = |from: u32, to: u32, bytes: f64| {
        for span in from..to {
            rate.add(f64::from(span) * 5e5, 5e5, bytes);
        }
        rate.rate().map(|rate| (rate * SECOND).round())
    };
    // Half a millisecond each, 8.2 s. The first one carries a twentieth of a second more: no other rate.
    add(0, 1, 50_500.0);
    let all = f64::from(spans) * 500.0 + 50_000.0;
    assert_eq!(add(1, spans, 500.0), Some((all / f64::from(spans) * 2e3).round()));
    assert_eq!(add(spans, spans + 1, 500.0), Some(1_000_000.0));
}

/// The level is off by no more than what was said, in the interval in which it was said and until something else is.
#[test]
fn doubts_hold_until_they_are_lifted() {
    let mut track = LevelTrack::new(0);
    let doubts = |track: &mut LevelTrack| -> Vec<f64> {
        std::iter::from_fn(|| track.pop()).map(|(_, doubt_ns)| doubt_ns).collect()
    };
    track.hold(2 * INTERVAL_NS);
    track.doubt(5e6);
    track.doubt(3e6);
    track.hold(4 * INTERVAL_NS);
    track.doubt(0.0);
    track.hold(7 * INTERVAL_NS);
    // The larger one of the interval in which both were said; then the one that held when it began.
    assert_eq!(doubts(&mut track), [0.0, 0.0, 5e6, 3e6, 3e6, 0.0, 0.0]);
}

/// Each piece of a packet leaves when it leaves, in whatever order the pieces are reported.
#[test]
fn pieces_of_a_packet_leave_one_by_one() {
    let mut standing = Standing::new(0);
    standing.enter(0, [(8 * MS, 300), (4 * MS, 700)]);
    standing.enter(6 * MS, [(20 * MS, 50)]);
    standing.hold(30 * MS);
    let levels: Vec<Levels> = std::iter::from_fn(|| standing.track.pop()).map(|(levels, _)| levels).collect();
    // 1,000 for 4 ms, 300 for 2 ms, 350 for 2 ms, 50 for 2 ms: 5,400 in 10 ms.
    let level = |min, mean, max| Levels { min, mean, max };
    assert_eq!(levels, [level(0.0, 540.0, 1_000.0), level(50.0, 50.0, 50.0), level(0.0, 0.0, 50.0)]);
}

/// Of more packets than there is room for, those that leave first count as gone.
#[test]
fn packets_inside_are_bounded() {
    let room = RULES.packets_max as u64;
    let mut standing = Standing::new(0);
    for packet in 0..=room {
        standing.enter(0, [(1_000 * MS + packet, 10)]);
    }
    standing.hold(INTERVAL_NS);
    let (levels, _) = standing.track.pop().expect("an interval");
    assert_eq!(levels.max, 10.0 * room as f64);
    // The others leave as reported.
    standing.hold(1_000 * MS);
    let last = std::iter::from_fn(|| standing.track.pop()).last();
    assert_eq!(last.map(|(levels, _)| levels.mean), Some(10.0 * room as f64));
    standing.hold(2_000 * MS);
    let last = std::iter::from_fn(|| standing.track.pop()).last();
    assert_eq!(last.map(|(levels, _)| levels.mean), Some(0.0));
}

#[test]
fn names_are_those_of_the_json() {
    let json = |value: serde_json::Result<String>| value.expect("JSON");
    for vantage in
        [Vantage::OwnQueue, Vantage::BeforeUplinkBuffer, Vantage::BehindUplinkBuffer, Vantage::Both]
    {
        assert_eq!(json(serde_json::to_string(&vantage)), format!("{:?}", vantage.name()));
    }
    for trust in [Trust::Confirmed, Trust::NeverEmpty, Trust::Stale] {
        assert_eq!(json(serde_json::to_string(&trust)), format!("{:?}", trust.name()));
    }
}

#[test]
fn an_uplink_that_is_read_elsewhere_is_not_covered() {
    for (vantage, up) in [
        (Vantage::OwnQueue, false),
        (Vantage::Both, false),
        (Vantage::BeforeUplinkBuffer, true),
        (Vantage::BehindUplinkBuffer, true),
    ] {
        let observer = Observer::new(0, vantage, Duration::ZERO);
        assert_eq!(Direction::ALL.map(|direction| observer.covers(direction)), [up, true], "{vantage:?}");
    }
}

/// An answer of `end`, long or short, to a question that is long or short.
fn answer(end: u8, at_s: f64, delay_ms: f64, lengths: (u32, u32), most_ms: f64) -> Cleared {
    Cleared {
        end: [end; 16],
        at_ns: at_s * SECOND,
        delay_ns: delay_ms * 1e6,
        question_bytes: lengths.0,
        answer_bytes: lengths.1,
        most_ns: most_ms * 1e6,
        clear_ns: RULES.no_queue_ns,
        known_ns: None,
    }
}

fn milliseconds(split: Split) -> (f64, f64) {
    ((split.queue_ns / 1e3).round() / 1e3, (split.base_ns / 1e3).round() / 1e3)
}

/// Without any word of the links the smallest delay is the one without queue, for each kind of answer; a new kind begins with the
/// smallest of the others.
#[test]
fn the_smallest_delay_of_each_kind_counts() {
    let mut bases = Bases::default();
    let (short, long) = (757, 758);
    let mut split =
        |delay_ms, lengths| milliseconds(bases.split(&answer(1, 1.0, delay_ms, lengths, f64::INFINITY)));
    assert_eq!(split(50.0, (short, short)), (0.0, 50.0));
    assert_eq!(split(80.0, (short, short)), (30.0, 50.0));
    for lengths in [(short, long), (long, short), (long, long)] {
        assert_eq!(split(70.0, lengths), (20.0, 50.0), "{lengths:?}");
    }
    // One kind's smallest delay is no other kind's.
    assert_eq!(split(40.0, (long, short)), (0.0, 40.0));
    assert_eq!(split(70.0, (long, long)), (20.0, 50.0));
    assert_eq!(split(70.0, (short, long)), (20.0, 50.0));
    assert_eq!(split(70.0, (short, short)), (20.0, 50.0));
    assert_eq!(split(70.0, (long, short)), (30.0, 40.0));
    // The end is as near as its quickest kind, and nothing has proven it.
    assert_eq!((bases.newest, bases.nearest), (Some((40e6, false)), None));
}

/// A new end: the queue that others tell is taken off, but no more than what the links could have held.
#[test]
fn a_new_end_is_cleared_of_what_others_know() {
    let of = |known_ms: Option<f64>, most_ms: f64| {
        let known_ns = known_ms.map(|ms| ms * 1e6);
        let answer = Cleared { known_ns, ..answer(1, 1.0, 100.0, (60, 60), most_ms) };
        milliseconds(Bases::default().split(&answer))
    };
    assert_eq!(of(None, f64::INFINITY), (0.0, 100.0));
    assert_eq!(of(Some(30.0), f64::INFINITY), (30.0, 70.0));
    assert_eq!(of(Some(30.0), 20.0), (20.0, 80.0));
    assert_eq!(of(None, 20.0), (0.0, 100.0));
}

/// Answers that met no queue for certain prove the delay: at most 5 ms of queue, or a tenth of the delay.
#[test]
fn an_idle_link_proves_the_delay() {
    let proven = |delay_ms: f64, most_ms: f64| {
        let mut bases = Bases::default();
        let split = bases.split(&answer(1, 2.0, delay_ms, (60, 60), most_ms));
        assert_eq!(bases.nearest, split.proven_ns.map(|_| delay_ms * 1e6));
        split.proven_ns
    };
    assert_eq!(proven(20.0, 5.0), Some(2.0 * SECOND));
    assert_eq!(proven(20.0, 5.1), None);
    assert_eq!(proven(200.0, 20.0), Some(2.0 * SECOND));
    assert_eq!(proven(200.0, 20.1), None);
    // A delay that is longer than the smallest one by more than 5 ms proves nothing.
    for (longer, moment) in [(5.0, 3.0), (5.1, 2.0)] {
        let mut bases = Bases::default();
        bases.split(&answer(1, 2.0, 20.0, (60, 60), 0.0));
        let split = bases.split(&answer(1, 3.0, 20.0 + longer, (60, 60), 5.0));
        assert_eq!(split.proven_ns, Some(moment * SECOND), "{longer}");
    }
}

/// Of several ends that are proven the nearest counts; the one that answered last is another matter.
#[test]
fn the_nearest_end_is_the_nearest_that_is_proven() {
    let mut bases = Bases::default();
    for (end, delay_ms, most_ms) in [(1, 30.0, 0.0), (2, 10.0, f64::INFINITY), (3, 20.0, 0.0), (4, 25.0, 0.0)]
    {
        bases.split(&answer(end, 1.0, delay_ms, (60, 60), most_ms));
    }
    assert_eq!(bases.nearest, Some(20e6));
    assert_eq!(bases.newest, Some((25e6, true)));
    // Clearing may leave less than nothing: nobody is nearer than here.
    bases.split(&answer(5, 1.0, -3.0, (60, 60), 0.0));
    assert_eq!(bases.nearest, Some(0.0));
}

/// An answer can have waited for what it took longer than its end's delay without queue, if that is proven.
#[test]
fn no_answer_waited_longer_than_it_took() {
    let mut bases = Bases::default();
    bases.split(&answer(1, 1.0, 30.0, (60, 60), 0.0));
    bases.split(&answer(2, 1.0, 30.0, (60, 60), f64::INFINITY));
    let most_ms = |end: u8, delay_ns: u64| {
        bases.most_ns(Some(&Answer { end: [end; 16], delay_ns, ..Answer::default() })) / 1e6
    };
    assert_eq!([1, 2, 3].map(|end| most_ms(end, 100 * MS)), [70.0, 100.0, 100.0]);
    assert_eq!(most_ms(1, 20 * MS), 0.0);
    assert_eq!(bases.most_ns(None), f64::INFINITY);
}

/// The route has become 30 ms longer, which eight answers over a second prove, for the link was idle.
#[test]
fn a_longer_route_is_learnt_from_an_idle_link() {
    let mut bases = Bases::default();
    bases.split(&answer(1, 0.0, 20.0, (60, 60), 5.0));
    for index in 1..=7 {
        let split = bases.split(&answer(1, f64::from(index) * 0.2, 50.0, (60, 60), 5.0));
        // With the first answer there are eight, of which the least says that it is at least 15 ms.
        assert_eq!(milliseconds(split), (30.0, 20.0), "{index}");
    }
    for index in 8..=15 {
        let split = bases.split(&answer(1, f64::from(index) * 0.2, 50.0, (60, 60), 5.0));
        let expected = if index < 15 { (30.0, 20.0) } else { (5.0, 45.0) };
        assert_eq!(milliseconds(split), expected, "{index}");
    }
}

/// The base delay of one end more costs that of the end that was heard least recently, and no other's.
#[test]
fn ends_are_bounded() {
    let mut bases = Bases::default();
    let end = |number: u32| {
        let mut end = [0; 16];
        end[..4].copy_from_slice(&number.to_be_bytes());
        end
    };
    let mut split = |number: u32, delay_ms: f64| {
        let answer = Cleared { end: end(number), ..answer(0, 1.0, delay_ms, (60, 60), f64::INFINITY) };
        milliseconds(bases.split(&answer))
    };
    let most = RULES.records_max as u32;
    for number in 0..most {
        split(number, 20.0);
    }
    assert_eq!(split(0, 30.0), (10.0, 20.0));
    assert_eq!(split(most - 1, 30.0), (10.0, 20.0));
    split(most, 20.0);
    assert_eq!(split(0, 30.0), (10.0, 20.0), "it was heard again");
    assert_eq!(split(1, 30.0), (0.0, 30.0), "heard least recently");
}
