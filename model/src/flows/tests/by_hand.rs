//! What is remembered of a flow, report by report.

use super::super::*;

fn at(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// A report of flow 7, on its way down.
fn report(data_bytes: u64, in_flight: Option<f64>, round_trip: Option<f64>) -> FlowSample {
    FlowSample {
        id: 7,
        direction: Direction::Down,
        data_bytes,
        in_flight_bytes: in_flight,
        round_trip,
        base_round_trip: None,
    }
}

/// The book after these reports, each at its time.
fn book(reports: &[(f64, FlowSample)]) -> FlowTable {
    let mut book = FlowTable::default();
    for (seconds, report) in reports {
        book.push(at(*seconds), &[*report]);
    }
    book
}

/// What is remembered of the only flow.
fn record(reports: &[(f64, FlowSample)]) -> FlowRecord {
    book(reports).records[0]
}

fn faded(values: &[(f64, f64)]) -> Faded {
    let mut faded = Faded::default();
    values.iter().for_each(|(value, seconds)| faded.push(*value, *seconds));
    faded
}

fn assert_near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9 * expected.abs().max(1.0), "{found}, not {expected}");
}

/// Values that took no time count alike: the plain mean and the plain deviation.
#[test]
fn first_values_count_alike() {
    let values: Vec<(f64, f64)> =
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().map(|value| (value, 0.0)).collect();
    let all = faded(&values);
    assert_near(all.mean().expect("eight"), 5.0);
    assert_near(all.variance, 4.0);
    assert_near(all.variation().expect("eight"), 0.4);
    // Of 2, 4, 4 and 4: a mean of 3.5, and deviations of 1.5 and thrice 0.5, whose squares are 3 together.
    assert_near(faded(&values[..4]).variation().expect("four"), 0.75_f64.sqrt() / 3.5);
    assert_eq!(faded(&values[..3]).variation(), None);
    assert_near(faded(&values[..1]).mean().expect("one"), 2.0);
    assert_eq!((Faded::default().mean(), Faded::default().variation()), (None, None));
    assert_eq!(faded(&[(0.0, 1.0); 5]).variation(), None, "of nothing");
}

/// A value that held for four seconds takes the place of all but 1/e of what was before.
#[test]
fn older_values_fade() {
    let before = [(0.0, 0.0); 100];
    let after = faded(&[&before[..], &[(10.0, 4.0)]].concat());
    let left = (-1.0_f64).exp();
    assert_near(after.mean().expect("values"), 10.0 * (1.0 - left));
    assert_near(after.variance, left * (1.0 - left) * 100.0);
}

/// Recent bytes fade to 1/e in ten seconds.
#[test]
fn recent_bytes_fade() {
    let one = record(&[(5.0, report(1_000, None, None))]);
    assert_near(one.recent_bytes(at(5.0)), 1_000.0);
    assert_near(one.recent_bytes(at(15.0)), 1_000.0 * (-1.0_f64).exp());
    let two = record(&[(5.0, report(1_000, None, None)), (7.0, report(500, None, None))]);
    assert_near(two.recent_bytes(at(12.0)), (1_000.0 * (-0.2_f64).exp() + 500.0) * (-0.5_f64).exp());
    // A report without data adds nothing and takes nothing away.
    let three = record(&[(5.0, report(1_000, None, None)), (6.0, report(0, None, None))]);
    assert_near(three.recent_bytes(at(15.0)), 1_000.0 * (-1.0_f64).exp());
}

