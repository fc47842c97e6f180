//! `pendulum run --cleanup`: takes away what agents that were killed have left on devices.

use std::collections::BTreeSet;

use tracing::info;

use super::instance::Instance;
use crate::bpf;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::net::Devices;
use crate::shape;

/// Cleans the configured links' devices, and whatever else something of ours is on. A device whose agent runs is left alone. Answers what was
/// removed, one line each.
///
/// # Errors
/// The kernel refuses.
pub fn clean_up(config: Option<&Config>) -> Result<Vec<String>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the event loop: {error}; raise `ulimit -n`"))
    })?;
    let devices = runtime.block_on(Devices::list())?;
    let unlisted = |error| {
        Failure::new(
            Exit::Os,
            format!("the kernel does not list its devices: {error}; look at the kernel log"),
        )
    };
    let (mut names, filtered): (BTreeSet<String>, _) = shape::shaped_devices().map_err(unlisted)?;
    names.extend(config.iter().flat_map(|config| &config.links).map(|link| link.wan.clone()));
    // A device may have another name by now than when the programs were put there.
    names.extend(filtered.iter().filter_map(|index| Some(devices.by_index(*index)?.name.clone())));
    let mut removed = Vec::new();
    // Claims ask through it.
    let _context = runtime.enter();
    for name in names {
        let claim = match Instance::claim(&name) {
            Ok(claim) if !claim.is_disputed() => claim,
            Ok(_) => {
                info!("{name}: another user's process may be its agent; left alone");
                continue;
            }
            Err(_) => {
                info!("{name}: its agent is running; left alone");
                continue;
            }
        };
        let left = runtime.block_on(shape::remove_left(&name));
        removed.extend(left.map_err(|error| Failure::new(Exit::Os, crate::exit::chain(&error)))?);
        if let Some(device) = devices.by_name(&name) {
            removed.extend(bpf::remove_leftovers(&device.name, device.index)?);
        }
        drop(claim);
    }
    Ok(removed)
}
