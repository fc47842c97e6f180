//! Which flows a report names, and what of the whole belongs to which direction.

use super::super::*;

fn key(number: u32) -> FlowKey {
    let mut home_addr = [0; 16];
    home_addr[..4].copy_from_slice(&number.to_be_bytes());
    FlowKey { home_addr, remote_addr: [9; 16], home_port: 1, remote_port: 2 }
}

/// The notes on a flow with so many bytes of payload up, and twice as many down; nothing was acknowledged.
fn tally(payload_bytes: u64) -> Tally {
    let mut tally = Tally::default();
    tally.halves.up.payload_bytes = payload_bytes;
    tally.halves.down.payload_bytes = 2 * payload_bytes;
    tally
}

/// Of any number of flows the thousand largest are named, and no more than twice as many are ever held; all are counted.
#[test]
fn the_largest_flows_are_kept() {
    let on_event = &mut |_: &Event| {};
    let mut collector = Collector::new(on_event, None);
    // Each number below 5,003 once (a prime), in no order.
    for step in 0..5_003_u64 {
        let bytes = step * 1_009 % 5_003;
        collector.flow(&key(bytes as u32), &tally(bytes), None);
        assert!(collector.rows.len() < 2 * ROWS_MAX, "{step}");
    }
    assert_eq!(collector.flows_total, 5_003);
    let sum: u64 = (0..5_003).sum();
    assert_eq!(collector.delivered_bytes, PerDirection { up: sum, down: 2 * sum });
    collector.keep_largest();
    let bytes: Vec<u64> = collector.rows.iter().map(|row| row.bytes).collect();
    let expected: Vec<u64> = (4_003..5_003).rev().map(|up| 2 * up).collect();
    assert_eq!(bytes, expected);
}

/// What a sample does not tell is what the one before reported.
#[test]
fn rates_and_round_trips_hold_until_others_are_reported() {
    use pendulum_model::detector::Config;
    let on_event = &mut |_: &Event| {};
    let mut collector = Collector::new(on_event, None);
    let mut detector = Detector::new(Config::default());
    let rate = |bytes_per_second| Some(MeasuredRate { bytes_per_second, measured_at: Duration::ZERO });
    let mut samples: Vec<Sample> = (1..=4_u64)
        .map(|number| Sample {
            at: Duration::from_millis(10 * number),
            span: Duration::from_millis(10),
            ..Sample::default()
        })
        .collect();
    samples[0].link.up.rate = rate(5_000.0);
    samples[1].link.down.rate = rate(70_000.0);
    samples[1].round_trip = Some(0.25);
    samples[2].link.up.rate = rate(6_000.0);
    samples[3].round_trip = Some(0.001);
    let mut round_trips = Vec::new();
    for sample in &samples {
        detector.push(sample);
        collector.sample(sample, &detector);
        round_trips.push(collector.round_trip_s);
    }
    let found = PerDirection::from_fn(|x: Direction| collector.rates[x].map(|rate| rate.bytes_per_second));
    assert_eq!(found, PerDirection { up: Some(6_000.0), down: Some(70_000.0) });
    // What is shorter counts as the shortest.
    assert_eq!(round_trips, [0.0, 0.25, 0.25, 0.01]);
}
