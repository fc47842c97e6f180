//! A veth path under iperf3: full packets and the smallest there are, without programs, with empty ones, and with the agent's.
//!
//! Every arrangement has a pair of namespaces of its own that stays as it is, so nothing is loaded between two stretches. A round is one
//! short stretch of each; the ratio to the bare path is taken within the round, and the median of the ratios counts. A second bare
//! path takes part: what it differs from the first is what the machine does, and no smaller difference is known.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use aya::programs::loaded_programs;
use aya::sys::{Stats, enable_stats};
use serde::Serialize;

use crate::namespaces::{PLAIN, Pair, Running, WAN, inside};
use crate::test_run::{EmptyTcx, TcxSide};
use crate::transfer::{Load, transfer};

/// Rounds for each second that was asked for; a stretch takes one.
const ROUNDS: u64 = 4;

/// The control's ratios: more than this from 1, or half of them further apart, and the machine is too noisy.
const NOISE: f64 = 0.02;

/// Everything there is: XDP instead of TC ingress, and with a qdisc on the device its tracepoints, too.
const EVERYTHING: &str = "[[link]]\nwan = \"wan0\"\ningress-hook = \"xdp\"\n";

/// What is on the WAN device.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Arrangement {
    /// Nothing: what the others are compared with.
    Bare,
    /// Nothing either: the control.
    Control,
    /// Programs that do nothing at both hooks of TC.
    Empty,
    /// The agent as it is configured by default, over a device without a queue.
    Agent,
    /// The agent with XDP over a pfifo. Its bare path has the same queue.
    Everything,
    /// A pfifo alone: what `Everything` is compared with.
    Queue,
}

impl Arrangement {
    const ALL: [Self; 6] =
        [Self::Bare, Self::Control, Self::Empty, Self::Agent, Self::Queue, Self::Everything];

    fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Control => "bare again (control)",
            Self::Empty => "empty programs",
            Self::Agent => "agent",
            Self::Queue => "pfifo",
            Self::Everything => "agent, XDP and pfifo",
        }
    }

    /// What it is compared with.
    fn reference(self) -> Self {
        match self {
            Self::Everything => Self::Queue,
            _ => Self::Bare,
        }
    }
}

/// A path and what is attached to it, as long as it lives; the programs go before the devices.
struct Attached {
    _running: Option<Running>,
    _empty: Option<[EmptyTcx; 2]>,
    pair: Pair,
}

impl Attached {
    fn new(arrangement: Arrangement, agent: &Path) -> Result<Self> {
        let pair = Pair::new()?;
        if matches!(arrangement, Arrangement::Queue | Arrangement::Everything) {
            pair.qdisc(Some("pfifo"))?;
        }
        let empty = match arrangement {
            Arrangement::Empty => Some(inside(&pair.gateway, || {
                Ok([
                    EmptyTcx::attach("pendulum_u_none", WAN, TcxSide::Egress)?,
                    EmptyTcx::attach("pendulum_d_none", WAN, TcxSide::Ingress)?,
                ])
            })?),
            _ => None,
        };
        let running = match arrangement {
            Arrangement::Agent => Some(pair.agent(agent, PLAIN)?),
            Arrangement::Everything => Some(pair.agent(agent, EVERYTHING)?),
            _ => None,
        };
        Ok(Self { _running: running, _empty: empty, pair })
    }
}

/// One load over one arrangement.
#[derive(Serialize)]
struct PathRow {
    load: Load,
    arrangement: Arrangement,
    /// What arrived, median of the rounds: bit/s (TCP) or packets/s (UDP).
    arrived: f64,
    /// To the bare path of the same round: median, and the middle half.
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
    let paths = Arrangement::ALL
        .into_iter()
        .map(|arrangement| Ok((arrangement, Attached::new(arrangement, agent)?)))
        .collect::<Result<Vec<_>>>()?;
    let rounds = ROUNDS * seconds.max(1);
    let mut rows = Vec::new();
    for load in [Load::Tcp1500, Load::Udp64] {
        transfer(&paths[0].1.pair, load, 1).context("a first transfer, to warm up")?;
        let mut arrived = vec![Vec::new(); paths.len()];
        for round in 0..rounds as usize {
            // Each begins as often as the others.
            for place in 0..paths.len() {
                let place = (place + round) % paths.len();
                arrived[place].push(transfer(&paths[place].1.pair, load, 1)?);
            }
        }
        rows.extend(rows_of(load, &arrived));
    }
    drop(paths);
    let programs = shares(agent, seconds)?;
    Ok(PathReport { rounds, rows, programs })
}

