use super::super::packet::MILLISECOND;
use super::*;
use crate::rate::BufferSize;
use crate::simulate::{CongestionControl, Flow};

fn record() -> Record {
    let link = SimulatedLink {
        rate: PerDirection { up: 1e6, down: 1e6 },
        buffer: PerDirection { up: BufferSize::Packets(1), down: BufferSize::Packets(1) },
        cake: false,
        burst: PerDirection { up: 0.0, down: 0.0 },
        flows: vec![Flow::bulk(Direction::Up, CongestionControl::Reno)],
    };
    Record::new(&Run { from_s: 1.0, until_s: 3.0, start_spread_s: 0.0, jitter_s: 0.0 }, &link)
}

#[test]
fn mean_and_95th_percentile_of_the_readings() {
    let of = |count: u16| wait((1..=count).rev().map(f32::from).collect());
    assert_eq!(of(20), Wait { mean_s: 10.5, p95_s: 19.0 });
    assert_eq!(of(100), Wait { mean_s: 50.5, p95_s: 95.0 });
    assert_eq!([of(1), of(0)], [Wait { mean_s: 1.0, p95_s: 1.0 }, Wait::default()]);
}

#[test]
fn queues_are_read_each_10_ms_of_what_is_measured() {
    let mut record = record();
    let (mut times, mut counts) = (Vec::new(), Vec::new());
    for to in [SECOND - 1, SECOND, SECOND + 2 * INTERVAL - 1, 9 * SECOND] {
        record.advance(to, |at| {
            times.push(at / MILLISECOND);
            PerDirection { up: 0.5, down: 0.25 }
        });
        counts.push(times.len());
    }
    assert_eq!(counts, [0, 1, 2, 201]);
    assert_eq!((times[0], times[1], times[200]), (1_000, 1_010, 3_000));
    let outcome = record.outcome(PerDirection { up: 0, down: 0 }, None);
    assert_eq!(
        (outcome.wait.up.mean_s, outcome.wait.down.p95_s, outcome.wait_both.mean_s),
        (0.5, 0.25, 0.75)
    );
    assert_eq!((outcome.sparse_wait, outcome.sparse_wait_both), (outcome.wait, outcome.wait_both));
}

#[test]
fn what_is_measured_counts_and_the_frames_of_all_the_time() {
    let mut record = record();
    for at in [SECOND - 1, SECOND, 2 * SECOND] {
        record.delivered(at, Direction::Down);
        record.sent(at, Direction::Up, 100);
    }
    record.advance(SECOND, |_| PerDirection { up: 0.5, down: 0.25 });
    let outcome = record.outcome(PerDirection { up: 3, down: 4 }, Some(vec![0.125]));
    // Two segments of 1,448 bytes and 200 bytes in two seconds.
    assert_eq!((outcome.goodput_bps.down, outcome.goodput_bps.up), (1_448.0 * 8.0, 0.0));
    assert_eq!((outcome.sent_bps.up, outcome.sent_bps.down, outcome.frames), (800.0, 0.0, 3));
    assert_eq!((outcome.dropped.up, outcome.dropped.down), (3, 4));
    assert_eq!((outcome.sparse_wait.up.mean_s, outcome.sparse_wait_both.mean_s), (0.125, 0.375));
}