/// A pause of more than 1.5 s, or of more than two round trips, ends a transfer; the next report begins another one.
#[test]
fn a_pause_ends_a_transfer() {
    for (round_trip, longest) in [(None, 1.5), (Some(0.1), 1.5), (Some(2.0), 4.0), (Some(90.0), 120.0)] {
        let one = record(&[(10.0, report(5_000, Some(9_000.0), round_trip))]);
        assert!(one.flows(at(10.0 + longest)), "{round_trip:?}");
        assert!(!one.flows(at(10.001 + longest)), "{round_trip:?}");
    }
    let reports = |second: f64| {
        record(&[
            (10.0, report(5_000, Some(9_000.0), None)),
            (11.0, report(5_000, Some(9_000.0), None)),
            (second, report(2_000, Some(6_000.0), None)),
        ])
    };
    let (on, anew) = (reports(12.5), reports(12.6));
    assert_eq!(on.steady_for(at(20.0)), at(10.0));
    assert_eq!(anew.steady_for(at(20.0)), at(20.0) - at(12.6));
    assert_eq!((on.window.count, anew.window.count), (3, 1));
    assert_eq!(anew.window.mean(), Some(6_000.0));
    // The age is that of the flow, whatever its pauses.
    assert_eq!((on.age(at(20.0)), anew.age(at(20.0))), (at(10.0), at(10.0)));
    assert_eq!(anew.lifetime(), at(12.6) - at(10.0));
    // Rates are between reports: none at the first one, and none over a pause but that of the pause itself.
    assert_eq!((on.rate.count, anew.rate.count), (2, 1));
}

/// The rate between two reports is the data of the later one over the time since the one before.
#[test]
fn rates_are_between_reports() {
    let data = |second, bytes| (second, report(bytes, None, None));
    let steady = record(&[data(1.0, 9), data(2.0, 1_000), data(2.5, 500), data(3.5, 1_000), data(4.0, 500)]);
    assert_near(steady.rate.mean().expect("four"), 1_000.0);
    assert_near(steady.rate_variation().expect("four"), 0.0);
    let three = record(&[data(1.0, 9), data(2.0, 1_000), data(2.5, 500), data(3.5, 1_000)]);
    assert_eq!(three.rate_variation(), None);
}

/// Two segments of 1,500 bytes on average.
#[test]
fn bulk_data_has_two_segments_under_way() {
    let thresholds = Thresholds::default();
    let bulk = |in_flight: Option<f64>, now: f64| {
        let reports = [(10.0, report(5_000, in_flight, None)), (11.0, report(5_000, in_flight, None))];
        record(&reports).bulk_for(at(now), &thresholds)
    };
    assert_eq!(bulk(Some(3_000.0), 12.0), Some(at(2.0)));
    assert_eq!(bulk(Some(2_999.0), 12.0), None);
    assert_eq!(bulk(None, 12.0), None);
    assert_eq!(bulk(Some(3_000.0), 12.5), Some(at(2.5)));
    assert_eq!(bulk(Some(3_000.0), 12.6), None, "it has ended");
    // What a source gets wrong is left out.
    assert_eq!(bulk(Some(f64::NAN), 12.0), None);
    assert_eq!(bulk(Some(-1.0), 12.0), None);
}

/// A window that fell is reported once another report with data has followed: the flow goes on.
#[test]
fn a_fall_is_reported_by_the_report_after_it() {
    let data = |second: f64, window: f64| (second, report(5_000, Some(window), None));
    let fell = |reports: &[(f64, FlowSample)], now| record(reports).fell(at(now));
    let (high, low, after) = (data(1.0, 60_000.0), data(2.0, 12_000.0), data(3.0, 13_000.0));
    assert_eq!(fell(&[high, low], 2.0), None);
    assert_eq!(fell(&[high, low, after], 3.0), Some((60_000.0, 12_000.0)));
    assert_eq!(fell(&[high, low, after], 4.5), Some((60_000.0, 12_000.0)));
    assert_eq!(fell(&[high, low, after], 4.6), None, "it has ended after all");
    // The next report tells of the time after the fall.
    assert_eq!(fell(&[high, low, after, data(4.0, 14_000.0)], 4.0), None);
    // A report without data confirms nothing, and no fall is one.
    assert_eq!(fell(&[high, low, (3.0, report(0, Some(0.0), None))], 3.0), None);
    assert_eq!(fell(&[data(1.0, 60_000.0), data(2.0, 60_000.0), after], 3.0), None);
    assert_eq!(fell(&[high, (2.0, report(5_000, None, None)), after], 3.0), None);
}

