//! The agent about its own measuring: programs, maps, losses, and how reading from the kernel goes.

use std::fmt::Result;
use std::sync::Arc;

use pendulum_wire::BpfMap;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::{Family, Samples};
use crate::bpf::{ProgramStatus, abi};
use crate::snapshot::{Board, DirectionSnapshot, LinkSnapshot, ReadingHealth, ReadingKind};

const ATTACHED: Family = Family::gauge(
    "pendulum_bpf_program_attached",
    None,
    "1 while the BPF program is attached to its device, else 0.",
);
const RUNS: Family = Family::counter(
    "pendulum_bpf_program_runs_total",
    None,
    "Runs of the BPF program since it was loaded, by the kernel's BPF statistics; absent unless bpf-statistics is set.",
);
const RUN_SECONDS: Family = Family::counter(
    "pendulum_bpf_program_run_seconds_total",
    Some("seconds"),
    "Time the BPF program ran since it was loaded, by the kernel's BPF statistics; absent unless bpf-statistics is set.",
);
const ENTRIES: Family = Family::gauge("pendulum_map_entries", None, "Entries in the BPF map.");
const CAPACITY: Family = Family::gauge("pendulum_map_capacity", None, "Entries the BPF map can hold.");
const UNMEASURED: Family = Family::counter(
    "pendulum_unmeasured_total",
    None,
    "Measurements that could not be made (completely) from a packet, or did not reach their reader, by reason; the packets passed.",
);
/// The name that [`UNMEASURED`] had; release 0.2 does without.
const UNMEASURED_OLD: Family = Family::counter(
    "pendulum_lost_total",
    None,
    "Deprecated, removed with release 0.2: the old name of pendulum_unmeasured_total.",
);
const READ_OK: Family = Family::gauge(
    "pendulum_collector_success",
    None,
    "1 if the newest attempt to read this from the kernel succeeded, else 0.",
);
const READ_FAILURES: Family = Family::counter(
    "pendulum_collector_failures_total",
    None,
    "Failed attempts to read this from the kernel.",
);
const READ_SECONDS: Family = Family::gauge(
    "pendulum_collector_duration_seconds",
    Some("seconds"),
    "Time the newest attempt to read this from the kernel took.",
);

/// Everything that was lost on its way from a packet to a reader, by reason.
pub(crate) fn lost_by_reason(link: &LinkSnapshot) -> impl Iterator<Item = (&'static str, u64)> {
    let overwritten = link
        .directions
        .both()
        .into_iter()
        .filter_map(DirectionSnapshot::counting_queue)
        .map(|queue| queue.lost_buckets);
    // Absent, not 0, while the link is not measured: they go on afterwards.
    let measured = [
        // Buckets of the history ring that the kernel had overwritten before they were read.
        ("history_overwritten", overwritten.reduce(|one, other| one + other)),
        // Slots of what passes, overwritten before they were read, and answers that two CPUs wrote at the same moment.
        ("slots_overwritten", link.slot_losses.map(|losses| losses.overwritten)),
        ("torn_answers", link.slot_losses.map(|losses| losses.torn_answers)),
        // Events that the kernel did not run a tracepoint program for, as that had not ended on the same processor.
        (
            "program_recursion",
            link.programs.iter().filter_map(|program| program.missed).reduce(|one, other| one + other),
        ),
        ("sample_rejected", link.findings.as_ref().map(|findings| findings.rejected_samples)),
    ];
    abi::names::LOST
        .into_iter()
        .zip(link.stats)
        .chain(measured.into_iter().filter_map(|(reason, count)| Some((reason, count?))))
        .chain([("event_log", link.unsent.events()), ("stream_client_slow", link.unsent.ticks())])
}

#[derive(Debug)]
pub(super) struct Kernel {
    board: Board,
    statistics: bool,
}

impl Kernel {
    /// `statistics`: whether the kernel measures runs; without it the run metrics would be a lying zero.
    pub(super) fn new(board: Board, statistics: bool) -> Self {
        Self { board, statistics }
    }
}

impl Collector for Kernel {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        let links = &self.board.snapshots();
        let encoder = &mut encoder;
        ATTACHED.write(encoder, |samples| {
            programs(links, |labels, program| samples.gauge(labels, u32::from(program.attached)))
        })?;
        if self.statistics {
            RUNS.write(encoder, |samples| {
                programs(links, |labels, program| {
                    program.runs.map_or(Ok(()), |runs| samples.counter(labels, runs.0))
                })
            })?;
            RUN_SECONDS.write(encoder, |samples| {
                programs(links, |labels, program| {
                    program.runs.map_or(Ok(()), |runs| samples.counter(labels, runs.1.as_secs_f64()))
                })
            })?;
        }
        ENTRIES.write(encoder, |samples| maps(links, |labels, map| samples.gauge(labels, map.entries)))?;
        CAPACITY.write(encoder, |samples| maps(links, |labels, map| samples.gauge(labels, map.capacity)))?;
        for family in [&UNMEASURED, &UNMEASURED_OLD] {
            family.write(encoder, |samples| unmeasured(samples, links))?;
        }
        READ_OK.write(encoder, |samples| {
            readings(links, |labels, health| samples.gauge(labels, u32::from(health.ok)))
        })?;
        READ_FAILURES.write(encoder, |samples| {
            readings(links, |labels, health| samples.counter(labels, health.failures))
        })?;
        READ_SECONDS.write(encoder, |samples| {
            readings(links, |labels, health| samples.gauge(labels, health.took.as_secs_f64()))
        })
    }
}

type LabelValues<'a> = [(&'static str, &'a str); 2];

fn programs(
    links: &[Arc<LinkSnapshot>],
    mut write: impl FnMut(LabelValues<'_>, &ProgramStatus) -> Result,
) -> Result {
    links.iter().try_for_each(|link| {
        link.programs
            .iter()
            .try_for_each(|program| write([("link", &link.name), ("program", program.name)], program))
    })
}

fn maps(links: &[Arc<LinkSnapshot>], mut write: impl FnMut(LabelValues<'_>, &BpfMap) -> Result) -> Result {
    links.iter().try_for_each(|link| {
        link.maps.iter().try_for_each(|map| write([("link", &link.name), ("map", &map.name)], map))
    })
}

fn unmeasured(samples: &mut Samples<'_>, links: &[Arc<LinkSnapshot>]) -> Result {
    links.iter().try_for_each(|link| {
        lost_by_reason(link).try_for_each(|(reason, count)| {
            samples.counter([("link", &*link.name), ("reason", reason)], count)
        })
    })
}

fn readings(
    links: &[Arc<LinkSnapshot>],
    mut write: impl FnMut(LabelValues<'_>, &ReadingHealth) -> Result,
) -> Result {
    links.iter().try_for_each(|link| {
        ReadingKind::ALL.into_iter().zip(&link.readings).try_for_each(|(reading, health)| {
            write([("link", &link.name), ("collector", reading.name())], health)
        })
    })
}
