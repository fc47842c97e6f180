//! Colours, signs and lines of text: all that the demo prints is made of these.

use pendulum_model::colour::of_direction;
use pendulum_model::segment::Direction;

/// What a piece of text is, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// Less important than its surroundings.
    Faint,
    Strong,
    /// Belongs to one direction; it has the same colour everywhere.
    Of(Direction),
}

/// The colours of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Palette {
    /// None at all.
    Monochrome,
    /// The basic sixteen.
    Sixteen,
    /// The 256 of xterm.
    Many,
}

impl Palette {
    /// Decides by what the environment says; `term` and `colorterm` are the variables of these names.
    pub(super) fn of(wanted: bool, term: &str, colorterm: &str) -> Self {
        match (wanted, term) {
            (false, _) | (_, "" | "dumb") => Self::Monochrome,
            (true, term) if term.contains("256color") || !colorterm.is_empty() => Self::Many,
            _ => Self::Sixteen,
        }
    }

    /// Of sixteen, cyan and yellow come nearest to blue and orange and can be read on every ground.
    fn code(self, tone: Tone) -> Option<String> {
        let code = match (self, tone) {
            (Self::Monochrome, _) | (_, Tone::Plain) => return None,
            (_, Tone::Faint) => "2",
            (_, Tone::Strong) => "1",
            (Self::Sixteen, Tone::Of(Direction::Down)) => "36",
            (Self::Sixteen, Tone::Of(Direction::Up)) => "33",
            (Self::Many, Tone::Of(direction)) => {
                return Some(format!("38;5;{}", of_direction(direction).xterm));
            }
        };
        Some(code.to_owned())
    }
}

/// The signs that pictures are made of.
#[derive(Debug)]
pub(super) struct Glyphs {
    /// From an eighth to a whole character cell, growing upwards.
    pub(super) level: &'static [char],
    /// A time axis.
    pub(super) axis: char,
    down: &'static str,
    up: &'static str,
    /// Stands for a figure that is not known.
    pub(super) unknown: &'static str,
    pub(super) minus: &'static str,
}

impl Glyphs {
    pub(super) const UNICODE: Self = Self {
        level: &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        axis: '─',
        down: "▼",
        up: "▲",
        unknown: "–",
        minus: "−",
    };
    /// For terminals that are said to know nothing else.
    pub(super) const ASCII: Self =
        Self { level: &['_', '.', '-', '=', '#'], axis: '-', down: "v", up: "^", unknown: "-", minus: "-" };

    /// By the locale's name. None at all, as in many containers, says nothing about the terminal, and today's know UTF-8.
    pub(super) fn of(locale: &str) -> &'static Self {
        let name = locale.to_ascii_lowercase();
        if name.is_empty() || name.contains("utf-8") || name.contains("utf8") {
            &Self::UNICODE
        } else {
            &Self::ASCII
        }
    }

    pub(super) const fn arrow(&self, direction: Direction) -> &'static str {
        match direction {
            Direction::Down => self.down,
            Direction::Up => self.up,
        }
    }
}

/// How to draw on this terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) palette: Palette,
    pub(super) glyphs: &'static Glyphs,
}

impl Style {
    /// For the standard output: colours only on a terminal, and not if `NO_COLOR` is set to anything (no-color.org).
    pub(super) fn of_environment(is_terminal: bool, no_colour: bool) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let wanted = is_terminal && !no_colour && variable("NO_COLOR").is_empty();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].map(variable).into_iter().find(|name| !name.is_empty());
        Self {
            palette: Palette::of(wanted, &variable("TERM"), &variable("COLORTERM")),
            glyphs: Glyphs::of(&locale.unwrap_or_default()),
        }
    }
}

/// One line of text in pieces. Every character counts as one column: only such characters are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StyledLine(Vec<(Tone, String)>);

impl StyledLine {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new().with(Tone::Plain, text)
    }

    pub(super) fn with(mut self, tone: Tone, text: impl Into<String>) -> Self {
        self.0.push((tone, text.into()));
        self
    }

    pub(super) fn then(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Filled up with blanks to a width.
    pub(super) fn padded(self, width: usize) -> Self {
        let missing = width.saturating_sub(self.width());
        self.with(Tone::Plain, " ".repeat(missing))
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// The text with the terminal's colour codes; each piece ends its own colour.
    pub(super) fn render(&self, palette: Palette) -> String {
        let pieces = self.0.iter().map(|(tone, text)| match palette.code(*tone) {
            Some(code) if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.clone(),
        });
        pieces.collect::<String>().trim_end().to_owned()
    }
}

/// Breaks running text into lines of at most `width` columns.
pub(super) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_depend_on_the_wish_and_the_terminal() {
        assert_eq!(Palette::of(false, "xterm-256color", "truecolor"), Palette::Monochrome);
        assert_eq!(Palette::of(true, "dumb", ""), Palette::Monochrome);
        assert_eq!(Palette::of(true, "screen-256color", ""), Palette::Many);
        assert_eq!(Palette::of(true, "xterm", "truecolor"), Palette::Many);
        assert_eq!(Palette::of(true, "linux", ""), Palette::Sixteen);
    }

    #[test]
    fn a_line_without_colours_has_no_escape_codes() {
        let line = StyledLine::plain("a").with(Tone::Of(Direction::Up), "b").padded(9);
        assert_eq!(line.width(), 9);
        assert_eq!(line.render(Palette::Monochrome), "ab");
        assert_eq!(line.render(Palette::Many), "a\x1b[38;5;208mb\x1b[0m");
    }

    #[test]
    fn only_a_locale_that_denies_utf_8_gets_ascii() {
        assert_eq!(Glyphs::of("").axis, '─');
        assert_eq!(Glyphs::of("en_GB.UTF-8").axis, '─');
        assert_eq!(Glyphs::of("C.utf8").axis, '─');
        assert_eq!(Glyphs::of("de_DE.ISO-8859-1").axis, '-');
        assert_eq!(Glyphs::of("C").axis, '-');
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(wrap("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 4), ["unbreakable"]);
        assert!(wrap("", 10).is_empty());
    }
}
