//! Takes away what agents that were killed have left on devices: for `pendulum run --cleanup`, and at each start.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::instance::Instance;
use crate::bpf;
use crate::config::{Config, LinkConfig};
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
    runtime.block_on(async {
        let devices = Devices::list().await?;
        let mut names = names(&devices)?;
        names.extend(config.iter().flat_map(|config| &config.links).map(|link| link.wan.clone()));
        clean(names, &devices).await
    })
}

/// Cleans what no link of this agent is on: a device may have been renamed since its agent was killed. What cannot be removed is reported.
pub(super) async fn clean_up_others(links: &[LinkConfig], devices: &Devices) {
    let others = async {
        let mut names = names(devices)?;
        names.retain(|name| links.iter().all(|link| link.wan != *name));
        clean(names, devices).await
    };
    match others.await {
        Ok(removed) => removed.iter().for_each(|left| info!("removed what an earlier run had left: {left}")),
        Err(failure) => warn!("what an earlier run may have left was not removed: {}", failure.message),
    }
}

/// Names of the devices on which something of ours is, and of those that had it under another name.
fn names(devices: &Devices) -> Result<BTreeSet<String>, Failure> {
    let (mut names, filtered) = shape::shaped_devices().map_err(|error| {
        Failure::new(
            Exit::Os,
            format!("the kernel does not list its devices: {error}; look at the kernel log"),
        )
    })?;
    names.extend(filtered.iter().filter_map(|index| Some(devices.by_index(*index)?.name.clone())));
    Ok(names)
}

async fn clean(names: BTreeSet<String>, devices: &Devices) -> Result<Vec<String>, Failure> {
    let mut removed = Vec::new();
    for name in names {
        let claim = match Instance::claim(&name) {
            Ok(claim) if !claim.is_disputed => claim,
            Ok(_) => {
                info!("{name}: another user's process may be its agent; left alone");
                continue;
            }
            Err(_) => {
                info!("{name}: its agent is running; left alone");
                continue;
            }
        };
        let left = shape::remove_left(&name).await;
        removed.extend(left.map_err(|error| Failure::new(Exit::Os, crate::exit::chain(&error)))?);
        if let Some(device) = devices.by_name(&name) {
            removed.extend(bpf::remove_leftovers(&device.name, device.index)?);
        }
        drop(claim);
    }
    Ok(removed)
}
