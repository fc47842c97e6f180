//! The flows of both directions, as far as sources report them. Bounded.

use std::time::Duration;

use crate::constants::{FEW, RECENT};
use crate::sample::{FlowSample, sane};
use crate::segment::Direction;
use crate::thresholds::Thresholds;

/// Flows remembered at most; beyond it the one idle for longest goes.
const MAX_FLOWS: usize = 1024;

/// A flow that carried nothing for this long is forgotten. Timeouts double: a starving one may be silent for many seconds.
pub(crate) const RETRIES: Duration = Duration::from_secs(30);

/// Time constant of a flow's mean window and of its pace, seconds.
const STEADY_S: f64 = 4.0;

/// Silence that ends a bulk transfer: longer than between two reports (1 s), and than two round trips.
const PAUSE: Duration = Duration::from_millis(1500);

/// What is remembered of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRecord {
    id: u64,
    pub(crate) direction: Direction,
    first: Duration,
    last_data: Duration,
    updated: Duration,
    recent_bytes: f64,
    /// Latest round trip, seconds.
    round_trip: Option<f64>,
    /// Since when it has carried data without a pause.
    steady_since: Duration,
    /// Windows of the two latest reports with data, newest first.
    in_flight: [Option<f64>; 2],
    /// Mean window, bytes.
    window: Faded,
    /// Data rate from report to report, bytes per second.
    rate: Faded,
    /// The window fell from … to … in the report before the latest, and data came after it.
    fell: Option<(f64, f64)>,
    pub(crate) base_round_trip: Option<f64>,
}

impl FlowRecord {
    /// Time since the flow was first reported.
    pub(crate) fn age(&self, now: Duration) -> Duration {
        now.saturating_sub(self.first)
    }

    /// For how long the flow has carried data: a short one stays short after its end.
    fn lifetime(&self) -> Duration {
        self.last_data.saturating_sub(self.first)
    }

    /// For how long it has carried data without a pause, if it is a bulk transfer now: with at least
    /// `bulk_in_flight_segments` outstanding on average. `None` if it is none, or its window is not known.
    pub(crate) fn bulk_for(&self, now: Duration, thresholds: &Thresholds) -> Option<Duration> {
        let wanted = thresholds.bulk_in_flight_segments * thresholds.segment_bytes;
        (self.flows(now) && self.window.mean()? >= wanted).then(|| self.steady_for(now))
    }

    /// For how long it has carried data without a pause.
    pub(crate) fn steady_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.steady_since)
    }

    /// Whether it carries data now.
    pub(crate) fn flows(&self, now: Duration) -> bool {
        now.saturating_sub(self.last_data) <= self.longest_pause()
    }

    /// Variation of its rate from report to report, over its mean. `None` below four reports.
    pub(crate) fn rate_variation(&self) -> Option<f64> {
        self.rate.variation()
    }

    /// Its window before and after a fall that the latest report confirmed: the flow goes on, it has not ended.
    pub(crate) fn fell(&self, now: Duration) -> Option<(f64, f64)> {
        self.fell.filter(|_| self.flows(now))
    }

    fn longest_pause(&self) -> Duration {
        let round_trips = self
            .round_trip
            .map_or(Duration::ZERO, |seconds| Duration::from_secs_f64(2.0 * seconds.min(60.0)));
        PAUSE.max(round_trips)
    }

    /// Bytes of about the last ten seconds.
    pub(crate) fn recent_bytes(&self, now: Duration) -> f64 {
        self.recent_bytes * (-now.saturating_sub(self.updated).as_secs_f64() / RECENT.as_secs_f64()).exp()
    }
}

impl FlowRecord {
    /// Takes in a report of this flow.
    fn note(&mut self, now: Duration, flow: &FlowSample) {
        self.recent_bytes = self.recent_bytes(now) + flow.data_bytes as f64;
        self.updated = now;
        self.round_trip = flow.round_trip.and_then(sane).or(self.round_trip);
        self.base_round_trip = flow.base_round_trip.and_then(sane).filter(|seconds| *seconds > 0.0);
        self.fell = None;
        if flow.data_bytes == 0 {
            return;
        }
        let since = now.saturating_sub(self.last_data);
        if since > self.longest_pause() {
            self.steady_since = now;
            (self.window, self.rate, self.in_flight) = Default::default();
        }
        self.last_data = now;
        self.fell = match self.in_flight {
            [Some(after), Some(before)] if after < before => Some((before, after)),
            _ => None,
        };
        let seconds = since.as_secs_f64();
        if seconds > 0.0 {
            self.rate.push(flow.data_bytes as f64 / seconds, seconds);
        }
        let in_flight = flow.in_flight_bytes.and_then(sane);
        if let Some(bytes) = in_flight {
            self.window.push(bytes, seconds);
        }
        self.in_flight = [in_flight, self.in_flight[0]];
    }
}

