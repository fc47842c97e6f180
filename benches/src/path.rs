//! A veth path under iperf3: full packets and the smallest there are, with each program alone, all of them, and the agent.
//!
//! One pair of namespaces with a pfifo serves all arrangements, and the same traffic: only what is attached changes. Each is measured for
//! a fifth of a second, and so is the bare path before and behind it; the ratio is that of neighbours, and the median counts. So it
//! matters little what else the machine does. Programs at tracepoints run for every device and socket of the machine: each
//! arrangement is taken off before the next. One that attaches nothing takes part: no difference smaller than its own is known.

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

use crate::namespaces::{PLAIN, Pair, REMOTE_DEVICE, Running, WAN, inside};
use crate::packets::program;
use crate::test_run::{TcxSide, attach_tcx, empty_classifier, index_of};
use crate::transfer::{Load, Traffic};

/// Rounds for each second that was asked for.
const ROUNDS: u64 = 16;

/// A window of traffic that is counted, and how long the path takes to settle before it.
const WINDOW: Duration = Duration::from_millis(200);
const SETTLING: Duration = Duration::from_millis(100);

/// The interval of the control's ratio reaches further than this from 1: the machine is too noisy.
const NOISE: f64 = 0.02;

/// What is attached.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Arrangement {
    /// Nothing: the control.
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
    const ALL: [Self; 10] = [
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
            Self::Control => "nothing (control)",
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

    /// Bit/s (TCP) or packets/s (UDP) that come out of the path in a window.
    fn window(&self, load: Load) -> Result<f64> {
        std::thread::sleep(SETTLING);
        inside(&self.path.remote, || {
            let (start, before) = (Instant::now(), received(load)?);
            std::thread::sleep(WINDOW);
            Ok((received(load)? - before) / start.elapsed().as_secs_f64())
        })
    }
}

/// Bits (TCP) or packets (UDP) that the path's end has received; on a thread in its namespace.
fn received(load: Load) -> Result<f64> {
    let devices = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    let counts = devices.lines().find_map(|line| line.trim().strip_prefix(REMOTE_DEVICE)?.strip_prefix(':'));
    let mut counts = counts.context("the path's end is counted")?.split_whitespace();
    let mut next = || Ok(counts.next().context("a count")?.parse::<f64>()?);
    let [bytes, packets]: [Result<f64>; 2] = [next(), next()];
    match load {
        Load::Tcp1500 => Ok(bytes? * 8.0),
        Load::Udp64 => packets,
    }
}

/// A window of one arrangement, and the mean of the bare ones before and behind it.
#[derive(Clone, Copy)]
struct Window {
    arrived: f64,
    bare: f64,
}

/// One load over one arrangement.
#[derive(Serialize)]
struct PathRow {
    load: Load,
    arrangement: Arrangement,
    /// What arrived, median of the rounds: bit/s (TCP) or packets/s (UDP).
    arrived: f64,
    /// To the bare path.
    ratio: Median,
    /// Whether the ratio is further from 1 than what the control differs.
    is_known: bool,
}

/// A median, and where that of all possible rounds is with 95 %: √n ranks to both sides.
#[derive(Clone, Copy, Serialize)]
struct Median {
    low: f64,
    median: f64,
    high: f64,
}

impl Median {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let (last, aside) = (values.len() - 1, values.len().isqrt());
        let at = |rank: usize| values[rank.min(last)];
        Self { low: at((last / 2).saturating_sub(aside)), median: at(last / 2), high: at(last / 2 + aside) }
    }

    /// How far from 1 it may be.
    fn doubt(self) -> f64 {
        (self.low - 1.0).abs().max((self.high - 1.0).abs())
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

/// Measure.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<PathReport> {
    // Read once, not for each arrangement.
    let _types = KernelTypes::keep();
    let mut site = Site::new(agent)?;
    let rounds = ROUNDS * seconds.max(1);
    let mut rows = Vec::new();
    for load in [Load::Tcp1500, Load::Udp64] {
        let _traffic = Traffic::start(&site.path, load)?;
        let mut windows = vec![Vec::new(); Arrangement::ALL.len()];
        let mut before = site.window(load)?;
        for _ in 0..rounds {
            for (arrangement, windows) in Arrangement::ALL.into_iter().zip(&mut windows) {
                let attached = site.attach(arrangement)?;
                let arrived = site.window(load)?;
                drop(attached);
                let behind = site.window(load)?;
                windows.push(Window { arrived, bare: (before + behind) / 2.0 });
                before = behind;
            }
        }
        rows.extend(rows_of(load, &windows));
    }
    let programs = shares(&mut site, seconds)?;
    Ok(PathReport { rounds, rows, programs })
}