#[test]
fn round_trips_are_those_of_the_newest_reports() {
    let with = |round_trip, base_round_trip| FlowSample { base_round_trip, ..report(100, None, round_trip) };
    let one = record(&[(1.0, with(Some(0.3), Some(0.05))), (2.0, with(None, None))]);
    // The latest is kept while none is reported; the base is what the report says of it.
    assert_eq!((one.round_trip, one.base_round_trip), (Some(0.3), None));
    let two = record(&[(1.0, with(Some(0.3), Some(0.05))), (2.0, with(Some(f64::NAN), Some(0.04)))]);
    assert_eq!((two.round_trip, two.base_round_trip), (Some(0.3), Some(0.04)));
    for useless in [0.0, -0.1, f64::NAN] {
        assert_eq!(record(&[(1.0, with(None, Some(useless)))]).base_round_trip, None);
    }
}

/// A flow is its number and its direction.
#[test]
fn both_directions_of_a_flow_are_two() {
    let down = report(100, None, None);
    let up = FlowSample { direction: Direction::Up, data_bytes: 40, ..down };
    let other = FlowSample { id: 8, data_bytes: 900, ..down };
    let mut book = FlowTable::default();
    book.push(at(1.0), &[down, up, other]);
    book.push(at(1.0), &[down]);
    let bytes = |direction| book.of(direction).map(|flow| flow.recent_bytes(at(1.0))).collect::<Vec<_>>();
    assert_eq!(bytes(Direction::Down), [200.0, 900.0]);
    assert_eq!(bytes(Direction::Up), [40.0]);
    // One that has never carried data is none.
    book.push(at(1.0), &[FlowSample { id: 9, data_bytes: 0, ..down }]);
    assert_eq!(book.records.len(), 3);
}

/// A flow is forgotten after more than 30 s without data. An empty report says nothing.
#[test]
fn idle_flows_are_forgotten() {
    let other = FlowSample { id: 8, ..report(1, None, None) };
    for (now, left) in [(40.0, 2), (40.1, 1)] {
        let mut book = book(&[(10.0, report(1, None, None))]);
        book.push(at(now), &[]);
        assert_eq!(book.records.len(), 1);
        book.push(at(now), &[other]);
        assert_eq!(book.records.len(), left, "{now}");
    }
    // A report without data keeps no flow alive.
    let mut kept = book(&[(10.0, report(1, None, None)), (39.0, report(0, None, None))]);
    kept.push(at(41.0), &[other]);
    assert_eq!(kept.records.len(), 1);
}

/// In a full book the flow without data for longest makes room.
#[test]
fn the_flow_idle_for_longest_makes_room() {
    let flow = |id: u64| FlowSample { id, ..report(1, None, None) };
    let mut book = FlowTable::default();
    let flows: Vec<FlowSample> = (0..MAX_FLOWS as u64).map(flow).collect();
    book.push(at(1.0), &flows);
    let others: Vec<FlowSample> = flows.iter().filter(|flow| flow.id != 500).copied().collect();
    book.push(at(2.0), &others);
    book.push(at(3.0), &[flow(5_000)]);
    assert_eq!(book.records.len(), MAX_FLOWS);
    let known = |id| book.records.iter().any(|record| record.id == id);
    assert!(!known(500) && known(5_000) && known(499) && known(501));
}

/// What flows have carried that lasted for two seconds at least, over all.
#[test]
fn long_flows_have_their_part() {
    let flow = |id, data_bytes| FlowSample { id, data_bytes, ..report(1, None, None) };
    let mut book = FlowTable::default();
    book.push(at(1.0), &[flow(1, 100), flow(2, 100)]);
    book.push(at(3.0), &[flow(1, 200), flow(3, 700)]);
    let share = |age: f64, direction| book.long_flow_share(direction, at(age), at(3.0));
    let fade = (-0.2_f64).exp();
    let (long, all) = (100.0 * fade + 200.0, 200.0 * fade + 900.0);
    assert_near(share(2.0, Direction::Down).expect("flows"), long / all);
    assert_eq!(share(2.1, Direction::Down), Some(0.0));
    assert_eq!(share(0.0, Direction::Down), Some(1.0));
    assert_eq!(share(0.0, Direction::Up), None);
}
