//! Frames out of a device as they are, and packets into a tun device.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::time::Duration;

use crate::inside::inside;
use crate::netns::Netns;

/// What linux/if_packet.h and linux/if_tun.h call them.
const PACKET_VNET_HDR: libc::c_int = 15;
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const IFF_TUN: i16 = 0x0001;
const IFF_NO_PI: i16 = 0x1000;

/// Frames that are sent before the receiving side is given time: its backlog holds 1000 (net.core.netdev_max_backlog).
const TRAIN: usize = 250;

/// A packet socket that sends out of one device.
pub(crate) struct PacketSocket {
    socket: OwnedFd,
    ifindex: i32,
    protocol: u16,
}

impl PacketSocket {
    /// For Ethernet frames.
    pub(crate) fn ethernet(netns: &Netns, device: &str) -> Self {
        Self::open(netns, device, 0)
    }

    /// For IPv4 packets out of a device without link header: nothing in them says what they are.
    pub(crate) fn ipv4(netns: &Netns, device: &str) -> Self {
        Self::open(netns, device, libc::ETH_P_IP as u16)
    }

    fn open(netns: &Netns, device: &str, protocol: u16) -> Self {
        let ifindex = i32::try_from(netns.index(device)).unwrap();
        // SAFETY: makes a descriptor; its value is checked.
        let socket = inside(netns, || unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) });
        assert!(socket >= 0, "a packet socket on {device}: {}", io::Error::last_os_error());
        // SAFETY: a new descriptor that nobody else owns.
        Self { socket: unsafe { OwnedFd::from_raw_fd(socket) }, ifindex, protocol }
    }

    /// Makes the kernel keep only the first `linear` bytes of a large frame in the linear part of its skb: sent frames
    /// are to be given a virtio header (`packet_alloc_skb` of net/packet/af_packet.c), as [`Self::send_non_linear`] does.
    pub(crate) fn with_virtio_header(self) -> Self {
        let on: libc::c_int = 1;
        // SAFETY: an int that lives across the call, with its size.
        let result = unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_VNET_HDR,
                (&raw const on).cast(),
                size_of_val(&on) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0, "PACKET_VNET_HDR: {}", io::Error::last_os_error());
        self
    }

    /// `struct virtio_net_hdr` without offloads: only `hdr_len` is set.
    pub(crate) fn send_non_linear(&self, frame: &[u8], linear: u16) {
        let mut bytes = vec![0; 10];
        bytes[2..4].copy_from_slice(&linear.to_ne_bytes());
        bytes.extend_from_slice(frame);
        self.send(&bytes);
    }

    pub(crate) fn send(&self, frame: &[u8]) {
        // SAFETY: plain integers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = self.ifindex;
        address.sll_protocol = self.protocol.to_be();
        // SAFETY: buffer and address are live and of the sizes given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        assert!(sent >= 0, "sending a frame: {}", io::Error::last_os_error());
    }

    /// Sends many frames, not faster than they can be received.
    pub(crate) fn send_all(&self, frames: impl Iterator<Item = Vec<u8>>) {
        for (number, frame) in frames.enumerate() {
            self.send(&frame);
            if number % TRAIN == TRAIN - 1 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// A tun device of the test's own: what is written comes in there.
pub(crate) struct Tun {
    file: File,
}

impl Tun {
    /// Makes the device; it goes with this handle.
    pub(crate) fn new(netns: &Netns, device: &str) -> Self {
        let name = CString::new(device).unwrap();
        let file = inside(netns, || {
            let file = File::options().read(true).write(true).open("/dev/net/tun").unwrap();
            // SAFETY: plain integers and bytes, for which zero is a value.
            let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
            for (to, from) in request.ifr_name.iter_mut().zip(name.as_bytes()) {
                *to = *from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = IFF_TUN | IFF_NO_PI;
            // SAFETY: TUNSETIFF takes a struct ifreq, which lives across the call.
            let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
            assert_eq!(result, 0, "TUNSETIFF: {}", io::Error::last_os_error());
            file
        });
        netns.ip(&format!("link set dev {device} addrgenmode none"));
        netns.ip(&format!("link set dev {device} up"));
        Self { file }
    }

    /// Lets an IP packet come in.
    pub(crate) fn receive(&mut self, packet: &[u8]) {
        self.file.write_all(packet).unwrap();
    }
}