/// Mean and variance of a figure, older ones fading with [`STEADY_S`].
#[derive(Clone, Copy, Debug, Default)]
struct Faded {
    count: u32,
    mean: f64,
    variance: f64,
}

impl Faded {
    /// A value that held for so many seconds.
    fn push(&mut self, value: f64, seconds: f64) {
        self.count = self.count.saturating_add(1);
        // The first values count alike: none of them is the beginning.
        let weight = (1.0 - (-seconds / STEADY_S).exp()).max(1.0 / f64::from(self.count));
        let off = value - self.mean;
        self.mean += weight * off;
        self.variance = (1.0 - weight) * (self.variance + weight * off * off);
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then_some(self.mean)
    }

    /// Standard deviation over mean.
    fn variation(&self) -> Option<f64> {
        (self.count > FEW as u32 && self.mean > 0.0).then(|| self.variance.sqrt() / self.mean)
    }
}

/// All flows that carried data lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowTable {
    records: Vec<FlowRecord>,
    reported: bool,
}

impl FlowTable {
    /// Takes in one report.
    pub(crate) fn push(&mut self, now: Duration, flows: &[FlowSample]) {
        if flows.is_empty() {
            return;
        }
        self.reported = true;
        self.records.retain(|record| now.saturating_sub(record.last_data) <= RETRIES);
        for flow in flows {
            self.update(now, flow);
        }
    }

    /// Flows of one direction.
    pub(crate) fn of(&self, direction: Direction) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().filter(move |record| record.direction == direction)
    }

    /// Part of a direction's recent bytes in flows that lasted at least `age`; `None` if no
    /// flow of it is known.
    pub(crate) fn long_flow_share(&self, direction: Direction, age: Duration, now: Duration) -> Option<f64> {
        if !self.reported {
            return None;
        }
        let (mut long, mut all) = (0.0, 0.0);
        for record in self.of(direction) {
            let bytes = record.recent_bytes(now);
            all += bytes;
            if record.lifetime() >= age {
                long += bytes;
            }
        }
        (all > 0.0).then(|| long / all)
    }

    fn update(&mut self, now: Duration, flow: &FlowSample) {
        let found =
            self.records.iter().position(|record| record.id == flow.id && record.direction == flow.direction);
        let index = match found {
            Some(index) => index,
            None if flow.data_bytes == 0 => return,
            None => self.insert(now, flow),
        };
        self.records[index].note(now, flow);
    }

    fn insert(&mut self, now: Duration, flow: &FlowSample) -> usize {
        let record = FlowRecord {
            id: flow.id,
            direction: flow.direction,
            first: now,
            last_data: now,
            updated: now,
            recent_bytes: 0.0,
            round_trip: None,
            steady_since: now,
            in_flight: [None; 2],
            window: Faded::default(),
            rate: Faded::default(),
            fell: None,
            base_round_trip: None,
        };
        if self.records.len() < MAX_FLOWS {
            self.records.push(record);
            return self.records.len() - 1;
        }
        let oldest = (0..self.records.len()).min_by_key(|&index| self.records[index].last_data).unwrap_or(0);
        self.records[oldest] = record;
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    mod by_hand;

    fn report(id: u64, bytes: u64) -> FlowSample {
        FlowSample {
            id,
            direction: Direction::Down,
            data_bytes: bytes,
            in_flight_bytes: None,
            round_trip: None,
            base_round_trip: None,
        }
    }

    #[test]
    fn many_short_flows_are_not_long() {
        let mut book = FlowTable::default();
        let now = Duration::from_secs;
        assert_eq!(book.long_flow_share(Direction::Down, now(2), now(0)), None);
        for second in 1..=10 {
            book.push(now(second), &[report(second, 10_000)]);
        }
        let share =
            |book: &FlowTable, at| book.long_flow_share(Direction::Down, now(2), now(at)).expect("reported");
        // Each flow is reported once and lasted no time, however long ago.
        assert_eq!(share(&book, 10), 0.0);
        for second in 11..=40 {
            book.push(now(second), &[report(99, 10_000)]);
        }
        assert!(share(&book, 40) > 0.9, "{}", share(&book, 40));
    }

    #[test]
    fn memory_is_bounded_and_the_idle_are_forgotten() {
        let mut book = FlowTable::default();
        for id in 0..5_000 {
            book.push(Duration::from_millis(id), &[report(id, 1)]);
        }
        assert_eq!(book.records.len(), MAX_FLOWS);
        book.push(Duration::from_secs(60), &[report(1, 1)]);
        assert_eq!(book.records.len(), 1);
    }
}
