//! What passed and what receivers acknowledged, over the same second: people see both next to each other.

use std::time::Instant;

use crate::snapshot::Passed;

/// One direction, from sweep to sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    /// When, and the bytes that had passed since the start.
    before: Option<(Instant, i64)>,
    latest: Passed,
}

impl Second {
    /// Takes in the bytes that have passed since the start, and the rate at which receivers acknowledged since the last time.
    /// One ACK may acknowledge data of earlier seconds, all behind a lost segment: no more than passed now counts.
    pub(super) fn observe(&mut self, at: Instant, passed: i64, acknowledged: f64) {
        let Some((before, passed_before)) = self.before.replace((at, passed)) else { return };
        let seconds = at.duration_since(before).as_secs_f64();
        if seconds > 0.0 {
            let throughput = passed.saturating_sub(passed_before).max(0) as f64 / seconds;
            self.latest = Passed { throughput, goodput: acknowledged.min(throughput) };
        }
    }

    pub(super) fn latest(&self) -> Passed {
        self.latest
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A link of 24,500 bytes per second.
    const RATE: f64 = 24_500.0;

    /// A burst fills the buffer, a segment of it is lost, and one ACK then acknowledges 64 kB at once. Full frames are cut where the second ends.
    #[test]
    fn a_burst_shows_no_goodput_above_throughput_and_no_throughput_above_the_rate() {
        let (mut second, start) = (Second::default(), Instant::now());
        second.observe(start, 0, 0.0);
        for (number, (passed, acknowledged)) in
            [(25_738, 3_000.0), (48_448, 0.0), (74_186, 64_000.0), (98_410, 23_000.0)].into_iter().enumerate()
        {
            second.observe(start + Duration::from_secs(number as u64 + 1), passed, acknowledged);
            let shown = second.latest().within(Some(RATE));
            assert!(shown.goodput <= shown.throughput && shown.throughput <= RATE, "{number}: {shown:?}");
        }
    }

    #[test]
    fn steady_traffic_is_shown_as_it_passes() {
        let (mut second, start) = (Second::default(), Instant::now());
        for number in 0..5 {
            second.observe(start + Duration::from_secs(number), 20_000 * number as i64, 19_000.0);
        }
        assert_eq!(second.latest().within(Some(RATE)), Passed { throughput: 20_000.0, goodput: 19_000.0 });
        // A rate that is known too low is no reason to hide what passes.
        assert_eq!(second.latest().within(Some(10_000.0)).throughput, 20_000.0);
    }
}
