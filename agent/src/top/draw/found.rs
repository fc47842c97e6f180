//! The rates that the shaper finds: rate, wait behind it and decisions, on the columns of the other graphs.

use pendulum_model::autorate::Decision;
use pendulum_model::segment::Direction;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Palette;
use super::graph::EIGHTHS;
use crate::top::found::{is_shaped, line};
use crate::top::series::GraphColumn;
use crate::top::text;
use pendulum_wire::Link;

/// Rows of a direction with its graphs: words, rate, wait, decisions.
pub(super) const FULL: u16 = 4;
/// A wait of less than this does not fill the row, seconds.
const LEAST_WAIT: f32 = 0.02;

/// The directions whose rate is looked for.
pub(super) fn directions(link: &Link) -> Vec<Direction> {
    Direction::ALL.into_iter().filter(|&direction| line(link, direction).is_some()).collect()
}

/// Raised points up, lowered down; what stays has no weight.
fn glyph(decision: Decision) -> &'static str {
    match decision {
        Decision::Raise => "↑",
        Decision::Lower => "↓",
        Decision::Drain => "⇓",
        Decision::Outage => "×",
        Decision::Hold => "─",
    }
}

/// One direction in words; `None` if it has none.
fn words(link: &Link, direction: Direction, old: bool, palette: Palette) -> Option<Line<'static>> {
    let (shaped, auto) = line(link, direction)?;
    let (mark, verb, style) = match direction {
        Direction::Up => ("▲", "sent at", palette.up()),
        Direction::Down => ("▼", "let in at", palette.down()),
    };
    let said = if old {
        "  unknown: no answer".to_owned()
    } else if is_shaped(link) {
        let wait = auto.waits_behind_s.map_or("delay behind unknown".to_owned(), |seconds| {
            format!("{} wait behind", text::time(seconds))
        });
        format!("  {verb} {}, {wait}; {}: {}", text::rate(shaped.rate_bps as f64), auto.decision, auto.reason)
    } else {
        "  the link is not being shaped".to_owned()
    };
    Some(Line::from(vec![
        Span::styled(format!("{mark} automatic rate"), style.patch(palette.strong())),
        Span::raw(said),
    ]))
}

/// A row of bars; what is not known is a dot.
fn bars(
    values: impl Iterator<Item = Option<f32>> + Clone,
    least: f32,
    style: Style,
    palette: Palette,
) -> Line<'static> {
    let full = values.clone().flatten().fold(least, f32::max);
    let bar = |value: Option<f32>| match value {
        Some(value) => Span::styled(EIGHTHS[((value / full * 8.0).round() as usize).clamp(1, 8)], style),
        None => Span::styled("·", palette.faint()),
    };
    Line::from(values.map(bar).collect::<Vec<_>>())
}

/// Both directions, one above the other, in as many rows as there are.
pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    link: &Link,
    columns: &[GraphColumn],
    old: bool,
    palette: Palette,
) {
    let shown = directions(link);
    let is_full = area.height >= FULL * shown.len() as u16;
    let mut lines = Vec::new();
    for direction in shown {
        lines.extend(words(link, direction, old, palette));
        if !is_full {
            continue;
        }
        let style = if direction == Direction::Up { palette.up() } else { palette.down() };
        let moments = columns.iter().map(|column| column.found[direction]);
        lines.push(bars(moments.clone().map(|moment| Some(moment?.rate)), 1.0, style, palette));
        lines.push(bars(
            moments.clone().map(|moment| moment?.wait),
            LEAST_WAIT,
            palette.alarm().not_bold(),
            palette,
        ));
        let marks = moments.map(|moment| match moment {
            Some(moment) => Span::styled(glyph(moment.decision), palette.decision(moment.decision)),
            None => Span::raw(" "),
        });
        lines.push(Line::from(marks.collect::<Vec<_>>()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}
