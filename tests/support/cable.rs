//! Two ends of a cable in a network of their own, and a socket that puts frames on it as they are.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::process::Command;

/// The end that is measured.
pub(crate) const NEAR: &str = "near0";
/// The other one.
pub(crate) const FAR: &str = "far0";

/// Namespaces and packet sockets need it.
pub(crate) fn is_root() -> bool {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// Run `ip` with these words.
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("iproute2 is there");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Call `action` on a thread with a network of its own, which goes away with it: two ends of a cable, silent but for the test.
pub(crate) fn with_cable(action: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: concerns this thread alone, and touches no memory.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "{}", io::Error::last_os_error());
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                // A kernel without IPv6 says nothing by itself either.
                let _ = std::fs::write(path, "1");
            }
            ip(&format!("link add {NEAR} mtu 9000 type veth peer name {FAR} mtu 9000"));
            for device in [NEAR, FAR] {
                ip(&format!("link set {device} up"));
            }
            action();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// A device's number.
pub(crate) fn index(device: &str) -> u32 {
    let name = std::ffi::CString::new(device).expect("a device name");
    // SAFETY: a string that ends with a zero byte.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Sends frames as they are.
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    device: u32,
}

impl PacketSocket {
    pub(crate) fn new(device: &str) -> Self {
        // SAFETY: no memory is handed over; the descriptor is owned from here on.
        let socket = unsafe {
            let descriptor = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(descriptor >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(descriptor)
        };
        let on: libc::c_int = 1;
        // SAFETY: reads an integer.
        let set = unsafe {
            let length = size_of::<libc::c_int>() as libc::socklen_t;
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_VNET_HDR,
                (&raw const on).cast(),
                length,
            )
        };
        assert_eq!(set, 0, "{}", io::Error::last_os_error());
        Self { socket, device: index(device) }
    }

    /// With so many bytes in the linear part.
    pub(crate) fn send(&self, frame: &[u8], linear: usize) {
        // struct virtio_net_hdr: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset.
        let mut message = vec![0; 10];
        message[2..4].copy_from_slice(&(linear as u16).to_le_bytes());
        message.extend_from_slice(frame);
        // SAFETY: all zero is a value of it.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        to.sll_family = libc::AF_PACKET as u16;
        to.sll_ifindex = self.device.cast_signed();
        to.sll_halen = 6;
        to.sll_addr[..6].copy_from_slice(&frame[..6]);
        // SAFETY: reads the message and the address, which live until it returns.
        let sent = unsafe {
            let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            let message = (message.as_ptr().cast(), message.len());
            libc::sendto(self.socket.as_raw_fd(), message.0, message.1, 0, (&raw const to).cast(), length)
        };
        assert_eq!(sent, message.len() as isize, "{}", io::Error::last_os_error());
    }
}
