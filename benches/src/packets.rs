//! Nanoseconds for each program and kind of packet, over the empty classifier.

use std::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};

use anyhow::{Context as _, Result};
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
pub(crate) struct Report {
    /// Nanoseconds of a classifier that does nothing.
    empty_ns: u32,
    repeat: u32,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    packet: &'static str,
    /// Nanoseconds of each program, by [`PROGRAMS`]; the empty one included in the time.
    ns: [u32; 3],
}

const PROGRAMS: [&str; 3] = ["pendulum_up", "pendulum_down", "pendulum_xdp"];

fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    let data = |packet: Tcp| packet.seq(1000).ack(1).payload(1448).ts(5, 5).build(LinkLayer::Ethernet).bytes;
    let ack = |packet: Tcp| packet.seq(1000).ack(1).ts(5, 5).build(LinkLayer::Ethernet).bytes;
    vec![
        ("data, IPv4", data(craft::up())),
        ("ACK, IPv4", ack(craft::up())),
        (
            "ACK with SACK, IPv4",
            craft::up().seq(1000).ack(1).ts(5, 5).sack(&[(2000, 3000)]).build(LinkLayer::Ethernet).bytes,
        ),
        ("data, IPv6", data(craft::up().v6())),
        ("ACK, IPv6", ack(craft::up().v6())),
        ("data, IPv4 in VLAN", data(craft::up().vlan(0x8100, 7))),
        ("UDP", craft::up().protocol(17).payload(100).build(LinkLayer::Ethernet).bytes),
        ("ARP", [[2; 6].as_slice(), &[4; 6], &[0x08, 0x06], &[0; 46]].concat()),
    ]
}

/// Measure.
pub(crate) fn run(repeat: u32) -> Result<Report> {
    let mut tc = LinkPrograms::load(&LoadOptions::default())?;
    let mut xdp = LinkPrograms::load(&LoadOptions { xdp_ingress: true, ..LoadOptions::default() })?;
    let empty = test_run::empty_classifier()?;
    let mut report = Report { empty_ns: u32::MAX, repeat, rows: Vec::new() };
    let kinds = kinds();
    report.rows = kinds.iter().map(|(packet, _)| Row { packet, ns: [u32::MAX; 3] }).collect();
    for _ in 0..ROUNDS {
        for (row, (_, bytes)) in report.rows.iter_mut().zip(&kinds) {
            let least = |old: &mut u32, program: BorrowedFd<'_>| -> Result<()> {
                *old = (*old).min(test_run::nanoseconds(program, bytes, repeat)?);
                Ok(())
            };
            least(&mut report.empty_ns, empty.as_fd())?;
            for (ns, name) in row.ns.iter_mut().zip(PROGRAMS) {
                let object = if name == "pendulum_xdp" { &mut xdp } else { &mut tc };
                let program = object.object_mut().program_mut(name).context("the program is there")?;
                let fd = match program {
                    aya::programs::Program::Xdp(program) => Xdp::fd(program)?.as_fd(),
                    program => <&mut SchedClassifier>::try_from(program)?.fd()?.as_fd(),
                };
                least(ns, fd)?;
            }
        }
    }
    Ok(report)
}

impl fmt::Display for Report {
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
                write!(f, "{:>18}", format!("{ns} (+{})", ns.saturating_sub(self.empty_ns)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
