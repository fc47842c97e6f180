//! Round-trip time and retransmission timeout as `tcp_rtt_estimator` and `tcp_set_rto` have them, microseconds.

/// `TCP_RTO_MIN`.
const SHORTEST_TIMEOUT: i64 = 200_000;
/// `TCP_RTO_MAX`.
const LONGEST_TIMEOUT: i64 = 120_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTrip {
    /// Eight times the smoothed round-trip time.
    smoothed8: i64,
    /// Four times the mean deviation, and its largest within this round trip.
    deviation4: i64,
    largest: i64,
    variance: i64,
    /// The round of the estimate ends with this segment.
    round_end: u32,
    /// Shortest round-trip time seen.
    pub(super) shortest: i64,
}

impl Default for RoundTrip {
    fn default() -> Self {
        Self::new(0)
    }
}

impl RoundTrip {
    pub(super) fn new(first: i64) -> Self {
        let first = first.max(1);
        let variance = (2 * first).max(SHORTEST_TIMEOUT);
        Self {
            smoothed8: 8 * first,
            deviation4: 2 * first,
            largest: variance,
            variance,
            round_end: 0,
            shortest: first,
        }
    }

    /// Takes a sample; `una` and `next` are the first segment that is not acknowledged and the next to be sent.
    pub(super) fn sample(&mut self, measured: i64, una: u32, next: u32) {
        let mut error = measured - (self.smoothed8 >> 3);
        self.smoothed8 = (self.smoothed8 + error).max(1);
        if error < 0 {
            error = -error - (self.deviation4 >> 2);
            if error > 0 {
                error >>= 3;
            }
        } else {
            error -= self.deviation4 >> 2;
        }
        self.deviation4 += error;
        if self.deviation4 > self.largest {
            self.largest = self.deviation4;
            self.variance = self.variance.max(self.largest);
        }
        if una > self.round_end {
            if self.largest < self.variance {
                self.variance -= (self.variance - self.largest) >> 2;
            }
            self.round_end = next;
            self.largest = SHORTEST_TIMEOUT;
        }
    }

    /// Notes a round-trip time for the shortest one.
    pub(super) fn note_shortest(&mut self, measured: i64) {
        self.shortest = self.shortest.min(measured);
    }

    pub(super) fn smoothed(&self) -> i64 {
        self.smoothed8 >> 3
    }

    pub(super) fn timeout(&self) -> i64 {
        (self.smoothed() + self.variance).min(LONGEST_TIMEOUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_round_trip_is_learnt_and_the_timeout_is_200_ms_above_it() {
        let mut round_trip = RoundTrip::new(500_000);
        for segment in 0..200 {
            round_trip.sample(100_000, segment + 1, segment + 2);
        }
        assert!((100_000..101_000).contains(&round_trip.smoothed()), "{}", round_trip.smoothed());
        let timeout = round_trip.timeout();
        assert!((300_000..302_000).contains(&timeout), "{timeout}");
    }

    #[test]
    fn a_first_sample_gives_three_times_itself() {
        // RFC 6298, section 2.2: RTO = R + 4 · R/2, unless the least variance of 200 ms is more.
        assert_eq!(RoundTrip::new(400_000).timeout(), 1_200_000);
        assert_eq!(RoundTrip::new(10_000).timeout(), 210_000);
    }

    /// `tcp_rtt_estimator` by hand: eighths of the time, quarters of the deviation, and the largest deviation of a round.
    #[test]
    fn each_sample_moves_the_estimate_by_its_parts() {
        let mut round_trip = RoundTrip::new(80_000);
        let mut sample = |measured, una, next| {
            round_trip.sample(measured, una, next);
            (round_trip.smoothed8, round_trip.deviation4, round_trip.largest, round_trip.variance)
        };
        assert_eq!(sample(100_000, 1, 5), (660_000, 140_000, 200_000, 200_000));
        // Less than before, by less than the deviation, and by more: an eighth of that.
        assert_eq!(sample(50_000, 2, 6), (627_500, 137_500, 200_000, 200_000));
        assert_eq!(sample(10_000, 5, 7), (559_063, 141_757, 200_000, 200_000));
        // Much more: it counts at once, and goes a quarter of the way back at the end of the next round.
        assert_eq!(sample(400_000, 6, 12), (889_181, 436_436, 200_000, 436_436));
        assert_eq!(sample(111_147, 12, 20), (889_181, 327_327, 327_327, 436_436));
        assert_eq!(sample(111_147, 13, 20), (889_181, 245_496, 200_000, 409_159));
        assert_eq!(round_trip.timeout(), 111_147 + 409_159);
        round_trip.sample(-9_999_999, 14, 20);
        assert_eq!(round_trip.smoothed8, 1);
    }

    #[test]
    fn a_timeout_is_two_minutes_at_most_and_the_shortest_is_kept() {
        assert_eq!(RoundTrip::new(100_000_000).timeout(), 120_000_000);
        let mut round_trip = RoundTrip::new(0);
        assert_eq!((round_trip.shortest, round_trip.smoothed()), (1, 1));
        round_trip = RoundTrip::new(50_000);
        let shortest = [60_000, 40_000, 45_000].map(|measured| {
            round_trip.note_shortest(measured);
            round_trip.shortest
        });
        assert_eq!(shortest, [50_000, 40_000, 40_000]);
    }
}
