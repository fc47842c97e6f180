//! Samples of packets made by hand: what belongs to which interval.

use pendulum_model::observer::{Observer, Vantage};

use super::super::meter::Meter;
use super::super::packet::{Frame, LinkType};
use super::super::tests::craft::{LinkLayer, Tcp, down, up};
use super::super::tests::direction;
use super::*;
use pendulum_model::sample::{AckBursts, Composition, DirectionSample, QueueSource, Traffic};

const MS: u64 = 1_000_000;

fn intervals() -> Intervals {
    let observer = Observer::new(0, Vantage::BeforeUplinkBuffer, Duration::from_secs(1));
    Intervals::new(Buffers::new(observer, None))
}

/// All samples of these packets, each at its time in milliseconds.
fn samples(packets: &[(u64, Tcp)], end_ms: u64) -> Vec<Sample> {
    let (mut intervals, mut meter, mut found) = (intervals(), Meter::<()>::default(), Vec::new());
    let sink = &mut |sample: &Sample| found.push(sample.clone());
    for (ms, packet) in packets {
        intervals.advance(ms * MS, sink);
        let crafted = packet.build(LinkLayer::RawIp);
        let direction = direction(crafted.direction);
        let frame = Frame {
            gso_segments: crafted.gso_segs,
            gso_size: crafted.gso_size,
            ..Frame::whole(LinkType::RawIp, &crafted.bytes)
        };
        let observation = meter.observe_frame(direction, ms * MS, &frame);
        let wire_bytes =
            observation.segment.map_or(u64::from(frame.frame_bytes()), |segment| segment.wire_bytes());
        intervals.count(direction, &observation, wire_bytes);
    }
    intervals.finish(end_ms * MS, sink);
    found
}

/// One after another, without a gap, up to the end of the interval in which the capture ends.
#[test]
fn intervals_follow_each_other() {
    for (end_ms, count) in [(0, 1), (9, 1), (10, 2), (25, 3), (999, 100)] {
        let found = samples(&[(0, up().payload(1))], end_ms);
        let ends: Vec<Duration> = found.iter().map(|sample| sample.at).collect();
        let expected: Vec<Duration> = (1..=count).map(|number| Duration::from_millis(10 * number)).collect();
        assert_eq!(ends, expected, "{end_ms}");
        assert!(found.iter().all(|sample| sample.span == Duration::from_millis(10)));
    }
}

/// 40 bytes of headers: what passed in an interval is in its sample, by direction and kind.
#[test]
fn packets_are_counted_where_and_when_they_pass() {
    let found = samples(
        &[
            (1, down().payload(1_000)),
            // Two segments of 700 and 300 bytes in one packet.
            (2, down().seq(1_001).payload(1_000).gso(2, 700)),
            (3, up().ack(1_001)),
            (4, up().ack(2_001)),
            (9, up().payload(60)),
            (10, up().protocol(17).payload(80)),
            (19, up().payload(60)),
        ],
        19,
    );
    assert_eq!(found.len(), 2);
    let (first, second) = (&found[0].link, &found[1].link);
    let data = |wire_bytes, data_segments| Traffic {
        wire_bytes,
        data_bytes: wire_bytes,
        data_segments,
        ..Traffic::default()
    };
    // The second of both segments has headers of its own.
    assert_eq!(first.down.traffic, data(2_120, 3));
    assert_eq!(
        first.up.traffic,
        Traffic { wire_bytes: 180, data_bytes: 100, data_segments: 1, ack_segments: 2, ..Traffic::default() }
    );
    assert_eq!(first.up.composition, Composition { tcp_data: 100, ack: 80, ..Composition::default() });
    assert_eq!(first.down.composition, Composition { tcp_data: 2_120, ..Composition::default() });
    // Data ends the burst of two ACKs.
    assert_eq!(first.up.ack_bursts, AckBursts { bursts: 1, segments: 2, segments_in_long_bursts: 0 });
    assert_eq!(first.down.ack_bursts, AckBursts::default());
    // 20 bytes of IP, 20 of what would be TCP, and 80.
    assert_eq!(
        second.up.traffic,
        Traffic { retransmitted_segments: 1, wire_bytes: 220, ..data(100, 1) },
        "sent again 10 ms later"
    );
    assert_eq!(second.up.composition, Composition { tcp_data: 100, udp: 120, ..Composition::default() });
    assert_eq!(second.down, DirectionSample { queue: second.down.queue, ..DirectionSample::default() });
}

