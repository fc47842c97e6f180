//! The keys and the signs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use super::Palette;
use crate::top::keys::KEYS;

/// What the signs mean.
const SIGNS: [&str; 6] = [
    "▲ uplink-bound: only the uplink's buffer stands full; ▼ downlink-bound: only the downlink's",
    "◆ balanced: both; · idle: neither. The data pendulum is ▲ and ▼ in turn.",
    "Graphs: bytes in each buffer; their height is its limit, where that is known.",
    "(estimate): the buffer is in the modem or at the provider; its level is inferred from delays,",
    "± is the uncertainty. Per cent: the largest share of the traffic in it.",
    "Faint flows have ended.",
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, palette: Palette) {
    let mut lines = vec![Line::default()];
    lines.extend(KEYS.iter().map(|(key, action)| Line::from(format!("  {key:<8}{action}"))));
    lines.push(Line::default());
    let signs =
        SIGNS.iter().flat_map(|sign| crate::top::text::wrap(sign, usize::from(area.width).saturating_sub(4)));
    lines.extend(signs.map(|line| Line::from(format!("  {line}")).style(palette.faint())));
    frame.render_widget(Paragraph::new(lines), area);
}
