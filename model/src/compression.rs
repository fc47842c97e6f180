//! ACK compression (000 §2.1): both queues oscillate in phase and ACKs come in long bursts, both ways.
//!
//! Rare, and with little effect on throughput: it is distinguished so that it does not get the blame for the pendulum.
//! Long bursts alone are not enough: an asymmetric link has many ACKs for each upload segment (000 §2.3).

use crate::constants::HALF;
use crate::findings::Figure;
use crate::history::Totals;
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// The figures of the rule, if it holds.
pub(crate) fn ack_compression(recent: &Totals, thresholds: &Thresholds) -> Option<Vec<Figure>> {
    let correlation = recent.queues.correlation()?;
    let [up, down] = Direction::ALL.map(|direction| recent.long_burst_share(direction));
    let holds = correlation >= thresholds.in_phase_correlation && up.min(down) >= HALF;
    holds.then(|| {
        vec![
            Figure::against("queue_correlation", correlation, thresholds.in_phase_correlation),
            Figure::against("uplink_long_burst_share", up, HALF),
            Figure::against("downlink_long_burst_share", down, HALF),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(in_phase: bool, burst: u64) -> Totals {
        let mut totals = Totals::default();
        for step in 0..100 {
            let level = f64::from(step % 10);
            let other = if in_phase { level } else { 9.0 - level };
            totals.queues.add([1000.0 * level, 1000.0 * other], 0.01);
        }
        for direction in Direction::ALL {
            totals.ack_bursts[direction].add(burst, 10);
        }
        totals
    }

    #[test]
    fn needs_both_marks() {
        let thresholds = Thresholds::default();
        let figures = ack_compression(&totals(true, 15), &thresholds).expect("in phase, long bursts");
        assert!((figures[0].value - 1.0).abs() < 1e-9);
        assert_eq!(ack_compression(&totals(false, 15), &thresholds), None);
        assert_eq!(ack_compression(&totals(true, 2), &thresholds), None);
        assert_eq!(ack_compression(&Totals::default(), &thresholds), None);
    }
}
