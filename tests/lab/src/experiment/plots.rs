//! The papers' plots that every experiment shares: throughput over time, outstanding data and queue of each direction, ACK bursts.

use std::time::Duration;

use pendulum_model::segment::{Direction, PerDirection};

use super::record::TransferSample;
use super::results::ScenarioRun;
use crate::chart::{Chart, Colour, Form, Panel, Series};
use crate::truth::AckBursts;

/// Of each direction: its colour and what it is called.
pub(super) const fn colour(direction: Direction) -> Colour {
    match direction {
        Direction::Up => Colour::Up,
        Direction::Down => Colour::Down,
    }
}

const fn names(direction: Direction) -> (&'static str, &'static str) {
    match direction {
        Direction::Up => ("upload", "uplink"),
        Direction::Down => ("download", "downlink"),
    }
}

/// Throughput is the mean over this long (000 Fig. 1 looks alike).
const THROUGHPUT_WINDOW: Duration = Duration::from_secs(2);

/// The plots of one run.
pub(super) fn of_run(run: &ScenarioRun) -> Vec<Chart> {
    let title = |what: &str| format!("{} ({}): {what}", run.scenario.name, run.congestion_control);
    let mut charts = vec![
        Chart { name: "throughput".into(), title: title("throughput"), panels: vec![throughput(run)] },
        Chart { name: "queues".into(), title: title("both queues"), panels: vec![both_queues(run, None)] },
        Chart {
            name: "outstanding".into(),
            title: title("outstanding data and queue"),
            panels: Direction::ALL.map(|direction| outstanding(run, direction)).into(),
        },
    ];
    if let Some(bursts) = run.ack_bursts.last() {
        charts.push(Chart {
            name: "ack-bursts".into(),
            title: title("ACKs between two data segments"),
            panels: vec![burst_lengths(bursts)],
        });
    }
    charts
}

/// Payload delivered, both directions over time.
pub(super) fn throughput(run: &ScenarioRun) -> Panel {
    let series = [Direction::Down, Direction::Up].map(|direction| {
        let points = rate(&run.record.transfers, |sample| sample.delivered[direction]);
        Series::line(names(direction).0, colour(direction), points)
    });
    timed(run, "throughput, kbit/s", series.into())
}

fn rate(samples: &[TransferSample], bytes: impl Fn(&TransferSample) -> u64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    let mut first = 0;
    for (index, sample) in samples.iter().enumerate() {
        while samples[first].at + THROUGHPUT_WINDOW < sample.at && first + 1 < index {
            first += 1;
        }
        let seconds = (sample.at - samples[first].at).as_secs_f64();
        if seconds > 0.0 {
            let gained = bytes(sample).saturating_sub(bytes(&samples[first]));
            points.push((sample.at.as_secs_f64(), gained as f64 * 8.0 / 1000.0 / seconds));
        }
    }
    points
}

/// Both buffers over time, or over a part of it.
pub(super) fn both_queues(run: &ScenarioRun, part: Option<(f64, f64)>) -> Panel {
    let series = [Direction::Down, Direction::Up].map(|direction| {
        let name = format!("{} buffer", names(direction).1);
        Series::line(&name, colour(direction), queue(run, direction, part))
    });
    let mut panel = timed(run, "queue, kB", series.into());
    panel.range.x = part.or(panel.range.x);
    panel
}

fn queue(run: &ScenarioRun, direction: Direction, part: Option<(f64, f64)>) -> Vec<(f64, f64)> {
    let points = run
        .record
        .queues
        .iter()
        .map(|sample| (sample.at.as_secs_f64(), sample.queue[direction].backlog_bytes as f64 / 1000.0));
    points.filter(|point| part.is_none_or(|(from, to)| (from..=to).contains(&point.0))).collect()
}

/// Outstanding data of one direction's senders, and the buffer in their way (000 Fig. 3.1, 3.3, 5, 6, 8).
pub(super) fn outstanding(run: &ScenarioRun, direction: Direction) -> Panel {
    let (transfer, link) = names(direction);
    let points = run.record.transfers.iter();
    let points = points
        .map(|sample| (sample.at.as_secs_f64(), sample.outstanding[direction] as f64 / 1000.0))
        .collect();
    let series = vec![
        Series::line(&format!("{link} buffer"), colour(direction), queue(run, direction, None)),
        Series::line(&format!("{transfer}, outstanding"), Colour::Paper, points),
    ];
    timed(run, "kB", series)
}

/// A panel over the whole run.
pub(super) fn timed(run: &ScenarioRun, y: &str, series: Vec<Series>) -> Panel {
    let mut panel = Panel::new("time, s", y, series);
    panel.range.x = Some((0.0, run.scenario.length.as_secs_f64()));
    panel
}

/// Histogram of the ACK bursts of both directions, bursts of more than 30 with those of 30 (000 Fig. 3.4).
pub(super) fn burst_lengths(bursts: &PerDirection<AckBursts>) -> Panel {
    const LONGEST: u32 = 30;
    let series = [Direction::Up, Direction::Down].map(|direction| {
        let histogram = &bursts[direction].histogram;
        let total: u64 = histogram.values().sum();
        let share = |length: u32| {
            let counted = if length == LONGEST { length..=u32::MAX } else { length..=length };
            histogram.range(counted).map(|(_, count)| count).sum::<u64>() as f64 / total.max(1) as f64
        };
        let points = (1..=LONGEST).map(|length| (f64::from(length), share(length) * 100.0)).collect();
        let form = if direction == Direction::Up { Form::Bars } else { Form::MarkedLine };
        Series::line(&format!("ACKs on the {}", names(direction).1), colour(direction), points).drawn(form)
    });
    Panel::new("ACKs in a burst", "share of the bursts, %", series.into())
}
