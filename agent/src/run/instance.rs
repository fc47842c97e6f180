//! One agent for each device: a second one would count every packet twice and take the first one's filters for leftovers.
//!
//! The claim is a listening socket in the abstract namespace. That namespace belongs to the network namespace, as devices do,
//! so it is the right scope in containers too; and the kernel drops the claim with the process, however it ends.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use thiserror::Error;

use crate::exit::{Classified, Exit};

/// Why a device cannot be claimed.
#[derive(Debug, Error)]
pub(super) enum InstanceError {
    /// Another agent has it.
    #[error(
        "network device `{device}` is watched by another pendulum already ({holder}); stop that one, or watch another \
         device"
    )]
    Taken { device: String, holder: String },
    /// The kernel refused.
    #[error(
        "cannot claim network device `{device}`: {source}; allow AF_UNIX sockets in the sandbox of this process"
    )]
    Refused {
        device: String,
        #[source]
        source: io::Error,
    },
}

impl Classified for InstanceError {
    fn exit(&self) -> Exit {
        match self {
            Self::Taken { .. } => Exit::Unavailable,
            Self::Refused { .. } => Exit::Os,
        }
    }
}

/// The claim to a device; dropping it gives the device free.
#[derive(Debug)]
pub(super) struct Instance {
    #[expect(dead_code, reason = "held for its Drop")]
    claim: UnixListener,
}

impl Instance {
    pub(super) fn claim(device: &str) -> Result<Self, InstanceError> {
        let refused = |source| InstanceError::Refused { device: device.to_owned(), source };
        let address = SocketAddr::from_abstract_name(format!("pendulum/wan/{device}")).map_err(refused)?;
        match UnixListener::bind_addr(&address) {
            Ok(claim) => Ok(Self { claim }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Err(InstanceError::Taken { device: device.to_owned(), holder: holder(&address) })
            }
            Err(error) => Err(refused(error)),
        }
    }
}

/// Who listens: the kernel remembers the process that did.
fn holder(address: &SocketAddr) -> String {
    let pid = UnixStream::connect_addr(address)
        .and_then(|stream| {
            stream.set_nonblocking(true)?;
            tokio::net::UnixStream::from_std(stream)?.peer_cred()
        })
        .ok()
        .and_then(|credentials| credentials.pid());
    match pid {
        Some(pid) if pid > 0 => format!("process {pid}"),
        _ => "a process of another container".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_device_is_claimed_once() {
        let device = format!("t{}", std::process::id());
        let first = Instance::claim(&device).unwrap();
        let second = Instance::claim(&device).expect_err("taken");
        assert_eq!(second.exit(), Exit::Unavailable);
        assert!(second.to_string().contains(&format!("process {}", std::process::id())), "{second}");
        drop(first);
        assert!(Instance::claim(&device).is_ok());
    }
}
