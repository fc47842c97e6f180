//! Nanoseconds for each program and kind of packet, over the empty classifier.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, Result, ensure};
use aya::programs::{SchedClassifier, Xdp};
use pendulum::bpf::{LinkPrograms, LoadOptions};
use serde::Serialize;

use crate::craft::{self, LinkLayer, Tcp};
use crate::test_run;

/// Rounds over all figures; the smallest of each counts: noise only ever adds.
const ROUNDS: u32 = 3;

/// The aim of issue 1: at most this much over the empty program.
const AIM_NS: u32 = 150;

#[derive(Serialize)]
pub(crate) struct PacketsReport {
    /// Nanoseconds of a classifier that does nothing.
    empty_ns: u32,
    repeat: u32,
    rows: Vec<PacketRow>,
    together: Vec<Together>,
}

/// A program on one processor, and on two at once with a flow each. The empty classifier tells what the processors take from each other.
#[derive(Serialize)]
struct Together {
    program: &'static str,
    alone_ns: u32,
    both_ns: u32,
}

#[derive(Serialize)]
struct PacketRow {
    packet: &'static str,
    /// Nanoseconds of each program, by [`PROGRAMS`]; the empty one included in the time.
    ns: [u32; 3],
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
    let mut report = PacketsReport { empty_ns: u32::MAX, repeat, rows: Vec::new(), together: Vec::new() };
    let kinds = kinds();
    report.rows = kinds.iter().map(|kind| PacketRow { packet: kind.name, ns: [u32::MAX; 3] }).collect();
    for kind in kinds.iter().filter(|kind| kind.both_ways) {
        for (object, down) in [(&mut tc, "pendulum_down"), (&mut xdp, "pendulum_xdp")] {
            test_run::nanoseconds(program(object, "pendulum_up")?, &kind.up, 1)?;
            test_run::nanoseconds(program(object, down)?, &kind.down, 1)?;
        }
    }
    for _ in 0..ROUNDS {
        for (row, kind) in report.rows.iter_mut().zip(&kinds) {
            let least = |old: &mut u32, program: BorrowedFd<'_>, bytes: &[u8]| -> Result<()> {
                *old = (*old).min(test_run::nanoseconds(program, bytes, repeat)?);
                Ok(())
            };
            least(&mut report.empty_ns, empty.as_fd(), &kind.up)?;
            for (ns, name) in row.ns.iter_mut().zip(PROGRAMS) {
                let object = if name == "pendulum_xdp" { &mut xdp } else { &mut tc };
                let bytes = if name == "pendulum_up" { &kind.up } else { &kind.down };
                // What is to be seen one way only must not be answered by the other program.
                if !kind.both_ways && name != "pendulum_up" {
                    continue;
                }
                least(ns, program(object, name)?, bytes)?;
            }
        }
    }
    let [data, other] = [craft::down(), craft::down().home_port(40_001)]
        .map(|packet| packet.seq(1000).ack(1).payload(1448).ts(5, 5).build(LinkLayer::Ethernet).bytes);
    report.together = vec![
        together("empty", empty.as_fd(), [&data, &other], repeat)?,
        together("pendulum_down", program(&mut tc, "pendulum_down")?, [&data, &other], repeat)?,
    ];
    Ok(report)
}

fn together(
    name: &'static str,
    program: BorrowedFd<'_>,
    packets: [&[u8]; 2],
    repeat: u32,
) -> Result<Together> {
    let mut least = Together { program: name, alone_ns: u32::MAX, both_ns: u32::MAX };
    for _ in 0..ROUNDS {
        least.alone_ns = least.alone_ns.min(on_processors(program, &packets[..1], repeat)?);
        least.both_ns = least.both_ns.min(on_processors(program, &packets, repeat)?);
    }
    Ok(least)
}

/// Each packet on a processor of its own, at once; nanoseconds of the slower one.
fn on_processors(program: BorrowedFd<'_>, packets: &[&[u8]], repeat: u32) -> Result<u32> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..)
            .zip(packets)
            .map(|(processor, packet)| {
                scope.spawn(move || {
                    pin(processor)?;
                    test_run::nanoseconds(program, packet, repeat)
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
        writeln!(
            f,
            "Cost of one packet: ns by TEST_RUN, {} repetitions, best of {ROUNDS} rounds",
            self.repeat
        )?;
        writeln!(f, "(in brackets: over an empty classifier, {} ns; aim ≤ {AIM_NS})\n", self.empty_ns)?;
        write!(f, "{:<22}", "packet")?;
        for program in PROGRAMS {
            write!(f, "{program:>18}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "{:<22}", row.packet)?;
            for ns in row.ns {
                let text = match ns {
                    u32::MAX => "-".to_owned(),
                    ns => format!("{ns} (+{})", ns.saturating_sub(self.empty_ns)),
                };
                write!(f, "{text:>18}")?;
            }
            writeln!(f)?;
        }
        writeln!(f)?;
        for Together { program, alone_ns, both_ns } in &self.together {
            let ratio = f64::from(*both_ns) / f64::from(*alone_ns).max(1.0);
            writeln!(
                f,
                "{program}, data: {alone_ns} ns on one processor, {both_ns} on each of two ({ratio:.2})"
            )?;
        }
        Ok(())
    }
}
