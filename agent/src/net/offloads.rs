//! What a device does to segments before or after the programs see them, by the ethtool ioctl. The only `unsafe` code
//! outside [`crate::bpf`]: route netlink does not tell these.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// Read-only requests of linux/ethtool.h.
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// `ETH_FLAG_LRO` of linux/ethtool.h.
const FLAG_LRO: u32 = 1 << 15;

/// Offloads of one device that merge or split segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// Generic receive offload: merges data segments, reversibly.
    pub gro: bool,
    /// Large receive offload: merges in hardware and loses what was between.
    pub lro: bool,
    /// Generic segmentation offload.
    pub gso: bool,
    /// TCP segmentation offload.
    pub tso: bool,
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

impl Offloads {
    /// Asks the kernel about one device.
    ///
    /// # Errors
    /// The device does not exist, or its driver does not tell.
    pub fn of(device: &str) -> io::Result<Self> {
        // Any socket of this namespace serves (netdevice(7)).
        let socket = UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| UdpSocket::bind(("::", 0)))?;
        let get = |command| get(&socket, device, command);
        Ok(Self {
            gro: get(ETHTOOL_GGRO)? != 0,
            lro: get(ETHTOOL_GFLAGS)? & FLAG_LRO != 0,
            gso: get(ETHTOOL_GGSO)? != 0,
            tso: get(ETHTOOL_GTSO)? != 0,
        })
    }
}

fn get(socket: &UdpSocket, device: &str, command: u32) -> io::Result<u32> {
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut name = [0; libc::IFNAMSIZ];
    for (slot, byte) in name.iter_mut().zip(device.bytes()) {
        *slot = byte as libc::c_char;
    }
    let mut value = EthtoolValue { command, data: 0 };
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut value).cast() },
    };
    // SAFETY: the descriptor is open as long as `socket` lives; `request` is a whole `struct ifreq` whose name ends in a
    // zero, and its pointer leads to a whole `struct ethtool_value`, which is all these commands read and write.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(value.data) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_tells_and_the_unknown_does_not() {
        assert!(Offloads::of("lo").is_ok());
        assert!(Offloads::of("no-such-dev").is_err());
        assert!(Offloads::of("a-name-longer-than-the-kernel-takes").is_err());
    }
}