/// Turnarounds, as (direction, at, seconds), and the round trip of each interval.
fn round_trips(turns: &[(Direction, u64, f64)], end_ms: u64) -> Vec<Option<f64>> {
    let (mut intervals, mut found) = (intervals(), Vec::new());
    let sink = &mut |sample: &Sample| found.push(sample.round_trip.map(|s| (s * 1e6).round() / 1e6));
    let mut before = 0;
    for (direction, ms, seconds) in turns {
        // A packet now and then: no silence.
        (before..*ms).step_by(1_000).skip(1).for_each(|ms| intervals.advance(ms * MS, sink));
        before = *ms;
        intervals.advance(ms * MS, sink);
        intervals.note_turn(*direction, ms * MS, *seconds);
    }
    for ms in (0..end_ms).step_by(1_000).filter(|ms| turns.last().is_none_or(|(_, last, _)| ms > last)) {
        intervals.advance(ms * MS, sink);
    }
    intervals.finish(end_ms * MS, sink);
    found
}

#[test]
fn both_ends_together_are_the_round_trip() {
    use Direction::{Down, Up};
    // The mean of each end; the newest of the other one if it was not heard in the same interval.
    let turns = [(Up, 1, 0.002), (Down, 2, 0.030), (Down, 5, 0.050), (Up, 12, 0.008), (Down, 31, 0.1)];
    assert_eq!(round_trips(&turns, 39), [Some(0.042), Some(0.058), None, Some(0.108)]);
    // Home's answers alone are no round trip; those from outside are, as long as nothing else is known.
    assert_eq!(round_trips(&turns[..1], 9), [None]);
    assert_eq!(round_trips(&turns[1..2], 9), [Some(0.03)]);
    assert_eq!(round_trips(&[], 9), [None]);
}

/// What an end took to answer holds for five seconds, counted to the end of the interval.
#[test]
fn an_old_turnaround_is_no_part_of_the_round_trip() {
    use Direction::{Down, Up};
    for (later, expected) in [(4_990, 0.132), (4_995, 0.132), (5_001, 0.1), (5_010, 0.1)] {
        let found = round_trips(&[(Up, 0, 0.032), (Down, later, 0.1)], later + 1);
        assert_eq!(found.last(), Some(&Some(expected)), "{later}");
        assert_eq!(found.iter().flatten().count(), 1);
    }
}

/// What the flows did is reported once, in the interval in which they were read.
#[test]
fn flows_are_reported_once() {
    let (mut intervals, mut found) = (intervals(), Vec::new());
    let sink = &mut |sample: &Sample| found.push(sample.flows.len());
    let flow = FlowSample {
        id: 1,
        direction: Direction::Up,
        data_bytes: 5,
        in_flight_bytes: None,
        round_trip: None,
        base_round_trip: None,
    };
    intervals.advance(12 * MS, sink);
    intervals.note_flows(12 * MS, vec![flow; 3]);
    intervals.advance(22 * MS, sink);
    intervals.finish(35 * MS, sink);
    assert_eq!(found, [0, 3, 0, 0]);
}

/// After a second without a packet the little that passed has drained: half a second goes on as before, and one sample speaks for the rest.
#[test]
fn a_silence_is_one_sample() {
    let packets = [(5, up().payload(100)), (60_005, up().seq(101).payload(200))];
    let found = samples(&packets, 60_012);
    let mut end = Duration::ZERO;
    for sample in &found {
        assert_eq!(sample.at - sample.span, end, "no gap, and nothing twice");
        end = sample.at;
    }
    assert_eq!(end, Duration::from_millis(60_020));
    let silence = found.iter().find(|sample| sample.span > Duration::from_secs(1)).expect("one");
    // The silence began at 0.005 s: what has ended by 0.505 s, and from 60 s on, are intervals of 10 ms.
    let ends = (silence.at, silence.at - silence.span);
    assert_eq!(ends, (Duration::from_secs(60), Duration::from_millis(500)));
    for x in Direction::ALL {
        assert_eq!(silence.link[x].queue, Some(QueueSample::level(QueueSource::Estimate, 0.0)));
        assert_eq!(silence.link[x].traffic, Traffic::default());
    }
    assert_eq!(found.len(), 50 + 1 + 2);
    let sum: u64 = found.iter().map(|sample| sample.link.up.traffic.wire_bytes).sum();
    assert_eq!(sum, 140 + 240);
    assert_eq!(found[51].link.up.traffic.wire_bytes, 240);
    // A second is no silence yet.
    let found = samples(&[(0, up().payload(100)), (1_000, up().payload(100))], 1_000);
    assert!(found.iter().all(|sample| sample.span == Duration::from_millis(10)));
    assert_eq!(found.len(), 101);
}

