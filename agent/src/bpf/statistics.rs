//! The kernel's own account of BPF programs: how often they ran, and for how long.

use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aya::programs::ProgramInfo;
use aya::sys::{Stats, enable_stats};

use super::BpfError;
use crate::exit::chain;

/// Who needs no privilege to profit: with 1, the kernel counts for everybody.
const SYSCTL: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// How many [`RunStatistics`] there are.
static HELD: AtomicU32 = AtomicU32::new(0);

/// The kernel counts runs of BPF programs. Dropping it stops that, unless somebody else asked for it too.
#[derive(Debug)]
pub struct RunStatistics {
    #[expect(dead_code, reason = "held for its Drop")]
    held: Option<OwnedFd>,
}

impl RunStatistics {
    fn new(held: Option<OwnedFd>) -> Self {
        HELD.fetch_add(1, Ordering::Relaxed);
        Self { held }
    }
}

impl Drop for RunStatistics {
    fn drop(&mut self) {
        HELD.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often a program ran, and for how long; `None` while nobody counts: the kernel's figures stand still then.
pub(super) fn runs(program: Option<ProgramInfo>) -> Option<(u64, Duration)> {
    program
        .filter(|_| HELD.load(Ordering::Relaxed) > 0)
        .map(|program| (program.run_count(), program.run_time()))
}

/// Asks the kernel to count runs and run time of all BPF programs: two clock reads for each run. Without the right to ask,
/// `kernel.bpf_stats_enabled` = 1 serves as well. Reading the counts needs no privilege (`bpf_prog_get_info_by_fd`).
///
/// # Errors
/// [`BpfError::Statistics`] before Linux 5.8, or without CAP_SYS_ADMIN (`bpf_enable_stats` in kernel/bpf/syscall.c) while
/// the sysctl is 0.
pub fn enable_statistics() -> Result<RunStatistics, BpfError> {
    match enable_stats(Stats::RunTime) {
        Ok(held) => Ok(RunStatistics::new(Some(held))),
        Err(_) if is_on(&std::fs::read_to_string(SYSCTL).unwrap_or_default()) => Ok(RunStatistics::new(None)),
        Err(error) => Err(BpfError::Statistics { reason: chain(&error) }),
    }
}

/// Events that a tracing program was not run for, because it ran on that processor already (`__bpf_trace_run` of
/// kernel/trace/bpf_trace.c); the kernel counts them always. `None` before Linux 5.12.
pub(super) fn recursion_misses(program: BorrowedFd<'_>) -> Option<u64> {
    // What aya has of struct bpf_prog_info lacks it; `bpf_prog_show_fdinfo` tells the same.
    let path = format!("/proc/self/fdinfo/{}", program.as_raw_fd());
    misses_in(&std::fs::read_to_string(path).ok()?)
}

fn misses_in(fdinfo: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix("recursion_misses:")?.trim().parse().ok())
}

fn is_on(sysctl: &str) -> bool {
    sysctl.trim().parse::<u32>().is_ok_and(|value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_reported_by_fdinfo_or_not_at_all() {
        let old = "pos:\t0\nprog_type:\t26\nrun_cnt:\t5\n";
        assert_eq!(misses_in(old), None);
        assert_eq!(misses_in(&format!("{old}recursion_misses:\t7\nverified_insns:\t9\n")), Some(7));
    }

    #[test]
    fn the_sysctl_is_a_number() {
        assert!(is_on("1\n"));
        for off in ["0\n", "", "yes"] {
            assert!(!is_on(off), "{off}");
        }
    }
}
