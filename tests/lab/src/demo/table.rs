//! The table at the end: each figure as the kernel has it and as the agent read it, side by side.

use pendulum_model::segment::Direction;

use super::figures::{Side, StretchFindings};
use super::format;
use super::style::{Glyphs, StyledLine, Tone};

const LABEL: usize = 23;
const CELL: usize = 9;
/// Between two stretches.
const GAP: usize = 1;

/// All stretches beside each other where there is room, else one below the other.
pub(super) fn table(outcomes: &[StretchFindings], glyphs: &Glyphs, columns: usize) -> Vec<StyledLine> {
    if columns >= LABEL + outcomes.len() * (2 * CELL + GAP) {
        return part(outcomes, glyphs);
    }
    let mut lines = Vec::new();
    for outcome in outcomes {
        if !lines.is_empty() {
            lines.push(StyledLine::new());
        }
        lines.extend(part(std::slice::from_ref(outcome), glyphs));
    }
    lines
}

/// How a figure is found in one side, and written.
struct Row {
    label: &'static str,
    tone: Tone,
    figure: fn(&Side) -> Option<String>,
}

const UP: Tone = Tone::Of(Direction::Up);
const DOWN: Tone = Tone::Of(Direction::Down);

const ROWS: [Row; 10] = [
    Row { label: "download, Mb/s", tone: DOWN, figure: |side| side.goodput.download_bps.map(megabits) },
    Row {
        label: "upload, kb/s",
        tone: UP,
        figure: |side| side.goodput.upload_bps.filter(|&b| b > 0.0).map(kilobits),
    },
    Row {
        label: "ratio",
        tone: Tone::Plain,
        figure: |side| side.goodput.ratio.map(|ratio| format!("{ratio:.2}")),
    },
    Row { label: "round trip, median", tone: Tone::Plain, figure: |side| side.rtt_s.map(format::time) },
    Row { label: "outstanding down, B", tone: DOWN, figure: |side| side.outstanding_bytes.down.map(whole) },
    Row {
        label: "outstanding up, B",
        tone: UP,
        figure: |side| side.outstanding_bytes.up.filter(|&b| b > 0.0).map(whole),
    },
    Row {
        label: "retransmitted down",
        tone: DOWN,
        figure: |side| side.retransmitted.down.map(format::grouped),
    },
    Row { label: "retransmitted up", tone: UP, figure: |side| side.retransmitted.up.map(format::grouped) },
    Row {
        label: "downlink queue max, B",
        tone: DOWN,
        figure: |side| side.queue_max_bytes.down.map(format::grouped),
    },
    Row {
        label: "uplink queue max, B",
        tone: UP,
        figure: |side| side.queue_max_bytes.up.map(format::grouped),
    },
];

fn part(outcomes: &[StretchFindings], glyphs: &Glyphs) -> Vec<StyledLine> {
    let mut lines = vec![
        across(outcomes, "", Tone::Plain, |outcome| {
            StyledLine::new().with(Tone::Strong, centred(outcome.stretch.label, 2 * CELL))
        }),
        across(outcomes, "", Tone::Plain, |_| {
            StyledLine::new().with(Tone::Faint, format!("{:>CELL$}{:>CELL$}", "kernel", "agent"))
        }),
    ];
    for row in &ROWS {
        lines.push(across(outcomes, row.label, row.tone, |outcome| {
            let cell = |side| (row.figure)(side).unwrap_or_else(|| glyphs.unknown.to_owned());
            StyledLine::plain(format!("{:>CELL$}{:>CELL$}", cell(&outcome.truth), cell(&outcome.agent)))
        }));
    }
    if outcomes.iter().any(|outcome| outcome.verdict.is_some()) {
        lines.push(across(outcomes, "verdict", Tone::Plain, |outcome| {
            let verdict = outcome.verdict.as_deref().unwrap_or(glyphs.unknown);
            StyledLine::new().with(Tone::Strong, format!("{verdict:>width$}", width = 2 * CELL))
        }));
    }
    lines
}

fn across(
    outcomes: &[StretchFindings],
    label: &str,
    tone: Tone,
    cells: impl Fn(&StretchFindings) -> StyledLine,
) -> StyledLine {
    let line = StyledLine::plain(" ").with(tone, label).padded(LABEL);
    outcomes.iter().fold(line, |line, outcome| {
        let end = line.width() + 2 * CELL + GAP;
        line.then(cells(outcome)).padded(end)
    })
}

/// Above the right part of the two columns, which are set to the right.
fn centred(text: &str, width: usize) -> String {
    format!("{text:>width$}")
}

fn megabits(bits_per_second: f64) -> String {
    format!("{:.2}", bits_per_second / 1e6)
}

fn kilobits(bits_per_second: f64) -> String {
    format!("{:.0}", bits_per_second / 1e3)
}

fn whole(bytes: f64) -> String {
    format::grouped(bytes.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::figures::tests::outcome;
    use crate::demo::style::Palette;

    fn outcomes() -> Vec<StretchFindings> {
        let mut outcomes = vec![outcome(0, 2293.0, 0.0), outcome(1, 312.0, 176.0), outcome(2, 210.0, 178.0)];
        outcomes[1].verdict = Some("locked_uplink".into());
        outcomes
    }

    fn drawn(columns: usize) -> String {
        let lines = table(&outcomes(), &Glyphs::UNICODE, columns);
        assert!(lines.iter().all(|line| line.width() <= columns), "{columns}");
        lines.iter().map(|line| line.render(Palette::Monochrome) + "\n").collect()
    }

    #[test]
    fn in_80_columns_stretches_stand_side_by_side() {
        assert_eq!(drawn(80), include_str!("table_80.txt"));
    }

    #[test]
    fn in_fewer_columns_they_stand_below_each_other() {
        let text = drawn(60);
        assert_eq!(text.matches("download, Mb/s").count(), 3);
        assert_eq!(text.matches("verdict").count(), 1);
    }
}
