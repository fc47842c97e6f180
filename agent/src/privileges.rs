//! What the process may do once everything is attached: as little as its work still needs.
//!
//! Reading maps and counters needs no capability: the descriptors are open. Attaching again to a device that was made anew
//! does, and so does asking connection tracking (`CAP_NET_ADMIN`). Dropping cannot be undone, and programs started from here
//! on inherit nothing.

use std::collections::HashSet;

use caps::{CapSet, Capability, CapsHashSet};
use tracing::{info, warn};

use crate::config::Privileges;

/// What loading and attaching need.
const ATTACH: [Capability; 3] = [Capability::CAP_BPF, Capability::CAP_PERFMON, Capability::CAP_NET_ADMIN];

/// Takes into use what this process was only permitted: file capabilities without the effective flag, as in the container image. There
/// the flag would keep the program from starting at all where they are not granted, even for `replay`.
pub(crate) fn use_what_is_permitted() {
    let held = |set, capability| caps::has_cap(None, set, capability).unwrap_or(false);
    for capability in ATTACH {
        if held(CapSet::Permitted, capability) && !held(CapSet::Effective, capability) {
            // What is still missing then, the checks before the start tell.
            let _ = caps::raise(None, CapSet::Effective, capability);
        }
    }
}

/// What the agent still has to do that needs a capability.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StillToDo {
    /// A link waits for its device.
    pub(crate) attach: bool,
    /// The shaper waits for a rate: only then is its filter loaded.
    pub(crate) shape: bool,
    /// The first hop may have to be asked.
    pub(crate) probe: bool,
    /// Something has to be taken off a device by netlink: clsact filters, queues that were set up.
    pub(crate) take_down: bool,
}

/// Capabilities that a thread keeps.
#[derive(Clone, Debug)]
pub(crate) struct RetainedCapabilities(CapsHashSet);

impl RetainedCapabilities {
    /// Takes all others from this thread, too.
    pub(crate) fn restrict(&self) {
        if let Err(error) = restrict(&self.0) {
            warn!("a thread keeps capabilities that it does not need: {error}");
        }
    }
}

/// Gives up in this thread what is not needed any more. Threads that began before have to follow; later ones inherit what is left.
pub(crate) fn drop_unneeded(after_start: Privileges, to_do: StillToDo) -> RetainedCapabilities {
    if after_start == Privileges::None && to_do.attach {
        warn!("privileges.after-start = \"none\" is not followed: a link still waits for its device");
    } else if after_start == Privileges::None && to_do.shape {
        warn!(
            "privileges.after-start = \"none\" is not followed: the shaper loads its filter once the uplink's rate is known; set \
             uplink-rate of every link"
        );
    }
    let keep = kept(after_start, to_do);
    match restrict(&keep) {
        Ok(()) => info!("capabilities kept: {}", names(&keep)),
        Err(error) => {
            warn!("capabilities were not given up: {error}; the agent works, with more rights than it needs")
        }
    }
    RetainedCapabilities(keep)
}

/// Gives up everything, for a thread that needs nothing.
pub(crate) fn give_up_all() {
    RetainedCapabilities(HashSet::new()).restrict();
}

fn kept(after_start: Privileges, to_do: StillToDo) -> CapsHashSet {
    let probe = to_do.probe.then_some(Capability::CAP_NET_RAW);
    if after_start == Privileges::Reattach || to_do.attach || to_do.shape {
        return ATTACH.into_iter().chain(probe).collect();
    }
    to_do.take_down.then_some(Capability::CAP_NET_ADMIN).into_iter().chain(probe).collect()
}

/// Takes away from every set of this thread what is not in `keep`. Threads started later inherit what is left.
fn restrict(keep: &CapsHashSet) -> Result<(), caps::errors::CapsError> {
    // Without CAP_SETPCAP the bounding set stays; it gives nothing to a process that may not change its user.
    if caps::has_cap(None, CapSet::Effective, Capability::CAP_SETPCAP)? {
        for capability in caps::read(None, CapSet::Bounding)?.difference(keep) {
            caps::drop(None, CapSet::Bounding, *capability)?;
        }
    }
    // What programs started from here on would inherit: nothing.
    caps::clear(None, CapSet::Ambient)?;
    caps::clear(None, CapSet::Inheritable)?;
    for set in [CapSet::Effective, CapSet::Permitted] {
        let held = caps::read(None, set)?;
        for capability in held.difference(keep) {
            caps::drop(None, set, *capability)?;
        }
    }
    Ok(())
}

fn names(keep: &CapsHashSet) -> String {
    let mut names: Vec<String> = keep.iter().map(ToString::to_string).collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_follows_from_what_is_still_to_be_done() {
        let nothing = StillToDo::default();
        assert_eq!(kept(Privileges::Reattach, nothing), HashSet::from(ATTACH));
        assert_eq!(names(&kept(Privileges::None, nothing)), "none");
        assert_eq!(kept(Privileges::None, StillToDo { attach: true, ..nothing }), HashSet::from(ATTACH));
        assert_eq!(kept(Privileges::None, StillToDo { shape: true, ..nothing }), HashSet::from(ATTACH));
        let take_down = kept(Privileges::None, StillToDo { take_down: true, ..nothing });
        assert_eq!(names(&take_down), "CAP_NET_ADMIN");
        let probe = kept(Privileges::None, StillToDo { probe: true, ..nothing });
        assert_eq!(names(&probe), "CAP_NET_RAW");
    }

    #[test]
    fn what_is_not_kept_is_gone_from_this_thread() {
        // Capabilities belong to threads: the other tests keep theirs.
        std::thread::spawn(|| {
            let keep = HashSet::from([Capability::CAP_NET_ADMIN]);
            restrict(&keep).unwrap();
            for set in [CapSet::Effective, CapSet::Permitted, CapSet::Inheritable, CapSet::Ambient] {
                let held = caps::read(None, set).unwrap();
                assert!(held.is_subset(&keep), "{set:?}: {held:?}");
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn what_is_permitted_is_used() {
        if !caps::has_cap(None, CapSet::Permitted, Capability::CAP_NET_ADMIN).unwrap() {
            eprintln!("SKIPPED what_is_permitted_is_used: needs CAP_NET_ADMIN");
            return;
        }
        std::thread::spawn(|| {
            caps::drop(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap();
            use_what_is_permitted();
            assert!(caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap());
        })
        .join()
        .unwrap();
    }
}
