//! How much of the past the rings keep: 512 buckets, and the departures of 8192 ticks of arrivals.

use pendulum_model::segment::Direction;

use crate::account::{BUCKET_NS, Line, RING, at};
use crate::native::{Kind, TICK_NS, mark};

/// Departures that are kept of a class (turnaround): 8192 ticks, 33.6 ms of packets' arrivals.
const DEPARTURES: u64 = 8192;

/// A bucket is overwritten after 512 of them, and not before.
#[test]
fn the_ring_keeps_512_buckets() {
    let Some(mut line) = Line::new("the_ring_keeps_512_buckets", Direction::Up) else { return };
    // One event in each bucket, 520 of them; nothing leaves.
    for number in 1000..1520_u64 {
        line.come((number * BUCKET_NS + 5_000_000) / TICK_NS, Kind::Data, 100);
    }
    let shown = line.show();
    assert_eq!(shown.ring.len(), 511 + 1, "the open bucket's place still has the one that it will overwrite");
    let numbers: Vec<u64> = shown.ring.iter().map(|bucket| bucket.get("number")).collect();
    assert_eq!(numbers, (1007..1519).collect::<Vec<_>>());
    for bucket in &shown.ring {
        assert_eq!(bucket.get("place"), bucket.get("number") % RING);
        assert_eq!(bucket.get("packets"), bucket.get("number") - 999, "level at its end");
        assert_eq!(bucket.get("min_packets"), bucket.get("number") - 1000, "level at its start");
    }
}

/// Departures of the newest 8192 ticks of arrivals are there, by class, each with the mark it came with and the tick it left in.
#[test]
fn departures_are_found_by_when_their_packet_came() {
    let Some(mut line) = Line::new("departures_are_found…", Direction::Up) else { return };
    let first = 2_000_000;
    // Every 128 ticks one of each class, over one turn of the ring: the last 64 of each class are 8192 ticks.
    let kinds = [Kind::Data, Kind::Ack];
    for i in 0..80 {
        for kind in kinds {
            line.come(first + 128 * i, kind, 100);
        }
    }
    let mut tick = first + 128 * 80;
    while !line.standing.is_empty() {
        line.leave(tick, 3);
        tick += 11;
    }
    let shown = line.show();
    let newest = line.passages.iter().filter(|p| p.marked >= first + 128 * 16);
    let mut expected: Vec<[u64; 3]> = newest
        .map(|p| {
            let index = p.kind as u64 * DEPARTURES + p.marked % DEPARTURES;
            [index, u64::from(mark(Direction::Up, p.kind, at(p.marked))), p.left.expect("all left")]
        })
        .collect();
    expected.sort_unstable();
    assert_eq!(expected.len(), 2 * 64);
    assert_eq!(shown.departures, expected);
}

/// Those of the downlink's queue are of no use to anybody: only the uplink's are kept.
#[test]
fn departures_are_those_of_the_uplink() {
    let Some(mut line) = Line::new("departures_are_those_of_the_uplink", Direction::Down) else { return };
    line.come(1_000_000, Kind::Data, 100);
    line.leave(1_000_250, 1);
    let shown = line.show();
    assert_eq!(shown.queue.pair("sojourn_packets"), [1, 0]);
    assert_eq!(shown.departures, [[0; 3]; 0]);
}
