//! Conversations of two crafted segments at a time, put on both ends of the pair.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use anyhow::{Result, ensure};

use crate::craft::{self, LinkLayer};
use crate::namespaces::{Pair, REMOTE_DEVICE, WAN, inside};

/// Payload of each question.
const QUESTION: u32 = 100;

/// Many connections between the gateway's side and the remote end.
pub(crate) struct Conversations {
    up: PacketSocket,
    down: PacketSocket,
}

impl Conversations {
    pub(crate) fn open(pair: &Pair) -> Result<Self> {
        let up = PacketSocket::open(&pair.gateway, WAN)?;
        Ok(Self { up, down: PacketSocket::open(&pair.remote, REMOTE_DEVICE)? })
    }

    /// Question and answer number `round` of connection `n`, in turn: a flood of questions would only fill the nursery.
    pub(crate) fn exchange(&self, n: u32, round: u32) -> Result<()> {
        let port = 10_000 + n as u16;
        let seq = 1 + round * QUESTION;
        let question = craft::up().home_port(port).seq(seq).ack(1).payload(QUESTION as usize);
        self.up.send(&question.build(LinkLayer::Ethernet).bytes)?;
        let answer = craft::down().home_port(port).seq(1).ack(seq + QUESTION);
        self.down.send(&answer.build(LinkLayer::Ethernet).bytes)
    }
}

/// Sends frames out of a device.
struct PacketSocket {
    socket: OwnedFd,
    address: libc::sockaddr_ll,
}

impl PacketSocket {
    fn open(namespace: &str, device: &str) -> Result<Self> {
        inside(namespace, || {
            let name = CString::new(device)?;
            // SAFETY: a NUL-terminated name.
            let ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
            // SAFETY: makes a descriptor; its value is checked.
            let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW, 0) };
            ensure!(
                socket >= 0 && ifindex > 0,
                "a packet socket on {device}: {}",
                io::Error::last_os_error()
            );
            // SAFETY: a new descriptor that nobody else owns.
            let socket = unsafe { OwnedFd::from_raw_fd(socket) };
            // SAFETY: plain integers, for which zero is a value.
            let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_ifindex = ifindex.cast_signed();
            Ok(Self { socket, address })
        })
    }

    fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: buffer and address are live and of the sizes given.
        let sent = unsafe {
            libc::sendto(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
                (&raw const self.address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        ensure!(sent >= 0, "sending a frame: {}", io::Error::last_os_error());
        Ok(())
    }
}
