use super::*;

fn moments(pairs: &[(f64, f64)]) -> Moments {
    let mut moments = Moments::default();
    for &(up, down) in pairs {
        moments.add([up, down], 0.01);
    }
    moments
}

#[test]
fn correlation_by_hand() {
    // Perfect opposites and perfect companions.
    let opposite = moments(&[(0.0, 30.0), (10.0, 20.0), (30.0, 0.0)]).correlation().expect("moves");
    assert!((opposite + 1.0).abs() < 1e-9);
    let together = moments(&[(0.0, 0.0), (1.0, 2.0), (5.0, 10.0)]).correlation().expect("moves");
    assert!((together - 1.0).abs() < 1e-9);
    // (1,1) (2,3) (3,2): deviations (−1,−1) (0,1) (1,0): covariance 1/3, both variances 2/3: 0.5.
    let half = moments(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]).correlation().expect("moves");
    assert!((half - 0.5).abs() < 1e-9);
    assert_eq!(moments(&[(5.0, 1.0), (5.0, 2.0)]).correlation(), None);
    assert_eq!(moments(&[]).correlation(), None);
}

#[test]
fn sums_of_slots_are_sums_of_intervals() {
    let mut history = History::default();
    for index in 1..=100u64 {
        let mut interval = Totals { seconds: 0.01, ..Totals::default() };
        interval.data_bytes.up = index;
        history.push(Duration::from_millis(10 * index), &interval);
    }
    // The last half second: intervals 51…100, sum 50 · (51 + 100)/2 = 3775.
    assert_eq!(history.since(Duration::from_millis(500)).data_bytes.up, 3775);
    assert_eq!(history.run().data_bytes.up, 5050);
    assert!((history.run().seconds - 1.0).abs() < 1e-9);
    assert_eq!(history.since(Duration::from_secs(9)), Totals::default());
}

#[test]
fn shares_by_hand() {
    let mut totals = Totals { seconds: 8.0, phase_seconds: [1.0, 2.0, 3.0, 4.0], ..Totals::default() };
    // Of ten known seconds the uplink stood alone for one and with the downlink for three.
    assert!((totals.standing_share(Direction::Up) - 0.4).abs() < 1e-12);
    assert!((totals.standing_share(Direction::Down) - 0.5).abs() < 1e-12);
    totals.delay.up.add(0.2, 0.1, 1.5);
    totals.delay.up.add(0.1, 0.1, 0.5);
    totals.delay.up.add(0.05, 0.1, 2.0);
    // 2 s of 8 s reach 100 ms; (0.3 + 0.05 + 0.1) s² over 4 known seconds.
    assert_eq!(totals.delayed_share(Direction::Up), 0.25);
    assert!((totals.delay.up.mean().expect("known") - 0.1125).abs() < 1e-12);
    assert_eq!((totals.delay.down.mean(), totals.delayed_share(Direction::Down)), (None, 0.0));
    // 600 bytes are no ACKs, 150 of them no TCP.
    totals.composition.up = Composition { tcp_data: 450, ack: 400, udp: 100, other: 50 };
    assert_eq!(totals.datagram_share(Direction::Up), 0.25);
    assert_eq!(totals.datagram_share(Direction::Down), 0.0);
    totals.load_bytes.up = 600;
    assert_eq!(totals.load_rate(Direction::Up), 75.0);
    totals.data_bytes.up = 450;
    totals.data_segments.up = 5;
    totals.retransmitted_segments.up = 2;
    assert_eq!(
        (totals.mean_segment(Direction::Up), totals.retransmitted_share(Direction::Up)),
        (Some(90.0), 0.4)
    );
    assert_eq!(
        (totals.mean_segment(Direction::Down), totals.retransmitted_share(Direction::Down)),
        (None, 0.0)
    );
    let mut twice = totals;
    twice += &totals;
    assert_eq!(twice.composition.up.total(), 2_000);
    assert_eq!((twice.load_bytes.up, twice.data_segments.up, twice.delay.up.known_seconds), (1_200, 10, 8.0));
    assert_eq!(twice.delay.up.mean(), totals.delay.up.mean());
    assert_eq!(twice.delayed_share(Direction::Up), 0.25);
}

