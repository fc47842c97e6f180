//! Where the demo's words go: a terminal with a block in place, or plain lines for a file or a pipe.

use std::io::{self, Stdout, Write as _};
use std::time::Duration;

use super::block;
use super::screen::Screen;
use super::style::{self, Line, Style};
use super::view::View;
use crate::kernel;

/// The standard output.
#[derive(Debug)]
pub(super) struct Display {
    style: Style,
    /// Only on a terminal that can move its cursor.
    screen: Option<Screen<Stdout>>,
    last_line: Option<Duration>,
}

/// Between two lines where no block is drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const USUAL_SIZE: (usize, usize) = (80, 24);
/// Text does not run wider than this.
const WIDEST_TEXT: usize = 100;

impl Display {
    pub(super) fn new(no_colour: bool) -> Self {
        let size = kernel::terminal_size(&io::stdout());
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let style = Style::of_environment(size.is_some(), no_colour);
        let screen = (size.is_some() && !is_dumb).then(|| Screen::new(io::stdout(), style.palette));
        Self { style, screen, last_line: None }
    }

    pub(super) fn style(&self) -> Style {
        self.style
    }

    fn size() -> (usize, usize) {
        kernel::terminal_size(&io::stdout()).unwrap_or(USUAL_SIZE)
    }

    /// Columns for running text and tables.
    pub(super) fn columns() -> usize {
        Self::size().0.min(WIDEST_TEXT)
    }

    /// Shows a moment of a run.
    ///
    /// # Errors
    /// If the standard output is gone.
    pub(super) fn show(&mut self, view: &View) -> io::Result<()> {
        let glyphs = self.style.glyphs;
        if let Some(screen) = &mut self.screen {
            let size = Self::size();
            return screen.draw(&block::block(view, glyphs, size.0), size);
        }
        if self.last_line.is_some_and(|last| view.elapsed.saturating_sub(last) < LINE_INTERVAL) {
            return Ok(());
        }
        self.last_line = Some(view.elapsed);
        let mut out = io::stdout();
        writeln!(out, "{}", block::line(view, glyphs))?;
        out.flush()
    }

    /// The next run begins: its clock starts anew.
    pub(super) fn begin(&mut self) {
        self.last_line = None;
    }

    /// Takes the block away.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.screen.as_mut().map_or(Ok(()), |screen| screen.clear(Self::size().0))
    }

    /// Prints lines as they are.
    ///
    /// # Errors
    /// If the standard output is gone.
    pub(super) fn print(&self, lines: &[Line]) -> io::Result<()> {
        let mut out = io::stdout();
        for line in lines {
            writeln!(out, "{}", line.render(self.style.palette))?;
        }
        out.flush()
    }

    /// Prints running text, broken at the terminal's width.
    ///
    /// # Errors
    /// If the standard output is gone.
    pub(super) fn say(&self, text: &str) -> io::Result<()> {
        let lines: Vec<Line> = style::wrap(text, Self::columns() - 1).into_iter().map(Line::plain).collect();
        self.print(&lines)
    }
}
