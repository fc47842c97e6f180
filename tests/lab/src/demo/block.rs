//! The block that shows a run while it goes on, and the single line for where there is no terminal.

use pendulum_model::segment::{Class, Direction};

use super::style::{self, Glyphs, Line, Tone};
use super::view::View;
use super::{format, picture};

/// Directions as columns, the download first: it is what the demo is about.
const COLUMNS: [Direction; 2] = [Direction::Down, Direction::Up];
/// Beyond this the block does not grow.
const WIDEST: usize = 100;
const NARROWEST: usize = 40;

/// The block for a terminal of `columns` columns.
pub(super) fn block(view: &View, glyphs: &Glyphs, columns: usize) -> Vec<Line> {
    let layout = Layout::of(columns);
    let mut lines = vec![title(view, layout)];
    lines.extend(time_line(view, glyphs, layout.width + 1));
    lines.push(Line::new());
    lines.extend(rows(view, glyphs, layout));
    lines.push(Line::new());
    lines.extend(judgement(view, layout.width));
    if let Some(alerts) = &view.alerts {
        let names = if alerts.is_empty() { "none".to_owned() } else { alerts.join(", ") };
        lines.push(Line::plain(" ").with(Tone::Faint, "alerts  ").with(Tone::Strong, names));
        lines.push(Line::new());
    }
    lines.push(Line::plain(" ").with(Tone::Plain, view.url.clone()).with(Tone::Faint, "  Ctrl-C ends it"));
    lines.into_iter().map(|line| line.cut(layout.width + 1)).collect()
}

/// Widths in columns.
#[derive(Clone, Copy)]
struct Layout {
    width: usize,
    label: usize,
    cell: usize,
}

impl Layout {
    fn of(columns: usize) -> Self {
        let width = columns.saturating_sub(2).clamp(NARROWEST, WIDEST);
        let label = if width < 70 { 15 } else { 17 };
        Self { width, label, cell: (width - label) / 2 }
    }
}

fn title(view: &View, layout: Layout) -> Line {
    let index = view.plan.at(view.elapsed);
    let stretch = &view.plan.stretches[index];
    let count = view.plan.stretches.len();
    let title = Line::plain(" ")
        .with(Tone::Faint, format!("{} of {count}  ", index + 1))
        .with(Tone::Strong, stretch.traffic);
    let clock = format!("{} of {} s", view.elapsed.as_secs(), view.plan.total().as_secs_f64().round());
    title.padded((layout.width + 1).saturating_sub(clock.len())).with(Tone::Faint, clock)
}

/// Names of the stretches, how far the run is, and what both directions have carried so far, on one time axis.
pub(super) fn time_line(view: &View, glyphs: &Glyphs, columns: usize) -> Vec<Line> {
    /// The arrows stand before the axis.
    const MARGIN: usize = 3;
    let width = columns - MARGIN;
    let total = view.plan.total().as_secs_f64();
    let past = ((view.elapsed.as_secs_f64() / total).min(1.0) * width as f64).round() as usize;
    let mut names = Line::new();
    let current = view.plan.at(view.elapsed);
    for (index, stretch) in view.plan.stretches.iter().enumerate() {
        let begin = stretch.from.as_secs_f64() / total * width as f64;
        let tone = if index == current { Tone::Strong } else { Tone::Faint };
        names = names.padded(MARGIN + begin.round() as usize).with(tone, stretch.label);
    }
    let run_of = |glyph: char, length: usize| String::from_iter(std::iter::repeat_n(glyph, length));
    let progress = Line::new()
        .padded(MARGIN)
        .with(Tone::Plain, run_of(glyphs.past, past))
        .with(Tone::Faint, run_of(glyphs.future, width - past));
    let mut lines = vec![names, progress];
    for direction in COLUMNS {
        let levels = picture::levels(&view.history[direction], width, glyphs);
        let arrow = Line::plain(" ").with(Tone::Of(direction), glyphs.arrow(direction)).padded(MARGIN);
        lines.push(arrow.with(Tone::Of(direction), levels));
    }
    lines
}

fn rows(view: &View, glyphs: &Glyphs, layout: Layout) -> Vec<Line> {
    let row = |label: &str, cell: &dyn Fn(Direction) -> Line| {
        let label = Line::plain(" ").with(Tone::Faint, label).padded(1 + layout.label);
        COLUMNS.into_iter().fold(label, |line, direction| {
            let end = line.width() + layout.cell;
            line.then(cell(direction).cut(layout.cell - 1)).padded(end)
        })
    };
    let text = |text: String| Line::plain(text);
    let unknown = || glyphs.unknown.to_owned();
    let of = |direction| &view.reading.directions[direction];
    let mut lines = vec![
        row("", &|x| heading(view, glyphs, x)),
        row("throughput", &|x| {
            measure(&format::rate(of(x).throughput_bps), view.utilization(x), x, glyphs, layout)
        }),
        row("queue", &|x| {
            let bytes = view.queue_bytes(x) as f64;
            let source = if view.agent_tells_queue(x) { "" } else { " tc" };
            let figure = format!("{}{source}", format::bytes(bytes));
            measure(&figure, bytes / view.buffer_bytes(x) as f64, x, glyphs, layout)
        }),
    ];
    if COLUMNS.into_iter().any(|x| of(x).queue.is_some_and(|queue| queue.ack_bytes.is_some())) {
        lines.push(row("  data, ACKs", &|x| text(composition(view, x).unwrap_or_else(unknown))));
    }
    lines.push(row("outstanding", &|x| text(outstanding(view, x))));
    if COLUMNS.into_iter().any(|x| of(x).cwnd_bytes.is_some()) {
        let cwnd = |x: Direction| of(x).cwnd_bytes.map(|bytes| format::bytes(bytes as f64));
        lines.push(row("cwnd", &|x| text(cwnd(x).unwrap_or_else(unknown))));
    }
    lines.push(row("round trip", &|x| text(round_trip(view, x).unwrap_or_else(unknown))));
    lines.push(row("flows", &|x| text(of(x).flows.to_string())));
    for (label, classes) in CLASSES {
        let rate =
            |x: Direction| classes.iter().map(|class| view.per_second[x][*class as usize]).sum::<f64>();
        lines.push(row(label, &|x| text(per_second(rate(x)))));
    }
    lines
}

