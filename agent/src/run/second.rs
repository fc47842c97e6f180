//! What passed and what receivers acknowledged, over the same second: people see both next to each other.

use std::time::Instant;

use pendulum_model::constants::MOMENT;

use crate::snapshot::Passed;

/// One direction, from sweep to sweep.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    /// When, the bytes that had passed since the start, and those that were counted: all, and TCP payload.
    before: Option<(Instant, i64, [u64; 2])>,
    /// Payload that was acknowledged and is not shown yet, bytes.
    not_shown: f64,
    pub(super) latest: Option<Passed>,
}

impl Second {
    /// Takes in the bytes that have passed since the start, those that were counted, and the rate at which receivers acknowledged since the last time.
    /// One ACK may acknowledge data of earlier seconds, all behind a lost segment: what is more than passed now counts
    /// in the next seconds, as long as payload passes, and no longer than a hole lasts: acknowledged data may pass unseen, and would add up.
    pub(super) fn observe(&mut self, at: Instant, passed: i64, counted: [u64; 2], acknowledged: f64) {
        let before = self.before.replace((at, passed, counted));
        let Some((before, passed_before, [all_before, payload_before])) = before else { return };
        let seconds = at.duration_since(before).as_secs_f64();
        if seconds > 0.0 {
            let throughput = passed.saturating_sub(passed_before).max(0) as f64 / seconds;
            let [all, payload] =
                [counted[0].saturating_sub(all_before), counted[1].saturating_sub(payload_before)];
            let most = if all > 0 { throughput * payload as f64 / all as f64 } else { 0.0 };
            let acknowledged = acknowledged + self.not_shown / seconds;
            let goodput = acknowledged.min(most);
            self.not_shown = ((acknowledged - goodput) * seconds).min(most * MOMENT.as_secs_f64());
            self.latest = Some(Passed { throughput, goodput });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A link of 24,500 bytes per second.
    const RATE: f64 = 24_500.0;

    /// Full frames.
    fn counted(passed: i64) -> [u64; 2] {
        [passed, passed * 1_448 / 1_514].map(i64::cast_unsigned)
    }

    /// A burst fills the buffer, a segment of it is lost, and one ACK then acknowledges 64 kB at once. Full frames are cut where the second ends.
    #[test]
    fn a_burst_shows_no_goodput_above_throughput_and_no_throughput_above_the_rate() {
        let (mut second, start) = (Second::default(), Instant::now());
        second.observe(start, 0, [0; 2], 0.0);
        assert_eq!(second.latest, None);
        for (number, (passed, acknowledged)) in
            [(25_738, 3_000.0), (48_448, 0.0), (74_186, 64_000.0), (98_410, 23_000.0)].into_iter().enumerate()
        {
            second.observe(
                start + Duration::from_secs(number as u64 + 1),
                passed,
                counted(passed),
                acknowledged,
            );
            let shown = second.latest.expect("measured").within(Some(RATE));
            assert!(
                shown.goodput <= 0.96 * shown.throughput && shown.throughput <= RATE,
                "{number}: {shown:?}"
            );
        }
    }

    /// A segment is lost every third second: two seconds nothing is acknowledged, then all. The sum is what was acknowledged.
    #[test]
    fn what_one_ack_acknowledges_of_earlier_seconds_is_not_lost() {
        let (mut second, start) = (Second::default(), Instant::now());
        let mut shown = 0.0;
        for number in 0..=32_u64 {
            let passed = 24_000 * number as i64;
            let acknowledged = if number % 3 == 0 { 66_000.0 } else { 0.0 };
            second.observe(start + Duration::from_secs(number), passed, counted(passed), acknowledged);
            shown += second.latest.map_or(0.0, |latest| latest.goodput);
        }
        assert!((shown / 660_000.0 - 1.0).abs() < 0.001, "{shown}");
        // More is acknowledged at once, and then nothing passes: the next transfer begins anew.
        for (number, passed, acknowledged) in
            [(33, 792_000, 66_000.0), (34, 792_000, 0.0), (35, 816_000, 0.0)]
        {
            second.observe(start + Duration::from_secs(number), passed, counted(passed), acknowledged);
        }
        assert_eq!(second.latest.map(|latest| latest.goodput), Some(0.0));
    }

    /// Half of the payload passes unseen for a minute, as with flow offload, and its ACKs do not: what adds up is forgotten soon after nothing is acknowledged.
    #[test]
    fn what_was_acknowledged_unseen_is_not_shown_for_long() {
        let (mut second, start) = (Second::default(), Instant::now());
        for number in 0..=66_u64 {
            let passed = 24_000 * number as i64;
            let acknowledged = if number <= 60 { 46_000.0 } else { 0.0 };
            second.observe(start + Duration::from_secs(number), passed, counted(passed), acknowledged);
        }
        assert_eq!(second.latest.map(|latest| latest.goodput), Some(0.0));
    }

    /// A queue drains: what it held was counted when it came.
    #[test]
    fn where_nothing_was_counted_there_is_no_goodput() {
        let (mut second, start) = (Second::default(), Instant::now());
        second.observe(start, 0, [9_000, 8_000], 0.0);
        second.observe(start + Duration::from_secs(1), 500, [9_000, 8_000], 400.0);
        assert_eq!(second.latest, Some(Passed { throughput: 500.0, goodput: 0.0 }));
    }

    #[test]
    fn steady_traffic_is_shown_as_it_passes() {
        let (mut second, start) = (Second::default(), Instant::now());
        for number in 0..5 {
            let passed = 20_000 * number as i64;
            second.observe(start + Duration::from_secs(number), passed, counted(passed), 19_000.0);
        }
        let latest = second.latest.expect("measured");
        assert_eq!(latest.within(Some(RATE)), Passed { throughput: 20_000.0, goodput: 19_000.0 });
        // Read again at the same moment.
        second.observe(start + Duration::from_secs(4), 90_000, counted(90_000), 19_000.0);
        assert_eq!(second.latest, Some(latest));
        // A rate that is known too low is no reason to hide what passes.
        assert_eq!(latest.within(Some(10_000.0)).throughput, 20_000.0);
    }
}
