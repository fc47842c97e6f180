//! A veth path under iperf3: full packets and the smallest there are, with each program alone, all of them, and the agent.
//!
//! One pair of namespaces with a pfifo serves all arrangements. A round is one short stretch of each; the ratio to the bare path is taken
//! within the round, and the median of the ratios counts. Programs at tracepoints run for every device and socket of the machine, so
//! each arrangement is taken off before the next. A second bare stretch takes part: no difference smaller than its own is known.
//!
//! Two ratios: of what arrived, and of the processor time for each byte or packet, which other work on the machine changes less.

use std::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use pendulum::bpf::{Cwnd, CwndSource, KernelTypes, LinkPrograms, LoadOptions, QueuePrograms};
use pendulum_model::segment::Direction;
use serde::Serialize;

use crate::namespaces::{PLAIN, Pair, Running, WAN, inside};
use crate::packets::program;
use crate::test_run::{TcxSide, attach_tcx, empty_classifier, index_of};
use crate::transfer::{Load, Transferred, transfer};

/// Rounds for each second that was asked for; a stretch takes one.
const ROUNDS: u64 = 4;

/// The control's ratios: more than this from 1, or half of them further apart, and the machine is too noisy.
const NOISE: f64 = 0.02;

/// What is attached.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Arrangement {
    /// Nothing: what the others are compared with.
    Bare,
    /// Nothing either: the control.
    Control,
    /// Programs that do nothing at both hooks of TC.
    Empty,
    /// The program at TC egress. Alone it sees each flow one way only, which costs it a second lookup.
    Up,
    /// The program at TC ingress, likewise.
    Down,
    /// Both.
    UpAndDown,
    /// The tracepoints of the qdisc, which find no marks.
    Queue,
    /// The program that reads windows.
    Window,
    /// All of them.
    Programs,
    /// The agent, with all programs and its own readings.
    Agent,
    /// The agent on another device.
    Elsewhere,
}

impl Arrangement {
    const ALL: [Self; 11] = [
        Self::Bare,
        Self::Control,
        Self::Empty,
        Self::Up,
        Self::Down,
        Self::UpAndDown,
        Self::Queue,
        Self::Window,
        Self::Programs,
        Self::Agent,
        Self::Elsewhere,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Control => "bare again (control)",
            Self::Empty => "empty at egress, ingress",
            Self::Up => "egress alone",
            Self::Down => "ingress alone",
            Self::UpAndDown => "egress and ingress",
            Self::Queue => "queue tracepoints alone",
            Self::Window => "window program alone",
            Self::Programs => "all programs",
            Self::Agent => "agent",
            Self::Elsewhere => "agent on another device",
        }
    }

    const fn has_up(self) -> bool {
        matches!(self, Self::Up | Self::UpAndDown | Self::Programs)
    }

    const fn has_down(self) -> bool {
        matches!(self, Self::Down | Self::UpAndDown | Self::Programs)
    }
}

/// Where everything is attached: the path, and a device without traffic.
struct Site<'a> {
    path: Pair,
    idle: Pair,
    agent: &'a Path,
    programs: LinkPrograms,
    empty: OwnedFd,
}

/// What is attached, as long as it lives.
#[derive(Default)]
struct Attached {
    _links: Vec<OwnedFd>,
    _queue: Option<QueuePrograms>,
    _window: Option<Cwnd>,
    _running: Option<Running>,
}

impl<'a> Site<'a> {
    fn new(agent: &'a Path) -> Result<Self> {
        let [path, idle] = [Pair::new()?, Pair::new()?];
        path.qdisc(Some("pfifo"))?;
        let programs = LinkPrograms::load(&LoadOptions { queue_mark: true, ..LoadOptions::default() })?;
        Ok(Self { path, idle, agent, programs, empty: empty_classifier("pendulum_none")? })
    }

    fn attach(&mut self, arrangement: Arrangement) -> Result<Attached> {
        let mut attached = Attached::default();
        match arrangement {
            Arrangement::Agent => attached._running = Some(self.path.agent(self.agent, PLAIN)?),
            Arrangement::Elsewhere => attached._running = Some(self.idle.agent(self.agent, PLAIN)?),
            _ => {}
        }
        let Self { path, programs, empty, .. } = self;
        inside(&path.gateway, || {
            let wan = index_of(WAN)?;
            if arrangement == Arrangement::Empty {
                for side in [TcxSide::Egress, TcxSide::Ingress] {
                    attached._links.push(attach_tcx(empty.as_fd(), WAN, side)?);
                }
            }
            for (is_wanted, name, side) in [
                (arrangement.has_up(), "pendulum_up", TcxSide::Egress),
                (arrangement.has_down(), "pendulum_down", TcxSide::Ingress),
            ] {
                if is_wanted {
                    attached._links.push(attach_tcx(program(programs, name)?, WAN, side)?);
                }
            }
            if matches!(arrangement, Arrangement::Queue | Arrangement::Programs) {
                let mut queue = QueuePrograms::load()?;
                queue.track(Direction::Up, wan, 0)?;
                attached._queue = Some(queue);
            }
            if matches!(arrangement, Arrangement::Window | Arrangement::Programs) {
                let mut window = Cwnd::start(CwndSource::Fexit);
                window.watch(Some(wan))?;
                attached._window = Some(window);
            }
            Ok(())
        })?;
        Ok(attached)
    }

