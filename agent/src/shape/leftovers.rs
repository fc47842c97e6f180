//! What runs that were killed have left behind.

use std::io;

use pendulum_model::segment::Direction;

use super::device::{ALIAS, device_name};
use super::{ShapeError, takeover};
use crate::bpf;
use crate::net::clsact;
use crate::net::control::{self, Ifb};
use crate::net::{Device, Devices};

/// The device for which an ifb of ours was made, and what it says about a shaper that was put out of use.
fn shaped_by(ifb: &Ifb) -> Option<(&str, &str)> {
    let text = ifb.alias.strip_prefix(ALIAS)?;
    // No device's name contains a blank.
    Some(text.split_once(' ').unwrap_or((text, "")))
}

/// Removes what earlier runs have left for a device when they were killed. Answers what was removed.
///
/// # Errors
/// The kernel refuses.
pub fn remove_leftovers(device: &Device) -> Result<Vec<String>, ShapeError> {
    let mut removed = bpf::remove_shape_leftovers(&device.name, device.index);
    let failed =
        |source| ShapeError::Kernel { step: "remove the shaper of", device: device.name.clone(), source };
    removed.extend(remove_shapers(device.index, &device.name).map_err(failed)?);
    Ok(removed)
}

/// Filters that redirect to a shaper of ours, the shapers, and a clsact qdisc that is empty then. Where something cannot be listed,
/// nothing is touched.
fn remove_shapers(wan: u32, wan_name: &str) -> io::Result<Vec<String>> {
    let is_ours = |ifb: &Ifb| match shaped_by(ifb) {
        Some((device, _)) => device == wan_name,
        // Killed before it could be given its alias.
        None => {
            ifb.alias.is_empty()
                && Direction::ALL.into_iter().any(|direction| device_name(direction, wan) == ifb.name)
        }
    };
    let ours: Vec<Ifb> = control::list_ifbs()?.into_iter().filter(is_ours).collect();
    if ours.is_empty() {
        return Ok(Vec::new());
    }
    let filters = control::read_filters(wan)?;
    let mut removed = Vec::new();
    for ifb in ours {
        for filter in filters.redirections.iter().filter(|filter| filter.to == ifb.index) {
            control::remove_filters(wan, filter.side, filter.priority)?;
            removed.push(format!("redirection of {wan_name} to {}", ifb.name));
        }
        if let Some((_, note)) = shaped_by(&ifb) {
            removed.extend(takeover::restore_noted(wan, wan_name, note)?);
        }
        control::delete_device(ifb.index)?;
        removed.push(format!("device {}", ifb.name));
    }
    // The crashed run had added the qdisc, or had found it empty; in both cases nobody misses it.
    if control::read_filters(wan)?.count == 0 && clsact::remove(wan).is_ok() {
        removed.push(format!("clsact qdisc of {wan_name}"));
    }
    Ok(removed)
}

/// Removes shapers whose WAN device is gone. Answers what was removed.
///
/// # Errors
/// The kernel refuses.
pub fn remove_orphans(devices: &Devices) -> io::Result<Vec<String>> {
    let mut removed = Vec::new();
    for ifb in control::list_ifbs()? {
        if shaped_by(&ifb).is_some_and(|(wan, _)| devices.by_name(wan).is_none()) {
            control::delete_device(ifb.index)?;
            removed.push(format!("device {}", ifb.name));
        }
    }
    Ok(removed)
}

/// The WAN devices for which shapers of ours stand, running or left behind.
///
/// # Errors
/// Route netlink does not answer.
pub fn shaped_devices() -> io::Result<Vec<String>> {
    let ifbs = control::list_ifbs()?;
    let mut names: Vec<String> = ifbs.iter().filter_map(|ifb| Some(shaped_by(ifb)?.0.to_owned())).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