#[test]
fn lag_of_the_opposition() {
    // The downlink is what the uplink was not, 0.3 s before.
    let mut history = History::default();
    let wave = |slot: u64| if slot % 20 < 10 { 9_000.0 } else { 100.0 * (slot % 7) as f64 };
    for slot in 10..210 {
        let mut interval = Totals { seconds: 0.1, ..Totals::default() };
        interval.queues.add([wave(slot), 10_000.0 - wave(slot - 3)], 0.1);
        history.push(Duration::from_millis(100 * slot), &interval);
    }
    assert!((history.opposition_lag(Duration::ZERO).expect("opposed") - 0.3).abs() < 1e-9);
    assert_eq!(History::default().opposition_lag(Duration::ZERO), None);
}

#[test]
fn memory_is_bounded() {
    let mut history = History::default();
    for index in 1..=20_000u64 {
        history.push(Duration::from_millis(100 * index), &Totals { seconds: 0.1, ..Totals::default() });
    }
    assert_eq!(history.slots.len(), MAX_SLOTS);
}

fn queues(seconds: f64, up: (f64, f64), down: (f64, f64), product: f64) -> Moments {
    Moments { weight: seconds, sum: [up.0, down.0], squares: [up.1, down.1], product }
}

/// No two figures alike, so that none can stand for another.
#[test]
fn every_figure_is_added_to_its_like() {
    let pair = |up, down| PerDirection { up, down };
    let halves = |up: f64, down: f64| PerDirection { up, down };
    let delay =
        |known_seconds, above_seconds, integral| StandingDelay { known_seconds, above_seconds, integral };
    let kinds =
        |tcp_data| Composition { tcp_data, ack: tcp_data + 1, udp: tcp_data + 2, other: tcp_data + 3 };
    let bursts = |bursts| AckBursts { bursts, segments: bursts + 1, segments_in_long_bursts: bursts + 2 };
    let one = Totals {
        seconds: 1.5,
        phase_seconds: [0.25, 0.5, 0.75, 1.0],
        wire_bytes: pair(11, 12),
        data_bytes: pair(13, 14),
        data_segments: pair(15, 16),
        load_bytes: pair(17, 18),
        composition: PerDirection { up: kinds(20), down: kinds(30) },
        delay: PerDirection { up: delay(1.0, 2.0, 3.0), down: delay(4.0, 5.0, 6.0) },
        retransmitted_segments: pair(41, 42),
        active_seconds: halves(0.125, 0.375),
        window_byte_seconds: halves(51.0, 52.0),
        ack_bursts: PerDirection { up: bursts(60), down: bursts(70) },
        queues: queues(2.0, (3.0, 5.0), (7.0, 11.0), 13.0),
        round_trip: (0.5, 2.5),
    };
    let mut sum = Totals {
        seconds: 100.0,
        phase_seconds: [200.0, 300.0, 400.0, 500.0],
        wire_bytes: pair(1_000, 2_000),
        data_bytes: pair(3_000, 4_000),
        data_segments: pair(5_000, 6_000),
        load_bytes: pair(7_000, 8_000),
        composition: PerDirection { up: kinds(10_000), down: kinds(20_000) },
        delay: PerDirection { up: delay(10.0, 20.0, 30.0), down: delay(40.0, 50.0, 60.0) },
        retransmitted_segments: pair(9_000, 10_000),
        active_seconds: halves(8.0, 16.0),
        window_byte_seconds: halves(100.0, 200.0),
        ack_bursts: PerDirection { up: bursts(1_000), down: bursts(2_000) },
        queues: queues(32.0, (64.0, 128.0), (256.0, 512.0), 1_024.0),
        round_trip: (4.0, 8.0),
    };
    sum += &one;
    let twice = |low: u64, high: u64| Composition {
        tcp_data: low + high,
        ack: low + high + 2,
        udp: low + high + 4,
        other: low + high + 6,
    };
    let both = |low: u64, high: u64| AckBursts {
        bursts: low + high,
        segments: low + high + 2,
        segments_in_long_bursts: low + high + 4,
    };
    let expected = Totals {
        seconds: 101.5,
        phase_seconds: [200.25, 300.5, 400.75, 501.0],
        wire_bytes: pair(1_011, 2_012),
        data_bytes: pair(3_013, 4_014),
        data_segments: pair(5_015, 6_016),
        load_bytes: pair(7_017, 8_018),
        composition: PerDirection { up: twice(20, 10_000), down: twice(30, 20_000) },
        delay: PerDirection { up: delay(11.0, 22.0, 33.0), down: delay(44.0, 55.0, 66.0) },
        retransmitted_segments: pair(9_041, 10_042),
        active_seconds: halves(8.125, 16.375),
        window_byte_seconds: halves(151.0, 252.0),
        ack_bursts: PerDirection { up: both(60, 1_000), down: both(70, 2_000) },
        queues: queues(34.0, (67.0, 133.0), (263.0, 523.0), 1_037.0),
        round_trip: (4.5, 10.5),
    };
    assert_eq!(sum, expected);
}