    /// One stretch; the device's caches and the kernel's own work after an attachment come before it.
    fn stretch(&mut self, arrangement: Arrangement, load: Load) -> Result<Transferred> {
        let _attached = self.attach(arrangement)?;
        std::thread::sleep(Duration::from_millis(100));
        transfer(&self.path, load, 1)
    }
}

/// One load over one arrangement.
#[derive(Serialize)]
struct PathRow {
    load: Load,
    arrangement: Arrangement,
    /// What arrived, median of the rounds: bit/s (TCP) or packets/s (UDP).
    arrived: f64,
    /// What arrived, to the bare path of the same round.
    path: Kept,
    /// The bare path's processor time for a byte or packet, to this one's.
    processor: Kept,
}

/// How much of the bare path is left.
#[derive(Clone, Copy, Serialize)]
struct Kept {
    ratio: Quartiles,
    /// Whether the ratio is further from 1 than what the control differs.
    is_known: bool,
}

#[derive(Clone, Copy, Serialize)]
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: usize| values[(values.len() - 1) * share / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    /// What a ratio that should be 1 tells of the machine.
    fn is_noisy(self) -> bool {
        (self.median - 1.0).abs() > NOISE || self.high - self.low > 2.0 * NOISE
    }
}

#[derive(Serialize)]
pub(crate) struct PathReport {
    rounds: u64,
    rows: Vec<PathRow>,
    /// Share of one core that the programs took, by the kernel's BPF statistics, in a stretch of its own.
    programs: Vec<Program>,
}

#[derive(Serialize)]
struct Program {
    name: String,
    runs: u64,
    ns_per_run: f64,
    core_share: f64,
}

/// Measure; `seconds` for each arrangement and load, four times.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<PathReport> {
    // Read once, not for each arrangement.
    let _types = KernelTypes::keep();
    let mut site = Site::new(agent)?;
    let rounds = ROUNDS * seconds.max(1);
    let mut rows = Vec::new();
    for load in [Load::Tcp1500, Load::Udp64] {
        site.stretch(Arrangement::Bare, load).context("a first transfer, to warm up")?;
        let mut arrived = vec![Vec::new(); Arrangement::ALL.len()];
        for round in 0..rounds as usize {
            // Each begins as often as the others.
            for place in 0..arrived.len() {
                let place = (place + round) % arrived.len();
                arrived[place].push(site.stretch(Arrangement::ALL[place], load)?);
            }
        }
        rows.extend(rows_of(load, &arrived));
    }
    let programs = shares(&mut site, seconds)?;
    Ok(PathReport { rounds, rows, programs })
}

/// `stretches`: of each arrangement those of each round.
fn rows_of(load: Load, stretches: &[Vec<Transferred>]) -> Vec<PathRow> {
    let figures = |figure: fn(&Transferred) -> f64| -> Vec<Vec<f64>> {
        stretches.iter().map(|rounds| rounds.iter().map(figure).collect()).collect()
    };
    let arrived = figures(|it| it.arrived);
    let (path, processor) = (kept(&arrived), kept(&figures(|it| 1.0 / it.processor_s)));
    Arrangement::ALL
        .into_iter()
        .zip(arrived)
        .zip(path.into_iter().zip(processor))
        .map(|((arrangement, arrived), (path, processor))| PathRow {
            load,
            arrangement,
            arrived: Quartiles::of(arrived).median,
            path,
            processor,
        })
        .collect()
}

/// `figures`: the more the better, of each arrangement in each round.
fn kept(figures: &[Vec<f64>]) -> Vec<Kept> {
    let place = |arrangement| Arrangement::ALL.iter().position(|it| *it == arrangement);
    let bare = &figures[place(Arrangement::Bare).expect("it is measured")];
    let ratio = |of: &Vec<f64>| Quartiles::of(of.iter().zip(bare).map(|(it, bare)| it / bare).collect());
    let control = ratio(&figures[place(Arrangement::Control).expect("it is measured")]);
    let doubt = (control.median - 1.0).abs().max((control.high - control.low) / 2.0);
    let is_known = |ratio: Quartiles| !control.is_noisy() && (ratio.median - 1.0).abs() > doubt;
    figures.iter().map(ratio).map(|ratio| Kept { ratio, is_known: is_known(ratio) }).collect()
}

