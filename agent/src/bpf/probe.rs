//! What this kernel can do for us, found out by trying. Nothing is attached to a device, nothing stays.

use std::path::Path;

use aya::programs::{SchedClassifier, TcAttachType};
use serde::Serialize;

use super::{
    BpfError, Cwnd, CwndSource, KernelTypes, LinkPrograms, LoadOptions, QueuePrograms, enable_statistics,
};
use crate::exit::chain;

/// The oldest kernel that the tests have (tests/vm/kernels.py). `pendulum run` refuses older ones.
pub const OLDEST_KERNEL: (u8, u8, u16) = (6, 1, 0);

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// As it should be.
    Ok,
    /// A fallback is in use.
    Degraded,
    /// There is no fallback.
    Missing,
}

/// One ability, and what its absence means.
#[derive(Clone, Debug, Serialize)]
pub struct KernelCheck {
    /// The ability.
    pub name: &'static str,
    /// Whether it is there.
    pub status: CheckStatus,
    /// What was found: a version, or the kernel's reason.
    pub reason: String,
    /// What to do about it; empty if there is nothing to do.
    pub remedy: &'static str,
    /// What is lost without it; empty if it is there.
    pub cost: &'static str,
}

impl KernelCheck {
    fn ok(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Ok, reason: reason.into(), remedy: "", cost: "" }
    }
}

/// Try everything that does not need a device.
pub fn probe() -> Vec<KernelCheck> {
    let _types = KernelTypes::keep();
    vec![kernel(), btf(), programs(), tcx(), xdp(), statistics(), queue(), cwnd()]
}

fn kernel() -> KernelCheck {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let reason = format!("Linux {}", release.trim());
    let (major, minor, _) = OLDEST_KERNEL;
    if crate::kernel::is_at_least(OLDEST_KERNEL) {
        return KernelCheck::ok("kernel", reason);
    }
    KernelCheck {
        name: "kernel",
        status: CheckStatus::Missing,
        reason: format!("{reason}, older than {major}.{minor}"),
        remedy: "boot Linux 6.1 or newer",
        cost: "pendulum run refuses: nothing was tested there",
    }
}

fn btf() -> KernelCheck {
    const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
    if Path::new(VMLINUX).exists() {
        return KernelCheck::ok("btf", VMLINUX);
    }
    KernelCheck {
        name: "btf",
        status: CheckStatus::Degraded,
        reason: format!("{VMLINUX} is not there"),
        remedy: "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        cost: "tracepoint programs cannot load; packet measurement works without",
    }
}

fn programs() -> KernelCheck {
    match LinkPrograms::load(&LoadOptions { max_flows: 256, nursery: 256, ..LoadOptions::default() }) {
        Ok(_) => KernelCheck::ok("tc_programs", "loaded and verified"),
        Err(error) => KernelCheck {
            name: "tc_programs",
            status: CheckStatus::Missing,
            reason: first_line(&error),
            remedy: "run as root or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, on a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF",
            cost: "nothing can be measured",
        },
    }
}

fn tcx() -> KernelCheck {
    match SchedClassifier::query_tcx("lo", TcAttachType::Ingress) {
        Ok(_) => KernelCheck::ok("tcx", "the kernel answers TCX queries"),
        Err(error) => KernelCheck {
            name: "tcx",
            status: CheckStatus::Degraded,
            reason: chain(&error),
            remedy: "use Linux 6.6 or newer",
            cost: "clsact filters are used: after a crash they stay until the next start (they change nothing)",
        },
    }
}

fn xdp() -> KernelCheck {
    let options = LoadOptions { max_flows: 256, nursery: 256, xdp_ingress: true, ..LoadOptions::default() };
    match LinkPrograms::load(&options) {
        Ok(_) => KernelCheck::ok("xdp_program", "loaded and verified"),
        Err(error) => KernelCheck {
            name: "xdp_program",
            status: CheckStatus::Degraded,
            reason: first_line(&error),
            remedy: "leave ingress-hook at \"tc\"",
            cost: "ingress-hook = \"xdp\" is unavailable: timestamps are taken after GRO",
        },
    }
}

fn statistics() -> KernelCheck {
    match enable_statistics() {
        Ok(_) => KernelCheck::ok("bpf_statistics", "the kernel counts runs and run time"),
        Err(error) => KernelCheck {
            name: "bpf_statistics",
            status: CheckStatus::Degraded,
            reason: match error {
                BpfError::Statistics { reason } => reason,
                other => chain(&other),
            },
            remedy: "set kernel.bpf_stats_enabled = 1 before the agent starts; as root it needs nothing",
            cost: "pendulum_bpf_program_runs_total and …_run_seconds_total are absent",
        },
    }
}

fn queue() -> KernelCheck {
    let name = "queue_tracepoints";
    match QueuePrograms::load() {
        Ok(programs) => match programs.traces_drops() {
            Ok(()) => KernelCheck::ok(name, "qdisc_enqueue, qdisc_dequeue and kfree_skb are traced"),
            Err(reason) => KernelCheck {
                name,
                status: CheckStatus::Degraded,
                reason: format!("kfree_skb: {reason}"),
                remedy: "use a kernel whose tracepoint kfree_skb has the reason (Linux 6.1 and newer)",
                cost: "drops come from the qdisc's own counter: without reason, once a second",
            },
        },
        Err(error) => KernelCheck {
            name,
            status: CheckStatus::Degraded,
            reason: first_line(&error),
            remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF=y, and CAP_BPF with CAP_PERFMON",
            cost: "queues are read by netlink ten times a second: no data and ACKs apart, no time in the queue, peaks missed",
        },
    }
}

fn cwnd() -> KernelCheck {
    let name = "cwnd";
    let cwnd = Cwnd::start(CwndSource::Fexit);
    let refused = cwnd.refused().iter().map(|(source, reason)| format!("{}: {reason}", source.name()));
    let reason = refused.chain([format!("{} is used", cwnd.source().name())]).collect::<Vec<_>>().join("; ");
    let (remedy, cost) = match cwnd.source() {
        CwndSource::Fexit => return KernelCheck::ok(name, reason),
        CwndSource::Fentry | CwndSource::Probe => (
            "use a kernel with function tracing (CONFIG_FUNCTION_TRACER, CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS)",
            "windows of local sockets are one ACK late",
        ),
        CwndSource::SockDiag => (
            "use a kernel with CONFIG_DEBUG_INFO_BTF=y, and CAP_BPF with CAP_PERFMON",
            "windows of local sockets are seen once a second only",
        ),
    };
    KernelCheck { name, status: CheckStatus::Degraded, reason, remedy, cost }
}

/// The verifier's log is for the debug level, not for a table.
fn first_line(error: &BpfError) -> String {
    chain(error).lines().next().unwrap_or_default().to_owned()
}
