use super::*;
use pendulum_model::sample::AckBursts;
use pendulum_model::segment::Class;
use std::time::Instant;

const TICK: Duration = Duration::from_millis(100);

pub(in super::super) fn bucket(number: u64, bytes: u32, left: [u64; 2]) -> QueueInterval {
    let events = abi::pendulum_queue_totals { dequeued_bytes: left, ..Default::default() };
    QueueInterval {
        number,
        min_bytes: bytes / 2,
        max_bytes: bytes,
        max_packets: 1,
        mean_bytes: 0.75 * f64::from(bytes),
        mean_ack_bytes: 0.0,
        mean_packets: 0.5,
        events,
        sojourn_max_us: [0; 2],
    }
}

/// Totals after so many ticks of 1,000 bytes of data, 500 of other TCP and 66 of ACKs up, and 20,000 bytes of data down.
pub(in super::super) fn counters(ticks: u64) -> PerDirection<abi::pendulum_counters> {
    let mut both = PerDirection::<abi::pendulum_counters>::default();
    let [up, down] = both.both_mut();
    up.bytes[Class::Data as usize] = 1_000 * ticks;
    up.bytes[Class::Other as usize] = 500 * ticks;
    up.bytes[Class::Ack as usize] = 66 * ticks;
    up.segments[Class::Data as usize] = 3 * ticks;
    up.segments[Class::Ack as usize] = ticks;
    up.retransmitted_segments = ticks;
    down.bytes[Class::Data as usize] = 20_000 * ticks;
    both
}

struct SampleFeed {
    builder: SampleBuilder,
    ticks: u64,
}

impl SampleFeed {
    /// The first reading says only where counting begins.
    fn new() -> Self {
        let mut feed = Self { builder: SampleBuilder::default(), ticks: 0 };
        feed.read(&counters(0), Seen::Nothing, Seen::Nothing);
        feed
    }

    fn read(
        &mut self,
        counters: &PerDirection<abi::pendulum_counters>,
        up: Seen<'_>,
        down: Seen<'_>,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        let queues = PerDirection { up, down };
        let at = Duration::from_secs(1) + TICK * u32::try_from(self.ticks).unwrap();
        self.builder.take(
            &LinkReading {
                at,
                counters,
                queues,
                rates: PerDirection::default(),
                base_round_trip: None,
                answered_s: None,
                flows: None,
            },
            &mut samples,
        );
        self.ticks += 1;
        samples
    }
}

/// The buckets that end after `from_ms`, up to `to_ms`.
fn buckets(from_ms: u64, to_ms: u64, left: [u64; 2]) -> Vec<QueueInterval> {
    (from_ms / 10..to_ms / 10).map(|number| bucket(number, 3_000, left)).collect()
}

#[test]
fn buckets_become_samples_and_counters_are_spread_over_them() {
    let mut feed = SampleFeed::new();
    let ring = buckets(1_000, 1_090, [150, 6]);
    let samples = feed.read(&counters(1), Seen::Buckets(&ring), Seen::Nothing);
    assert_eq!(samples.len(), 9);
    assert_eq!((samples[0].at, samples[8].at), (Duration::from_millis(1_010), Duration::from_millis(1_090)));
    assert!(samples.iter().all(|sample| sample.span == Duration::from_millis(10)));
    let queue = samples[0].link.up.queue.expect("seen");
    assert_eq!((queue.min_bytes, queue.mean_bytes, queue.max_bytes), (1_500.0, 2_250.0, 3_000.0));
    assert_eq!(samples[0].link.down.queue, None);
    // What left the buffer: 150 bytes that are no ACKs, two thirds of them TCP data by the counters.
    let up = samples[4].link.up.traffic;
    assert_eq!((up.wire_bytes, up.data_bytes), (156, 100));
    let sum = |of: fn(&Sample) -> u64| samples.iter().map(of).sum::<u64>();
    assert_eq!(sum(|sample| sample.link.down.traffic.data_bytes), 20_000);
    assert_eq!(sum(|sample| sample.link.up.traffic.retransmitted_segments), 1);
    let spread: Vec<u64> = samples.iter().map(|sample| sample.link.down.traffic.wire_bytes).collect();
    assert!(spread.iter().all(|bytes| (2_222..=2_223).contains(bytes)), "{spread:?}");
}