/// `windows`: of each arrangement those of all rounds.
fn rows_of(load: Load, windows: &[Vec<Window>]) -> Vec<PathRow> {
    let ratio = |windows: &Vec<Window>| Median::of(windows.iter().map(|it| it.arrived / it.bare).collect());
    // The first one.
    let doubt = ratio(&windows[0]).doubt();
    let rows = Arrangement::ALL.into_iter().zip(windows).map(|(arrangement, windows)| {
        let ratio = ratio(windows);
        let Median { low, median, high } = ratio;
        PathRow {
            load,
            arrangement,
            arrived: Median::of(windows.iter().map(|it| it.arrived).collect()).median,
            ratio,
            is_known: doubt <= NOISE && (median - 1.0).abs() > doubt && (low > 1.0 || high < 1.0),
        }
    });
    rows.collect()
}

/// What the programs took of one core during a transfer.
fn shares(site: &mut Site<'_>, seconds: u64) -> Result<Vec<Program>> {
    let _attached = site.attach(Arrangement::Agent)?;
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let _traffic = Traffic::start(&site.path, Load::Tcp1500)?;
    let before = totals()?;
    let start = Instant::now();
    std::thread::sleep(Duration::from_secs(seconds));
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
            "veth path with a pfifo, iperf3 on two processors, offloads off; {} rounds, ratios to bare neighbours: median (95 %)\n\
             Aim: ≥ 0.95 for the agent at 1500 bytes\n",
            self.rounds
        )?;
        for load in [Load::Tcp1500, Load::Udp64] {
            let (name, unit, divisor) = match load {
                Load::Tcp1500 => ("1500 B", "Gb/s", 1e9),
                Load::Udp64 => ("64 B", "kp/s", 1e3),
            };
            writeln!(f, "{name:<26}{:>14}   ratio", "arrived")?;
            for row in self.rows.iter().filter(|row| row.load == load) {
                let Median { low, median, high } = row.ratio;
                let arrived = row.arrived / divisor;
                write!(f, "{:<26}{arrived:>9.2} {unit}", row.arrangement.name())?;
                let note = match (row.arrangement, row.is_known) {
                    (Arrangement::Control, _) if row.ratio.doubt() > NOISE => {
                        "  too noisy: no ratio of this load is known"
                    }
                    (Arrangement::Control, _) | (_, true) => "",
                    (_, false) => "  not known from 1",
                };
                writeln!(f, "   {median:.3} ({low:.3} … {high:.3}){note}")?;
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
    fn rounds(steady: impl Fn(Arrangement) -> f64) -> Vec<Vec<Window>> {
        let speeds = [1.0, 2.0, 1.0, 2.0, 4.0];
        let windows = |it| speeds.map(|speed| Window { arrived: steady(it) * speed, bare: 100.0 * speed });
        Arrangement::ALL.iter().map(|&it| windows(it).to_vec()).collect()
    }

    #[test]
    fn ratios_are_those_of_neighbours() {
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
            (row.ratio.median, row.is_known)
        };
        assert_eq!(ratio(Arrangement::Agent), (0.95, true));
        assert_eq!(ratio(Arrangement::Empty), (0.98, true));
        assert!(!ratio(Arrangement::Control).1, "it differs by what it differs");
    }

    #[test]
    fn a_control_that_differs_by_itself_leaves_nothing_known() {
        let mut windows = rounds(|arrangement| if arrangement == Arrangement::Agent { 80.0 } else { 100.0 });
        windows[0].iter_mut().zip([1.0, 0.92, 0.9, 1.08, 1.1]).for_each(|(it, change)| it.arrived *= change);
        assert!(rows_of(Load::Udp64, &windows).iter().all(|row| !row.is_known));
    }

    #[test]
    fn many_rounds_make_a_median_certain() {
        let of = |count: i32| Median::of((0..count).map(|n| f64::from(n % 11)).collect());
        assert_eq!((of(11).low, of(11).median, of(11).high), (2.0, 5.0, 8.0));
        assert_eq!((of(1100).low, of(1100).median, of(1100).high), (5.0, 5.0, 5.0));
    }
}
