//! What queue tracking costs: nanoseconds for a packet that enters and leaves a qdisc, by the kernel's BPF run-time statistics,
//! on real traffic. The statistics count their own clock in; programs that do nothing, called for the same events, tell
//! how much that is.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use aya::sys::{Stats, enable_stats};
use serde::Serialize;

use crate::namespaces::{PLAIN, Pair};
use crate::path::totals;
use crate::test_run::EmptyTracing;
use crate::transfer::transfer;

/// The aim of issue 2.
const AIM_NS: f64 = 250.0;

/// Names of the programs that do nothing; as long as the kernel allows.
const EMPTY_ENQUEUE: &str = "pendulum_e_none";
const EMPTY_DEQUEUE: &str = "pendulum_d_none";

/// What the packets wait in. The rates are below what a veth pair carries, so that a queue stands; in front
/// of a device that takes everything at once, a fifo is bypassed.
const QDISCS: [(&str, &[&str]); 2] = [
    ("tbf 200 Mbit/s", &["tbf", "rate", "200mbit", "burst", "32kb", "limit", "200kb"]),
    ("tbf 20 Mbit/s", &["tbf", "rate", "20mbit", "burst", "5kb", "limit", "100kb"]),
];

#[derive(Serialize)]
pub(crate) struct QueueReport {
    rows: Vec<QueueRow>,
}

#[derive(Serialize)]
struct QueueRow {
    qdisc: &'static str,
    /// Packets that entered the queue; one that finds it empty may bypass it.
    pairs: u64,
    enqueue_ns: f64,
    /// All calls, also those that find nothing to send, shared among the packets.
    dequeue_ns: f64,
    dequeue_calls: u64,
    /// What empty programs took for the same events.
    empty_ns: f64,
}

/// Measure.
pub(crate) fn run(agent: &Path, seconds: u64) -> Result<QueueReport> {
    let pair = Pair::new()?;
    let mut rows = Vec::new();
    for (name, qdisc) in QDISCS {
        pair.qdisc_of(qdisc)?;
        let _empty = [
            EmptyTracing::attach(EMPTY_ENQUEUE, "qdisc_enqueue")?,
            EmptyTracing::attach(EMPTY_DEQUEUE, "qdisc_dequeue")?,
        ];
        let _statistics = enable_stats(Stats::RunTime).context("switching BPF statistics on")?;
        let _running = pair.agent(agent, PLAIN)?;
        let before = totals()?;
        transfer(&pair, seconds)?;
        let after = totals()?;
        let spent = |program: &str| {
            let row = after.iter().filter(|row| row.1 == program).find_map(|row| {
                let old = before.iter().find(|old| old.0 == row.0)?;
                (row.2 > old.2).then(|| (row.2 - old.2, row.3 - old.3))
            });
            row.unwrap_or((0, Duration::ZERO))
        };
        // Names in the kernel have at most 15 letters.
        let (pairs, enqueue) = spent("pendulum_enqueu");
        let (dequeue_calls, dequeue) = spent("pendulum_dequeu");
        let (_, empty_enqueue) = spent(EMPTY_ENQUEUE);
        let (_, empty_dequeue) = spent(EMPTY_DEQUEUE);
        ensure!(pairs > 0, "no packet entered the {name}: is there a queue?");
        let each = |time: Duration| time.as_nanos() as f64 / pairs as f64;
        rows.push(QueueRow {
            qdisc: name,
            pairs,
            enqueue_ns: each(enqueue),
            dequeue_ns: each(dequeue),
            dequeue_calls,
            empty_ns: each(empty_enqueue) + each(empty_dequeue),
        });
    }
    Ok(QueueReport { rows })
}

impl fmt::Display for QueueReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Queue tracking: ns for a packet that enters and leaves, by BPF run-time statistics, and over programs that do \
             nothing (aim ≤ {AIM_NS})\n"
        )?;
        writeln!(
            f,
            "{:<16}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>16}",
            "qdisc", "packets", "enqueue", "dequeue", "pair", "empty", "over it", "dequeue calls"
        )?;
        for QueueRow { qdisc, pairs, enqueue_ns, dequeue_ns, dequeue_calls, empty_ns } in &self.rows {
            writeln!(
                f,
                "{qdisc:<16}{pairs:>10}{enqueue_ns:>10.0}{dequeue_ns:>10.0}{:>10.0}{empty_ns:>10.0}{:>10.0}{dequeue_calls:>16}",
                enqueue_ns + dequeue_ns,
                enqueue_ns + dequeue_ns - empty_ns
            )?;
        }
        Ok(())
    }
}
