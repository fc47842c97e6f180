//! Samples as rows of integers, and rows as columns.

use std::collections::BTreeMap;
use std::time::Duration;

use pendulum_model::sample::{
    AckBursts, BaseRoundTrip, Composition, DirectionSample, MeasuredRate, QueueSample, QueueSource, Sample,
    Traffic,
};
use pendulum_model::segment::{Direction, PerDirection};
use serde::{Deserialize, Serialize};

/// What stands for "not known" in a row.
const UNKNOWN: i32 = i32::MIN;

/// Columns of the link.
const LINK: [&str; 7] = [
    "pause_us",
    "span_us",
    "round_trip_us",
    "base_round_trip_us",
    "base_is_proven",
    "up_rtt_us",
    "down_rtt_us",
];
/// Columns of each direction.
const DIRECTION: [&str; 19] = [
    "queue_source",
    "queue_min_bytes",
    "queue_mean_bytes",
    "queue_max_bytes",
    "queue_uncertainty_bytes",
    "wire_bytes",
    "data_bytes",
    "data_segments",
    "ack_segments",
    "retransmitted_segments",
    "bursts",
    "burst_acks",
    "long_burst_acks",
    "tcp_data_bytes",
    "ack_bytes",
    "udp_bytes",
    "other_bytes",
    "rate_bytes_per_second",
    "rate_age_ms",
];
const WIDTH: usize = LINK.len() + 2 * DIRECTION.len();
/// Rows of a file: more is no recording of ours.
pub(super) const MAX_ROWS: usize = 9_000;

const SOURCES: [QueueSource; 4] =
    [QueueSource::Tracepoint, QueueSource::Capture, QueueSource::Netlink, QueueSource::Estimate];

/// A sample without its flows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SampleRow([i32; WIDTH]);

/// One figure of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum FigureColumn {
    /// It never changes.
    Same(Option<i32>),
    Each(Vec<Option<i32>>),
}

fn number(value: f64) -> i32 {
    // Saturates; NaN would be 0, and no source sends it.
    (value.round() as i32).max(UNKNOWN + 1)
}

