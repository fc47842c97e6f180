//! `demo --shape`: a download that an upload joins, twice: first as the link is, then with the agent shaping it. Both over
//! the same time axis on one screen.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use pendulum_model::rate::Rate;
use pendulum_model::segment::Direction;
use pendulum_wire::State;

use super::picture;
use super::style::{Style, StyledLine, Tone};
use super::{DemoError, DemoOptions};
use crate::agent::Agent;
use crate::lab::{Lab, LinkSpec};
use crate::topology::{LAN_DEVICE, WAN_DEVICE};
use crate::traffic::{IperfReport, Transfer, TransferSpec};

/// Traffic of one half, unless configured otherwise.
const USUAL: Duration = Duration::from_secs(28);
/// When the upload joins, as a share of the half.
const JOINS: f64 = 0.25;
/// From then on, the share that is left out of the figures: queues and windows have to settle.
const LEFT_OUT: f64 = 0.25;
/// Columns of the time axis.
const WIDTH: usize = 48;
const LABEL: usize = 20;
/// Beyond its time, for iperf3's last exchange.
const PATIENCE: Duration = Duration::from_secs(30);

/// One half: how it is called, and the table `[shape]` of the agent's configuration.
const HALVES: [(&str, &str); 2] =
    [("as it is", "mode = \"off\""), ("shaped", "mode = \"enforce\"\nack-filter = \"delayed\"")];

/// Runs both halves and prints each when it is done.
///
/// # Errors
/// If the lab, its traffic or the agent fails, the output is gone, or the user stops it.
pub(super) fn run(options: &DemoOptions) -> Result<(), DemoError> {
    let half = options.total.map_or(USUAL, |total| total / 2).max(Duration::from_secs(12));
    let half = Duration::from_secs(half.as_secs() / 4 * 4);
    let lab = Lab::start(LinkSpec::FIG1)?;
    let shown = halves(options, &lab, half);
    let stopped = lab.stop();
    shown?;
    Ok(stopped?)
}

fn halves(options: &DemoOptions, lab: &Lab, half: Duration) -> Result<(), DemoError> {
    let spec = lab.spec();
    let mut out = io::stdout();
    let style = Style::of_environment(out.is_terminal(), options.no_colour);
    writeln!(
        out,
        "A download (reno) over {} down, {} up, {} bytes of buffer on both sides, {} s; an upload joins it.\n\n{}upload joins",
        spec.downlink.rate,
        spec.uplink.rate,
        spec.uplink.buffer_bytes(),
        half.as_secs(),
        " ".repeat(LABEL + (JOINS * WIDTH as f64) as usize)
    )?;
    for (name, shape) in HALVES {
        let file = lab.directory().join("demo.toml");
        std::fs::write(&file, config(lab, shape))?;
        let agent = Agent::configured(lab, &options.agent, &file)?;
        let measured = measure(options, lab, &agent, half);
        agent.stop()?;
        for line in measured?.lines(name, [spec.uplink.rate, spec.downlink.rate], style) {
            writeln!(out, "{}", line.render(style.palette))?;
        }
    }
    writeln!(out, "Means are those after the upload has joined. How: docs/guide/shaping.md.")?;
    writeln!(out, "Against fq_codel and cake: pendulum-lab run mitigations.")?;
    Ok(())
}

/// One direction of a half.
#[derive(Debug)]
struct Course {
    /// Share of the half at which each interval began, and goodput in bit/s.
    values: Vec<(f64, f64)>,
    mean_bps: f64,
}

impl Course {
    /// `joins`: what share of the half had passed when it began; the figures are those of the time with both.
    fn of(report: &IperfReport, joins: f64, half: Duration) -> Self {
        let half = half.as_secs_f64();
        let rate = |bytes: u64, seconds: f64| if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
        let values = report
            .intervals
            .iter()
            .map(|interval| {
                (joins + interval.start / half, rate(interval.bytes, interval.end - interval.start))
            })
            .filter(|(at, _)| *at < 1.0)
            .collect();
        let from = (JOINS + (1.0 - JOINS) * LEFT_OUT - joins) * half;
        Self { values, mean_bps: report.mean_bps(from, (1.0 - joins) * half).unwrap_or(0.0) }
    }

