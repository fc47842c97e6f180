//! What each program costs for each kind of packet, over the empty classifier: nanoseconds, in an emulated guest instructions.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, Result, ensure};
use aya::programs::{SchedClassifier, Xdp};
use pendulum::bpf::{LinkPrograms, LoadOptions};
use serde::Serialize;

use crate::craft::{self, Direction, LinkLayer, Tcp};
use crate::exchanges::Message;
use crate::test_run;

/// Rounds over all figures; the smallest of each counts: noise only ever adds.
const ROUNDS: u32 = 3;

/// The aim of issue 39: at most this much over the empty program.
const AIM_NS: u32 = 100;

/// A quarter of the empty program's rounds may take this much of the least, or the machine is noisy.
const NOISE: f64 = 1.1;

#[derive(Serialize)]
pub(crate) struct PacketsReport {
    /// What the figures are counted in.
    unit: &'static str,
    /// A classifier that does nothing: the least of its rounds.
    empty: u32,
    /// Of its slower rounds, the quickest.
    empty_slow: u32,
    repeat: u32,
    rows: Vec<PacketRow>,
    together: Vec<Together>,
}

/// A program on one processor, and on two at once with a flow each. The empty classifier tells what the processors take from each other.
#[derive(Serialize)]
struct Together {
    program: &'static str,
    alone: u32,
    both: u32,
}

#[derive(Serialize)]
struct PacketRow {
    packet: &'static str,
    /// Of each program, by [`PROGRAMS`]; what the empty one costs is included.
    cost: [u32; 3],
}

const PROGRAMS: [&str; 3] = ["pendulum_up", "pendulum_down", "pendulum_xdp"];

/// A packet as it leaves, and as it comes in.
struct Kind {
    name: &'static str,
    up: Vec<u8>,
    down: Vec<u8>,
    /// Its conversation is known both ways, as that of nearly every packet is; else only this side of it was seen.
    both_ways: bool,
}

fn kinds() -> Vec<Kind> {
    let kind = |name, change: &dyn Fn(Tcp) -> Tcp| {
        let bytes = |packet: Tcp| change(packet).build(LinkLayer::Ethernet).bytes;
        Kind { name, up: bytes(craft::up()), down: bytes(craft::down()), both_ways: true }
    };
    let data = |packet: Tcp| packet.seq(1000).ack(1).payload(1448).ts(5, 5);
    let ack = |packet: Tcp| packet.seq(1000).ack(1).ts(5, 5);
    let quic = |direction| Message::spin(direction, false).build(LinkLayer::Ethernet).bytes;
    let arp = [[2; 6].as_slice(), &[4; 6], &[0x08, 0x06], &[0; 46]].concat();
    vec![
        kind("data, IPv4", &data),
        kind("ACK, IPv4", &ack),
        kind("ACK with SACK, IPv4", &|packet| ack(packet).sack(&[(2000, 3000)])),
        kind("data, IPv6", &|packet| data(packet.v6())),
        kind("ACK, IPv6", &|packet| ack(packet.v6())),
        kind("data, IPv4 in VLAN", &|packet| data(packet.vlan(0x8100, 7))),
        Kind { both_ways: false, ..kind("data, seen one way", &|packet| data(packet.home_port(40_001))) },
        kind("UDP", &|packet| packet.protocol(17).payload(100)),
        Kind { name: "QUIC", up: quic(Direction::Up), down: quic(Direction::Down), both_ways: true },
        Kind { name: "ARP", up: arp.clone(), down: arp, both_ways: true },
    ]
}

/// A program of the object.
pub(crate) fn program<'a>(object: &'a mut LinkPrograms, name: &str) -> Result<BorrowedFd<'a>> {
    let program = object.object_mut().program_mut(name).context("the program is there")?;
    Ok(match program {
        aya::programs::Program::Xdp(program) => Xdp::fd(program)?.as_fd(),
        program => <&mut SchedClassifier>::try_from(program)?.fd()?.as_fd(),
    })
}

