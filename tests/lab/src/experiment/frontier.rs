//! Use against delay on links whose capacity changes, in closed loops: `rate = "auto"` at its three priorities, cake-autorate's law, and an oracle.
//! Needs neither root nor a network.

use std::time::{Duration, Instant};

use pendulum_model::segment::Direction;
use pendulum_reference::autorate::patterns::KINDS;
use pendulum_reference::autorate::{self, Frontier, PRIORITIES, SECONDS, SEEDS_HELD_OUT, Score};
use serde_json::json;

use super::report::align_figures as align;
use super::{
    About, Experiment, ExperimentError, OwnCase, Printed, Progress, Report, RunOptions, write_charts,
};
use crate::chart::{Chart, Colour, Corner, Form, Panel, Range, Series};

/// See the module.
pub(super) struct ShaperFrontier;

const NAME: &str = "frontier";
const OTHERS: [&str; 3] = ["cake-autorate, defaults", "cake-autorate, its best", "oracle"];
const CASES: u32 = 2 * KINDS.len() as u32;

impl Experiment for ShaperFrontier {
    fn about(&self) -> About {
        let each = Duration::from_secs_f64(SECONDS) * CASES;
        About {
            name: NAME,
            source: "docs/results/autorate.md",
            what: "use against delay of rate = \"auto\", cake-autorate's law and an oracle on seven kinds of links, simulated; seconds are simulated",
            usual: each * SEEDS_HELD_OUT as u32,
            quick: each,
            shortest: each,
        }
    }

    fn run(
        &self,
        options: &RunOptions,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<Printed, ExperimentError> {
        let total = self.about().total(options);
        let seeds = (total.as_secs_f64() / (SECONDS * f64::from(CASES))) as usize;
        let mut rows = Vec::new();
        for kind in KINDS {
            progress(Progress {
                total,
                elapsed: total / CASES * rows.len() as u32,
                what: kind.name().into(),
            });
            options.interrupt.sleep_until(Instant::now())?;
            rows.extend(Direction::ALL.map(|direction| autorate::frontier(kind, direction, seeds.max(1))));
        }
        if let Some(out) = &options.out {
            write_charts(&[chart(&rows)], out)?;
        }
        Report::new(NAME, rows.iter().map(case).collect(), table(&rows)).finish(options)
    }
}

fn title(row: &Frontier) -> String {
    format!("{} {}", row.kind.name(), row.direction.name())
}

fn ms_and_percent((used, wait): Score) -> (f64, f64) {
    (1e3 * wait, 100.0 * used)
}

fn case(row: &Frontier) -> OwnCase {
    let ours = PRIORITIES.iter().map(|it| it.name()).zip(row.ours);
    let measured = ours
        .chain(OTHERS.into_iter().zip(row.others))
        .map(|(name, (used, wait))| (name.to_owned(), json!({"used_ratio": used, "wait_p95_s": wait})));
    OwnCase { name: title(row), measured: measured.collect(), ..OwnCase::default() }
}

/// Use in % / p95 in ms of each.
fn table(rows: &[Frontier]) -> String {
    let names = PRIORITIES.iter().map(|it| it.name()).chain(OTHERS);
    let mut lines = vec![["use % / p95 ms"].into_iter().chain(names).map(str::to_owned).collect::<Vec<_>>()];
    for row in rows {
        let figures = row.ours.iter().chain(&row.others).map(|score| {
            let (wait, used) = ms_and_percent(*score);
            format!("{used:.1} / {wait:.0}")
        });
        lines.push([title(row)].into_iter().chain(figures).collect());
    }
    let count = |of: usize| rows.iter().map(|row| row.counts[of]).sum::<usize>();
    format!(
        "{}balanced, compared with cake-autorate's best parameters for each case: better on both axes in {}, worse on both in {}\n",
        align(&lines),
        count(0),
        count(1)
    )
}

/// A panel for each kind and direction; the first one has the legend.
fn chart(rows: &[Frontier]) -> Chart {
    let scores = || rows.iter().flat_map(|row| row.ours.into_iter().chain(row.others));
    let least = scores().map(|score| 100.0 * score.0).fold(100.0, f64::min);
    let panels = rows.iter().enumerate().map(|(index, row)| {
        let label = |text: &str| if index == 0 { text.to_owned() } else { String::new() };
        let ours = row.ours.map(ms_and_percent).to_vec();
        let mut series = vec![
            Series::line(&label("auto: latency, balanced, throughput"), Colour::First, ours)
                .drawn(Form::MarkedLine),
        ];
        let looks =
            [(Colour::Second, Form::Marks), (Colour::Second, Form::Circles), (Colour::Paper, Form::Marks)];
        for ((name, score), (colour, form)) in OTHERS.into_iter().zip(row.others).zip(looks) {
            series.push(Series::line(&label(name), colour, vec![ms_and_percent(score)]).drawn(form));
        }
        let mut panel =
            Panel::new("p95 of the delay behind the shaper, ms", &format!("{}: use, %", title(row)), series);
        let points = || panel.series.iter().flat_map(|series| &series.points);
        let longest = points().map(|it| it.0).fold(0.0, f64::max);
        panel.range = Range { x: Some((0.0, 1.08 * longest)), y: Some((least - 2.0, 101.0)) };
        panel.legend = Corner::LowerRight;
        panel
    });
    Chart {
        name: NAME.into(),
        title: "Use against delay; to the upper left is better".into(),
        panels: panels.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pendulum_reference::autorate::patterns::Kind;

    #[test]
    fn each_contender_is_in_the_table_and_in_the_picture() {
        let row = Frontier {
            kind: Kind::Wifi,
            direction: Direction::Up,
            ours: [(0.8, 0.02), (0.9, 0.03), (0.95, 0.06)],
            others: [(0.7, 0.1), (0.75, 0.09), (0.9, 0.04)],
            counts: [4, 1],
        };
        let text = table(&[row]);
        assert!(
            text.contains("90.0 / 30")
                && text.contains("75.0 / 90")
                && text.contains("in 4, worse on both in 1"),
            "{text}"
        );
        let chart = chart(&[row]);
        assert_eq!(chart.panels[0].series.iter().map(|it| it.points.len()).sum::<usize>(), 6);
        assert_eq!(case(&row).measured["oracle"]["wait_p95_s"], 0.04);
    }
}
