//! Where the demo's words go: a terminal, which `pendulum top` has while the traffic runs, or plain lines for a file or a pipe.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use super::course;
use super::error::DemoError;
use super::style::{self, Style, StyledLine};
use super::view::View;
use super::viewer::Viewer;
use crate::interrupt::Interrupted;
use crate::kernel;

/// The standard output.
#[derive(Debug)]
pub(super) struct Display {
    style: Style,
    no_colour: bool,
    /// The program that can show a link live.
    agent: PathBuf,
    /// Lines are printed while there is none.
    viewer: Option<Viewer>,
    last_line: Option<Duration>,
}

/// Between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const USUAL_COLUMNS: usize = 80;
/// Text does not run wider than this.
const WIDEST_TEXT: usize = 100;

impl Display {
    pub(super) fn new(agent: PathBuf, no_colour: bool) -> Self {
        let style = Style::of_environment(io::stdout().is_terminal(), no_colour);
        Self { style, no_colour, agent, viewer: None, last_line: None }
    }

    pub(super) fn style(&self) -> Style {
        self.style
    }

    /// Columns for running text and tables.
    pub(super) fn columns() -> usize {
        kernel::terminal_size(&io::stdout()).map_or(USUAL_COLUMNS, |(columns, _)| columns).min(WIDEST_TEXT)
    }

    /// A run begins: its clock starts, and a terminal shows the agent at `url`.
    ///
    /// # Errors
    /// If the agent's program cannot be started.
    pub(super) fn begin(&mut self, url: &str) -> io::Result<()> {
        self.last_line = None;
        if Viewer::has_terminal() {
            self.viewer = Some(Viewer::start(&self.agent, url, self.no_colour)?);
        }
        Ok(())
    }

    /// Shows a moment of a run, where the agent does not show it itself.
    ///
    /// # Errors
    /// If the standard output is gone, or the user has left the live view.
    pub(super) fn show(&mut self, view: &View) -> Result<(), DemoError> {
        if let Some(viewer) = &mut self.viewer {
            match viewer.ended()? {
                None => return Ok(()),
                Some(status) if status.success() => return Err(Interrupted.into()),
                // It has said why: lines instead.
                Some(_) => self.viewer = None,
            }
        }
        if self.last_line.is_some_and(|last| view.elapsed.saturating_sub(last) < LINE_INTERVAL) {
            return Ok(());
        }
        self.last_line = Some(view.elapsed);
        let mut out = io::stdout();
        writeln!(out, "{}", course::line(view, self.style.glyphs))?;
        Ok(out.flush()?)
    }

    /// The run is over: the terminal is the demo's again.
    pub(super) fn end(&mut self) {
        self.viewer = None;
    }

    /// Prints lines as they are.
    ///
    /// # Errors
    /// If the standard output is gone.
    pub(super) fn print(&self, lines: &[StyledLine]) -> io::Result<()> {
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
        let lines: Vec<StyledLine> =
            style::wrap(text, Self::columns() - 1).into_iter().map(StyledLine::plain).collect();
        self.print(&lines)
    }
}