    fn line(&self, label: String, direction: Direction, rate: Rate, style: Style) -> StyledLine {
        let rate = rate.bits_per_second() as f64;
        let begin = self.values.first().map_or(0, |(at, _)| (at * WIDTH as f64) as usize);
        let shares: Vec<(f64, f64)> = self.values.iter().map(|(at, bps)| (*at, bps / rate)).collect();
        let levels: String = picture::levels(&shares, WIDTH, style.glyphs).chars().skip(begin).collect();
        StyledLine::plain(label)
            .padded(LABEL)
            .with(Tone::Plain, " ".repeat(begin))
            .with(Tone::Of(direction), levels)
            .padded(LABEL + WIDTH)
            .with(Tone::Strong, format!("{:>6.0} kbit/s", self.mean_bps / 1e3))
            .with(Tone::Faint, format!("{:>4.0} %", 100.0 * self.mean_bps / rate))
    }
}

/// One half.
struct ShapedHalf {
    up: Course,
    down: Course,
    said: String,
}

impl ShapedHalf {
    fn lines(&self, name: &str, [up, down]: [Rate; 2], style: Style) -> [StyledLine; 4] {
        [
            self.down.line(format!("{name:<10}download"), Direction::Down, down, style),
            self.up.line(format!("{:<10}upload", ""), Direction::Up, up, style),
            StyledLine::plain(format!("{:<10}", "")).with(Tone::Faint, format!("the agent: {}", self.said)),
            StyledLine::new(),
        ]
    }
}

fn config(lab: &Lab, shape: &str) -> String {
    let spec = lab.spec();
    format!(
        "listen = \"{}\"\n[[link]]\nwan = \"{WAN_DEVICE}\"\nlan = [\"{LAN_DEVICE}\"]\nuplink-rate = \"{}\"\n\
         downlink-rate = \"{}\"\n[shape]\n{shape}\n",
        Agent::ADDRESS,
        spec.uplink.rate,
        spec.downlink.rate
    )
}

fn measure(options: &DemoOptions, lab: &Lab, agent: &Agent, half: Duration) -> Result<ShapedHalf, DemoError> {
    let began = Instant::now();
    let start = |direction, time| Transfer::start(lab, TransferSpec::new(direction, time));
    let down = start(Direction::Down, half)?;
    options.interrupt.sleep_until(began + half.mul_f64(JOINS))?;
    let up = start(Direction::Up, half.mul_f64(1.0 - JOINS))?;
    options.interrupt.sleep_until(began + half.mul_f64(0.95))?;
    let said = in_words(&agent.json("/api/v1/state")?);
    let course = |transfer: Transfer, joins| -> Result<Course, DemoError> {
        Ok(Course::of(&transfer.finish(half + PATIENCE)?.receiver, joins, half))
    };
    Ok(ShapedHalf { down: course(down, 0.0)?, up: course(up, JOINS)?, said })
}

fn in_words(state: &State) -> String {
    let link = state.links.first().cloned().unwrap_or_default();
    let verdict = link.verdict.as_deref().unwrap_or("no verdict yet");
    let shape = link.shape.unwrap_or_default();
    match (&*shape.state, shape.held_acks) {
        ("enforcing", Some(held)) => {
            let passed =
                shape.acks.iter().filter_map(|acks| acks.get("passed")).flat_map(|passed| passed.values());
            let passed: u64 = passed.sum();
            format!("{verdict}; {held} of {} ACKs merged", passed + held)
        }
        ("refused", _) => format!("not shaped: {}", shape.reason.unwrap_or_default()),
        _ => verdict.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::style::{Glyphs, Palette};
    use serde_json::{Value, json};

    #[test]
    fn an_upload_begins_where_it_joins() {
        let values = (0..36).map(|i| (0.25 + f64::from(i) / 48.0, 98_000.0)).collect();
        let course = Course { values, mean_bps: 98_000.0 };
        let style = Style { palette: Palette::Monochrome, glyphs: &Glyphs::ASCII };
        let rate = "196kbit".parse().expect("a rate");
        let text = course.line("upload".to_owned(), Direction::Up, rate, style).render(Palette::Monochrome);
        let level = Glyphs::ASCII.level[2].to_string();
        assert_eq!(text, format!("upload{}{}    98 kbit/s  50 %", " ".repeat(14 + 12), level.repeat(36)));
    }

    #[test]
    fn words_of_both_halves() {
        let state = |shape: Value| -> State {
            let state = json!({"links": [{"verdict": "swinging", "shape": shape}]});
            serde_json::from_value(state).expect("a state")
        };
        assert_eq!(in_words(&state(json!({"state": "off"}))), "swinging");
        let acks = json!({"passed": {"first": 100, "no_carrier": 300}, "held": {"redundant": 600}});
        let shaping = json!({"state": "enforcing", "held_acks": 600, "acks": acks});
        assert_eq!(in_words(&state(shaping)), "swinging; 600 of 1000 ACKs merged");
        let refused = json!({"state": "refused", "reason": "SQM"});
        assert_eq!(in_words(&state(refused)), "not shaped: SQM");
    }
}
