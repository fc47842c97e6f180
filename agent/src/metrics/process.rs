//! The agent as a process: build, CPU, memory, file descriptors.

use std::fmt::Result;

use procfs::process::{LimitValue, Process as Procfs};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::family::Family;

const BUILD: Family =
    Family::gauge("pendulum_build_info", None, "Version of the running agent; the value is always 1.");
const CPU: Family = Family::counter(
    "process_cpu_seconds_total",
    Some("seconds"),
    "User and system CPU time the agent has used; BPF programs run on the account of the packets.",
);
const RESIDENT: Family =
    Family::gauge("process_resident_memory_bytes", Some("bytes"), "Resident memory of the agent.");
const VIRTUAL: Family =
    Family::gauge("process_virtual_memory_bytes", Some("bytes"), "Virtual memory of the agent.");
const START: Family = Family::gauge(
    "process_start_time_seconds",
    Some("seconds"),
    "When the agent was started, in seconds since the Unix epoch.",
);
const OPEN_FDS: Family = Family::gauge("process_open_fds", None, "Open file descriptors of the agent.");
const MAX_FDS: Family = Family::gauge("process_max_fds", None, "File descriptors the agent may open.");
const THREADS: Family = Family::gauge("process_threads", None, "Threads of the agent.");

#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result {
        BUILD.write(&mut encoder, |samples| samples.gauge([("version", env!("CARGO_PKG_VERSION"))], 1u32))?;
        // A process that cannot read its own /proc entry (hidepid, no procfs) exports none of these.
        let Ok(process) = Procfs::myself() else { return Ok(()) };
        if let Ok(stat) = process.stat() {
            let ticks = procfs::ticks_per_second() as f64;
            CPU.write(&mut encoder, |samples| samples.counter([], (stat.utime + stat.stime) as f64 / ticks))?;
            RESIDENT.write(&mut encoder, |samples| samples.gauge([], stat.rss * procfs::page_size()))?;
            VIRTUAL.write(&mut encoder, |samples| samples.gauge([], stat.vsize))?;
            THREADS.write(&mut encoder, |samples| samples.gauge([], stat.num_threads))?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let started = boot as f64 + stat.starttime as f64 / ticks;
                START.write(&mut encoder, |samples| samples.gauge([], started))?;
            }
        }
        if let Ok(count) = process.fd_count() {
            OPEN_FDS.write(&mut encoder, |samples| samples.gauge([], count))?;
        }
        if let Ok(limits) = process.limits()
            && let LimitValue::Value(most) = limits.max_open_files.soft_limit
        {
            MAX_FDS.write(&mut encoder, |samples| samples.gauge([], most))?;
        }
        Ok(())
    }
}