#[test]
fn moments_by_hand() {
    let mut moments = Moments::default();
    moments.add([2.0, 5.0], 3.0);
    assert_eq!(moments, queues(3.0, (6.0, 12.0), (15.0, 75.0), 30.0));
    moments.add([10.0, 1.0], 1.0);
    assert_eq!(moments, queues(4.0, (16.0, 112.0), (16.0, 76.0), 40.0));
    assert_eq!(moments.mean(), Some([4.0, 4.0]));
    // Variances 28 − 16 and 19 − 16, covariance 10 − 16: −6/√36.
    assert!((moments.correlation().expect("both move") + 1.0).abs() < 1e-12);
    assert_eq!(Moments::default().mean(), None);
    // Deviations of 1 from a mean of 2; of 0, 3 and 3 from a mean of 6: √6/6. What is always 0 does not vary.
    let variation = |values: &[f64]| {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add([*value, 0.0], 1.0));
        moments.variation()
    };
    assert_eq!(variation(&[]), None);
    assert_eq!(variation(&[7.0]), Some([0.0, 0.0]));
    assert_eq!(variation(&[1.0, 3.0]), Some([0.5, 0.0]));
    assert!(variation(&[6.0, 3.0, 9.0]).is_some_and(|[of, _]| (of - 6_f64.sqrt() / 6.0).abs() < 1e-12));
    // The uplink alone moves; and both, of which one hardly does: less than a billionth of its square.
    let of = |levels: [(f64, f64); 2]| {
        let mut moments = Moments::default();
        levels.into_iter().for_each(|(up, down)| moments.add([up, down], 1.0));
        moments.correlation()
    };
    assert_eq!(of([(1.0, 9.0), (3.0, 9.0)]), None);
    assert_eq!(of([(9.0, 1.0), (9.0, 3.0)]), None);
    assert_eq!(of([(1e6, 1.0), (1e6 + 1.0, 3.0)]), None);
    assert!(of([(1e3, 1.0), (1e3 + 1.0, 3.0)]).is_some_and(|value| (value - 1.0).abs() < 1e-6));
}

#[test]
fn rates_and_means_by_hand() {
    let totals = Totals {
        seconds: 4.0,
        phase_seconds: [1.0, 0.5, 0.25, 0.25],
        wire_bytes: PerDirection { up: 400, down: 1_200 },
        data_bytes: PerDirection { up: 200, down: 1_000 },
        active_seconds: PerDirection { up: 1.0, down: 3.0 },
        window_byte_seconds: PerDirection { up: 8.0, down: 40.0 },
        ack_bursts: PerDirection {
            up: AckBursts { bursts: 2, segments: 20, segments_in_long_bursts: 15 },
            down: AckBursts::default(),
        },
        round_trip: (0.3, 1.5),
        ..Totals::default()
    };
    assert_eq!(Direction::ALL.map(|x| totals.wire_rate(x)), [100.0, 300.0]);
    assert_eq!(Direction::ALL.map(|x| totals.active_share(x)), [0.25, 0.75]);
    assert_eq!(Direction::ALL.map(|x| totals.mean_window(x)), [2.0, 10.0]);
    assert_eq!(Direction::ALL.map(|x| totals.long_burst_share(x)), [0.75, 0.0]);
    assert_eq!(Direction::ALL.map(|x| totals.standing_share(x)), [0.625, 0.375]);
    assert_eq!(Phase::ALL.map(|phase| totals.phase_share(phase)), [0.5, 0.25, 0.125, 0.125]);
    assert!((totals.mean_round_trip().expect("known") - 0.2).abs() < 1e-12);
    assert_eq!(totals.throughput_ratio(), Some(5.0));
    // Of nothing.
    let none = Totals::default();
    assert_eq!((none.mean_round_trip(), none.throughput_ratio()), (None, None));
    assert_eq!((none.wire_rate(Direction::Up), none.phase_share(Phase::Idle)), (0.0, 0.0));
}