/// A packet each 30 s for ten days: as many samples as its packets need, not as many as the days have.
#[test]
fn days_of_little_are_few_samples() {
    let packets: Vec<(u64, Tcp)> =
        (0..28_800_u32).map(|number| (u64::from(number) * 30_000, up().seq(number).payload(1))).collect();
    let found = samples(&packets, 864_000_000);
    assert_eq!(found.last().map(|sample| sample.at), Some(Duration::from_millis(864_000_010)));
    assert!(found.len() < 60 * packets.len(), "{}", found.len());
}

#[test]
fn an_interval_is_due_when_it_ends() {
    let mut intervals = intervals();
    assert!(!intervals.is_due(0) && !intervals.is_due(10 * MS - 1) && intervals.is_due(10 * MS));
    intervals.advance(34 * MS, &mut |_| {});
    assert!(!intervals.is_due(40 * MS - 1) && intervals.is_due(40 * MS));
}

/// A direction is unseen if the other one's TCP got on for more than two seconds after its last segment, and until it shows again.
#[test]
fn a_direction_is_unseen_after_two_seconds_of_the_other_one() {
    const S: u64 = 1_000_000_000;
    let is_unseen = |alone: Option<u64>, progress: Option<u64>| {
        Direction::ALL.map(|x| {
            let mut intervals = intervals();
            intervals.alone_ns[x] = alone;
            intervals.progress_ns[x.opposite()] = progress;
            assert!(!intervals.is_unseen(x.opposite()));
            intervals.is_unseen(x)
        })
    };
    assert_eq!(is_unseen(None, None), [false; 2], "no TCP at all");
    assert_eq!(is_unseen(Some(S), Some(3 * S)), [false; 2], "two seconds");
    assert_eq!(is_unseen(Some(S), Some(3 * S + 1)), [true; 2]);
    assert_eq!(is_unseen(Some(3 * S), Some(S)), [false; 2]);
}

/// The share of a direction that is not in the capture does not depend on how much of the time is idle; whose peer is gone only repeats itself.
#[test]
fn what_is_missing_does_not_depend_on_idle_time() {
    let share = |packets: &[(u64, Tcp)]| {
        let (mut intervals, mut meter) = (intervals(), Meter::<()>::default());
        for (ms, packet) in packets {
            intervals.advance(ms * MS, &mut |_| {});
            let crafted = packet.build(LinkLayer::RawIp);
            let direction = direction(crafted.direction);
            let frame = Frame::whole(LinkType::RawIp, &crafted.bytes);
            let observation = meter.observe_frame(direction, ms * MS, &frame);
            intervals.count(direction, &observation, frame.frame_bytes().into());
        }
        intervals.advance(packets.last().map_or(0, |(ms, _)| ms * MS) + 20 * MS, &mut |_| {});
        Direction::ALL.map(|x| intervals.unseen_share(x))
    };
    // 385 packets up within 597 s, and none down.
    let uploads: Vec<_> =
        (0..385_u32).map(|i| (u64::from(i) * 1_551, up().seq(1 + 500 * i).payload(500))).collect();
    // All but those of the first two seconds.
    assert_eq!(share(&uploads), [0.0, 383.0 / 385.0]);
    // A question each 30 s, and its answer.
    let seldom: Vec<_> = (0..20_u32)
        .flat_map(|i| {
            let (ms, end) = (u64::from(i) * 30_000, 1 + 100 * i);
            [(ms, up().seq(end).payload(100)), (ms + 20, down().ack(end + 100))]
        })
        .collect();
    assert_eq!(share(&seldom), [0.0, 0.0]);
    // A client takes what it asked for, and dies: its server sends the last segment again for two minutes.
    let mut dies =
        vec![(0, up().payload(100)), (20, down().ack(101).payload(500)), (30, up().seq(101).ack(501))];
    dies.extend(
        [40, 240, 640, 1_440, 3_040, 6_240, 12_640, 25_440, 51_040, 102_240]
            .map(|ms| (ms, down().seq(501).ack(101).payload(500))),
    );
    assert_eq!(share(&dies), [0.0, 0.0]);
}