/// Rows of the block. All classes are in one of them.
const CLASSES: [(&str, &[Class]); 5] = [
    ("data segments", &[Class::Data]),
    ("ACKs", &[Class::Ack]),
    ("duplicate ACKs", &[Class::DupAck]),
    ("SACKs", &[Class::Sack]),
    (
        "other",
        &[
            Class::WindowUpdate,
            Class::KeepAlive,
            Class::ZeroWindowProbe,
            Class::Syn,
            Class::Fin,
            Class::Rst,
            Class::Other,
            Class::NonTcp,
        ],
    ),
];

fn heading(view: &View, glyphs: &Glyphs, direction: Direction) -> Line {
    Line::new()
        .with(Tone::Of(direction), format!("{} {}", glyphs.arrow(direction), direction.name()))
        .with(Tone::Faint, format!("  of {}", format::rate(view.link_bps(direction))))
}

/// A figure, a bar of its share, and the share.
fn measure(figure: &str, share: f64, direction: Direction, glyphs: &Glyphs, layout: Layout) -> Line {
    const FIGURE: usize = 11;
    const SHARE: usize = 6;
    let line = Line::plain(figure).padded(FIGURE);
    let bar = layout.cell.saturating_sub(FIGURE + SHARE + 2).min(20);
    let (filled, rest) = picture::bar(share, bar, glyphs);
    line.with(Tone::Of(direction), filled)
        .with(Tone::Faint, rest)
        .with(Tone::Plain, format!("{:>6}", format::percent(share)))
}

fn composition(view: &View, direction: Direction) -> Option<String> {
    let queue = view.reading.directions[direction].queue?;
    let acks = queue.ack_bytes?;
    let data = queue.bytes.saturating_sub(acks);
    Some(format!("{}, {}", format::bytes(data as f64), format::bytes(acks as f64)))
}

/// Seen from the gateway, a download's outstanding data is what the home has not acknowledged: no buffer lies between.
fn outstanding(view: &View, direction: Direction) -> String {
    let bytes = format::bytes(view.reading.directions[direction].in_flight_bytes as f64);
    match direction {
        Direction::Down => format!("{bytes:<9} home side"),
        Direction::Up => bytes,
    }
}

/// The gateway times towards both ends: downloads measure the home, uploads the internet.
fn round_trip(view: &View, direction: Direction) -> Option<String> {
    let side = match direction {
        Direction::Down => "home side",
        Direction::Up => "WAN side",
    };
    view.rtt_s(direction).map(|seconds| format!("{:<9} {side}", format::time(seconds)))
}

fn per_second(rate: f64) -> String {
    if rate > 0.0 && rate < 9.95 { format!("{rate:.1} /s") } else { format!("{rate:.0} /s") }
}

/// The agent's judgement, as far as it has one, and why.
fn judgement(view: &View, width: usize) -> Vec<Line> {
    /// A longer reason is cut.
    const MOST_LINES: usize = 2;
    let reading = &view.reading;
    if reading.phase.is_none() && reading.verdict.is_none() {
        return Vec::new();
    }
    let mut first = Line::plain(" ");
    if let Some(verdict) = &reading.verdict {
        first = first.with(Tone::Strong, verdict.as_str());
    }
    if let Some(phase) = &reading.phase {
        first = first.with(Tone::Faint, format!("  now {phase}"));
    }
    let reason = style::wrap(reading.reason.as_deref().unwrap_or_default(), width);
    let reason = reason.into_iter().take(MOST_LINES).map(|text| Line::plain(format!(" {text}")));
    std::iter::once(first).chain(reason).chain([Line::new()]).collect()
}

/// The same in one line.
pub(super) fn line(view: &View, glyphs: &Glyphs) -> String {
    let stretch = &view.plan.stretches[view.plan.at(view.elapsed)];
    let throughput = |x: Direction| {
        let rate = format::rate(view.reading.directions[x].throughput_bps);
        format!("{} {rate:>9} ({})", x.name(), format::percent(view.utilization(x)))
    };
    let bytes = |what: &str, figure: &dyn Fn(Direction) -> u64| {
        let [down, up] = COLUMNS.map(|x| format::bytes(figure(x) as f64));
        format!("{what} {down}, {up}")
    };
    let rtt = view.rtt_s(Direction::Up).map_or_else(|| glyphs.unknown.to_owned(), format::time);
    let mut parts = vec![
        format!("{:>4} s", view.elapsed.as_secs()),
        format!("{:<14}", stretch.label),
        throughput(Direction::Down),
        throughput(Direction::Up),
        bytes("queues", &|x| view.queue_bytes(x)),
        bytes("outstanding", &|x| view.reading.directions[x].in_flight_bytes),
        format!("round trip {rtt}"),
    ];
    parts.extend(view.reading.verdict.clone());
    parts.extend(view.alerts.as_ref().filter(|names| !names.is_empty()).map(|names| names.join(", ")));
    parts.join("  ")
}

#[cfg(test)]
mod tests;
