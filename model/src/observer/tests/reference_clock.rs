//! Several senders' clocks and one buffer, by hand: 300,000 B/s.

use super::super::Passing;
use super::super::exit_side::ExitSide;
use crate::segment::Direction;

const MS: u64 = 1_000_000;
const RATE: f64 = 300_000.0;

/// A packet of a flow that was sent at `sent_ms` and waited for `wait_ms`: what its clock says, milliseconds.
fn wait_by_clock(
    exit_side: &mut ExitSide,
    (flow, bytes): (u64, u32),
    sent_ms: u64,
    wait_ms: u64,
) -> Option<f64> {
    let on_link_ns = (f64::from(bytes) / RATE * 1e9) as u64;
    let at_ns = (sent_ms + wait_ms) * MS + on_link_ns;
    let packet = Passing { at_ns, bytes, repeated_bytes: 0, clock: Some((flow, sent_ms as u32)) };
    let departure = exit_side.depart(&packet);
    let wait = exit_side.read_clock(&packet, &departure, f64::INFINITY);
    exit_side.place(&packet, &departure, wait);
    wait.map(|wait| wait.ns / 1e6)
}

/// The first sender is heard in an empty buffer, the second when 80 ms stand in it. The second says nothing until the first has shown how much that is, and then the
/// same as the first, but for the 5 ms between their packets and a tick. Once the first has ended, the second goes on alone.
#[test]
fn a_clock_that_is_new_in_a_standing_queue_is_set_by_an_older_one() {
    let mut exit_side = ExitSide::new(0, Direction::Down);
    exit_side.known.tell(Some(RATE / 1e9));
    for i in 0..200 {
        wait_by_clock(&mut exit_side, (1, 1450), 10 * i, 0);
    }
    // It fills the link, and the queue grows.
    for i in 0..200 {
        wait_by_clock(&mut exit_side, (1, 2900), 2000 + 10 * i, 2 * i / 5);
    }
    let mut told = Vec::new();
    for i in 400..800 {
        told.extend(wait_by_clock(&mut exit_side, (2, 1450), 10 * i, 80));
        wait_by_clock(&mut exit_side, (1, 1450), 10 * i + 5, 80);
    }
    told.extend((800..900).filter_map(|i| wait_by_clock(&mut exit_side, (2, 2900), 10 * i, 80)));
    assert!(told.len() > 400, "{} readings", told.len());
    let outside: Vec<_> = told.iter().filter(|wait| !(73.0..82.0).contains(*wait)).collect();
    assert!(outside.is_empty(), "{} of {}: {:?}", outside.len(), told.len(), outside[0]);
}
