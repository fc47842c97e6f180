//! `pendulum top`: the live figures of an agent, on this machine or another, in a terminal.
//!
//! `feed` asks the agent on a thread of its own and sends [`feed::News`]; `view` is what is known and what the user chose;
//! `draw` shows it and decides nothing.

mod draw;
mod feed;
mod flows;
mod found;
mod keys;
mod series;
mod sse;
mod text;
mod view;

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::mpsc::TryRecvError;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event;

use crate::client::{AgentUrl, Client, Credentials};
use crate::exit::{Exit, Failure};
use draw::Palette;
use feed::{Feed, News};
use view::View;

/// Shows a link in a terminal, live: which of the two buffers holds the traffic, the verdict and why, and the flows.
/// Press ? for the keys, q to leave.
///
/// The agent may be on another machine. It answers on loopback only unless configured otherwise (https, a token); else tunnel
/// its port: ssh -L 9924:127.0.0.1:9924 GATEWAY.
#[derive(Debug, clap::Args)]
pub(crate) struct TopOptions {
    /// The agent, as http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9924")]
    url: AgentUrl,
    #[command(flatten)]
    credentials: Credentials,
    /// Link to begin with [default: the first]
    #[arg(long, value_name = "NAME")]
    link: Option<String>,
    /// Begin with addresses hidden
    #[arg(long)]
    redact: bool,
    /// No colours, as with NO_COLOR in the environment
    #[arg(long, visible_alias = "no-color")]
    no_colour: bool,
}

/// Longest time before a key is noticed, and between two looks for news.
const TICK: Duration = Duration::from_millis(50);

/// Runs until the user leaves, or a signal ends it.
pub(crate) fn top(options: &TopOptions) -> Result<ExitCode, Failure> {
    let client = Client::new(options.url.clone(), &options.credentials)?;
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(Failure::new(
            Exit::Unavailable,
            format!(
                "top needs a terminal, and this is none; programs read {}",
                options.url.with("/api/v1/state")
            ),
        ));
    }
    let view = View::new(&options.url, options.link.clone(), options.redact);
    let feed = Feed::start(client, view.wish()).map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the thread that asks the agent: {error}"))
    })?;
    let no_colour = options.no_colour || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    // From here on a panic also puts the terminal in order: that is part of this initialisation.
    let mut screen = Screen::open().map_err(broken_terminal)?;
    let ended = watch(&mut screen.terminal, view, &feed, Palette::new(!no_colour));
    drop(screen);
    ended?;
    Ok(ExitCode::SUCCESS)
}

/// The terminal in raw mode on its second screen; dropping it puts everything back.
struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    fn open() -> io::Result<Self> {
        Ok(Self { terminal: ratatui::try_init()? })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

fn watch(
    terminal: &mut DefaultTerminal,
    mut view: View,
    feed: &Feed,
    palette: Palette,
) -> Result<(), Failure> {
    let mut stale = true;
    loop {
        if stale {
            terminal.draw(|frame| draw::draw(frame, &view, palette)).map_err(broken_terminal)?;
        }
        stale = false;
        if event::poll(TICK).map_err(broken_terminal)? {
            keys::handle(&event::read().map_err(broken_terminal)?, &mut view);
            feed.wish(view.wish());
            stale = true;
        }
        loop {
            match feed.news() {
                Ok(News::Stopped) => return Ok(()),
                Ok(news) => view.take(news),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::new(
                        Exit::Software,
                        "the thread that asks the agent has ended; this is a defect: please report it",
                    ));
                }
            }
            stale = true;
        }
        // Figures grow old although nothing comes: their age is on the screen.
        stale |= view.trouble.is_some();
        if view.quit {
            return Ok(());
        }
    }
}

fn broken_terminal(error: io::Error) -> Failure {
    Failure::new(Exit::Io, format!("the terminal does not work: {error}; is TERM right?"))
}