#[test]
fn no_bucket_comes_twice_and_what_was_counted_waits_for_the_next() {
    let mut feed = SampleFeed::new();
    let ring = buckets(1_000, 1_090, [0, 0]);
    assert_eq!(feed.read(&counters(1), Seen::Buckets(&ring), Seen::Nothing).len(), 9);
    assert!(feed.read(&counters(2), Seen::Buckets(&ring), Seen::Nothing).is_empty());
    let ring = buckets(1_050, 1_200, [0, 0]);
    let samples = feed.read(&counters(3), Seen::Buckets(&ring), Seen::Nothing);
    assert_eq!((samples.len(), samples[0].at), (11, Duration::from_millis(1_100)));
    // Two ticks' worth.
    let bytes: u64 = samples.iter().map(|sample| sample.link.down.traffic.wire_bytes).sum();
    assert_eq!(bytes, 40_000);
}

#[test]
fn without_a_ring_a_tick_is_a_sample() {
    let mut feed = SampleFeed::new();
    let level = Seen::Level(QueueSample::level(pendulum_model::sample::QueueSource::Netlink, 700.0));
    let samples = feed.read(&counters(1), level, Seen::Nothing);
    let [sample] = samples.as_slice() else { panic!("one sample, not {}", samples.len()) };
    assert_eq!((sample.at, sample.span), (Duration::from_millis(1_100), TICK));
    assert_eq!(sample.link.up.queue.map(|queue| queue.min_bytes), Some(700.0));
    // Before the buffer: there is nothing better.
    assert_eq!((sample.link.up.traffic.wire_bytes, sample.link.up.traffic.data_bytes), (1_566, 1_000));
    // After a pause nobody knows what was in between.
    feed.ticks += 100;
    let pause = feed.read(&counters(102), level, Seen::Nothing);
    assert_eq!((pause.len(), pause[0].span), (1, LONGEST_SPAN));
    // Of 10.1 s the sample speaks for the last one; a hundred ticks would look like ten times the link's rate in it.
    let bytes = pause[0].link.down.traffic.wire_bytes;
    assert!((bytes as f64 - 20_000.0 * 101.0 / 10.1).abs() <= 1.0, "{bytes}");
}

#[test]
fn both_rings_are_matched_by_time() {
    let mut feed = SampleFeed::new();
    let up = buckets(1_000, 1_090, [0, 0]);
    let down: Vec<QueueInterval> = (100..108).map(|number| bucket(number, number as u32, [0, 0])).collect();
    let samples = feed.read(&counters(1), Seen::Buckets(&up), Seen::Buckets(&down));
    let levels: Vec<f64> =
        samples.iter().filter_map(|sample| sample.link.down.queue).map(|queue| queue.max_bytes).collect();
    assert_eq!(levels, [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0, 107.0, 107.0]);
}

#[test]
fn a_round_trip_is_the_way_out_and_the_way_home() {
    let mut feed = SampleFeed::new();
    let mut totals = counters(1);
    let timed = |counters: &mut abi::pendulum_counters, us: u64| {
        counters.rtt_sum_us += us;
        counters.rtt[5] += 1;
    };
    // The home side alone is no round trip.
    timed(&mut totals.down, 2_000);
    assert_eq!(feed.read(&totals, Seen::Nothing, Seen::Nothing)[0].round_trip, None);
    timed(&mut totals.up, 500_000);
    timed(&mut totals.up, 700_000);
    assert_eq!(feed.read(&totals, Seen::Nothing, Seen::Nothing)[0].round_trip, Some(0.602));
    // Nothing new, nothing said.
    assert_eq!(feed.read(&totals, Seen::Nothing, Seen::Nothing)[0].round_trip, None);
    let now = Duration::from_millis(1_300);
    assert_eq!(feed.builder.assembler.round_trip(Direction::Up, now), Some(0.6));
}

#[test]
fn what_acks_asked_tells_the_way_out_where_no_data_was_answered() {
    let mut feed = SampleFeed::new();
    let mut totals = counters(1);
    let mut read = |totals: &PerDirection<abi::pendulum_counters>, answered_s: Option<f64>| {
        feed.ticks += 1;
        let mut samples = Vec::new();
        let reading = LinkReading {
            at: Duration::from_secs(1) + TICK * u32::try_from(feed.ticks).unwrap(),
            counters: totals,
            queues: PerDirection::default(),
            rates: PerDirection::default(),
            base_round_trip: None,
            answered_s,
            flows: None,
        };
        feed.builder.take(&reading, &mut samples);
        samples[0].round_trip
    };
    assert_eq!(read(&totals, Some(1.25)), Some(1.25));
    assert_eq!(read(&totals, None), None);
    totals.up.rtt_sum_us += 500_000;
    totals.up.rtt[5] += 1;
    assert_eq!(read(&totals, Some(1.25)), Some(0.5), "data that was answered is the better figure");
}

