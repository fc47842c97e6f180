//! The kernel's own account of BPF programs: how often they ran, and for how long.

use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use super::BpfError;
use super::attach::chain;

/// Keeps the kernel counting runs of BPF programs; dropping it stops that, unless somebody else asked for it too.
#[derive(Debug)]
pub struct RunStatistics {
    #[expect(dead_code, reason = "held for its Drop")]
    held: OwnedFd,
}

/// Asks the kernel to count runs and run time of all BPF programs: two clock reads for each run.
///
/// # Errors
/// [`BpfError::Statistics`] before Linux 5.8, or without CAP_SYS_ADMIN (`bpf_enable_stats` in kernel/bpf/syscall.c).
pub fn enable_statistics() -> Result<RunStatistics, BpfError> {
    match enable_stats(Stats::RunTime) {
        Ok(held) => Ok(RunStatistics { held }),
        Err(error) => Err(BpfError::Statistics { reason: chain(&error) }),
    }
}
