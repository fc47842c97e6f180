//! `pendulum run --cleanup`: takes away what agents that were killed have left on devices.

use tracing::info;

use super::instance::Instance;
use crate::bpf;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::net::Devices;
use crate::shape;

/// Cleans the configured links' devices, and all others on which a shaper of ours stands. A device whose agent runs is
/// left alone. Answers what was removed, one line each.
///
/// # Errors
/// The kernel refuses.
pub fn clean_up(config: Option<&Config>) -> Result<Vec<String>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        Failure::new(Exit::Os, format!("cannot start the event loop: {error}; raise `ulimit -n`"))
    })?;
    let devices = runtime.block_on(Devices::list())?;
    let shaped = shape::shaped_devices().map_err(|error| {
        Failure::new(
            Exit::Os,
            format!("the kernel does not list its devices: {error}; look at the kernel log"),
        )
    })?;
    let configured = config.map(|config| config.links.iter().map(|link| link.wan.clone()).collect());
    let mut names: Vec<String> = configured.unwrap_or_default();
    names.extend(shaped);
    names.sort();
    names.dedup();
    let mut removed = Vec::new();
    // Claims ask through it.
    let _context = runtime.enter();
    for name in names {
        let Some(device) = devices.by_name(&name) else { continue };
        let Ok(claim) = Instance::claim(&name) else {
            info!("{name}: its agent is running; left alone");
            continue;
        };
        if claim.is_disputed() {
            info!("{name}: another user's process may be its agent; left alone");
            continue;
        }
        removed.extend(
            shape::remove_leftovers(device)
                .map_err(|error| Failure::new(Exit::Os, crate::exit::chain(&error)))?,
        );
        removed.extend(bpf::remove_leftovers(&device.name, device.index)?);
    }
    removed.extend(shape::remove_orphans(&devices).map_err(|error| {
        Failure::new(Exit::Os, format!("cannot remove a shaping device without a link: {error}"))
    })?);
    Ok(removed)
}
