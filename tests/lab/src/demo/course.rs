//! The course of a run: a line for each moment where there is no terminal, and the whole of it over one time axis at the end.

use pendulum_model::segment::Direction;

use super::style::{Glyphs, StyledLine, Tone};
use super::view::View;
use super::{format, picture};

/// The download first: it is what the demo is about.
const ORDER: [Direction; 2] = [Direction::Down, Direction::Up];

/// Names of the stretches, and what both directions have carried, on one time axis.
pub(super) fn time_line(view: &View, glyphs: &Glyphs, columns: usize) -> Vec<StyledLine> {
    /// The arrows stand before the axis.
    const MARGIN: usize = 3;
    let width = columns - MARGIN;
    let total = view.plan.total().as_secs_f64();
    let mut names = StyledLine::new();
    for stretch in &view.plan.stretches {
        let begin = stretch.from.as_secs_f64() / total * width as f64;
        names = names.padded(MARGIN + begin.round() as usize).with(Tone::Strong, stretch.label);
    }
    let axis = String::from_iter(std::iter::repeat_n(glyphs.axis, width));
    let mut lines = vec![names, StyledLine::new().padded(MARGIN).with(Tone::Faint, axis)];
    for direction in ORDER {
        let levels = picture::levels(&view.history[direction], width, glyphs);
        let arrow = StyledLine::plain(" ").with(Tone::Of(direction), glyphs.arrow(direction)).padded(MARGIN);
        lines.push(arrow.with(Tone::Of(direction), levels));
    }
    lines
}

/// One moment.
pub(super) fn line(view: &View, glyphs: &Glyphs) -> String {
    let stretch = &view.plan.stretches[view.plan.at(view.elapsed)];
    let throughput = |x: Direction| {
        let rate = format::rate(view.reading.directions[x].throughput_bps);
        format!("{} {rate:>9} ({})", x.name(), format::percent(view.utilization(x)))
    };
    let bytes = |what: &str, figure: &dyn Fn(Direction) -> u64| {
        let [down, up] = ORDER.map(|x| format::bytes(figure(x) as f64));
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
mod tests {
    use super::*;
    use crate::demo::style::Palette;
    use crate::demo::view::tests::example;

    fn drawn(glyphs: &Glyphs, columns: usize) -> Vec<String> {
        let lines = time_line(&example(true), glyphs, columns);
        assert!(lines.iter().all(|line| line.width() <= columns), "{columns}");
        lines.iter().map(|line| line.render(Palette::Monochrome)).collect()
    }

    /// The example is 41 s into 85: the upload has joined after 25 s.
    #[test]
    fn both_directions_stand_over_the_names_of_the_stretches() {
        let [names, axis, down, up] = &drawn(&Glyphs::UNICODE, 88)[..] else { panic!("four lines") };
        let at = |label: &str| names.chars().count() - names[names.find(label).unwrap()..].chars().count();
        assert_eq!([at("download alone"), at("+ one upload"), at("+ two uploads")], [3, 28, 58]);
        assert_eq!(axis.chars().filter(|sign| *sign == Glyphs::UNICODE.axis).count(), 85);
        let levels = |line: &str| line.chars().skip(3).collect::<Vec<_>>();
        let (down, up) = (levels(down), levels(up));
        // As far as the run has come: 41 s and the column it is in.
        assert_eq!((down.len(), up.len()), (42, 42));
        assert_eq!((down[10], down[35], up[10], up[35]), ('█', '▂', '▂', '█'));
    }

    #[test]
    fn without_utf_8_it_is_plain_ascii() {
        assert!(drawn(&Glyphs::ASCII, 80).iter().all(|line| line.is_ascii()));
    }

    #[test]
    fn a_moment_in_one_line() {
        assert_eq!(
            line(&example(true), &Glyphs::UNICODE),
            "  41 s  + one upload    down  312 kb/s (13 %)  up  193 kb/s (99 %)  queues 0 B, 30.0 kB  \
             outstanding 1,448 B, 52.1 kB  round trip 1.21 s  locked_uplink"
        );
    }
}