/// `arrived`: what did, of each arrangement in each round.
fn rows_of(load: Load, arrived: &[Vec<f64>]) -> Vec<PathRow> {
    let of = |arrangement| {
        let place = Arrangement::ALL.iter().position(|it| *it == arrangement);
        &arrived[place.expect("all of them are measured")]
    };
    let ratio = |arrangement: Arrangement| {
        let reference = of(arrangement.reference());
        Quartiles::of(of(arrangement).iter().zip(reference).map(|(it, bare)| it / bare).collect())
    };
    let control = ratio(Arrangement::Control);
    let doubt = (control.median - 1.0).abs().max((control.high - control.low) / 2.0);
    Arrangement::ALL
        .into_iter()
        .map(|arrangement| PathRow {
            load,
            arrangement,
            arrived: Quartiles::of(of(arrangement).clone()).median,
            ratio: ratio(arrangement),
            is_known: !control.is_noisy() && (ratio(arrangement).median - 1.0).abs() > doubt,
        })
        .collect()
}

/// What the programs took of one core during a transfer.
fn shares(agent: &Path, seconds: u64) -> Result<Vec<Program>> {
    let path = Attached::new(Arrangement::Everything, agent)?;
    let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
    let before = totals()?;
    let start = Instant::now();
    transfer(&path.pair, Load::Tcp1500, seconds)?;
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
            "veth path, iperf3 on two processors, offloads off; {} rounds of a second each, ratios within a round: median (middle half)\n\
             Aim: ≥ 0.97 for the agent at 1500 bytes\n",
            self.rounds
        )?;
        for load in [Load::Tcp1500, Load::Udp64] {
            let (name, unit, divisor) = match load {
                Load::Tcp1500 => ("1500 B", "Gb/s", 1e9),
                Load::Udp64 => ("64 B", "kp/s", 1e3),
            };
            writeln!(f, "{name:<24}{:>14}   ratio", "arrived")?;
            for row in self.rows.iter().filter(|row| row.load == load) {
                let Quartiles { low, median, high } = row.ratio;
                let arrived = row.arrived / divisor;
                write!(f, "{:<24}{arrived:>9.2} {unit}", row.arrangement.name())?;
                if row.arrangement == row.arrangement.reference() || row.arrangement == Arrangement::Queue {
                    writeln!(f)?;
                    continue;
                }
                let note = match (row.arrangement, row.is_known) {
                    (Arrangement::Control, _) if row.ratio.is_noisy() => {
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

    /// Rounds of a machine whose speed doubles from one to the next: the ratios do not see it.
    #[test]
    fn ratios_are_those_of_one_round() {
        let speeds = [1.0, 2.0, 1.0, 2.0, 4.0];
        let arrived: Vec<Vec<f64>> = [100.0, 101.0, 98.0, 95.0, 90.0, 81.0]
            .iter()
            .map(|it| speeds.iter().map(|speed| it * speed).collect())
            .collect();
        let rows = rows_of(Load::Tcp1500, &arrived);
        let ratio = |arrangement| {
            let row = rows.iter().find(|row| row.arrangement == arrangement).expect("a row");
            (row.ratio.median, row.is_known)
        };
        assert_eq!(ratio(Arrangement::Agent), (0.95, true));
        assert_eq!(ratio(Arrangement::Empty), (0.98, true));
        assert_eq!(ratio(Arrangement::Everything), (0.9, true), "over a path with the same queue");
        assert!(!ratio(Arrangement::Control).1, "it differs by what it differs");
    }

    #[test]
    fn a_control_that_differs_by_itself_leaves_nothing_known() {
        let mut arrived = vec![vec![100.0; 5]; 6];
        arrived[1] = vec![100.0, 92.0, 90.0, 108.0, 110.0];
        arrived[3] = vec![80.0; 5];
        assert!(rows_of(Load::Udp64, &arrived).iter().all(|row| !row.is_known));
    }
}
