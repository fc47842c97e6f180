use super::*;
use crate::sample::Composition;
use crate::segment::PerDirection;

/// A minute of history: rate and RTT as functions of time in seconds.
fn history(
    kind: fn(u64) -> Composition,
    rate: impl Fn(f64) -> f64,
    round_trip: impl Fn(f64) -> f64,
) -> History {
    let mut history = History::default();
    for slot in 1..=600u64 {
        let time = slot as f64 / 10.0;
        let (rate, round_trip) = (rate(time), round_trip(time));
        let active = if rate > 0.0 { 0.1 } else { 0.0 };
        let bytes = (rate * 0.1) as u64;
        let down = |down| PerDirection { up: 0, down };
        let totals = Totals {
            seconds: 0.1,
            load_bytes: down(bytes),
            data_bytes: down(kind(bytes).tcp_data),
            data_segments: down(kind(bytes).tcp_data / 1_400),
            composition: PerDirection { up: Composition::default(), down: kind(bytes) },
            active_seconds: PerDirection { up: 0.0, down: active },
            window_byte_seconds: PerDirection { up: 0.0, down: rate * round_trip * 0.1 },
            round_trip: (round_trip * 0.1, 0.1),
            ..Totals::default()
        };
        history.push(Duration::from_millis(100 * slot), &totals);
    }
    history
}

fn tcp(bytes: u64) -> Composition {
    Composition { tcp_data: bytes, ..Composition::default() }
}

/// 45 of 100 bytes are TCP, which is not half of them.
fn mostly_udp(bytes: u64) -> Composition {
    Composition { tcp_data: bytes * 45 / 100, udp: bytes - bytes * 45 / 100, ..Composition::default() }
}

fn judge_after(history: &History, before: Demand, facts: Facts) -> Demand {
    let thresholds = Thresholds::default();
    let now = Duration::from_secs(60);
    let scene = Scene { history, thresholds: &thresholds, now, round_trip: Duration::from_millis(500) };
    assess(scene, Direction::Down, before, facts).demand
}

fn judge(history: &History, facts: Facts) -> Demand {
    judge_after(history, Demand::None, facts)
}

fn of(capacity: f64) -> Facts {
    Facts { capacity: Some(capacity), ..Facts::default() }
}

/// A sawtooth of the RTT between 0.3 and 0.9 s, as an upload causes.
fn sawtooth(time: f64) -> f64 {
    0.3 + 0.6 * (time % 10.0) / 10.0
}

#[test]
fn a_window_limited_download_is_bulk_whatever_its_protocol() {
    for kind in [tcp, mostly_udp] {
        let history = history(kind, |time| 30_000.0 / sawtooth(time), sawtooth);
        assert_eq!(judge(&history, of(300_000.0)), Demand::Bulk);
    }
}

#[test]
fn a_constant_rate_is_application_limited() {
    for kind in [tcp, mostly_udp] {
        let history = history(kind, |_| 40_000.0, sawtooth);
        let is_paced = |demand| matches!(demand, Demand::Application(pace) if (pace - 40_000.0).abs() < 1.0);
        assert!(is_paced(judge(&history, of(300_000.0))));
        // The same rate at 0.8 of the capacity is the link's doing.
        assert_eq!(judge(&history, of(49_900.0)), Demand::Bulk);
        assert!(is_paced(judge(&history, of(50_100.0))));
        // Without the capacity the link might set the pace, unless its buffer is known not to stand.
        assert_eq!(judge(&history, Facts::default()), Demand::Untold);
        assert!(is_paced(judge(&history, Facts { level_known: true, ..Facts::default() })));
    }
}

