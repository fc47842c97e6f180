//! What has arrived of a flow of datagrams.

use std::collections::HashSet;
use std::time::Duration;

use serde::Serialize;

use crate::statistics::{median, quantile};
use crate::traffic::Interval;

/// Length of the report's intervals, as of iperf3's.
const INTERVAL: Duration = Duration::from_millis(500);

/// What both ends of a flow saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UdpReport {
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Payload sent, bytes.
    pub sent_bytes: u64,
    /// Datagrams received, each once.
    pub received_packets: u64,
    /// Payload received, bytes.
    pub received_bytes: u64,
    /// Datagrams that arrived after a later one.
    pub reordered_packets: u64,
    /// Median of the datagrams' times under way, seconds; `None` if none arrived.
    pub delay_median_s: Option<f64>,
    /// Their mean, seconds.
    pub delay_mean_s: Option<f64>,
    /// Their 95th percentile, seconds.
    pub delay_p95_s: Option<f64>,
    /// The longest time under way, seconds.
    pub delay_max_s: Option<f64>,
    /// What arrived in each half second since the start.
    #[serde(skip)]
    pub intervals: Vec<Interval>,
}

impl UdpReport {
    /// Share of the datagrams that have not arrived (yet); `None` if none was sent.
    pub fn lost_share(&self) -> Option<f64> {
        let lost = self.sent_packets.saturating_sub(self.received_packets);
        (self.sent_packets > 0).then(|| lost as f64 / self.sent_packets as f64)
    }

    /// Mean rate of payload over the intervals that lie within `from`..`to` seconds since the start, bit/s; `None` if there is none.
    pub fn mean_bps(&self, from: f64, to: f64) -> Option<f64> {
        Interval::mean_bps(&self.intervals, from, to)
    }
}

/// Everything that has arrived.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    numbers: HashSet<u64>,
    newest: u64,
    reordered: u64,
    delays: Vec<f64>,
    /// Payload of each interval.
    bytes: Vec<u64>,
}

impl Arrivals {
    /// Notes a datagram that arrived at `now`. One that comes twice counts once.
    pub(super) fn note(&mut self, now: Duration, number: u64, sent: Duration, bytes: u64) {
        if !self.numbers.insert(number) {
            return;
        }
        self.reordered += u64::from(number < self.newest);
        self.newest = self.newest.max(number);
        self.delays.push(now.saturating_sub(sent).as_secs_f64());
        let interval = (now.as_millis() / INTERVAL.as_millis()) as usize;
        if self.bytes.len() <= interval {
            self.bytes.resize(interval + 1, 0);
        }
        self.bytes[interval] += bytes;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub(super) fn count(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Sums up what has arrived `elapsed` after the start.
    pub(super) fn report(&self, elapsed: Duration, sent_packets: u64, payload_bytes: u64) -> UdpReport {
        let mut bytes = self.bytes.clone();
        // Where nothing came any more, too.
        let intervals = (elapsed.as_millis() / INTERVAL.as_millis()) as usize;
        bytes.resize(bytes.len().max(intervals), 0);
        let seconds = INTERVAL.as_secs_f64();
        let interval = |(index, bytes): (usize, &u64)| {
            let start = index as f64 * seconds;
            Interval { start, end: start + seconds, bytes: *bytes }
        };
        UdpReport {
            sent_packets,
            sent_bytes: sent_packets * payload_bytes,
            received_packets: self.count(),
            received_bytes: bytes.iter().sum(),
            reordered_packets: self.reordered,
            delay_median_s: median(self.delays.clone()),
            delay_mean_s: (!self.delays.is_empty())
                .then(|| self.delays.iter().sum::<f64>() / self.delays.len() as f64),
            delay_p95_s: quantile(self.delays.clone(), 0.95),
            delay_max_s: self.delays.iter().copied().reduce(f64::max),
            intervals: bytes.iter().enumerate().map(interval).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    #[test]
    fn arrivals_count_once_and_in_their_half_second() {
        let mut arrivals = Arrivals::default();
        for (now, number) in [(100, 0), (600, 2), (610, 1), (620, 1), (1700, 4)] {
            arrivals.note(millis(now), number, millis(50), 1000);
        }
        let report = arrivals.report(millis(2900), 8, 1000);
        assert_eq!((report.received_packets, report.reordered_packets), (4, 1));
        assert_eq!((report.sent_bytes, report.received_bytes), (8000, 4000));
        assert_eq!(report.lost_share(), Some(0.5));
        let bytes: Vec<u64> = report.intervals.iter().map(|interval| interval.bytes).collect();
        assert_eq!(bytes, [1000, 2000, 0, 1000, 0]);
        assert_eq!(report.mean_bps(0.5, 1.5), Some(16_000.0));
        assert_eq!(report.mean_bps(1.5, 2.5), Some(8_000.0));
        // 50, 550, 560 and 1,650 ms under way.
        assert_eq!((report.delay_max_s, report.delay_p95_s), (Some(1.65), Some(1.65)));
        assert!((report.delay_mean_s.unwrap() - 0.7025).abs() < 1e-9);
    }

    #[test]
    fn where_nothing_arrived_there_is_no_delay() {
        let report = Arrivals::default().report(Duration::ZERO, 0, 1000);
        assert_eq!(
            (report.lost_share(), report.delay_median_s, report.mean_bps(0.0, 9.0)),
            (None, None, None)
        );
    }
}
