//! Ten minutes of the same traffic: how often the detector changes its mind, on links between the verdicts, and how soon it says what really changes.

use super::*;

/// Download rate and upload rate, bit/s; what the downlink's buffer and the uplink's hold, milliseconds of it.
type Case = ((f64, f64), (f64, f64), CongestionControl, (u32, u32), u64);

/// So many downloads beside so many uploads; instead of none, datagrams at the uplink's rate.
fn scenario(
    ((down_bps, up_bps), (down_ms, up_ms), congestion_control, (downloads, uploads), seed): Case,
) -> Scenario {
    let size = |bps: f64, ms: f64| ((bps / 8.0 * ms / 1e3) as u64).max(9_000);
    let flow = |direction, ms| Flow { congestion_control, ..bulk(direction, ms) };
    let mut flows: Vec<Flow> =
        (0..downloads).map(|index| flow(Direction::Down, 5.0 + 7.0 * f64::from(index))).collect();
    flows.extend((0..uploads).map(|index| flow(Direction::Up, 12.0 + 9.0 * f64::from(index))));
    if uploads == 0 {
        flows.push(Flow { load: FlowLoad::Datagrams(up_bps / 8.0), ..bulk(Direction::Up, 5.0) });
    }
    Scenario {
        down_bps,
        up_bps,
        buffer: bytes(size(down_bps, down_ms), size(up_bps, up_ms)),
        flows,
        duration_s: 600.0,
        seed,
        start_spread_s: 1.0,
        ..papers_link()
    }
}

/// Changes of the verdict since the one in force at the end was first said.
fn changes_of_mind(found: &[(f64, Verdict)]) -> usize {
    let last = found.last().map(|(_, verdict)| *verdict);
    let first = found.iter().position(|(_, verdict)| Some(*verdict) == last).unwrap_or(0);
    found.len().saturating_sub(first + 1)
}

fn count(case: Case) -> usize {
    let found = verdicts(&detect(&scenario(case)).1);
    let changes = changes_of_mind(&found);
    println!("{changes} {case:?}: {found:.0?}");
    changes
}

/// Links, buffers, congestion controls and numbers of transfers, with one or two verdicts near each other on many of them.
fn grid() -> Vec<Case> {
    use CongestionControl::{Cubic, Reno};
    let rates =
        [(2.4e6, 2.4e6), (2.4e6, 196e3), (20e6, 20e6), (10e6, 5e6), (20e6, 2e6), (8e6, 1e6), (5e6, 10e6)];
    let mut cases = Vec::new();
    for rates in rates {
        for (up_ms, down_ms) in [60.0, 200.0, 400.0].into_iter().flat_map(|up| [(up, 60.0), (up, 200.0)]) {
            for congestion_control in [Reno, Cubic] {
                let transfers = [(1, 1), (1, 2), (3, 1), (1, 0)];
                cases.extend(transfers.map(|many| (rates, (down_ms, up_ms), congestion_control, many, 1)));
            }
        }
    }
    cases
}

/// Without damping each of the eight changed its mind 8 to 32 times. `PENDULUM_LONG=1`: the whole grid.
#[test]
fn ten_minutes_of_the_same_traffic_are_of_one_mind() {
    use CongestionControl::{Cubic, Reno};
    if std::env::var_os("PENDULUM_LONG").is_some() {
        let changes: Vec<usize> = grid().into_iter().map(count).collect();
        let (sum, runs) = (changes.iter().sum::<usize>(), changes.len());
        let (some, most) =
            (changes.iter().filter(|changes| **changes > 0).count(), changes.iter().max().copied());
        println!("{sum} changes of mind in {some} of {runs} runs, at most {most:?}");
        assert!(sum * 4 <= runs && most.is_some_and(|most| most <= 6), "{sum}, {most:?}");
    }
    let cases: [Case; 8] = [
        ((10e6, 5e6), (200.0, 200.0), Reno, (1, 1), 1),
        ((10e6, 5e6), (200.0, 200.0), Cubic, (3, 1), 1),
        ((20e6, 2e6), (200.0, 200.0), Reno, (1, 1), 1),
        ((5e6, 10e6), (200.0, 200.0), Reno, (1, 1), 1),
        ((5e6, 10e6), (200.0, 200.0), Cubic, (1, 1), 1),
        ((2.4e6, 196e3), (200.0, 60.0), Cubic, (3, 1), 1),
        ((8e6, 1e6), (60.0, 60.0), Cubic, (3, 1), 1),
        ((8e6, 1e6), (200.0, 200.0), Cubic, (1, 2), 1),
    ];
    let changes = cases.map(count);
    assert!(changes.iter().all(|changes| *changes <= 2), "{changes:?}");
    assert!(changes.iter().sum::<usize>() <= 4, "{changes:?}");
}
