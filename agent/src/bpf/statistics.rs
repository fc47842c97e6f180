//! The kernel's own account of BPF programs: how often they ran, and for how long.

use std::os::fd::OwnedFd;

use aya::sys::{Stats, enable_stats};

use super::BpfError;
use super::attach::chain;

/// Who needs no privilege to profit: with 1, the kernel counts for everybody.
const SYSCTL: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// The kernel counts runs of BPF programs. Dropping it stops that, unless somebody else asked for it too.
#[derive(Debug)]
pub struct RunStatistics {
    #[expect(dead_code, reason = "held for its Drop")]
    held: Option<OwnedFd>,
}

/// Asks the kernel to count runs and run time of all BPF programs: two clock reads for each run. Without the right to ask,
/// `kernel.bpf_stats_enabled` = 1 serves as well. Reading the counts needs no privilege (`bpf_prog_get_info_by_fd`).
///
/// # Errors
/// [`BpfError::Statistics`] before Linux 5.8, or without CAP_SYS_ADMIN (`bpf_enable_stats` in kernel/bpf/syscall.c) while
/// the sysctl is 0.
pub fn enable_statistics() -> Result<RunStatistics, BpfError> {
    match enable_stats(Stats::RunTime) {
        Ok(held) => Ok(RunStatistics { held: Some(held) }),
        Err(_) if is_on(&std::fs::read_to_string(SYSCTL).unwrap_or_default()) => {
            Ok(RunStatistics { held: None })
        }
        Err(error) => Err(BpfError::Statistics { reason: chain(&error) }),
    }
}

fn is_on(sysctl: &str) -> bool {
    sysctl.trim().parse::<u32>().is_ok_and(|value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sysctl_is_a_number() {
        assert!(is_on("1\n"));
        for off in ["0\n", "", "yes"] {
            assert!(!is_on(off), "{off}");
        }
    }
}
