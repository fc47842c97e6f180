//! What a stretch was like, by the kernel's figures and by the agent's.

use pendulum_model::segment::{Direction, PerDirection};

use super::plan::Stretch;
use super::reading::{DirectionReading, Reading};
use super::session::Observed;
use crate::experiment::{Figures, Measurement};
use crate::statistics::median;

/// One side's figures of one stretch; `None` where it cannot know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Side {
    /// Payload delivered, bit/s, and the ratio.
    pub(super) goodput: Figures,
    /// Median round trip over the whole path, seconds.
    pub(super) rtt_s: Option<f64>,
    /// Median of sent and not acknowledged, bytes.
    pub(super) outstanding_bytes: PerDirection<Option<f64>>,
    pub(super) retransmitted: PerDirection<Option<u64>>,
    pub(super) queue_max_bytes: PerDirection<Option<u64>>,
}

/// A stretch and what was found in its settled part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StretchFindings {
    pub(super) stretch: Stretch,
    /// By the senders' sockets and by tc.
    pub(super) truth: Side,
    pub(super) agent: Side,
    /// Mean length of each queue, by tc, bytes.
    pub(super) queue_mean_bytes: PerDirection<f64>,
    pub(super) verdict: Option<String>,
    pub(super) reason: Option<String>,
    /// The figures behind it.
    pub(super) evidence: Option<String>,
}

impl StretchFindings {
    /// Evaluates one stretch of a run.
    pub(super) fn of(stretch: &Stretch, observed: &Observed) -> Self {
        let (from, to) = (stretch.settled(), stretch.to);
        let measured = observed.record.measure(from, to);
        let readings: Vec<&Reading> =
            observed.readings.iter().filter(|reading| (from..=to).contains(&reading.at)).collect();
        let last = readings.last();
        let mean =
            |summary: Option<crate::truth::QueueSummary>| summary.map_or(0.0, |queue| queue.mean_bytes);
        Self {
            stretch: *stretch,
            queue_mean_bytes: PerDirection {
                up: mean(measured.uplink_queue),
                down: mean(measured.downlink_queue),
            },
            truth: Side::by_kernel(&measured),
            agent: Side::by_agent(&readings),
            verdict: last.and_then(|reading| reading.verdict.clone()),
            reason: last.and_then(|reading| reading.reason.clone()),
            evidence: last.and_then(|reading| reading.evidence.clone()),
        }
    }

    pub(super) fn download_bps(&self) -> Option<f64> {
        self.truth.goodput.download_bps
    }
}

impl Side {
    fn by_kernel(measured: &Measurement) -> Self {
        Self {
            goodput: measured.figures,
            rtt_s: measured.rtt_median_s.down,
            outstanding_bytes: measured.outstanding_median_bytes,
            retransmitted: measured.retransmitted_segments,
            queue_max_bytes: PerDirection {
                up: measured.uplink_queue.map(|queue| queue.max_bytes),
                down: measured.downlink_queue.map(|queue| queue.max_bytes),
            },
        }
    }

    fn by_agent(readings: &[&Reading]) -> Self {
        let each = |direction: Direction| readings.iter().map(move |reading| &reading.directions[direction]);
        let goodput = |direction| mean(each(direction).map(|reading| reading.goodput_bps));
        // The gateway stands between two parts of the path; the whole is their sum, where both are known.
        let rtt = readings
            .iter()
            .filter_map(|reading| Some(reading.directions.up.rtt_s? + reading.directions.down.rtt_s?));
        let level = |reading: &DirectionReading| {
            reading.queue.map(|queue| queue.bytes.max(queue.peak_bytes.unwrap_or(0)))
        };
        Self {
            goodput: match (goodput(Direction::Down), goodput(Direction::Up)) {
                (Some(download), Some(upload)) => Figures::new(download, upload),
                _ => Figures::default(),
            },
            rtt_s: median(rtt.collect()),
            outstanding_bytes: PerDirection::from_fn(|x| {
                median(each(x).map(|reading| reading.in_flight_bytes as f64).collect())
            }),
            retransmitted: PerDirection::from_fn(|x| {
                let total = |reading: &DirectionReading| reading.retransmitted_segments;
                Some(each(x).next_back().map(total)?.saturating_sub(each(x).next().map(total)?))
            }),
            queue_max_bytes: PerDirection::from_fn(|x| each(x).filter_map(level).max()),
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::demo::plan::DemoPlan;

    /// A stretch of the usual plan with the given throughputs, kb/s.
    pub(in crate::demo) fn outcome(index: usize, download: f64, upload: f64) -> StretchFindings {
        let side = |share: f64| Side {
            goodput: Figures::new(download * 1e3 * share, upload * 1e3 * share),
            rtt_s: Some(0.1 + upload / 150.0),
            outstanding_bytes: PerDirection { up: (upload > 0.0).then_some(52_128.0), down: Some(28_960.0) },
            retransmitted: PerDirection { up: Some(index as u64), down: Some(12) },
            queue_max_bytes: PerDirection { up: Some(29_954), down: Some(30_000) },
        };
        let agent = Side { queue_max_bytes: PerDirection::default(), ..side(0.99) };
        StretchFindings {
            stretch: DemoPlan::new(DemoPlan::USUAL).stretches[index],
            truth: side(1.0),
            agent,
            queue_mean_bytes: PerDirection { up: if upload > 0.0 { 26_000.0 } else { 0.0 }, down: 500.0 },
            verdict: None,
            reason: None,
            evidence: None,
        }
    }

    #[test]
    fn the_agent_s_figures_of_a_stretch_are_taken_from_its_readings() {
        let reading = |seconds: u64, goodput_bps: f64, retransmitted_segments: u64, rtt_s: Option<f64>| {
            let half = DirectionReading {
                goodput_bps,
                retransmitted_segments,
                rtt_s,
                ..DirectionReading::default()
            };
            let at = Duration::from_secs(seconds);
            Reading { at, directions: PerDirection { up: half.clone(), down: half }, ..Reading::default() }
        };
        let readings =
            [reading(1, 100.0, 5, None), reading(2, 300.0, 7, Some(0.5)), reading(3, 200.0, 9, Some(0.25))];
        let side = Side::by_agent(&readings.iter().collect::<Vec<_>>());
        assert_eq!(side.goodput, Figures::new(200.0, 200.0));
        assert_eq!(side.retransmitted.up, Some(4));
        assert_eq!(side.rtt_s, Some(1.0));
        assert_eq!(side.queue_max_bytes, PerDirection::default());
        assert_eq!(Side::by_agent(&[]), Side::default());
    }
}