#[test]
fn bursts_longer_than_the_histogram_keep_their_length() {
    let mut feed = SampleFeed::new();
    let mut totals = counters(1);
    totals.up.bursts[3] = 2;
    let longer = totals.up.bursts.len() - 1;
    totals.up.bursts[longer] = 3;
    totals.up.burst_segments = 2 * 3 + 100 + 80 + 60;
    let samples = feed.read(&totals, Seen::Nothing, Seen::Nothing);
    let expected = AckBursts { bursts: 5, segments: 246, segments_in_long_bursts: 240 };
    assert_eq!(samples[0].link.up.ack_bursts, expected);
}

#[test]
fn udp_is_no_data() {
    let mut feed = SampleFeed::new();
    let mut totals = counters(0);
    totals.up.bytes[Class::NonTcp as usize] = 50_000;
    let ring = buckets(1_000, 1_090, [5_000, 0]);
    let samples = feed.read(&totals, Seen::Buckets(&ring), Seen::Nothing);
    assert!(samples.iter().all(|sample| sample.link.up.traffic.data_bytes == 0));
    assert_eq!(samples[0].link.up.traffic.wire_bytes, 5_000);
}

fn row(port: u16, [up, down]: [u64; 2]) -> FlowRow {
    let half = |fresh_bytes| crate::snapshot::HalfRow {
        fresh_bytes,
        in_flight_bytes: 9_000,
        rtt_samples: 1,
        rtt_last_us: 100_000,
        rtt_min_us: 20_000,
        ..Default::default()
    };
    let key = abi::pendulum_flow_key { home_port: port, ..Default::default() };
    FlowRow { key, halves: PerDirection { up, down }.map(half), changed_at: Instant::now(), is_closed: false }
}

#[test]
fn flows_are_reported_with_what_they_carried_since() {
    let mut feed = SampleFeed::new();
    let start = Instant::now();
    let mut sweep = |seconds: u64, rows: Vec<FlowRow>| {
        let sweep = FlowSweep { rows, ..FlowSweep::empty(start + Duration::from_secs(seconds)) };
        let totals = counters(0);
        let mut samples = Vec::new();
        let reading = LinkReading {
            at: Duration::from_secs(2 + seconds),
            counters: &totals,
            queues: PerDirection::default(),
            rates: PerDirection::default(),
            base_round_trip: None,
            answered_s: None,
            flows: Some(&sweep),
        };
        feed.builder.take(&reading, &mut samples);
        samples.remove(0).flows
    };
    assert_eq!(sweep(0, vec![row(1, [10, 0])]).len(), 1);
    let flows = sweep(2, vec![row(1, [30_000, 0]), row(2, [0, 60_000]), row(3, [0, 0])]);
    let [upload, download] = flows.as_slice() else { panic!("two flows, not {}", flows.len()) };
    assert_eq!((upload.direction, upload.data_bytes), (Direction::Up, 30_000));
    assert_eq!(upload.in_flight_bytes, Some(9_000.0));
    assert_eq!((upload.round_trip, upload.base_round_trip), (Some(0.2), Some(0.04)));
    // 60,000 bytes in 2 s, of which 0.2 s are one round trip.
    assert_eq!((download.direction, download.in_flight_bytes), (Direction::Down, Some(6_000.0)));
    assert_ne!(upload.id, download.id);
}

/// However long nothing but ACKs passes, what waits in the buffer is what came before.
#[test]
fn silence_does_not_change_the_share_of_data() {
    let (before, mut after) = (counters(0).up, counters(1).up);
    let mut share = DataShare::default();
    share.push(&after, &before);
    assert_eq!(share.data_share(), 1_000.0 / 1_500.0);
    for _ in 0..100_000 {
        let then = after;
        after.bytes[Class::Ack as usize] += 66;
        share.push(&after, &then);
    }
    assert_eq!(share.data_share(), 1_000.0 / 1_500.0);
}