/// An encoder that changes its rate with the picture, every 2.5 s, while an upload moves the RTT.
#[test]
fn an_encoder_is_no_bulk_data() {
    let encoder = |time: f64| if time % 5.0 < 2.5 { 150_000.0 } else { 250_000.0 };
    assert_eq!(judge(&history(mostly_udp, encoder, sawtooth), of(2_500_000.0)), Demand::Untold);
    // TCP with the same figures has a backlog: only its window can lower its rate.
    assert_eq!(judge(&history(tcp, encoder, sawtooth), of(2_500_000.0)), Demand::Bulk);
}

#[test]
fn a_steady_round_trip_tells_nothing() {
    assert_eq!(judge(&history(tcp, |_| 40_000.0, |_| 0.5), of(300_000.0)), Demand::Bulk);
    let udp = history(mostly_udp, |_| 40_000.0, |_| 0.5);
    assert_eq!(judge(&udp, of(300_000.0)), Demand::Untold);
    // Unless its own buffer stands: then more is offered than the link carries.
    assert_eq!(judge(&udp, Facts { fills: true, ..of(300_000.0) }), Demand::Bulk);
}

/// The queue that showed it is full to the brim now and shows no more; at another rate it is another traffic.
#[test]
fn an_application_keeps_its_pace() {
    let steady = history(tcp, |_| 40_000.0, |_| 0.5);
    for (pace, expected) in [
        (32_001.0, Demand::Application(32_001.0)),
        (53_000.0, Demand::Application(53_000.0)),
        (31_900.0, Demand::Bulk),
        (53_400.0, Demand::Bulk),
    ] {
        assert_eq!(judge_after(&steady, Demand::Application(pace), of(300_000.0)), expected, "{pace}");
    }
}

/// The last two seconds of the four that count were not measured.
#[test]
fn a_pause_of_the_measurement_changes_no_demand() {
    let paused = |bytes: f64| {
        let whole = history(tcp, |_| bytes, |_| 0.5);
        let mut paused = History::default();
        let seen = |end: &Duration| !(57.5..59.5).contains(&end.as_secs_f64());
        let slots: Vec<_> = whole.slots_since(Duration::ZERO).filter(|(end, _)| seen(end)).collect();
        for (end, totals) in slots.into_iter().rev() {
            paused.push(*end, totals);
        }
        paused
    };
    for demand in [Demand::Bulk, Demand::Application(50_000.0), Demand::Untold, Demand::None] {
        assert_eq!(judge_after(&paused(100_000.0), demand, Facts::default()), demand);
        // What was seen of it says that it is over.
        assert_eq!(judge_after(&paused(0.0), demand, Facts::default()), Demand::None);
    }
    let opposed = Facts { opposed: true, ..of(24_500.0) };
    assert_eq!(judge_after(&paused(0.0), Demand::HeldBack, opposed), Demand::None);
}

#[test]
fn gaps_and_small_windows_are_not_bulk() {
    let chunks = history(tcp, |time| if time % 4.0 < 2.0 { 100_000.0 } else { 0.0 }, |_| 0.1);
    assert_eq!(judge(&chunks, Facts::default()), Demand::None);
    // 2,000 B/s · 0.5 s = 1,000 B: less than a segment under way.
    assert_eq!(judge(&history(tcp, |_| 2_000.0, |_| 0.5), Facts::default()), Demand::None);
    assert_eq!(judge(&History::default(), Facts::default()), Demand::None);
}

/// Twelve of a hundred bytes are TCP, all of it in short flows; the rest is one tunnel. And the other way round.
#[test]
fn short_flows_are_not_bulk_but_a_tunnel_is() {
    let tunnel: fn(u64) -> Composition = |bytes| Composition {
        tcp_data: bytes * 12 / 100,
        udp: bytes - bytes * 12 / 100,
        ..Composition::default()
    };
    let facts = Facts { long_flow_share: Some(0.0), fills: true, ..of(300_000.0) };
    assert_eq!(judge(&history(tunnel, |_| 300_000.0, |_| 0.5), facts), Demand::Bulk);
    assert_eq!(judge(&history(tcp, |_| 300_000.0, |_| 0.5), facts), Demand::None);
    let half = Facts { long_flow_share: Some(0.5), ..facts };
    assert_eq!(judge(&history(tcp, |_| 300_000.0, |_| 0.5), half), Demand::Bulk);
}

