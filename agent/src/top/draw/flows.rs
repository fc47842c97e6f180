//! The table of flows.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::Palette;
use crate::top::flows::{FlowLine, Sort};
use crate::top::text;
use crate::top::view::View;

/// A figure's header, width, and text. Those at the end are left out first where there is little room.
type Figure = (&'static str, Sort, usize, fn(&FlowLine<'_>) -> String);
const FIGURES: [Figure; 6] = [
    ("up", Sort::Rate, 11, |row| text::rate(row.flow.up.throughput_bps)),
    ("down", Sort::Rate, 11, |row| text::rate(row.flow.down.throughput_bps)),
    ("internet RTT", Sort::Rtt, 12, |row| row.flow.rtt_s().map_or("–".to_owned(), text::time)),
    ("in flight", Sort::InFlight, 11, |row| text::bytes(row.flow.in_flight_bytes() as f64)),
    ("again", Sort::Retransmitted, 7, |row| row.flow.retransmitted_segments().to_string()),
    ("bytes", Sort::Bytes, 8, |row| text::bytes(row.flow.bytes() as f64)),
];
/// Between two columns.
const GAP: usize = 2;
/// Least width of an end; IPv4 address and port.
const END: usize = 15;

/// The figures that there is room for, and the width of an end: as wide as the longest one, where nothing else needs the room.
fn columns(width: usize, longest: usize) -> (&'static [Figure], usize) {
    let taken = |count: usize| FIGURES[..count].iter().map(|figure| figure.2 + GAP).sum::<usize>() + 2 + GAP;
    let count = (1..=FIGURES.len()).rev().find(|&count| taken(count) + 2 * END <= width).unwrap_or(1);
    let end = (width.saturating_sub(taken(count)) / 2).clamp(END, longest.max(END));
    (&FIGURES[..count], end)
}

/// Header and rows, from the one that was scrolled to.
pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, view: &View, palette: Palette) {
    if area.height < 2 {
        return;
    }
    let rows = view.rows();
    let width = usize::from(area.width);
    let longest = rows.iter().flat_map(|row| [&row.home, &row.remote]).map(|end| end.chars().count()).max();
    let (figures, end) = columns(width, longest.unwrap_or(0));

    let mut header = format!("  {:<end$}  {:<end$}", "home", "remote");
    for (name, sort, width, _) in figures {
        // Brackets: an arrow beside "up" would be read as a direction.
        let title = if *sort == view.sort { format!("[{name}]") } else { (*name).to_owned() };
        header.push_str(&format!("  {title:>width$}"));
    }
    let header = Line::from(format!("{header:<width$}")).style(palette.bar());
    let scroll = view.scroll.min(rows.len().saturating_sub(1));
    let room = usize::from(area.height) - 2;
    let mut lines = vec![header];
    lines.extend(rows.iter().skip(scroll).take(room).map(|row| {
        let up = row.flow.direction == "up";
        let mut line = format!(
            "{} {:<end$}  {:<end$}",
            if up { "▲" } else { "▼" },
            cut(&row.home, end),
            cut(&row.remote, end)
        );
        for (_, _, width, text) in figures {
            line.push_str(&format!("  {:>width$}", text(row)));
        }
        let style = match (&*row.flow.state, up) {
            ("closed", _) => palette.faint(),
            (_, true) => palette.up(),
            (_, false) => palette.down(),
        };
        Line::from(line).style(style)
    }));
    let last = (scroll + room).min(rows.len());
    let mut words = format!("flows {}–{last} of {}", (scroll + 1).min(last), view.flows.total);
    if !view.filter.is_empty() {
        words.push_str(&format!(", {} match “{}”", rows.len(), view.filter));
    }
    words.push_str(&format!(", by {}, rates over 1 s", view.sort.name()));
    if let Some(reason) = &view.flows.home_host_missing {
        words.push_str(&format!("; hosts behind NAT are not named: {reason}"));
    }
    lines.push(Line::from(words).style(palette.faint()));
    frame.render_widget(Paragraph::new(lines), area);
}

/// A long IPv6 end loses its middle, not its port.
fn cut(end: &str, width: usize) -> String {
    let length = end.chars().count();
    if length <= width {
        return end.to_owned();
    }
    let tail = width / 2;
    let head: String = end.chars().take(width - tail - 1).collect();
    let tail: String = end.chars().skip(length - tail).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Marker and space, two ends, and each figure behind a gap.
    fn taken(figures: &[Figure], end: usize) -> usize {
        2 + end + GAP + end + figures.iter().map(|figure| GAP + figure.2).sum::<usize>()
    }

    #[test]
    fn the_table_fills_its_width_and_no_more() {
        let least = taken(&FIGURES[..1], END);
        for width in least..200 {
            let (figures, end) = columns(width, 47);
            let taken_now = taken(figures, end);
            assert!(taken_now <= width, "{width}: {taken_now}");
            assert!(end == 47 || taken_now + 2 > width, "{width}: {taken_now} of it are used");
            let one_more = FIGURES.get(..figures.len() + 1);
            assert!(one_more.is_none_or(|figures| taken(figures, END) > width), "{width}: one more has room");
        }
        // Short ends leave the rest free; a narrow screen cuts the first figure.
        for (width, longest, expected) in
            [(200, 21, (FIGURES.len(), 21)), (200, 7, (FIGURES.len(), END)), (least - 1, 47, (1, END))]
        {
            let (figures, end) = columns(width, longest);
            assert_eq!((figures.len(), end), expected);
        }
    }

    #[test]
    fn a_long_end_keeps_its_port() {
        let short = cut("[2001:db8:1234:5678:9abc:def0:1234:5678]:50443", 20);
        assert!(
            short.chars().count() == 20 && short.ends_with(":50443") && short.starts_with("[2001"),
            "{short}"
        );
    }
}