/// Measure.
pub(crate) fn run(repeat: u32) -> Result<PacketsReport> {
    let mut tc = LinkPrograms::load(&LoadOptions::default())?;
    let mut xdp = LinkPrograms::load(&LoadOptions { xdp_ingress: true, ..LoadOptions::default() })?;
    let empty = test_run::empty_classifier("pendulum_none")?;
    let kinds = kinds();
    let mut rows: Vec<_> =
        kinds.iter().map(|kind| PacketRow { packet: kind.name, cost: [u32::MAX; 3] }).collect();
    let mut of_empty = Vec::new();
    let initial = Message::quic(Direction::Up, 0xc0, 1, [&[7; 8], &[5; 8]]).build(LinkLayer::Ethernet).bytes;
    for object in [&mut tc, &mut xdp] {
        test_run::cost(program(object, "pendulum_up")?, &initial, 1)?;
    }
    for kind in kinds.iter().filter(|kind| kind.both_ways) {
        for (object, down) in [(&mut tc, "pendulum_down"), (&mut xdp, "pendulum_xdp")] {
            test_run::cost(program(object, "pendulum_up")?, &kind.up, 1)?;
            test_run::cost(program(object, down)?, &kind.down, 1)?;
        }
    }
    for _ in 0..ROUNDS {
        for (row, kind) in rows.iter_mut().zip(&kinds) {
            let least = |old: &mut u32, program: BorrowedFd<'_>, bytes: &[u8]| -> Result<()> {
                *old = (*old).min(test_run::cost(program, bytes, repeat)?);
                Ok(())
            };
            of_empty.push(test_run::cost(empty.as_fd(), &kind.up, repeat)?);
            for (cost, name) in row.cost.iter_mut().zip(PROGRAMS) {
                let object = if name == "pendulum_xdp" { &mut xdp } else { &mut tc };
                let bytes = if name == "pendulum_up" { &kind.up } else { &kind.down };
                // What is to be seen one way only must not be answered by the other program.
                if !kind.both_ways && name != "pendulum_up" {
                    continue;
                }
                least(cost, program(object, name)?, bytes)?;
            }
        }
    }
    let [data, other] = [craft::down(), craft::down().home_port(40_001)]
        .map(|packet| packet.seq(1000).ack(1).payload(1448).ts(5, 5).build(LinkLayer::Ethernet).bytes);
    let mut together = Vec::new();
    // An emulated guest has one processor.
    if !test_run::is_emulated() {
        let down = program(&mut tc, "pendulum_down")?;
        for (name, program) in [("empty", empty.as_fd()), ("pendulum_down", down)] {
            together.push(on_one_and_two(name, program, [&data, &other], repeat)?);
        }
    }
    of_empty.sort_unstable();
    let [empty, empty_slow] = [0, of_empty.len() * 3 / 4].map(|at| of_empty[at]);
    Ok(PacketsReport { unit: test_run::unit(), empty, empty_slow, repeat, rows, together })
}

fn on_one_and_two(
    name: &'static str,
    program: BorrowedFd<'_>,
    packets: [&[u8]; 2],
    repeat: u32,
) -> Result<Together> {
    let mut least = Together { program: name, alone: u32::MAX, both: u32::MAX };
    for _ in 0..ROUNDS {
        least.alone = least.alone.min(on_processors(program, &packets[..1], repeat)?);
        least.both = least.both.min(on_processors(program, &packets, repeat)?);
    }
    Ok(least)
}

/// Each packet on a processor of its own, at once; the slower one.
fn on_processors(program: BorrowedFd<'_>, packets: &[&[u8]], repeat: u32) -> Result<u32> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(packets)
            .map(|(processor, packet)| {
                scope.spawn(move || {
                    pin(processor)?;
                    test_run::cost(program, packet, repeat)
                })
            })
            .collect();
        threads.into_iter().try_fold(0, |slowest: u32, thread| {
            Ok(slowest.max(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?))
        })
    })
}

/// This thread runs on that processor from here on.
fn pin(processor: usize) -> Result<()> {
    // SAFETY: a set of this thread's own, and calls that only read it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    ensure!(result == 0, "processor {processor}: {}", std::io::Error::last_os_error());
    Ok(())
}

impl fmt::Display for PacketsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, empty, empty_slow, repeat, .. } = self;
        writeln!(f, "Cost of one packet: {unit} by TEST_RUN, {repeat} repetitions, best of {ROUNDS} rounds")?;
        writeln!(f, "(in brackets: over an empty classifier, {empty} {unit}; aim ≤ {AIM_NS} ns)")?;
        if f64::from(*empty_slow) > f64::from(*empty) * NOISE {
            writeln!(
                f,
                "This machine is noisy: the empty classifier took up to {empty_slow} {unit} in three of four rounds. The same everywhere \
                 are instructions:\n  ./dev vm 6.12 --release --run \"PENDULUM_IN_VM=1 pendulum-bench packets --repeat 20000\""
            )?;
        }
        write!(f, "\n{:<22}", "packet")?;
        for program in PROGRAMS {
            write!(f, "{program:>18}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{:<22}", row.packet)?;
            for cost in row.cost {
                let text = match cost {
                    u32::MAX => "-".to_owned(),
                    cost => format!("{cost} (+{})", cost.saturating_sub(*empty)),
                };
                write!(f, "{text:>18}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for Together { program, alone, both } in &self.together {
            let ratio = f64::from(*both) / f64::from(*alone).max(1.0);
            writeln!(f, "{program}, data: {alone} ns on one processor, {both} on each of two ({ratio:.2})")?;
        }
        Ok(())
    }
}
