//! The flows of both directions, as far as sources report them. Bounded.

use std::time::Duration;

use crate::sample::{FlowSample, sane};
use crate::segment::Direction;

/// Flows remembered at most; beyond it the one idle for longest goes.
const MAX_FLOWS: usize = 1024;

/// A flow that carried nothing for this long is forgotten.
const IDLE: Duration = Duration::from_secs(10);

/// Time constant of the recent bytes, seconds.
const RECENT_S: f64 = 10.0;

/// What is remembered of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowRecord {
    id: u64,
    pub(crate) direction: Direction,
    first: Duration,
    last_data: Duration,
    updated: Duration,
    recent_bytes: f64,
    pub(crate) in_flight: Option<f64>,
    pub(crate) in_flight_before: Option<f64>,
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

    /// Bytes of about the last ten seconds.
    pub(crate) fn recent_bytes(&self, now: Duration) -> f64 {
        self.recent_bytes * (-now.saturating_sub(self.updated).as_secs_f64() / RECENT_S).exp()
    }
}

/// All flows that carried data lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowBook {
    records: Vec<FlowRecord>,
    reported: bool,
}

impl FlowBook {
    /// Takes in one report.
    pub(crate) fn push(&mut self, now: Duration, flows: &[FlowSample]) {
        if flows.is_empty() {
            return;
        }
        self.reported = true;
        self.records.retain(|record| now.saturating_sub(record.last_data) <= IDLE);
        for flow in flows {
            self.update(now, flow);
        }
    }

    /// Flows of one direction.
    pub(crate) fn of(&self, direction: Direction) -> impl Iterator<Item = &FlowRecord> {
        self.records.iter().filter(move |record| record.direction == direction)
    }

    /// Part of a direction's recent bytes in flows that lasted at least `age`; `None` if flows are not reported at all.
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
        Some(if all > 0.0 { long / all } else { 0.0 })
    }

    fn update(&mut self, now: Duration, flow: &FlowSample) {
        let found =
            self.records.iter().position(|record| record.id == flow.id && record.direction == flow.direction);
        let index = match found {
            Some(index) => index,
            None if flow.data_bytes == 0 => return,
            None => self.insert(now, flow),
        };
        let record = &mut self.records[index];
        record.recent_bytes = record.recent_bytes(now) + flow.data_bytes as f64;
        record.updated = now;
        if flow.data_bytes > 0 {
            record.last_data = now;
        }
        record.in_flight_before = record.in_flight;
        record.in_flight = flow.in_flight_bytes.and_then(sane);
        record.base_round_trip = flow.base_round_trip.and_then(sane).filter(|seconds| *seconds > 0.0);
    }

    fn insert(&mut self, now: Duration, flow: &FlowSample) -> usize {
        let record = FlowRecord {
            id: flow.id,
            direction: flow.direction,
            first: now,
            last_data: now,
            updated: now,
            recent_bytes: 0.0,
            in_flight: None,
            in_flight_before: None,
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
        let mut book = FlowBook::default();
        let now = Duration::from_secs;
        assert_eq!(book.long_flow_share(Direction::Down, now(2), now(0)), None);
        for second in 1..=10 {
            book.push(now(second), &[report(second, 10_000)]);
        }
        let share =
            |book: &FlowBook, at| book.long_flow_share(Direction::Down, now(2), now(at)).expect("reported");
        // Each flow is reported once and lasted no time, however long ago.
        assert_eq!(share(&book, 10), 0.0);
        for second in 11..=40 {
            book.push(now(second), &[report(99, 10_000)]);
        }
        assert!(share(&book, 40) > 0.9, "{}", share(&book, 40));
    }

    #[test]
    fn memory_is_bounded_and_the_idle_are_forgotten() {
        let mut book = FlowBook::default();
        for id in 0..5_000 {
            book.push(Duration::from_millis(id), &[report(id, 1)]);
        }
        assert_eq!(book.records.len(), MAX_FLOWS);
        book.push(Duration::from_secs(60), &[report(1, 1)]);
        assert_eq!(book.records.len(), 1);
    }
}