/// A minute in which a download sends `per_second` segments of `bytes` in the first half of each of `trying` seconds of ten,
/// of which `again` in a hundred for the second time.
fn starved(per_second: u64, bytes: u64, trying: u64, again: u64) -> History {
    let mut history = History::default();
    let down = |down| PerDirection { up: 0, down };
    for slot in 1..=600u64 {
        let (second, first_half) = ((slot - 1) / 10, (slot - 1) % 10 < 5);
        let segments = if first_half && second % 10 < trying { per_second * 20 } else { 0 };
        let totals = Totals {
            seconds: 0.1,
            // A hundred times as many of each, so that shares come out exactly.
            data_bytes: down(segments * bytes * 100),
            data_segments: down(segments * 100),
            retransmitted_segments: down(segments * again),
            round_trip: (0.03, 0.1),
            ..Totals::default()
        };
        history.push(Duration::from_millis(100 * slot), &totals);
    }
    history
}

#[test]
fn a_backlog_that_is_lost_is_held_back_by_the_opposite_queue() {
    let opposed = Facts { opposed: true, ..of(24_500.0) };
    assert_eq!(judge(&starved(1, 1_500, 5, 5), opposed), Demand::HeldBack);
    // Without a queue in the other buffer nothing holds it back that we know of.
    assert_eq!(judge(&starved(1, 1_500, 5, 5), of(24_500.0)), Demand::None);
    // Too little is lost, the segments are those of an interactive session, or it seldom tries.
    assert_eq!(judge(&starved(1, 1_500, 5, 4), opposed), Demand::None);
    assert_eq!(judge(&starved(1, 749, 5, 5), opposed), Demand::None);
    assert_eq!(judge(&starved(1, 1_500, 4, 5), opposed), Demand::None);
    // Short flows only.
    let short = Facts { long_flow_share: Some(0.4), ..opposed };
    assert_eq!(judge(&starved(1, 1_500, 5, 5), short), Demand::None);
}

/// Rates of 10 and 30 and round trips of 1 and 3, ten of each; so many of the higher rates came with the longer round trip.
fn paced(together: usize) -> Pace {
    let mut pace = Pace::default();
    for index in 0..20 {
        let (high, nth) = (index >= 10, index % 10);
        let long = high == (nth < together);
        let (rate, round_trip) = (if high { 30.0 } else { 10.0 }, if long { 3.0 } else { 1.0 });
        pace.0.add([rate, round_trip], 1.0);
    }
    pace
}

/// The correlation of what goes together in one part of the cases and against each other in the rest is the difference of both.
#[test]
fn rates_that_fall_as_the_round_trip_grows_are_opposed() {
    // −1, −0.6, −0.4, 0 and 1, of which −0.5 and less is opposed.
    for (together, opposed) in [(0, true), (2, true), (3, false), (5, false), (10, false)] {
        assert_eq!(paced(together).is_opposed(), opposed, "{together}");
    }
    // What does not vary is not opposed to anything.
    let mut still = Pace::default();
    assert!(!still.is_opposed());
    for round_trip in [1.0, 3.0] {
        still.0.add([10.0, round_trip], 1.0);
    }
    assert!(!still.is_opposed());
}

