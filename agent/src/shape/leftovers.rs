//! What runs that were killed have left behind.

use std::io;

use super::{ShapeError, device};
use crate::bpf;
use crate::net::{Device, Devices};

/// Removes what earlier runs have left for a device when they were killed. Answers what was removed.
///
/// # Errors
/// The kernel refuses.
pub fn remove_leftovers(device: &Device) -> Result<Vec<String>, ShapeError> {
    let mut removed = bpf::remove_shape_leftovers(&device.name, device.index);
    let failed =
        |source| ShapeError::Kernel { step: "remove the shaper of", device: device.name.clone(), source };
    removed.extend(device::remove_leftovers(device.index, &device.name).map_err(failed)?);
    Ok(removed)
}

/// Removes shapers whose WAN device is gone. Answers what was removed.
///
/// # Errors
/// The kernel refuses.
pub fn remove_orphans(devices: &Devices) -> io::Result<Vec<String>> {
    device::remove_orphans(|wan| devices.by_name(wan).is_some())
}

/// The WAN devices for which shapers of ours stand, running or left behind.
///
/// # Errors
/// Route netlink does not answer.
pub fn shaped_devices() -> io::Result<Vec<String>> {
    device::shaped_devices()
}
