//! The phase strip and the two queue graphs; time runs to the right.

use pendulum_model::findings::Phase;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Palette;
use crate::top::series::{GraphColumn, QueuedBytes};
use crate::top::text;
use crate::top::view::View;
use pendulum_wire::{Direction, Link, Queue};

/// Eighths of a cell, filled from below.
pub(super) const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Without a limit, a graph is at least so high: a few segments are no full buffer.
const LEAST_SCALE: f64 = 12_000.0;
/// Columns kept for the key at the end of a graph's line of words.
const KEY: usize = 16;
/// Stands for pure ACKs where there is no colour.
const ACK_GLYPH: &str = "░";

fn glyph(phase: Option<Phase>) -> &'static str {
    match phase {
        Some(Phase::UplinkBound) => "▲",
        Some(Phase::DownlinkBound) => "▼",
        Some(Phase::Balanced) => "◆",
        Some(Phase::Idle) => "·",
        None => " ",
    }
}

/// Whose buffer is full.
fn short(phase: Phase) -> &'static str {
    match phase {
        Phase::UplinkBound => "uplink",
        Phase::DownlinkBound => "downlink",
        Phase::Balanced => "both",
        Phase::Idle => "neither",
    }
}

/// Which buffer held the traffic: a line of words, and a mark for each column.
pub(super) fn strip(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &View,
    link: &Link,
    columns: &[GraphColumn],
    palette: Palette,
) {
    // The shares have a period of their own: that of the verdict.
    let shares = link.horizon_s.map(|seconds| format!(", shares {seconds:.0} s")).unwrap_or_default();
    let mut words = vec![Span::styled(format!("phase {:.0} s{shares}:", view.seconds()), palette.strong())];
    for phase in Phase::ALL {
        let share = link
            .phase_share
            .map(|shares| format!(" {}", text::percent(shares.of(phase))))
            .unwrap_or_default();
        let name = short(phase);
        words.push(Span::styled(format!(" {} {name}{share}", glyph(Some(phase))), palette.phase(phase)));
    }
    let marks: Vec<Span<'_>> = columns
        .iter()
        .map(|column| {
            let style = column.phase.map_or(Style::new(), |phase| palette.phase(phase));
            Span::styled(glyph(column.phase), style)
        })
        .collect();
    frame.render_widget(Paragraph::new(vec![Line::from(words), Line::from(marks)]), area);
}

/// The buffer in front of the uplink.
pub(super) fn uplink(
    frame: &mut Frame<'_>,
    area: Rect,
    link: &Link,
    columns: &[GraphColumn],
    palette: Palette,
) {
    let levels: Vec<_> = columns.iter().map(|column| column.up).collect();
    let styles = [palette.up_ack(), palette.up()];
    let is_in_modem = link.vantage.as_deref() == Some("before_uplink_buffer");
    let name = ["▲ uplink queue", if is_in_modem { "in the modem" } else { "elsewhere" }];
    draw(frame, area, name, &link.directions.up, &levels, styles, palette);
}

/// The buffer in front of the downlink.
pub(super) fn downlink(
    frame: &mut Frame<'_>,
    area: Rect,
    link: &Link,
    columns: &[GraphColumn],
    palette: Palette,
) {
    let levels: Vec<_> = columns.iter().map(|column| column.down).collect();
    let styles = [palette.down_ack(), palette.down()];
    let name = ["▼ downlink queue", "at the provider"];
    draw(frame, area, name, &link.directions.down, &levels, styles, palette);
}

/// The level, with how far off it may be, and how it is known; `place`: where the buffer stands if it is not here.
fn level(queue: &Queue, place: &str) -> String {
    let is_estimate = queue.source == "estimate";
    let how = if is_estimate { format!("estimate, {place}") } else { queue.source.to_string() };
    let Some(bytes) = queue.bytes else { return format!("unknown ({how})") };
    let about = if is_estimate { "about " } else { "" };
    let band = queue.uncertainty_bytes.filter(|&bytes| bytes > 0.0);
    let band = band.map(|bytes| format!(" ± {}", text::bytes(bytes))).unwrap_or_default();
    format!("{about}{}{band} ({how})", text::bytes(bytes as f64))
}

/// The largest part of what fills it: by its port, if that accounts for it, else by its kind.
fn filled_by(queue: &Queue) -> Option<String> {
    let (kind, share) = queue.composition.iter().flatten().max_by(|a, b| a.1.total_cmp(b.1))?;
    let top = queue.top_port.as_ref().filter(|top| {
        matches!(&**kind, "udp" | "other") && text::percent(top.share) == text::percent(*share)
    });
    let name = top.map_or_else(|| text::kind(kind), |top| top.name.clone());
    Some(format!("{} {name}", text::percent(*share)))
}

fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    [name, place]: [&str; 2],
    direction: &Direction,
    levels: &[Option<QueuedBytes>],
    styles: [Style; 2],
    palette: Palette,
) {
    let queue = direction.queue.as_ref();
    let limit = queue.and_then(|queue| queue.limit_bytes).map(|bytes| bytes as f64);
    let highest = levels.iter().flatten().map(|level| f64::from(level.total())).fold(0.0, f64::max);
    // An estimate may go beyond the limit; a queue without one fills the graph with its highest level.
    let scale = limit.unwrap_or(LEAST_SCALE).max(highest).max(1.0);
    let mut words = vec![Span::styled(name.to_owned(), styles[1].patch(palette.strong()))];
    // What does not fit is left out whole, and what comes after it too: half a figure is another figure.
    let mut left = usize::from(area.width).checked_sub(name.chars().count() + KEY);
    let mut say = |text: String| {
        left = left.and_then(|left| left.checked_sub(text.chars().count()));
        if left.is_some() {
            words.push(Span::raw(text));
        }
    };
    match queue {
        None => say("  unknown".to_owned()),
        Some(queue) => {
            say(format!("  {}", level(queue, place)));
            say(format!(", full height {}", text::bytes(scale)));
            if let Some(filled_by) = filled_by(queue) {
                say(format!(", {filled_by}"));
            }
            if let Some(standing) = queue.standing_bytes {
                say(format!(", standing {}", text::bytes(standing)));
            }
            if let Some(limit) = limit {
                say(format!(", of {}", text::bytes(limit)));
            }
            say("  ".to_owned());
        }
    }
    if let Some(queue) = queue {
        let (data, ack) = if palette.coloured() { ("█", "█") } else { ("█", ACK_GLYPH) };
        if queue.ack_bytes.is_some() {
            words.push(Span::styled(format!("{ack} ACKs "), styles[0]));
            words.push(Span::styled(format!("{data} data"), styles[1]));
        }
    }
    let [text_area, graph] =
        [Rect { height: 1, ..area }, Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }];
    frame.render_widget(Line::from(words), text_area);
    let buffer = frame.buffer_mut();
    for (column, level) in (graph.x..graph.right()).zip(levels) {
        if let Some(level) = level {
            bar(buffer, graph, column, *level, scale, styles, palette);
        } else if graph.height > 0 {
            buffer[(column, graph.bottom() - 1)].set_symbol("·").set_style(palette.faint());
        }
    }
}

/// One column: ACKs below, data above, in eighths of a cell.
fn bar(
    buffer: &mut Buffer,
    graph: Rect,
    column: u16,
    level: QueuedBytes,
    scale: f64,
    [ack_style, data_style]: [Style; 2],
    palette: Palette,
) {
    let eighths = |bytes: f32| (f64::from(bytes) / scale * f64::from(graph.height) * 8.0).round() as usize;
    let (ack, total) = (eighths(level.ack), eighths(level.total()));
    for row in 0..graph.height {
        let from = usize::from(row) * 8;
        let (acks, filled) = (ack.saturating_sub(from).min(8), total.saturating_sub(from).min(8));
        let cell = &mut buffer[(column, graph.bottom() - 1 - row)];
        match (acks, filled) {
            (_, 0) if row == 0 => cell.set_symbol("▁").set_style(palette.faint()),
            (_, 0) => continue,
            (0, _) => cell.set_symbol(EIGHTHS[filled]).set_style(data_style),
            _ if !palette.coloured() => {
                cell.set_symbol(if acks * 2 >= filled { ACK_GLYPH } else { EIGHTHS[filled] })
            }
            (8, _) => cell.set_symbol(EIGHTHS[8]).set_style(ack_style),
            // Both in one cell: the upper one is the background, which then fills the cell.
            (_, 8) => {
                cell.set_symbol(EIGHTHS[acks]).set_style(ack_style);
                cell.set_bg(data_style.fg.unwrap_or_default())
            }
            (_, _) if acks * 2 >= filled => cell.set_symbol(EIGHTHS[filled]).set_style(ack_style),
            (_, _) => cell.set_symbol(EIGHTHS[filled]).set_style(data_style),
        };
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;

    /// What one cell of eight bytes shows: its symbol, the colours of its figure and of its ground.
    fn cell(ack: f32, data: f32, palette: Palette) -> (String, Color, Color) {
        let area = Rect { x: 0, y: 0, width: 1, height: 1 };
        let mut buffer = Buffer::empty(area);
        let styles = [palette.up_ack(), palette.up()];
        bar(&mut buffer, area, 0, QueuedBytes { data, ack }, 8.0, styles, palette);
        let cell = &buffer[(0, 0)];
        (cell.symbol().to_owned(), cell.fg, cell.bg)
    }

    #[test]
    fn without_colours_a_cell_is_that_of_which_there_is_more() {
        let palette = Palette::new(false);
        for (ack, data, symbol) in
            [(0.0, 5.0, "▅"), (4.0, 4.0, ACK_GLYPH), (3.0, 5.0, "█"), (4.0, 2.0, ACK_GLYPH), (2.0, 4.0, "▆")]
        {
            let plain = (symbol.to_owned(), Color::Reset, Color::Reset);
            assert_eq!(cell(ack, data, palette), plain, "{ack} of ACKs, {data} of data");
        }
    }

    /// A full cell shows both, ACKs below; another one what there is more of.
    #[test]
    fn with_colours_a_full_cell_shows_both() {
        let palette = Palette::new(true);
        let [acks, all] = [palette.up_ack(), palette.up()].map(|style| style.fg.expect("a colour"));
        for (ack, data, symbol, colour, ground) in [
            (0.0, 5.0, "▅", all, Color::Reset),
            (8.0, 0.0, "█", acks, Color::Reset),
            (3.0, 5.0, "▃", acks, all),
            (4.0, 2.0, "▆", acks, Color::Reset),
            (2.0, 4.0, "▆", all, Color::Reset),
        ] {
            let shown = (symbol.to_owned(), colour, ground);
            assert_eq!(cell(ack, data, palette), shown, "{ack} of ACKs, {data} of data");
        }
    }
}