/// Round trips of 0.9 and 1.1 s (10 % off the mean), and rates that are so much off theirs.
#[test]
fn a_rate_is_the_application_s_if_it_varies_by_less_than_a_quarter_of_the_round_trip() {
    let thresholds = Thresholds::default();
    let limited = |rate_off: f64, round_trip_off: f64, bins: usize| {
        let mut pace = Pace::default();
        for bin in 0..bins {
            let sign = if bin % 2 == 0 { 1.0 } else { -1.0 };
            let rate = 1_000.0 * (1.0 + sign * rate_off);
            pace.0.add([rate, 0.5 * (1.0 - sign * round_trip_off)], 1.0);
        }
        (pace.is_known(&thresholds), pace.application_limited(&thresholds))
    };
    let bins = thresholds.evidence_round_trips as usize;
    assert_eq!(limited(0.0, 0.101, bins), (true, Some(true)));
    assert_eq!(limited(0.0, 0.099, bins), (true, None), "the round trip hardly moved");
    assert_eq!(limited(0.049, 0.2, bins), (true, Some(true)));
    assert_eq!(limited(0.051, 0.2, bins), (true, Some(false)));
    assert_eq!(limited(0.0, 0.2, bins), (true, Some(true)));
    assert_eq!(limited(0.0, 0.2, bins - 1), (false, None), "too short");
}

/// At each threshold of bulk data.
#[test]
fn bulk_data_is_found_at_its_thresholds() {
    // 0.5 s of round trip: two segments are 6,000 B/s.
    for (rate, expected) in [(6_010.0, Demand::Bulk), (5_980.0, Demand::None)] {
        assert_eq!(judge(&history(tcp, |_| rate, |_| 0.5), of(7_000.0)), expected, "{rate}");
    }
    // Of a horizon of 30 s with eight hundredths of the time without data: 0.8 of the last four seconds.
    let busy = |tenths: u64| {
        history(
            tcp,
            move |time| if ((60.0 - time) * 10.0).round() as u64 % 40 < tenths { 300_000.0 } else { 0.0 },
            |_| 0.1,
        )
    };
    for (tenths, expected) in [(32, Demand::Bulk), (31, Demand::None)] {
        assert_eq!(judge(&busy(tenths), of(300_000.0)), expected, "{tenths}");
    }
    // Short flows: half of the data at least in long ones.
    for (share, expected) in [(0.5, Demand::Bulk), (0.49, Demand::None)] {
        let facts = Facts { long_flow_share: Some(share), ..of(300_000.0) };
        assert_eq!(judge(&history(tcp, |_| 300_000.0, |_| 0.5), facts), expected, "{share}");
    }
}

/// The activity time must be covered by four fifths. Here it is 4 s.
#[test]
fn nothing_is_said_of_too_short_a_time() {
    let thresholds = Thresholds::default();
    for (tenths, expected) in [(31, Demand::None), (32, Demand::Bulk)] {
        let mut history = History::default();
        for slot in 1..=tenths {
            let totals = Totals {
                seconds: 0.1,
                load_bytes: PerDirection { up: 0, down: 30_000 },
                active_seconds: PerDirection { up: 0.0, down: 0.1 },
                window_byte_seconds: PerDirection { up: 0.0, down: 3_000.0 },
                ..Totals::default()
            };
            history.push(Duration::from_millis(100 * slot), &totals);
        }
        let now = Duration::from_millis(100 * tenths);
        let scene =
            Scene { history: &history, thresholds: &thresholds, now, round_trip: Duration::from_millis(100) };
        let facts = Facts { fills: true, ..Facts::default() };
        assert_eq!(assess(scene, Direction::Down, Demand::None, facts).demand, expected, "{tenths}");
    }
}

