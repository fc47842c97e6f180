//! A picture of each case: what the link could carry, what it carried, and what waited in its own buffer.

use std::path::Path;

use pendulum_model::segment::Direction;

use super::measure;
use super::pairs::Pair;
use crate::capacity::{LinkReading, OPPORTUNITY_BYTES};
use crate::chart::{Chart, Colour, Form, Panel, Series};
use crate::experiment::{ExperimentError, write_charts};

/// Writes the picture of one case.
pub(super) fn write(
    out: &Path,
    pair: &Pair,
    contender: &str,
    readings: &measure::LinkSeries,
) -> Result<(), ExperimentError> {
    write_charts(&[chart(pair, contender, readings)], out)
}

fn chart(pair: &Pair, contender: &str, readings: &measure::LinkSeries) -> Chart {
    let mut panels = Vec::new();
    for (direction, colour, word) in
        [(Direction::Down, Colour::Down, "down"), (Direction::Up, Colour::Up, "up")]
    {
        let own: Vec<LinkReading> = readings.iter().map(|reading| reading[direction]).collect();
        let rate = |bytes: fn(&LinkReading) -> u64| -> Vec<(f64, f64)> {
            let pairs = own.windows(2).filter_map(|pair| {
                let seconds = pair[1].at.checked_sub(pair[0].at)?.as_secs_f64();
                let grown = bytes(&pair[1]).saturating_sub(bytes(&pair[0])) as f64;
                (seconds > 0.0).then(|| (pair[1].at.as_secs_f64(), grown * 8.0 / seconds / 1e6))
            });
            pairs.collect()
        };
        let capacity = Series::line(
            "capacity",
            Colour::Limit,
            rate(|reading| reading.opportunities * OPPORTUNITY_BYTES),
        );
        let carried = Series::line("carried", colour, rate(|reading| reading.delivered_bytes));
        panels.push(Panel::new("s", &format!("{word}, Mb/s"), vec![capacity.drawn(Form::Dashes), carried]));
        let waiting =
            own.iter().map(|reading| (reading.at.as_secs_f64(), reading.queued_bytes as f64 / 1e3)).collect();
        panels.push(Panel::new("s", "hidden queue, kB", vec![Series::line("", colour, waiting)]));
    }
    Chart { name: format!("{}-{contender}", pair.name), title: format!("{}: {contender}", pair.name), panels }
}
