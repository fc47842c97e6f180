//! Network devices of this namespace, by route netlink: what they are, whether the agent can use them, and how they
//! change.

pub(crate) mod cake;
pub(crate) mod clsact;
mod conntrack;
pub(crate) mod control;
mod device;
pub(crate) mod dump;
mod ethtool;
mod filters;
pub(crate) mod message;
mod neighbours;
mod problem;
pub(crate) mod qdisc;
mod request;
mod route;
mod statistics;
#[cfg(test)]
mod tests;
mod watch;

pub use conntrack::{Conntrack, NoConntrack, Original};
pub use control::ingress_redirect;
pub use device::{Device, LinkLayer, Owner, Xdp};
pub use ethtool::{Offloads, port_speed};
pub use filters::filters;
pub use neighbours::{Neighbour, neighbours};
pub use problem::DeviceProblem;
pub use qdisc::{Qdisc, QdiscTree};
pub use route::{Reached, Routes};
pub use statistics::{COUNTED_OTHERWISE, DeviceBytes};
pub use watch::DeviceWatch;

use std::collections::BTreeMap;

use futures_util::TryStreamExt;
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use thiserror::Error;

use crate::exit::{Classified, Exit};

/// Route netlink does not answer as it should.
#[derive(Debug, Error)]
pub enum NetError {
    /// The socket cannot be had.
    #[error("cannot open a route netlink socket: {0}; allow AF_NETLINK in the sandbox of this process")]
    Socket(#[source] std::io::Error),
    /// A request failed.
    #[error("the kernel did not list its network devices: {0}; look for netlink errors in the kernel log")]
    List(#[source] rtnetlink::Error),
}

impl Classified for NetError {
    fn exit(&self) -> Exit {
        match self {
            Self::Socket(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Exit::NoPermission,
            Self::Socket(_) | Self::List(_) => Exit::Os,
        }
    }
}

/// All devices of this network namespace at one moment, by ifindex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    by_index: BTreeMap<u32, Device>,
}

impl Devices {
    /// Lists the devices once.
    ///
    /// # Errors
    /// Route netlink does not answer.
    pub async fn list() -> Result<Self, NetError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(NetError::Socket)?;
        let connection = tokio::spawn(connection);
        let devices = Self::dump(&handle).await;
        connection.abort();
        devices
    }

    async fn dump(handle: &rtnetlink::Handle) -> Result<Self, NetError> {
        let mut devices = Self::default();
        let mut links = std::pin::pin!(handle.link().get().execute());
        while let Some(message) = links.try_next().await.map_err(NetError::List)? {
            devices.insert(&message);
        }
        Ok(devices)
    }

    fn insert(&mut self, message: &rtnetlink::packet_route::link::LinkMessage) {
        if let Some(device) = Device::from_message(message) {
            self.by_index.insert(device.index, device);
        }
    }

    /// Takes in a change.
    fn apply(&mut self, message: &RouteNetlinkMessage) {
        match message {
            RouteNetlinkMessage::NewLink(link) => self.insert(link),
            // A port that leaves a bridge sends this too, for the bridge's view of it: the device itself stays.
            RouteNetlinkMessage::DelLink(link) if link.header.interface_family == AddressFamily::Unspec => {
                self.by_index.remove(&link.header.index);
            }
            _ => {}
        }
    }

    /// The device of this name.
    pub fn by_name(&self, name: &str) -> Option<&Device> {
        self.by_index.values().find(|device| device.name == name)
    }

    /// The device with this ifindex.
    pub fn by_index(&self, index: u32) -> Option<&Device> {
        self.by_index.get(&index)
    }

    /// Names of all devices, in ifindex order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_index.values().map(|device| device.name.as_str())
    }

    /// The device of this name, if measurements can be taken on it now.
    ///
    /// # Errors
    /// What stands against it, with the remedy.
    pub fn usable(&self, name: &str) -> Result<&Device, DeviceProblem> {
        problem::usable(self, name)
    }
}