/// A buffer that fills although only ACKs enter it carries no bulk data; with data of its own it does, whatever is known of the
/// window.
#[test]
fn a_full_buffer_is_bulk_if_data_fills_it() {
    let filled = |data: u64| {
        let mut history = History::default();
        for slot in 1..=60u64 {
            let totals = Totals {
                seconds: 0.1,
                load_bytes: PerDirection { up: 0, down: data },
                composition: PerDirection {
                    up: Composition::default(),
                    down: Composition { tcp_data: data, ack: 1_000, ..Composition::default() },
                },
                active_seconds: PerDirection { up: 0.0, down: 0.1 },
                ..Totals::default()
            };
            history.push(Duration::from_millis(100 * slot), &totals);
        }
        let thresholds = Thresholds::default();
        let now = Duration::from_secs(6);
        let scene =
            Scene { history: &history, thresholds: &thresholds, now, round_trip: Duration::from_millis(100) };
        assess(
            scene,
            Direction::Down,
            Demand::None,
            Facts { fills: true, level_known: true, ..Facts::default() },
        )
        .demand
    };
    assert_eq!(filled(1_001), Demand::Bulk);
    assert_eq!(filled(1_000), Demand::None);
}

/// A fifth of the bytes are datagrams, which last; of the TCP bytes so many are in long flows. Half of all bytes are enough.
#[test]
fn datagrams_and_long_flows_last_together() {
    let mixed: fn(u64) -> Composition =
        |bytes| Composition { tcp_data: bytes - bytes / 5, udp: bytes / 5, ..Composition::default() };
    // 0.38 · 0.8 + 0.2 = 0.504, and 0.37 · 0.8 + 0.2 = 0.496.
    for (share, expected) in [(0.38, Demand::Bulk), (0.37, Demand::None)] {
        let facts = Facts { long_flow_share: Some(share), fills: true, ..of(300_000.0) };
        assert_eq!(judge(&history(mixed, |_| 300_000.0, |_| 0.5), facts), expected, "{share}");
    }
}

/// QUIC that does not spin, 26 kB/s, fills a slow line or is little of a fast one: only its level tells. What comes now and then is no bulk data.
#[test]
fn datagrams_that_nobody_times_may_fill_their_buffer() {
    let judge = |rate: fn(f64) -> f64, level_known| {
        let mut history = History::default();
        for slot in 1..=600u64 {
            let bytes = (rate(slot as f64 / 10.0) * 0.1) as u64;
            let totals = Totals {
                seconds: 0.1,
                load_bytes: PerDirection { up: 0, down: bytes },
                composition: PerDirection {
                    up: Composition::default(),
                    down: Composition { udp: bytes, ..Composition::default() },
                },
                active_seconds: PerDirection { up: 0.0, down: if bytes > 0 { 0.1 } else { 0.0 } },
                ..Totals::default()
            };
            history.push(Duration::from_millis(100 * slot), &totals);
        }
        judge(&history, Facts { level_known, ..Facts::default() })
    };
    let now_and_then = |time: f64| if time % 5.0 < 1.0 { 26_000.0 } else { 0.0 };
    assert_eq!(judge(|_| 26_000.0, false), Demand::Untold);
    assert_eq!(judge(|_| 26_000.0, true), Demand::None);
    assert_eq!(judge(now_and_then, false), Demand::None);
}

/// Datagrams whose own queue never drains come faster than the link carries them, also where its rate is not known; of TCP that is reported by its windows.
#[test]
fn datagrams_that_leave_a_standing_queue_are_bulk() {
    let rate = |_| 40_000.0;
    let stands = Facts { stands: true, level_known: true, ..Facts::default() };
    assert_eq!(judge(&history(mostly_udp, rate, |_| 0.5), Facts::default()), Demand::Untold);
    assert_eq!(judge(&history(mostly_udp, rate, |_| 0.5), stands), Demand::Bulk);
    assert_eq!(judge(&history(mostly_udp, rate, sawtooth), stands), Demand::Bulk);
    assert!(matches!(judge(&history(tcp, rate, sawtooth), stands), Demand::Application(_)));
}

/// A tenth below and above.
#[test]
fn fifty_segments_without_an_ack_are_no_chance() {
    let unseen = |segments| {
        let data_segments = PerDirection { up: 0, down: segments };
        is_unseen(&Totals { data_segments, ..Totals::default() }, Direction::Up)
    };
    assert_eq!([45, 55].map(unseen), [false, true]);
}