/// What the programs took of one core during a transfer.
fn shares(site: &mut Site<'_>, seconds: u64) -> Result<Vec<Program>> {
    let _attached = site.attach(Arrangement::Agent)?;
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let before = totals()?;
    let start = Instant::now();
    transfer(&site.path, Load::Tcp1500, seconds)?;
    let elapsed = start.elapsed().as_secs_f64();
    let after = totals()?;
    let mut programs = Vec::new();
    for (id, name, runs, time) in after {
        let (old_runs, old_time) =
            before.iter().find(|row| row.0 == id).map_or((0, Duration::ZERO), |row| (row.2, row.3));
        let (runs, spent) = (runs - old_runs, (time - old_time).as_secs_f64());
        if runs > 0 {
            programs.push(Program {
                name,
                runs,
                ns_per_run: spent * 1e9 / runs as f64,
                core_share: spent / elapsed,
            });
        }
    }
    Ok(programs)
}

/// Id, name, runs and time of all programs of ours.
pub(crate) fn totals() -> Result<Vec<(u32, String, u64, Duration)>> {
    let mut rows = Vec::new();
    for info in loaded_programs() {
        // A program may go while we look.
        let Ok(info) = info else { continue };
        let name = info.name_as_str().unwrap_or_default();
        if name.starts_with("pendulum_") {
            rows.push((info.id(), name.to_owned(), info.run_count(), info.run_time()));
        }
    }
    ensure!(!rows.is_empty(), "the agent has loaded no programs");
    Ok(rows)
}

impl fmt::Display for PathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "veth path with a pfifo, iperf3 on two processors, offloads off; {} rounds of a second each, ratios within a round: median (middle half)\n\
             Aim: ≥ 0.95 for the agent at 1500 bytes\n",
            self.rounds
        )?;
        for load in [Load::Tcp1500, Load::Udp64] {
            let (name, unit, divisor) = match load {
                Load::Tcp1500 => ("1500 B", "Gb/s", 1e9),
                Load::Udp64 => ("64 B", "kp/s", 1e3),
            };
            writeln!(f, "{name:<26}{:>14}   {:<45}by processor time", "arrived", "kept")?;
            for row in self.rows.iter().filter(|row| row.load == load) {
                let arrived = row.arrived / divisor;
                write!(f, "{:<26}{arrived:>9.2} {unit}", row.arrangement.name())?;
                if row.arrangement == Arrangement::Bare {
                    writeln!(f)?;
                    continue;
                }
                let text = |Kept { ratio, is_known }: Kept| {
                    let Quartiles { low, median, high } = ratio;
                    let note = match (row.arrangement, is_known) {
                        (Arrangement::Control, _) if ratio.is_noisy() => ", too noisy",
                        (Arrangement::Control, _) | (_, true) => "",
                        (_, false) => ", not known from 1",
                    };
                    format!("{median:.3} ({low:.3} … {high:.3}){note}")
                };
                writeln!(f, "   {:<45}{}", text(row.path), text(row.processor))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "{:<18}{:>12}{:>10}{:>16}", "program", "runs", "ns/run", "share of a core")?;
        for program in &self.programs {
            let share = program.core_share * 100.0;
            writeln!(
                f,
                "{:<18}{:>12}{:>10.0}{:>15.1}%",
                program.name, program.runs, program.ns_per_run, share
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five rounds of a machine whose speed changes from one to the next, by arrangement.
    fn rounds(steady: impl Fn(Arrangement) -> f64) -> Vec<Vec<Transferred>> {
        let one = |arrived: f64| Transferred { arrived, processor_s: 1.0 / arrived };
        let speeds = [1.0, 2.0, 1.0, 2.0, 4.0];
        let stretches = |it| speeds.iter().map(|speed| one(steady(it) * speed)).collect();
        Arrangement::ALL.iter().map(|&it| stretches(it)).collect()
    }

    #[test]
    fn ratios_are_those_of_one_round() {
        let rows = rows_of(
            Load::Tcp1500,
            &rounds(|arrangement| match arrangement {
                Arrangement::Control => 101.0,
                Arrangement::Empty => 98.0,
                Arrangement::Agent => 95.0,
                _ => 100.0,
            }),
        );
        let ratio = |arrangement| {
            let row = rows.iter().find(|row| row.arrangement == arrangement).expect("a row");
            assert!((row.processor.ratio.median - row.path.ratio.median).abs() < 1e-9);
            (row.path.ratio.median, row.path.is_known)
        };
        assert_eq!(ratio(Arrangement::Agent), (0.95, true));
        assert_eq!(ratio(Arrangement::Empty), (0.98, true));
        assert!(!ratio(Arrangement::Control).1, "it differs by what it differs");
    }

    #[test]
    fn a_control_that_differs_by_itself_leaves_nothing_known() {
        let mut arrived = rounds(|arrangement| if arrangement == Arrangement::Agent { 80.0 } else { 100.0 });
        arrived[1].iter_mut().zip([1.0, 0.92, 0.9, 1.08, 1.1]).for_each(|(it, change)| it.arrived *= change);
        let rows = rows_of(Load::Udp64, &arrived);
        assert!(rows.iter().all(|row| !row.path.is_known));
        assert!(rows.iter().any(|row| row.processor.is_known), "the processor time tells more");
    }
}
