//! What has to be true before the first system call that changes anything.

use caps::{CapSet, Capability};
use thiserror::Error;

use crate::bpf;
use crate::exit::{Classified, Exit};

/// Why this machine or this process cannot measure.
#[derive(Debug, Error)]
pub(super) enum Unfit {
    #[error(
        "the kernel is {release}, and pendulum needs {}.{} or newer; boot a newer kernel",
        bpf::OLDEST_KERNEL.0,
        bpf::OLDEST_KERNEL.1
    )]
    Kernel { release: String },
    #[error(
        "this process lacks {missing}; run it as root, or give it CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN (systemd: \
         AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_ADMIN)"
    )]
    Capabilities { missing: String },
}

impl Classified for Unfit {
    fn exit(&self) -> Exit {
        match self {
            Self::Kernel { .. } => Exit::Unavailable,
            Self::Capabilities { .. } => Exit::NoPermission,
        }
    }
}

pub(super) fn kernel() -> Result<(), Unfit> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    suits(release.trim())
}

fn suits(release: &str) -> Result<(), Unfit> {
    match parse_release(release) {
        Some(version) if version < (bpf::OLDEST_KERNEL.0.into(), bpf::OLDEST_KERNEL.1.into()) => {
            Err(Unfit::Kernel { release: release.to_owned() })
        }
        // A release that cannot be read is no reason to refuse: the verifier has the last word.
        _ => Ok(()),
    }
}

/// Major and minor number of `uname -r`.
fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

pub(super) fn capabilities() -> Result<(), Unfit> {
    let missing = missing_capabilities();
    if missing.is_empty() { Ok(()) } else { Err(Unfit::Capabilities { missing: missing.join(", ") }) }
}

/// The capabilities this process lacks. CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON (capabilities(7)).
pub(crate) fn missing_capabilities() -> Vec<String> {
    let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(true);
    let administrator = has(Capability::CAP_SYS_ADMIN);
    [
        (Capability::CAP_BPF, administrator),
        (Capability::CAP_PERFMON, administrator),
        (Capability::CAP_NET_ADMIN, false),
    ]
    .into_iter()
    .filter(|&(capability, implied)| !implied && !has(capability))
    .map(|(capability, _)| capability.to_string())
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        for (release, expected) in [
            ("6.18.5", Some((6, 18))),
            ("5.15.0-91-generic", Some((5, 15))),
            ("6.1-rc1", Some((6, 1))),
            ("7.2+deb13-cloud-amd64", Some((7, 2))),
            ("", None),
            ("next", None),
        ] {
            assert_eq!(parse_release(release), expected, "{release}");
        }
        assert!(kernel().is_ok());
        assert!(suits("6.1.0-56-cloud-amd64").is_ok() && suits("next").is_ok());
        let refused = suits("5.15.0-91-generic").unwrap_err();
        assert_eq!(refused.exit(), Exit::Unavailable);
        assert_eq!(
            refused.to_string(),
            "the kernel is 5.15.0-91-generic, and pendulum needs 6.1 or newer; boot a newer kernel"
        );
    }
}