fn count(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn maybe(value: Option<f64>) -> i32 {
    value.map_or(UNKNOWN, number)
}

fn micros(seconds: Option<f64>) -> i32 {
    maybe(seconds.map(|seconds| seconds * 1e6))
}

fn known(value: i32) -> Option<f64> {
    (value != UNKNOWN).then_some(f64::from(value))
}

impl SampleRow {
    /// `previous`: the end of the sample before. `rtt`: from the gateway to each side and back.
    pub(super) fn of(sample: &Sample, previous: Duration, rtt: PerDirection<Option<f64>>) -> Self {
        let mut row = [UNKNOWN; WIDTH];
        let base = sample.base_round_trip;
        let link = [
            number(sample.at.saturating_sub(previous).as_secs_f64() * 1e6),
            number(sample.span.as_secs_f64() * 1e6),
            micros(sample.round_trip),
            micros(base.map(|base| base.seconds)),
            base.map_or(UNKNOWN, |base| i32::from(base.is_proven)),
            micros(rtt.up),
            micros(rtt.down),
        ];
        row[..LINK.len()].copy_from_slice(&link);
        for x in Direction::ALL {
            row[column(x, 0)..column(x, DIRECTION.len())].copy_from_slice(&half(&sample.link[x], sample.at));
        }
        Self(row)
    }

    /// Mean level of a buffer.
    pub(super) fn level(&self, direction: Direction) -> Option<f64> {
        known(self.0[column(direction, 2)])
    }

    fn sample(&self, previous: Duration) -> Sample {
        let time = |value: i32| Duration::from_micros(u64::try_from(value).unwrap_or(0));
        let seconds = |value: i32| known(value).map(|value| value / 1e6);
        let [pause, span, round_trip, base, proven, ..] = self.0;
        let at = previous + time(pause);
        Sample {
            at,
            span: time(span),
            link: PerDirection::from_fn(|x| direction(&self.0[column(x, 0)..column(x, DIRECTION.len())], at)),
            round_trip: seconds(round_trip),
            base_round_trip: seconds(base).map(|seconds| BaseRoundTrip { seconds, is_proven: proven == 1 }),
            flows: Vec::new(),
        }
    }
}

const fn column(direction: Direction, number: usize) -> usize {
    LINK.len() + direction as usize * DIRECTION.len() + number
}

fn half(half: &DirectionSample, at: Duration) -> [i32; DIRECTION.len()] {
    let queue = |figure: fn(&QueueSample) -> f64| maybe(half.queue.as_ref().map(figure));
    let source = half.queue.and_then(|queue| SOURCES.iter().position(|source| *source == queue.source));
    let Traffic { wire_bytes, data_bytes, data_segments, ack_segments, retransmitted_segments } =
        half.traffic;
    let AckBursts { bursts, segments, segments_in_long_bursts } = half.ack_bursts;
    let Composition { tcp_data, ack, udp, other } = half.composition;
    let age = |rate: MeasuredRate| at.saturating_sub(rate.measured_at).as_secs_f64() * 1e3;
    [
        source.map_or(UNKNOWN, |source| source as i32),
        queue(|queue| queue.min_bytes),
        queue(|queue| queue.mean_bytes),
        queue(|queue| queue.max_bytes),
        queue(|queue| queue.uncertainty_bytes),
        count(wire_bytes),
        count(data_bytes),
        count(data_segments),
        count(ack_segments),
        count(retransmitted_segments),
        count(bursts),
        count(segments),
        count(segments_in_long_bursts),
        count(tcp_data),
        count(ack),
        count(udp),
        count(other),
        maybe(half.rate.map(|rate| rate.bytes_per_second)),
        maybe(half.rate.map(age)),
    ]
}

fn direction(figures: &[i32], at: Duration) -> DirectionSample {
    let number = |index: usize| known(figures[index]);
    let count = |index: usize| u64::try_from(figures[index]).unwrap_or(0);
    let queue = || {
        Some(QueueSample {
            source: *SOURCES.get(usize::try_from(figures[0]).ok()?)?,
            min_bytes: number(1)?,
            mean_bytes: number(2)?,
            max_bytes: number(3)?,
            uncertainty_bytes: number(4)?,
        })
    };
    DirectionSample {
        queue: queue(),
        traffic: Traffic {
            wire_bytes: count(5),
            data_bytes: count(6),
            data_segments: count(7),
            ack_segments: count(8),
            retransmitted_segments: count(9),
        },
        ack_bursts: AckBursts { bursts: count(10), segments: count(11), segments_in_long_bursts: count(12) },
        composition: Composition { tcp_data: count(13), ack: count(14), udp: count(15), other: count(16) },
        rate: number(17).map(|bytes_per_second| MeasuredRate {
            bytes_per_second,
            measured_at: at.saturating_sub(Duration::from_millis(count(18))),
        }),
    }
}

fn names() -> impl Iterator<Item = String> {
    let halves = ["up", "down"].into_iter().flat_map(|side| DIRECTION.map(|name| format!("{side}_{name}")));
    LINK.map(str::to_owned).into_iter().chain(halves)
}

pub(super) fn columns(rows: &[SampleRow]) -> BTreeMap<String, FigureColumn> {
    let of = |index: usize| {
        let values = || rows.iter().map(|row| Some(row.0[index]).filter(|value| *value != UNKNOWN));
        match values().next() {
            None => FigureColumn::Same(None),
            Some(first) if values().all(|value| value == first) => FigureColumn::Same(first),
            Some(_) => FigureColumn::Each(values().collect()),
        }
    };
    names().enumerate().map(|(index, name)| (name, of(index))).collect()
}

/// The samples again, the first at one hour: long enough for any age.
///
/// # Errors
/// What does not fit together.
pub(super) fn samples(columns: &BTreeMap<String, FigureColumn>, rows: usize) -> Result<Vec<Sample>, String> {
    if rows > MAX_ROWS {
        return Err(format!("it has {rows} rows; at most {MAX_ROWS} are possible"));
    }
    let mut table = vec![SampleRow([UNKNOWN; WIDTH]); rows];
    for (index, name) in names().enumerate() {
        // A column that another version does not write is not known.
        match columns.get(&name) {
            None | Some(FigureColumn::Same(None)) => {}
            Some(FigureColumn::Same(Some(value))) => table.iter_mut().for_each(|row| row.0[index] = *value),
            Some(FigureColumn::Each(values)) if values.len() == rows => {
                for (row, value) in table.iter_mut().zip(values) {
                    row.0[index] = value.unwrap_or(UNKNOWN);
                }
            }
            Some(FigureColumn::Each(values)) => {
                return Err(format!("column {name} has {} values for {rows} rows", values.len()));
            }
        }
    }
    let mut at = Duration::from_secs(3600);
    let next = |row: &SampleRow| {
        let sample = row.sample(at);
        at = sample.at;
        sample
    };
    Ok(table.iter().map(next).collect())
}
