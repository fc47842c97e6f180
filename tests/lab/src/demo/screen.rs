//! A block of lines on a terminal that is drawn again in the same place.

use std::io::{self, Write};

use super::style::{Line, Palette};

/// Draws over its own last block only: what stands above stays. Shows the cursor again when dropped.
#[derive(Debug)]
pub(super) struct Screen<W: Write> {
    out: W,
    palette: Palette,
    /// Widths of the lines that stand on the terminal now.
    drawn: Vec<usize>,
    is_cursor_hidden: bool,
}

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, palette: Palette) -> Self {
        Self { out, palette, drawn: Vec::new(), is_cursor_hidden: false }
    }

    /// Draws the block over the one before, on a terminal of so many columns and rows. What does not fit is left out.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn draw(&mut self, lines: &[Line], (columns, rows): (usize, usize)) -> io::Result<()> {
        let mut text = String::new();
        if !self.is_cursor_hidden {
            text.push_str(HIDE_CURSOR);
            self.is_cursor_hidden = true;
        }
        text.push_str(&self.back_to_top(columns));
        // The cursor stands on the row below the block. A full last column would put some terminals on the next row.
        let fitting: Vec<Line> = lines
            .iter()
            .take(rows.saturating_sub(1))
            .map(|line| line.clone().cut(columns.saturating_sub(1)))
            .collect();
        for line in &fitting {
            text.push_str(&line.render(self.palette));
            text.push_str(CLEAR_LINE);
            text.push('\n');
        }
        text.push_str(CLEAR_BELOW);
        self.drawn = fitting.iter().map(Line::written_width).collect();
        // In one piece, so that no half-drawn block shows.
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Takes the block away and shows the cursor; what is printed next stands in its place.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn clear(&mut self, columns: usize) -> io::Result<()> {
        let text = self.back_to_top(columns) + CLEAR_BELOW;
        self.drawn.clear();
        self.out.write_all(text.as_bytes())?;
        self.show_cursor()
    }

    /// A terminal that has become narrower has broken the lines.
    fn back_to_top(&self, columns: usize) -> String {
        let rows: usize = self.drawn.iter().map(|width| width.div_ceil(columns.max(1)).max(1)).sum();
        // The return wipes a ^C that the terminal has echoed.
        if rows == 0 { "\r".to_owned() } else { format!("\r\x1b[{rows}A") }
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_cursor_hidden) {
            self.out.write_all(format!("\r{CLEAR_LINE}{SHOW_CURSOR}").as_bytes())?;
        }
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        // If the terminal is gone there is no cursor to show.
        let _ = self.show_cursor();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line::plain(*text)).collect()
    }

    fn written(draw: impl FnOnce(&mut Screen<&mut Vec<u8>>)) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, Palette::Monochrome);
        draw(&mut screen);
        drop(screen);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_second_block_takes_the_place_of_the_first() {
        let text = written(|screen| {
            screen.draw(&lines(&["one", "two"]), (80, 24)).unwrap();
            screen.draw(&lines(&["three"]), (80, 24)).unwrap();
        });
        assert_eq!(
            text,
            "\x1b[?25l\rone\x1b[K\ntwo\x1b[K\n\x1b[J\r\x1b[2Athree\x1b[K\n\x1b[J\r\x1b[K\x1b[?25h"
        );
    }

    #[test]
    fn nothing_is_drawn_beyond_the_terminal() {
        let text = written(|screen| screen.draw(&lines(&["abcdefghij", "b", "c", "d"]), (6, 3)).unwrap());
        assert_eq!(text, "\x1b[?25l\rabcde\x1b[K\nb\x1b[K\n\x1b[J\r\x1b[K\x1b[?25h");
    }

    #[test]
    fn a_narrowed_terminal_has_broken_the_lines() {
        let text = written(|screen| {
            screen.draw(&lines(&["abcdefgh", "a        "]), (80, 24)).unwrap();
            screen.draw(&lines(&["x"]), (5, 24)).unwrap();
        });
        assert!(text.contains("\x1b[3A"), "{text:?}");
    }

    #[test]
    fn the_cursor_comes_back_once() {
        let text = written(|screen| {
            screen.draw(&lines(&["one"]), (80, 24)).unwrap();
            screen.clear(80).unwrap();
        });
        assert_eq!(text.matches(SHOW_CURSOR).count(), 1);
        assert_eq!(written(|_| ()), "");
    }
}
