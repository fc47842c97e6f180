//! One agent for each device: a second one would count every packet twice and take the first one's filters for leftovers.
//!
//! The claim is a listening socket in the abstract namespace. That namespace belongs to the network namespace, as devices do,
//! so it is the right scope for containers too; and the kernel drops the claim with the process, however it ends. A lock file has
//! neither: containers that share the network have a `/run` of their own, and an agent without rights may have none at all.
//!
//! Any local user may bind any abstract name, so the name alone claims nothing. Each agent binds a name that cannot be guessed,
//! which nobody can take before it; then it looks for other claims to the device and asks the kernel whose they are
//! (`SO_PEERCRED`, unix(7)). Only those of root and of the agent's own user count.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::linux::fs::MetadataExt as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use socket2::{Domain, SockAddr, Socket, Type};
use thiserror::Error;
use tracing::warn;

use crate::exit::{Classified, Exit};

/// Made by the service manager for the service's user (`RuntimeDirectory=`); only root can make something in `/run`.
const SERVICE_DIRECTORY: &str = "/run/pendulum";
/// All sockets of the network namespace (proc(5)).
const SOCKETS: &str = "/proc/thread-self/net/unix";
/// `__SO_ACCEPTCON` of the kernel's include/linux/net.h: the socket listens.
const LISTENS: u32 = 1 << 16;

/// Why a device cannot be claimed.
#[derive(Debug, Error)]
pub(super) enum InstanceError {
    /// Another agent has it.
    #[error(
        "network device `{device}` is watched by another pendulum already ({holder}); stop that one, or watch another \
         device"
    )]
    Taken { device: String, holder: Holder },
    /// The kernel refused.
    #[error(
        "cannot claim network device `{device}`: {source}; allow AF_UNIX sockets and /proc in the sandbox of this process"
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
    pub(super) is_disputed: bool,
}

impl Instance {
    /// Claims a device. Two that try at the same moment may both be refused; never do both get it.
    pub(super) fn claim(device: &str) -> Result<Self, InstanceError> {
        let refused = |source| InstanceError::Refused { device: device.to_owned(), source };
        let prefix = format!("pendulum/wan/{device}/");
        let own = format!("{prefix}{:016x}", RandomState::new().build_hasher().finish());
        let claim = SocketAddr::from_abstract_name(&own)
            .and_then(|address| UnixListener::bind_addr(&address))
            .map_err(refused)?;
        let me = Holder::of(&own).map_err(refused)?;
        let agents = [Some(0), Some(me.user), service_user()];
        let mut foreign = Vec::new();
        for name in others(&prefix, &own).map_err(refused)? {
            match Holder::of(&name) {
                Ok(holder) if agents.contains(&Some(holder.user)) => {
                    return Err(InstanceError::Taken { device: device.to_owned(), holder });
                }
                Ok(holder) => foreign.push(format!("{holder} of user {}", holder.user)),
                // It ended just now.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => foreign.push(format!("a process that does not let itself be asked ({error})")),
            }
        }
        if let Some(first) = foreign.first() {
            warn!(
                "claims of other users to network device `{device}` are ignored ({}, the first by {first}): only those of root, \
                 of the user of this agent and of the service's user count; if it is an agent, stop one of the two",
                foreign.len()
            );
        }
        Ok(Self { claim, is_disputed: !foreign.is_empty() })
    }
}

/// The process that made a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    user: u32,
    /// None in a container whose processes are not seen from here.
    process: Option<i32>,
}

impl Holder {
    /// Asks the kernel, without waiting: a stranger's queue may be full.
    fn of(name: &str) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.connect(&SockAddr::unix(format!("\0{name}"))?)?;
        let credentials = tokio::net::UnixStream::from_std(socket.into())?.peer_cred()?;
        Ok(Self { user: credentials.uid(), process: credentials.pid().filter(|&process| process > 0) })
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.process {
            Some(process) => write!(formatter, "process {process}"),
            None => formatter.write_str("a process of another container"),
        }
    }
}

/// Whom the service manager runs the agent as.
fn service_user() -> Option<u32> {
    let directory = std::fs::symlink_metadata(SERVICE_DIRECTORY).ok()?;
    directory.is_dir().then(|| directory.st_uid())
}

/// Listening sockets whose name begins like this, without our own.
fn others(prefix: &str, own: &str) -> io::Result<BTreeSet<String>> {
    let list = std::fs::read(SOCKETS)?;
    Ok(listening(&String::from_utf8_lossy(&list))
        .filter(|name| name.starts_with(prefix) && *name != own)
        .map(str::to_owned)
        .collect())
}

/// Abstract names in the kernel's list: address, references, protocol, flags, type, state, inode, name.
fn listening(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| {
        let mut columns = line.split_ascii_whitespace();
        let flags = u32::from_str_radix(columns.nth(3)?, 16).ok()?;
        let name = columns.nth(3)?.strip_prefix('@')?;
        (flags & LISTENS != 0).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_device_is_claimed_once() {
        let device = format!("t{}", std::process::id());
        let first = Instance::claim(&device).unwrap();
        assert!(!first.is_disputed);
        let second = Instance::claim(&device).expect_err("taken");
        assert_eq!(second.exit(), Exit::Unavailable);
        assert!(second.to_string().contains(&format!("process {}", std::process::id())), "{second}");
        // Another device's name may begin with this one's.
        assert!(Instance::claim(&format!("{device}0")).is_ok());
        drop(first);
        assert!(Instance::claim(&device).is_ok());
    }

    #[test]
    fn only_listening_abstract_sockets_are_claims() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23161 @pendulum/wan/wan0/aa\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 23162 @pendulum/wan/wan0/bb\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 23163 /run/pendulum/wan/wan0/cc\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 23164\n\
            0000000000000000: 00000002 00000000 00010000 0005 01 23165 @other\n";
        assert_eq!(listening(list).collect::<Vec<_>>(), ["pendulum/wan/wan0/aa", "other"]);
    }
}
