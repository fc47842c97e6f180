//! `pendulum-lab demo`: the link of paper 000, Fig. 1 with real traffic, the agent on its gateway, and what both say.
//!
//! [`run`] builds and takes down; `session` drives the traffic and reads. On a terminal `viewer` is `pendulum top`; elsewhere `display`
//! prints a line of `course` for a moment, which is a `view`. `figures`, `table` and `findings` make the end.

mod alerts;
mod course;
mod display;
mod error;
mod figures;
mod findings;
mod format;
mod introduction;
mod picture;
mod plan;
mod reading;
mod session;
mod shaped;
mod style;
mod table;
mod view;
mod viewer;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use alerts::PrometheusOptions;
pub use error::DemoError;

use display::Display;
use figures::StretchFindings;
use plan::DemoPlan;
use session::{Observed, Session};
use style::StyledLine;

use crate::agent::Agent;
use crate::interrupt::Interrupt;
use crate::lab::{Lab, LinkSpec};
use crate::relay::Relay;

/// How to run the demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The agent, a `pendulum` binary.
    pub agent: PathBuf,
    /// Traffic time; the usual one if not given, and never less than the shortest.
    pub total: Option<Duration>,
    /// Where to offer the agent's page outside the lab. If not given: port 9924, or the next free one.
    pub listen: Option<SocketAddr>,
    /// Go on with the traffic after the table, until asked to stop.
    pub keep: bool,
    /// Run a Prometheus beside the agent, and show which alerts fire.
    pub prometheus: Option<PrometheusOptions>,
    /// Only compare the link as it is with the link that the agent shapes.
    pub shape: bool,
    /// No colours, whatever the terminal can do.
    pub no_colour: bool,
    /// Stops the demo.
    pub interrupt: Interrupt,
}

impl DemoOptions {
    /// Traffic time that is used unless configured otherwise.
    pub const USUAL: Duration = DemoPlan::USUAL;
    /// Least traffic time; shorter wishes are raised to it.
    pub const SHORTEST: Duration = DemoPlan::SHORTEST;
}

/// Runs the demo on the standard output.
///
/// # Errors
/// If the lab, its traffic or the agent fails, the output is gone, or the user stops it before the table. Nothing is left
/// behind then, unless the error says so.
pub fn run(options: &DemoOptions) -> Result<(), DemoError> {
    if !options.agent.is_file() {
        return Err(DemoError::NoAgent { path: options.agent.clone() });
    }
    if options.shape {
        return shaped::run(options);
    }
    let plan = DemoPlan::new(options.total.unwrap_or(DemoPlan::USUAL).max(DemoPlan::SHORTEST));
    let mut display = Display::new(options.agent.clone(), options.no_colour);
    let glyphs = display.style().glyphs;
    display.print(&introduction::what(plan.total(), &LinkSpec::FIG1, glyphs, Display::columns()))?;
    let lab = Lab::start(LinkSpec::FIG1)?;
    let shown = show(options, plan, &lab, &mut display);
    // However it went, the terminal is put in order before anything else is said, and the lab goes.
    drop(display);
    let stopped = lab.stop();
    shown?;
    Ok(stopped?)
}

/// Everything that needs the lab.
fn show(options: &DemoOptions, plan: DemoPlan, lab: &Lab, display: &mut Display) -> Result<(), DemoError> {
    let mut agent = Agent::start(lab, &options.agent)?;
    let result = relay(options.listen, lab).and_then(|(relay, in_place_of)| {
        let url = format!("http://{}/", relay.address());
        let prometheus = options.prometheus.as_ref().map(|wanted| alerts::start(lab, wanted)).transpose()?;
        let offered = prometheus.as_ref().map(|_| alerts::offer(lab)).transpose()?;
        let alerts_at = offered.as_ref().map(Relay::address);
        display.print(&introduction::addresses(&url, in_place_of, alerts_at))?;
        let session = Session {
            lab,
            agent: &mut agent,
            prometheus: prometheus.as_ref(),
            plan,
            interrupt: &options.interrupt,
            url: url.clone(),
        };
        rounds(options, session, display)
    });
    // Asked to end, it takes its programs off the device itself.
    let stopped = agent.stop();
    result?;
    stopped?;
    Ok(())
}

/// One round of traffic and its table; with `--keep`, more rounds until the user stops them.
fn rounds(options: &DemoOptions, mut session: Session<'_>, display: &mut Display) -> Result<(), DemoError> {
    let observed = session.run(display)?;
    report(&observed, display)?;
    if !options.keep {
        return Ok(());
    }
    display.say(&format!(
        "The same traffic goes on and on; look at {} or press Ctrl-C to end it.",
        session.url
    ))?;
    display.print(&[StyledLine::new()])?;
    loop {
        match session.run(display) {
            Ok(_) => {}
            // That is how this is meant to end.
            Err(DemoError::Interrupted(_)) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// The whole run at one look, the table, and what it says.
fn report(observed: &Observed, display: &Display) -> io::Result<()> {
    let glyphs = display.style().glyphs;
    let columns = Display::columns();
    let outcomes: Vec<StretchFindings> =
        observed.view.plan.stretches.iter().map(|stretch| StretchFindings::of(stretch, observed)).collect();
    let mut lines = vec![StyledLine::new()];
    lines.extend(course::time_line(&observed.view, glyphs, columns - 1));
    lines.push(StyledLine::new());
    lines.extend(table::table(&outcomes, glyphs, columns));
    lines.push(StyledLine::new());
    display.print(&lines)?;
    for paragraph in findings::findings(&outcomes, &observed.view.link, glyphs) {
        display.say(&paragraph)?;
    }
    if observed.view.alerts.is_some() {
        for sentence in alerts::sentences(&observed.view.plan.stretches, &observed.fired) {
            display.say(&sentence)?;
        }
    }
    display.print(&[StyledLine::new()])?;
    for note in introduction::notes() {
        display.say(&note)?;
    }
    Ok(())
}

/// Offers the agent's page outside the lab; tells also which address was taken, if another one had to be chosen.
fn relay(wanted: Option<SocketAddr>, lab: &Lab) -> Result<(Relay, Option<SocketAddr>), DemoError> {
    const PORTS_TRIED: u16 = 50;
    let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, Agent::ADDRESS.port()));
    let first = wanted.unwrap_or(usual);
    let others = if wanted.is_some() { 0 } else { PORTS_TRIED };
    let mut port = first.port();
    loop {
        let address = SocketAddr::new(first.ip(), port);
        match Relay::start(address, lab.gateway(), Agent::ADDRESS) {
            Ok(relay) => return Ok((relay, (port != first.port()).then_some(first))),
            Err(source) if source.kind() == io::ErrorKind::AddrInUse && port < first.port() + others => {
                port += 1
            }
            Err(source) => return Err(DemoError::Listen { address, source }),
        }
    }
}
