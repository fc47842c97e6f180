//! What a device does to segments before or after the programs see them, and its speed, by the ethtool ioctl. The only `unsafe`
//! code outside [`crate::bpf`]: route netlink does not tell these.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

use pendulum_model::rate::Rate;

/// Read-only requests of linux/ethtool.h.
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GTSO: u32 = 0x1e;
const ETHTOOL_GGSO: u32 = 0x23;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_GGRO: u32 = 0x2b;
/// `ETH_FLAG_LRO` of linux/ethtool.h.
const FLAG_LRO: u32 = 0x8000;

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

/// `struct ethtool_cmd` of linux/ethtool.h.
#[repr(C)]
#[derive(Default)]
struct EthtoolCmd {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    /// Duplex, port, addresses, negotiation.
    media: [u8; 6],
    max_packets: [u32; 2],
    speed_high: u16,
    crossover: [u8; 2],
    partner_advertising: u32,
    reserved: [u32; 2],
}

/// The speed of a device's port, as it was negotiated; `None` if the driver does not tell, as those without a port (PPP, LTE, tunnels).
///
/// # Errors
/// There is no such device, or no socket to ask by.
pub fn port_speed(device: &str) -> io::Result<Option<Rate>> {
    let mut settings = EthtoolCmd { command: ETHTOOL_GSET, ..EthtoolCmd::default() };
    match ask(&socket()?, device, &mut settings) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(settings.rate())
}

impl EthtoolCmd {
    /// `None`: the driver does not know.
    fn rate(&self) -> Option<Rate> {
        match (u32::from(self.speed_high) << 16) + u32::from(self.speed) {
            // SPEED_UNKNOWN of linux/ethtool.h: -1.
            0 | u32::MAX => None,
            megabits => Rate::from_bits_per_second(u64::from(megabits) * 1_000_000),
        }
    }
}

impl Offloads {
    /// Asks the kernel about one device.
    ///
    /// # Errors
    /// The device does not exist, or its driver does not tell.
    pub fn of(device: &str) -> io::Result<Self> {
        let socket = socket()?;
        let get = |command| get(&socket, device, command);
        Ok(Self {
            gro: get(ETHTOOL_GGRO)? != 0,
            lro: get(ETHTOOL_GFLAGS)? & FLAG_LRO != 0,
            gso: get(ETHTOOL_GGSO)? != 0,
            tso: get(ETHTOOL_GTSO)? != 0,
        })
    }
}

/// Any socket of this namespace serves (netdevice(7)).
fn socket() -> io::Result<UdpSocket> {
    UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| UdpSocket::bind(("::", 0)))
}

fn get(socket: &UdpSocket, device: &str, command: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data: 0 };
    ask(socket, device, &mut value)?;
    Ok(value.data)
}

/// A request of linux/ethtool.h, one of those that are private to this file.
trait EthtoolRequest {}
impl EthtoolRequest for EthtoolValue {}
impl EthtoolRequest for EthtoolCmd {}

/// Sends a request; the kernel writes its answer into it.
fn ask<T: EthtoolRequest>(socket: &UdpSocket, device: &str, content: &mut T) -> io::Result<()> {
    if device.len() >= libc::IFNAMSIZ {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut name = [0; libc::IFNAMSIZ];
    for (slot, byte) in name.iter_mut().zip(device.bytes()) {
        *slot = byte as libc::c_char;
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_data: (&raw mut *content).cast() },
    };
    // SAFETY: the descriptor is open as long as `socket` lives; `request` is a whole `struct ifreq` whose name ends in a
    // zero, and its pointer leads to a whole structure of linux/ethtool.h, which is all that its command reads and writes.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_port_has_no_speed() {
        assert_eq!(size_of::<EthtoolCmd>(), 44, "struct ethtool_cmd");
        assert!(matches!(port_speed("lo"), Ok(None)));
        assert!(port_speed("no-such-dev").is_err());
    }

    #[test]
    fn a_speed_is_in_megabits_and_unknown_if_the_driver_says_so() {
        for (speed_high, speed, gigabits) in
            [(0, 0, None), (0xffff, 0xffff, None), (0, 2_500, Some("2.5gbit")), (1, 34_464, Some("100gbit"))]
        {
            let told = EthtoolCmd { speed_high, speed, ..EthtoolCmd::default() };
            assert_eq!(told.rate(), gigabits.map(|text| text.parse().unwrap()), "{speed_high} {speed}");
        }
    }

    #[test]
    fn loopback_tells_and_the_unknown_does_not() {
        let told = Offloads::of("lo").expect("the kernel tells");
        assert_eq!(
            (told.gro, told.lro, told.gso, told.tso),
            (true, false, true, true),
            "as the kernel makes it"
        );
        assert!(Offloads::of("no-such-dev").is_err());
        assert!(Offloads::of("a-name-longer-than-the-kernel-takes").is_err());
    }
}