/// A slot is full after a tenth of a second, however it came together; its time is when it ended.
#[test]
fn slots_close_after_a_tenth_of_a_second() {
    let interval = |seconds: f64| Totals { seconds, ..Totals::default() };
    let mut history = History::default();
    for index in 1..=20u64 {
        history.push(Duration::from_millis(10 * index), &interval(0.01));
        assert_eq!(history.slots.len() as u64, index / 10, "{index}");
    }
    // A long one is a slot of its own.
    history.push(Duration::from_millis(700), &interval(0.5));
    history.push(Duration::from_millis(750), &interval(0.05));
    let ends: Vec<Duration> = history.slots_since(Duration::ZERO).map(|(end, _)| *end).collect();
    assert_eq!(ends, [700, 200, 100].map(Duration::from_millis));
    // A slot that ended at the start is before it.
    let seconds = |ms| history.since(Duration::from_millis(ms)).seconds;
    assert!((seconds(99) - 0.7).abs() < 1e-9 && (seconds(100) - 0.6).abs() < 1e-9);
    assert!((seconds(199) - 0.6).abs() < 1e-9 && (seconds(200) - 0.5).abs() < 1e-9);
    assert_eq!(seconds(700), 0.0);
    // What is open counts for the run only.
    assert!((history.run().seconds - 0.75).abs() < 1e-9);
}

/// What is remembered is the newest two minutes.
#[test]
fn the_oldest_slot_is_forgotten_first() {
    let mut history = History::default();
    for index in 1..=MAX_SLOTS as u64 + 1 {
        history.push(Duration::from_millis(100 * index), &Totals { seconds: 0.1, ..Totals::default() });
    }
    let oldest = history.slots_since(Duration::ZERO).last().map(|(end, _)| *end);
    assert_eq!(oldest, Some(Duration::from_millis(200)));
}

/// Levels of both buffers in slots of 0.1 s; the downlink's is what the uplink's was not, so many slots before (or after).
fn opposed(slots: i64, by: i64) -> Option<f64> {
    let mut history = History::default();
    // No two stretches of it are alike: a quadratic residue of a prime.
    let wave = |slot: i64| ((slot * slot * 7 + 3 * slot).rem_euclid(101)) as f64;
    for slot in 0..slots {
        let mut interval = Totals { seconds: 0.1, ..Totals::default() };
        interval.queues.add([wave(slot), 200.0 - wave(slot - by)], 0.1);
        history.push(Duration::from_millis(100 * (slot as u64 + 1)), &interval);
    }
    history.opposition_lag(Duration::ZERO).map(|lag| (lag * 10.0).round() / 10.0)
}

#[test]
fn who_follows_whom_is_reported_within_two_seconds() {
    for by in [-20, -7, -1, 0, 1, 7, 20] {
        assert_eq!(opposed(200, by), Some(by as f64 / 10.0), "{by}");
    }
    for by in [-21, 21, 30] {
        assert_ne!(opposed(200, by), Some(by as f64 / 10.0), "{by}: beyond two seconds");
    }
    // A third of a stretch of 3 s is 1 s.
    assert_eq!((opposed(30, 10), opposed(30, -10)), (Some(1.0), Some(-1.0)));
    assert_ne!(opposed(30, 11), Some(1.1));
}

/// Queues that rise and fall together at every lag are never opposed.
#[test]
fn what_only_grows_is_not_opposed() {
    let mut history = History::default();
    for slot in 1..=60u64 {
        let mut interval = Totals { seconds: 0.1, ..Totals::default() };
        let level = (100 * slot) as f64;
        interval.queues.add([level, 2.0 * level], 0.1);
        history.push(Duration::from_millis(100 * slot), &interval);
    }
    assert_eq!(history.opposition_lag(Duration::ZERO), None);
}

#[test]
fn round_trips_are_counted_as_long_as_they_were() {
    let mut history = History::default();
    let seconds = Duration::from_secs_f64;
    let count = |history: &History| history.round_trips(2.0, seconds(0.5), seconds(9.0)).as_secs_f64();
    // Nothing is known yet: as long as can be.
    assert_eq!(count(&history), 9.0);
    for slot in 1..=40u64 {
        // 2 s of which no round trip is known, 1 s of 0.5 s, 1 s of 2 s.
        let round_trip = match slot {
            1..=20 => (0.0, 0.0),
            21..=30 => (0.05, 0.1),
            _ => (0.2, 0.1),
        };
        history.push(
            Duration::from_millis(100 * slot),
            &Totals { seconds: 0.1, round_trip, ..Totals::default() },
        );
    }
    // Half a round trip in the last second, three halves before in 0.75 s.
    assert!((count(&history) - 1.75).abs() < 1e-6);
    assert_eq!(history.round_trips(2.0, seconds(0.5), seconds(1.0)), seconds(1.0));
    // Two and a half by then, the rest of half a second each.
    assert!((history.round_trips(4.0, seconds(0.5), seconds(9.0)).as_secs_f64() - 2.75).abs() < 1e-6);
}
