//! Why a device cannot be measured on, and what to do about it.

use thiserror::Error;

use super::{Device, Devices, LinkLayer};
use crate::config::closest;
use crate::exit::{Classified, Exit};

/// What stands against measuring on a device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DeviceProblem {
    /// No device has this name.
    #[error("network device `{name}` does not exist; {remedy}")]
    Unknown {
        /// The name.
        name: String,
        /// What there is instead.
        remedy: String,
    },
    /// It is not set up.
    #[error("network device `{name}` is down; set it up with `ip link set dev {name} up`")]
    Down {
        /// The name.
        name: String,
    },
    /// It belongs to a bridge, bond or the like.
    #[error(
        "network device `{name}` is a {kind} port of `{owner}`: its frames are switched there, before routing; \
         use the device that holds the provider's address, such as `{owner}`, or the physical uplink itself if it \
         is not a port"
    )]
    Port {
        /// The name.
        name: String,
        /// `bridge`, `bond`, …
        kind: String,
        /// The name of the device it belongs to.
        owner: String,
    },
    /// Its frames cannot be read.
    #[error(
        "network device `{name}` has link layer {link_layer}, which the packet parser does not know; use an \
         Ethernet-like device, or one whose frames are plain IP (ppp, tun, WireGuard)"
    )]
    LinkLayer {
        /// The name.
        name: String,
        /// The kernel's number for it.
        link_layer: LinkLayer,
    },
}

impl DeviceProblem {
    /// Whether it can pass by itself: the device may appear or be set up later.
    pub fn can_pass(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Down { .. })
    }
}

impl Classified for DeviceProblem {
    fn exit(&self) -> Exit {
        match self {
            Self::Unknown { .. } | Self::Down { .. } => Exit::Unavailable,
            Self::Port { .. } | Self::LinkLayer { .. } => Exit::Config,
        }
    }
}

pub(super) fn usable<'a>(devices: &'a Devices, name: &str) -> Result<&'a Device, DeviceProblem> {
    let name_owned = || name.to_owned();
    let Some(device) = devices.by_name(name) else {
        return Err(DeviceProblem::Unknown { name: name_owned(), remedy: what_there_is(devices, name) });
    };
    if let Some(owner) = device.owner.as_ref().filter(|owner| owner.takes_frames()) {
        let owner_name = devices.by_index(owner.index).map_or("its owner", |owner| owner.name.as_str());
        return Err(DeviceProblem::Port {
            name: name_owned(),
            kind: owner.kind.clone(),
            owner: owner_name.to_owned(),
        });
    }
    if let LinkLayer::Unknown(_) = device.link_layer {
        return Err(DeviceProblem::LinkLayer { name: name_owned(), link_layer: device.link_layer });
    }
    if !device.up {
        return Err(DeviceProblem::Down { name: name_owned() });
    }
    Ok(device)
}

/// More names than this do not help anybody.
const NAMES_SHOWN: usize = 12;

fn what_there_is(devices: &Devices, name: &str) -> String {
    let all: Vec<&str> = devices.names().collect();
    let shown = all.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
    let rest = match all.len().saturating_sub(NAMES_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match closest(name, all.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? This network namespace has {shown}{rest}"),
        None => format!("this network namespace has {shown}{rest}"),
    }
}
